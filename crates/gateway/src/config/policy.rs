//! The types of `[policy]`: the frames that may pass. All others are refused.
//!
//! Rules are tried in the order of the file, and the first match decides. Without a match, the
//! kinds of `allow` pass.
//!
//! - [`conditions`]: the conditions of a rule
//! - [`traffic`]: the names of `allow`, and the conditions that each stands for

pub mod conditions;
pub mod traffic;

pub use conditions::{AddressMatch, Conditions, Dcp, IpPrefix, Ranges};
pub use traffic::Traffic;

/// The most rules of a policy. Their bit sets are on the stack of the forwarding thread.
pub const MAX_RULES: usize = 960;

/// The frames that may pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Rules in the order of the file, at most [`MAX_RULES`]. The first match decides.
    pub rules: Vec<Rule>,
    /// Kinds of traffic that pass in both directions.
    pub allow: Vec<Traffic>,
    /// Broadcast frames a second that pass, in each direction; 0: no bound.
    pub broadcast_limit: u32,
    /// The same of frames to groups, cyclic ones apart.
    pub multicast_limit: u32,
    /// The same of frames to machines that did not speak.
    pub unknown_limit: u32,
    /// Frames that pass at once under each of the three; 0: those of 100 ms, and 64 at least.
    pub burst: u32,
}

impl Policy {
    /// Whether every frame is refused.
    #[must_use]
    pub fn passes_nothing(&self) -> bool {
        self.allow.is_empty() && self.rules.iter().all(|rule| rule.action == Action::Deny)
    }
}

/// `[[policy.rule]]`: all given conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its line in the file, its name in counters and logs.
    pub line: usize,
    /// The direction of the frame.
    pub direction: Direction,
    /// The conditions on its headers.
    pub conditions: Conditions,
    /// The decision for a matching frame.
    pub action: Action,
    /// The bounds on frames that pass by it, in each direction.
    pub limit: Limit,
}

/// Frames and octets a second, and at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// Frames a second. 0: no bound.
    pub frames: u32,
    /// Octets a second. 0: no bound.
    pub octets: u64,
    /// Frames at once. 0: those of 100 ms, and 64 at least.
    pub burst_frames: u32,
    /// Octets at once. 0: those of 100 ms, and 65,536 at least.
    pub burst_octets: u64,
}

impl Rule {
    /// Whether another rule decides the same, wherever it is in its file.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let Self { line, .. } = *other;
        Self { line, ..self.clone() } == *other
    }
}

/// The direction of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the uplink to the machines.
    In,
    /// From the machines to the uplink.
    Out,
    /// Either.
    Both,
}

/// The decision for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It passes.
    Allow,
    /// It is dropped and counted.
    Deny,
}

/// The kind of a frame, for counters and queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A kind with a name in the configuration.
    Named(Traffic),
    /// Any other kind.
    Other,
    /// Too short, from a group address, or with headers that contradict each other.
    Malformed,
}

impl Class {
    /// Number of classes.
    pub const COUNT: usize = Traffic::NAMES.len() + 1;

    /// Names of all classes, in the order of [`Self::index`]. Those of kinds that are no class of a
    /// frame have a counter that stays zero.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let named = Traffic::NAMES
            .iter()
            .map(|(name, traffic)| if *traffic == Traffic::All { "other" } else { name });
        named.chain(["malformed"])
    }

    /// Whether the next frame of a flow replaces this one, so that an old one is worth nothing.
    #[must_use]
    pub const fn is_cyclic(self) -> bool {
        matches!(
            self,
            Self::Named(Traffic::ProfinetRt | Traffic::Goose | Traffic::SampledValues | Traffic::Ethercat)
        )
    }

    /// The index of its counter, below [`Self::COUNT`].
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Named(traffic) => traffic as usize,
            // No frame has the class `all`, so its index is free for the others.
            Self::Other => Traffic::All as usize,
            Self::Malformed => Traffic::NAMES.len(),
        }
    }
}
