//! Two nodes, a schedule, and a medium that loses, damages, duplicates, replays and injects.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use super::super::tsch::*;
use super::super::*;
use super::setup::*;
use crate::world::Rng;
use proptest::prelude::*;

/// Rates of the medium's faults, in frames per thousand.
#[derive(Clone, Copy, Default)]
struct Faults {
    lose: u32,
    corrupt: u32,
    double: u32,
    replay: u32,
    inject: u32,
    /// The receiver has the wrong slot.
    misplace: u32,
}

struct World {
    nodes: [Node; 2],
    rng: Rng,
    faults: Faults,
    asn: u64,
    recording: Vec<Vec<u8>>,
    /// A stranger with another key, and one without security.
    stranger: Security,
    by: [BTreeMap<Ticket, Vec<u8>>; 2],
    delivered: BTreeSet<Vec<u8>>,
    acknowledged: BTreeSet<Vec<u8>>,
    serial: u32,
    refusals: BTreeMap<&'static str, u64>,
}

fn cell(slot: u16, kind: CellKind, neighbour: Option<ExtendedAddress>) -> Cell {
    Cell { slot, channel_offset: slot, kind, neighbour }
}

fn schedule(own: usize) -> Schedule {
    let peer = Some([B, A][own]);
    let (first, second) = if own == 0 {
        (CellKind::Transmit, CellKind::Receive)
    } else {
        (CellKind::Receive, CellKind::Transmit)
    };
    let cells = [cell(0, first, peer), cell(2, second, peer), cell(3, CellKind::Shared, None)].to_vec();
    Schedule::new([Slotframe { length: 7, cells }].to_vec(), (11..=26).collect()).unwrap()
}

fn node(own: usize, prepare: bool, level: SecurityLevel, seed: u32) -> Node {
    let security = security([A, B][own], [B, A][own], NonceKind::Asn);
    let config = NodeConfig { prepare, ..NodeConfig::new(at(level)) };
    Node::new(security, schedule(own), config, Asn::new(99).unwrap(), seed)
}

impl World {
    fn new(faults: Faults, prepare: [bool; 2], level: SecurityLevel, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut stranger = security(A, B, NonceKind::Asn);
        stranger.remove_key(&INDEX_1);
        stranger.install_key(KeyConfig::fresh(INDEX_1, LinkKey::new([3; 16]), NonceKind::Asn)).unwrap();
        let seeds = [rng.number() as u32, rng.number() as u32];
        Self {
            nodes: [node(0, prepare[0], level, seeds[0]), node(1, prepare[1], level, seeds[1])],
            rng,
            faults,
            asn: 100,
            recording: Vec::new(),
            stranger,
            by: [BTreeMap::new(), BTreeMap::new()],
            delivered: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            serial: 0,
            refusals: BTreeMap::new(),
        }
    }

    fn send(&mut self, from: usize) {
        let mut payload = Vec::from(b"node _ says".as_slice());
        payload[5] = b'0' + from as u8;
        payload.extend(self.serial.to_be_bytes());
        let filler = self.rng.below(60);
        payload.extend((0..filler).map(|_| self.rng.number() as u8));
        self.serial += 1;
        if let Ok(ticket) = self.nodes[from].send(Some([B, A][from]), &payload, 0) {
            self.by[from].insert(ticket, payload);
        }
    }

    /// Sends a frame over the air. Returns the frames that the other side hears.
    fn air(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        let mut heard = Vec::new();
        let faults = self.faults;
        assert!(!self.recording.iter().any(|old| old == frame), "a frame was sent twice, octet by octet");
        self.recording.push(frame.to_vec());
        if self.rng.happens(faults.replay) {
            let at = self.rng.below(self.recording.len());
            heard.push(self.recording[at].clone());
        }
        if self.rng.happens(faults.inject) {
            let mut out = [0; 127];
            let level = if self.rng.happens(500) { LEVEL } else { SecurityLevel::None };
            let header = header(self.rng.number() as u8);
            let number = self.asn + 1_000_000 * self.rng.below(3) as u64;
            let secured = self.stranger.secure(&header, &[], b"forged", at(level), asn(number), &mut out);
            heard.extend(secured.map(|len| out[..len].to_vec()));
        }
        if self.rng.happens(faults.lose) {
            return heard;
        }
        let mut damaged = frame.to_vec();
        if self.rng.happens(faults.corrupt) {
            let at = self.rng.below(frame.len());
            damaged[at] ^= 1 << self.rng.below(8);
        }
        heard.push(damaged);
        if self.rng.happens(faults.double) {
            heard.push(frame.to_vec());
        }
        heard
    }

