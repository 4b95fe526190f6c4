//! An overlay: machines of the field on one side, peers behind UDP on the other.
//!
//! One thread takes a frame from the ring of the field port, applies the policy, finds the peers
//! ([`table`]), writes VXLAN's headers, encrypts with prepared key stream and sends. The other
//! direction mirrors it.
//!
//! - [`path`]: one turn of both directions
//! - `outbound`, `carrier`: from the field to the peers, whole or in parts
//! - `inbound`: from the peers to the field
//! - `state`: the state that both directions share, and timers
//! - `discover`, [`search`]: the path MTU of each peer
//! - `ping`: echoes for the operator
//! - `uplink`: the packet ring and the socket of an uplink
//! - `datagram`: headers of datagrams on the interface
//! - `wires`: opens and reopens an uplink
//! - `hops`, `neighbours`: next hops of the peers
//! - [`change`], `exchange`: settings and peers that change between two frames
//! - `handshakes`: the handshake thread
//! - [`drops`]: counters of dropped frames
//! - `world`: clocks and random numbers
//! - [`peers`]: the state of each peer, and messages between Antedate peers
//! - [`table`]: the address table
//! - [`release`]: a buffer that removes the jitter of cyclic frames
//! - [`second`]: a second uplink, with a copy of each datagram
//! - [`class`]: DSCP and ECN of datagrams
//! - `alive`: link loss forwarding
//! - `announcement`, `reserved`: frames that announce a machine, and that no bridge forwards
//! - [`news`]: what the main thread logs
//! - `names`: resolves host names of peers
//! - [`worker`]: the forwarding thread; `message`: messages to it; [`workers`]: several of them
//! - [`daemon`]: the main thread
//! - [`report`], `snapshot`, `census`: the status; `symptoms`: what goes wrong, for the watch

mod alive;
mod announcement;
mod ask;
mod carrier;
mod census;
pub mod change;
pub mod class;

pub mod daemon;
mod datagram;
mod discover;
pub mod drops;
mod exchange;
mod handshakes;
mod hops;
mod inbound;
mod message;
mod names;
mod neighbours;
pub mod news;
mod outbound;
pub mod path;
pub mod peers;
mod ping;
pub mod release;
pub mod report;
mod reserved;
pub mod search;
pub mod second;
mod snapshot;
mod state;
mod symptoms;
pub mod table;
mod uplink;
pub(crate) mod wires;
pub mod worker;
pub mod workers;
mod world;
