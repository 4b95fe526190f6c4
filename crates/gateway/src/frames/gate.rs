//! The policy on the data path: the class of a frame, and whether it passes.
//!
//! Reads headers only. A frame of uncertain kind is [`Class::Other`]; only `all` or a rule lets it
//! pass. A frame that is not well-formed is [`Class::Malformed`] and never passes. Neither does a
//! frame whose headers end before a field that a rule asks for.
//!
//! - `head`: the fields of a frame
//! - `compiled`: the rules as bit sets, looked up by field
//! - `limits`: the bounds on frames that pass; `sources`: which destinations are known
//! - [`narrowest`]: the policy that passes one frame

mod compiled;
mod head;
mod limits;
pub mod narrowest;
mod sources;

use crate::config::policy::{Action, Class, Direction, Policy, Rule};
use crate::run::counters::Counter;
use crate::run::status;
use compiled::Compiled;
use head::Head;
pub use limits::Excess;
use limits::Limits;
use sources::Sources;

/// The direction of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the machines to the uplink.
    Out,
    /// From the uplink to the machines.
    In,
}

/// The decision on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The class of the frame.
    pub class: Class,
    /// Whether it passes.
    pub passes: bool,
    /// The index in [`Policy::rules`] of the rule that decided, if any.
    pub rule: Option<usize>,
}

impl Verdict {
    const MALFORMED: Self = Self { class: Class::Malformed, passes: false, rule: None };
}

/// Decides which frames pass, in each direction, and counts the frames that each rule decided.
#[derive(Debug)]
pub struct Gate {
    out: Compiled,
    inward: Compiled,
    /// The counters of the rules: out, then in.
    hits: [Box<[Counter]>; 2],
    /// The bounds: out, then in.
    limits: [Limits; 2],
    /// The machines that spoke, if unknown destinations have a bound.
    sources: Option<Sources>,
    /// The place of each rule in the policy before, if it was there.
    before: Box<[Option<usize>]>,
    /// The policy in words.
    text: status::Policy,
}

impl Gate {
    /// A gate with this policy.
    #[must_use]
    pub fn new(policy: &Policy) -> Self {
        Self::after(policy, &Policy::default())
    }

    /// A gate with this policy, which follows one with the policy `before`.
    #[must_use]
    pub fn after(policy: &Policy, before: &Policy) -> Self {
        let counters = || policy.rules.iter().map(|_| Counter::default()).collect();
        let same = |rule: &Rule| before.rules.iter().position(|other| rule.is_same(other));
        Self {
            out: Compiled::new(policy, Way::Out),
            inward: Compiled::new(policy, Way::In),
            hits: [counters(), counters()],
            limits: [Limits::new(policy), Limits::new(policy)],
            sources: (policy.unknown_limit > 0).then(Sources::default),
            before: policy.rules.iter().map(same).collect(),
            text: status::Policy {
                allow: policy.allow.iter().map(|kind| kind.name().to_owned()).collect(),
                rules: policy.rules.iter().map(words).collect(),
            },
        }
    }

    /// The policy in words.
    #[must_use]
    pub const fn text(&self) -> &status::Policy {
        &self.text
    }

    /// The counters of the rules in one direction.
    #[inline]
    #[must_use]
    pub fn hits(&self, way: Way) -> &[Counter] {
        let [out, inward] = &self.hits;
        match way {
            Way::Out => out,
            Way::In => inward,
        }
    }

    /// The counts of the rules in one direction, over the gates of several threads with one policy.
    #[must_use]
    pub fn total_hits(gates: &[std::sync::Arc<Self>], way: Way) -> Vec<Counter> {
        let rules = gates.first().map_or(0, |gate| gate.hits(way).len());
        let total: Vec<_> = (0..rules).map(|_| Counter::new()).collect();
        for gate in gates {
            total.iter().zip(gate.hits(way)).for_each(|(sum, counter)| sum.add(counter.get()));
        }
        total
    }

    /// The bound that a frame which passes exceeds, if any. `now` reads the clock. Called by the
    /// thread that counts this direction.
    #[inline]
    #[must_use]
    pub fn excess(
        &self,
        way: Way,
        verdict: &Verdict,
        frame: &[u8],
        now: impl FnOnce() -> u64,
    ) -> Option<Excess> {
        let [out, inward] = &self.limits;
        let limits = match way {
            Way::Out => out,
            Way::In => inward,
        };
        let is_unknown = self.sources.as_ref().is_some_and(|sources| sources.pass(way, frame));
        limits.excess(verdict, frame, is_unknown, now)
    }

    /// Goes on with the counts of the gate before, for rules that stay. Called by the thread that
    /// counts this direction.
    pub fn take_over(&self, way: Way, before: &Self) {
        let old = before.hits(way);
        for (counter, place) in self.hits(way).iter().zip(&self.before) {
            if let Some(known) = place.and_then(|place| old.get(place)) {
                counter.set(known.get());
            }
        }
        if let (Some(new), Some(old)) = (&self.sources, &before.sources) {
            new.take_over(way, old);
        }
    }

    /// Decides on a frame.
    #[inline]
    #[must_use]
    pub fn decide(&self, way: Way, frame: &[u8]) -> Verdict {
        let Some(head) = Head::of(frame) else { return Verdict::MALFORMED };
        match way {
            Way::Out => self.out.decide(&head),
            Way::In => self.inward.decide(&head),
        }
    }
}

/// A rule as the file has it, in a line.
fn words(rule: &Rule) -> String {
    let action = match rule.action {
        Action::Allow => "allow",
        Action::Deny => "deny",
    };
    let way = match rule.direction {
        Direction::In => " in",
        Direction::Out => " out",
        Direction::Both => "",
    };
    let conditions = rule.conditions.to_string();
    let rest = if conditions.is_empty() { String::new() } else { format!(": {conditions}") };
    format!("{action}{way}{rest}")
}

#[cfg(test)]
mod tests;
