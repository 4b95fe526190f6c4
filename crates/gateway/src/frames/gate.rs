//! The policy on the data path: the class of a frame, and whether it passes.
//!
//! Reads headers only. A frame of uncertain kind is [`Class::Other`]; only `all` or a rule lets it
//! pass. A frame that is not well-formed is [`Class::Malformed`] and never passes. Neither does a
//! frame whose headers end before a field that a rule asks for.
//!
//! - `head`: the fields of a frame
//! - `compiled`: the rules as bit sets, looked up by field
//! - [`narrowest`]: the policy that passes one frame

mod compiled;
mod head;
pub mod narrowest;

use crate::config::policy::{Class, Policy};
use compiled::Compiled;
use head::Head;

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

/// Decides which frames pass, in each direction.
#[derive(Debug, Clone)]
pub struct Gate {
    out: Compiled,
    inward: Compiled,
}

impl Gate {
    /// A gate with this policy.
    #[must_use]
    pub fn new(policy: &Policy) -> Self {
        Self { out: Compiled::new(policy, Way::Out), inward: Compiled::new(policy, Way::In) }
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

#[cfg(test)]
mod tests;
