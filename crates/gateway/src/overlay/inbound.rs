//! From the peers to the field: decrypt in place, remove the headers, apply the policy, send.

use std::net::SocketAddr;

use antedate_channel::overlay::ecn;
use antedate_channel::overlay::encapsulation::{self, packet};
use antedate_channel::overlay::message::{self, Alive, Message, Number};
use antedate_channel::overlay::reassembly::{Part, Whole};
use antedate_channel::wireguard::{COOKIE_LEN, Dropped, LONGEST_HANDSHAKE, Received as Came};
use antedate_wire::vxlan;

use super::announcement::announces;
use super::peers::Peer;
use super::ping::PING;
use super::reserved::is_reserved;
use super::state::{Core, Crypt, IN, address};
use super::table::{Heard, Place};
use super::world::World;
use crate::config::policy::Class;
use crate::config::policy::Traffic;
use crate::config::uplink::Which;
use crate::frames::gate::Way;
use crate::frames::port::{admit, exceeds, flow, stormed};
use crate::run::loss::hellos::Told;
use crate::sys::thread;

impl Core {
    /// Handles a datagram from an uplink. `ecn` is the octet with its DSCP and ECN.
    #[inline]
    pub(super) fn inbound(
        &mut self,
        now: u64,
        by: Which,
        datagram: &mut [u8],
        from: SocketAddr,
        ecn: u8,
        heard: &mut impl FnMut(u32) -> u64,
    ) {
        self.inward.received.count();
        self.inward.octets_received.add(datagram.len() as u64);
        let Crypt::Wireguard(device) = &mut self.crypt else {
            return self.inbound_bare(now, datagram, from, ecn, heard);
        };
        let number = |at: usize| datagram.get(at..).and_then(<[u8]>::first_chunk::<8>).copied();
        // Session index and counter. The tag authenticates both below.
        let session = number(4).map_or(0, |octets| u64::from_le_bytes(octets) as u32);
        let counter = number(8).map_or(0, u64::from_le_bytes);
        let mut answer = [0; LONGEST_HANDSHAKE];
        let came = match by {
            Which::First => device.receive(&mut World, from, datagram, &mut answer),
            Which::Second => device.receive_beside(&mut World, from, datagram, &mut answer),
        };
        match came {
            Ok(Came::Packet { peer, range, roamed }) => {
                if roamed {
                    // Its new path has another MTU.
                    self.look = 0;
                }
                self.doubles.first += u64::from(by == Which::Second);
                self.session(now, peer);
                if let Some(packet) = datagram.get_mut(range) {
                    self.opened(now, (by, peer.0), (session, counter), packet, ecn, heard);
                }
            }
            Ok(Came::Keepalive { peer } | Came::Session { peer }) => {
                self.session(now, peer);
                self.look = 0;
            }
            Ok(Came::Pending) => self.hand_over(),
            Ok(Came::Answer { len }) => {
                self.reply(by, &answer[..len], from);
                self.look = 0;
            }
            Ok(Came::Cookie { .. }) => self.look = 0,
            Err(Dropped::CookieWanted) => {
                self.cookies += 1;
                self.reply(by, &answer[..COOKIE_LEN], from);
            }
            Err(Dropped::Replayed) => self.doubles.eliminated += u64::from(self.second.is_some()),
            // The device counts it by reason.
            Err(_) => {}
        }
    }

    fn inbound_bare(
        &mut self,
        now: u64,
        datagram: &mut [u8],
        from: SocketAddr,
        ecn: u8,
        heard: &mut impl FnMut(u32) -> u64,
    ) {
        let sent = |peer: &Peer| peer.endpoint.is_some_and(|at| at.ip() == from.ip());
        let Some(place) = self.peers.iter().position(sent) else {
            self.drops.stranger += 1;
            return;
        };
        match vxlan::parse(datagram) {
            Ok((vni, _)) if vni == self.overlay.vni => {
                self.deliver(now, place, &mut datagram[vxlan::HEADER_LEN..], ecn, heard);
            }
            Ok(_) => self.drops.other_vni += 1,
            Err(_) => self.drops.not_vxlan += 1,
        }
    }

    /// Handles an authenticated packet of a peer.
    #[inline]
    fn opened(
        &mut self,
        now: u64,
        (by, place): (Which, usize),
        (session, counter): (u32, u64),
        octets: &mut [u8],
        ecn: u8,
        heard: &mut impl FnMut(u32) -> u64,
    ) {
        if message::is_ours(octets) {
            return self.message(now, (by, place), (session, counter), octets, ecn, heard);
        }
        let Some(peer) = self.peers.get_mut(place) else { return };
        let read = match packet(octets) {
            Ok(read) => read,
            Err(encapsulation::Dropped::NotVxlan) if self.echo_answered(now, place, octets) => return,
            Err(bad) => return self.bad(bad),
        };
        // Congestion was marked on the datagram, or before on the packet in it.
        let Some(ecn) = ecn::combined(read.ecn, ecn) else {
            self.drops.congested += 1;
            return;
        };
        let ends = (read.from, read.to);
        if ends != (peer.settings.address, self.overlay.address) {
            self.drops.foreign_address += 1;
            return;
        }
        let (port, vni) = (self.overlay.port, self.overlay.vni);
        let Some(fragment) = read.fragment else {
            let start = read.payload.start;
            match encapsulation::frame(&octets[read.payload], ends, port, vni) {
                Ok(range) => {
                    let range = start + range.start..start + range.end;
                    self.deliver(now, place, &mut octets[range], ecn, heard);
                }
                Err(bad) => self.bad(bad),
            }
            return;
        };
        // Taken out while the frame in it is in use.
        let Some(mut reassembly) = peer.reassembly.take() else { return };
        let of = Whole::Packet(fragment.ident);
        let part = Part { of, offset: fragment.offset, octets: &octets[read.payload], last: !fragment.more };
        if let Some((datagram, ecn)) = reassembly.add_marked(now, part, ecn) {
            match encapsulation::frame(datagram, ends, port, vni) {
                Ok(range) => self.deliver(now, place, &mut datagram[range], ecn, heard),
                Err(bad) => self.bad(bad),
            }
        }
        self.peers[place].reassembly = Some(reassembly);
    }

