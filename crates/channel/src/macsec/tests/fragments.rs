//! Fragments: the receiver outputs exactly a frame that was sent, or nothing, whatever the wire
//! does.

use super::super::*;
use super::setup::*;
use crate::fragment::{Dropped, Limits, MIN_PIECE, Marks};
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

const OTHER: Sci = Sci([2, 2, 2, 2, 2, 9, 0, 1]);
/// The capacity of the tests' wire: pieces of at most 200 octets after their EtherType.
const LONGEST: usize = 14 + 200 + 32;
const MARKS: [Marks; 2] = [Marks::More, Marks::Both];

/// A frame of `len` octets after its EtherType, unique to `number`.
fn numbered(number: u8, len: usize) -> Vec<u8> {
    let mut frame = [[3; 6], [2; 6]].concat();
    frame.extend([0x88, 0x92]);
    frame.extend((0..len).map(|i| (i as u8).wrapping_mul(7) ^ number.wrapping_mul(37)));
    frame
}

fn split(transmit: &mut Transmit, frame: &[u8], marks: Marks) -> Vec<Vec<u8>> {
    let (mut pieces, mut out) = (Vec::new(), vec![0; 10_000]);
    let count = transmit.protect_split(frame, LONGEST, marks, &mut out, |piece| pieces.push(piece.to_vec()));
    assert_eq!(count, Ok(pieces.len()));
    pieces
}

fn sender(sci: Sci) -> Transmit {
    transmit(TransmitConfig { sci, ..transmit_config(SUITE) })
}

fn receiver(marks: Marks, window: u32) -> Receive {
    let mut receive = Receive::new(ReceiveConfig { replay_window: window, ..ReceiveConfig::new(SUITE) });
    for sci in [SCI, OTHER] {
        receive.add_peer(sci, None).unwrap();
        assert!(receive.set_fragments(sci, Some(marks), Limits::default()));
        receive.install(sci, A0, &sak(SUITE, 0), 1).unwrap();
    }
    receive
}

fn accept(receive: &mut Receive, frame: &[u8]) -> Result<Option<Vec<u8>>, Discard> {
    accept_at(receive, 0, frame)
}

fn accept_at(receive: &mut Receive, now: u64, frame: &[u8]) -> Result<Option<Vec<u8>>, Discard> {
    let (mut frame, mut whole) = (frame.to_vec(), vec![0; 10_000]);
    receive.accept(|| now, &mut frame, &mut whole).map(|opened| opened.map(|opened| opened.to_vec()))
}

/// A protected frame on the wire: the frame it belongs to, and the parts a receiver can see.
#[derive(Clone)]
struct Unit {
    frame: usize,
    first: bool,
    short: bool,
    octets: Vec<u8>,
}

/// Whole frames and frames of `pieces` fragments, in the order sent.
struct Traffic {
    sent: Vec<Vec<u8>>,
    units: Vec<Unit>,
    /// The same from another sender. One of these frames follows each of ours.
    other_sent: Vec<Vec<u8>>,
    other_units: Vec<Vec<u8>>,
}

impl Traffic {
    fn new(pieces: usize, marks: Marks) -> Self {
        let (mut transmit, mut other) = (sender(SCI), sender(OTHER));
        let long = 200 * pieces - 3;
        let (mut sent, mut units) = (Vec::new(), Vec::new());
        for (number, len) in [150, long, 46, long, 151, long, long, 152].into_iter().enumerate() {
            let frame = numbered(number as u8, len);
            let split = split(&mut transmit, &frame, marks);
            assert_eq!(split.len(), if len == long { pieces } else { 1 });
            units.extend(split.iter().enumerate().map(|(index, octets)| Unit {
                frame: number,
                first: index == 0,
                short: len < MIN_PIECE,
                octets: octets.clone(),
            }));
            sent.push(frame);
        }
        let (mut other_sent, mut other_units) = (Vec::new(), Vec::new());
        while other_units.len() < units.len() {
            let frame = numbered(100 + other_sent.len() as u8, 600);
            other_units.extend(self::split(&mut other, &frame, marks));
            other_sent.push(frame);
        }
        Self { sent, units, other_sent, other_units }
    }

