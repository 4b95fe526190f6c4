//! Frames between two ports, whatever protects them.
//!
//! - [`gate`]: the policy: which frames pass
//! - [`offload`]: checksums, segments and VLAN tags that the sender's stack left to its hardware
//! - [`joiner`]: joins TCP segments to super-frames; [`delivery`]: a port that sends them
//! - `port`: length, flow, counting and sending of a frame

pub mod delivery;
pub mod gate;
pub mod joiner;
pub mod offload;
pub(crate) mod port;
