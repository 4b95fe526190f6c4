//! Pools of packets prepared for a front or a template, and the prediction of their lengths.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use crate::common::{Counter, bytes, key, nonce_of};
use antedate_aead::{
    Aes128Ccm8, Aes128Gcm, Backend, ChaCha20Poly1305, Front, FrontPool, Fronted, Hole, Key, Nonce, Predictor,
    Sparse, Suite, Template, TemplateError, TemplatePool, Usual,
};
use proptest::{collection::vec, prelude::*};

fn one_shot<S: Suite<NonceBytes = [u8; 12]>>(
    key: &Key<S>,
    number: u64,
    aad: &[u8],
    plain: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    let mut out = vec![0; plain.len()];
    let tag = key.seal(Nonce::assume_unique(nonce_of(number)), aad, plain, &mut out);
    (out, tag.as_bytes().as_ref().to_vec())
}

fn fronts<S: Fronted<NonceBytes = [u8; 12]>>() {
    let (aad, head) = (bytes(14, 1), bytes(37, 2));
    for backend in Backend::available() {
        let plain_key = key::<S>(1, backend);
        let front = Front::new(&aad, &head, &[]).unwrap();
        let mut pool = FrontPool::<S, _, 3, 256, 2>::new(key(1, backend), Counter(0, 400), front).unwrap();
        for round in 0..400usize {
            let rest =
                bytes([9, 9, 40, 9, 9, 40, 9, 200][round % 8] + usize::from(round % 50 == 0), round as u8);
            pool.idle((round % 23) as u32);
            let sealed = pool.seal(&rest).unwrap().unwrap();
            let expected = one_shot(&plain_key, round as u64, &aad, &[&head[..], &rest].concat());
            assert_eq!(sealed.number(), round as u64);
            assert_eq!(
                (sealed.ciphertext(), sealed.tag().as_bytes().as_ref()),
                (&expected.0[..], &expected.1[..])
            );
        }
        assert_eq!(pool.next().err(), Some("the counter is at its end"));
        assert_eq!(pool.idle(9), 0);
    }
}

#[test]
fn front_pool_matches_plain_cipher() {
    fronts::<Aes128Ccm8>();
}

#[test]
fn repeated_lengths_are_prepared() {
    let front = Front::new(b"aad", b"front", &[]).unwrap();
    let key = key::<Aes128Ccm8>(1, Backend::detect());
    let mut pool = FrontPool::<_, _, 1, 64, 1>::new(key, Counter(0, 99), front).unwrap();
    pool.idle(100);
    assert!(pool.seal(b"first").unwrap().is_ok());
    // S0, B0, the associated data and one unit of key stream.
    assert_eq!(pool.idle(100), 4);
    let mut packet = pool.next().unwrap();
    assert!(packet.is_ready() && packet.step(9) == 0);
    assert!(packet.seal(b"again").is_ok());
}

fn templates<S: Usual + Sparse>() {
    let (aad, payload) = (bytes(20, 1), bytes(100, 2));
    let holes = [Hole::Payload(40..44), Hole::Aad(3..5)];
    let template = Template::new(&aad, &payload, &holes).unwrap();
    for backend in Backend::available() {
        let plain_key = key::<S>(1, backend);
        let mut pool =
            TemplatePool::<S, _, 3, 128, 2>::new(key(1, backend), Counter(0, 60), template).unwrap();
        let small = TemplatePool::<S, _, 3, 64, 2>::new(key(1, backend), Counter(0, 60), template);
        assert_eq!(small.err(), Some(TemplateError::TooLong { len: 100, capacity: 64 }));
        for round in 0..60u8 {
            pool.idle(u32::from(round % 13));
            let packet = pool.next().unwrap();
            let (mut aad, mut plain) = (aad.clone(), payload.clone());
            plain[40..44].copy_from_slice(&[round; 4]);
            aad[3..5].copy_from_slice(&[1, round]);
            let sealed = packet.seal(&[&[round; 4], &[1, round]]).unwrap();
            let expected = one_shot(&plain_key, round.into(), &aad, &plain);
            assert_eq!(
                (sealed.number(), sealed.ciphertext()),
                (round.into(), &expected.0[..]),
                "{backend:?}"
            );
            assert_eq!(sealed.tag().as_bytes()[..], expected.1[..]);
        }
        assert!(pool.next().is_err());
    }
}

#[test]
fn template_pool_matches_plain_cipher() {
    templates::<Aes128Gcm>();
    templates::<ChaCha20Poly1305>();
}

#[test]
fn forgotten_handle_costs_only_its_nonce() {
    let front = Front::new(b"", b"", &[4]).unwrap();
    let key = key::<Aes128Ccm8>(1, Backend::detect());
    let mut pool = FrontPool::<_, _, 2, 64, 1>::new(key, Counter(5, 9), front).unwrap();
    pool.idle(100);
    core::mem::forget(pool.next().unwrap());
    drop(pool.next().unwrap());
    assert_eq!(pool.seal(b"rest").unwrap().unwrap().number(), 7);
}

#[test]
fn a_rhythm_is_learnt() {
    let mut predictor = Predictor::<16>::new();
    let mut lengths = [0; 3];
    assert_eq!((predictor.likely(&mut lengths), predictor.longest()), (0, 0));
    let rhythm = [10, 20, 20, 30];
    rhythm.iter().cycle().take(16).for_each(|&len| predictor.observe(len));
    for round in 0..20 {
        assert_eq!(predictor.likely(&mut lengths), 3);
        assert_eq!(lengths[0], rhythm[round % 4], "round {round}");
        predictor.observe(lengths[0]);
    }
    // Lengths no longer seen are forgotten.
    (0..16).for_each(|_| predictor.observe(5));
    assert_eq!((predictor.likely(&mut lengths), lengths[0], predictor.longest()), (1, 5, 5));
}

proptest! {
    #[test]
    fn predicted_lengths_differ_and_were_seen(past in vec(0usize..6, 0..40)) {
        let mut predictor = Predictor::<12>::new();
        past.iter().for_each(|&len| predictor.observe(len));
        let recent = &past[past.len().saturating_sub(12)..];
        let mut lengths = [usize::MAX; 8];
        let count = predictor.likely(&mut lengths);
        let mut distinct = recent.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let mut found = lengths[..count].to_vec();
        found.sort_unstable();
        prop_assert_eq!(found, distinct);
        prop_assert_eq!(predictor.longest(), recent.iter().copied().max().unwrap_or(0));
    }
}
