//! The address table: the field or the peer that each machine is behind. As the filtering database
//! of a bridge (IEEE 802.1Q, 8.8): learned from source addresses, aged when silent, with static
//! entries that never move.
//!
//! Limits on all addresses, on those of the field and on those of each peer keep a sender of random
//! addresses from evicting others. Frames to addresses that were not learned are flooded, as in any
//! bridge.

use std::collections::HashMap;

use antedate_wire::EthernetAddress;

/// Nanoseconds in which a machine of the field is not accepted behind a peer at its first frame
/// there: through a loop, the frames of a machine that has not moved come back.
const HOLD: u64 = 5_000_000_000;
/// Nanoseconds between the first frame there and the one that is accepted, if none came from the
/// field between them.
const AGAIN: u64 = 50_000_000;
/// Nanoseconds in which the copy of an announcement from the field may come back through a loop.
const LOOPED: u64 = 2_000_000_000;
/// Nanoseconds in which a second return to the field proves a loop, and in which the machine is
/// then not accepted behind a peer.
const PROVEN: u64 = 60_000_000_000;
/// Nanoseconds between two updates of an entry.
const FRESH: u64 = 1_000_000_000;

/// The place of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The local field.
    Field,
    /// Behind a peer.
    Peer(usize),
}

/// The result for a source address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The place agrees.
    Fine,
    /// The table is full.
    Full,
    /// The machine is in another place: a static entry, or recently on the field.
    Elsewhere,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    place: Place,
    seen: u64,
    fixed: bool,
    /// When it was refused behind a peer, since it was last heard here. 0: not.
    refused: u64,
    /// When it last announced itself on the field. 0: never.
    announced: u64,
    /// When it last returned to the field. 0: never.
    returned: u64,
    /// The end of the time in which it is held on the field, for a loop is proven.
    held: u64,
}

impl Entry {
    const fn new(place: Place, seen: u64, fixed: bool) -> Self {
        Self { place, seen, fixed, refused: 0, announced: 0, returned: 0, held: 0 }
    }

    /// Whether a machine of the field is not accepted behind a peer.
    fn is_held(&mut self, now: u64, announces: impl FnOnce() -> bool) -> bool {
        if now < self.held {
            return true;
        }
        if now.saturating_sub(self.seen) >= HOLD {
            return false;
        }
        if announces() && (self.announced == 0 || now.saturating_sub(self.announced) >= LOOPED) {
            return false;
        }
        let since = now.saturating_sub(self.refused);
        if self.refused == 0 || since >= HOLD {
            self.refused = now;
            return true;
        }
        since < AGAIN
    }
}

/// A machine of the field that is heard behind a peer again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspect {
    /// Its address.
    pub address: EthernetAddress,
    /// The index of the peer.
    pub peer: usize,
}

/// The address table.
#[derive(Debug)]
pub struct Table {
    entries: HashMap<EthernetAddress, Entry>,
    ageing: u64,
    most: usize,
    most_of_field: usize,
    most_of_peer: usize,
    of_field: usize,
    of_peer: Vec<usize>,
    /// Machines that moved.
    pub moved: u64,
    /// Addresses that were not learned for lack of space.
    pub full: u64,
    /// Frames from a source with another place.
    pub elsewhere: u64,
    /// Loops: machines that returned to the field twice within a minute.
    pub loops: u64,
    /// Changes of [`Self::behind_peers`].
    pub changes: u64,
    /// The last one with a refused frame.
    suspect: Option<Suspect>,
}

/// The addresses of each peer.
fn share(most_of_field: usize, peers: usize) -> usize {
    most_of_field / peers.clamp(1, 14)
}

impl Table {
    /// An empty table for this many peers and addresses; `ageing` in nanoseconds.
    #[must_use]
    pub fn new(peers: usize, most: usize, ageing: u64) -> Self {
        // The field may use all but the peers' share, a single peer all but the field's share.
        // Several peers share, each at least a sixteenth.
        let most_of_field = most - most / 8;
        let most_of_peer = share(most_of_field, peers);
        Self {
            entries: HashMap::with_capacity(most),
            ageing,
            most,
            most_of_field,
            most_of_peer,
            of_field: 0,
            of_peer: vec![0; peers],
            moved: 0,
            full: 0,
            elsewhere: 0,
            loops: 0,
            changes: 0,
            suspect: None,
        }
    }