    fn note<T>(&mut self, node: usize, before: Counters, result: &Result<T, Status>) {
        let after = *self.nodes[node].security().received();
        let expected =
            (before.passed() + u64::from(result.is_ok()), before.refused() + u64::from(result.is_err()));
        assert_eq!((after.passed(), after.refused()), expected, "counted once");
        if let Err(status) = result {
            *self.refusals.entry(status.name()).or_default() += 1;
        }
    }

    fn slot(&mut self) {
        let asn = Asn::new(self.asn).unwrap();
        let mut on_air: [Option<(u8, Vec<u8>)>; 2] = [None, None];
        let mut tuned: [Option<u8>; 2] = [None, None];
        for i in 0..2 {
            let wrong = self.rng.happens(self.faults.misplace);
            match self.nodes[i].begin(asn) {
                Action::Sleep => {}
                Action::Transmit { channel, frame, at, .. } => {
                    assert_eq!(at, 2120);
                    on_air[i] = Some((channel, frame.to_vec()));
                }
                Action::Listen { channel, from, until } => {
                    assert!(from < until);
                    tuned[i] = Some(channel);
                }
            }
            if wrong
                && on_air[i].is_none()
                && let Some(later) = asn.after(7 * 16)
            {
                // It listens on schedule, but assumes another slot, a whole round of channels
                // later.
                tuned[i] = match self.nodes[i].begin(later) {
                    Action::Listen { channel, .. } => Some(channel),
                    _ => None,
                };
            }
        }
        // Two frames at once collide.
        if let [Some(_), Some(_)] = on_air {
            for node in &mut self.nodes {
                node.acknowledged(Heard::Silence);
            }
        } else if let Some(from) = on_air.iter().position(Option::is_some)
            && let Some((channel, frame)) = on_air[from].take()
        {
            self.exchange(from, channel, &frame, tuned[1 - from]);
        }
        self.nodes.iter_mut().for_each(Node::end);
        self.asn += 1;
    }

    fn exchange(&mut self, from: usize, channel: u8, frame: &[u8], tuned: Option<u8>) {
        let to = 1 - from;
        let mut ack = None;
        let heard = self.air(frame);
        if tuned == Some(channel) {
            for frame in heard {
                let before = *self.nodes[to].security().received();
                let result = self.nodes[to].received(&frame, 2100 + self.rng.below(40) as u32);
                let result = result.map(|Reaction { delivered, ack }| {
                    let delivered = delivered.map(|delivered| (delivered.from, delivered.payload.to_vec()));
                    (delivered, ack.map(<[u8]>::to_vec))
                });
                self.note(to, before, &result);
                let Ok((delivered, reply)) = result else { continue };
                ack = reply.or(ack);
                if let Some((by, payload)) = delivered {
                    assert_eq!(by, Some([A, B][from]));
                    assert!(self.by[from].values().any(|sent| *sent == payload), "nobody sent it");
                    assert!(self.delivered.insert(payload), "delivered twice");
                }
            }
        }
        let heard = ack.map(|ack| self.air(&ack)).unwrap_or_default();
        let before = *self.nodes[from].security().received();
        let heard = heard.first().map_or(Heard::Silence, |ack| Heard::Frame(ack));
        let (outcome, refused) = self.nodes[from].acknowledged(heard);
        if heard != Heard::Silence {
            self.note(from, before, &refused.map_or(Ok(()), Err));
        }
        if let Outcome::Acknowledged(ticket, microseconds) = outcome {
            assert!((-40..=40).contains(&microseconds));
            let payload = self.by[from][&ticket].clone();
            assert!(self.delivered.contains(&payload), "acknowledged and not delivered");
            self.acknowledged.insert(payload);
        }
    }

    fn idle(&mut self, budget: u32) {
        for node in &mut self.nodes {
            node.idle(budget);
        }
    }

    fn drain(&mut self) {
        self.faults = Faults::default();
        for _ in 0..7 * 60 {
            self.idle(100);
            self.slot();
        }
        assert_eq!(self.nodes.iter().map(Node::waiting).sum::<usize>(), 0);
    }

