//! Finds packet numbers that were used twice.
//!
//! In GCM the nonce consists of SCI and PN (IEEE 802.1AE clause 14.5). Two frames with the same
//! key, SCI and PN would reveal the key stream and the authentication key. The association number
//! stands for the key; [`NonceLedger::next_generation`] announces new keys. The set is exact: each
//! secure association keeps its PNs as intervals, which stay few as long as senders count up.

use std::collections::BTreeMap;

use antedate_wire::Sci;
use serde::{Deserialize, Serialize};

/// Limit of intervals over all associations (about 32 octets each).
const MOST_INTERVALS: usize = 1 << 20;
/// Limit of associations; forged SCIs could be many.
const MOST_ASSOCIATIONS: usize = 4_096;
/// Limit of examples.
const MOST_EXAMPLES: usize = 16;

/// One key's packet numbers: generation, SCI, AN.
type Association = (u32, Sci, u8);

/// All packet numbers seen.
#[derive(Clone, Debug, Default)]
pub struct NonceLedger {
    generation: u32,
    associations: BTreeMap<Association, PnSet>,
    intervals: usize,
    seen: u64,
    reused: u64,
    unrecorded: u64,
    examples: Vec<Reuse>,
}

/// A repeated packet number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// The secure channel.
    pub sci: String,
    /// The association number.
    pub an: u8,
    /// The packet number.
    pub pn: u32,
}

/// The summary. Field names are stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nonces {
    /// Frames with a packet number.
    pub seen: u64,
    /// Packet numbers repeated under the same key.
    pub reused: u64,
    /// Packet numbers beyond the set's limits. If not 0, `reused` is a lower bound.
    pub unrecorded: u64,
    /// The first few reuses.
    pub examples: Vec<Reuse>,
    /// Used ranges per association.
    pub associations: Vec<Used>,
}

/// Packet numbers of one association.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Generation of keys, counted from 0.
    pub generation: u32,
    /// The secure channel.
    pub sci: String,
    /// The association number.
    pub an: u8,
    /// Lowest number.
    pub lowest: u32,
    /// Highest number.
    pub highest: u32,
    /// Ranges without gaps. A restart that skips reserved numbers begins a new one.
    pub ranges: usize,
}

impl NonceLedger {
    /// All later keys are new.
    pub fn next_generation(&mut self) {
        self.generation += 1;
    }

    /// Takes one frame's numbers; true if they were used before.
    pub fn spend(&mut self, sci: Sci, an: u8, pn: u32) -> bool {
        self.seen += 1;
        let association = (self.generation, sci, an);
        if !self.associations.contains_key(&association) && self.associations.len() >= MOST_ASSOCIATIONS {
            self.unrecorded += 1;
            return false;
        }
        let set = self.associations.entry(association).or_default();
        if set.contains(pn) {
            self.reused += 1;
            if self.examples.len() < MOST_EXAMPLES {
                self.examples.push(Reuse { sci: sci.to_string(), an, pn });
            }
            return true;
        }
        let before = set.intervals.len();
        if self.intervals >= MOST_INTERVALS && !set.extends(pn) {
            self.unrecorded += 1;
            return false;
        }
        set.insert(pn);
        self.intervals = self.intervals + set.intervals.len() - before;
        false
    }

    /// Packet numbers used twice so far.
    #[must_use]
    pub fn reused(&self) -> u64 {
        self.reused
    }

    /// The summary.
    #[must_use]
    pub fn summary(&self) -> Nonces {
        let associations = self.associations.iter().filter_map(|((generation, sci, an), set)| {
            Some(Used {
                generation: *generation,
                sci: sci.to_string(),
                an: *an,
                lowest: *set.intervals.first_key_value()?.0,
                highest: *set.intervals.last_key_value()?.1,
                ranges: set.intervals.len(),
            })
        });
        Nonces {
            seen: self.seen,
            reused: self.reused,
            unrecorded: self.unrecorded,
            examples: self.examples.clone(),
            associations: associations.collect(),
        }
    }
}