    /// Adds a static entry.
    pub fn fix(&mut self, address: EthernetAddress, peer: usize) {
        self.changes += 1;
        self.entries.insert(address, Entry::new(Place::Peer(peer), 0, true));
    }

    /// Changes the ageing time, in nanoseconds.
    pub const fn set_ageing(&mut self, ageing: u64) {
        self.ageing = ageing;
    }

    /// Follows the peers to their new places. Forgets the machines of those that are gone, and
    /// replaces the static entries.
    pub fn replace_peers(
        &mut self,
        peers: usize,
        place: impl Fn(usize) -> Option<usize>,
        fixed: impl Iterator<Item = (EthernetAddress, usize)>,
    ) {
        self.most_of_peer = share(self.most_of_field, peers);
        self.changes += 1;
        (self.of_field, self.of_peer) = (0, vec![0; peers]);
        let (of_field, of_peer) = (&mut self.of_field, &mut self.of_peer);
        self.entries.retain(|_, entry| {
            let count = match &mut entry.place {
                Place::Field => Some(&mut *of_field),
                Place::Peer(peer) => place(*peer).and_then(|now| {
                    *peer = now;
                    of_peer.get_mut(now)
                }),
            };
            match count {
                Some(count) if !entry.fixed => *count += 1,
                _ => return false,
            }
            true
        });
        self.suspect = None;
        for (address, peer) in fixed {
            if let Some(learned) = self.entries.remove(&address) {
                self.count(learned.place, false);
            }
            self.fix(address, peer);
        }
    }

    /// Remembers a machine whose frame from a peer was refused, for the log.
    #[cold]
    pub fn suspect(&mut self, address: EthernetAddress, peer: usize) {
        self.suspect = Some(Suspect { address, peer });
    }

    /// Takes the last such machine.
    pub fn take_suspect(&mut self) -> Option<Suspect> {
        self.suspect.take()
    }

    /// Handles the source address of a frame. With `learn` it is stored. `announces` tells whether
    /// the frame announces its sender's place, which a machine that has moved does.
    #[inline]
    pub fn heard(
        &mut self,
        address: EthernetAddress,
        place: Place,
        learn: bool,
        now: u64,
        announces: impl FnOnce() -> bool,
    ) -> Heard {
        if let Some(entry) = self.entries.get_mut(&address) {
            if entry.place == place {
                if now.saturating_sub(entry.seen) > FRESH {
                    entry.seen = now;
                }
                entry.refused = 0;
                if place == Place::Field && announces() {
                    entry.announced = now;
                }
                return Heard::Fine;
            }
            let fixed = entry.fixed;
            if fixed || entry.place == Place::Field && entry.is_held(now, announces) {
                self.elsewhere += 1;
                return Heard::Elsewhere;
            }
            if !learn {
                return Heard::Fine;
            }
            let before = std::mem::replace(&mut entry.place, place);
            (entry.seen, entry.refused) = (now, 0);
            if place == Place::Field {
                let again = entry.returned > 0 && now.saturating_sub(entry.returned) < PROVEN;
                entry.returned = now;
                if again {
                    entry.held = now + PROVEN;
                    self.loops += 1;
                }
            }
            self.count(before, false);
            self.count(place, true);
            self.moved += 1;
            self.changes += 1;
            return Heard::Fine;
        }
        if !learn {
            return Heard::Fine;
        }
        let (there, most) = match place {
            Place::Field => (self.of_field, self.most_of_field),
            Place::Peer(peer) => (self.of_peer.get(peer).copied().unwrap_or(0), self.most_of_peer),
        };
        if self.entries.len() >= self.most || there >= most {
            self.full += 1;
            return Heard::Full;
        }
        let mut entry = Entry::new(place, now, false);
        if place == Place::Field && announces() {
            entry.announced = now;
        }
        self.entries.insert(address, entry);
        self.count(place, true);
        self.changes += u64::from(place != Place::Field);
        Heard::Fine
    }

    /// The place of a machine, if known.
    #[inline]
    #[must_use]
    pub fn find(&self, address: EthernetAddress, now: u64) -> Option<Place> {
        let entry = self.entries.get(&address)?;
        (entry.fixed || now.saturating_sub(entry.seen) < self.ageing + FRESH).then_some(entry.place)
    }

