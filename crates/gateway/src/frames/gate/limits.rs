//! The bounds on frames that the policy passes: by rule, and for broadcast, groups and unknown
//! destinations.

use super::Verdict;
use crate::config::policy::{Limit, Policy, Rule};
use crate::frames::bound::Bound;

/// The bound that a frame exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// That of its rule.
    Rule,
    /// That of broadcast.
    Broadcast,
    /// That of groups.
    Multicast,
    /// That of destinations that did not speak.
    Unknown,
}

/// The bounds of one direction, and their state.
#[derive(Debug, Default)]
pub(super) struct Limits {
    broadcast: Option<Bound>,
    multicast: Option<Bound>,
    unknown: Option<Bound>,
    /// Of frames and octets, for each rule; empty without bounds.
    rules: Box<[[Option<Bound>; 2]]>,
    /// Whether there is one.
    any: bool,
}

impl Limits {
    pub(super) fn new(policy: &Policy) -> Self {
        let of_rule = |rule: &Rule| {
            let Limit { frames, octets, burst_frames, burst_octets } = rule.limit;
            [
                Bound::of_frames(frames.into(), burst_frames.into(), 0),
                Bound::of_octets(octets, burst_octets, 0),
            ]
        };
        let mut rules: Box<[_]> = policy.rules.iter().map(of_rule).collect();
        if rules.iter().flatten().all(Option::is_none) {
            rules = Box::default();
        }
        let limits = [policy.broadcast_limit, policy.multicast_limit, policy.unknown_limit];
        let [broadcast, multicast, unknown] =
            limits.map(|limit| Bound::of_frames(limit.into(), policy.burst.into(), 0));
        let any = limits.iter().any(|limit| *limit > 0) || !rules.is_empty();
        Self { broadcast, multicast, unknown, rules, any }
    }

    /// The bound that a frame which passes exceeds, if any. Cyclic frames to groups have the bounds
    /// of their rules alone, and so have those to a destination that `is_unknown`. `now` reads the
    /// clock.
    #[inline]
    pub(super) fn excess(
        &self,
        verdict: &Verdict,
        frame: &[u8],
        is_unknown: bool,
        now: impl FnOnce() -> u64,
    ) -> Option<Excess> {
        if self.any { self.look(verdict, frame, is_unknown, now()) } else { None }
    }

