//! What is left in memory of a slot or a key: the test reads the bytes where they were.
#![allow(clippy::unwrap_used, unsafe_code)]

mod common;

use antedate_aead::{
    Aegis128L, Aes128Gcm, Aes128Ocb3, Aes256Gcm, AsconAead128, Backend, ChaCha20Poly1305, Hole, Key, Nonce,
    NonceSequence, Opener, Sealer, Slot, Sparse, Suite, Template, TemplateSlot, Usual, research::Morus1280,
};
use common::{Counter, bytes, key, key_bytes, nonce_of};
use std::mem::ManuallyDrop;

/// The bytes of a value as they are in memory, paddings included.
fn memory<T>(value: &T) -> Vec<u8> {
    let start = std::ptr::from_ref(value).cast::<u8>();
    // SAFETY: the bytes belong to the value; volatile reads take them as they are.
    (0..size_of::<T>()).map(|i| unsafe { start.add(i).read_volatile() }).collect()
}

/// Where two values differ that were made from different keys and are the same otherwise: there lies what is secret.
fn secret<T>(a: &T, b: &T) -> Vec<usize> {
    let (a, b) = (memory(a), memory(b));
    (0..a.len()).filter(|&i| a[i] != b[i]).collect()
}

fn assert_wiped<T>(value: &T, secret: &[usize], what: &str) {
    let bytes = memory(value);
    let left = secret.iter().filter(|&&i| bytes[i] != 0).count();
    assert_eq!(left, 0, "{what}: {left} of {} secret bytes are left", secret.len());
}

fn slots<S: Usual>() {
    for backend in Backend::available() {
        let mut sealer = Sealer::<S, _>::new(key(1, backend), Counter(0, 99));
        let opener = Opener::<S, _>::new(key(1, backend), nonce_of);
        let mut slot = ManuallyDrop::new(Slot::<S, 512>::new());
        let (aad, plain) = (bytes(30, 1), bytes(300, 2));
        let mut out = vec![0; 300];

        let leave = |sealer: &mut Sealer<S, Counter>, slot: &mut Slot<S, 512>| {
            let mut prepared = sealer.prepare(slot).unwrap();
            prepared.step(100);
            std::mem::forget(prepared);
        };
        let before = memory(&slot);
        leave(&mut sealer, &mut slot);
        let mut other = ManuallyDrop::new(Slot::<S, 512>::new());
        leave(&mut Sealer::new(key(2, backend), Counter(0, 99)), &mut other);
        let mut secret = secret(&slot, &other);
        let prepared = memory(&slot);
        secret.retain(|&i| prepared[i] != before[i]);
        assert!(secret.len() > 500, "the cipherstream and more differ");
        drop(sealer.prepare(&mut slot).unwrap());
        assert_wiped(&slot, &secret, "a replaced packet");

        for length in [0, 16, 63, 64, 300] {
            let mut prepared = sealer.prepare(&mut slot).unwrap();
            prepared.step(100);
            let number = prepared.number();
            let tag = prepared.seal(&aad, &plain[..length], &mut out[..length]);
            assert_wiped(&slot, &secret, "a sealed packet");

            let mut expected = opener.expect(number, &mut slot);
            expected.step(100);
            let mut opened = vec![0; length];
            expected.open(&aad, &out[..length], &mut opened, tag.as_bytes()).unwrap();
            assert_wiped(&slot, &secret, "an opened packet");

            let mut expected = opener.expect(number, &mut slot);
            expected.step(100);
            drop(expected.open(&aad, &out[..length], &mut opened, &[0; 16]).unwrap_err());
            assert_wiped(&slot, &secret, "a refused packet that is given up");
        }
        sealer.prepare(&mut slot).unwrap().step(5);
        assert_wiped(&slot, &secret, "a dropped packet");
        leave(&mut sealer, &mut slot);
        // SAFETY: the slot is not used as one any more.
        unsafe { ManuallyDrop::drop(&mut slot) };
        assert_wiped(&slot, &secret, "a dropped slot");
    }
}

#[test]
fn nothing_of_a_preparation_is_left_in_its_slot() {
    slots::<Aes128Gcm>();
    slots::<Aes256Gcm>();
    slots::<ChaCha20Poly1305>();
}

/// Nonces of any length.
struct Any(u8);

impl<const N: usize> NonceSequence<[u8; N]> for Any {
    type Error = core::convert::Infallible;

    fn next(&mut self) -> Result<(u64, Nonce<[u8; N]>), Self::Error> {
        self.0 += 1;
        Ok((self.0.into(), Nonce::assume_unique([self.0; N])))
    }
}

