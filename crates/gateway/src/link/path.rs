//! The data path of both directions.
//!
//! From the machines to the uplink: complete offloads ([`crate::frames::offload`]), apply the
//! policy ([`crate::frames::gate`]), protect, send. From the uplink to the machines: validate,
//! apply the policy, send. Each frame runs to completion before the next, and is copied at most
//! once, by the cipher.

mod exit;
mod inbound;
mod outbound;

use antedate_channel::macsec::{Receive, Transmit};
use antedate_wire::macsec::TAG_LEN_LONG;

pub use inbound::Inbound;
pub use outbound::Outbound;

/// Octets before the cipher's work in a machine's frame: the addresses.
pub const MACHINES_HEAD: usize = 12;
/// Octets before the cipher's work in a protected frame: the addresses and the SecTAG.
pub const PROTECTED_HEAD: usize = MACHINES_HEAD + TAG_LEN_LONG;

/// The protection of outgoing frames.
#[derive(Debug)]
pub enum Protector {
    /// IEEE 802.1AE.
    Macsec(Box<Transmit>),
    /// None.
    Plain,
}

/// The validation of incoming frames.
#[derive(Debug)]
pub enum Validator {
    /// IEEE 802.1AE.
    Macsec(Box<Receive>),
    /// None.
    Plain,
}
