//! Parallel gateways: a ring is found by probes, and one gateway of it blocks.
//!
//! Two gateways between the same networks form a ring: a broadcast would go around for ever. So each
//! gateway sends probes from its field port. One that comes back by the uplink has gone around, and says
//! whether somebody on its way blocks. One gateway blocks: it passes probes and no other frame. When
//! the others no longer bring its probes back, the ring is open elsewhere, and it forwards.
//!
//! Rules, by the probes that came back within three intervals:
//!
//! - A gateway that starts blocks for three intervals.
//! - A blocking gateway forwards when none came, for nobody is parallel to it; and when each that came
//!   the shortest way came by a gateway that blocks and has a higher SCI, for nobody else forwards. It
//!   also forwards when nobody did for long.
//! - A forwarding gateway blocks when one came by a way without a blocking gateway, and each SCI there
//!   is lower than its own.

use std::sync::Mutex;

use antedate_wire::ring::{Kind, RING_LEN, Repr};
use antedate_wire::{EthernetAddress, Sci};

use crate::run::lock;

/// Intervals without a probe after which the ring counts as open.
const MISSED: u64 = 3;
/// Nanoseconds that a probe may be late.
const LATE: u64 = 2_000_000;
/// Intervals without a forwarding gateway after which a blocking one forwards in any case.
const DESERTED: u64 = 20;
/// The most gateways on a way.
const HOPS: u8 = 8;
/// Messages that are remembered, so that each passes once.
const REMEMBERED: usize = 64;
/// Own probes that may be under way.
const UNDER_WAY: u32 = 64;

/// Where a message came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The machines.
    Field,
    /// The uplink, authenticated.
    Uplink,
}

/// The ring, for all threads.
#[derive(Debug)]
pub struct Ring {
    own: Sci,
    source: EthernetAddress,
    /// Tells this process from an earlier one.
    id: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    interval: u64,
    /// When this process, or its keys, began.
    start: u64,
    /// When it began to block.
    since: u64,
    sequence: u32,
    blocks: bool,
    /// When a probe came back last: by any way, by one without a blocking gateway, by one whose
    /// highest SCI is above the own one, and by one whose blocking gateway has a lower SCI.
    came: Option<u64>,
    open_way: Option<u64>,
    yields: Option<u64>,
    lower_blocks: Option<u64>,
    /// The last own probe that came back, and the gateways on its shortest way.
    shortest: (u32, u8),
    passed: [(u64, u32); REMEMBERED],
    next: usize,
}

/// What to do with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Nothing.
    Nothing,
    /// Send this frame by the other port.
    On([u8; RING_LEN]),
    /// Announce the machines to the uplink.
    Announce,
}

impl Ring {
    /// A ring of the gateway with this SCI and address, whose probes leave each `interval`
    /// nanoseconds.
    #[must_use]
    pub fn new(own: Sci, source: EthernetAddress, interval: u64, now: u64) -> Self {
        let mut id = [0; 8];
        // Without random numbers the address tells it from others.
        if getrandom::fill(&mut id).is_err() {
            id = own.0;
        }
        let state = State {
            interval,
            start: now,
            since: now,
            sequence: 0,
            blocks: true,
            came: None,
            open_way: None,
            yields: None,
            lower_blocks: None,
            shortest: (0, HOPS),
            passed: [(0, 0); REMEMBERED],
            next: 0,
        };
        Self { own, source, id: u64::from_be_bytes(id), state: Mutex::new(state) }
    }

    /// Whether this gateway blocks.
    #[must_use]
    pub fn blocks(&self) -> bool {
        lock(&self.state).blocks
    }

    /// Whether a probe came back of late, so that there is a ring.
    #[must_use]
    pub fn closed(&self, now: u64) -> bool {
        let state = lock(&self.state);
        state.is_fresh(state.came, now)
    }

    /// The next message of this gateway, for the port of its kind.
    #[must_use]
    pub fn say(&self, kind: Kind) -> [u8; RING_LEN] {
        self.say_as(kind, self.source)
    }

