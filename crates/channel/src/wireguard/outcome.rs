//! Results of packets, datagrams and timers.

use core::fmt;
use core::net::SocketAddr;
use core::ops::Range;

use zeroize::Zeroizing;

use super::PeerId;

/// The reason for not sealing a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// there is no such peer
    NoPeer,
    /// there is no session yet; a handshake is due
    NoSession,
    /// the peer's address is unknown
    NoEndpoint,
    /// the buffer does not fit padding and tag
    NoRoom,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPeer => "no such peer",
            Self::NoSession => "no session yet",
            Self::NoEndpoint => "the peer's address is not known",
            Self::NoRoom => "no room for padding and tag",
        })
    }
}

impl core::error::Error for SendError {}

/// The result of a datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A packet, opened in place, with up to 15 octets of padding.
    Packet {
        /// its sender
        peer: PeerId,
        /// its range in the datagram
        range: Range<usize>,
        /// whether the peer's address has changed
        roamed: bool,
    },
    /// A keepalive.
    Keepalive {
        /// its sender
        peer: PeerId,
    },
    /// The first message of a handshake. The answer is to be sent back.
    Answer {
        /// the length of the answer
        len: usize,
    },
    /// The second message of a handshake. The session is established.
    Session {
        /// its peer
        peer: PeerId,
    },
    /// A handshake message with an expensive answer: see [`take_job`](super::Device::take_job).
    Pending,
    /// A cookie for the next attempt.
    Cookie {
        /// its sender
        peer: PeerId,
    },
}

/// The result of a [`Job`](super::Job).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finished {
    /// Our initiation is to be sent.
    Begun(Outgoing),
    /// Our response to a peer's initiation is to be sent.
    Answered(Outgoing),
    /// A session is established.
    Session {
        /// its peer
        peer: PeerId,
    },
}

/// The keys of a session, for `tshark`.
pub struct KeyLogEntry {
    /// our static private key
    pub local_static: Zeroizing<[u8; 32]>,
    /// our ephemeral private key
    pub local_ephemeral: Zeroizing<[u8; 32]>,
    /// the peer's public key
    pub remote_static: [u8; 32],
    /// the preshared key
    pub preshared: Zeroizing<[u8; 32]>,
}

/// A message to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// its peer
    pub peer: PeerId,
    /// its destination
    pub to: SocketAddr,
    /// octets in the buffer
    pub len: usize,
}
