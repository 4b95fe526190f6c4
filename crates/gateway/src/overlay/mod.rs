//! An overlay: the field of machines on one side, other sites behind UDP on the other.
//!
//! A frame's way out, in one thread from the ring of the field port to the socket: policy, which peers it is for ([`table`]),
//! VXLAN's headers in front, sealed by WireGuard with what was prepared, sent. The way in mirrors it.
//!
//! - [`path`]: a turn of that way, both directions
//! - `outbound`, `carrier`: from the field to the peers, whole or in parts
//! - `inbound`: from the peers to the field
//! - `state`: what both directions share, and what is done when it is due
//! - `uplink`: where datagrams come from and leave by: the interface itself, and a socket for what needs the kernel
//! - `handshakes`: the thread that works handshakes out
//! - `datagram`: the headers around datagrams on the interface
//! - `wires`: what the steward knows of an uplink
//! - `hops`, `neighbours`: over whom a peer is reached
//! - [`drops`]: what is dropped, by reason
//! - `world`: clocks and random numbers
//! - [`peers`]: what is known of the other ends, and what two Antedate ends agree on
//! - [`table`]: which machine is behind which peer
//! - [`release`]: a buffer that takes the jitter out of cyclic frames
//! - [`second`]: a second uplink, with a copy of each datagram
//! - [`storm`]: a bound on frames that go to everybody
//! - [`class`]: the class of a frame, carried outward
//! - [`worker`]: the forwarding thread, and what others ask of it
//! - [`daemon`]: the steward of an overlay
//! - [`report`]: what it tells of itself

mod carrier;
mod census;
pub mod class;

pub mod daemon;
mod datagram;
pub mod drops;
mod handshakes;
mod hops;
mod inbound;
mod letter;
mod neighbours;
mod outbound;
pub mod path;
pub mod peers;
pub mod release;
pub mod report;
pub mod second;
mod snapshot;
mod state;
pub mod storm;
pub mod table;
mod uplink;
pub(crate) mod wires;
pub mod worker;
mod world;