    /// As [`Self::say`], with the address of a machine.
    #[must_use]
    pub fn say_as(&self, kind: Kind, source: EthernetAddress) -> [u8; RING_LEN] {
        let mut state = lock(&self.state);
        state.sequence = state.sequence.wrapping_add(1);
        let message = Repr {
            source,
            kind,
            hops: 0,
            id: self.id,
            sequence: state.sequence,
            highest: None,
            blocking: None,
        };
        drop(state);
        let mut frame = [0; RING_LEN];
        message.emit(&mut frame);
        frame
    }

    /// Takes a message.
    #[must_use]
    pub fn heard(&self, from: From, frame: &[u8], now: u64) -> Pass {
        let Ok(message) = Repr::parse(frame) else { return Pass::Nothing };
        let mut state = lock(&self.state);
        if message.id == self.id {
            if from == From::Uplink && message.kind == Kind::Probe {
                state.came_back(self.own, &message, now);
            }
            return Pass::Nothing;
        }
        let known = (message.id, message.sequence);
        if message.hops >= HOPS || state.passed.contains(&known) {
            return Pass::Nothing;
        }
        let place = state.next % REMEMBERED;
        state.passed[place] = known;
        state.next += 1;
        let blocking = message.blocking.into_iter().chain(state.blocks.then_some(self.own)).min();
        let next = Repr {
            hops: message.hops + 1,
            highest: message.highest.max(Some(self.own)),
            blocking,
            ..message
        };
        let mut frame = [0; RING_LEN];
        next.emit(&mut frame);
        match message.kind {
            Kind::Probe => Pass::On(frame),
            // Machines do not call, and only who forwards has a say about where they are.
            Kind::Changed if from == From::Uplink => Pass::Announce,
            Kind::Address if from == From::Uplink && !state.blocks => Pass::On(frame),
            _ => Pass::Nothing,
        }
    }

    /// Decides. Returns whether this gateway blocks, if that changed.
    #[must_use]
    pub fn decide(&self, now: u64) -> Option<bool> {
        let mut state = lock(&self.state);
        let blocks = state.should_block(now);
        let changed = blocks != state.blocks;
        if changed {
            (state.blocks, state.since) = (blocks, now);
        }
        changed.then_some(blocks)
    }

    /// Blocks from now on for as long as at a start: the gateway has no keys.
    pub fn begin_anew(&self, now: u64) {
        lock(&self.state).start = now;
    }
}

impl State {
    fn is_fresh(&self, at: Option<u64>, now: u64) -> bool {
        at.is_some_and(|at| now <= at + self.patience())
    }

    /// The time in which probes come back.
    const fn patience(&self) -> u64 {
        MISSED * self.interval + LATE
    }

    fn came_back(&mut self, own: Sci, probe: &Repr, now: u64) {
        if self.sequence.wrapping_sub(probe.sequence) >= UNDER_WAY {
            return;
        }
        self.came = Some(now);
        let (sequence, hops) = self.shortest;
        match probe.blocking {
            None => {
                self.open_way = Some(now);
                if probe.highest.is_some_and(|highest| highest < own) {
                    self.yields = Some(now);
                }
            }
            // A longer way passes gateways that are not parallel to this one.
            Some(other) if other < own && (sequence != probe.sequence || probe.hops <= hops) => {
                self.lower_blocks = Some(now);
            }
            Some(_) => {}
        }
        if sequence != probe.sequence || probe.hops < hops {
            self.shortest = (probe.sequence, probe.hops);
        }
    }

