//! Who is a peer.

use core::fmt;
use core::net::SocketAddr;

use super::PREPARED_LEN;

/// A peer to be.
#[derive(Clone)]
pub struct Settings {
    /// its public key
    pub public: [u8; 32],
    /// the preshared key, zeros for none
    pub preshared: [u8; 32],
    /// where it is, if that is known; otherwise it has to begin
    pub endpoint: Option<SocketAddr>,
    /// a keepalive every so many seconds, 0 for none
    pub keepalive_seconds: u16,
    /// octets of packets that are prepared, [`PREPARED_LEN`] at most
    pub reach: usize,
}

impl Settings {
    /// A peer without preshared key that has to begin.
    pub const fn new(public: [u8; 32]) -> Self {
        Self { public, preshared: [0; 32], endpoint: None, keepalive_seconds: 0, reach: PREPARED_LEN }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Which peer: its place in the order in which they were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub usize);

/// Why a peer cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerError {
    /// there is one with this public key
    Known,
    /// the key is our own
    Ourselves,
    /// the key is a point of low order, with which everybody agrees on the same secret
    LowOrder,
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Known => "there is a peer with this public key",
            Self::Ourselves => "the public key is our own",
            Self::LowOrder => "the public key is not one that a key generator makes",
        })
    }
}

impl core::error::Error for PeerError {}
