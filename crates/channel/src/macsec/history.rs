//! A record of removed keys and the packet numbers they reached.

use super::sak::Fingerprint;
use super::suite::NonceRule;

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: Fingerprint,
    rule: NonceRule,
    next: u64,
}

/// The last `N` keys that were removed or replaced, in bounded memory. The reservations on disk
/// cover the whole life of a key.
#[derive(Debug)]
pub(super) struct History<const N: usize> {
    entries: [Option<Entry>; N],
    /// The index of the next entry.
    turn: usize,
}

impl<const N: usize> History<N> {
    pub(super) const fn new() -> Self {
        Self { entries: [None; N], turn: 0 }
    }

    /// One above the highest packet number used under this key and rule, or 0 if unknown.
    pub(super) fn next(&self, key: Fingerprint, rule: NonceRule) -> u64 {
        let same = |entry: &&Entry| entry.key == key && entry.rule == rule;
        self.entries.iter().flatten().find(same).map_or(0, |entry| entry.next)
    }

    /// Whether the key was used with another rule, so that two packet numbers could give one nonce.
    pub(super) fn has_other_rule(&self, key: Fingerprint, rule: NonceRule) -> bool {
        self.entries.iter().flatten().any(|entry| entry.key == key && entry.rule != rule)
    }

    /// Records the packet number that a key reached.
    pub(super) fn note(&mut self, key: Fingerprint, rule: NonceRule, next: u64) {
        let same = |entry: &&mut Entry| entry.key == key && entry.rule == rule;
        if let Some(entry) = self.entries.iter_mut().flatten().find(same) {
            entry.next = entry.next.max(next);
            return;
        }
        if let Some(place) = self.entries.get_mut(self.turn) {
            *place = Some(Entry { key, rule, next });
            self.turn = (self.turn + 1) % N;
        }
    }
}
