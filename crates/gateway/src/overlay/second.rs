//! A second uplink between two Antedate ends: each datagram leaves by both, and of its two copies the receiver takes the one that
//! comes first. As in IEEE 802.1CB the copies have one sequence number, here WireGuard's counter, which is authenticated, and the
//! window that refuses replays eliminates the second copy.
//!
//! The addresses on the second uplink are those of the configuration: nobody roams there, what comes from elsewhere is
//! dropped, and what comes tells nothing of where a peer is on the first one.

use std::net::{IpAddr, SocketAddr};

use antedate_channel::wireguard::PeerId;

use super::state::Core;
use crate::config::uplink::Which;

impl Core {
    /// Whether there is a peer at an address of the second uplink.
    pub(super) fn is_second_peer(&self, ip: IpAddr) -> bool {
        self.peers.iter().any(|peer| peer.settings.second_endpoint.is_some_and(|at| at.ip() == ip))
    }

    /// A datagram came by the second uplink.
    pub(super) fn inbound_second(
        &mut self,
        now: u64,
        datagram: &mut [u8],
        from: SocketAddr,
        heard: &mut impl FnMut(u32),
    ) {
        if !self.is_second_peer(from.ip()) {
            self.drops.stranger += 1;
            return;
        }
        self.doubles.received += 1;
        self.inbound(now, Which::Second, datagram, from, heard);
    }

    /// Sends a message to a peer by the second uplink as well.
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
