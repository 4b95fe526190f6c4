//! A SAK held by this participant, and the progress of its use.

use alloc::vec::Vec;
use core::time::Duration;

use antedate_wire::Sci;
use antedate_wire::macsec::An;
use antedate_wire::mka::{KeyIdentifier, KeyUse, MemberIdentifier};

use super::keys::{Secret, salt};
use crate::macsec::{CHANNELS_MAX, CipherSuite, Sak};

/// A key to install.
#[derive(Debug)]
pub struct Install {
    /// the key's identifier
    pub key: KeyIdentifier,
    /// the association number
    pub an: An,
    /// the key itself
    pub sak: Sak,
    /// the short SCI of this participant, with an XPN cipher suite
    pub ssci: Option<u32>,
    /// the secure channels to receive on, each with its short SCI
    pub members: Vec<(Sci, Option<u32>)>,
}

/// A key in use.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) key: KeyIdentifier,
    pub(super) an: An,
    pub(super) suite: CipherSuite,
    pub(super) secret: Secret,
    /// The intended users.
    pub(super) given: Vec<MemberIdentifier>,
    /// The key server and its live peers when it made the key. A short SCI is an index into their
    /// sorted SCIs.
    pub(super) listed: Vec<MemberIdentifier>,
    /// The secure channels received under the key.
    pub(super) members: Vec<(Sci, Option<u32>)>,
    /// Those members whose channel was dropped because they fell silent.
    pub(super) away: Vec<Sci>,
    pub(super) ssci: Option<u32>,
    pub(super) receives: bool,
    pub(super) transmits: bool,
    /// It was transmitted with, and never will be again: its packet numbers would begin at 1.
    pub(super) spent: bool,
    /// The time of arrival.
    pub(super) since: Duration,
    /// When this participant began to transmit with it.
    pub(super) transmits_since: Duration,
    /// The time from which all others transmit with it too.
    pub(super) settled: Option<Duration>,
    /// The next packet numbers, as last reported by the caller.
    pub(super) next_pn: PacketNumbers,
}

/// Packet numbers of the transmit channels with one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) first: u64,
    pub(super) second: Option<u64>,
    /// Of the channels behind the first one, by their places from 1 on.
    pub(super) further: [u64; CHANNELS_MAX as usize - 1],
}

impl Numbers {
    const START: Self = Self { first: 1, second: None, further: [1; CHANNELS_MAX as usize - 1] };

    fn highest(&self) -> u64 {
        self.further.into_iter().chain(self.second).fold(self.first, u64::max)
    }
}

/// The progress of a key's packet numbers, and the lower bound of the frames still in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketNumbers {
    next: Numbers,
    noted: Numbers,
    noted_at: Duration,
    /// The numbers announced to the others.
    pub(super) lowest: Numbers,
}

impl PacketNumbers {
    pub(super) const fn new(now: Duration) -> Self {
        Self { next: Numbers::START, noted: Numbers::START, noted_at: now, lowest: Numbers::START }
    }

    pub(super) fn progress(&mut self, next: u64, second: Option<u64>) {
        self.next.first = self.next.first.max(next);
        self.next.second = self.next.second.max(second);
    }

    /// As [`progress`](Self::progress), of the channel at this place behind the first one.
    pub(super) fn progress_of(&mut self, place: u8, next: u64) {
        let at = usize::from(place).checked_sub(1);
        if let Some(known) = at.and_then(|at| self.next.further.get_mut(at)) {
            *known = next.max(*known);
        }
    }

    /// Announces the numbers reached `under_way` ago.
    pub(super) fn settle(&mut self, now: Duration, under_way: Duration) {
        if now >= self.noted_at + under_way {
            self.lowest = self.noted;
            self.noted = self.next;
            self.noted_at = now;
        }
    }

    /// The highest number of all channels.
    pub(super) fn highest(&self) -> u64 {
        self.next.highest()
    }
}

impl Held {
    /// Ends transmission with the key.
    pub(super) fn lay_down(&mut self) {
        self.spent |= self.transmits;
        self.transmits = false;
    }

    /// The SAK and its parameters, for these members.
    pub(super) fn install(&self, members: Vec<(Sci, Option<u32>)>) -> Option<Install> {
        let salt = self.suite.is_xpn().then(|| salt(self.key));
        // A held key always has the suite's length.
        let sak = Sak::new(self.suite, self.secret.as_bytes(), salt).ok()?;
        Some(Install { key: self.key, an: self.an, sak, ssci: self.ssci, members })
    }

    /// The key's state, as announced by the participant.
    pub(super) const fn key_use(&self) -> KeyUse {
        KeyUse {
            key: self.key,
            an: self.an,
            transmits: self.transmits,
            receives: self.receives,
            lowest_pn: self.next_pn.lowest.first as u32,
        }
    }

    /// Whether three quarters of its packet numbers are used (clause 9.8).
    pub(super) const fn is_near_end(&self, next_pn: u64) -> bool {
        let end = self.suite.packet_number_end();
        next_pn >= end - end / 4
    }
}

/// The short SCIs of members: 1 for the greatest SCI, and so on (IEEE 802.1AE-2018 clause
/// 10.7.13).
pub fn short_scis(mut scis: Vec<Sci>) -> Vec<(Sci, u32)> {
    scis.sort_unstable_by(|a, b| b.cmp(a));
    scis.dedup();
    scis.into_iter().zip(1..).collect()
}
