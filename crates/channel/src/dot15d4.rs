//! Link-layer security of IEEE 802.15.4-2015 (clause 9), with frame counters and for TSCH, and the
//! slots of TSCH.
//!
//! A [`Security`] is one device: its keys, the devices it knows, and its [`Policy`] for accepting
//! frames. [`Security::secure`] and [`Security::unsecure`] follow the procedures of clauses 9.2.1
//! and 9.2.3 from top to bottom, and refuse with the standard's names ([`Status`]).
//!
//! Rules of our own are stricter than the standard:
//!
//! - Numbers (frame counters and slots) are used below a *reservation* only
//!   ([`Security::reserve_until`]). The caller makes a reservation durable before raising it. Slot
//!   numbers need this too: a device that restarts learns the slot from a beacon, and a replayed
//!   old beacon must not make it repeat nonces.
//! - A key is for nonces of one kind ([`NonceKind`]), because a slot number can equal a frame
//!   counter followed by a level.
//! - A removed key is not installed again (the last sixteen are remembered), and no key is
//!   installed under two names.
//! - One frame is accepted per device, key and slot, because nonces allow only one.
//! - Level 4, whose frames can be changed in transit, is off unless configured.

mod cipher;
#[cfg(feature = "cojp")]
pub mod cojp;
mod device;
mod join;
mod key;
mod nonce;
mod policy;
mod rekey;
mod security;
mod status;
pub mod tsch;

#[cfg(test)]
mod tests;

pub use antedate_wire::dot15d4::{
    Address, Addressing, Asn, ExtendedAddress, FrameType, Header, KeyIdentifier, PanId, SecurityLevel,
    ShortAddress,
};
pub use device::Device;
pub use join::{Invitation, WELL_KNOWN_K1};
pub use key::{InstallError, KEY_LEN, KeyConfig, KeyLookup, LinkKey};
pub use nonce::NonceKind;
pub use policy::{COMMAND_RULES, LevelRule, Levels, Policy, Usage};
pub use rekey::{Change, KEY_CHANGE_LEN, KeyChange};
pub use security::{Config, Protection, Received, Security};
pub use status::{Count, Counters, Status};
