//! Requests of other threads to the forwarding thread of an overlay.

use std::net::SocketAddrV4;
use std::sync::mpsc::Sender as Answer;

use antedate_channel::wireguard::Done;

use super::snapshot::Snapshot;
use super::uplink::Port;
use crate::config::uplink::Which;
use crate::frames::delivery::Delivery;
use crate::sys::packet::Receiver;
use crate::sys::route::Hop;

/// What the other threads ask.
pub enum Letter {
    /// Tell the state of all there is.
    Snapshot(Answer<Snapshot>),
    /// Make new sessions with all peers now.
    Rekey,
    /// Use this field port from now on, for the interface was replaced or has another MTU.
    Field(Receiver, Delivery, usize),
    /// Use this uplink from now on, likewise.
    Uplink(Which, Port, usize),
    /// A part of a handshake is done.
    Handshake(Done),
    /// The next hop towards an address, or that the kernel knows none.
    Hop(Which, SocketAddrV4, Option<Hop>),
    /// Send no more and end.
    Stop,
}
