//! Configuration of peers.

use core::fmt;
use core::net::SocketAddr;

use zeroize::Zeroize;

use super::PREPARED_LEN;

/// Configuration of a peer.
#[derive(Clone)]
pub struct Settings {
    /// its public key
    pub public: [u8; 32],
    /// its other public key, while it changes keys: the next one, or the one before
    pub other: Option<[u8; 32]>,
    /// the preshared key, or zeros
    pub preshared: [u8; 32],
    /// its address, if known; otherwise it must initiate
    pub endpoint: Option<SocketAddr>,
    /// seconds between persistent keepalives, or 0
    pub keepalive_seconds: u16,
    /// octets to prepare for each packet, at most [`PREPARED_LEN`]
    pub reach: usize,
    /// the low three bits of our indices of its sessions, if given; otherwise they are random. Of
    /// several devices with the same keys and peers, they tell which one has a peer's sessions.
    pub lane: Option<u8>,
}

impl Settings {
    /// A peer without preshared key that must initiate.
    pub const fn new(public: [u8; 32]) -> Self {
        Self {
            public,
            other: None,
            preshared: [0; 32],
            endpoint: None,
            keepalive_seconds: 0,
            reach: PREPARED_LEN,
            lane: None,
        }
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        self.preshared.zeroize();
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Identifies a peer by its index in the order of addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub usize);

/// The reason for not adding a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerError {
    /// a peer with this public key exists
    Known,
    /// the key is our own
    Ourselves,
    /// the key is a point of low order, which gives a publicly known secret
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
