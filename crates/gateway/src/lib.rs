//! The gateway: a Linux daemon between machines that cannot encrypt and a network that cannot be trusted.
//!
//! Folders, in the order of their dependencies, lowest first:
//!
//! - [`sys`]: system calls: ports as AF_PACKET rings, UDP sockets, threads; the only `unsafe` of this crate
//! - [`config`]: every file that the gateway reads, keys too, with all their faults at once
//! - [`run`]: the loop of a forwarding thread, its governor, mailbox and counters; control socket and status
//! - [`frames`]: policy, offloads, joining of segments, ports
//! - [`link`]: MACsec on the uplink: data path, key agreement, packet numbers on disk
//! - [`overlay`]: VXLAN in WireGuard on the uplink
//!
//! [`daemon`] starts one of the two.

pub mod config;
pub mod daemon;
pub mod frames;
pub mod link;
pub mod overlay;
pub mod run;
pub mod sys;
