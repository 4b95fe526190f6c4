//! Each bound and each phase of reassembly.

use std::vec::Vec;

use super::*;

/// The result of a piece, with the frame that it completes.
#[derive(Debug, PartialEq, Eq)]
enum Took {
    Whole,
    Held,
    Complete(Vec<u8>),
    Refused(Dropped),
}

use Took::{Complete, Held, Refused, Whole};

struct Bench {
    assembly: Assembly,
    counters: FragmentCounters,
    now: u64,
}

/// A frame of `len` octets after its EtherType.
fn frame(fill: u8, len: usize) -> Vec<u8> {
    [&[3; 6][..], &[2; 6], &[0x88, 0x92], &std::vec![fill; len]].concat()
}

impl Bench {
    fn new(marks: Marks, limits: Limits) -> Self {
        let mut assembly = Assembly::new(limits, marks);
        assembly.install(0, 1);
        assembly.install(1, 1);
        Self { assembly, counters: FragmentCounters::default(), now: 0 }
    }

    fn take(&mut self, number: u64, more: bool, continued: bool, frame: &[u8]) -> Took {
        self.take_of(0, number, more, continued, frame)
    }

    fn take_of(
        &mut self,
        association: usize,
        number: u64,
        more: bool,
        continued: bool,
        frame: &[u8],
    ) -> Took {
        let verified = Verified { association, number, more, continued, frame };
        match self.assembly.take(|| self.now, verified, &mut self.counters) {
            Verdict::Whole => Whole,
            Verdict::Held => Held,
            Verdict::Complete(frame) => Complete(frame.to_vec()),
            Verdict::Refused(why) => Refused(why),
        }
    }
}

fn more(limits: Limits) -> Bench {
    Bench::new(Marks::More, limits)
}

#[test]
fn pieces_have_the_least_length() {
    let (right, short) = (frame(1, MIN_PIECE), frame(1, MIN_PIECE - 1));
    // First, middle and last piece.
    let mut bench = more(Limits::default());
    assert_eq!(bench.take(1, true, false, &short), Refused(Dropped::TooShort));
    for (middle, last) in [(&short, None), (&right, Some(&short))] {
        let mut bench = more(Limits::default());
        assert_eq!(bench.take(1, true, false, &right), Held);
        match last {
            None => assert_eq!(bench.take(2, true, false, middle), Refused(Dropped::TooShort)),
            Some(last) => {
                assert_eq!(bench.take(2, true, false, middle), Held);
                assert_eq!(bench.take(3, false, false, last), Refused(Dropped::TooShort));
            }
        }
        assert_eq!(bench.counters.refused(Dropped::TooShort), 1);
    }
    let mut bench = more(Limits::default());
    assert_eq!(bench.take(1, true, false, &right), Held);
    assert_eq!(bench.take(2, true, false, &right), Held);
    assert_eq!(bench.take(3, false, false, &right), Complete(frame(1, 3 * MIN_PIECE)));
    assert_eq!((bench.counters.taken, bench.counters.reassembled), (3, 1));
}

#[test]
fn longest_frame_is_exact() {
    for (limit, real) in [(214, 214), (MAX_FRAME, MAX_FRAME), (MAX_FRAME + 1, MAX_FRAME)] {
        let limits = Limits { frame: limit, ..Limits::default() };
        for excess in [0, 1] {
            let len = real - 14 + excess;
            let expected = |right: Took| if excess == 0 { right } else { Refused(Dropped::TooLong) };
            // In two pieces, and in one that is said to be followed.
            let mut bench = more(limits);
            assert_eq!(bench.take(1, true, false, &frame(1, 100)), Held);
            let whole = [&frame(1, 100)[..], &frame(2, len - 100)[14..]].concat();
            assert_eq!(bench.take(2, false, false, &frame(2, len - 100)), expected(Complete(whole)));
            let mut bench = more(limits);
            assert_eq!(bench.take(1, true, false, &frame(1, len)), expected(Held));
            // A whole frame of any length passes.
            assert_eq!(more(limits).take(1, false, false, &frame(1, len)), Whole);
        }
    }
    let mut bench = more(Limits { frame: 0, ..Limits::default() });
    assert_eq!(bench.take(1, true, false, &frame(1, 48)), Refused(Dropped::TooLong));
}

