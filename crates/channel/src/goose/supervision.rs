//! Supervision of the publishers of one control block: a message that does not come, a configuration
//! that differs, a second publisher.

use alloc::vec::Vec;

use antedate_wire::goose::Message;

/// What a subscriber expects of a control block's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected<'a> {
    /// the reference of the control block
    pub gocb_ref: &'a [u8],
    /// the reference of the data set
    pub dat_set: &'a [u8],
    /// the identifier
    pub go_id: &'a [u8],
    /// the application identifier
    pub appid: u16,
    /// the revision of the configuration
    pub conf_rev: u32,
}

/// What is wrong with a control block. Each begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// no message came within `timeAllowedToLive` of the last one
    Missing,
    /// `confRev` differs
    Revision,
    /// another field, the entries or their types differ
    Configuration,
    /// several publishers send messages of the control block
    Duplicate,
}

impl Trouble {
    /// All, in their order.
    pub const ALL: [Self; 4] = [Self::Missing, Self::Revision, Self::Configuration, Self::Duplicate];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The most sources that are told apart.
const MAX_SOURCES: usize = 16;

/// The shortest time after which a source is gone, in milliseconds: `timeAllowedToLive` is its
/// publisher's word.
const SHORTEST: u64 = 10;

/// Supervises one control block. Times are milliseconds of any clock that does not go back.
#[derive(Debug)]
pub struct Supervision {
    /// Sources, each with the end of its last message's time to live, the latest one last.
    sources: Vec<([u8; 6], u64)>,
    /// When the publisher is missing.
    deadline: u64,
    /// What is the case, and what was told.
    present: u8,
    told: u8,
}

impl Supervision {
    /// Begins at `now`. The publisher is missing unless a message comes within `patience`.
    #[must_use]
    pub const fn new(now: u64, patience: u64) -> Self {
        Self { sources: Vec::new(), deadline: now.saturating_add(patience), present: 0, told: 0 }
    }

    /// A message of the control block came from `source`. `fits` tells whether its values are those
    /// of the data set. Returns whether it may be delivered: its configuration is the expected one.
    pub fn heard(
        &mut self,
        source: [u8; 6],
        message: &Message<'_>,
        expected: &Expected<'_>,
        fits: bool,
        now: u64,
    ) -> bool {
        let publisher = &message.publisher;
        let end = now.saturating_add(u64::from(publisher.time_allowed_to_live).max(SHORTEST));
        self.sources.retain(|(other, end)| *other != source && *end > now);
        if self.sources.len() == MAX_SOURCES {
            self.sources.remove(0);
        }
        self.sources.push((source, end));
        self.deadline = end;
        self.set(Trouble::Missing, false);
        self.set(Trouble::Duplicate, self.sources.len() > 1);

        let revision = message.conf_rev != expected.conf_rev;
        let other = publisher.dat_set != expected.dat_set
            || publisher.go_id.unwrap_or(publisher.gocb_ref) != expected.go_id
            || message.appid != expected.appid
            || !fits;
        self.set(Trouble::Revision, revision);
        // Another revision may have other entries: that is one fault, not two.
        self.set(Trouble::Configuration, other && !revision);
        !revision && !other
    }

    /// Looks at the time.
    pub fn look(&mut self, now: u64) {
        self.sources.retain(|(_, end)| *end > now);
        self.set(Trouble::Missing, now >= self.deadline);
        self.set(Trouble::Duplicate, self.sources.len() > 1);
    }

    /// When [`look`](Self::look) may find something new.
    #[must_use]
    pub fn due(&self) -> u64 {
        let missing = if self.has(Trouble::Missing) { u64::MAX } else { self.deadline };
        self.sources.iter().map(|(_, end)| *end).fold(missing, u64::min)
    }

    /// The next trouble that began (`true`) or ended since the last call.
    pub fn next_change(&mut self) -> Option<(Trouble, bool)> {
        let changed = self.present ^ self.told;
        let trouble = Trouble::ALL.into_iter().find(|trouble| changed & trouble.bit() != 0)?;
        self.told ^= trouble.bit();
        Some((trouble, self.present & trouble.bit() != 0))
    }

    /// Whether something is wrong now.
    #[must_use]
    pub const fn has(&self, trouble: Trouble) -> bool {
        self.present & trouble.bit() != 0
    }

    /// The sources whose messages are valid, the latest one last.
    pub fn sources(&self) -> impl Iterator<Item = [u8; 6]> {
        self.sources.iter().map(|(source, _)| *source)
    }

    fn set(&mut self, trouble: Trouble, is: bool) {
        self.present = if is { self.present | trouble.bit() } else { self.present & !trouble.bit() };
    }
}
