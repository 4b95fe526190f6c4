//! Peers that come and go while others exchange packets.
//!
//! The secret shared with a peer takes a multiplication on the curve, so a [`ReadyPeer`] is
//! computed on any thread. Removed peers are returned, so that any thread can wipe and free them.

use alloc::sync::Arc;

use subtle::ConstantTimeEq as _;

use super::noise::{Identity, Secret};
use super::peer::Peer;
use super::work::Partner;
use super::{Device, PeerError, PeerId, Settings};

/// A peer that can join a device at once.
pub struct ReadyPeer {
    peer: Peer,
    partner: Arc<Partner>,
}

/// A peer that was removed, with its keys. They are wiped on drop.
pub struct GonePeer {
    _peer: Peer,
    _partner: Arc<Partner>,
}

impl ReadyPeer {
    /// A peer for the device with this private key.
    pub fn new(private: &[u8; 32], settings: &Settings) -> Result<Self, PeerError> {
        Self::of(&Identity::new(private), settings)
    }

    pub(super) fn of(identity: &Identity, settings: &Settings) -> Result<Self, PeerError> {
        let partner = Arc::new(Partner::new(identity, settings)?);
        Ok(Self { peer: Peer::new(settings), partner })
    }
}

impl Device {
    /// Adds a peer, the last one from now on. The caller knows that no other peer has its public
    /// key.
    pub fn join(&mut self, ready: ReadyPeer) -> PeerId {
        debug_assert!(self.peer(&ready.peer.public).is_none(), "one peer for each public key");
        Arc::make_mut(&mut self.keys).partners.push(ready.partner);
        self.peers.push(ready.peer);
        PeerId(self.peers.len() - 1)
    }

    /// Removes a peer with its sessions. The numbers of later peers decrease by one. A handshake
    /// with it that another thread computes comes to nothing.
    pub fn remove_peer(&mut self, peer: PeerId) -> Option<GonePeer> {
        let PeerId(at) = peer;
        if at >= self.peers.len() {
            return None;
        }
        self.indices.retain(|_, place| *place != at);
        self.indices.values_mut().filter(|place| **place > at).for_each(|place| *place -= 1);
        self.recent = None;
        let partner = Arc::make_mut(&mut self.keys).partners.remove(at);
        Some(GonePeer { _peer: self.peers.remove(at), _partner: partner })
    }

    /// Changes the preshared key of a peer. Returns whether it is another one; then a handshake is
    /// requested. The sessions go on until their end, three minutes after their handshake: until
    /// then the other end has to have the key.
    pub fn set_preshared(&mut self, now: u64, peer: PeerId, preshared: &[u8; 32]) -> bool {
        let Some(partner) = self.keys.partners.get(peer.0) else { return false };
        if bool::from(partner.preshared[..].ct_eq(&preshared[..])) {
            return false;
        }
        let other = Partner { preshared: Secret::copy(preshared), ..Partner::clone(partner) };
        if let Some(place) = Arc::make_mut(&mut self.keys).partners.get_mut(peer.0) {
            *place = Arc::new(other);
        }
        if let Some(peer) = self.peers.get_mut(peer.0) {
            peer.preshared_since = now;
            peer.want_handshake(now);
        }
        true
    }

    /// Changes the interval of persistent keepalives in seconds. 0: none.
    pub fn set_keepalive(&mut self, now: u64, peer: PeerId, seconds: u16) {
        if let Some(peer) = self.peers.get_mut(peer.0) {
            peer.set_keepalive(now, seconds);
        }
    }
}
