//! Points of the laboratory that the planner is judged by (`antedate plan --verify`): packets of the
//! emulated motes, and messages between applications of this machine, plain, sealed, and through the
//! DTLS proxies.

use antedate_plan::device::Cipher;

mod host;
mod motes;

pub use host::{CALIBRATED, Measured, RELAYED, SEALED, Sealed, measure};
pub use motes::counted;

/// A packet whose latency was counted on a mote.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Name of the mote in the planner.
    pub device: &'static str,
    /// The cipher.
    pub cipher: Cipher,
    /// Whether the packet was prepared.
    pub antedated: bool,
    /// Octets of payload.
    pub size: usize,
    /// Octets of payload known before: with CCM the first ones.
    pub known: usize,
    /// Whether opening counts too.
    pub opened: bool,
    /// The counts, in the device's unit.
    pub counts: f64,
}
