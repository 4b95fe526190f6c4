//! Static keys that change while sessions go on: our own, and those of peers.
//!
//! A peer that changes its key has two public keys for a while. Handshakes of either are answered.
//! Ours go to the key heard last, and to the other one while there is no answer. Sessions are
//! independent of static keys (their keys come of ephemeral ones too), so they live to their end.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use super::cookie::{Checker, Marker};
use super::noise::{Identity, Secret};
use super::work::{Keys, Partner, Static};
use super::{Device, PeerError, PeerId, Settings};

/// The static keys of a device and of its peers, computed on any thread.
pub struct ReadyKeys {
    keys: Arc<Keys>,
    checker: Checker,
}

impl ReadyKeys {
    /// The keys for the device with this private key, and for peers in its order.
    ///
    /// # Errors
    /// The number of the peer and its fault.
    pub fn new<'a>(
        private: &[u8; 32],
        peers: impl IntoIterator<Item = &'a Settings>,
    ) -> Result<Self, (usize, PeerError)> {
        let identity = Arc::new(Identity::new(private));
        let of =
            |(at, settings)| Partner::new(&identity, settings).map(Arc::new).map_err(|error| (at, error));
        let partners = peers.into_iter().enumerate().map(of).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { checker: Checker::new(&identity.public), keys: Arc::new(Keys { identity, partners }) })
    }
}

impl Partner {
    pub(super) fn new(identity: &Identity, settings: &Settings) -> Result<Self, PeerError> {
        let key = |public: [u8; 32]| {
            if public == identity.public {
                return Err(PeerError::Ourselves);
            }
            let shared = identity.agree(&public).map_err(|_| PeerError::LowOrder)?;
            Ok(Static { public, shared })
        };
        let (used, other) = (key(settings.public)?, settings.other.map(key).transpose()?);
        Ok(Self { used, other, preshared: Secret::copy(&settings.preshared), lane: settings.lane })
    }
}

impl Device {
    /// Changes the static keys, but no preshared one, and keeps all sessions. The keys before are
    /// returned in `ready`, so that any thread can wipe and free them. A peer is asked for a
    /// handshake if our key or its key is another one. Returns whether our own key is another one.
    ///
    /// Nothing changes unless there is a key for each peer.
    pub fn set_keys(&mut self, now: u64, ready: &mut ReadyKeys) -> bool {
        if ready.keys.partners.len() != self.peers.len() {
            return false;
        }
        let own = ready.keys.identity.public != self.keys.identity.public;
        let mut released = Vec::new();
        let partners = &mut Arc::make_mut(&mut ready.keys).partners;
        for ((peer, before), partner) in self.peers.iter_mut().zip(&self.keys.partners).zip(partners) {
            let partner = Arc::make_mut(partner);
            partner.preshared = before.preshared.clone();
            // The key in use stays in use while the peer may have it.
            if partner.other.as_ref().is_some_and(|other| other.public == peer.public) {
                partner.exchange();
            }
            peer.other = partner.other.as_ref().map(|other| other.public);
            let another = mem::replace(&mut peer.public, partner.used.public) != partner.used.public;
            if another {
                peer.marker = Marker::new(&peer.public);
            }
            if own || another {
                // The answer to a handshake of the old key could not be read.
                released.push(peer.begun.take().map(|begun| begun.index));
                peer.want_handshake(now);
            }
        }
        released.into_iter().for_each(|index| self.release(index));
        mem::swap(&mut self.keys, &mut ready.keys);
        if own {
            mem::swap(&mut self.checker, &mut ready.checker);
        }
        own
    }

    /// The public key of a peer to which handshakes are begun: the one heard last, or tried last.
    pub fn public_of_peer(&self, peer: PeerId) -> Option<&[u8; 32]> {
        self.peers.get(peer.0).map(|peer| &peer.public)
    }

    /// Takes the other key of a peer into use, if it has two.
    pub(super) fn exchange_keys(&mut self, at: usize) {
        let Some(peer) = self.peers.get_mut(at) else { return };
        let Some(other) = &mut peer.other else { return };
        mem::swap(other, &mut peer.public);
        peer.marker = Marker::new(&peer.public);
        if let Some(partner) = Arc::make_mut(&mut self.keys).partners.get_mut(at) {
            Arc::make_mut(partner).exchange();
        }
    }
}