    #[inline(never)]
    fn look(&self, verdict: &Verdict, frame: &[u8], is_unknown: bool, now: u64) -> Option<Excess> {
        if let Some(bounds) = verdict.rule.and_then(|rule| self.rules.get(rule)) {
            let bounds = || bounds.iter().zip([1, frame.len() as u64]);
            let holds = |(bound, units): (&Option<Bound>, u64)| {
                bound.as_ref().is_none_or(|bound| bound.would_pass(now, units))
            };
            // A frame that one of them stops spends nothing of the other.
            if !bounds().all(holds) {
                return Some(Excess::Rule);
            }
            bounds().for_each(|(bound, units)| bound.iter().for_each(|bound| bound.spend(units)));
        }
        let (bound, excess) = match frame {
            _ if verdict.class.is_cyclic() => return None,
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => (&self.broadcast, Excess::Broadcast),
            [first, ..] if first & 1 != 0 => (&self.multicast, Excess::Multicast),
            _ if is_unknown => (&self.unknown, Excess::Unknown),
            _ => return None,
        };
        bound.as_ref().filter(|bound| !bound.passes(now, 1)).map(|_| excess)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::policy::{Action, Class, Conditions, Direction, Traffic};

    const SECOND: u64 = 1_000_000_000;

    /// How many of so many equal frames stay within the bounds in a second after the first burst.
    fn within(policy: &Policy, verdict: Verdict, destination: u8, len: usize) -> u64 {
        let limits = Limits::new(policy);
        let mut frame = vec![destination; 6];
        frame.resize(len, 0);
        let at = |now: u64| u64::from(limits.excess(&verdict, &frame, true, || now).is_none());
        (0..200_000).for_each(|_| _ = at(SECOND));
        (0..100_000).map(|step| at(SECOND + step * 10_000)).sum()
    }

    fn of(class: Class, rule: Option<usize>) -> Verdict {
        Verdict { class, passes: true, rule }
    }

    #[test]
    fn broadcast_and_groups_have_bounds() {
        let policy = Policy { broadcast_limit: 100, multicast_limit: 1000, ..Policy::default() };
        let arp = of(Class::Named(Traffic::Arp), None);
        assert_eq!(within(&policy, arp, 0xff, 60), 99);
        assert_eq!(within(&policy, arp, 0x01, 60), 999);
        assert_eq!(within(&policy, arp, 0x02, 60), 100_000, "a machine's address");
        let unknown = Policy { unknown_limit: 200, ..Policy::default() };
        assert_eq!(within(&unknown, arp, 0x02, 60), 199);
        assert_eq!(within(&unknown, arp, 0xff, 60), 100_000);
        assert_eq!(within(&unknown, of(Class::Named(Traffic::ProfinetRt), None), 0x02, 60), 100_000);
        let goose = of(Class::Named(Traffic::Goose), None);
        assert_eq!(within(&policy, goose, 0x01, 60), 100_000, "cyclic");
        assert_eq!(within(&Policy::default(), arp, 0xff, 60), 100_000);
    }

    #[test]
    fn bursts_are_as_configured() {
        let at_once = |policy: &Policy, verdict: Verdict, destination: u8, len: usize| {
            let limits = Limits::new(policy);
            let mut frame = vec![destination; 6];
            frame.resize(len, 0);
            (0..1000).filter(|_| limits.excess(&verdict, &frame, true, || SECOND).is_none()).count()
        };
        let policy = Policy {
            broadcast_limit: 100,
            multicast_limit: 9,
            unknown_limit: 5000,
            burst: 7,
            ..Policy::default()
        };
        let ip = |rule| of(Class::Named(Traffic::Ipv4), rule);
        for destination in [0xff, 0x01, 0x02] {
            assert_eq!(at_once(&policy, ip(None), destination, 60), 7, "{destination:#x}");
        }
        let limit = Limit { frames: 1000, octets: 1_000_000, burst_frames: 30, burst_octets: 12_000 };
        let rule = Rule {
            line: 1,
            direction: Direction::Both,
            conditions: Conditions::default(),
            action: Action::Allow,
            limit,
        };
        let policy = Policy { rules: vec![rule], ..Policy::default() };
        assert_eq!(at_once(&policy, ip(Some(0)), 0x02, 60), 30);
        assert_eq!(at_once(&policy, ip(Some(0)), 0x02, 1000), 12);
    }

    #[test]
    fn rules_have_bounds_of_their_own() {
        let rule = |frames, octets| Rule {
            line: 1,
            direction: Direction::Both,
            conditions: Conditions::default(),
            action: Action::Allow,
            limit: Limit { frames, octets, ..Limit::default() },
        };
        let rules = vec![rule(0, 0), rule(500, 0), rule(0, 1_000_000), rule(500, 100_000)];
        let policy = Policy { rules, multicast_limit: 100, ..Policy::default() };
        let ip = |rule| of(Class::Named(Traffic::Ipv4), rule);
        // The bursts of the last one differ: 65 full frames, and 64 of any length.
        for (number, within_it) in [(0, 100_000), (1, 499), (2, 999), (3, 101)] {
            assert_eq!(within(&policy, ip(Some(number)), 0x02, 1000), within_it, "rule {number}");
        }
        assert_eq!(within(&policy, ip(Some(1)), 0x01, 60), 99, "both bounds hold");
        assert_eq!(within(&policy, of(Class::Named(Traffic::Goose), Some(1)), 0x01, 60), 499, "cyclic too");
        assert_eq!(within(&policy, ip(None), 0x02, 60), 100_000);
    }
}
