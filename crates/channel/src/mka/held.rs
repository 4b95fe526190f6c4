//! A SAK that this participant holds, and how far its use has come.

use alloc::vec::Vec;
use core::time::Duration;

use antedate_wire::Sci;
use antedate_wire::macsec::An;
use antedate_wire::mka::{KeyIdentifier, KeyUse, MemberIdentifier};

use super::keys::{Secret, salt};
use crate::macsec::{CipherSuite, Sak};

/// A key to be installed.
#[derive(Debug)]
pub struct Install {
    /// which key it is
    pub key: KeyIdentifier,
    /// the association number to install it under
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
    /// Who is meant to use it.
    pub(super) given: Vec<MemberIdentifier>,
    /// The key server and its live peers when it made the key: short SCIs are places among the SCIs of these.
    pub(super) listed: Vec<MemberIdentifier>,
    /// The secure channels that it is received on.
    pub(super) members: Vec<(Sci, Option<u32>)>,
    /// Those of them whose channel was forgotten since, for they fell silent.
    pub(super) away: Vec<Sci>,
    pub(super) ssci: Option<u32>,
    pub(super) receives: bool,
    pub(super) transmits: bool,
    /// When it came.
    pub(super) since: Duration,
    /// When this participant began to transmit with it.
    pub(super) transmits_since: Duration,
    /// Since when all others transmit with it too.
    pub(super) settled: Option<Duration>,
    /// The next packet numbers, as far as the caller has told.
    pub(super) next_pn: PacketNumbers,
}

/// How far the packet numbers of a key have come, and which of them no frame on its way is below any more.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketNumbers {
    /// Of the usual channel, and of a second one.
    next: (u64, Option<u64>),
    noted: (u64, Option<u64>),
    noted_at: Duration,
    /// What the others are told.
    pub(super) lowest: (u64, Option<u64>),
}

impl PacketNumbers {
    pub(super) const fn new(now: Duration) -> Self {
        Self { next: (1, None), noted: (1, None), noted_at: now, lowest: (1, None) }
    }

    pub(super) fn progress(&mut self, next: u64, second: Option<u64>) {
        self.next = (self.next.0.max(next), self.next.1.max(second));
    }

    /// Tells the others what was reached `under_way` ago.
    pub(super) fn settle(&mut self, now: Duration, under_way: Duration) {
        if now >= self.noted_at + under_way {
            self.lowest = self.noted;
            self.noted = self.next;
            self.noted_at = now;
        }
    }

    /// The highest of both channels.
    pub(super) fn highest(&self) -> u64 {
        self.next.1.map_or(self.next.0, |second| second.max(self.next.0))
    }
}

impl Held {
    /// The SAK with what belongs to it, for these members.
    pub(super) fn install(&self, members: Vec<(Sci, Option<u32>)>) -> Option<Install> {
        let salt = self.suite.is_xpn().then(|| salt(self.key));
        // The key has the suite's length, or it would not be held.
        let sak = Sak::new(self.suite, self.secret.as_bytes(), salt).ok()?;
        Some(Install { key: self.key, an: self.an, sak, ssci: self.ssci, members })
    }

    /// What the participant says of it.
    pub(super) const fn key_use(&self) -> KeyUse {
        KeyUse {
            key: self.key,
            an: self.an,
            transmits: self.transmits,
            receives: self.receives,
            lowest_pn: self.next_pn.lowest.0 as u32,
        }
    }

    /// Three quarters of its packet numbers are used (clause 9.8).
    pub(super) const fn is_near_end(&self, next_pn: u64) -> bool {
        let end = self.suite.packet_number_end();
        next_pn >= end - end / 4
    }
}

/// The short SCIs of members: 1 for the one with the greatest SCI, and so on (IEEE 802.1AE-2018 clause 10.7.13).
pub(super) fn short_scis(mut scis: Vec<Sci>) -> Vec<(Sci, u32)> {
    scis.sort_unstable_by(|a, b| b.cmp(a));
    scis.dedup();
    scis.into_iter().zip(1..).collect()
}
