//! Formats of industrial Ethernet, without crypto, without allocation and without `unsafe`.
//!
//! Each file is one format, in one order: the enums of its fields, its addresses, a borrowed view
//! (`Frame`) that reads and writes single fields in place, an owned `Repr` of a whole header,
//! tests. A view exists only over bytes that hold its fixed fields, so a getter cannot fail. Every
//! wire enum is total, with an `Unknown` for values without a name.
//!
//! The formats, from the outside in:
//!
//! - [`ethernet`]: two addresses and an EtherType,
//! - [`vlan`]: 802.1Q and 802.1ad tags before the payload's EtherType,
//! - [`macsec`]: the SecTAG of IEEE 802.1AE, with the reasons to refuse one,
//! - [`mka`]: the messages of MACsec Key Agreement (IEEE 802.1X),
//! - traffic between machines: [`profinet`] (cyclic data of RT class 1, alarms, connections over
//!   [`dcerpc`]), [`dcp`] (names and addresses of Profinet), [`goose`] (and [`routed`] over UDP),
//!   [`lldp`], [`arp`],
//! - messages with a layout that does not depend on their values, for templates: [`goose`],
//!   [`ppmp`] (over [`json`]), [`sparkplug`], [`modbus`], and [`template`], which finds the
//!   changing bytes in examples,
//! - [`tlv`]: messages of type, length and value, sorted with the known bytes first,
//! - radio frames of sensors: [`dot15d4`], the MAC frames of IEEE 802.15.4,
//! - UDP devices: [`dtls`], the records and the handshake messages of DTLS 1.2,
//! - MQTT: [`mqtt`], the envelope of a protected payload,
//! - clocks: [`ptp`], the messages of IEEE 1588 and IEEE 802.1AS,
//! - offloads of network cards, for completing a checksum or cutting a super-frame: [`ipv4`],
//!   [`ipv6`], [`tcp`], [`udp`], [`checksum`],
//! - Ethernet over IP networks: [`vxlan`], and [`wireguard`] around it.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod bytes;
mod error;
mod hex;
#[macro_use]
mod macros;

pub mod arp;
pub mod checksum;
pub mod dcerpc;
pub mod dcp;
pub mod dot15d4;
pub mod dtls;
pub mod echo;
pub mod ethernet;
pub mod goose;
pub mod hello;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod json;
pub mod link_local;
pub mod lldp;
pub mod macsec;
pub mod mka;
pub mod modbus;
pub mod mqtt;
pub mod ppmp;
pub mod probe;
pub mod profinet;
pub mod ptp;
pub mod routed;
pub mod sampled;
pub mod sparkplug;
pub mod standby;
pub mod tcp;
pub mod template;
pub mod tlv;
pub mod udp;
pub mod vlan;
pub mod vxlan;
pub mod wireguard;

pub use error::{Error, Result};
pub use ethernet::{Address as EthernetAddress, EtherType, Frame as EthernetFrame, Repr as EthernetRepr};
pub use hex::Hex;
pub use macsec::{Sci, SecTag};
pub use profinet::{CyclicFrame, CyclicRepr, FrameId};
pub use vlan::{Tag as VlanTag, TagStack as VlanTagStack};