#[test]
fn number_of_pieces_is_exact() {
    for (limit, real) in [(1, 1), (3, 3), (MAX_PIECES, MAX_PIECES), (MAX_PIECES + 1, MAX_PIECES)] {
        let mut bench = more(Limits { pieces: limit, ..Limits::default() });
        for number in 1..=real as u64 {
            assert_eq!(bench.take(number, true, false, &frame(1, 48)), Held);
        }
        assert_eq!(bench.take(real as u64 + 1, false, false, &frame(1, 48)), Refused(Dropped::TooMany));
        assert_eq!((bench.counters.taken, bench.counters.reassembled), (real as u64, 0));
    }
}

#[test]
fn pieces_share_addresses_and_type() {
    for at in 0..15 {
        let mut bench = more(Limits::default());
        assert_eq!(bench.take(1, true, false, &frame(1, 48)), Held);
        let mut other = frame(1, 48);
        other[at] ^= 1;
        let expected = match at {
            0..12 => Refused(Dropped::OtherAddresses),
            12..14 => Refused(Dropped::OtherEtherType),
            _ => Complete([&frame(1, 48)[..], &other[14..]].concat()),
        };
        assert_eq!(bench.take(2, false, false, &other), expected, "octet {at}");
    }
}

#[test]
fn deadline_counts_from_the_first_piece() {
    for (later, expected) in [(99, None), (100, Some(Dropped::TimedOut)), (101, Some(Dropped::TimedOut))] {
        let mut bench = more(Limits { deadline: 100, ..Limits::default() });
        bench.now = 7;
        assert_eq!(bench.take(1, true, false, &frame(1, 48)), Held);
        bench.now = 8;
        assert_eq!(bench.take(2, true, false, &frame(1, 48)), Held);
        bench.now = 7 + later;
        let took = bench.take(3, false, false, &frame(1, 48));
        match expected {
            None => assert_eq!(took, Complete(frame(1, 144))),
            Some(why) => {
                assert_eq!(took, Refused(Dropped::NoFirst), "the rest belongs to no frame");
                assert_eq!(bench.counters.refused(why), 1);
            }
        }
        // The next frame is whole again.
        assert_eq!(bench.take(4, false, false, &frame(1, 48)), Whole);
    }
    // The owner may ask without a piece.
    let mut bench = more(Limits { deadline: 100, ..Limits::default() });
    bench.take(1, true, false, &frame(1, 48));
    for (now, refused) in [(99, 0), (100, 1), (200, 1)] {
        bench.assembly.expire(now, &mut bench.counters);
        assert_eq!(bench.counters.refused(Dropped::TimedOut), refused);
    }
    let mut bench = more(Limits { deadline: u64::MAX, ..Limits::default() });
    bench.now = 7;
    assert_eq!(bench.take(1, true, false, &frame(1, 48)), Held, "an unlimited deadline does not wrap");
    assert_eq!(bench.take(2, false, false, &frame(1, 48)), Complete(frame(1, 96)));
}

/// What arrives: number, MF, CF, length, and what comes of it.
type Step = (u64, bool, bool, usize, Took);

fn run(marks: Marks, steps: Vec<Step>) -> FragmentCounters {
    let mut bench = Bench::new(marks, Limits::default());
    for (at, (number, more, continued, len, expected)) in steps.into_iter().enumerate() {
        assert_eq!(bench.take(number, more, continued, &frame(1, len)), expected, "{marks:?}, step {at}");
    }
    bench.counters
}

#[test]
fn gap_ends_an_unmarked_frame() {
    use Dropped::{Gap, NoFirst, Unplaced};
    let counters = run(
        Marks::More,
        [
            (1, true, false, 48, Held),
            // 2 is missing: the rest, its end, and then clear again.
            (3, true, false, 48, Refused(Unplaced)),
            (4, false, false, 48, Refused(NoFirst)),
            (5, false, false, 48, Whole),
            // 6 is missing: a whole frame, or an end.
            (7, false, false, 48, Refused(Unplaced)),
            (8, false, false, 48, Whole),
            // A short one is no end. Its successor is clear.
            (10, false, false, 47, Whole),
            (11, true, false, 48, Held),
            (12, false, false, 48, Complete(frame(1, 96))),
            // A piece of what was refused.
            (14, true, false, 47, Refused(Unplaced)),
            (15, true, false, 48, Refused(NoFirst)),
            (16, false, false, 48, Refused(NoFirst)),
            (17, true, false, 48, Held),
            (18, false, false, 48, Complete(frame(1, 96))),
        ]
        .into(),
    );
    let named = [(Gap, 1), (NoFirst, 3), (Unplaced, 3)];
    assert!(named.iter().all(|(why, count)| counters.refused(*why) == *count), "{counters:?}");
    assert_eq!((counters.taken, counters.reassembled), (5, 2));
}

