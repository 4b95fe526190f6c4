//! The levels at which frames are accepted (the security level table, clause 9.5), and the usage of
//! keys.

use antedate_wire::dot15d4::{FormatError, Frame, FrameType, SecurityLevel};

use super::Status;

/// A set of security levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Levels(u8);

impl Levels {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// The set of these levels.
    pub const fn of(levels: &[SecurityLevel]) -> Self {
        let mut set = Self::EMPTY;
        let mut i = 0;
        while i < levels.len() {
            set = set.with(levels[i]);
            i += 1;
        }
        set
    }

    /// Adds a level.
    pub const fn with(self, level: SecurityLevel) -> Self {
        Self(self.0 | 1 << level.number())
    }

    /// Whether the level is in the set.
    pub const fn contains(self, level: SecurityLevel) -> bool {
        self.0 & 1 << level.number() != 0
    }

    /// Every level that encrypts and authenticates.
    pub const ENCRYPTED: Self =
        Self::of(&[SecurityLevel::EncMic32, SecurityLevel::EncMic64, SecurityLevel::EncMic128]);
    /// Every level that authenticates.
    pub const AUTHENTICATED: Self = Self(Self::ENCRYPTED.0 | 0b1110);
}

/// The rule for one kind of frame (an entry of macSecurityLevelTable).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LevelRule {
    /// the accepted levels; `SecurityLevel::None` accepts unsecured frames
    pub allowed: Levels,
    /// exempt devices may send it unsecured in any case
    pub exempt_devices: bool,
}

impl LevelRule {
    /// Accepts these levels, without exemptions.
    pub const fn only(allowed: Levels) -> Self {
        Self { allowed, exempt_devices: false }
    }

    const fn passes(&self, level: SecurityLevel, exempt: bool) -> bool {
        let excused = matches!(level, SecurityLevel::None) && exempt && self.exempt_devices;
        self.allowed.contains(level) || excused
    }
}

/// The kinds of frames in policies: frame types, and MAC commands by their identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// any frame but a command
    Frame(FrameType),
    /// the command with this identifier
    Command(u8),
    /// a command with its identifier still encrypted
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

/// The rule for the command with this identifier.
type CommandRule = (u8, Option<LevelRule>);

/// The most commands with a rule of their own.
pub const COMMAND_RULES: usize = 16;

/// The rules for each kind of frame. A kind without a rule is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    rules: [Option<LevelRule>; FrameType::ALL.len()],
    commands: [Option<CommandRule>; COMMAND_RULES],
}

impl Policy {
    /// Accepts every kind of frame at these levels only.
    pub const fn uniform(allowed: Levels) -> Self {
        let rules = [Some(LevelRule::only(allowed)); FrameType::ALL.len()];
        Self { rules, commands: [None; COMMAND_RULES] }
    }

    /// Sets the rule for a frame type. The rule for commands applies to commands without a rule of
    /// their own.
    pub const fn with(mut self, frame_type: FrameType, rule: Option<LevelRule>) -> Self {
        self.rules[frame_type as usize] = rule;
        self
    }

    /// Sets the rule for the MAC command with an identifier (table 7-49), overriding the general
    /// rule for commands. An association request, for example, may be unsecured while all others
    /// may not. Returns `None` if [`COMMAND_RULES`] others have a rule.
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

    /// Checks whether a frame of this kind is accepted at this level. `exempt` means that its
    /// sender is known and exempt.
    ///
    /// A command with an unknown identifier passes if some command would. It is checked again after
    /// decryption.
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

    /// The given frame types. [`FrameType::Command`] includes all commands.
    pub const fn of(types: &[FrameType]) -> Self {
        let mut set = 0;
        let mut i = 0;
        while i < types.len() {
            set |= 1 << types[i] as u8;
            i += 1;
        }
        Self { types: set, commands: [u64::MAX; 4] }
    }

    /// Restricts the MAC commands to these identifiers.
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

    /// Whether the key is for frames of this kind. A command with an unknown identifier is checked
    /// again after decryption.
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
