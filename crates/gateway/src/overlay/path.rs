//! What happens to a frame between the field port and the socket.
//!
//! Out: finish what the sender's stack left undone, ask the policy, find the peers, put VXLAN's headers and the frame behind the
//! room for WireGuard's, seal in place, send. In: open where the datagram lies, take the headers off, ask the policy, send. A
//! frame is copied once on its way out and not at all on its way in, unless it came in parts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender as Post;

use antedate_channel::overlay::clamp::clamp_mss;
use antedate_channel::overlay::encapsulation::{self, Bad, HEADER_LEN, UDP_VXLAN_LEN, packet, source_port};
use antedate_channel::overlay::message::{self, Hello, Message, PIECE_HEADER_LEN, Piece};
use antedate_channel::overlay::reassembly::{Part, Whole};
use antedate_channel::wireguard::{
    COOKIE_LEN, Device, Environment, HEADROOM, KeyLogEntry, LONGEST_HANDSHAKE, Received as Came, Refusal,
    SendError, Timestamp,
};
use antedate_wire::EthernetAddress;
use antedate_wire::vxlan;

use super::class;
use super::peers::{Long, Peer, limit};
use super::storm::Bound;
use super::table::{Heard, Place, Table};
use crate::config::overlay::{Clamp, Overlay};
use crate::config::policy::Traffic;
use crate::counters::PathCounters;
use crate::gate::{Class, Gate, Way};
use crate::offload;
use crate::path::{admit, exceeds, flow, not_sent, put};
use crate::sys::packet::{Next, Receiver, Sender};
use crate::sys::thread;
use crate::sys::udp::{BATCH, Inbox, Outbox, ROOM, UdpSocket};

/// Frames that one direction handles before the other has its turn.
const TURN: usize = 16;
/// Octets of the longest frame: a jumbo frame with two VLAN tags.
const LONGEST: usize = 9_018 + 4;
/// The IPv4 header of a fragment.
const IP: usize = HEADER_LEN - UDP_VXLAN_LEN;
/// How often timers are looked at when nothing is due.
const LOOK: u64 = 100_000_000;
/// How often addresses are aged.
const AGE: u64 = 1_000_000_000;

/// This machine, as WireGuard needs it.
struct World;

impl Environment for World {
    #[inline]
    fn now(&self) -> u64 {
        thread::now()
    }

    fn timestamp(&self) -> Timestamp {
        // TAI64N (D. J. Bernstein, "libtai"): 2^62 and ten seconds ahead of 1970.
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let mut stamp = [0; 12];
        stamp[..8].copy_from_slice(&(0x4000_0000_0000_000a + since.as_secs()).to_be_bytes());
        stamp[8..].copy_from_slice(&since.subsec_nanos().to_be_bytes());
        stamp
    }

    fn random(&mut self, out: &mut [u8]) {
        // Linux has no other failure than a kernel without the call, and keys without randomness are worse than an end.
        getrandom::fill(out).unwrap_or_else(|error| panic!("the system gives no random numbers: {error}"));
    }
}