    /// Delivers the units in `arrivals` (an index, and whether a bit is flipped), and counts the
    /// output frames.
    fn run(&self, marks: Marks, window: u32, arrivals: &[(usize, bool)]) -> BTreeMap<usize, usize> {
        let mut receive = receiver(marks, window);
        let (mut came, mut others) = (BTreeMap::new(), Vec::new());
        let mut other_units = self.other_units.iter();
        for (unit, corrupt) in arrivals {
            let mut octets = self.units[*unit].octets.clone();
            if *corrupt {
                let at = octets.len() / 2;
                octets[at] ^= 0x10;
            }
            if let Ok(Some(frame)) = accept(&mut receive, &octets) {
                let number = self.sent.iter().position(|sent| *sent == frame);
                *came.entry(number.expect("only what was sent comes out")).or_default() += 1;
            }
            if let Some(unit) = other_units.next() {
                others.extend(accept(&mut receive, unit).unwrap());
            }
        }
        others.extend(other_units.filter_map(|unit| accept(&mut receive, unit).unwrap()));
        assert!(others.starts_with(&self.other_sent[..others.len()]), "the other channel was disturbed");
        assert!(others.len() + 1 >= self.other_sent.len(), "the other channel was disturbed");
        came
    }
}

/// The effect of one fault on the order of arrival.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Lose,
    Corrupt,
    Duplicate(usize),
    Delay(usize),
}

const FAULTS: [Fault; 6] =
    [Fault::Lose, Fault::Corrupt, Fault::Duplicate(0), Fault::Duplicate(3), Fault::Delay(1), Fault::Delay(3)];

fn strike(arrivals: &mut Vec<(usize, bool)>, fault: Fault, unit: usize) {
    let Some(at) = arrivals.iter().position(|(index, _)| *index == unit) else { return };
    let behind = |arrivals: &Vec<_>, by: usize| (at + by).min(arrivals.len());
    match fault {
        Fault::Lose => drop(arrivals.remove(at)),
        Fault::Corrupt => arrivals[at].1 = true,
        Fault::Duplicate(by) => {
            let to = behind(arrivals, by + 1);
            arrivals.insert(to, arrivals[at]);
        }
        Fault::Delay(by) => {
            let moved = arrivals.remove(at);
            let to = behind(arrivals, by);
            arrivals.insert(to, moved);
        }
    }
}

#[test]
fn quiet_wire_delivers_every_frame_once() {
    for pieces in 2..=7 {
        for marks in MARKS {
            let traffic = Traffic::new(pieces, marks);
            let arrivals: Vec<_> = (0..traffic.units.len()).map(|unit| (unit, false)).collect();
            let came = traffic.run(marks, 0, &arrivals);
            assert!((0..traffic.sent.len()).all(|frame| came.get(&frame) == Some(&1)), "{came:?}");
        }
    }
}

