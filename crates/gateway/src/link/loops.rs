//! Loops of gateways: found by probes ([`antedate_wire::probe`]), and opened.
//!
//! Each gateway sends a probe by its uplink at an interval. The others send it on, from the uplink to
//! their field and from their field to the uplink, once, and write the highest SCI of the way into
//! it. A probe that comes back by its sender's own field port has gone around. If the sender has the
//! highest SCI of that way, it blocks: no frame of machines passes, and no probe of others. It opens again
//! when none of its own probes came back for a while.
//!
//! So each loop has one gateway that opens it, the highest of it. Without the highest gateway of each loop
//! there is no loop, and no two networks part that were joined.
//!
//! A probe is known by a random token, which no machine can know before it was on a field. Each returns once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use antedate_wire::probe::{PROBE_LEN, Repr, TOKEN_LEN};
use antedate_wire::{EthernetAddress, Sci};

use crate::config::loops::LoopSettings;
use crate::link::standby::Via;
use crate::run::lock;

/// The most gateways on a way.
const HOPS: u8 = 16;
/// Tokens that are remembered, so that each passes once.
const REMEMBERED: usize = 64;
/// Own probes that may be under way.
const OWN: usize = 8;
/// The most probes of others in a second.
const PASSED: u32 = 50;
const SECOND: u64 = 1_000_000_000;
const NONE: Sci = Sci([0; 8]);

type Token = [u8; TOKEN_LEN];

/// What to do with a probe of another gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Nothing.
    Nothing,
    /// Send this frame by the other port.
    On([u8; PROBE_LEN]),
}

/// The guard against loops, for all threads. Times are in nanoseconds.
#[derive(Debug)]
pub struct Guard {
    own: Sci,
    source: EthernetAddress,
    hold: u64,
    blocks: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Own tokens that did not come back.
    own: Vec<Token>,
    seen: Vec<Token>,
    next: usize,
    /// When an own probe came back last: by any way, and by one whose gateways all have lower SCIs.
    came: Option<u64>,
    highest: Option<u64>,
    /// A second, and the probes that passed in it.
    passed: (u64, u32),
}

impl Guard {
    /// The guard of the gateway with this SCI and address.
    #[must_use]
    pub fn new(own: Sci, source: EthernetAddress, settings: LoopSettings) -> Self {
        let hold = settings.hold.max(3 * settings.probe).as_nanos() as u64;
        Self { own, source, hold, blocks: AtomicBool::new(false), state: Mutex::default() }
    }