/// Packet numbers as disjoint, non-adjacent intervals: first to last, both included.
#[derive(Clone, Debug, Default)]
struct PnSet {
    intervals: BTreeMap<u32, u32>,
}

impl PnSet {
    fn below(&self, pn: u32) -> Option<(u32, u32)> {
        self.intervals.range(..=pn).next_back().map(|(&first, &last)| (first, last))
    }

    fn contains(&self, pn: u32) -> bool {
        self.below(pn).is_some_and(|(_, last)| pn <= last)
    }

    /// Whether inserting `pn` needs no new interval.
    fn extends(&self, pn: u32) -> bool {
        self.below(pn).is_some_and(|(_, last)| last.checked_add(1) == Some(pn))
            || pn.checked_add(1).is_some_and(|next| self.intervals.contains_key(&next))
    }

    /// Adds a number that is not in the set.
    fn insert(&mut self, pn: u32) {
        let next = pn.checked_add(1).and_then(|next| self.intervals.remove(&next));
        let last = next.unwrap_or(pn);
        match self.below(pn) {
            Some((first, end)) if end.checked_add(1) == Some(pn) => self.intervals.insert(first, last),
            _ => self.intervals.insert(pn, last),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const A: Sci = Sci([1; 8]);
    const B: Sci = Sci([2; 8]);

    #[test]
    fn counting_senders_take_one_interval() {
        let mut ledger = NonceLedger::default();
        for pn in 1..=100_000 {
            assert!(!ledger.spend(A, 0, pn));
        }
        let summary = ledger.summary();
        assert_eq!(summary.associations.len(), 1);
        assert_eq!((summary.associations[0].highest, summary.associations[0].ranges), (100_000, 1));
    }

    #[test]
    fn late_nonce_reuse_is_found() {
        let mut ledger = NonceLedger::default();
        for pn in 1..=100_000 {
            ledger.spend(A, 0, pn);
        }
        assert!(ledger.spend(A, 0, 17));
        assert_eq!(ledger.summary().examples, [Reuse { sci: A.to_string(), an: 0, pn: 17 }]);
    }

    #[test]
    fn other_associations_are_other_keys() {
        let mut ledger = NonceLedger::default();
        assert!(!ledger.spend(A, 0, 5));
        assert!(!ledger.spend(B, 0, 5));
        assert!(!ledger.spend(A, 1, 5));
        ledger.next_generation();
        assert!(!ledger.spend(A, 0, 5));
        assert!(ledger.spend(A, 0, 5));
        assert_eq!(ledger.reused(), 1);
    }

    #[test]
    fn any_order_gives_what_a_plain_set_gives() {
        let mut ledger = NonceLedger::default();
        let mut plain = HashSet::new();
        let mut state = 12_345_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let pn = (state >> 33) as u32 % 8_000;
            assert_eq!(ledger.spend(A, 0, pn), !plain.insert(pn), "{pn}");
        }
        assert_eq!(ledger.reused(), 20_000 - plain.len() as u64);
    }

    #[test]
    fn first_and_last_numbers_are_ordinary() {
        let mut ledger = NonceLedger::default();
        for pn in [u32::MAX, 0, u32::MAX - 1, 1] {
            assert!(!ledger.spend(A, 0, pn));
        }
        assert!(ledger.spend(A, 0, u32::MAX) && ledger.spend(A, 0, 0));
        assert_eq!(ledger.summary().associations[0].ranges, 2);
    }

    #[test]
    fn excess_channels_are_counted() {
        let mut ledger = NonceLedger::default();
        for n in 0..MOST_ASSOCIATIONS as u64 + 5 {
            ledger.spend(Sci(n.to_be_bytes()), 0, 1);
        }
        assert_eq!(ledger.summary().unrecorded, 5);
    }
}
