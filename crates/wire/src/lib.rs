//! Formats of industrial Ethernet, without crypto, without allocation and without `unsafe`.
//!
//! Each file is one format, in one order: the enums of its fields, its addresses, a borrowed view
//! (`Frame`) that reads and writes single fields where they lie, an owned `Repr` that is a whole header
//! understood, tests. A view exists only over bytes that were checked to hold its fixed fields, so a
//! getter cannot fail; every enum that is read from the wire is total, with an `Unknown` for the rest.
//!
//! From the outside in, a frame is
//!
//! - [`ethernet`]: two addresses and an EtherType,
//! - [`vlan`]: the 802.1Q and 802.1ad tags before the EtherType that matters,
//! - [`macsec`]: the SecTAG of IEEE 802.1AE, with the reasons why one is refused,
//! - [`mka`]: the messages of MACsec Key Agreement (IEEE 802.1X),
//! - what machines say to each other: [`profinet`] (cyclic data of RT class 1), [`dcp`] (its names and
//!   addresses), [`goose`], [`lldp`], [`arp`],
//! - messages whose layout does not depend on their values, so that most of them is known early: [`goose`], [`ppmp`] (over [`json`]),
//!   [`sparkplug`], [`modbus`], and [`template`], which finds in examples what moves,
//! - [`tlv`]: messages of type, length and value, sorted so that what is known stands in front,
//! - what sensors say by radio: [`dot15d4`], the MAC frames of IEEE 802.15.4,
//! - what devices say over UDP: [`dtls`], the records and the handshake messages of DTLS 1.2,
//! - what they say through brokers: [`mqtt`], the envelope of a protected payload,
//! - what a port of a host must understand to complete a checksum or cut a super-frame that a network card
//!   would have completed or cut: [`ipv4`], [`ipv6`], [`tcp`], [`udp`], [`checksum`],
//! - what carries frames over networks that know IP alone: [`vxlan`], and [`wireguard`] around it.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod bytes;
mod error;
#[macro_use]
mod macros;

pub mod arp;
pub mod checksum;
pub mod dcp;
pub mod dot15d4;
pub mod dtls;
pub mod ethernet;
pub mod goose;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod json;
pub mod lldp;
pub mod macsec;
pub mod mka;
pub mod modbus;
pub mod mqtt;
pub mod ppmp;
pub mod profinet;
pub mod sparkplug;
pub mod tcp;
pub mod template;
pub mod tlv;
pub mod udp;
pub mod vlan;
pub mod vxlan;
pub mod wireguard;

pub use error::{Error, Result};
pub use ethernet::{Address as EthernetAddress, EtherType, Frame as EthernetFrame, Repr as EthernetRepr};
pub use macsec::{Sci, SecTag};
pub use profinet::{CyclicFrame, CyclicRepr, FrameId};
pub use vlan::{Tag as VlanTag, TagStack as VlanTagStack};
