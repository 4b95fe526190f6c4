//! Finds packet numbers that were spent twice.
//!
//! In GCM the nonce is made of SCI and PN (IEEE 802.1AE clause 14.5); two frames with one (key, SCI, PN) would
//! betray the key stream and the authentication key. The association number stands for the key; where one number
//! gets a new key, the observer is told by [`NonceLedger::next_generation`]. The set is exact: per secure
//! association the PNs are kept as intervals, which stay few as long as senders count.

use std::collections::BTreeMap;

use antedate_wire::Sci;
use serde::{Deserialize, Serialize};

/// Intervals kept at most over all associations (about 32 octets each).
const MOST_INTERVALS: usize = 1 << 20;
/// Associations kept at most; forged SCIs could be many.
const MOST_ASSOCIATIONS: usize = 4_096;
/// Examples kept.
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

/// A packet number that came twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// The secure channel.
    pub sci: String,
    /// The association number.
    pub an: u8,
    /// The packet number.
    pub pn: u32,
}

/// The summary; names are stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nonces {
    /// Frames with a packet number.
    pub seen: u64,
    /// Packet numbers that came again under the same key.
    pub reused: u64,
    /// Packet numbers that found no room in the set; 0, or `reused` is a lower bound.
    pub unrecorded: u64,
    /// The first few reuses.
    pub examples: Vec<Reuse>,
    /// Per association: what range was used.
    pub associations: Vec<Used>,
}

/// Packet numbers of one association.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Which keys, counted from 0.
    pub generation: u32,
    /// The secure channel.
    pub sci: String,
    /// The association number.
    pub an: u8,
    /// The lowest.
    pub lowest: u32,
    /// The highest.
    pub highest: u32,
    /// Ranges without gaps: a restart that skips reserved numbers begins a new one.
    pub ranges: usize,
}

impl NonceLedger {
    /// From here on all keys are new.
    pub fn next_generation(&mut self) {
        self.generation += 1;
    }

    /// Takes one frame's numbers; true if they were spent before.
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

    /// Packet numbers spent twice so far.
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

    /// True if inserting `pn` needs no new interval.
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
    fn a_number_spent_twice_is_found_even_long_after() {
        let mut ledger = NonceLedger::default();
        for pn in 1..=100_000 {
            ledger.spend(A, 0, pn);
        }
        assert!(ledger.spend(A, 0, 17));
        assert_eq!(ledger.summary().examples, [Reuse { sci: A.to_string(), an: 0, pn: 17 }]);
    }

    #[test]
    fn other_channels_associations_and_generations_are_other_keys() {
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
    fn the_ends_of_the_number_range_are_ordinary_numbers() {
        let mut ledger = NonceLedger::default();
        for pn in [u32::MAX, 0, u32::MAX - 1, 1] {
            assert!(!ledger.spend(A, 0, pn));
        }
        assert!(ledger.spend(A, 0, u32::MAX) && ledger.spend(A, 0, 0));
        assert_eq!(ledger.summary().associations[0].ranges, 2);
    }

    #[test]
    fn forged_channels_beyond_the_bound_are_told_not_forgotten() {
        let mut ledger = NonceLedger::default();
        for n in 0..MOST_ASSOCIATIONS as u64 + 5 {
            ledger.spend(Sci(n.to_be_bytes()), 0, 1);
        }
        assert_eq!(ledger.summary().unrecorded, 5);
    }
}
