//! Cutting is the oracle: joined and cut again, the frames must be the original ones.

use proptest::prelude::*;

use super::*;
use crate::frames::offload::{finish as cut, scratch};
use crate::sys::packet::Received;

/// A TCP frame with right checksums.
fn frame(v6: bool, sequence: u32, identification: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let tcp = 32 + payload.len();
    if v6 {
        f.extend([0x86, 0xdd, 0x60, 1, 2, 3]);
        f.extend((tcp as u16).to_be_bytes());
        f.extend([6, 64]);
        f.extend(1..33);
    } else {
        f.extend([0x08, 0x00, 0x45, 0]);
        f.extend((20 + tcp as u16).to_be_bytes());
        f.extend(identification.to_be_bytes());
        f.extend([0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = Sum::of(&f[14..34]).checksum();
        f[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    let t = f.len();
    f.extend([0x30, 0x39, 0x00, 0x50]);
    f.extend(sequence.to_be_bytes());
    f.extend([0, 0, 0, 1, 0x80, flags, 1, 0, 0, 0, 0, 0]);
    // Options: two NOPs and timestamps.
    f.extend([1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9]);
    f.extend(payload);
    mend(&mut f, v6, t);
    f
}

/// Corrects the TCP checksum.
fn mend(f: &mut [u8], v6: bool, t: usize) {
    f[t + 16..t + 18].fill(0);
    let sum = pseudo(f, v6, f.len() - t).and(Sum::of(&f[t..])).checksum();
    f[t + 16..t + 18].copy_from_slice(&sum.to_be_bytes());
}

/// Consecutive segments of these lengths.
fn run(v6: bool, lens: &[usize]) -> Vec<Vec<u8>> {
    let (mut sequence, mut id) = (0xffff_f000u32, 0xfffeu16);
    let octets: Vec<u8> = (0..4000u32).map(|i| (i * 7) as u8).collect();
    let segment = |len: &usize| {
        let f = frame(v6, sequence, id, ACK, &octets[..*len]);
        (sequence, id) = (sequence.wrapping_add(*len as u32), id.wrapping_add(1));
        f
    };
    lens.iter().map(segment).collect()
}

/// Adds all frames, and returns the joiner's output, each cut again: the number of segments, and
/// the frames.
fn through(joiner: &mut Joiner, frames: &[Vec<u8>]) -> Vec<(usize, Vec<Vec<u8>>)> {
    fn give(joiner: &mut Joiner, out: &mut Vec<(usize, Vec<Vec<u8>>)>) {
        let Some(Joined { frame, count, offload, headers }) = joiner.take() else { return };
        assert!(headers <= frame.len());
        let mut frames = Vec::new();
        let mut scratch = scratch(headers, offload);
        cut(Received::alone(frame, offload), &mut scratch, |f| frames.push(f.frame().to_vec())).unwrap();
        assert_eq!(frames.len(), count);
        out.push((count, frames));
    }
    let mut out = Vec::new();
    for frame in frames {
        if joiner.add(frame) {
            continue;
        }
        give(joiner, &mut out);
        if !joiner.add(frame) {
            out.push((0, vec![frame.clone()]));
        }
    }
    give(joiner, &mut out);
    out
}

fn counts(frames: &[Vec<u8>]) -> Vec<usize> {
    through(&mut Joiner::new(), frames).iter().map(|(count, _)| *count).collect()
}

const T4: usize = 34;

#[test]
fn segments_become_one_super_frame() {
    for v6 in [false, true] {
        let frames = run(v6, &[1400, 1400, 1400, 900]);
        let mut joiner = Joiner::new();
        assert!(frames.iter().all(|f| joiner.add(f)));
        let joined = joiner.take().unwrap();
        assert_eq!(joined.count, 4);
        assert_eq!(joined.frame.len(), frames[0].len() + 1400 + 1400 + 900);
        assert_eq!(joined.offload.segment_bytes, 1400);
        assert!(joined.offload.needs_checksum);
        if !v6 {
            assert!(Sum::of(&joined.frame[14..34]).is_consistent());
        }
        assert!(joiner.take().is_none(), "it is given out once");
    }
}

#[test]
fn short_or_pushed_segment_is_last() {
    assert_eq!(counts(&run(false, &[1400, 900, 900])), [2, 1], "a shorter one");
    assert_eq!(counts(&run(false, &[900, 1400, 1400])), [1, 2], "a longer one begins anew");
    let mut pushed = run(true, &[1400, 1400, 1400]);
    pushed[1][54 + 13] |= PSH;
    mend(&mut pushed[1], true, 54);
    assert_eq!(counts(&pushed), [2, 1]);
    // 47 times 1400 octets and the headers exceed the longest IP packet.
    assert_eq!(counts(&run(false, &[1400; 50])), [46, 4]);
}

#[test]
fn different_headers_are_not_joined() {
    let other = |at: usize, flip: u8| {
        let mut frames = run(false, &[1400, 1400]);
        frames[1][at] ^= flip;
        frames[1][24..26].fill(0);
        let sum = Sum::of(&frames[1][14..34]).checksum();
        frames[1][24..26].copy_from_slice(&sum.to_be_bytes());
        mend(&mut frames[1], false, T4);
        counts(&frames)
    };
    let fields = [
        (0, "destination"),
        (15, "class"),
        (19, "identification"),
        (20, "do not fragment"),
        (22, "time to live"),
        (26, "source"),
        (T4, "source port"),
        (T4 + 7, "sequence number"),
        (T4 + 11, "acknowledgement"),
        (T4 + 15, "window"),
        (T4 + 19, "urgent pointer"),
        (T4 + 27, "timestamp"),
    ];
    for (at, field) in fields {
        let flip = if at == 20 { 0x40 } else { 1 };
        assert_eq!(other(at, flip), [1, 1], "{field}");
    }
    for flag in [0x01, 0x02, 0x04, 0x20, 0x40, 0x80] {
        assert_eq!(other(T4 + 13, flag), [1, 0], "flag {flag:#x} is never joined");
    }
    assert_eq!(other(23, 6 ^ 17), [1, 0], "not TCP");
    assert_eq!(other(20, 0x20), [1, 0], "a fragment");
    assert_eq!(other(14, 0x03), [1, 0], "IPv4 options");
}

#[test]
fn wrong_checksum_is_not_joined() {
    for at in [25, T4 + 17, T4 + 40] {
        let mut frames = run(false, &[1400, 1400, 1400]);
        frames[1][at] ^= 1;
        let out = through(&mut Joiner::new(), &frames);
        let damaged: Vec<_> = out.iter().filter(|(count, _)| *count == 0).map(|(_, f)| &f[0]).collect();
        assert_eq!(damaged, [&frames[1]], "it passes as it came, alone");
    }
}

#[test]
fn short_and_padded_frames_are_left() {
    assert_eq!(counts(&run(false, &[0, 100, 255])), [0, 0, 0]);
    let mut padded = run(false, &[1400, 1400]);
    padded[1].push(0);
    assert_eq!(counts(&padded), [1, 0]);
    assert!(!Joiner::new().add(&[]));
    assert!(!Joiner::new().add(&[0; 14]));
}

proptest! {
    /// Joined and cut again, any frames are the original ones, in order.
    #[test]
    fn joining_preserves_every_frame(
        v6: bool,
        lens in prop::collection::vec(prop_oneof![Just(1400usize), Just(1000), 0..1500usize], 1..60),
        disturbed in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 0..6),
        repaired: bool,
    ) {
        let mut frames = run(v6, &lens);
        for (which, at, octet) in disturbed {
            let f = which.get(&frames).clone();
            let place = which.index(frames.len());
            let f = { let mut f = f; let i = at.index(f.len().min(80)); f[i] = octet; f };
            frames[place] = f;
            let t = if v6 { 54 } else { 34 };
            if repaired {
                mend(&mut frames[place], v6, t);
            }
        }
        // Zero and all ones are the same sum, and cutting writes only one of them.
        prop_assume!(frames.iter().all(|f| {
            let t = if v6 { 54 } else { 34 };
            f[t + 16..t + 18] != [0, 0]
        }));
        let out: Vec<_> = through(&mut Joiner::new(), &frames).into_iter().flat_map(|(_, f)| f).collect();
        prop_assert_eq!(out, frames);
    }

    #[test]
    fn arbitrary_octets_never_panic(octets in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..3) {
        let mut octets = octets;
        if octets.len() > 14 {
            octets[12..14].copy_from_slice(&[[0x08, 0x00], [0x86, 0xdd], [0, 0]][at]);
        }
        let mut joiner = Joiner::new();
        let _ = joiner.add(&octets) && joiner.add(&octets);
        let _ = joiner.take();
    }
}
