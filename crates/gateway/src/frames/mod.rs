//! Frames between two ports, for every kind of protection.
//!
//! - [`gate`]: the policy
//! - [`bound`]: a bound on frames or octets a second
//! - [`observed`]: the policy that would pass what was seen
//! - [`offload`]: completes checksums, segmentation and VLAN tags that the sender's stack left to
//!   its hardware
//! - [`joiner`]: joins TCP segments to super-frames
//! - [`delivery`]: a port that sends frames and super-frames
//! - `port`: length, flow, counting and sending of a frame

pub mod bound;
pub mod delivery;
pub mod gate;
pub mod joiner;
pub mod observed;
pub mod offload;
pub(crate) mod port;
