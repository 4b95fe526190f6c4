//! Tests of every kind of key on this CPU against the portable one, and of every way to fill holes.
//! A CPU uses its best kernels, so the suites' tests see no others.

extern crate std;

use super::*;
use crate::{
    Aes128Gcm, Hole, Template,
    backend::{
        cpu::x86::{Affine, Masks},
        modes::gcm::Key as Portable,
    },
    holes::{Filling, Head, Joined, Reading},
};
use proptest::prelude::*;
use std::{vec, vec::Vec};

/// A key of each kind this CPU supports.
fn kinds<const R: usize>(round_keys: &RoundKeys) -> Vec<Key<R>> {
    let new = |kind| {
        let mut key = Key::<R>::new(round_keys, Backend::AesNi)?;
        // Each kind implies the ones before it.
        key.kind = kind;
        Some(key)
    };
    let mut keys: Vec<_> = new(Kind::Ni).into_iter().collect();
    if super::super::has_avx2_and_avx512f().0 {
        keys.extend(new(Kind::Avx));
    }
    keys.extend(Key::new(round_keys, Backend::Vaes).filter(|key| matches!(key.kind, Kind::Vaes)));
    for three in [false, true] {
        let wide = Key::new(round_keys, Backend::Avx512).filter(|key| matches!(key.kind, Kind::Avx512));
        keys.extend(wide.map(|mut key| {
            key.three = three;
            key
        }));
    }
    keys
}

fn same_packets<const R: usize>(key: &[u8], nonce: &[u8; 12], aad: &[u8], plain: &[u8]) {
    let round_keys = RoundKeys::expand(key);
    let mut sealed = plain.to_vec();
    let tag = Portable::new(&round_keys, Backend::Portable).seal(nonce, aad, Buffers::InPlace(&mut sealed));
    for key in kinds::<R>(&round_keys) {
        let mut apart = vec![0; plain.len()];
        assert_eq!(key.seal(nonce, aad, Buffers::Apart(plain, &mut apart)), tag);
        assert!(apart == sealed);
        let mut place = plain.to_vec();
        assert_eq!(key.seal(nonce, aad, Buffers::InPlace(&mut place)), tag);
        assert!(place == sealed);
        assert_eq!(key.open(nonce, aad, Buffers::InPlace(&mut place)), tag);
        assert!(place == plain);
        assert_eq!(key.open(nonce, aad, Buffers::Apart(&sealed, &mut apart)), tag);
        assert!(apart == plain);

        let mut stream = vec![0; plain.len().next_multiple_of(64)];
        key.stream(nonce, 0, &mut stream);
        let (mut mask, mut prepared) = (0, [0; 16]);
        key.mask(nonce, &mut mask);
        key.open_prepared(&mask, &stream, aad, Buffers::Apart(&sealed, &mut apart), &mut prepared);
        assert!(prepared == tag && apart == plain);
        let mut twice = stream.clone();
        let wiped =
            key.open_and_wipe(&mask, &mut twice, aad, Buffers::Apart(&sealed, &mut apart), &mut prepared);
        assert!(prepared == tag && apart == plain);
        assert!(if wiped { twice.iter().all(|byte| *byte == 0) } else { twice == stream });
        key.seal_prepared(&mask, &mut stream, aad, Buffers::InPlace(&mut place), &mut prepared);
        assert!(prepared == tag && place == sealed && stream.iter().all(|byte| *byte == 0));
        same_packet_in_one_piece(&key, nonce, aad, plain, &[&sealed[..], &tag].concat());
    }
}

/// Compares the same packet followed by its tag, with the in-place kernels. All of the key stream
/// is wiped, including the excess.
fn same_packet_in_one_piece<const R: usize>(
    key: &Key<R>,
    nonce: &[u8; 12],
    aad: &[u8],
    plain: &[u8],
    sealed: &[u8],
) {
    let there_is_one = matches!(key.kind, Kind::Vaes | Kind::Avx512)
        && aad.len() <= 32
        && plain.len().div_ceil(16) <= POWERS - 3;
    let mut mask = 0;
    key.mask(nonce, &mut mask);
    let mut fresh = vec![0; plain.len().next_multiple_of(64) + 64];
    key.stream(nonce, 0, &mut fresh);
    let wiped = |stream: &[u8]| stream.iter().all(|byte| *byte == 0);

    let (mut stream, mut packet) = (fresh.clone(), [plain, &[0; 16]].concat());
    assert_eq!(key.seal_in_one_piece(&mask, &mut stream, aad, &mut packet), there_is_one);
    assert!(if there_is_one { packet == sealed && wiped(&stream) } else { stream == fresh });

    let (mut stream, mut packet) = (fresh.clone(), sealed.to_vec());
    let opened = key.open_in_one_piece(&mask, &mut stream, aad, &mut packet);
    assert_eq!(opened, there_is_one.then_some(true));
    assert!(if there_is_one { packet.starts_with(plain) && wiped(&stream) } else { stream == fresh });

    let (mut stream, mut packet) = (fresh, sealed.to_vec());
    packet[plain.len() / 2] ^= 1;
    let forged = key.open_in_one_piece(&mask, &mut stream, aad, &mut packet);
    assert_eq!(forged, there_is_one.then_some(false));
}

