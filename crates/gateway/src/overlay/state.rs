//! The state that both directions of an overlay share: sessions, peers, the address table, the
//! uplink's sending side; and the timers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::Sender as Post;

use antedate_channel::overlay::message::{Alive, Hello};
use antedate_channel::wireguard::{Device, Done, Finished, Job, KeyLogEntry, LONGEST_HANDSHAKE, PeerId};
use antedate_wire::EthernetAddress;

use super::carrier::Carrier;
use super::drops::Drops;
use super::handshakes::IN_FLIGHT;
use super::news::News;
use super::peers::Peer;
use super::ping::Pings;
use super::release::Release;
use super::table::Table;
use super::uplink::Outward;
use super::world::World;
use crate::config::overlay::{Host, Overlay};
use crate::config::uplink::Which;
use crate::frames::bound::Bound;
use crate::frames::delivery::Delivery;
use crate::frames::gate::{Gate, Way};
use crate::run::counters::PathCounters;
use crate::run::loss::hellos::Hellos;
use crate::sys::age::Bounds;

/// Octets of the longest frame: a jumbo frame with two VLAN tags.
pub(super) const MAX_FRAME_LEN: usize = 9_018 + 4;
/// The longest interval of the timers, in nanoseconds.
const LOOK: u64 = 100_000_000;
/// The interval of ageing, in nanoseconds.
const AGE: u64 = 1_000_000_000;
/// The least number of frames from elsewhere that are reported.
const STRAYED: u64 = 10;
/// Indices of the storm limits.
pub(super) const OUT: usize = 0;
pub(super) const IN: usize = 1;

/// The protection of datagrams.
pub(super) enum Crypt {
    Wireguard(Box<Device>),
    Bare,
}

/// Counters of the second uplink.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Doubles {
    /// Datagrams from the second uplink.
    pub received: u64,
    /// Those that arrived before, or without, the copy on the first uplink.
    pub first: u64,
    /// Second copies, dropped on either uplink.
    pub eliminated: u64,
}

/// The state of both directions, without the receiving ports.
pub(super) struct Core {
    pub(super) to_field: Delivery,
    pub(super) field_mtu: usize,
    pub(super) uplink: Outward,
    /// The second uplink, which sends a copy of each datagram to peers with an address there.
    pub(super) second: Option<Outward>,
    pub(super) doubles: Doubles,
    pub(super) crypt: Crypt,
    pub(super) peers: Vec<Peer>,
    pub(super) table: Table,
    pub(super) overlay: Overlay,
    pub(super) max_age: Bounds,
    /// Whether the current frame is too old for a cyclic one.
    pub(super) late: bool,
    pub(super) gate: Arc<Gate>,
    pub(super) out: Arc<PathCounters>,
    pub(super) inward: Arc<PathCounters>,
    pub(super) bounds: [Option<Bound>; 2],
    pub(super) release: Option<Release>,
    /// The MTU of each uplink.
    pub(super) mtus: [Option<usize>; 2],
    /// Whether the first one is the administrator's word about the path.
    pub(super) trusted: bool,
    /// The longest packet that fits a datagram to each peer.
    pub(super) shortest: usize,
    /// News for the log of the main thread.
    pub(super) news: Post<News>,
    /// The policy without `all`.
    pub(super) named: Gate,
    /// The thread that resolves names of peers, if there are any.
    pub(super) names: Option<Post<Host>>,
    /// Frames from elsewhere at the last look.
    pub(super) strayed: u64,
    pub(super) drops: Drops,
    pub(super) cookies: u64,
    /// The peers that tell that they live, for link loss forwarding.
    pub(super) hellos: Arc<Hellos<[u8; 32]>>,
    /// The echoes that the operator waits for.
    pub(super) pings: Pings,
    /// Time of the next timers.
    pub(super) look: u64,
    pub(super) aged: u64,
    pub(super) jobs: Post<Job>,
    /// Jobs in the handshake thread.
    pub(super) in_flight: usize,
    pub(super) key_log: Option<Post<Vec<KeyLogEntry>>>,
}