/// Suites without a cipherstream: a slot has a state, or an offset.
fn states<S: Suite<NonceBytes = [u8; N]>, const N: usize>(at_least: usize) {
    for backend in Backend::available() {
        let leave = |seed: u8, slot: &mut Slot<S, 0>| {
            let mut sealer = Sealer::<S, _>::new(key(seed, backend), Any(0));
            let mut prepared = sealer.prepare(slot).unwrap();
            prepared.step(1);
            std::mem::forget(prepared);
        };
        let mut slot = ManuallyDrop::new(Slot::<S, 0>::new());
        let mut other = ManuallyDrop::new(Slot::<S, 0>::new());
        let before = memory(&slot);
        leave(1, &mut slot);
        leave(2, &mut other);
        let mut secret = secret(&slot, &other);
        // Paddings hold anything, and keep it.
        let prepared = memory(&slot);
        secret.retain(|&i| prepared[i] != before[i]);
        assert!(secret.len() >= at_least, "{} of {at_least} bytes differ", secret.len());
        let mut sealer = Sealer::<S, _>::new(key(1, backend), Any(0));
        drop(sealer.prepare(&mut slot).unwrap());
        assert_wiped(&slot, &secret, "a replaced packet");
        let mut prepared = sealer.prepare(&mut slot).unwrap();
        prepared.step(1);
        prepared.seal_in_place(&bytes(30, 1), &mut bytes(300, 2));
        assert_wiped(&slot, &secret, "a sealed packet");
        leave(1, &mut slot);
        // SAFETY: the slot is not used as one any more.
        unsafe { ManuallyDrop::drop(&mut slot) };
        assert_wiped(&slot, &secret, "a dropped slot");
    }
}

#[test]
fn nothing_of_a_state_is_left_in_its_slot() {
    states::<Aegis128L, 16>(100);
    states::<Morus1280, 16>(120);
    states::<AsconAead128, 16>(45);
    states::<Aes128Ocb3, 12>(12);
}

fn template_slots<S: Usual + Sparse>() {
    let (aad, payload) = (bytes(30, 1), bytes(300, 2));
    let holes = [Hole::Payload(3..40), Hole::Aad(3..4)];
    let template = Template::new(&aad, &payload, &holes).unwrap();
    for backend in Backend::available() {
        let leave = |seed: u8, slot: &mut TemplateSlot<S, 512, 4>| {
            let mut sealer = Sealer::<S, _>::new(key(seed, backend), Counter(0, 99));
            let mut prepared = sealer.prepare_template(&template, slot).unwrap();
            prepared.step(100);
            std::mem::forget(prepared);
        };
        let mut slot = TemplateSlot::<S, 512, 4>::new();
        let mut other = TemplateSlot::<S, 512, 4>::new();
        let before = memory(&slot);
        leave(1, &mut slot);
        leave(2, &mut other);
        let mut secret = secret(&slot, &other);
        // Paddings hold anything, and keep it.
        let prepared = memory(&slot);
        secret.retain(|&i| prepared[i] != before[i]);
        assert!(secret.len() > 380, "the ciphertext, its sum and its weights differ");

        let mut sealer = Sealer::<S, _>::new(key(1, backend), Counter(0, 99));
        let mut prepared = sealer.prepare_template(&template, &mut slot).unwrap();
        prepared.step(100);
        drop(prepared.seal(&[&[7; 37], &[8]]).unwrap());
        assert_wiped(&slot, &secret, "a sealed packet that was dropped");
        sealer.prepare_template(&template, &mut slot).unwrap().step(100);
        assert_wiped(&slot, &secret, "a dropped packet");
    }
}

#[test]
fn nothing_of_a_template_is_left_in_its_slot() {
    template_slots::<Aes128Gcm>();
    template_slots::<ChaCha20Poly1305>();
    template_slots::<Aes128Ocb3>();
}

fn keys<S: Suite>() {
    for backend in Backend::available() {
        let new = |seed| Key::<S>::with_backend(&key_bytes::<S>(seed), backend).unwrap();
        let mut key = ManuallyDrop::new(new(1));
        let secret = secret(&key, &ManuallyDrop::new(new(2)));
        assert!(secret.len() >= 16);
        // SAFETY: the key is not used as one any more.
        unsafe { ManuallyDrop::drop(&mut key) };
        assert_wiped(&key, &secret, S::NAME);
    }
}

#[test]
fn nothing_of_a_key_is_left_where_it_was() {
    keys::<Aes128Gcm>();
    keys::<Aes256Gcm>();
    keys::<ChaCha20Poly1305>();
    keys::<Aes128Ocb3>();
    keys::<Aegis128L>();
    keys::<AsconAead128>();
    keys::<Morus1280>();
}

#[test]
fn secrets_are_not_shown_by_debug() {
    let sealer = Sealer::<Aes128Gcm, _>::new(key(1, Backend::detect()), Counter(0, 1));
    assert_eq!(format!("{sealer:?}"), "Sealer(aes-128-gcm, ..)");
    assert_eq!(format!("{:?}", key::<ChaCha20Poly1305>(1, Backend::detect())), "Key(chacha20-poly1305, ..)");
    assert_eq!(format!("{:?}", Slot::<Aes256Gcm, 64>::new()), "Slot(aes-256-gcm, 0 of 64 bytes prepared)");
}
