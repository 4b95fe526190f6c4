//! Link-layer security of IEEE 802.15.4-2015 (clause 9), with frame counters and for TSCH, and the slots of TSCH.
//!
//! A [`Security`] is one device: its keys, the devices that it knows, and the [`Policy`] of what it accepts.
//! [`Security::secure`] and [`Security::unsecure`] follow the procedures of clauses 9.2.1 and 9.2.3 from top to bottom, and refuse
//! with the standard's names ([`Status`]).
//!
//! Around the standard there are rules of our own:
//!
//! - Numbers, that is frame counters and slots, are used below a *reservation* only ([`Security::reserve_until`]): whoever raises it has
//!   made it durable before. A slot number may seem to need none, since time moves on. But a device that restarts learns the slot from
//!   a beacon, and an old beacon replayed must not make it use its nonces again.
//! - A key is for nonces of one kind ([`NonceKind`]), for a slot number can equal a frame counter with a level behind it.
//! - A key that was removed is not installed again (the last sixteen are remembered), and none is installed under two names.
//! - One frame is accepted per device, key and slot, as nonces want it.
//! - Level 4, whose frames anybody can change on their way, is off unless configured.

mod cipher;
mod device;
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
pub use key::{InstallError, KEY_LEN, KeyConfig, KeyLookup, LinkKey};
pub use nonce::NonceKind;
pub use policy::{COMMAND_RULES, LevelRule, Levels, Policy, Usage};
pub use rekey::{Change, KEY_CHANGE_LEN, KeyChange};
pub use security::{Config, Protection, Received, Security};
pub use status::{Counters, Status};
