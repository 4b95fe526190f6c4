//! The age of events.

use super::super::{AgeBound, Ages, Untimely};
use super::*;

/// A time in milliseconds after a second of 2026.
fn at(milliseconds: u64) -> [u8; 8] {
    let fractions = (1_790_000_000 << 24) + ((milliseconds << 24) / 1000);
    (fractions << 8 | 0x0a).to_be_bytes()
}

fn state(st_num: u32, sq_num: u32, t: [u8; 8]) -> Message<'static> {
    Message { st_num, sq_num, t, ..message(&[]) }
}

#[test]
fn event_that_was_held_back_is_refused() {
    let mut bound = AgeBound::new(100);
    assert_eq!(bound.check(&state(1, 0, at(0)), at(50)), Ok(()));
    assert_eq!(bound.check(&state(2, 0, at(1_000)), at(1_100)), Ok(()), "at the bound");
    assert_eq!(bound.check(&state(3, 0, at(2_000)), at(2_101)), Err(Untimely::Old));
    // A repetition of what was refused is no better.
    assert_eq!(bound.check(&state(3, 5, at(2_000)), at(2_500)), Err(Untimely::Old));
    assert_eq!(bound.check(&state(4, 2, at(3_000)), at(3_010)), Ok(()), "the first ones were lost");
    assert_eq!(*bound.ages(), Ages { old: 2, ahead: 0, unsynchronized: 0 });
}

#[test]
fn repetition_of_a_known_state_passes() {
    let mut bound = AgeBound::new(100);
    assert_eq!(bound.check(&state(7, 0, at(0)), at(1)), Ok(()));
    for (sequence, now) in [(1, 10), (2, 1_000), (3, 3_600_000)] {
        assert_eq!(bound.check(&state(7, sequence, at(0)), at(now)), Ok(()), "{sequence}");
    }
    // The same number with another time is another state: the publisher began anew.
    assert_eq!(bound.check(&state(7, 0, at(5_000)), at(3_700_000)), Err(Untimely::Old));
}

#[test]
fn first_message_passes_if_it_repeats() {
    let old = |sequence| AgeBound::new(100).check(&state(9, sequence, at(0)), at(60_000));
    assert_eq!((old(0), old(1)), (Err(Untimely::Old), Ok(())));
    // But not the repetition of an event that was refused.
    let mut bound = AgeBound::new(100);
    let heard = [0, 1].map(|sequence| bound.check(&state(9, sequence, at(0)), at(60_000)));
    assert_eq!(heard, [Err(Untimely::Old); 2]);
}

#[test]
fn event_of_the_future_is_refused() {
    let mut bound = AgeBound::new(100);
    assert_eq!(bound.check(&state(1, 0, at(1_100)), at(1_000)), Ok(()));
    assert_eq!(bound.check(&state(2, 0, at(1_202)), at(1_000)), Err(Untimely::Ahead));
    assert_eq!(bound.ages().ahead, 1);
}

#[test]
fn clock_without_synchronization_is_not_judged() {
    for (quality, unjudged) in [(0x20, 1), (0x40, 1), (0x60, 1), (0x80, 0), (0x1f, 0)] {
        let (mut bound, mut t) = (AgeBound::new(100), at(0));
        t[7] = quality;
        let expected = if unjudged == 1 { Ok(()) } else { Err(Untimely::Old) };
        assert_eq!(bound.check(&state(1, 0, t), at(60_000)), expected, "{quality:#x}");
        assert_eq!(bound.ages().unsynchronized, unjudged, "{quality:#x}");
    }
}
