//! The other gateways as their hellos show them ([`antedate_wire::hello`]).
//!
//! The inbound thread notes each hello; the thread of [link loss](super::loss) says its own, and
//! looks at those of the others.

use std::sync::Mutex;

use antedate_wire::Sci;
use antedate_wire::hello::Repr;

use crate::run::lock;
use crate::sys::thread;

/// Hellos that may be missing in sequence before their sender counts as lost.
const MISSED: u64 = 3;
/// Nanoseconds that a hello may be late.
const LATE: u64 = 2_000_000;
/// The most gateways that are remembered.
const MOST: usize = 64;

/// The gateways that say hello.
#[derive(Debug, Default)]
pub struct Hellos {
    known: Mutex<Vec<Neighbour>>,
}

#[derive(Debug, Clone, Copy)]
struct Neighbour {
    sci: Sci,
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

impl Hellos {
    /// Takes an authenticated hello from the uplink.
    pub fn heard(&self, frame: &[u8]) {
        if let Ok(hello) = Repr::parse(frame) {
            self.note(&hello, thread::now());
        }
    }

    fn note(&self, hello: &Repr, now: u64) {
        let mut known = lock(&self.known);
        let new = Neighbour {
            sci: hello.from,
            id: hello.id,
            sequence: hello.sequence,
            until: now + MISSED * u64::from(hello.interval_ms) * 1_000_000 + LATE,
            field_down: hello.field_down,
        };
        match known.iter_mut().find(|one| one.sci == hello.from) {
            // The path changed the order.
            Some(old) if old.id == new.id && new.sequence.wrapping_sub(old.sequence) as i32 <= 0 => {}
            Some(old) => *old = new,
            None => {
                if known.len() >= MOST {
                    let oldest = known.iter().enumerate().min_by_key(|(_, one)| one.until);
                    let oldest = oldest.map_or(0, |(at, _)| at);
                    known.remove(oldest);
                }
                known.push(new);
            }
        }
    }

    /// The far ends. `members` are those that key agreement knows to be live; such a one counts as
    /// there while it has never said hello.
    #[must_use]
    pub fn far(&self, members: &[Sci], now: u64) -> Far {
        let known = lock(&self.known);
        let quiet = members.iter().any(|sci| known.iter().all(|one| one.sci != *sci));
        let there = || known.iter().filter(|one| now <= one.until);
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
    use antedate_wire::EthernetAddress;

    const MS: u64 = 1_000_000;

    fn hello(from: u8, sequence: u32, field_down: bool) -> Repr {
        let source = EthernetAddress([2, 0, 0, 0, 0, from]);
        Repr { source, id: 1, sequence, from: Sci::new(source, 1), interval_ms: 10, field_down }
    }

    fn sci(from: u8) -> Sci {
        hello(from, 0, false).from
    }

    #[test]
    fn silent_gateway_is_lost_after_three_hellos() {
        let hellos = Hellos::default();
        assert_eq!(hellos.far(&[], 0), Far::Unknown);
        hellos.note(&hello(1, 1, false), 0);
        assert_eq!(hellos.far(&[], 32 * MS), Far::There { field_down: false });
        assert_eq!(hellos.far(&[], 32 * MS + 1), Far::Lost);
        // Key agreement notices later.
        assert_eq!(hellos.far(&[sci(1)], 33 * MS), Far::Lost);
        hellos.note(&hello(1, 2, true), 40 * MS);
        assert_eq!(hellos.far(&[sci(1)], 40 * MS), Far::There { field_down: true });
    }

    #[test]
    fn one_of_several_suffices() {
        let hellos = Hellos::default();
        hellos.note(&hello(1, 1, true), 0);
        hellos.note(&hello(2, 1, false), 0);
        assert_eq!(hellos.far(&[], 0), Far::There { field_down: false });
        hellos.note(&hello(2, 2, true), 0);
        assert_eq!(hellos.far(&[], 0), Far::There { field_down: true });
        // A member that says no hello may have a link.
        assert_eq!(hellos.far(&[sci(3)], 0), Far::There { field_down: false });
        assert_eq!(hellos.far(&[sci(3)], 99 * MS), Far::There { field_down: false });
    }

    #[test]
    fn late_hello_of_the_same_process_is_ignored() {
        let hellos = Hellos::default();
        hellos.note(&hello(1, 7, false), 0);
        for late in [7, 6, 7u32.wrapping_sub(0x7fff_ffff)] {
            hellos.note(&hello(1, late, true), 0);
            assert_eq!(hellos.far(&[], 0), Far::There { field_down: false });
        }
        // After a restart it counts from the beginning.
        hellos.note(&Repr { id: 2, ..hello(1, 1, true) }, 0);
        assert_eq!(hellos.far(&[], 0), Far::There { field_down: true });
    }

    #[test]
    fn memory_is_bounded() {
        let hellos = Hellos::default();
        for from in 0..=255 {
            hellos.note(&hello(from, 1, false), u64::from(from));
        }
        let known = lock(&hellos.known);
        assert_eq!(known.len(), MOST);
        assert!(known.iter().any(|one| one.sci == sci(255)) && known.iter().all(|one| one.sci != sci(0)));
    }
}