    fn bad(&mut self, bad: encapsulation::Dropped) {
        let counter = match bad {
            encapsulation::Dropped::NotIpv4 => &mut self.drops.not_ipv4,
            encapsulation::Dropped::NotVxlan => &mut self.drops.not_vxlan,
            encapsulation::Dropped::Damaged => &mut self.drops.damaged,
            encapsulation::Dropped::Vni => &mut self.drops.other_vni,
        };
        *counter += 1;
    }

    /// Handles a message between Antedate peers.
    fn message(
        &mut self,
        now: u64,
        (by, place): (Which, usize),
        (session, counter): (u32, u64),
        octets: &[u8],
        ecn: u8,
        heard: &mut impl FnMut(u32) -> u64,
    ) {
        let Some(peer) = self.peers.get_mut(place) else { return };
        match message::parse(octets) {
            Some(Message::Hello(hello)) => {
                peer.answered(hello);
                // Now it can be probed.
                self.look = 0;
                if hello.wants_answer {
                    self.say_hello(now, place, false);
                }
            }
            Some(Message::Piece(piece, data)) => {
                if piece.vni != self.overlay.vni {
                    self.drops.other_vni += 1;
                    return;
                }
                let Some(first) = counter.checked_sub(piece.index.into()) else { return };
                let Some(mut reassembly) = peer.reassembly.take() else { return };
                let of = Whole::Frame { session, first, count: piece.count };
                let part = Part { of, offset: piece.offset, octets: data, last: piece.is_last() };
                if let Some((frame, ecn)) = reassembly.add_marked(now, part, ecn & 3) {
                    self.deliver(now, place, frame, ecn, heard);
                }
                self.peers[place].reassembly = Some(reassembly);
            }
            Some(Message::Probe(number, 0)) => self.say(now, place, &number.answer()),
            Some(Message::Probe(number, wanted)) => self.answer_ping(now, place, by, number, wanted),
            Some(Message::Answer(Number { path: PING, number })) => {
                self.pings.answered(thread::now(), place, number, Some(octets.len()));
            }
            Some(Message::Answer(answer)) => {
                self.probe_answered(now, place, answer.path.into(), answer.number);
            }
            Some(Message::Alive(Alive { field_down, id, number: sequence, interval_ms })) => {
                let told = Told { id, sequence, interval_ms, field_down };
                self.hellos.note(peer.settings.public_key, told, thread::now());
            }
            None => self.drops.unknown_message += 1,
        }
    }

    /// Delivers a complete frame of a peer.
    #[inline]
    fn deliver(
        &mut self,
        now: u64,
        place: usize,
        frame: &mut [u8],
        ecn: u8,
        heard: &mut impl FnMut(u32) -> u64,
    ) {
        let at = heard(flow(frame));
        let Some(kind) = admit(&self.gate, Way::In, &self.inward, (self.late, at), frame) else { return };
        let Some(peer) = self.peers.get_mut(place) else { return };
        peer.traffic.received += 1;
        peer.traffic.octets_received += frame.len() as u64;
        let learn = peer.settings.learn;
        let (to, from) = (address(frame, 0), address(frame, 6));
        if is_reserved(to) && !self.names(Way::In, kind, frame) {
            self.drops.reserved_in += 1;
            return;
        }
        let whither = self.table.with(|table| {
            let announces = || announces(kind, frame);
            if table.heard(from, Place::Peer(place), learn, now, announces) == Heard::Elsewhere {
                table.suspect(from, place);
                return None;
            }
            Some(table.find(to, now).filter(|_| !to.is_multicast()))
        });
        let Some(whither) = whither else {
            self.drops.elsewhere += 1;
            return;
        };
        if !ecn::decapsulate(frame, ecn) {
            self.drops.congested += 1;
            return;
        }
        self.clamp(kind, frame);
        match whither {
            Some(Place::Peer(other)) if other != place => {
                if self.overlay.relay {
                    self.send(now, other, frame);
                } else {
                    self.drops.not_relayed += 1;
                }
                return;
            }
            // The machine is behind the sender itself.
            Some(Place::Peer(_)) => {
                self.drops.not_relayed += 1;
                return;
            }
            Some(Place::Field) => {}
            None if self.bounds[IN].as_ref().is_some_and(|bound| !bound.passes(now, 1)) => {
                self.drops.storm_in += 1;
                stormed(&self.inward, frame);
                return;
            }
            None if self.overlay.relay => {
                for other in (0..self.peers.len()).filter(|other| *other != place) {
                    self.send(now, other, frame);
                }
            }
            None => {}
        }
        if exceeds(frame, self.field_mtu) {
            return self.inward.too_long.count();
        }
        if let (Some(release), Class::Named(Traffic::ProfinetRt)) = (&mut self.release, kind) {
            let now = thread::now();
            if release.hold(now, flow(frame), frame) {
                return;
            }
            self.release(now);
        }
        // Other frames do not wait for joined bulk.
        match kind {
            Class::Named(Traffic::Ipv4 | Traffic::Ipv6) => self.to_field.join(&self.inward, frame),
            _ => self.to_field.put(&self.inward, frame),
        }
    }
}
