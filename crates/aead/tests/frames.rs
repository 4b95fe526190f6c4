//! Frames prepared up to any first new byte equal those of AES-CCM, sealed and opened.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use antedate_aead::{CcmStar32, CcmStar64, CcmStar128, FrameError, FrameSlot, Key, Nonce, Shape};
use proptest::prelude::*;

const NONCE: [u8; 13] = *b"thirteen byte";

fn reference(mic: usize, open: usize, plain: &[u8]) -> Vec<u8> {
    let (aad, payload) = plain.split_at(open);
    let mut out = plain.to_vec();
    let key = [7; 16];
    macro_rules! seal {
        ($suite:ty) => {
            Key::<$suite>::new(&key)
                .unwrap()
                .seal(Nonce::assume_unique(NONCE), aad, payload, &mut out[open..])
                .as_bytes()
                .to_vec()
        };
    }
    let tag = match mic {
        4 => seal!(CcmStar32),
        8 => seal!(CcmStar64),
        _ => seal!(CcmStar128),
    };
    out.extend(tag);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn any_preparation_gives_standard_frame(
        plain in prop::collection::vec(any::<u8>(), 1..120),
        open in any::<prop::sample::Index>(), all_open: bool, known in any::<prop::sample::Index>(),
        mic in prop::sample::select(&[4usize, 8, 16][..]), steps in 0u32..40,
        others in prop::collection::vec(0usize..120, 0..3), at in any::<prop::sample::Index>(), late: bool, complete: bool,
    ) {
        let key = Key::<CcmStar32>::new(&[7; 16]).unwrap();
        let len = plain.len();
        let open = if all_open { None } else { Some(1 + open.index(len)) };
        let known = known.index(len + 1);
        let mut lengths: Vec<usize> = others.into_iter().filter(|n| *n >= known.max(open.unwrap_or(1)) && *n != len).collect();
        lengths.dedup();
        if !late {
            lengths.insert(at.index(lengths.len() + 1), len);
        }
        let mut slot = FrameSlot::<144, 128, 4>::new();
        let mut out = [0; 144];
        let expected = reference(mic, open.unwrap_or(len), &plain);
        slot.begin(Nonce::assume_unique(NONCE), &Shape { mic, open, known: &plain[..known], lengths: &lengths }).unwrap();
        prop_assert!(slot.step(&key, steps) <= steps);
        if complete {
            slot.complete(&key);
        }
        let written = slot.seal(&key, &plain[known..], &mut out).unwrap();
        prop_assert_eq!(&out[..written], &expected[..]);
        prop_assert_eq!(slot.frame(), &expected[..]);
        prop_assert!(slot.is_empty());
        prop_assert_eq!(slot.seal(&key, &plain[known..], &mut out), Err(FrameError::Spent));

        // Opening, with a prediction of the open part that may be wrong.
        let known = known.min(open.unwrap_or(len));
        let mut predicted = plain[..known].to_vec();
        if late && let Some(byte) = predicted.last_mut() {
            *byte ^= 1;
        }
        slot.begin(Nonce::assume_unique(NONCE), &Shape { mic, open, known: &predicted, lengths: &lengths }).unwrap();
        slot.step(&key, steps);
        let (frame, tag) = expected.split_at(len);
        let mut plain_again = vec![0xaa; len];
        for place in [0, len / 2, len - 1] {
            let mut forged = frame.to_vec();
            forged[place] ^= 4;
            prop_assert!(slot.open(&key, &forged, tag, &mut plain_again).is_err());
            prop_assert!(plain_again.iter().all(|byte| *byte == 0));
        }
        prop_assert!(slot.open(&key, frame, &tag[..tag.len() - 1], &mut plain_again).is_err());
        prop_assert!(slot.open(&key, frame, tag, &mut plain_again).is_ok());
        prop_assert_eq!(plain_again, plain);
        prop_assert!(slot.is_empty());
    }
}

#[test]
fn impossible_shapes_cost_no_nonce() {
    let mut slot = FrameSlot::<64, 32, 1>::new();
    let mut begin = |mic, open, known: &[u8], lengths: &[usize]| {
        slot.begin(Nonce::assume_unique(NONCE), &Shape { mic, open, known, lengths })
    };
    assert_eq!(begin(5, None, b"abc", &[10]), Err(FrameError::Shape));
    assert_eq!(begin(4, Some(0), b"abc", &[10]), Err(FrameError::Shape));
    assert_eq!(begin(4, None, b"abc", &[2]), Err(FrameError::Shape));
    assert_eq!(begin(4, Some(8), b"abc", &[7]), Err(FrameError::Shape));
    // These would be confused with "all of it" and with 1.
    assert_eq!(begin(4, Some(65_535), b"abc", &[]), Err(FrameError::Shape));
    assert_eq!(begin(4, Some(65_537), b"abc", &[]), Err(FrameError::Shape));
    assert_eq!(begin(4, None, b"abc", &[10, 11]), Err(FrameError::Shape));
    assert_eq!(begin(4, None, &[0; 65], &[65]), Err(FrameError::TooLong));
    assert_eq!(begin(4, None, b"abc", &[65_536]), Err(FrameError::TooLong));
    assert_eq!(begin(4, Some(3), b"abc", &[36]), Err(FrameError::TooLong));
    assert_eq!(begin(4, Some(3), b"abc", &[35]), Ok(()));
}

