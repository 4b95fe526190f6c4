//! The machines that spoke of late on either side: whether the destination of a frame is known.
//!
//! A table without collision chains. An address has one place, which another with the same digest takes
//! over; its machine's next frame takes it back.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Way;

/// Places of a side.
const PLACES: usize = 4096;
const SHIFT: u32 = u64::BITS - PLACES.trailing_zeros();

/// The sources of frames that passed: from the field, then from the uplink.
#[derive(Debug)]
pub(super) struct Sources([Box<[AtomicU64]>; 2]);

impl Default for Sources {
    fn default() -> Self {
        Self([(); 2].map(|()| (0..PLACES).map(|_| AtomicU64::new(0)).collect()))
    }
}

fn bits(frame: &[u8], at: usize) -> Option<u64> {
    let [a, b, c, d, e, f] = *frame.get(at..)?.first_chunk()?;
    Some(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
}

impl Sources {
    fn place(&self, way: Way, bits: u64) -> Option<&AtomicU64> {
        let [out, inward] = &self.0;
        let digest = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SHIFT;
        if way == Way::Out { out } else { inward }.get(digest as usize)
    }

    /// Notes the source of a frame that passes this way. Returns whether its destination is a machine
    /// that did not speak the other way.
    pub(super) fn pass(&self, way: Way, frame: &[u8]) -> bool {
        let (Some(to), Some(from)) = (bits(frame, 0), bits(frame, 6)) else { return false };
        if let Some(place) = self.place(way, from) {
            place.store(from, Ordering::Relaxed);
        }
        let other = if way == Way::Out { Way::In } else { Way::Out };
        frame.first().is_some_and(|first| first & 1 == 0)
            && self.place(other, to).is_none_or(|place| place.load(Ordering::Relaxed) != to)
    }

    /// Takes over the sources of this way.
    pub(super) fn take_over(&self, way: Way, before: &Self) {
        let [new, old] = [self, before].map(|one| &one.0[usize::from(way == Way::In)]);
        for (new, old) in new.iter().zip(old) {
            new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: u8, from: u16) -> Vec<u8> {
        let [high, low] = from.to_be_bytes();
        [&[to, 0, 0, 0, 0, to][..], &[2, 0, 0, 0, high, low], &[8, 0]].concat()
    }

    #[test]
    fn destination_is_known_once_it_spoke() {
        let sources = Sources::default();
        assert!(sources.pass(Way::Out, &frame(4, 2)), "nobody spoke");
        assert!(!sources.pass(Way::Out, &frame(1, 2)), "a group");
        let answer = [&[2, 0, 0, 0, 0, 2][..], &[4, 0, 0, 0, 0, 4], &[8, 0]].concat();
        assert!(!sources.pass(Way::In, &answer));
        assert!(!sources.pass(Way::Out, &frame(4, 2)));
        assert!(sources.pass(Way::In, &frame(4, 2)), "it speaks on the other side");
        assert!(!sources.pass(Way::Out, &[0; 11]));
        let after = Sources::default();
        after.take_over(Way::In, &sources);
        assert!(!after.pass(Way::Out, &frame(4, 2)));
    }

    #[test]
    fn flood_of_sources_hides_a_machine_until_it_speaks() {
        let sources = Sources::default();
        let answer = [&[2, 0, 0, 0, 0, 2][..], &[4, 0, 0, 0, 0, 4], &[8, 0]].concat();
        sources.pass(Way::In, &answer);
        (0..=u16::MAX).for_each(|from| _ = sources.pass(Way::In, &frame(4, from)));
        sources.pass(Way::In, &answer);
        assert!(!sources.pass(Way::Out, &frame(4, 2)));
        assert_eq!(sources.0[1].len(), PLACES);
    }
}
