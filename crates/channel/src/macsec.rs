//! MACsec: protecting and validating frames (IEEE 802.1AE-2018).
//!
//! [`Transmit`] is one transmit secure channel with up to four secure associations, one of which
//! encodes. [`Receive`] is the receive secure channels of all peers. [`Transmit::protect`] (clause
//! 10.5) and [`Receive::validate`] (clause 10.6) show a frame's path from top to bottom.
//!
//! Each association has a pool of packet numbers whose key stream is prepared in idle time
//! ([`Transmit::idle`], [`Receive::idle`]). Preparation does not change the frames. Another thread
//! expands and prepares a new key ([`ReadyTransmit`], [`ReadyReceive`]) and wipes an old one
//! ([`Retired`]).
//!
//! Three rules are stricter than the standard:
//!
//! - Packet numbers are used below a *reservation* only ([`Transmit::reserve_until`]). The caller
//!   makes a reservation durable before raising it, so no number repeats after a crash.
//! - A reinstalled key continues above the numbers it has used, on both sides. A key is never
//!   installed under two association numbers at once, because the nonce does not contain that
//!   number.
//! - Within the replay window a number is accepted once ([`crate::replay`]).

mod counters;
mod express;
mod flows;
mod further;
mod history;
mod packet_number;
mod paged;
mod pool;
mod receive;
mod sak;
mod suite;
mod template;
mod transmit;
mod warm;

#[cfg(test)]
mod tests;

pub use antedate_wire::macsec::{An, Sci, SecTagError};
pub use counters::{ReceiveCounters, TransmitCounters};
pub use express::{express_sci, express_ssci};
pub use flows::{FLOW_BLOCKS, FLOWS, FlowShape};
pub use further::{CHANNELS_MAX, channel_sci, channel_scis, channel_ssci};
pub use pool::{PREPARED_LEN, Retired, SLOTS};
pub use receive::{
    Discard, PeerError, ReadyReceive, Receive, ReceiveConfig, ReceiveInstallError, ReceiveSaStatus,
    ValidateFrames,
};
#[cfg(feature = "mka")]
pub(crate) use sak::MAX_KEY_LEN;
pub use sak::{Sak, SakError};
pub use suite::{CipherSuite, UnknownCipherSuiteError};
pub use transmit::{
    ProtectError, ReadyTransmit, SciMode, SwitchError, Transmit, TransmitConfig, TransmitConfigError,
    TransmitInstallError, TransmitSaStatus,
};
pub use warm::{Accept, ProtectInPlace, Rehearsal};

/// Octets of the two addresses before the SecTAG.
const ADDRESSES_LEN: usize = 12;