    /// Whether frames are kept from a loop.
    #[inline]
    #[must_use]
    pub fn blocks(&self) -> bool {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Whether an own probe came back of late.
    #[must_use]
    pub fn finds_loop(&self, now: u64) -> bool {
        lock(&self.state).came.is_some_and(|at| now <= at + self.hold)
    }

    /// The next probe, with this random token.
    #[must_use]
    pub fn probe(&self, token: Token) -> [u8; PROBE_LEN] {
        let mut state = lock(&self.state);
        if state.own.len() >= OWN {
            state.own.remove(0);
        }
        state.own.push(token);
        drop(state);
        let mut frame = [0; PROBE_LEN];
        Repr { source: self.source, hops: 0, token, highest: NONE }.emit(&mut frame);
        frame
    }

    /// Takes a probe. `forwards`: frames of machines pass this gateway, as far as others say.
    #[must_use]
    pub fn heard(&self, via: Via, frame: &[u8], forwards: bool, now: u64) -> Pass {
        let Ok(probe) = Repr::parse(frame) else { return Pass::Nothing };
        let mut state = lock(&self.state);
        if let Some(at) = state.own.iter().position(|token| *token == probe.token) {
            // By the uplink it came from one that shares it.
            if via == Via::Field {
                state.own.remove(at);
                state.came = Some(now);
                if probe.highest.0 < self.own.0 {
                    state.highest = Some(now);
                    self.blocks.store(true, Ordering::Relaxed);
                }
            }
            return Pass::Nothing;
        }
        if self.blocks() || !forwards || probe.hops >= HOPS || state.seen.contains(&probe.token) {
            return Pass::Nothing;
        }
        if state.passed.0 != now / SECOND {
            state.passed = (now / SECOND, 0);
        }
        if state.passed.1 >= PASSED {
            return Pass::Nothing;
        }
        state.passed.1 += 1;
        if state.seen.len() < REMEMBERED {
            state.seen.push(probe.token);
        } else {
            let place = state.next % REMEMBERED;
            state.seen[place] = probe.token;
            state.next += 1;
        }
        let highest = if probe.highest.0 < self.own.0 { self.own } else { probe.highest };
        let mut frame = [0; PROBE_LEN];
        Repr { source: self.source, hops: probe.hops + 1, highest, ..probe }.emit(&mut frame);
        Pass::On(frame)
    }

    /// Opens when no own probe came back for long. Returns whether this gateway blocks.
    pub fn decide(&self, now: u64) -> bool {
        let state = lock(&self.state);
        if state.highest.is_none_or(|at| now > at + self.hold) {
            self.blocks.store(false, Ordering::Relaxed);
        }
        self.blocks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    /// Gateways between networks, by their fields and uplinks; SCIs as told.
    struct World {
        gateways: Vec<(Guard, usize, usize, bool)>,
        tokens: u8,
        now: u64,
    }

    impl World {
        fn new(places: &[(u8, usize, usize)]) -> Self {
            let settings = LoopSettings { probe: Duration::from_secs(1), hold: Duration::from_secs(5) };
            let gateway = |(sci, field, uplink): &(u8, usize, usize)| {
                let address = EthernetAddress([2, 0, 0, 0, 0, *sci]);
                (Guard::new(Sci::new(address, 1), address, settings), *field, *uplink, true)
            };
            Self { gateways: places.iter().map(gateway).collect(), tokens: 0, now: 0 }
        }

        /// Carries a frame of a gateway to the others of a network, and on.
        fn carry(&self, from: usize, via: Via, frame: &[u8]) {
            let place = |gateway: &(Guard, usize, usize, bool)| match via {
                Via::Field => gateway.1,
                Via::Uplink => gateway.2,
            };
            for (to, gateway) in self.gateways.iter().enumerate() {
                if to == from || !gateway.3 || place(gateway) != place(&self.gateways[from]) {
                    continue;
                }
                let other = if via == Via::Field { Via::Uplink } else { Via::Field };
                if let Pass::On(next) = gateway.0.heard(via, frame, true, self.now) {
                    self.carry(to, other, &next);
                }
            }
        }

        fn run(&mut self, seconds: u64) {
            for _ in 0..seconds {
                for number in 0..self.gateways.len() {
                    if self.gateways[number].3 {
                        self.tokens = self.tokens.wrapping_add(1);
                        let mut token = [number as u8; TOKEN_LEN];
                        token[..8].copy_from_slice(&self.now.to_be_bytes());
                        let frame = self.gateways[number].0.probe(token);
                        self.carry(number, Via::Uplink, &frame);
                    }
                }
                self.now += 1_000 * MS;
                self.gateways.iter().for_each(|gateway| _ = gateway.0.decide(self.now));
            }
        }

        fn blocking(&self) -> Vec<usize> {
            (0..self.gateways.len()).filter(|number| self.gateways[*number].0.blocks()).collect()
        }

        /// Whether the ways through gateways that pass form no loop, and join these networks.
        fn is_tree(&self) -> bool {
            // Networks: fields from 0 on, uplinks from 100 on. A gateway joins two.
            let passing = self.gateways.iter().filter(|(guard, .., alive)| *alive && !guard.blocks());
            let mut parts: std::collections::BTreeMap<usize, usize> = Default::default();
            for (_, field, uplink, _) in self.gateways.iter().filter(|one| one.3) {
                parts.insert(*field, *field);
                parts.insert(100 + uplink, 100 + uplink);
            }
            for (_, field, uplink, _) in passing {
                let (a, b) = (parts[field], parts[&(100 + uplink)]);
                if a == b {
                    return false;
                }
                parts.values_mut().filter(|part| **part == a).for_each(|part| *part = b);
            }
            let first = parts.values().next().copied();
            parts.values().all(|part| Some(*part) == first)
        }
    }

    #[test]
    fn highest_of_each_loop_blocks() {
        // Two at one field; two at each of two fields; two links with a pair each, in both orders.
        for (places, blocking) in [
            (&[(1, 0, 0), (2, 0, 0), (3, 1, 0)][..], &[1][..]),
            (&[(1, 0, 0), (4, 0, 0), (3, 1, 0), (2, 1, 0)], &[1, 2]),
            (&[(1, 0, 0), (2, 0, 1), (3, 1, 0), (4, 1, 1)], &[3]),
            (&[(4, 0, 0), (2, 0, 1), (3, 1, 0), (1, 1, 1)], &[0]),
            (&[(1, 0, 0), (2, 1, 0), (3, 2, 0)], &[]),
        ] {
            let mut world = World::new(places);
            world.run(10);
            assert_eq!(world.blocking(), blocking, "{places:?}");
            assert!(world.is_tree());
        }
    }

    #[test]
    fn blocked_gateway_opens_after_a_hold() {
        let mut world = World::new(&[(1, 0, 0), (2, 0, 0), (3, 1, 0)]);
        world.run(10);
        // The lower one hears no more of a loop that is open.
        assert!(!world.gateways[0].0.finds_loop(world.now) && world.gateways[1].0.finds_loop(world.now));
        world.gateways[0].3 = false;
        world.run(4);
        assert_eq!(world.blocking(), [1]);
        world.run(3);
        assert!(world.blocking().is_empty() && !world.gateways[1].0.finds_loop(world.now));
        world.gateways[0].3 = true;
        world.run(3);
        assert_eq!(world.blocking(), [1]);
    }

    #[test]
    fn random_networks_become_trees() {
        let mut random = 1u64;
        let mut below = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        for _ in 0..500 {
            let count = 2 + below(7) as usize;
            // Each joins an uplink that is known with any field, so that all is one network.
            let mut places = Vec::new();
            for number in 0..count {
                let uplink = if number == 0 { 0 } else { below(2.min(number as u64)) as usize };
                let field = if uplink == 1 { 0 } else { below(3) as usize };
                places.push((number as u8 + 1, field, uplink));
            }
            if !places.contains(&(1, 0, 0)) {
                places[0] = (1, 0, 0);
            }
            let mut world = World::new(&places);
            world.run(60);
            assert!(world.is_tree(), "{places:?}: {:?} block", world.blocking());
        }
    }

    #[test]
    fn guessed_and_old_probes_block_nothing() {
        let mut world = World::new(&[(2, 0, 0), (1, 1, 0)]);
        let guard = &world.gateways[0].0;
        let frame = guard.probe([7; TOKEN_LEN]);
        let mut other = frame;
        other[20] ^= 1;
        let _ = guard.heard(Via::Field, &other, true, 0);
        assert!(!guard.blocks());
        let _ = guard.heard(Via::Uplink, &frame, true, 0);
        assert!(!guard.blocks(), "by the uplink it is no loop");
        let _ = guard.heard(Via::Field, &frame, true, 0);
        assert!(guard.blocks());
        world.now = 6_000 * MS;
        let guard = &world.gateways[0].0;
        assert!(!guard.decide(world.now));
        let _ = guard.heard(Via::Field, &frame, true, world.now);
        assert!(!guard.blocks(), "each returns once");
    }

    #[test]
    fn probes_of_others_are_bounded() {
        let world = World::new(&[(2, 0, 0)]);
        let guard = &world.gateways[0].0;
        let mut frame = [0; PROBE_LEN];
        let mut passed = 0;
        for number in 0..1_000u16 {
            let mut token = [0; TOKEN_LEN];
            token[..2].copy_from_slice(&number.to_be_bytes());
            let source = EthernetAddress([2, 0, 0, 0, 0, 9]);
            Repr { source, hops: 0, token, highest: NONE }.emit(&mut frame);
            passed += u32::from(guard.heard(Via::Field, &frame, true, 0) != Pass::Nothing);
        }
        assert_eq!(passed, PASSED);
        let _ = guard.heard(Via::Field, &frame, true, SECOND);
        Repr { source: EthernetAddress([0; 6]), hops: HOPS, token: [9; TOKEN_LEN], highest: NONE }
            .emit(&mut frame);
        assert_eq!(guard.heard(Via::Field, &frame, true, SECOND), Pass::Nothing, "too far");
    }
}