#[test]
fn slot_foresees_what_it_prepared() {
    let key = Key::<CcmStar32>::new(&[7; 16]).unwrap();
    // Shorter than the frames to open.
    let mut slot = FrameSlot::<8, 32, 2>::new();
    let lengths = [20, 30];
    slot.begin(
        Nonce::assume_unique(NONCE),
        &Shape { mic: 4, open: Some(8), known: b"a header", lengths: &lengths },
    )
    .unwrap();
    let frame = |len: usize| [&b"a header"[..], &vec![9; len - 8]].concat();
    assert!(!slot.foresees(&frame(20)), "nothing is prepared");
    while slot.step(&key, 1) > 0 {}
    assert!(slot.foresees(&frame(20)) && slot.foresees(&frame(30)));
    assert!(!slot.foresees(&frame(25)) && !slot.foresees(b"another header, 20 b") && !slot.foresees(b""));
    for len in [25, 30] {
        let (mut sealed, mut plain) = (frame(len), vec![0; len]);
        let (open, private) = sealed.split_at_mut(8);
        let tag = key.seal_in_place(Nonce::assume_unique(NONCE), open, private);
        let mut slot_now = FrameSlot::<8, 32, 2>::new();
        let shape = Shape { mic: 4, open: Some(8), known: b"a header", lengths: &lengths };
        slot_now.begin(Nonce::assume_unique(NONCE), &shape).unwrap();
        while slot_now.step(&key, 1) > 0 {}
        assert!(slot_now.open(&key, &sealed, tag.as_bytes(), &mut plain).is_ok());
        assert_eq!(plain, frame(len));
        // It is too long to seal.
        slot_now.begin(Nonce::assume_unique(NONCE), &shape).unwrap();
        assert_eq!(slot_now.seal(&key, &plain[8..], &mut [0; 80]), Err(FrameError::TooLong));
    }
}

#[test]
fn one_key_makes_tags_of_all_lengths() {
    let key = Key::<CcmStar128>::new(&[7; 16]).unwrap();
    let nonce = || Nonce::assume_unique(NONCE);
    let (mut one, mut other, mut plain) = (*b"some payload", *b"some payload", [0; 12]);
    let tag = key.seal_in_place_with::<4>(nonce(), b"header", &mut one);
    let expected = Key::<CcmStar32>::new(&[7; 16]).unwrap().seal_in_place(nonce(), b"header", &mut other);
    assert_eq!((one, tag.as_bytes()), (other, expected.as_bytes()));
    assert!(key.open_with::<4>(NONCE, b"header", &one, &mut plain, tag.as_bytes()).is_ok());
    assert_eq!(&plain, b"some payload");
    let wrong = tag.as_bytes().map(|byte| byte ^ 1);
    assert!(key.open_with::<4>(NONCE, b"header", &one, &mut plain, &wrong).is_err());
    assert_eq!(plain, [0; 12]);
}

#[test]
fn steps_count_possible_encryptions() {
    let key = Key::<CcmStar32>::new(&[7; 16]).unwrap();
    let mut slot = FrameSlot::<128, 112, 1>::new();
    let mut steps = |open, known: &[u8], len| {
        slot.begin(Nonce::assume_unique(NONCE), &Shape { mic: 4, open, known, lengths: &[len] }).unwrap();
        (0..).take_while(|_| slot.step(&key, 1) > 0).count()
    };
    // A header of 31 bytes, then 90 encrypted: S0, B0, two of the header's three blocks (the last
    // waits for more bytes), and six of key stream.
    assert_eq!(steps(Some(31), &[1; 31], 121), 1 + 1 + 2 + 6);
    // All is known: the whole chain except its last block, which `complete` does.
    assert_eq!(steps(Some(31), &[1; 121], 121), 1 + 1 + 3 + 5 + 6);
    // An acknowledgment, known except for the time correction.
    assert_eq!(steps(None, &[1; 22], 24), 1 + 1 + 1);
}
