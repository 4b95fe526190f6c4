//! An overlay: the field of machines on one side, other sites behind UDP on the other.
//!
//! A frame's way out, in one thread from the ring of the field port to the socket: policy, which peers it is for ([`table`]),
//! VXLAN's headers in front, sealed by WireGuard with what was prepared, sent. The way in mirrors it.
//!
//! - [`path`]: that way, both directions
//! - [`peers`]: what is known of the other ends, and what two Antedate ends agree on
//! - [`table`]: which machine is behind which peer
//! - [`storm`]: a bound on frames that go to everybody
//! - [`class`]: the class of a frame, carried outward
//! - [`worker`]: the forwarding thread, and what others ask of it
//! - [`daemon`]: the steward of an overlay
//! - [`report`]: what it tells of itself

pub mod class;
pub mod daemon;
pub mod path;
pub mod peers;
pub mod report;
pub mod storm;
pub mod table;
pub mod worker;