pub(super) fn address(frame: &[u8], at: usize) -> EthernetAddress {
    EthernetAddress(frame.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default())
}

impl Core {
    /// Starts a new session: asks the peer for its capabilities, and sends the frames that waited.
    #[cold]
    pub(super) fn greet(&mut self, now: u64, place: usize) {
        if self.peers.get_mut(place).is_some_and(|peer| peer.asks(now)) {
            self.say_hello(now, place, true);
        }
        while let Some((since, frame)) = self.peers.get_mut(place).and_then(Peer::held) {
            let waited = now.saturating_sub(since);
            let cyclic = self.gate.decide(Way::Out, &frame).class.is_cyclic();
            if self.max_age.is_stale(waited) || cyclic && self.max_age.is_stale_cyclic(waited) {
                self.out.stale.count();
            } else {
                self.send(now, place, &frame);
            }
        }
        self.look = 0;
    }

    pub(super) fn say_hello(&mut self, now: u64, place: usize, wants_answer: bool) {
        let longest = MAX_FRAME_LEN as u16;
        let hello = Hello { wants_answer, reads_pieces: true, longest, answers_probes: true };
        self.say(now, place, &hello.emit());
    }

    /// Tells all peers that this end lives. Without a session to one, that begins a handshake.
    #[cold]
    pub(super) fn say_alive(&mut self, now: u64, alive: Alive) {
        let octets = alive.emit();
        for place in 0..self.peers.len() {
            // To a stock end too: it begins the session that a restart of either end lost.
            self.say(now, place, &octets);
        }
        self.look = 0;
    }

    /// Sends a message to an Antedate peer.
    pub(super) fn say(&mut self, now: u64, place: usize, octets: &[u8]) {
        let (Some(peer), Crypt::Wireguard(device)) = (self.peers.get(place), &mut self.crypt) else { return };
        let second = self.second.as_mut().zip(peer.settings.second_endpoint);
        let mut carrier = Carrier { now, device, uplink: &mut self.uplink, second, out: &self.out, class: 0 };
        // Without a session the next one repeats it.
        let _ = carrier.carry(peer.id, octets.len(), |packet| packet[..octets.len()].copy_from_slice(octets));
    }

    /// Sends an answer to the source of a datagram.
    #[cold]
    pub(super) fn reply(&mut self, by: Which, octets: &[u8], to: SocketAddr) {
        let uplink = match by {
            Which::First => Some(&mut self.uplink),
            Which::Second => self.second.as_mut(),
        };
        if let Some(uplink) = uplink
            && let Some(room) = uplink.place(&self.out)
        {
            room[..octets.len()].copy_from_slice(octets);
            uplink.put_by_socket(octets.len(), to);
        }
    }

    /// Sends jobs to the handshake thread, up to its limit.
    #[cold]
    pub(super) fn hand_over(&mut self) {
        let Crypt::Wireguard(device) = &mut self.crypt else { return };
        while self.in_flight < IN_FLIGHT
            && let Some(job) = device.take_job()
        {
            // The thread lives as long as this one.
            self.in_flight += usize::from(self.jobs.send(job).is_ok());
        }
    }

