//! What comes of a packet, of a datagram, and of the time that passes.

use core::fmt;
use core::net::SocketAddr;
use core::ops::Range;

use zeroize::Zeroizing;

use super::PeerId;

/// Why a packet was not sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// there is no such peer
    NoPeer,
    /// there is no session yet; a handshake is due
    NoSession,
    /// it is not known where the peer is
    NoEndpoint,
    /// the buffer has no room for padding and tag
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

/// What a datagram was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A packet, which lies there in the datagram now, with up to 15 octets of padding.
    Packet {
        /// who sent it
        peer: PeerId,
        /// where it lies
        range: Range<usize>,
        /// whether the peer sends from another address than before
        roamed: bool,
    },
    /// A sign of life.
    Keepalive {
        /// who sent it
        peer: PeerId,
    },
    /// The first message of a handshake: so many octets of answer are to be sent back.
    Answer {
        /// the octets in the answer's buffer
        len: usize,
    },
    /// The second message of a handshake: there is a session.
    Session {
        /// with whom
        peer: PeerId,
    },
    /// A message of a handshake whose answer takes long: see [`take_job`](super::Device::take_job).
    Pending,
    /// A cookie, for the next try.
    Cookie {
        /// who gave it
        peer: PeerId,
    },
}

/// What came of a [`Job`](super::Job).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finished {
    /// A message is to be sent: the first one of a handshake of ours.
    Begun(Outgoing),
    /// A message is to be sent: the answer to the first one of a peer.
    Answered(Outgoing),
    /// There is a session.
    Session {
        /// with whom
        peer: PeerId,
    },
}

/// What `tshark` needs to read a session.
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
    /// to which peer
    pub peer: PeerId,
    /// at which address
    pub to: SocketAddr,
    /// octets in the buffer
    pub len: usize,
}