macro_rules! drops {
    ($( $(#[$meta:meta])* $field:ident, $name:literal; )*) => {
        /// Frames and packets that an overlay dropped, by reason.
        #[derive(Debug, Clone, Copy, Default)]
        pub struct Drops { $( $(#[$meta])* pub $field: u64, )* }

        impl Drops {
            /// The counters with their names.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$( ($name, self.$field), )*].into_iter()
            }
        }
    };
}

drops! {
    /// frames to groups and unknown addresses beyond the limit, from the field
    storm_out, "storm-out";
    /// and from the peers
    storm_in, "storm-in";
    /// frames for a machine that is on the field itself
    local, "local";
    /// frames from one peer for a machine behind another one, where nothing is relayed
    not_relayed, "not-relayed";
    /// frames whose source is known to be elsewhere
    elsewhere, "source-elsewhere";
    /// datagrams from an address of no peer, without WireGuard
    stranger, "stranger";
    /// packets whose source is not the peer's address in the tunnel, or whose destination is not ours
    foreign_address, "foreign-address";
    /// packets that are not IPv4
    not_ipv4, "not-ipv4";
    /// packets that are not VXLAN
    not_vxlan, "not-vxlan";
    /// packets with wrong lengths or checksums
    damaged, "damaged";
    /// packets of another network
    other_vni, "other-vni";
    /// messages between Antedate ends that are not understood
    unknown_message, "unknown-message";
}

/// What protects.
enum Crypt {
    Wireguard(Box<Device>),
    Bare,
}

/// Both directions.
pub struct Path {
    from_field: Receiver,
    socket: UdpSocket,
    inbox: Inbox,
    /// How many datagrams are asked for at a time: one where they come singly.
    ask: usize,
    scratch: Box<[u8]>,
    core: Core,
}

/// All but where frames come from.
struct Core {
    to_field: Sender,
    field_mtu: usize,
    outbox: Outbox,
    crypt: Crypt,
    peers: Vec<Peer>,
    table: Table,
    overlay: Overlay,
    gate: Arc<Gate>,
    out: Arc<PathCounters>,
    inward: Arc<PathCounters>,
    bounds: [Bound; 2],
    mtu: usize,
    drops: Drops,
    cookies: u64,
    /// When timers are looked at next.
    look: u64,
    aged: u64,
    key_log: Option<Post<Vec<KeyLogEntry>>>,
}

/// What a path is made of.
pub struct Parts {
    /// The field port.
    pub field: (Receiver, Sender, usize),
    /// The uplink, and what it carries.
    pub socket: (UdpSocket, usize),
    /// Sessions; none without WireGuard.
    pub device: Option<Box<Device>>,
    /// What the file says.
    pub overlay: Overlay,
    /// The policy.
    pub gate: Arc<Gate>,
    /// From the field, and to it.
    pub counters: [Arc<PathCounters>; 2],
    /// Where keys go, if they are to be written down.
    pub key_log: Option<Post<Vec<KeyLogEntry>>>,
}

impl Path {
    /// A path of these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { field: (from_field, to_field, field_mtu), socket: (socket, mtu), overlay, .. } = parts;
        let now = thread::now();
        let peers = overlay.peers.iter().enumerate();
        let peers: Vec<_> = peers.map(|(place, peer)| Peer::new(&overlay, place, peer, mtu)).collect();
        let ageing = u64::from(overlay.mac_ageing_seconds) * 1_000_000_000;
        let mut table = Table::new(peers.len(), overlay.mac_limit, ageing);
        for (place, peer) in overlay.peers.iter().enumerate() {
            peer.macs.iter().for_each(|mac| table.fix(*mac, place));
        }
        let [out, inward] = parts.counters;
        let core = Core {
            to_field,
            field_mtu,
            outbox: Outbox::new(),
            crypt: parts.device.map_or(Crypt::Bare, Crypt::Wireguard),
            peers,
            table,
            bounds: [(); 2].map(|()| Bound::new(overlay.storm_limit, now)),
            overlay,
            gate: parts.gate,
            out,
            inward,
            mtu,
            drops: Drops::default(),
            cookies: 0,
            look: 0,
            aged: now,
            key_log: parts.key_log,
        };
        Self { from_field, socket, inbox: Inbox::new(), ask: 1, scratch: vec![0; 16 * 1024].into(), core }
    }

    /// Handles what stands ready in both directions, a bounded number of frames. `heard` is told the flow of each.
    #[inline]
    pub(super) fn turn(&mut self, mut heard: impl FnMut(u32)) -> usize {
        let done = self.turn_out(&mut heard) + self.turn_in(&mut heard);
        let now = thread::now();
        if now >= self.core.look {
            self.core.timers(now);
            self.core.ask(now, &self.socket);
        }
        self.core.flush(&self.socket);
        done
    }

    #[inline]
    fn turn_out(&mut self, heard: &mut impl FnMut(u32)) -> usize {
        let Self { from_field, socket, scratch, core, .. } = self;
        let mut count = 0;
        while count < TURN {
            match from_field.peek() {
                Next::Empty => break,
                Next::Truncated => core.out.truncated.count(),
                Next::Frame(received) => {
                    heard(flow(received.frame));
                    core.out.received.count();
                    core.out.octets_received.add(received.frame.len() as u64);
                    let offload = received.offload;
                    let now = thread::now();
                    let done = offload::finish(received, scratch, |frame| core.outbound(now, socket, frame));
                    match done {
                        Err(offload::Unsupported) => core.out.unsupported_offload.count(),
                        Ok(_) if offload.segmentation != 0 => core.out.super_frames.count(),
                        Ok(_) if offload.needs_checksum => core.out.checksums_completed.count(),
                        Ok(_) => {}
                    }
                }
            }
            from_field.release();
            count += 1;
        }
        // One alone leaves at once; several share a system call.
        core.flush(socket);
        count
    }

    #[inline]
    fn turn_in(&mut self, heard: &mut impl FnMut(u32)) -> usize {
        let Self { socket, inbox, core, ask, .. } = self;
        // What the network said of a datagram that was sent before is no reason to stop.
        let count = inbox.receive(socket, *ask).unwrap_or(0);
        *ask = if count == *ask && count > 0 { BATCH } else { 1 };
        if count > 0 {
            let now = thread::now();
            for at in 0..count {
                if let Some((datagram, from)) = inbox.get(at) {
                    core.inbound(now, socket, datagram, from, heard);
                }
            }
        }
        count
    }

    /// Prepares, at most `budget` steps. Returns how many were done.
    #[inline]
    pub(super) fn idle(&mut self, budget: u32) -> u32 {
        match &mut self.core.crypt {
            Crypt::Wireguard(device) => device.idle(budget),
            Crypt::Bare => 0,
        }
    }

    /// Makes new sessions with all peers.
    pub(super) fn rekey(&mut self) {
        let now = thread::now();
        if let Crypt::Wireguard(device) = &mut self.core.crypt {
            self.core.peers.iter().for_each(|peer| device.want_handshake(now, peer.id));
        }
        self.core.look = 0;
    }

    /// Uses another field port from now on.
    pub(super) fn replace_field(&mut self, from: Receiver, to: Sender, mtu: usize) {
        self.from_field = from;
        (self.core.to_field, self.core.field_mtu) = (to, mtu);
    }

    /// Uses another socket from now on, or the same with another MTU.
    pub(super) fn replace_uplink(&mut self, socket: UdpSocket, mtu: usize) {
        self.socket = socket;
        self.core.mtu = mtu;
        let longest = limit(&self.core.overlay, mtu);
        self.core.peers.iter_mut().for_each(|peer| peer.limit = longest);
    }

    pub(super) const fn ports(&self) -> (&Receiver, &UdpSocket) {
        (&self.from_field, &self.socket)
    }

    pub(super) const fn peers(&self) -> &[Peer] {
        self.core.peers.as_slice()
    }

    pub(super) const fn overlay(&self) -> &Overlay {
        &self.core.overlay
    }

    pub(super) const fn table(&self) -> &Table {
        &self.core.table
    }

    pub(super) const fn drops(&self) -> (&Drops, u64) {
        (&self.core.drops, self.core.cookies)
    }

    pub(super) fn device(&self) -> Option<&Device> {
        match &self.core.crypt {
            Crypt::Wireguard(device) => Some(device),
            Crypt::Bare => None,
        }
    }

    /// Adds what the kernel dropped since the last time.
    pub(super) fn census(&self) {
        self.core.out.overruns.add(self.from_field.overruns());
    }
}

/// Which of the bounds.
const OUT: usize = 0;
const IN: usize = 1;

fn address(frame: &[u8], at: usize) -> EthernetAddress {
    EthernetAddress(frame.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default())
}

impl Core {
    /// From the field to the peers.
    #[inline]
    fn outbound(&mut self, now: u64, socket: &UdpSocket, frame: &mut [u8]) {
        let Some(kind) = admit(&self.gate, Way::Out, &self.out, frame) else { return };
        if frame.len() > LONGEST {
            return self.out.too_long.count();
        }
        let (to, from) = (address(frame, 0), address(frame, 6));
        if self.table.heard(from, Place::Field, true, now) == Heard::Elsewhere {
            self.drops.elsewhere += 1;
            return;
        }
        self.clamp(kind, frame);
        let place = if to.is_multicast() { None } else { self.table.find(to, now) };
        match place {
            Some(Place::Peer(peer)) => self.send(now, socket, peer, frame),
            Some(Place::Field) => self.drops.local += 1,
            None if self.bounds[OUT].passes(now) => {
                for peer in 0..self.peers.len() {
                    self.send(now, socket, peer, frame);
                }
            }
            None => self.drops.storm_out += 1,
        }
    }

    #[inline]
    fn clamp(&self, kind: Class, frame: &mut [u8]) {
        if !matches!(kind, Class::Named(Traffic::Ipv4 | Traffic::Ipv6)) {
            return;
        }
        let mtu = match self.overlay.tcp_mss {
            Clamp::Off => return,
            Clamp::At(segment) => usize::from(segment) + 40,
            // The frame's own header and VXLAN's stand around the IP packet.
            Clamp::Auto => limit(&self.overlay, self.mtu).saturating_sub(HEADER_LEN + 14),
        };
        clamp_mss(frame, mtu);
    }

    /// Sends a frame to a peer, in the way that its length wants.
    #[inline]
    fn send(&mut self, now: u64, socket: &UdpSocket, place: usize, frame: &[u8]) {
        let class = class::of(frame, self.overlay.dscp);
        let Some(peer) = self.peers.get_mut(place) else { return };
        let Crypt::Wireguard(device) = &mut self.crypt else {
            return self.send_bare(socket, place, class, frame);
        };
        let len = HEADER_LEN + frame.len();
        let long = len > peer.limit;
        let way = if long { peer.long(self.overlay.fragmentation, frame.len()) } else { Long::Outside };
        if way == Long::Refused {
            return self.out.too_long.count();
        }
        // So that pieces and fragments are all or nothing.
        if !device.is_ready(now, peer.id) {
            device.want_handshake(now, peer.id);
            peer.hold(now, frame);
            self.look = 0;
            return;
        }
        let mut carrier = Carrier { now, socket, device, outbox: &mut self.outbox, out: &self.out, class };
        let port = source_port(frame);
        let done = match way {
            Long::Outside => carrier.carry(peer.id, len, |packet| {
                if let Some((head, rest)) = packet.split_first_chunk_mut() {
                    peer.template.write(head, frame.len(), port);
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
    fn send_bare(&mut self, socket: &UdpSocket, place: usize, class: u8, frame: &[u8]) {
        if self.outbox.is_full() {
            self.flush(socket);
        }
        let Some(peer) = self.peers.get_mut(place) else { return };
        let (Some(to), Some(room)) = (peer.endpoint, self.outbox.place()) else { return };
        let end = vxlan::HEADER_LEN + frame.len();
        room[..vxlan::HEADER_LEN].copy_from_slice(&vxlan::header(self.overlay.vni));
        room[vxlan::HEADER_LEN..end].copy_from_slice(frame);
        self.outbox.put(end, to, class);
        peer.traffic.sent += 1;
        peer.traffic.octets_sent += frame.len() as u64;
    }

    /// A datagram came.
    #[inline]
    fn inbound(
        &mut self,
        now: u64,
        socket: &UdpSocket,
        datagram: &mut [u8],
        from: SocketAddr,
        heard: &mut impl FnMut(u32),
    ) {
        self.inward.received.count();
        self.inward.octets_received.add(datagram.len() as u64);
        let Crypt::Wireguard(device) = &mut self.crypt else {
            return self.inbound_bare(now, socket, datagram, from, heard);
        };
        let number = |at: usize| datagram.get(at..).and_then(<[u8]>::first_chunk::<8>).copied();
        // The index of the session and the counter, which the tag proves below.
        let session = number(4).map_or(0, |octets| u64::from_le_bytes(octets) as u32);
        let counter = number(8).map_or(0, u64::from_le_bytes);
        let mut answer = [0; LONGEST_HANDSHAKE];
        match device.receive(&mut World, from, datagram, &mut answer) {
            Ok(Came::Packet { peer, range, .. }) => {
                let handshakes = device.counters(peer).map_or(0, |counters| counters.handshakes);
                if let Some(known) = self.peers.get_mut(peer.0)
                    && known.is_new_session(handshakes, now)
                {
                    self.greet(now, socket, peer.0);
                }
                if let Some(packet) = datagram.get_mut(range) {
                    self.opened(now, socket, peer.0, (session, counter), packet, heard);
                }
            }
            Ok(Came::Keepalive { peer } | Came::Session { peer }) => {
                let handshakes = device.counters(peer).map_or(0, |counters| counters.handshakes);
                if let Some(known) = self.peers.get_mut(peer.0)
                    && known.is_new_session(handshakes, now)
                {
                    self.greet(now, socket, peer.0);
                }
                self.look = 0;
            }
            Ok(Came::Answer { len }) => {
                self.reply(socket, &answer[..len], from);
                self.look = 0;
            }
            Ok(Came::Cookie { .. }) => self.look = 0,
            Err(Refusal::CookieWanted) => {
                self.cookies += 1;
                self.reply(socket, &answer[..COOKIE_LEN], from);
            }
            // Counted there, by its reason.
            Err(_) => {}
        }
    }

    fn inbound_bare(
        &mut self,
        now: u64,
        socket: &UdpSocket,
        datagram: &mut [u8],
        from: SocketAddr,
        heard: &mut impl FnMut(u32),
    ) {
        let sent = |peer: &Peer| peer.endpoint.is_some_and(|at| at.ip() == from.ip());
        let Some(place) = self.peers.iter().position(sent) else {
            self.drops.stranger += 1;
            return;
        };
        match vxlan::parse(datagram) {
            Ok((vni, _)) if vni == self.overlay.vni => {
                self.deliver(now, socket, place, &mut datagram[vxlan::HEADER_LEN..], heard);
            }
            Ok(_) => self.drops.other_vni += 1,
            Err(_) => self.drops.not_vxlan += 1,
        }
    }

    /// A packet of a peer that was authenticated.
    #[inline]
    fn opened(
        &mut self,
        now: u64,
        socket: &UdpSocket,
        place: usize,
        (session, counter): (u32, u64),
        octets: &mut [u8],
        heard: &mut impl FnMut(u32),
    ) {
        if message::is_ours(octets) {
            return self.message(now, socket, place, (session, counter), octets, heard);
        }
        let Some(peer) = self.peers.get_mut(place) else { return };
        let read = match packet(octets) {
            Ok(read) => read,
            Err(bad) => return self.bad(bad),
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
                    self.deliver(now, socket, place, &mut octets[range], heard);
                }
                Err(bad) => self.bad(bad),
            }
            return;
        };
        // Lent out while the frame in it is looked at.
        let Some(mut reassembly) = peer.reassembly.take() else { return };
        let of = Whole::Packet(fragment.ident);
        let part = Part { of, offset: fragment.offset, octets: &octets[read.payload], last: !fragment.more };
        if let Some(datagram) = reassembly.add(now, part) {
            match encapsulation::frame(datagram, ends, port, vni) {
                Ok(range) => self.deliver(now, socket, place, &mut datagram[range], heard),
                Err(bad) => self.bad(bad),
            }
        }
        self.peers[place].reassembly = Some(reassembly);
    }

    fn bad(&mut self, bad: Bad) {
        let counter = match bad {
            Bad::NotIpv4 => &mut self.drops.not_ipv4,
            Bad::NotVxlan => &mut self.drops.not_vxlan,
            Bad::Damaged => &mut self.drops.damaged,
            Bad::Vni => &mut self.drops.other_vni,
        };
        *counter += 1;
    }

    /// Something that only an Antedate says.
    fn message(
        &mut self,
        now: u64,
        socket: &UdpSocket,
        place: usize,
        (session, counter): (u32, u64),
        octets: &[u8],
        heard: &mut impl FnMut(u32),
    ) {
        let Some(peer) = self.peers.get_mut(place) else { return };
        match message::parse(octets) {
            Some(Message::Hello(hello)) => {
                peer.answered(hello);
                if hello.wants_answer {
                    self.say_hello(now, socket, place, false);
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
                if let Some(frame) = reassembly.add(now, part) {
                    self.deliver(now, socket, place, frame, heard);
                }
                self.peers[place].reassembly = Some(reassembly);
            }
            None => self.drops.unknown_message += 1,
        }
    }

    /// A frame of a peer is whole.
    #[inline]
    fn deliver(
        &mut self,
        now: u64,
        socket: &UdpSocket,
        place: usize,
        frame: &mut [u8],
        heard: &mut impl FnMut(u32),
    ) {
        heard(flow(frame));
        let Some(kind) = admit(&self.gate, Way::In, &self.inward, frame) else { return };
        let Some(peer) = self.peers.get_mut(place) else { return };
        peer.traffic.received += 1;
        peer.traffic.octets_received += frame.len() as u64;
        let learn = peer.settings.learn;
        let (to, from) = (address(frame, 0), address(frame, 6));
        if self.table.heard(from, Place::Peer(place), learn, now) == Heard::Elsewhere {
            self.drops.elsewhere += 1;
            return;
        }
        self.clamp(kind, frame);
        let whither = if to.is_multicast() { None } else { self.table.find(to, now) };
        match whither {
            Some(Place::Peer(other)) if other != place => {
                if self.overlay.relay {
                    self.send(now, socket, other, frame);
                } else {
                    self.drops.not_relayed += 1;
                }
                return;
            }
            // It is where it came from.
            Some(Place::Peer(_)) => {
                self.drops.not_relayed += 1;
                return;
            }
            Some(Place::Field) => {}
            None if !self.bounds[IN].passes(now) => {
                self.drops.storm_in += 1;
                return;
            }
            None if self.overlay.relay => {
                for other in (0..self.peers.len()).filter(|other| *other != place) {
                    self.send(now, socket, other, frame);
                }
            }
            None => {}
        }
        if exceeds(frame, self.field_mtu) {
            return self.inward.too_long.count();
        }
        put(&self.inward, &self.to_field, frame);
    }

    /// A session is new: the other end is asked whether it is an Antedate, and what waited is sent.
    #[cold]
    fn greet(&mut self, now: u64, socket: &UdpSocket, place: usize) {
        if self.peers.get_mut(place).is_some_and(|peer| peer.asks(now)) {
            self.say_hello(now, socket, place, true);
        }
        while let Some(frame) = self.peers.get_mut(place).and_then(|peer| peer.held(now)) {
            self.send(now, socket, place, &frame);
        }
        self.look = 0;
    }

    fn say_hello(&mut self, now: u64, socket: &UdpSocket, place: usize, wants_answer: bool) {
        let (Some(peer), Crypt::Wireguard(device)) = (self.peers.get(place), &mut self.crypt) else { return };
        let hello = Hello { wants_answer, reads_pieces: true, longest: LONGEST as u16 };
        let octets = hello.emit();
        let mut carrier = Carrier { now, socket, device, outbox: &mut self.outbox, out: &self.out, class: 0 };
        // Without a session it is said in the next one.
        let _ =
            carrier.carry(peer.id, octets.len(), |packet| packet[..octets.len()].copy_from_slice(&octets));
    }

    /// Sends an answer to where a datagram came from.
    #[cold]
    fn reply(&mut self, socket: &UdpSocket, octets: &[u8], to: SocketAddr) {
        if self.outbox.is_full() {
            self.flush(socket);
        }
        if let Some(room) = self.outbox.place() {
            room[..octets.len()].copy_from_slice(octets);
            self.outbox.put(octets.len(), to, 0);
        }
    }

    /// Does what is due.
    #[cold]
    fn timers(&mut self, now: u64) {
        let mut next = now + LOOK;
        if let Crypt::Wireguard(device) = &mut self.crypt {
            let mut octets = [0; LONGEST_HANDSHAKE];
            // Bounded by what fits the outbox; the rest is sent in the next turn.
            while !self.outbox.is_full() {
                let Some(outgoing) = device.poll(&mut World, &mut octets) else { break };
                if let Some(room) = self.outbox.place() {
                    room[..outgoing.len].copy_from_slice(&octets[..outgoing.len]);
                    self.outbox.put(outgoing.len, outgoing.to, 0);
                }
            }
            next = device.due().map_or(next, |due| due.clamp(now + 1_000_000, next));
            if let Some(post) = &self.key_log {
                let keys = device.take_key_log();
                if !keys.is_empty() {
                    // Who writes them down may have stopped; nothing depends on it.
                    let _ = post.send(keys);
                }
            }
        }
        if self.outbox.is_full() {
            next = now;
        }
        self.look = next;
        if now.saturating_sub(self.aged) >= AGE {
            self.aged = now;
            self.table.age(now);
            self.peers.iter_mut().filter_map(|peer| peer.reassembly.as_mut()).for_each(|r| r.expire(now));
        }
    }

    /// Asks the peers that are to be asked.
    fn ask(&mut self, now: u64, socket: &UdpSocket) {
        for place in 0..self.peers.len() {
            if self.peers[place].asks(now) {
                self.say_hello(now, socket, place, true);
            }
        }
    }

    /// Sends what is ready.
    #[inline]
    fn flush(&mut self, socket: &UdpSocket) {
        if !self.outbox.is_empty() {
            flush(&mut self.outbox, socket, &self.out);
        }
    }
}

#[inline]
fn flush(outbox: &mut Outbox, socket: &UdpSocket, counters: &PathCounters) {
    outbox.send(socket, |result| match result {
        Ok(len) => {
            counters.sent.count();
            counters.octets_sent.add(len as u64);
        }
        Err(error) => not_sent(counters, &error),
    });
}

/// Seals packets and puts them where they are sent from.
struct Carrier<'a> {
    now: u64,
    socket: &'a UdpSocket,
    device: &'a mut Device,
    outbox: &'a mut Outbox,
    out: &'a PathCounters,
    class: u8,
}

impl Carrier<'_> {
    /// Seals a packet of `len` octets, which `write` puts where it belongs.
    #[inline]
    fn carry(
        &mut self,
        peer: antedate_channel::wireguard::PeerId,
        len: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        if self.outbox.is_full() {
            flush(self.outbox, self.socket, self.out);
        }
        let room: &mut [u8; ROOM] = self.outbox.place().ok_or(SendError::NoRoom)?;
        write(room.get_mut(HEADROOM..).filter(|rest| len + 32 <= rest.len()).ok_or(SendError::NoRoom)?);
        let (to, sealed) = self.device.seal(self.now, peer, room, len)?;
        self.outbox.put(sealed, to, self.class);
        Ok(())
    }
}

/// Sends a frame in pieces under adjacent counters.
fn pieces(carrier: &mut Carrier<'_>, peer: &Peer, vni: vxlan::Vni, frame: &[u8]) -> Result<(), SendError> {
    let room = peer.limit.saturating_sub(PIECE_HEADER_LEN);
    let (count, size) = message::cut(frame.len(), room).ok_or(SendError::NoRoom)?;
    for (index, data) in frame.chunks(size).enumerate() {
        let piece = Piece { index: index as u8, count: count as u8, vni, offset: index * size };
        carrier.carry(peer.id, PIECE_HEADER_LEN + data.len(), |packet| {
            if let Some((head, rest)) = packet.split_first_chunk_mut::<PIECE_HEADER_LEN>() {
                *head = piece.emit(data.len());
                rest[..data.len()].copy_from_slice(data);
            }
        })?;
    }
    Ok(())
}

/// Sends a frame in a packet that is cut by the rules of IP.
fn fragments(carrier: &mut Carrier<'_>, peer: &mut Peer, frame: &[u8], port: u16) -> Result<(), SendError> {
    let mut head = [0; UDP_VXLAN_LEN];
    peer.template.write_datagram(&mut head, frame.len(), port);
    peer.ident = peer.ident.wrapping_add(1);
    let room = peer.limit.saturating_sub(IP) / 8 * 8;
    if room <= UDP_VXLAN_LEN {
        return Err(SendError::NoRoom);
    }
    let total = UDP_VXLAN_LEN + frame.len();
    let mut offset = 0;
    while offset < total {
        let end = (offset + room).min(total);
        carrier.carry(peer.id, IP + end - offset, |packet| {
            let Some((ip, rest)) = packet.split_first_chunk_mut() else { return };
            peer.template.write_fragment(ip, peer.ident, offset, end - offset, end < total);
            let (udp, data) =
                if offset == 0 { rest.split_at_mut(UDP_VXLAN_LEN) } else { (&mut [][..], rest) };
            udp.copy_from_slice(&head[..udp.len()]);
            let from = offset.saturating_sub(UDP_VXLAN_LEN);
            let to = end - UDP_VXLAN_LEN;
            data[..to - from].copy_from_slice(&frame[from..to]);
        })?;
        offset = end;
    }
    Ok(())
}
