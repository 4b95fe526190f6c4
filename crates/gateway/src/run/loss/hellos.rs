//! The other gateways as their hellos show them: those of MACsec ([`antedate_wire::hello`]), or those in
//! the tunnels of an overlay ([`antedate_channel::overlay::message`]).
//!
//! The forwarding thread notes each hello; the thread of [link loss](super) looks at them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;

use crate::run::lock;

/// Hellos that may be missing in sequence before their sender counts as lost.
pub const MISSED: u64 = 3;
/// Nanoseconds that a hello may be late.
pub const LATE: u64 = 2_000_000;
/// The most gateways that are remembered.
const MOST: usize = 4096;

/// What a hello tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// The number that the sending process chose.
    pub id: u32,
    /// The number of the hello.
    pub sequence: u32,
    /// Milliseconds to the next one.
    pub interval_ms: u16,
    /// Whether the sender's field port has no link.
    pub field_down: bool,
}

/// The gateways that say hello, by a name of each.
#[derive(Debug)]
pub struct Hellos<Name> {
    known: Mutex<HashMap<Name, Neighbour>>,
    /// Those that key agreement, or a session, shows to be there.
    live: Mutex<Vec<Name>>,
}

impl<Name> Default for Hellos<Name> {
    fn default() -> Self {
        Self { known: Mutex::default(), live: Mutex::default() }
    }
}

#[derive(Debug, Clone, Copy)]
struct Neighbour {
    id: u32,
    sequence: u32,
    /// The time until which the next hello must come.
    until: u64,
    field_down: bool,
}

/// The far ends as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Far {
    /// None was ever there.
    Unknown,
    /// All that were there are lost.
    Lost,
    /// At least one is there.
    There {
        /// Whether the field ports of all have no link.
        field_down: bool,
    },
}

impl<Name: Copy + Eq + Hash> Hellos<Name> {
    /// Notes an authenticated hello.
    pub fn note(&self, from: Name, told: Told, now: u64) {
        let mut known = lock(&self.known);
        let new = Neighbour {
            id: told.id,
            sequence: told.sequence,
            until: now + MISSED * u64::from(told.interval_ms) * 1_000_000 + LATE,
            field_down: told.field_down,
        };
        match known.get_mut(&from) {
            // The path changed the order.
            Some(old) if old.id == new.id && new.sequence.wrapping_sub(old.sequence) as i32 <= 0 => {}
            Some(old) => *old = new,
            None => {
                if known.len() >= MOST {
                    let oldest = known.iter().min_by_key(|(_, one)| one.until).map(|(name, _)| *name);
                    oldest.map(|name| known.remove(&name));
                }
                known.insert(from, new);
            }
        }
    }

    /// Notes which gateways are live by other signs.
    pub fn follow(&self, live: Vec<Name>) {
        *lock(&self.live) = live;
    }

    /// The far ends. A live one counts as there while it has never said hello.
    #[must_use]
    pub fn far(&self, now: u64) -> Far {
        let live = lock(&self.live);
        let known = lock(&self.known);
        let quiet = live.iter().any(|name| !known.contains_key(name));
        let there = || known.values().filter(|one| now <= one.until);
        match (quiet || there().next().is_some(), known.is_empty()) {
            (true, _) => Far::There { field_down: !quiet && there().all(|one| one.field_down) },
            (false, true) => Far::Unknown,
            (false, false) => Far::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn told(sequence: u32, field_down: bool) -> Told {
        Told { id: 1, sequence, interval_ms: 10, field_down }
    }

    #[test]
    fn silent_gateway_is_lost_after_three_hellos() {
        let hellos = Hellos::default();
        assert_eq!(hellos.far(0), Far::Unknown);
        hellos.note(1, told(1, false), 0);
        assert_eq!(hellos.far(32 * MS), Far::There { field_down: false });
        assert_eq!(hellos.far(32 * MS + 1), Far::Lost);
        // Key agreement notices later.
        hellos.follow(vec![1]);
        assert_eq!(hellos.far(33 * MS), Far::Lost);
        hellos.note(1, told(2, true), 40 * MS);
        assert_eq!(hellos.far(40 * MS), Far::There { field_down: true });
    }

    #[test]
    fn one_of_several_suffices() {
        let hellos = Hellos::default();
        hellos.note(1, told(1, true), 0);
        hellos.note(2, told(1, false), 0);
        assert_eq!(hellos.far(0), Far::There { field_down: false });
        hellos.note(2, told(2, true), 0);
        assert_eq!(hellos.far(0), Far::There { field_down: true });
        // A member that says no hello may have a link.
        hellos.follow(vec![3]);
        assert_eq!(hellos.far(0), Far::There { field_down: false });
        assert_eq!(hellos.far(99 * MS), Far::There { field_down: false });
    }

    #[test]
    fn late_hello_of_the_same_process_is_ignored() {
        let hellos = Hellos::default();
        hellos.note(1, told(7, false), 0);
        for late in [7, 6, 7u32.wrapping_sub(0x7fff_ffff)] {
            hellos.note(1, told(late, true), 0);
            assert_eq!(hellos.far(0), Far::There { field_down: false });
        }
        // After a restart it counts from the beginning.
        hellos.note(1, Told { id: 2, ..told(1, true) }, 0);
        assert_eq!(hellos.far(0), Far::There { field_down: true });
    }

    #[test]
    fn memory_is_bounded() {
        let hellos = Hellos::default();
        let last = MOST as u64 + 9;
        for from in 0..=last {
            hellos.note(from, told(1, false), from);
        }
        let known = lock(&hellos.known);
        assert_eq!(known.len(), MOST);
        assert!(known.contains_key(&last) && !known.contains_key(&0));
    }
}
