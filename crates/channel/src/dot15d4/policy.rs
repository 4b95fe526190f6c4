//! Which frames are accepted at which level (the security level table, clause 9.5), and what a key may be used for.

use antedate_wire::dot15d4::{FrameType, SecurityLevel};

use super::Status;

/// A set of security levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Levels(u8);

impl Levels {
    /// None.
    pub const EMPTY: Self = Self(0);

    /// Those given.
    pub const fn of(levels: &[SecurityLevel]) -> Self {
        let mut set = Self::EMPTY;
        let mut i = 0;
        while i < levels.len() {
            set = set.with(levels[i]);
            i += 1;
        }
        set
    }

    /// With one more.
    pub const fn with(self, level: SecurityLevel) -> Self {
        Self(self.0 | 1 << level.number())
    }

    /// Is it in the set?
    pub const fn contains(self, level: SecurityLevel) -> bool {
        self.0 & 1 << level.number() != 0
    }

    /// Every level that encrypts and authenticates.
    pub const ENCRYPTED: Self =
        Self::of(&[SecurityLevel::EncMic32, SecurityLevel::EncMic64, SecurityLevel::EncMic128]);
    /// Every level that authenticates.
    pub const AUTHENTICATED: Self = Self(Self::ENCRYPTED.0 | 0b1110);
}

/// What is said about one kind of frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LevelRule {
    /// the levels at which it is accepted; `SecurityLevel::None` among them lets it pass unsecured
    pub allowed: Levels,
    /// devices that are exempt may send it unsecured all the same
    pub exempt_devices: bool,
}

impl LevelRule {
    /// Accepted at these levels and from nobody else.
    pub const fn only(allowed: Levels) -> Self {
        Self { allowed, exempt_devices: false }
    }
}

/// What is said about each kind of frame. A kind without a rule is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    rules: [Option<LevelRule>; FrameType::ALL.len()],
}

impl Policy {
    /// Every kind of frame at these levels alone.
    pub const fn uniform(allowed: Levels) -> Self {
        Self { rules: [Some(LevelRule::only(allowed)); FrameType::ALL.len()] }
    }

    /// With this rule for a kind of frame.
    pub const fn with(mut self, frame_type: FrameType, rule: Option<LevelRule>) -> Self {
        self.rules[frame_type as usize] = rule;
        self
    }

    /// Is a frame of this kind accepted at this level? `exempt` says that its sender is known and exempt.
    pub(super) fn check(
        &self,
        frame_type: FrameType,
        level: SecurityLevel,
        exempt: bool,
    ) -> Result<(), Status> {
        let rule = self.rules[frame_type as usize].ok_or(Status::UnavailableSecurityLevel)?;
        let excused = level == SecurityLevel::None && exempt && rule.exempt_devices;
        if rule.allowed.contains(level) || excused { Ok(()) } else { Err(Status::ImproperSecurityLevel) }
    }
}

/// The kinds of frames that a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Usage(u8);

impl Usage {
    /// All kinds.
    pub const ANY: Self = Self(0xf);

    /// Those given.
    pub const fn of(types: &[FrameType]) -> Self {
        let mut set = 0;
        let mut i = 0;
        while i < types.len() {
            set |= 1 << types[i] as u8;
            i += 1;
        }
        Self(set)
    }

    pub(super) const fn permits(self, frame_type: FrameType) -> bool {
        self.0 & 1 << frame_type as u8 != 0
    }
}