    fn given_up(&self) -> u64 {
        self.nodes.iter().map(|node| node.counters().given_up).sum()
    }

    fn queued(&self) -> usize {
        self.by.iter().map(BTreeMap::len).sum()
    }
}

#[test]
fn quiet_medium_delivers_all_prepared() {
    let mut world = World::new(Faults::default(), [true; 2], LEVEL, 1);
    for round in 0..200 {
        if round < 190 {
            // Payloads of one length, as machines send them.
            for from in 0..2 {
                let payload = [from as u8, round as u8, 1, 2, 3, 4, 5, 6];
                let ticket = world.nodes[from].send(Some([B, A][from]), &payload, 2).unwrap();
                world.by[from].insert(ticket, payload.to_vec());
            }
        }
        for _ in 0..7 {
            world.idle(100);
            world.slot();
        }
    }
    assert_eq!((world.delivered.len(), world.acknowledged.len(), world.given_up()), (380, 380, 0));
    assert!(world.refusals.is_empty());
    for node in &world.nodes {
        let counters = node.counters();
        assert_eq!((counters.sent, counters.duplicates), (190, 0));
        let [sec1, sec2, sec3, sec4] = counters.prepared;
        assert_eq!((sec1, sec4), (190, 190), "{counters:?}");
        // Nothing is known of a neighbour before its first frame.
        assert_eq!((sec2, sec3), (189, 189), "{counters:?}");
        // Cells that stayed empty were prepared for, and wiped.
        assert!(counters.wiped > 100);
    }
}

#[test]
fn late_octets_are_sent_at_slot_start() {
    let mut world = World::new(Faults::default(), [true; 2], LEVEL, 3);
    for round in 0..50u8 {
        let ticket = world.nodes[0].send(Some(B), b"temperature = ??.?", 4).unwrap();
        world.idle(100);
        let value = [b'2', b'0' + round % 10, b'.', b'0' + round / 10];
        world.nodes[0].update(ticket, &value).unwrap();
        assert_eq!(world.nodes[0].update(ticket, b"12"), Err(QueueError::Late));
        let payload = [b"temperature = ".as_slice(), &value].concat();
        world.by[0].insert(ticket, payload);
        for _ in 0..7 {
            world.slot();
            world.idle(100);
        }
        assert_eq!(world.nodes[0].update(ticket, &value), Err(QueueError::Gone));
    }
    assert_eq!((world.delivered.len(), world.nodes[0].counters().prepared[0]), (50, 50));
}

#[test]
fn faulty_medium_never_duplicates_or_hides() {
    let faults = Faults { lose: 80, corrupt: 80, double: 150, replay: 100, inject: 100, misplace: 50 };
    let mut world = World::new(faults, [true; 2], LEVEL, 9);
    for round in 0..3000 {
        if round % 9 == 0 {
            world.send(0);
            world.send(1);
        }
        world.idle(round % 40);
        world.slot();
    }
    world.drain();
    // Every frame was delivered or given up. One given up may still have been delivered, if only
    // acknowledgments were lost.
    assert!(world.acknowledged.len() as u64 + world.given_up() == world.queued() as u64);
    let (given_up, queued) = (world.given_up(), world.queued() as u64);
    assert!(
        world.delivered.len() >= world.acknowledged.len() && given_up * 5 < queued,
        "{given_up} of {queued}"
    );
    for status in
        ["COUNTER_ERROR", "SECURITY_ERROR", "IMPROPER_SECURITY_LEVEL", "UNAVAILABLE_KEY", "INVALID_PARAMETER"]
    {
        assert!(world.refusals.contains_key(status), "{status}: {:?}", world.refusals);
    }
    assert!(world.nodes.iter().all(|node| node.counters().duplicates > 5));
}

