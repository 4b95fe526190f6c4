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
    /// Who was given it.
    pub(super) given: Vec<MemberIdentifier>,
    /// The secure channels that it is received on.
    pub(super) members: Vec<(Sci, Option<u32>)>,
    pub(super) ssci: Option<u32>,
    pub(super) receives: bool,
    pub(super) transmits: bool,
    /// When it came.
    pub(super) since: Duration,
    /// When this participant began to transmit with it.
    pub(super) transmits_since: Duration,
    /// Since when all others transmit with it too.
    pub(super) settled: Option<Duration>,
    /// The next packet number, as far as the caller has told.
    pub(super) next_pn: u64,
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
            lowest_pn: self.next_pn as u32,
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
