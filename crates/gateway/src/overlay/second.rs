//! A second uplink between two Antedate peers. Each datagram is sent on both, and the receiver
//! takes the first of the two copies. As in IEEE 802.1CB the copies have one sequence number, here
//! WireGuard's authenticated counter, and the replay window drops the second copy.
//!
//! Addresses on the second uplink are fixed by the configuration. Peers do not roam there;
//! datagrams from other addresses are dropped.

use std::net::{IpAddr, SocketAddr};

use antedate_channel::wireguard::PeerId;

use super::state::Core;
use crate::config::uplink::Which;

impl Core {
    /// Whether a peer has this address on the second uplink.
    pub(super) fn is_second_peer(&self, ip: IpAddr) -> bool {
        self.peers.iter().any(|peer| peer.settings.second_endpoint.is_some_and(|at| at.ip() == ip))
    }

    /// Handles a datagram from the second uplink.
    pub(super) fn inbound_second(
        &mut self,
        now: u64,
        datagram: &mut [u8],
        from: SocketAddr,
        ecn: u8,
        heard: &mut impl FnMut(u32) -> u64,
    ) {
        if !self.is_second_peer(from.ip()) {
            self.drops.stranger += 1;
            return;
        }
        self.doubles.received += 1;
        self.inbound(now, Which::Second, datagram, from, ecn, heard);
    }

    /// Sends a message to a peer on the second uplink as well.
    pub(super) fn repeat(&mut self, peer: PeerId, octets: &[u8]) {
        let to = self.peers.get(peer.0).and_then(|peer| peer.settings.second_endpoint);
        if let Some((second, to)) = self.second.as_mut().zip(to)
            && let Some(room) = second.place(&self.out)
        {
            room[..octets.len()].copy_from_slice(octets);
            second.put_by_socket(octets.len(), to);
        }
    }
}
