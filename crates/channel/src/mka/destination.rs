//! The destinations of MKPDUs (IEEE 802.1X-2020 clause 11.1.1): one that is configured, or those
//! that reach the others.
//!
//! A list of members names the last MKPDU heard of each. Every MKPDU has its own number, so the
//! lists of the others tell which destinations reach them, in this direction, whatever filters are
//! between. The rule:
//!
//! 1. Send to the destinations by which the live peers heard us last.
//! 2. A peer that hears us not yet is answered once by the destination of its own MKPDU.
//! 3. While such a peer is there, or none at all, the configured destinations follow in turn, the
//!    first one twice at the start.
//! 4. The first one is tried again soon after, and now and then, if others are in use.

use alloc::vec::Vec;
use core::time::Duration;

use antedate_wire::EthernetAddress;

use super::participant::{HELLO_TIME, LIFE_TIME};
use super::peers::Peers;

/// The destinations to try when none is configured. The nearest non-TPMR bridge group is the
/// standard's. Ordinary switches forward the last one only.
pub const AUTOMATIC: [EthernetAddress; 4] = [
    EthernetAddress::PAE_GROUP,
    EthernetAddress([0x01, 0x80, 0xc2, 0, 0, 0]),
    EthernetAddress::LLDP_NEAREST_BRIDGE,
    EthernetAddress::BROADCAST,
];

/// A set of places in the list of destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Places(u8);

impl Places {
    /// The most destinations.
    pub(super) const MOST: usize = 8;

    fn add(&mut self, place: usize) {
        if place < Self::MOST {
            self.0 |= 1 << place;
        }
    }

    pub(super) fn iter(self) -> impl DoubleEndedIterator<Item = usize> {
        (0..Self::MOST).filter(move |place| self.0 & 1 << place != 0)
    }
}

/// The MKPDUs from an agreement to the next trial of the first destination, and between trials.
const SOON: u32 = 3;
const SELDOM: u32 = 30;

/// The turn of a search.
#[derive(Debug, Default)]
pub(super) struct Search {
    tries: usize,
    /// The time of the last try.
    turned: Duration,
    /// MKPDUs since the last search.
    calm: u32,
}

impl Search {
    /// Whether someone may not hear us: a peer, or others that nobody hears.
    pub(super) fn is_on(peers: &Peers, now: Duration) -> bool {
        let reached = |peer: &super::peers::Peer| {
            peer.is_live() && peer.reached.is_some_and(|(_, sent_at)| now < sent_at + LIFE_TIME)
        };
        peers.0.is_empty() || !peers.0.iter().all(reached)
    }

    /// The places of the next MKPDU's destinations among `count`.
    pub(super) fn next(&mut self, count: usize, peers: &mut Peers, now: Duration) -> Places {
        let mut places = Places::default();
        for (place, _) in peers.live().filter_map(|peer| peer.reached) {
            places.add(place);
        }
        if !Self::is_on(peers, now) {
            self.tries = 0;
            self.calm += 1;
            if self.calm == SOON || self.calm.is_multiple_of(SELDOM) {
                places.add(0);
            }
            return places;
        }
        self.calm = 0;
        let mut answers = false;
        for peer in peers.0.iter_mut().filter(|peer| !peer.is_live() && !peer.answered) {
            peer.answered = true;
            if let Some(place) = peer.heard_by {
                places.add(place);
                answers = true;
            }
        }
        // Beside members that hear us, once in a hello time: many may come at a time.
        if !answers && (places == Places::default() || now >= self.turned + HELLO_TIME) {
            self.turned = now;
            places.add(self.tries.saturating_sub(1) % count.max(1));
            self.tries += 1;
        }
        places
    }
}

/// The addresses of live peers' destinations, without repetition.
pub(super) fn in_use(list: &[EthernetAddress], peers: &Peers) -> Vec<EthernetAddress> {
    let mut places = Places::default();
    peers.live().filter_map(|peer| peer.reached).for_each(|(place, _)| places.add(place));
    places.iter().filter_map(|place| list.get(place).copied()).collect()
}