#[test]
fn faults_give_sent_frames_or_nothing() {
    for pieces in 2..=7 {
        for marks in MARKS {
            let traffic = Traffic::new(pieces, marks);
            let quiet: Vec<_> = (0..traffic.units.len()).map(|unit| (unit, false)).collect();
            // The middle of the traffic, with whole frames before and after it.
            let struck = 0..(3 * pieces + 3).min(quiet.len());
            for (first, one) in struck.clone().flat_map(|unit| FAULTS.map(|fault| (unit, fault))) {
                for (second, two) in struck.clone().flat_map(|unit| FAULTS.map(|fault| (unit, fault))) {
                    if second < first || (pieces > 4 && second > first + 2 * pieces) {
                        continue;
                    }
                    let mut arrivals = quiet.clone();
                    strike(&mut arrivals, one, first);
                    strike(&mut arrivals, two, second);
                    for window in [0, 64] {
                        let came = traffic.run(marks, window, &arrivals);
                        let twice = came.values().any(|count| *count > 1);
                        assert!(!twice, "{one:?} at {first}, {two:?} at {second}: {came:?}");
                        let far = struck.end + 5;
                        let clean =
                            traffic.units.iter().enumerate().filter(|(unit, u)| u.first && *unit > far);
                        for (_, unit) in clean {
                            assert!(
                                came.contains_key(&unit.frame),
                                "{one:?} at {first}, {two:?} at {second}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn loss_costs_only_ambiguous_frames() {
    for pieces in 2..=7 {
        for marks in MARKS {
            let traffic = Traffic::new(pieces, marks);
            for lost in 0..traffic.units.len() {
                let arrivals: Vec<_> =
                    (0..traffic.units.len()).filter(|unit| *unit != lost).map(|unit| (unit, false)).collect();
                let came = traffic.run(marks, 0, &arrivals);
                let mut missing = vec![traffic.units[lost].frame];
                // Without CF the receiver resumes after the first piece without MF, or at a frame
                // too short to be a piece.
                let next = traffic.units.get(lost + 1);
                if let (Marks::More, Some(next)) = (marks, next)
                    && !next.short
                    && !missing.contains(&next.frame)
                {
                    missing.push(next.frame);
                }
                let expected: Vec<_> =
                    (0..traffic.sent.len()).filter(|frame| !missing.contains(frame)).collect();
                assert!(came.keys().eq(expected.iter()), "{pieces} {marks:?} without {lost}: {came:?}");
            }
        }
    }
}

#[test]
fn all_fragments_but_the_last_have_mf() {
    for marks in MARKS {
        let mut transmit = sender(SCI);
        let tagged: Vec<u8> = {
            let plain = numbered(1, 996);
            let tag = [0x81, 0x00, 0xc0, 0x05];
            plain[..12].iter().chain(&tag).chain(&plain[12..]).copied().collect()
        };
        let pieces = split(&mut transmit, &tagged, marks);
        assert_eq!(pieces.len(), 5);
        for (index, piece) in pieces.iter().enumerate() {
            let more = if index < 4 { 0x80 } else { 0 };
            let continued = if index > 0 && marks == Marks::Both { 0x40 } else { 0 };
            assert_eq!(piece[..14], [&tagged[..12], &[0x88, 0xe5]].concat());
            assert_eq!(piece[15], more | continued);
            assert_eq!(piece[16..20], [0, 0, 0, 1 + index as u8]);
            assert_eq!(piece.len(), 14 + 16 + 16 + 200);
        }
        let mut receive = receiver(marks, 0);
        let came: Vec<_> = pieces.iter().filter_map(|piece| accept(&mut receive, piece).unwrap()).collect();
        assert_eq!(came, [tagged], "the VLAN tag is kept");
        assert_eq!(transmit.counters().out_frames_fragmented, 1);
        assert_eq!(transmit.counters().out_fragments, 5);
        assert_eq!((receive.fragments().taken, receive.fragments().reassembled), (5, 1));
    }
}

#[test]
fn unagreed_fragment_is_a_bad_tag() {
    let pieces = split(&mut sender(SCI), &numbered(1, 300), Marks::More);
    let mut receive = receive(ReceiveConfig::new(SUITE));
    assert_eq!(accept(&mut receive, &pieces[0]), Err(Discard::BadTag(SecTagError::ReservedBits)));
    let mut agreed = receiver(Marks::More, 0);
    assert_eq!(validate(&mut agreed, &pieces[0]), Err(Discard::BadTag(SecTagError::ReservedBits)));
    assert!(agreed.set_fragments(SCI, None, Limits::default()));
    assert_eq!(accept(&mut agreed, &pieces[0]), Err(Discard::BadTag(SecTagError::ReservedBits)));
    // CF was not agreed.
    let marked = split(&mut sender(OTHER), &numbered(1, 300), Marks::Both);
    assert_eq!(accept(&mut agreed, &marked[0]), Ok(None));
    assert_eq!(accept(&mut agreed, &marked[1]), Err(Discard::BadTag(SecTagError::ReservedBits)));
}

#[test]
fn icv_detects_a_flipped_flag() {
    for bit in [0x80, 0x40] {
        let mut pieces = split(&mut sender(SCI), &numbered(1, 300), Marks::Both);
        pieces[0][15] ^= bit;
        let mut receive = receiver(Marks::Both, 0);
        assert_eq!(accept(&mut receive, &pieces[0]), Err(Discard::NotValid));
        assert_eq!(accept(&mut receive, &pieces[1]), Err(Discard::Fragment(Dropped::NoFirst)));
    }
}

#[test]
fn each_refusal_reason_is_counted() {
    let limits = Limits { frame: 1000, pieces: 4, deadline: 50 };
    let refused = |marks, pieces: &[(u64, Vec<u8>)]| {
        let mut receive = receiver(marks, 0);
        receive.set_fragments(SCI, None, limits);
        receive.set_fragments(SCI, Some(marks), limits);
        let results: Vec<_> =
            pieces.iter().map(|(now, piece)| accept_at(&mut receive, *now, piece)).collect();
        assert!(results.iter().all(|result| !matches!(result, Ok(Some(_)))));
        Dropped::ALL.into_iter().filter(|why| receive.fragments().refused(*why) > 0).collect::<Vec<_>>()
    };
    // Hand-made pieces: one frame per piece, with flags.
    let by_hand = |marks: Marks, pieces: &[(u64, bool, Vec<u8>)]| {
        let mut transmit = sender(SCI);
        let mut made = Vec::new();
        for (index, (now, more, frame)) in pieces.iter().enumerate() {
            let (addresses, data) = frame.split_first_chunk().unwrap();
            let continued = if index > 0 && marks == Marks::Both { 0x40 } else { 0 };
            let mut out = vec![0; 2000];
            let flags = if *more { 0x80 } else { 0 } | continued;
            let len = transmit.protect_piece_for_tests(addresses, data, flags, &mut out).unwrap();
            made.push((*now, out[..len].to_vec()));
        }
        refused(marks, &made)
    };
    let piece = || numbered(1, 100);
    for marks in MARKS {
        let mut elsewhere = piece();
        elsewhere[0] ^= 4;
        let mut otherwise = piece();
        otherwise[13] ^= 1;
        assert_eq!(by_hand(marks, &[(0, true, piece()), (0, false, elsewhere)]), [Dropped::OtherAddresses]);
        assert_eq!(by_hand(marks, &[(0, true, piece()), (0, false, otherwise)]), [Dropped::OtherEtherType]);
        let five: Vec<_> = (0..5).map(|i| (0, i < 4, piece())).collect();
        assert_eq!(by_hand(marks, &five), [Dropped::TooMany]);
        let long: Vec<_> = (0..2).map(|i| (0, i < 1, numbered(1, 600))).collect();
        assert_eq!(by_hand(marks, &long), [Dropped::TooLong]);
        assert_eq!(by_hand(marks, &[(0, true, numbered(1, 47))]), [Dropped::TooShort]);
        let late = by_hand(marks, &[(0, true, piece()), (50, false, piece())]);
        assert_eq!(late, [Dropped::TimedOut, Dropped::NoFirst]);
        let all = split(&mut sender(SCI), &numbered(1, 600), marks);
        let gap = refused(marks, &[(0, all[0].clone()), (0, all[2].clone())]);
        let rest = if marks == Marks::Both { Dropped::NoFirst } else { Dropped::Unplaced };
        assert_eq!(gap, [Dropped::Gap, rest]);
    }
    let mut transmit = sender(SCI);
    let mut twice = Vec::new();
    for _ in 0..2 {
        twice.push((0, split(&mut transmit, &numbered(1, 300), Marks::Both).remove(0)));
    }
    assert_eq!(refused(Marks::Both, &twice), [Dropped::Gap], "number 2 is missing");
}

#[test]
fn first_fragment_flood_harms_no_other_peer() {
    for marks in MARKS {
        let (mut transmit, mut flooder) = (sender(SCI), sender(OTHER));
        let mut receive = receiver(marks, 0);
        let (addresses, data) = ([3; 12], [0x88; 150]);
        for number in 0..300u16 {
            let frame = numbered(number as u8, 500);
            let mut came = None;
            for piece in split(&mut transmit, &frame, marks) {
                for _ in 0..3 {
                    let mut out = vec![0; 400];
                    let len = flooder.protect_piece_for_tests(&addresses, &data, 0x80, &mut out).unwrap();
                    let result = accept(&mut receive, &out[..len]);
                    assert!(!matches!(result, Ok(Some(_))), "nothing of it is a frame");
                }
                came = accept(&mut receive, &piece).unwrap();
            }
            assert_eq!(came, Some(frame), "{marks:?} {number}");
        }
        assert_eq!(receive.fragments().reassembled, 300);
    }
}

#[test]
fn association_switch_splits_no_frame() {
    for marks in MARKS {
        let (mut transmit, mut receive) = (sender(SCI), receiver(marks, 0));
        transmit.install(A1, &sak(SUITE, 1), 1, u64::MAX).unwrap();
        receive.install(SCI, A1, &sak(SUITE, 1), 1).unwrap();
        for number in 0..20 {
            transmit.set_encoding_sa(if number % 2 == 0 { A0 } else { A1 }).unwrap();
            let frame = numbered(number, 450);
            let pieces = split(&mut transmit, &frame, marks);
            let came: Vec<_> =
                pieces.iter().filter_map(|piece| accept(&mut receive, piece).unwrap()).collect();
            assert_eq!(came, [frame]);
        }
        // Half a frame, then another key under the same number: the half is dropped.
        let half = split(&mut transmit, &numbered(99, 450), marks).remove(0);
        assert_eq!(accept(&mut receive, &half), Ok(None));
        transmit.remove(A1);
        transmit.install(A1, &sak(SUITE, 2), 1, u64::MAX).unwrap();
        transmit.set_encoding_sa(A1).unwrap();
        receive.install(SCI, A1, &sak(SUITE, 2), 1).unwrap();
        let frame = numbered(100, 450);
        let pieces = split(&mut transmit, &frame, marks);
        let came: Vec<_> = pieces.iter().filter_map(|piece| accept(&mut receive, piece).unwrap()).collect();
        assert_eq!(came, [frame]);
    }
}

#[test]
fn overlong_output_is_wiped() {
    let mut receive = receiver(Marks::Both, 0);
    let frame = numbered(1, 300);
    let mut pieces = split(&mut sender(SCI), &frame, Marks::Both);
    // Enough for a piece, but not for the frame.
    let mut out = vec![0; 14 + 200];
    assert_eq!(receive.accept(|| 0, &mut pieces[0], &mut out), Ok(None));
    assert_eq!(receive.accept(|| 0, &mut pieces[1], &mut out), Err(Discard::OutputTooSmall));
    assert!(out.iter().all(|octet| *octet == 0), "{out:02x?}");
    let shown = |octets: &[u8]| pieces[1].windows(octets.len()).any(|window| window == octets);
    assert!(!frame[14..].windows(8).any(shown), "{:02x?}", pieces[1]);
    assert_eq!(receive.counters().in_discarded_too_long, 1);
}

#[test]
fn frame_is_split_wholly_or_not_at_all() {
    let mut transmit = Transmit::new(TransmitConfig { prepare: 0, ..transmit_config(SUITE) }).unwrap();
    transmit.install(A0, &sak(SUITE, 0), 1, 4).unwrap();
    let mut out = vec![0; 4000];
    let frame = numbered(1, 800);
    let mut sent = 0;
    let result = transmit.protect_split(&frame, LONGEST, Marks::More, &mut out, |_| sent += 1);
    assert_eq!((result, sent), (Err(ProtectError::NotReserved), 0));
    assert_eq!(transmit.encoding(), Some((A0, 1)), "it cost no packet number");
    transmit.reserve_until(A0, 5);
    let result = transmit.protect_split(&frame, LONGEST, Marks::More, &mut out, |_| sent += 1);
    assert_eq!((result, sent), (Ok(4), 4));
    let long = numbered(1, 9_100);
    let result = transmit.protect_split(&long, LONGEST, Marks::More, &mut out, |_| sent += 1);
    assert_eq!((result, sent), (Err(ProtectError::Unsplittable), 4));
    assert_eq!(transmit.counters().out_pkts_too_long, 1);
}

#[test]
fn longest_frame_crosses_shortest_wire() {
    let (mut transmit, mut receive) = (sender(SCI), receiver(Marks::More, 0));
    let frame = numbered(5, 9_018 - 14);
    let (mut out, mut came) = (vec![0; 10_000], Vec::new());
    let count = transmit.protect_split(&frame, 128 + 14, Marks::More, &mut out, |piece| {
        assert!((60..=142).contains(&piece.len()));
        came.extend(accept(&mut receive, piece).unwrap());
    });
    assert_eq!((count, came), (Ok(94), vec![frame]));
}
