//! From the field to the peers: apply the policy, find the peers, write VXLAN's headers and the
//! frame after the space for WireGuard's header, encrypt in place.

use antedate_channel::overlay::clamp::clamp_mss;
use antedate_channel::overlay::encapsulation::{HEADER_LEN, source_port};
use antedate_channel::wireguard::SendError;
use antedate_wire::{VlanTagStack, vxlan};

use super::announcement::announces;
use super::carrier::{Carrier, fragments, pieces};
use super::class;
use super::peers::Long;
use super::reserved::is_reserved;
use super::state::{Core, Crypt, MAX_FRAME_LEN, OUT, address};
use super::table::{Heard, Place};
use crate::config::overlay::Clamp;
use crate::config::policy::Class;
use crate::config::policy::Traffic;
use crate::frames::gate::Way;
use crate::frames::port::{admit, stormed};

impl Core {
    /// Handles a frame from the field.
    #[inline]
    pub(super) fn outbound(&mut self, now: u64, frame: &mut [u8]) {
        let Some(kind) = admit(&self.gate, Way::Out, &self.out, (self.late, now), frame) else { return };
        if frame.len() > MAX_FRAME_LEN {
            return self.out.too_long.count();
        }
        let (to, from) = (address(frame, 0), address(frame, 6));
        if is_reserved(to) && !self.names(Way::Out, kind, frame) {
            self.drops.reserved_out += 1;
            return;
        }
        let place = self.table.with(|table| {
            let heard = table.heard(from, Place::Field, true, now, || announces(kind, frame));
            (heard != Heard::Elsewhere).then(|| table.find(to, now).filter(|_| !to.is_multicast()))
        });
        let Some(place) = place else {
            self.drops.elsewhere_out += 1;
            return;
        };
        self.clamp(kind, frame);
        match place {
            Some(Place::Peer(peer)) => self.send(now, peer, frame),
            Some(Place::Field) => self.drops.local += 1,
            None if self.bounds[OUT].as_ref().is_none_or(|bound| bound.passes(now, 1)) => {
                for peer in 0..self.peers.len() {
                    self.send(now, peer, frame);
                }
            }
            None => {
                self.drops.storm_out += 1;
                stormed(&self.out, frame);
            }
        }
    }

    #[inline]
    pub(super) fn clamp(&self, kind: Class, frame: &mut [u8]) {
        if !matches!(kind, Class::Named(Traffic::Ipv4 | Traffic::Ipv6)) {
            return;
        }
        let mtu = match self.overlay.tcp_mss {
            Clamp::Off => return,
            Clamp::At(segment) => usize::from(segment) + 40,
            // The segment shares the packet with the frame's header, VLAN tags included, and
            // VXLAN's headers.
            Clamp::Auto => {
                let header = VlanTagStack::parse(frame).map_or(14, |stack| stack.payload);
                self.shortest.saturating_sub(HEADER_LEN + header)
            }
        };
        clamp_mss(frame, mtu);
    }

    /// Sends a frame to a peer, whole or in parts.
    #[inline]
    pub(super) fn send(&mut self, now: u64, place: usize, frame: &[u8]) {
        let class = class::of(frame, self.overlay.dscp);
        let Some(peer) = self.peers.get_mut(place) else { return };
        if peer.worker != self.own {
            let worker = peer.worker;
            return self.pass_on(now, place, worker, frame);
        }
        let Crypt::Wireguard(device) = &mut self.crypt else {
            return self.send_bare(now, place, class, frame);
        };
        let len = HEADER_LEN + frame.len();
        let long = len > peer.limit;
        let way = if long { peer.long(self.overlay.fragmentation, frame.len()) } else { Long::Outside };
        if way == Long::Refused {
            return self.out.too_long.count();
        }
        // Checked first, so that pieces and fragments are sent all or none.
        if !device.is_ready(now, peer.id) {
            device.want_handshake(now, peer.id);
            peer.hold(now, frame);
            self.look = 0;
            return;
        }
        let second = self.second.as_mut().zip(peer.settings.second_endpoint);
        let mut carrier = Carrier { now, device, uplink: &mut self.uplink, second, out: &self.out, class };
        let port = source_port(frame);
        let done = match way {
            Long::Outside => carrier.carry(peer.id, len, |packet| {
                if let Some((head, rest)) = packet.split_first_chunk_mut() {
                    peer.template.write(head, frame.len(), port, class & 3);
                    rest[..frame.len()].copy_from_slice(frame);
                }
            }),
            Long::Pieces => {
                peer.traffic.in_pieces += 1;
                pieces(&mut carrier, peer, self.overlay.vni, frame)
            }
            Long::Inside => {
                peer.traffic.in_fragments += 1;
                fragments(&mut carrier, peer, frame, port)
            }
            Long::Refused => Ok(()),
        };
        match done {
            Ok(()) => {
                peer.traffic.sent += 1;
                peer.traffic.octets_sent += frame.len() as u64;
            }
            Err(SendError::NoRoom) => self.out.too_long.count(),
            Err(_) => {
                peer.hold(now, frame);
                self.look = 0;
            }
        }
    }

    #[inline]
    pub(super) fn send_bare(&mut self, now: u64, place: usize, class: u8, frame: &[u8]) {
        let Some(peer) = self.peers.get_mut(place) else { return };
        let (Some(to), Some(room)) = (peer.endpoint, self.uplink.place(&self.out)) else { return };
        let end = vxlan::HEADER_LEN + frame.len();
        // A relayed frame may come from a longer datagram than this uplink allows.
        let Some(room) = room.get_mut(..end) else { return self.out.too_long.count() };
        room[..vxlan::HEADER_LEN].copy_from_slice(&vxlan::header(self.overlay.vni));
        room[vxlan::HEADER_LEN..].copy_from_slice(frame);
        self.uplink.put(now, end, to, class);
        peer.traffic.sent += 1;
        peer.traffic.octets_sent += frame.len() as u64;
    }
}