#[test]
fn marked_frames_are_never_ambiguous() {
    use Dropped::{NoFirst, SecondFirst};
    let counters = run(
        Marks::Both,
        [
            (1, true, false, 48, Held),
            // 2 is missing: continuations of it, then a first piece.
            (3, true, true, 48, Refused(NoFirst)),
            (4, false, true, 48, Refused(NoFirst)),
            (6, false, false, 48, Whole),
            (8, true, false, 48, Held),
            // A frame begins before this one has ended, in one piece and in several.
            (9, false, false, 48, Whole),
            (10, true, false, 48, Held),
            (11, true, false, 48, Held),
            (12, false, true, 48, Complete(frame(1, 96))),
            // An end without a beginning, at once and after a refused piece.
            (13, false, true, 48, Refused(NoFirst)),
            (14, true, true, 48, Refused(NoFirst)),
            (15, true, false, 48, Held),
            (16, false, true, 48, Complete(frame(1, 96))),
        ]
        .into(),
    );
    assert_eq!(counters.refused(SecondFirst), 2);
    assert_eq!((counters.refused(NoFirst), counters.refused(Dropped::Gap)), (4, 1));
    assert_eq!((counters.taken, counters.reassembled), (7, 2));
}

#[test]
fn late_frame_is_placed_by_its_neighbour() {
    // Number 2 arrives after `last`. Its predecessor 1 was a whole frame, and is remembered for the
    // 64 numbers below the next.
    for (last, expected) in [(3, Whole), (64, Whole), (65, Refused(Dropped::Unplaced))] {
        let mut bench = more(Limits::default());
        assert_eq!(bench.take(1, false, false, &frame(1, 48)), Whole);
        assert_eq!(bench.take(last, false, false, &frame(1, 47)), Whole);
        assert_eq!(bench.take(2, false, false, &frame(1, 48)), expected, "{last}");
    }
    // A late one whose predecessor is missing, or was a piece. A short one, and one between marked
    // frames, is whole.
    for (marks, len, expected) in
        [(Marks::More, 48, Refused(Dropped::Unplaced)), (Marks::More, 47, Whole), (Marks::Both, 48, Whole)]
    {
        let mut bench = Bench::new(marks, Limits::default());
        assert_eq!(bench.take(1, true, false, &frame(1, 48)), Held);
        assert_eq!(bench.take(9, false, false, &frame(1, 47)), Whole);
        assert_eq!(bench.take(2, false, false, &frame(1, len)), expected, "{marks:?} {len}");
        assert_eq!(bench.take(7, false, false, &frame(1, len)), expected);
        // The end of a late one places the next.
        assert_eq!(bench.take(8, false, false, &frame(1, 48)), Whole);
        // A late piece joins nothing.
        assert_eq!(bench.take(5, true, false, &frame(1, 48)), Refused(Dropped::Gap));
        assert_eq!(bench.take(6, false, true, &frame(1, 48)), Refused(Dropped::Gap));
        assert_eq!(bench.counters.refused(Dropped::Gap), 3);
    }
}

#[test]
fn late_frame_leaves_the_frame_in_progress() {
    let mut bench = more(Limits::default());
    assert_eq!(bench.take(2, false, false, &frame(1, 47)), Whole);
    assert_eq!(bench.take(3, true, false, &frame(1, 48)), Held);
    assert_eq!(bench.take(1, false, false, &frame(1, 48)), Whole, "nothing precedes the first number");
    assert_eq!(bench.take(4, false, false, &frame(1, 48)), Complete(frame(1, 96)));
}

#[test]
fn associations_do_not_mix() {
    for marks in [Marks::More, Marks::Both] {
        let cf = marks == Marks::Both;
        let mut bench = Bench::new(marks, Limits::default());
        assert_eq!(bench.take_of(0, 1, true, false, &frame(1, 48)), Held);
        // A whole frame under the next key leaves the incomplete one.
        assert_eq!(bench.take_of(1, 1, false, false, &frame(2, 48)), Whole);
        assert_eq!(bench.take_of(0, 2, false, cf, &frame(1, 48)), Complete(frame(1, 96)));
        // A frame begun under the next key ends it.
        assert_eq!(bench.take_of(0, 3, true, false, &frame(1, 48)), Held);
        assert_eq!(bench.take_of(1, 2, true, false, &frame(2, 48)), Held);
        assert_eq!(bench.counters.refused(Dropped::SecondFirst), 1);
        assert_eq!(bench.take_of(0, 4, false, cf, &frame(1, 48)), Refused(Dropped::NoFirst));
        assert_eq!(bench.take_of(1, 3, false, cf, &frame(2, 48)), Complete(frame(2, 96)));
        assert_eq!(bench.take_of(0, 5, false, false, &frame(1, 48)), Whole);
    }
    // A number that no channel has.
    let mut bench = more(Limits::default());
    assert_eq!(bench.take_of(4, 9, true, true, &frame(1, 48)), Whole);
}

