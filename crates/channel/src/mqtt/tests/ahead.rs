//! The short path for the last senders, prepared or not, gives the same results as the ordinary
//! one.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::setup::{SECRET, group, publisher, sealed};
use crate::mqtt::{Algorithm, Dropped};

/// A message with the CBOR tag before it is always parsed item by item.
fn tagged(message: &[u8]) -> Vec<u8> {
    [&[0xd0], message].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Publishers and topics in any order, with replays, gaps and changed bytes, numbers that grow
    /// by a byte, and partial preparation.
    #[test]
    fn short_and_ordinary_paths_agree(
        algorithm in 0..Algorithm::ALL.len(),
        steps in prop::collection::vec((0..3usize, 0..4usize, 0..200usize, 0..12u8, 0..40u32), 1..400),
    ) {
        let algorithm = Algorithm::ALL[algorithm];
        let (mut short, mut long) = (group(algorithm), group(algorithm));
        let mut publishers = [b"a", b"b", b"c"].map(|name| publisher(&short, name));
        let topics = ["plant/a", "plant/b", "plant/bb", "plant/c/d"];
        let mut sent: Vec<(usize, Vec<u8>)> = Vec::new();
        for (who, at, len, what, budget) in steps {
            let (mut topic, mut message) = (at, sealed(&mut publishers[who], topics[at], &vec![what; len]));
            match what {
                // It is lost.
                0 => continue,
                // An older one is replayed.
                1 if !sent.is_empty() => (topic, message) = sent[len % sent.len()].clone(),
                // A byte is changed.
                2 => { let place = len % message.len(); message[place] ^= 1 << (at % 8); }
                // It is truncated or extended.
                3 => { message.pop(); }
                4 => message.push(0),
                // It is sent on another topic.
                5 => topic = (topic + 1) % 4,
                _ => sent.push((topic, message.clone())),
            }
            let (mut a, mut b) = (Vec::new(), Vec::new());
            let by_short = short.open(topics[topic], &message, &mut a);
            prop_assert_eq!(&by_short, &long.open(topics[topic], &tagged(&message), &mut b));
            prop_assert_eq!(a, b);
            short.idle(budget);
        }
    }
}

#[test]
fn epoch_state_ends_with_the_epoch() {
    let mut group = group(Algorithm::A128Gcm);
    let mut old = publisher(&group, b"a");
    let mut out = Vec::new();
    group.open("t", &sealed(&mut old, "t", b"1"), &mut out).expect("genuine");
    group.install(2, &SECRET);
    group.open("t", &sealed(&mut old, "t", b"2"), &mut out).expect("both epochs are read");
    group.retire_before(2);
    let refused = group.open("t", &sealed(&mut old, "t", b"3"), &mut out);
    assert_eq!(refused, Err(Dropped::OldEpoch { epoch: 1, newest: 2 }));
}

#[test]
fn revoked_publisher_is_refused_at_once() {
    let mut group = group(Algorithm::A128Gcm);
    let mut a = publisher(&group, b"a");
    let mut out = Vec::new();
    group.open("t", &sealed(&mut a, "t", b"1"), &mut out).expect("genuine");
    group.allow([b"b".to_vec()]);
    let refused = group.open("t", &sealed(&mut a, "t", b"2"), &mut out);
    assert_eq!(refused, Err(Dropped::NotPublisher { publisher: "a".into() }));
}

#[test]
fn idle_prepares_like_the_last_message() {
    let mut group = group(Algorithm::ChaCha20Poly1305);
    let mut a = publisher(&group, b"a");
    let mut out = Vec::new();
    assert_eq!(group.idle(u32::MAX), 0, "nobody is known");
    group.open("t", &sealed(&mut a, "t", &[7; 100]), &mut out).expect("genuine");
    assert_eq!(group.idle(1), 1);
    assert!((1..8).contains(&group.idle(u32::MAX)));
    assert_eq!(group.idle(u32::MAX), 0);
    group.open("t", &sealed(&mut a, "t", &[8; 100]), &mut out).expect("genuine");
    assert_eq!(out, [8; 100]);
    assert!(group.idle(u32::MAX) > 0, "the next one");
}