    /// Removes aged entries.
    pub fn age(&mut self, now: u64) {
        let (ageing, of_field, of_peer) = (self.ageing, &mut self.of_field, &mut self.of_peer);
        let before = self.entries.len();
        self.entries.retain(|_, entry| {
            let stays = entry.fixed || now.saturating_sub(entry.seen) < ageing + FRESH;
            let count = match entry.place {
                Place::Field => Some(&mut *of_field),
                Place::Peer(peer) => of_peer.get_mut(peer),
            };
            if let (false, Some(count)) = (stays, count) {
                *count = count.saturating_sub(1);
            }
            stays
        });
        self.changes += u64::from(self.entries.len() != before);
    }

    /// The machines behind peers, each with the peer's index.
    pub fn behind_peers(&self) -> impl Iterator<Item = (EthernetAddress, usize)> {
        self.entries.iter().filter_map(|(address, entry)| match entry.place {
            Place::Peer(peer) => Some((*address, peer)),
            Place::Field => None,
        })
    }

    /// Number of addresses on the field, and behind each peer.
    #[must_use]
    pub fn census(&self) -> (usize, Vec<usize>) {
        let mut behind = vec![0; self.of_peer.len()];
        let mut field = 0;
        for entry in self.entries.values() {
            match entry.place {
                Place::Field => field += 1,
                Place::Peer(peer) => {
                    if let Some(count) = behind.get_mut(peer) {
                        *count += 1;
                    }
                }
            }
        }
        (field, behind)
    }