    fn should_block(&self, now: u64) -> bool {
        if now < self.start + self.patience() {
            return true;
        }
        if !self.blocks {
            return self.is_fresh(self.yields, now);
        }
        let last = self.open_way.unwrap_or(0).max(self.since);
        let deserted = now > last + DESERTED * self.interval;
        // While it blocks, its own probes do not tell of it.
        self.is_fresh(self.open_way, now) || self.is_fresh(self.lower_blocks, now) && !deserted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = 10_000_000;

    struct Gateway {
        ring: Ring,
        field: usize,
        uplink: usize,
        alive: bool,
    }

    /// Gateways between segments.
    struct World {
        gateways: Vec<Gateway>,
        now: u64,
    }

    impl World {
        /// Each gateway with its segments of fields and uplinks; their SCIs rise.
        fn new(places: &[(usize, usize)]) -> Self {
            let gateway = |(number, (field, uplink)): (usize, &(usize, usize))| {
                let address = EthernetAddress([2, 0, 0, 0, 0, number as u8]);
                let ring = Ring::new(Sci::new(address, 1), address, INTERVAL, 0);
                Gateway { ring, field: *field, uplink: *uplink, alive: true }
            };
            Self { gateways: places.iter().enumerate().map(gateway).collect(), now: 0 }
        }

        /// Carries a frame to the other gateways of a segment, and on. Returns how often it was
        /// carried.
        fn carry(&self, from: usize, port: From, frame: &[u8]) -> u32 {
            let place = |gateway: &Gateway| if port == From::Field { gateway.field } else { gateway.uplink };
            let mut carried = 0;
            for (to, gateway) in self.gateways.iter().enumerate() {
                if to == from || !gateway.alive || place(gateway) != place(&self.gateways[from]) {
                    continue;
                }
                carried += 1;
                let other = if port == From::Field { From::Uplink } else { From::Field };
                match gateway.ring.heard(port, frame, self.now) {
                    Pass::On(next) => carried += self.carry(to, other, &next),
                    Pass::Nothing | Pass::Announce => {}
                }
            }
            carried
        }

        fn rounds(&mut self, count: usize) {
            for _ in 0..count {
                self.now += INTERVAL;
                for (from, gateway) in self.gateways.iter().enumerate().filter(|(_, one)| one.alive) {
                    let carried = self.carry(from, From::Field, &gateway.ring.say(Kind::Probe));
                    assert!(carried < 64, "{carried}");
                }
                for gateway in self.gateways.iter().filter(|one| one.alive) {
                    let _ = gateway.ring.decide(self.now);
                }
            }
        }

        fn forwarding(&self) -> Vec<usize> {
            let all = self.gateways.iter().enumerate();
            all.filter(|(_, one)| one.alive && !one.ring.blocks()).map(|(number, _)| number).collect()
        }

        fn restart(&mut self, number: usize) {
            let now = self.now;
            let gateway = &mut self.gateways[number];
            gateway.ring = Ring::new(gateway.ring.own, gateway.ring.source, INTERVAL, now);
            gateway.alive = true;
        }
    }

    #[test]
    fn gateway_alone_forwards() {
        let mut world = World::new(&[(0, 0), (1, 0)]);
        world.rounds(3);
        assert!(world.forwarding().is_empty());
        world.rounds(2);
        assert_eq!(world.forwarding(), [0, 1]);
        assert!(!world.gateways[0].ring.closed(world.now));
    }

    #[test]
    fn one_of_two_parallel_gateways_stands_by() {
        // Two at one field, one at the other.
        let mut world = World::new(&[(0, 0), (0, 0), (1, 0)]);
        for _ in 0..100 {
            world.rounds(1);
            assert!(world.forwarding().iter().filter(|one| **one < 2).count() <= 1, "never both");
        }
        assert_eq!(world.forwarding(), [0, 2]);
        world.gateways[0].alive = false;
        world.rounds(4);
        assert_eq!(world.forwarding(), [1, 2], "within three intervals and one round");
        // It comes back, and does not take over again.
        world.restart(0);
        for _ in 0..100 {
            world.rounds(1);
            assert_eq!(world.forwarding(), [1, 2]);
        }
    }

    #[test]
    fn ring_of_two_pairs_has_one_gap() {
        let mut world = World::new(&[(0, 0), (0, 1), (1, 0), (1, 1)]);
        for _ in 0..100 {
            world.rounds(1);
            assert!(world.forwarding().len() <= 3, "never a loop");
        }
        assert_eq!(world.forwarding(), [0, 1, 2]);
        assert!(world.gateways.iter().all(|one| one.ring.closed(world.now)));
        world.gateways[2].alive = false;
        world.rounds(4);
        assert_eq!(world.forwarding(), [0, 1, 3]);
        world.restart(2);
        world.rounds(100);
        assert_eq!(world.forwarding(), [0, 1, 3]);
    }

    #[test]
    fn only_one_of_three_parallel_gateways_forwards() {
        let mut world = World::new(&[(0, 0), (0, 0), (0, 0), (1, 0)]);
        for _ in 0..100 {
            world.rounds(1);
            assert!(world.forwarding().iter().filter(|one| **one < 3).count() <= 1);
        }
        assert_eq!(world.forwarding(), [0, 3]);
        world.gateways[0].alive = false;
        world.rounds(12);
        assert_eq!(world.forwarding(), [1, 3]);
    }

    #[test]
    fn two_pairs_on_one_network_block_one_at_each_field() {
        let mut world = World::new(&[(0, 0), (0, 0), (1, 0), (1, 0)]);
        for _ in 0..100 {
            world.rounds(1);
            let forwarding = world.forwarding();
            assert!(
                [0..2, 2..4]
                    .iter()
                    .all(|field| forwarding.iter().filter(|one| field.contains(*one)).count() < 2)
            );
        }
        assert_eq!(world.forwarding(), [0, 2]);
        world.gateways[2].alive = false;
        world.rounds(4);
        assert_eq!(world.forwarding(), [0, 3]);
    }

    #[test]
    fn ring_that_is_closed_later_opens_at_once() {
        // Two fields become one, as a cable is plugged in.
        let mut world = World::new(&[(0, 0), (2, 0), (1, 0)]);
        world.rounds(20);
        assert_eq!(world.forwarding(), [0, 1, 2]);
        world.gateways[1].field = 0;
        world.rounds(1);
        assert_eq!(world.forwarding(), [0, 2]);
        world.gateways[1].field = 2;
        world.rounds(4);
        assert_eq!(world.forwarding(), [0, 1, 2], "each serves its part");
    }

    #[test]
    fn old_and_foreign_probes_do_not_block() {
        let address = EthernetAddress([2, 0, 0, 0, 0, 9]);
        let ring = Ring::new(Sci::new(address, 1), address, INTERVAL, 0);
        let first = ring.say(Kind::Probe);
        let passed = Repr { highest: Some(Sci([1; 8])), hops: 1, ..Repr::parse(&first).unwrap() };
        let mut returned = [0; RING_LEN];
        passed.emit(&mut returned);
        let later = 5 * INTERVAL;
        assert_eq!(ring.decide(later), Some(false));
        // By the field port nothing was authenticated.
        assert_eq!(ring.heard(From::Field, &returned, later), Pass::Nothing);
        assert_eq!(ring.decide(later), None);
        (0..UNDER_WAY).for_each(|_| _ = ring.say(Kind::Probe));
        assert_eq!(ring.heard(From::Uplink, &returned, later), Pass::Nothing);
        assert_eq!(ring.decide(later), None, "recorded");
        let now = Repr { sequence: UNDER_WAY, ..passed };
        now.emit(&mut returned);
        assert_eq!(ring.heard(From::Uplink, &returned, later), Pass::Nothing);
        assert_eq!(ring.decide(later), Some(true));
    }

    #[test]
    fn machines_cannot_call_or_announce() {
        let of = |last: u8| EthernetAddress([2, 0, 0, 0, 0, last]);
        let ring = |last: u8| Ring::new(Sci::new(of(last), 1), of(last), INTERVAL, 0);
        let (a, b) = (ring(1), ring(2));
        for kind in [Kind::Changed, Kind::Address] {
            assert_eq!(b.heard(From::Field, &a.say(kind), 0), Pass::Nothing);
        }
        assert_eq!(b.heard(From::Uplink, &a.say(Kind::Changed), 0), Pass::Announce);
        assert_eq!(b.heard(From::Uplink, &a.say(Kind::Address), 0), Pass::Nothing, "it blocks");
        let _ = b.decide(5 * INTERVAL);
        let address = a.say_as(Kind::Address, of(7));
        let Pass::On(frame) = b.heard(From::Uplink, &address, 0) else { panic!("it forwards") };
        assert_eq!(frame[6..12], of(7).0);
        assert_eq!(b.heard(From::Uplink, &address, 0), Pass::Nothing, "once");
    }
}
