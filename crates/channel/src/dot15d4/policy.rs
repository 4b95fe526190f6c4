//! Which frames are accepted at which level (the security level table, clause 9.5), and what a key may be used for.

use antedate_wire::dot15d4::{FormatError, Frame, FrameType, SecurityLevel};

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

/// What is said about one kind of frame (an entry of macSecurityLevelTable).
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

    const fn passes(&self, level: SecurityLevel, exempt: bool) -> bool {
        let excused = matches!(level, SecurityLevel::None) && exempt && self.exempt_devices;
        self.allowed.contains(level) || excused
    }
}

/// What policies tell apart: frame types, and MAC commands by their identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// any frame but a command
    Frame(FrameType),
    /// the command with this identifier
    Command(u8),
    /// a command whose identifier is still encrypted
    Encrypted,
}

impl Kind {
    /// The kind of a frame before it is unsecured.
    pub(super) fn of(frame: &Frame<'_>) -> Result<Self, FormatError> {
        match frame.header.frame_type {
            FrameType::Command if !frame.shows_command() => Ok(Self::Encrypted),
            _ => Self::of_plain(frame, frame.payload()),
        }
    }

    /// The kind of a frame whose MAC payload is in the clear.
    pub(super) fn of_plain(frame: &Frame<'_>, payload: &[u8]) -> Result<Self, FormatError> {
        Ok(frame.command(payload)?.map_or(Self::Frame(frame.header.frame_type), Self::Command))
    }
}

/// A rule for a command: for the identifier, and what is said of it.
type CommandRule = (u8, Option<LevelRule>);

/// Commands that can have a rule of their own.
pub const COMMAND_RULES: usize = 16;

/// What is said about each kind of frame. A kind without a rule is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    rules: [Option<LevelRule>; FrameType::ALL.len()],
    commands: [Option<CommandRule>; COMMAND_RULES],
}

impl Policy {
    /// Every kind of frame at these levels alone.
    pub const fn uniform(allowed: Levels) -> Self {
        let rules = [Some(LevelRule::only(allowed)); FrameType::ALL.len()];
        Self { rules, commands: [None; COMMAND_RULES] }
    }

    /// With this rule for a type of frame. That of commands is for those that have none of their own.
    pub const fn with(mut self, frame_type: FrameType, rule: Option<LevelRule>) -> Self {
        self.rules[frame_type as usize] = rule;
        self
    }

    /// With this rule for the MAC command with an identifier (table 7-49), in place of what is said of commands in general:
    /// an association request, say, may come unsecured while all others may not. None if [`COMMAND_RULES`] others have one.
    pub const fn with_command(mut self, identifier: u8, rule: Option<LevelRule>) -> Option<Self> {
        let mut i = 0;
        while i < COMMAND_RULES {
            match self.commands[i] {
                Some((other, _)) if other != identifier => i += 1,
                _ => {
                    self.commands[i] = Some((identifier, rule));
                    return Some(self);
                }
            }
        }
        None
    }

    /// Is a frame of this kind accepted at this level? `exempt` says that its sender is known and exempt.
    ///
    /// A command whose identifier is not known yet passes if some command would; it is checked again when it is known.
    pub(super) fn check(&self, kind: Kind, level: SecurityLevel, exempt: bool) -> Result<(), Status> {
        let of_type = |frame_type: FrameType| self.rules[frame_type as usize];
        let own = self.commands.iter().flatten();
        let rule = match kind {
            Kind::Frame(frame_type) => of_type(frame_type),
            Kind::Command(identifier) => own
                .filter(|(of, _)| *of == identifier)
                .map(|(_, rule)| *rule)
                .next()
                .unwrap_or_else(|| of_type(FrameType::Command)),
            Kind::Encrypted => own
                .filter_map(|(_, rule)| *rule)
                .chain(of_type(FrameType::Command))
                .reduce(|one, other| if one.passes(level, exempt) { one } else { other }),
        };
        let rule = rule.ok_or(Status::UnavailableSecurityLevel)?;
        if rule.passes(level, exempt) { Ok(()) } else { Err(Status::ImproperSecurityLevel) }
    }
}

/// The kinds of frames that a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Usage {
    types: u8,
    /// A bit for each command identifier.
    commands: [u64; 4],
}

impl Usage {
    /// All kinds.
    pub const ANY: Self = Self { types: 0xf, commands: [u64::MAX; 4] };

    /// Those given; with [`FrameType::Command`], all commands.
    pub const fn of(types: &[FrameType]) -> Self {
        let mut set = 0;
        let mut i = 0;
        while i < types.len() {
            set |= 1 << types[i] as u8;
            i += 1;
        }
        Self { types: set, commands: [u64::MAX; 4] }
    }

    /// Of the MAC commands those with these identifiers alone.
    pub const fn with_commands(self, identifiers: &[u8]) -> Self {
        let mut commands = [0; 4];
        let mut i = 0;
        while i < identifiers.len() {
            commands[(identifiers[i] >> 6) as usize] |= 1 << (identifiers[i] & 63);
            i += 1;
        }
        Self { types: self.types | 1 << FrameType::Command as u8, commands }
    }

    const fn has(self, frame_type: FrameType) -> bool {
        self.types & 1 << frame_type as u8 != 0
    }

    /// Is the key for frames of this kind? A command whose identifier is not known yet is checked again when it is known.
    pub(super) const fn permits(self, kind: Kind) -> bool {
        match kind {
            Kind::Frame(frame_type) => self.has(frame_type),
            Kind::Encrypted => self.has(FrameType::Command),
            Kind::Command(identifier) => {
                let commands = self.commands[(identifier >> 6) as usize];
                self.has(FrameType::Command) && commands & 1 << (identifier & 63) != 0
            }
        }
    }
}
