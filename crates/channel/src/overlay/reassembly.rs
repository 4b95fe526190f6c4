//! Frames from pieces, and packets from IP fragments.
//!
//! The rules are those of MACsec's fragments: a frame is output once every part has arrived and
//! been authenticated. Parts that overlap, contradict each other or arrive too late drop the whole.
//! IP may reorder parts, so each has an offset, and several frames may be incomplete at a time.
//! Their number bounds the memory.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Octets of the longest whole: a jumbo frame with VLAN tags and VXLAN's headers.
pub const LONGEST: usize = 9216;
/// The most incomplete frames: with the parts of 64 frames interleaved, none is given up.
pub const OPEN: usize = 64;
/// The most nanoseconds that a frame may be incomplete.
const PATIENCE: u64 = 500_000_000;
const UNIT: usize = 8;
const WORDS: usize = LONGEST / UNIT / 64;

/// Identifies the whole that parts belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// IP fragments with this identification.
    Packet(u16),
    /// Pieces of a frame.
    Frame {
        /// Our index of the session.
        session: u32,
        /// The counter of the first piece.
        first: u64,
        /// The number of pieces.
        count: u8,
    },
}

impl Whole {
    /// Whether both identify the same whole, possibly with different details.
    fn is(self, other: Self) -> bool {
        match (self, other) {
            (Self::Frame { session, first, .. }, Self::Frame { session: s, first: f, .. }) => {
                session == s && first == f
            }
            (one, other) => one == other,
        }
    }
}

/// A part of a whole.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// Its whole.
    pub of: Whole,
    /// Its offset, a multiple of 8.
    pub offset: usize,
    /// Its octets.
    pub octets: &'a [u8],
    /// Whether it is the last one.
    pub last: bool,
}

/// Counters of parts and wholes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Parts received.
    pub parts: u64,
    /// Wholes completed.
    pub whole: u64,
    /// Wholes given up because a part was late, or too many were incomplete.
    pub incomplete: u64,
    /// Wholes dropped because parts overlapped or contradicted each other.
    pub contradictory: u64,
    /// Invalid parts: too long, or of an odd length.
    pub malformed: u64,
}

struct Slot {
    of: Option<Whole>,
    since: u64,
    total: Option<usize>,
    /// The end of the last octet received.
    end: usize,
    have: [u64; WORDS],
    units: usize,
    octets: Box<[u8]>,
}

impl Slot {
    fn new() -> Self {
        Self {
            of: None,
            since: 0,
            total: None,
            end: 0,
            have: [0; WORDS],
            units: 0,
            octets: vec![0; LONGEST].into_boxed_slice(),
        }
    }
}

/// The incomplete wholes of a peer.
pub struct Reassembly {
    /// As many as were ever incomplete at a time.
    slots: Vec<Slot>,
    counters: Counters,
}

impl Default for Reassembly {
    fn default() -> Self {
        // The first two do not wait for memory; more are rare.
        Self { slots: vec![Slot::new(), Slot::new()], counters: Counters::default() }
    }
}

impl core::fmt::Debug for Reassembly {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Reassembly").field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl Reassembly {
    /// Adds a part that arrived at `now`, in nanoseconds. Returns the whole if it is complete.
    pub fn add(&mut self, now: u64, part: Part<'_>) -> Option<&mut [u8]> {
        self.counters.parts += 1;
        let Part { of, offset, octets, last } = part;
        let end = offset + octets.len();
        let uneven = !last && octets.len() % UNIT != 0;
        if octets.is_empty() || uneven || offset % UNIT != 0 || end > LONGEST {
            self.counters.malformed += 1;
            return None;
        }
        self.expire(now);
        let at = match self.slots.iter().position(|slot| slot.of.is_some_and(|other| other.is(of))) {
            Some(at) => at,
            None => self.open(now, of),
        };
        let slot = self.slots.get_mut(at)?;
        if !slot.takes(part, end) {
            slot.of = None;
            self.counters.contradictory += 1;
            return None;
        }
        slot.octets[offset..end].copy_from_slice(octets);
        let total = slot.total.filter(|total| slot.units == total.div_ceil(UNIT))?;
        slot.of = None;
        self.counters.whole += 1;
        slot.octets.get_mut(..total)
    }

    /// Gives up wholes past their deadline.
    pub fn expire(&mut self, now: u64) {
        for slot in &mut self.slots {
            if slot.of.is_some() && now.saturating_sub(slot.since) >= PATIENCE {
                slot.of = None;
                self.counters.incomplete += 1;
            }
        }
    }

    /// The counters.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A slot for a new whole: a free one, a new one, or that of the oldest.
    fn open(&mut self, now: u64, of: Whole) -> usize {
        let key = |slot: &Slot| slot.of.map_or((0, 0), |_| (1, slot.since));
        let mut at = (0..self.slots.len()).min_by_key(|at| key(&self.slots[*at])).unwrap_or(0);
        if self.slots.get(at).is_none_or(|slot| slot.of.is_some()) && self.slots.len() < OPEN {
            at = self.slots.len();
            self.slots.push(Slot::new());
        }
        let slot = &mut self.slots[at];
        if slot.of.is_some() {
            self.counters.incomplete += 1;
        }
        (slot.of, slot.since, slot.total, slot.end) = (Some(of), now, None, 0);
        (slot.have, slot.units) = ([0; WORDS], 0);
        at
    }
}