/// A template's packet prepared in one step, with one way to fill holes.
fn prepared(holes: Holes, nonce: &[u8; 12], template: &Template<'_>) -> (u128, Vec<u128>, Vec<u8>) {
    let mut key =
        Key::<10>::new(&RoundKeys::expand(&[7; 16]), Backend::AesNi).expect("the CPU has what masks need");
    key.holes = holes;
    let mut head = Head::<Aes128Gcm, 8>::new();
    head.fit(template).expect("the pieces fit");
    let mut body = vec![0; template.payload().len()];
    let spots = &mut head.spots[..head.count as usize];
    key.prepare_whole(nonce, &mut head.sum, spots, template, &mut body);
    let weights = spots.iter().flat_map(|spot| [spot.weight.high, spot.weight.low]).collect();
    (head.sum.hash, weights, body)
}

/// Values, the pieces of their holes and the resulting packet, with one way to fill holes.
type Filled = (Vec<u8>, [u8; 16], Vec<u8>);

fn filled(holes: Holes, template: &Template<'_>, weights: &[u128], values: &[u8], body: &[u8]) -> Filled {
    let mut head = Head::<Aes128Gcm, 8>::new();
    head.fit(template).expect("the pieces fit");
    for (spot, pair) in head.spots.iter_mut().zip(weights.chunks(2)) {
        spot.weight = Power { high: pair[0], low: pair[1] };
    }
    head.sum.hash = weights[0] ^ 1;

    let mut opened = vec![0; body.len() - 16];
    let reading = Reading::new(&head, template.aad(), &body[16..], body, &mut opened).expect("it is as long");
    let read = holes.check(reading);

    let mut body = body.to_vec();
    holes.fill(Filling::new(&mut head, Joined(values), &mut body).expect("the values fit"));
    assert!(head.weighted().all(|(_, weight)| *weight == Power::default()) && head.sum.hash == 0);
    body.extend(head.tag);
    (body, read, opened)
}

#[test]
fn packets_of_every_length_match_portable() {
    let round_keys = [RoundKeys::expand(&[3; 16]), RoundKeys::expand(&[5; 32])];
    let portable = round_keys.each_ref().map(|keys| Portable::new(keys, Backend::Portable));
    for len in 0..(POWERS - 3) * 16 + 40 {
        let (aad, nonce) = (vec![7; len * 7 % 70], [len as u8; 12]);
        let plain: Vec<u8> = (0..len).map(|i| (i * 31 + len) as u8).collect();
        macro_rules! same {
            ($rounds:literal, $index:literal) => {
                let mut sealed = plain.clone();
                let tag = portable[$index].seal(&nonce, &aad, Buffers::InPlace(&mut sealed));
                let Some(key) = Key::<$rounds>::new(&round_keys[$index], Backend::Avx512) else { return };
                let mut out = vec![0xee; len + 2];
                let apart = Buffers::Apart(&plain, &mut out[1..][..len]);
                assert_eq!(key.seal(&nonce, &aad, apart), tag, "{len}");
                assert!(out[0] == 0xee && out[1..][..len] == sealed && out[len + 1] == 0xee, "{len}");
                assert_eq!(key.open(&nonce, &aad, Buffers::InPlace(&mut sealed)), tag, "{len}");
                assert!(sealed == plain, "{len}");
            };
        }
        same!(10, 0);
        same!(14, 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 40 } else { 400 }))]

    #[test]
    fn every_key_kind_matches_portable(
        key: [u8; 32],
        nonce: [u8; 12],
        aad in prop::collection::vec(any::<u8>(), 0..70),
        // Lengths across the kernels' chunks and more than one segment.
        len in prop_oneof![0usize..600, 600usize..2400, Just(192), Just(256), Just(1728), Just(4000)],
        seed: u8,
    ) {
        let plain: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect();
        same_packets::<10>(&key[..16], &nonce, &aad, &plain);
        same_packets::<14>(&key, &nonce, &aad, &plain);
    }

    #[test]
    fn every_hole_kernel_gives_same_packet(
        weights: [u128; 16],
        // Gap and length of each hole, alternating between associated data and payload.
        cuts in prop::collection::vec((0usize..20, 1usize..=16), 1..4),
        values: [u8; 64],
    ) {
        if Backend::detect() < Backend::AesNi {
            // A CPU without AES-NI has none of them.
            return Ok(());
        }
        let masked = Masks::new(Backend::AesNi).map(Holes::Masked);
        let affine = Affine::new(Backend::AesNi).map(Holes::Affine);
        let (aad, payload) = ([3; 128], [5; 128]);
        let mut at = 0;
        let mut holes = vec![];
        for (index, (gap, len)) in cuts.iter().enumerate() {
            at += gap;
            let range = at..at + len;
            holes.push(if index % 2 == 0 { Hole::Payload(range) } else { Hole::Aad(range) });
            at += len;
        }
        let template = Template::new(&aad, &payload, &holes).expect("the holes are in order");
        let values = &values[..cuts.iter().map(|(_, len)| len).sum()];
        let body: Vec<u8> = (0..144).map(|i| i as u8 ^ values[0]).collect();
        prop_assume!(template.pieces().count() <= 8);
        let nonce = &[values[0]; 12];
        let plain = filled(Holes::Ni(()), &template, &weights, values, &body);
        let prepared_plain = prepared(Holes::Ni(()), nonce, &template);
        for way in [masked, affine].into_iter().flatten() {
            prop_assert_eq!(&plain, &filled(way, &template, &weights, values, &body));
            prop_assert_eq!(&prepared_plain, &prepared(way, nonce, &template));
        }
    }
}
