//! Guessed packets: whatever differs, the result is the plain cipher's.
#![allow(clippy::unwrap_used)]

mod common;

use antedate_aead::{
    Aes128Gcm, Aes256Gcm, Backend, ChaCha20Poly1305, Nonce, Opener, SpeculationSlot, Speculative,
    TemplateError, Usual,
};
use common::{bytes, key, nonce_of};
use proptest::{collection::vec, prelude::*};

fn check<S: Usual + Speculative>(
    aad: &[u8],
    plain: &[u8],
    changes: &[(usize, u8)],
    steps: &[u32],
    shift: usize,
) {
    let (mut guessed_aad, mut guessed) = (aad.to_vec(), plain.to_vec());
    for &(at, with) in changes {
        let all = guessed_aad.len() + guessed.len();
        if all > 0 {
            let at = at % all;
            let (a, p) = (&mut guessed_aad, &mut guessed);
            *if at < a.len() { &mut a[at] } else { &mut p[at - aad.len()] } ^= with;
        }
    }
    // Sometimes the guess has another length.
    guessed.truncate(guessed.len() - shift.min(guessed.len()));
    for backend in Backend::available() {
        let plain_key = key::<S>(3, backend);
        let mut sealed = vec![0; plain.len()];
        let tag = plain_key.seal(Nonce::assume_unique(nonce_of(4)), aad, plain, &mut sealed);
        let opener = Opener::<S, _>::new(key(3, backend), nonce_of);
        let mut slot = SpeculationSlot::<S, 1024>::new();
        let mut expected = opener.speculate(4, &guessed_aad, &guessed, &mut slot).unwrap();
        steps.iter().for_each(|&step| assert!(expected.step(step) <= step));
        if steps.len().is_multiple_of(2) {
            while expected.step(3) > 0 {}
            assert!(expected.is_ready());
        }
        let mut out = vec![1; plain.len()];
        let mut forged = *tag.as_bytes();
        forged[changes.len() % 16] ^= 8;
        let expected = expected.open(aad, &sealed, &mut out, &forged).unwrap_err().0;
        assert!(out.iter().all(|&byte| byte == 0));
        expected.open(aad, &sealed, &mut out, tag.as_bytes()).unwrap();
        assert_eq!(out, plain, "{backend:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn guess_opens_like_plain_cipher(
        aad in vec(any::<u8>(), 0..150),
        plain in vec(any::<u8>(), 0..900),
        changes in vec((any::<usize>(), any::<u8>()), 0..20),
        steps in vec(0u32..40, 0..4),
        shift in prop_oneof![8 => Just(0usize), 1 => 1usize..20],
    ) {
        check::<Aes128Gcm>(&aad, &plain, &changes, &steps, shift);
        check::<Aes256Gcm>(&aad, &plain, &changes, &steps, shift);
        check::<ChaCha20Poly1305>(&aad, &plain, &changes, &steps, shift);
    }
}

fn flips<S: Usual + Speculative>() {
    let (aad, plain) = (bytes(20, 1), bytes(33, 2));
    for backend in Backend::available() {
        let mut sealed = vec![0; 33];
        let tag = key::<S>(3, backend).seal(Nonce::assume_unique(nonce_of(0)), &aad, &plain, &mut sealed);
        let packet = [&aad[..], &sealed, tag.as_bytes()].concat();
        let opener = Opener::<S, _>::new(key(3, backend), nonce_of);
        let mut slot = SpeculationSlot::<S, 64>::new();
        for bit in 0..=8 * packet.len() {
            let mut packet = packet.clone();
            if let Some(byte) = packet.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            let genuine = bit == 8 * packet.len();
            let mut expected = opener.speculate(0, &aad, &plain, &mut slot).unwrap();
            expected.step(100);
            let mut out = vec![1; 33];
            let verdict =
                expected.open(&packet[..20], &packet[20..53], &mut out, packet[53..].try_into().unwrap());
            assert_eq!(verdict.is_ok(), genuine, "bit {bit}");
            assert_eq!(out, if genuine { plain.clone() } else { vec![0; 33] });
        }
    }
}

#[test]
fn flipped_bit_leaves_no_plaintext() {
    flips::<Aes128Gcm>();
    flips::<ChaCha20Poly1305>();
}

#[test]
fn oversized_guess_is_an_error() {
    let opener = Opener::<Aes128Gcm, _>::new(key(3, Backend::detect()), nonce_of);
    let mut slot = SpeculationSlot::<Aes128Gcm, 64>::new();
    let error = opener.speculate(0, &[], &[0; 65], &mut slot).unwrap_err();
    assert_eq!(error, TemplateError::TooLong { len: 65, capacity: 64 });
}
