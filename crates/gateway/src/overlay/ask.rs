//! An echo that the operator asks the forwarding thread for, and its result.

use std::sync::mpsc::Sender;

use crate::config::uplink::Which;

/// An echo to send. Lengths are those of a machine's frame that would travel in such a packet.
#[derive(Debug)]
pub struct Ask {
    /// The index of the peer.
    pub peer: usize,
    /// The uplink.
    pub which: Which,
    /// Octets of the request.
    pub octets: usize,
    /// Octets of the answer.
    pub wanted: usize,
    /// Receives the result.
    pub result: Sender<Result<Answer, Unanswered>>,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Nanoseconds from request to answer.
    pub took: u64,
    /// Octets of the answer. `None`: a stock end, which fragments as it likes.
    pub back: Option<usize>,
    /// Octets of the longest frame that the uplink carries in one datagram.
    pub longest: usize,
}

/// The reason for no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// The peer has no address on this uplink.
    NoEndpoint,
    /// The uplink carries frames of this many octets in one datagram.
    TooLong(usize),
    /// No answer in time.
    Lost,
}