    /// Finishes a job of a handshake.
    #[cold]
    pub(super) fn handshake(&mut self, now: u64, done: Done) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let Crypt::Wireguard(device) = &mut self.crypt else { return };
        let mut octets = [0; LONGEST_HANDSHAKE];
        match device.finish(&mut World, done, &mut octets) {
            Ok(Finished::Begun(outgoing) | Finished::Answered(outgoing)) => {
                self.reply(Which::First, &octets[..outgoing.len], outgoing.to);
                self.repeat(outgoing.peer, &octets[..outgoing.len]);
            }
            Ok(Finished::Session { peer }) => self.session(now, peer),
            // The device counts it by reason.
            Err(_) => {}
        }
        self.look = 0;
        self.hand_over();
    }

    /// Handles a packet of a session, which may be a new one.
    #[inline]
    pub(super) fn session(&mut self, now: u64, peer: PeerId) {
        let Crypt::Wireguard(device) = &self.crypt else { return };
        let handshakes = device.counters(peer).map_or(0, |counters| counters.handshakes);
        if let Some(known) = self.peers.get_mut(peer.0)
            && known.is_new_session(handshakes, now)
        {
            self.greet(now, peer.0);
        }
    }

    /// Runs the timers.
    #[cold]
    pub(super) fn timers(&mut self, now: u64) {
        let mut next = now + LOOK;
        if let Crypt::Wireguard(device) = &mut self.crypt {
            let mut octets = [0; LONGEST_HANDSHAKE];
            // At most a full outbox; the rest is sent in the next turn.
            while !self.uplink.is_full() {
                let Some(outgoing) = device.poll(&mut World, &mut octets) else { break };
                if let Some(room) = self.uplink.place(&self.out) {
                    room[..outgoing.len].copy_from_slice(&octets[..outgoing.len]);
                    self.uplink.put_by_socket(outgoing.len, outgoing.to);
                }
                let also = self.peers.get(outgoing.peer.0).and_then(|peer| peer.settings.second_endpoint);
                if let Some((second, to)) = self.second.as_mut().zip(also) {
                    second.copy(&self.out, now, &octets[..outgoing.len], to, 0);
                }
            }
            next = device.due().map_or(next, |due| due.clamp(now + 1_000_000, next));
            if let Some(post) = &self.key_log {
                let keys = device.take_key_log();
                if !keys.is_empty() {
                    // The main thread may have stopped.
                    let _ = post.send(keys);
                }
            }
        }
        self.hand_over();
        if self.uplink.is_full() {
            next = now;
        }
        self.look = next;
        self.discover(now);
        self.send_pings(now);
        if now.saturating_sub(self.aged) >= AGE {
            self.aged = now;
            self.table.age(now);
            self.find_lost(now);
            self.report_strays();
            self.peers.iter_mut().filter_map(|peer| peer.reassembly.as_mut()).for_each(|r| r.expire(now));
        }
    }

    /// Reports machines of the field whose frames come from a peer, unless they are a few.
    fn report_strays(&mut self) {
        let strayed = self.table.elsewhere - self.strayed;
        if strayed >= STRAYED
            && let Some(suspect) = self.table.take_suspect()
        {
            self.strayed = self.table.elsewhere;
            let _ = self.news.send(News::Elsewhere(suspect, strayed));
        }
    }

    /// Asks peers for their capabilities, where it is time.
    pub(super) fn ask(&mut self, now: u64) {
        for place in 0..self.peers.len() {
            if self.peers[place].asks(now) {
                self.say_hello(now, place, true);
            }
        }
    }

    /// Whether a peer has this address.
    pub(super) fn is_peer(&self, ip: IpAddr) -> bool {
        let at = |peer: &Peer| match &self.crypt {
            Crypt::Wireguard(device) => device.endpoint(peer.id),
            Crypt::Bare => peer.endpoint,
        };
        self.peers.iter().any(|peer| at(peer).is_some_and(|endpoint| endpoint.ip() == ip))
    }

    /// Sends the frames that the release clock releases now. Returns their number.
    #[inline]
    pub(super) fn release(&mut self, now: u64) -> usize {
        let Some(release) = &mut self.release else { return 0 };
        let mut count = 0;
        let Self { to_field, inward, max_age, .. } = self;
        while release.take(now, |overdue, frame| {
            if max_age.is_stale_cyclic(overdue) {
                inward.stale.count();
            } else {
                to_field.put(inward, frame);
            }
        }) {
            count += 1;
        }
        count
    }

    /// Sends the datagrams in the outbox.
    #[inline]
    pub(super) fn flush(&mut self) {
        self.uplink.flush(&self.out);
        if let Some(second) = &mut self.second {
            second.flush(&self.out);
        }
    }
}
