//! Messages of other threads to the forwarding thread of an overlay.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::mpsc::Sender as Answer;

use antedate_channel::overlay::message::Alive;
use antedate_channel::wireguard::Done;

use super::ask::Ask;
use super::change::Change;
use super::snapshot::Snapshot;
use super::uplink::Port;
use super::workers::Passed;
use crate::config::overlay::Host;
use crate::config::uplink::Which;
use crate::frames::delivery::Delivery;
use crate::sys::lanes::Lanes;
use crate::sys::route::Hop;

/// A message to the forwarding thread.
pub enum Message {
    /// Send a snapshot of the state.
    Snapshot(Answer<Snapshot>),
    /// Send an echo to a peer.
    Ping(Ask),
    /// Tell all peers that this end lives.
    Alive(Alive),
    /// Start new sessions with all peers.
    Rekey,
    /// Use this field port: the interface was replaced or has another MTU.
    Field(Lanes, Delivery, usize),
    /// Use this uplink, for the same reasons.
    Uplink(Which, Port, usize),
    /// An uplink has another link address.
    Link(Which, [u8; 6]),
    /// Take over other settings and peers. The answer returns the replaced ones.
    Change(Box<Change>, Answer<Box<Change>>),
    /// The address of the peers with this host name.
    Endpoint(Host, SocketAddr),
    /// The kernel's path MTU to an address. `None` without a route.
    Path(Which, SocketAddr, Option<usize>),
    /// A job of a handshake is done.
    Handshake(Done),
    /// One of another worker is done, and is about a peer of this one.
    Finish(Done),
    /// A frame for a peer of this worker.
    Frame(Passed),
    /// The next hop to an address. `None` if the kernel knows none.
    Hop(Which, SocketAddrV4, Option<Hop>),
    /// Stop forwarding and end.
    Stop,
}
