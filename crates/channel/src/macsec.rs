//! MACsec: protecting and validating frames (IEEE 802.1AE-2018).
//!
//! A [`Transmit`] is one transmit secure channel with up to four secure associations, of which one encodes; a
//! [`Receive`] is the receive secure channels of the peers. What each frame goes through is told in
//! [`Transmit::protect`] (clause 10.5) and [`Receive::validate`] (clause 10.6), from top to bottom.
//!
//! Each association has a pool of packet numbers whose cipherstream is prepared in idle time
//! ([`Transmit::idle`], [`Receive::idle`]). The frames are the same with and without it. A new key is expanded and prepared
//! on another thread ([`ReadyTransmit`], [`ReadyReceive`]), and an old one is wiped there ([`Retired`]).
//!
//! Around the standard there are three rules of our own:
//!
//! - Packet numbers are given out below a *reservation* only ([`Transmit::reserve_until`]). Whoever raises it has
//!   made it durable before, so that no number is given again after a crash.
//! - A key that is installed once more goes on above the numbers it has used, on both sides, and is not
//!   installed under two association numbers at once, for the nonce does not contain that number.
//! - Within the replay window a number is accepted once ([`crate::replay`]).

mod counters;
mod flows;
mod history;
mod packet_number;
mod pool;
mod receive;
mod rehearsal;
mod sak;
mod suite;
mod template;
mod transmit;

#[cfg(test)]
mod tests;

pub use antedate_wire::macsec::{An, Sci, SecTagError};
pub use counters::{ReceiveCounters, TransmitCounters};
pub use flows::{FLOW_BLOCKS, FLOWS, FlowShape};
pub use pool::{PREPARED_LEN, Retired, SLOTS};
pub use receive::{
    Discard, PeerError, ReadyReceive, Receive, ReceiveConfig, ReceiveInstallError, ReceiveSaStatus,
    ValidateFrames,
};
pub use rehearsal::{Accept, ProtectInPlace, Rehearsal};
pub use sak::{InvalidSak, Sak};
pub use suite::{CipherSuite, UnknownCipherSuite};
pub use transmit::{
    ProtectError, ReadyTransmit, SciMode, SwitchError, Transmit, TransmitConfig, TransmitConfigError,
    TransmitInstallError, TransmitSaStatus,
};
