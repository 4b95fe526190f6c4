//! The state that both directions of an overlay share: sessions, peers, the address table, the
//! uplink's sending side; and the timers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::Sender as Post;

use antedate_channel::overlay::message::{Alive, Hello};
use antedate_channel::wireguard::{Device, Done, Finished, KeyLogEntry, LONGEST_HANDSHAKE, PeerId};
use antedate_wire::EthernetAddress;

use super::carrier::Carrier;
use super::drops::Drops;
use super::handshakes::IN_FLIGHT;
use super::message::Message;
use super::news::News;
use super::peers::Peer;
use super::ping::Pings;
use super::release::Release;
use super::uplink::Outward;
use super::workers::{Addresses, OwnedJob, Passed, Workers};
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

/// Machines behind peers, each with the worker of its peer.
pub(super) type Machines = Vec<(EthernetAddress, u8)>;

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
    pub(super) table: Addresses,
    /// The number of this worker, and all of them if there are several.
    pub(super) own: u8,
    pub(super) workers: Option<Arc<Workers>>,
    /// Changes taken over so far.
    pub(super) changes: u32,
    /// Where the first of several workers tells the main thread which worker has the frames to which
    /// machines, and the changes of the table that it told.
    pub(super) machines: Option<Post<Machines>>,
    pub(super) told: u64,
    /// Frames passed to other workers.
    pub(super) passed: u64,
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
    pub(super) jobs: Post<OwnedJob>,
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
            if self.waited_too_long(now, since, &frame) {
                self.out.stale.count();
            } else {
                self.send(now, place, &frame);
            }
        }
        self.look = 0;
    }

    /// Whether a frame that waits since then is too old to be sent.
    fn waited_too_long(&self, now: u64, since: u64, frame: &[u8]) -> bool {
        let waited = now.saturating_sub(since);
        let is_cyclic = || self.gate.decide(Way::Out, frame).class.is_cyclic();
        self.max_age.is_stale(waited) || self.max_age.is_stale_cyclic(waited) && is_cyclic()
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
        if peer.worker != self.own {
            return;
        }
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
            self.in_flight += usize::from(self.jobs.send((self.own, job)).is_ok());
        }
    }

    /// Finishes a job of a handshake.
    #[cold]
    pub(super) fn handshake(&mut self, now: u64, done: Done) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let (Some(workers), Crypt::Wireguard(device)) = (&self.workers, &self.crypt)
            && let Some(peer) = device.peer_of(&done).and_then(|peer| self.peers.get(peer.0))
            && peer.worker != self.own
        {
            // Whose an initiation is shows only now.
            workers.post(peer.worker, Message::Finish(done));
            return self.hand_over();
        }
        self.finish(now, done);
    }

    /// Takes over the result of a handshake with a peer of this worker.
    #[cold]
    pub(super) fn finish(&mut self, now: u64, done: Done) {
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
        self.tell_machines();
        if now.saturating_sub(self.aged) >= AGE {
            self.aged = now;
            if self.own == 0 {
                self.table.with(|table| table.age(now));
                self.report_strays();
            }
            self.find_lost(now);
            self.peers.iter_mut().filter_map(|peer| peer.reassembly.as_mut()).for_each(|r| r.expire(now));
        }
    }

    /// Reports machines of the field whose frames come from a peer, unless they are a few.
    fn report_strays(&mut self) {
        let before = self.strayed;
        let found = self.table.with(|table| {
            let enough = table.elsewhere - before >= STRAYED;
            enough.then(|| table.take_suspect()).flatten().map(|suspect| (suspect, table.elsewhere))
        });
        if let Some((suspect, strayed)) = found {
            self.strayed = strayed;
            let _ = self.news.send(News::Elsewhere(suspect, strayed - before));
        }
    }

    /// Tells the main thread which worker has the frames to which machines, if that changed.
    fn tell_machines(&mut self) {
        let Some(post) = &self.machines else { return };
        let (told, peers) = (self.told, &self.peers);
        let worker = |(address, place): (EthernetAddress, usize)| Some((address, peers.get(place)?.worker));
        let machines = self.table.with(|table| {
            let others = || table.behind_peers().filter_map(worker).filter(|(_, worker)| *worker > 0);
            (table.changes != told).then(|| (table.changes, others().collect()))
        });
        if let Some((changes, machines)) = machines {
            self.told = changes;
            // The main thread may have stopped.
            let _ = post.send(machines);
        }
    }

    /// Passes a frame to the worker of a peer.
    #[cold]
    pub(super) fn pass_on(&mut self, now: u64, place: usize, worker: u8, frame: &[u8]) {
        let passed = self
            .workers
            .as_ref()
            .is_some_and(|workers| workers.pass(worker, (self.changes, now), place, frame));
        self.passed += u64::from(passed);
        self.drops.not_passed += u64::from(!passed);
    }

    /// Sends a frame that another worker passed on.
    #[cold]
    pub(super) fn send_passed(&mut self, now: u64, passed: &Passed) {
        if let Some(workers) = &self.workers {
            workers.taken(self.own);
        }
        if passed.change != self.changes {
            self.drops.not_passed += 1;
        } else if self.waited_too_long(now, passed.since, &passed.frame) {
            // The process may have stood still.
            self.out.stale.count();
        } else {
            self.send(now, passed.place, &passed.frame);
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