#[test]
fn key_change_loses_no_frame() {
    let mut world = World::new(Faults { lose: 50, ..Faults::default() }, [true; 2], LEVEL, 4);
    // Losses and collisions in the shared cell do not exhaust the retries.
    world.nodes = [0, 1].map(|own| {
        let security = security([A, B][own], [B, A][own], NonceKind::Asn);
        let config = NodeConfig { max_retries: 7, ..NodeConfig::new(at(LEVEL)) };
        Node::new(security, schedule(own), config, Asn::new(99).unwrap(), own as u32)
    });
    let mut old = INDEX_1;
    for change in 0..6u8 {
        let now = world.asn;
        let (from, until) = (asn(now + 40).unwrap(), asn(now + 120).unwrap());
        let index = change + 2;
        let announce = || KeyChange { index, key: LinkKey::new([index; 16]), from, until };
        let changes = [0, 1].map(|i| {
            let change = world.nodes[i].security_mut().begin_change(old, announce(), u64::MAX).unwrap();
            (change, i)
        });
        for step in 0..130 {
            if step % 8 == 0 {
                world.send(0);
                world.send(1);
            }
            let now = asn(world.asn).unwrap();
            for (change, i) in &changes {
                // One node changes late.
                let seen = Asn::new(now.number() - 20 * *i as u64).unwrap();
                let key = change.sending(seen).identifier();
                world.nodes[*i].set_protection(Protection { level: LEVEL, key });
                world.nodes[*i].security_mut().finish_change(change, now);
            }
            world.idle(60);
            world.slot();
        }
        old = changes[0].0.new;
        assert_eq!(world.nodes[0].security().keys().collect::<Vec<_>>(), [old]);
    }
    world.drain();
    assert_eq!(world.acknowledged.len() as u64 + world.given_up(), world.queued() as u64);
    assert!(world.given_up() == 0 && world.refusals.is_empty(), "{:?}", world.refusals);
}

#[test]
fn node_sleeps_at_end_of_reservation() {
    let mut world = World::new(Faults::default(), [true; 2], LEVEL, 5);
    let mut bounded = Security::new(*world.nodes[0].security().config());
    bounded.add_device(device(B));
    let fresh = KeyConfig::fresh(INDEX_1, LinkKey::new(KEY), NonceKind::Asn);
    bounded.install_key(KeyConfig { next: 100, limit: 104, ..fresh }).unwrap();
    *world.nodes[0].security_mut() = bounded;
    world.send(0);
    world.send(0);
    world.send(0);
    for _ in 0..40 {
        world.idle(100);
        world.slot();
    }
    let sent = world.nodes[0].counters().sent;
    assert!(sent < 3 && world.nodes[0].security().sent().counter_error > 0);
    world.nodes[0].security_mut().reserve_until(&INDEX_1, 1000);
    world.drain();
    assert_eq!(world.delivered.len(), 3);
}

#[test]
fn schedule_hops_over_all_channels() {
    let schedule = schedule(0);
    let next =
        |from| schedule.next(asn(from).unwrap(), |_| true).map(|(asn, cell)| (asn.number(), cell.kind));
    assert_eq!(next(0), Some((0, CellKind::Transmit)));
    assert_eq!(next(1), Some((2, CellKind::Receive)));
    assert_eq!(next(10), Some((10, CellKind::Shared)));
    assert_eq!(next(11), Some((14, CellKind::Transmit)));
    let channels: BTreeSet<u8> = (0..16).map(|i| schedule.channel(asn(7 * i).unwrap(), 0)).collect();
    assert_eq!(channels.len(), 16);
    assert_eq!(Schedule::new(Vec::new(), Vec::new()), Err(ScheduleError::NoChannel));
    let beyond = Slotframe { length: 3, cells: [cell(3, CellKind::Receive, None)].to_vec() };
    assert_eq!(Schedule::new([beyond].to_vec(), [11].to_vec()), Err(ScheduleError::CellBeyondEnd));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn preparation_changes_no_octet_on_air(
        seed: u64, level in 1usize..8, lose in 0u32..300, corrupt in 0u32..200, budget in 0u32..30,
    ) {
        let level = SecurityLevel::ALL[level];
        prop_assume!(level != SecurityLevel::Enc);
        let faults = Faults { lose, corrupt, ..Faults::default() };
        let mut worlds = [true, false].map(|prepare| World::new(faults, [prepare; 2], level, seed));
        for world in &mut worlds {
            for round in 0..300 {
                if round % 10 == 0 {
                    world.send(0);
                    world.send(1);
                }
                world.idle(budget);
                world.slot();
            }
        }
        let [prepared, unprepared] = &worlds;
        prop_assert_eq!(&prepared.recording, &unprepared.recording);
        prop_assert_eq!(&prepared.delivered, &unprepared.delivered);
    }
}
