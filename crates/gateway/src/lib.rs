//! The gateway: a Linux daemon between machines that cannot encrypt and a network that cannot be
//! trusted.
//!
//! Folders, lowest first; each depends only on earlier ones:
//!
//! - [`sys`]: system calls: packet rings, UDP sockets, threads. The only `unsafe` of this crate
//! - [`config`]: configuration and key files, with all faults reported together
//! - [`run`]: the loop of a forwarding thread, its governor, mailbox and counters; control socket
//!   and status
//! - [`frames`]: policy, offloads, joining of segments, ports
//! - [`link`]: MACsec on the uplink: data path, key agreement, packet numbers on disk
//! - [`overlay`]: VXLAN in WireGuard on the uplink
//!
//! [`daemon`] starts `link` or `overlay`.

pub mod config;
pub mod daemon;
pub mod frames;
pub mod link;
pub mod overlay;
pub mod run;
pub mod sys;