#[test]
fn gap_of_one_association_spares_another() {
    let mut bench = more(Limits::default());
    assert_eq!(bench.take_of(0, 1, true, false, &frame(1, 48)), Held);
    assert_eq!(bench.take_of(1, 9, false, false, &frame(1, 48)), Refused(Dropped::Unplaced));
    assert_eq!(bench.take_of(0, 2, false, false, &frame(1, 48)), Complete(frame(1, 96)));
    assert_eq!(bench.counters.refused(Dropped::Gap), 0);
}

#[test]
fn new_key_begins_a_new_sequence() {
    // A key from number 1 has nothing before it; one from a later number may.
    for (lowest, expected) in [(0, Whole), (1, Whole), (2, Refused(Dropped::Unplaced))] {
        let mut bench = more(Limits::default());
        bench.assembly.install(2, lowest);
        assert_eq!(bench.take_of(2, lowest, false, false, &frame(1, 48)), expected, "{lowest}");
        assert_eq!(bench.take_of(2, lowest + 1, false, false, &frame(1, 48)), Whole);
    }
    // It drops an incomplete frame of its own association only, without counting it.
    for (installed, expected) in [(0, Refused(Dropped::Unplaced)), (1, Complete(frame(1, 96)))] {
        let mut bench = more(Limits::default());
        assert_eq!(bench.take(1, true, false, &frame(1, 48)), Held);
        bench.assembly.install(installed, 5);
        assert_eq!(bench.take(2, false, false, &frame(1, 48)), expected);
        assert_eq!(bench.counters.refused(Dropped::Gap), 0);
    }
}

#[test]
fn every_reason_has_its_counter() {
    let mut bench = more(Limits::default());
    bench.take(1, true, false, &frame(1, 47));
    let named: Vec<_> = bench.counters.named().filter(|(_, count)| *count > 0).collect();
    assert_eq!(named, [("InFragmentsTooShort", 1)]);
    let names: std::collections::BTreeSet<_> = bench.counters.named().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 2 + Dropped::ALL.len());
    assert_eq!(
        [Marks::More, Marks::Both].map(|marks| Assembly::new(Limits::default(), marks).marks()),
        [Marks::More, Marks::Both]
    );
}

#[test]
fn whole_frames_move_the_memory_of_ends() {
    // Number 3 leaves a hole; 4 follows it. Then 1 comes, whose predecessor is before the first
    // number, and 2, whose predecessor is there only after it.
    for (late, expected) in [([1, 2], [Whole, Whole]), ([2, 1], [Refused(Dropped::Unplaced), Whole])] {
        let mut bench = more(Limits::default());
        assert_eq!(bench.take(3, false, false, &frame(1, 47)), Whole);
        assert_eq!(bench.take(4, false, false, &frame(1, 48)), Whole);
        let took = late.map(|number| bench.take(number, false, false, &frame(1, 48)));
        assert_eq!(took, expected);
    }
}

#[test]
fn words_of_a_refusal_name_its_cause() {
    use std::string::ToString;
    let texts: std::collections::BTreeSet<_> = Dropped::ALL.iter().map(Dropped::to_string).collect();
    assert_eq!(texts.len(), Dropped::ALL.len());
    for (why, cause) in [
        (Dropped::Gap, "missing"),
        (Dropped::OtherEtherType, "EtherType"),
        (Dropped::OtherAddresses, "addresses"),
        (Dropped::TimedOut, "in time"),
        (Dropped::TooLong, "long"),
        (Dropped::TooShort, "short"),
    ] {
        assert!(why.to_string().contains(cause), "{why}");
    }
    // What it holds is somebody's frame.
    let mut bench = more(Limits::default());
    assert_eq!(bench.take(1, true, false, &frame(0xa7, 48)), Held);
    let shown = std::format!("{:?}", bench.assembly);
    assert!(shown.contains("busy: true") && !shown.contains("167"), "{shown}");
}