impl Slot {
    /// Marks a part's range, if it agrees with the earlier parts.
    fn takes(&mut self, part: Part<'_>, end: usize) -> bool {
        if self.of != Some(part.of) {
            return false;
        }
        if part.last {
            if self.total.is_some() || self.end > end {
                return false;
            }
            self.total = Some(end);
        } else if self.total.is_some_and(|total| end >= total) {
            return false;
        }
        for unit in part.offset / UNIT..end.div_ceil(UNIT) {
            let (word, bit) = (&mut self.have[unit / 64], 1u64 << (unit % 64));
            if *word & bit != 0 {
                return false;
            }
            *word |= bit;
            self.units += 1;
        }
        self.end = self.end.max(end);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const F: Whole = Whole::Frame { session: 1, first: 10, count: 3 };

    fn octets(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7) as u8).collect()
    }

    fn parts(whole: &[u8], size: usize, of: Whole) -> Vec<Part<'_>> {
        let count = whole.len().div_ceil(size);
        let part = |(i, octets)| Part { of, offset: i * size, octets, last: i + 1 == count };
        whole.chunks(size).enumerate().map(part).collect()
    }

    #[test]
    fn parts_in_any_order_give_the_whole() {
        let whole = octets(1514);
        let p = parts(&whole, 512, F);
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut r = Reassembly::default();
            assert!(r.add(0, p[order[0]]).is_none() && r.add(1, p[order[1]]).is_none());
            assert_eq!(r.add(2, p[order[2]]).map(|w| w.to_vec()), Some(whole.clone()));
            assert_eq!((r.counters().whole, r.counters().parts), (1, 3));
        }
    }

    #[test]
    fn cut_frame_is_reassembled() {
        use crate::overlay::message::{Message, Piece, cut, parse};
        let whole = octets(1514);
        let (count, size) = cut(whole.len(), 1424).unwrap();
        let mut r = Reassembly::default();
        let mut out = None;
        for (index, data) in whole.chunks(size).enumerate() {
            let vni = antedate_wire::vxlan::Vni::new(42).unwrap();
            let piece = Piece { index: index as u8, count: count as u8, vni, offset: index * size };
            let packet = [&piece.emit(data.len())[..], data, &[0; 14]].concat();
            let Some(Message::Piece(piece, data)) = parse(&packet) else { panic!("{packet:?}") };
            let of = Whole::Frame { session: 7, first: 5, count: piece.count };
            let part = Part { of, offset: piece.offset, octets: data, last: piece.is_last() };
            out = r.add(0, part).map(|whole| whole.to_vec());
        }
        assert_eq!(out, Some(whole), "{:?}", r.counters());
    }

    #[test]
    fn incomplete_frame_is_given_up() {
        let whole = octets(1514);
        for lost in 0..3 {
            let mut r = Reassembly::default();
            for (i, part) in parts(&whole, 512, F).into_iter().enumerate() {
                assert!(i == lost || r.add(0, part).is_none());
            }
            for first in 20..40 {
                let of = Whole::Frame { session: 1, first, count: 2 };
                let p = parts(&whole, 760, of);
                assert!(r.add(1, p[0]).is_none());
                assert_eq!(r.add(1, p[1]).map(|w| w.to_vec()), Some(whole.clone()));
            }
            r.expire(PATIENCE);
            assert_eq!((r.counters().incomplete, r.counters().whole), (1, 20));
        }
    }

    #[test]
    fn contradicting_parts_drop_the_whole() {
        let whole = octets(1514);
        let p = parts(&whole, 512, F);
        let other_count = Whole::Frame { session: 1, first: 10, count: 2 };
        for wrong in [
            p[0],
            Part { offset: 8, ..p[0] },
            Part { offset: 2048, ..p[1] },
            Part { of: other_count, ..p[1] },
        ] {
            let mut r = Reassembly::default();
            assert!(r.add(0, p[0]).is_none() && r.add(0, p[2]).is_none());
            assert!(r.add(0, wrong).is_none());
            assert!(r.add(0, p[1]).is_none(), "the frame is dropped");
            assert_eq!(r.counters().contradictory, 1);
        }
        let mut r = Reassembly::default();
        for bad in [
            Part { octets: &[], ..p[0] },
            Part { octets: &whole[..9], ..p[0] },
            Part { offset: LONGEST, ..p[2] },
        ] {
            assert!(r.add(0, bad).is_none());
        }
        assert_eq!(r.counters().malformed, 3);
    }

    #[test]
    fn swapped_frames_are_reassembled() {
        let whole = octets(1514);
        for distance in 2..=64usize {
            let mut r = Reassembly::default();
            let of = |first: usize| Whole::Frame { session: 1, first: 2 * first as u64, count: 2 };
            let sent: Vec<_> = (0..256).flat_map(|first| parts(&whole, 760, of(first))).collect();
            // Datagrams come in blocks of this many, each in reverse.
            let came = sent.chunks(distance).flat_map(|block| block.iter().rev());
            let done = came.filter(|part| r.add(0, **part).is_some()).count();
            assert_eq!((done, r.counters().incomplete), (256, 0), "{distance}");
            // All first pieces of a block of frames come before all second ones.
            let mut r = Reassembly::default();
            let came = sent
                .chunks(2 * distance)
                .flat_map(|block| block.iter().step_by(2).chain(block.iter().skip(1).step_by(2)));
            let done = came.filter(|part| r.add(0, **part).is_some()).count();
            assert_eq!((done, r.counters().incomplete), (256, 0), "{distance}");
        }
    }

    #[test]
    fn oldest_incomplete_frame_is_replaced() {
        let whole = octets(1000);
        let mut r = Reassembly::default();
        for ident in 0..100u16 {
            assert!(r.add(u64::from(ident), parts(&whole, 504, Whole::Packet(ident))[0]).is_none());
        }
        assert_eq!(r.counters().incomplete, 100 - OPEN as u64);
        assert!(r.add(100, parts(&whole, 504, Whole::Packet(99))[1]).is_some());
        assert!(r.add(100, parts(&whole, 504, Whole::Packet(0))[1]).is_none());
    }
}