    fn count(&mut self, place: Place, more: bool) {
        let count = match place {
            Place::Field => Some(&mut self.of_field),
            Place::Peer(peer) => self.of_peer.get_mut(peer),
        };
        if let Some(count) = count {
            *count = if more { *count + 1 } else { count.saturating_sub(1) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    fn mac(number: u32) -> EthernetAddress {
        let [a, b, c, d] = number.to_be_bytes();
        EthernetAddress([2, 0, a, b, c, d])
    }

    #[test]
    fn machines_are_learned_moved_and_aged() {
        let mut table = Table::new(2, 64, 300 * S);
        assert_eq!(table.find(mac(1), 0), None);
        assert_eq!(table.heard(mac(1), Place::Peer(0), true, 0, || false), Heard::Fine);
        assert_eq!(table.find(mac(1), S), Some(Place::Peer(0)));
        assert_eq!(table.heard(mac(1), Place::Peer(1), true, 2 * S, || false), Heard::Fine);
        assert_eq!((table.find(mac(1), 3 * S), table.moved), (Some(Place::Peer(1)), 1));
        assert_eq!(table.find(mac(1), 400 * S), None);
        table.age(400 * S);
        assert_eq!(table.census(), (0, vec![0, 0]));
        assert_eq!(table.of_peer, [0, 0]);
    }

    #[test]
    fn static_and_field_machines_stay() {
        let mut table = Table::new(2, 64, 300 * S);
        table.fix(mac(9), 1);
        for place in [Place::Field, Place::Peer(0)] {
            assert_eq!(table.heard(mac(9), place, true, 0, || false), Heard::Elsewhere);
        }
        assert_eq!(table.heard(mac(9), Place::Peer(1), true, 0, || false), Heard::Fine);
        table.heard(mac(1), Place::Field, true, 0, || false);
        assert_eq!(table.heard(mac(1), Place::Peer(0), true, 4 * S, || false), Heard::Elsewhere);
        assert_eq!(table.find(mac(1), 4 * S), Some(Place::Field));
        assert_eq!(table.heard(mac(1), Place::Peer(0), true, 6 * S, || false), Heard::Fine);
        assert_eq!((table.find(mac(1), 6 * S), table.elsewhere), (Some(Place::Peer(0)), 3));
        table.age(1000 * S);
        assert_eq!(table.find(mac(9), 1000 * S), Some(Place::Peer(1)));
    }

    #[test]
    fn moved_machine_is_found_again() {
        let mut table = Table::new(2, 64, 300 * S);
        let mut heard = |place, now: u64, announces| table.heard(mac(1), place, true, now, || announces);
        let (field, peer) = (Place::Field, Place::Peer(0));
        assert_eq!(heard(field, S, true), Heard::Fine);
        // An announcement is believed at once, unless it may be the copy of its own.
        assert_eq!(heard(peer, S + MS, true), Heard::Elsewhere);
        assert_eq!(heard(field, 2 * S, false), Heard::Fine);
        assert_eq!(heard(peer, 4 * S, true), Heard::Fine);
        // Other frames are believed at the second one.
        let mut table = Table::new(2, 64, 300 * S);
        let mut heard = |place, now: u64| table.heard(mac(1), place, true, now, || false);
        assert_eq!(heard(field, 10 * S), Heard::Fine);
        assert_eq!(heard(peer, 10 * S + MS), Heard::Elsewhere);
        assert_eq!(heard(peer, 10 * S + 2 * MS), Heard::Elsewhere, "copies of one frame");
        assert_eq!(heard(peer, 10 * S + 60 * MS), Heard::Fine);
    }

    #[test]
    fn loop_is_held() {
        let mut table = Table::new(2, 64, 300 * S);
        let (field, peer) = (Place::Field, Place::Peer(0));
        let mut heard = |place, now: u64| table.heard(mac(1), place, true, now, || false);
        // Each frame comes back after a millisecond.
        for now in (0..30_000).step_by(40) {
            assert_eq!(heard(field, now * MS), Heard::Fine);
            assert_eq!(heard(peer, now * MS + MS), Heard::Elsewhere);
        }
        // A frame that circulates while the machine is silent moves it twice at most.
        let mut moved = 0;
        for now in 30_000..60_000u64 {
            if now % 1_000 == 0 {
                assert_eq!(heard(field, now * MS), Heard::Fine);
            }
            moved += u32::from(now % 1_000 != 0 && heard(peer, now * MS) == Heard::Fine);
        }
        assert!(moved > 0 && moved < 2_000, "{moved}");
        assert_eq!(table.loops, 1);
        assert_eq!(table.find(mac(1), 60 * S), Some(field));
    }

    #[test]
    fn machines_follow_their_peers() {
        let mut table = Table::new(3, 64, 300 * S);
        for (n, place) in [(1, Place::Field), (2, Place::Peer(0)), (3, Place::Peer(1)), (4, Place::Peer(2))] {
            table.heard(mac(n), place, true, S, || false);
        }
        table.fix(mac(8), 1);
        // The first is gone, another one joins, and the field's machine is now fixed there.
        table.replace_peers(3, |peer| peer.checked_sub(1), [(mac(9), 0), (mac(1), 2)].into_iter());
        let places = [1, 2, 3, 4, 8, 9].map(|n| table.find(mac(n), 2 * S));
        let peer = |place| Some(Place::Peer(place));
        assert_eq!(places, [peer(2), None, peer(0), peer(1), None, peer(0)]);
        assert_eq!((table.of_field, table.of_peer.as_slice()), (0, &[1, 1, 0][..]));
        table.age(1000 * S);
        assert_eq!((table.of_peer.as_slice(), table.find(mac(9), 1000 * S)), (&[0; 3][..], peer(0)));
    }

    #[test]
    fn flooding_peer_evicts_no_others() {
        let mut table = Table::new(2, 64, 300 * S);
        let learned = |table: &mut Table, place, range: std::ops::Range<u32>| {
            range.filter(|n| table.heard(mac(*n), place, true, 0, || false) == Heard::Fine).count()
        };
        assert_eq!(learned(&mut table, Place::Peer(0), 0..1000), 28);
        assert_eq!(learned(&mut table, Place::Peer(1), 1000..1020), 20);
        assert_eq!(learned(&mut table, Place::Field, 2000..2010), 10);
        assert_eq!(table.full, 972);
        assert_eq!(learned(&mut table, Place::Field, 3000..4000), 6, "all in all no more than 64");
    }

    #[test]
    fn flooding_field_leaves_peers_their_share() {
        let mut table = Table::new(2, 64, 300 * S);
        let learned = |table: &mut Table, place, range: std::ops::Range<u32>| {
            range.filter(|n| table.heard(mac(*n), place, true, 0, || false) == Heard::Fine).count()
        };
        assert_eq!(learned(&mut table, Place::Field, 0..1000), 56);
        assert_eq!(learned(&mut table, Place::Peer(0), 1000..2000), 8);
        assert_eq!(table.heard(mac(0), Place::Peer(0), true, 6 * S, || false), Heard::Fine);
        assert_eq!((table.of_field, table.of_peer.as_slice()), (55, &[9, 0][..]));
        table.age(400 * S);
        assert_eq!((table.of_field, table.of_peer.as_slice()), (0, &[0, 0][..]));
    }
}
