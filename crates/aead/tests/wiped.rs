//! Memory of a slot or key after use: the test reads the bytes in place.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(unsafe_code, reason = "reads the memory of slots and keys")]

use crate::common::{Counter, bytes, key, key_bytes, nonce_of};
use antedate_aead::{
    Aegis128L, Aes128, Aes128Ccm, Aes128Ccm8, Aes128Gcm, Aes128Ocb3, Aes256Ccm, Aes256Gcm, AsconAead128,
    Backend, CcmStar128, ChaCha20Poly1305, Front, FrontSlot, Fronted, Hole, Key, Nonce, NonceSequence,
    Opener, RefusedError, Sealer, Slot, Sparse, Suite, Template, TemplateSlot, Usual,
    research::Morus1280,
    unauthenticated::{CounterBlock, CtrStream},
};
use std::mem::ManuallyDrop;

/// The bytes of a value in memory, padding included.
fn memory<T>(value: &T) -> Vec<u8> {
    let start = std::ptr::from_ref(value).cast::<u8>();
    // SAFETY: the bytes belong to the value; volatile reads accept any contents.
    (0..size_of::<T>()).map(|i| unsafe { start.add(i).read_volatile() }).collect()
}

/// Offsets at which two values differ that were made from different keys and are otherwise equal:
/// the secret bytes.
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

            let mut expected = opener.expect(number, &mut slot);
            expected.step(100);
            std::mem::forget(expected);
            let prepared = memory(&slot);
            let mut expected = opener.expect(number, &mut slot);
            expected.step(100);
            let RefusedError(expected) =
                expected.open(&aad, &out[..length], &mut opened, &[0; 16]).unwrap_err();
            std::mem::forget(expected);
            assert!(memory(&slot) == prepared, "what was prepared stays for the genuine packet");
        }
        sealer.prepare(&mut slot).unwrap().step(5);
        assert_wiped(&slot, &secret, "a dropped packet");
        leave(&mut sealer, &mut slot);
        // SAFETY: the slot is not used as one after this.
        unsafe { ManuallyDrop::drop(&mut slot) };
        assert_wiped(&slot, &secret, "a dropped slot");
    }
}

#[test]
fn slot_keeps_nothing_of_a_preparation() {
    slots::<Aes128Gcm>();
    slots::<Aes256Gcm>();
    slots::<ChaCha20Poly1305>();
    slots::<Aes128Ccm>();
    slots::<Aes256Ccm>();
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

/// Suites without a key stream: a slot has a state or an offset.
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
        // Padding may hold anything, and keeps it.
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
        // SAFETY: the slot is not used as one after this.
        unsafe { ManuallyDrop::drop(&mut slot) };
        assert_wiped(&slot, &secret, "a dropped slot");
    }
}

#[test]
fn slot_keeps_nothing_of_a_state() {
    states::<Aegis128L, 16>(100);
    states::<Morus1280, 16>(120);
    states::<AsconAead128, 16>(45);
    states::<Aes128Ocb3, 12>(12);
}

fn template_slots<S: Usual + Sparse>() {
    holes_of_a_slot::<S>(&[Hole::Payload(3..40), Hole::Aad(3..4)], &[&[7; 37], &[8]], 380);
    holes_of_a_slot::<S>(&[Hole::Payload(32..48)], &[&[7; 16]], 330);
}

fn holes_of_a_slot<S: Usual + Sparse>(holes: &[Hole], values: &[&[u8]], at_least: usize) {
    let (aad, payload) = (bytes(30, 1), bytes(300, 2));
    let template = Template::new(&aad, &payload, holes).unwrap();
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
        // Padding may hold anything, and keeps it.
        let prepared = memory(&slot);
        secret.retain(|&i| prepared[i] != before[i]);
        assert!(secret.len() > at_least, "the ciphertext, its sum and its weights differ");

        let mut sealer = Sealer::<S, _>::new(key(1, backend), Counter(0, 99));
        let mut prepared = sealer.prepare_template(&template, &mut slot).unwrap();
        prepared.step(100);
        drop(prepared.seal(values).unwrap());
        assert_wiped(&slot, &secret, "a sealed packet that was dropped");
        sealer.prepare_template(&template, &mut slot).unwrap().step(100);
        assert_wiped(&slot, &secret, "a dropped packet");
    }
}

#[test]
fn slot_keeps_nothing_of_a_template() {
    template_slots::<Aes128Gcm>();
    template_slots::<ChaCha20Poly1305>();
    template_slots::<Aes128Ocb3>();
}

fn front_slots<S: Fronted<NonceBytes = [u8; N]>, const N: usize>(at_least: usize) {
    let (aad, payload) = (bytes(30, 1), bytes(280, 2));
    let front = Front::new(&aad, &payload, &[300, 310]).unwrap();
    for backend in Backend::available() {
        let leave = |seed: u8, slot: &mut FrontSlot<S, 512, 2>| {
            let mut sealer = Sealer::<S, _>::new(key(seed, backend), Any(0));
            let mut prepared = sealer.prepare_front(&front, slot).unwrap();
            prepared.step(100);
            std::mem::forget(prepared);
        };
        let mut slot = ManuallyDrop::new(FrontSlot::<S, 512, 2>::new());
        let mut other = ManuallyDrop::new(FrontSlot::<S, 512, 2>::new());
        let before = memory(&slot);
        leave(1, &mut slot);
        leave(2, &mut other);
        let mut secret = secret(&slot, &other);
        // Padding may hold anything, and keeps it.
        let prepared = memory(&slot);
        secret.retain(|&i| prepared[i] != before[i]);
        assert!(secret.len() > at_least, "{} of {at_least} bytes differ", secret.len());

        let mut sealer = Sealer::<S, _>::new(key(1, backend), Any(0));
        let opener = Opener::<S, _>::new(key(1, backend), |_| [1; N]);
        drop(sealer.prepare_front(&front, &mut slot).unwrap());
        assert_wiped(&slot, &secret, "a replaced packet");
        // A prepared length, another length, and before any preparation.
        for (rest, steps) in [(20, 100), (30, 100), (25, 100), (25, 7), (20, 0)] {
            let mut prepared = sealer.prepare_front(&front, &mut slot).unwrap();
            prepared.step(steps);
            drop(prepared.seal(&bytes(rest, 3)).unwrap());
            assert_wiped(&slot, &secret, "a sealed packet that was dropped");
        }
        let mut expected = opener.expect_front(1, &front, &mut slot).unwrap();
        expected.step(100);
        let tag = Sealer::<S, _>::new(key(9, backend), Any(0));
        let mut tag = tag_of(tag);
        tag.as_mut()[0] ^= 1;
        drop(expected.open(&aad, &[7; 300], &mut [0; 300], &tag).unwrap_err());
        assert_wiped(&slot, &secret, "a refused packet that is given up");
        leave(1, &mut slot);
        // SAFETY: the slot is not used as one after this.
        unsafe { ManuallyDrop::drop(&mut slot) };
        assert_wiped(&slot, &secret, "a dropped slot");
    }
}

fn tag_of<S: Suite<NonceBytes = [u8; N]>, const N: usize>(mut sealer: Sealer<S, Any>) -> S::TagBytes {
    let mut slot = Slot::<S, 64>::new();
    *sealer.prepare(&mut slot).unwrap().seal(&[], &[], &mut []).as_bytes()
}

#[test]
fn slot_keeps_nothing_of_a_front() {
    front_slots::<Aes128Ccm8, 12>(330);
    front_slots::<CcmStar128, 13>(330);
    front_slots::<Aegis128L, 16>(330);
    front_slots::<AsconAead128, 16>(290);
}

#[test]
fn used_key_stream_leaves_nothing() {
    let new = |seed| {
        ManuallyDrop::new(CtrStream::<Aes128, 8>::new(&[seed; 16], CounterBlock([3; 16]), 100).unwrap())
    };
    let (mut stream, mut other) = (new(1), new(2));
    let before = memory(&stream);
    stream.idle(100);
    other.idle(100);
    let mut secret = secret(&stream, &other);
    let prepared = memory(&stream);
    secret.retain(|&i| prepared[i] != before[i]);
    assert!(secret.len() > 100, "{} bytes differ", secret.len());
    stream.encrypt(&mut [0; 128]).unwrap();
    assert_wiped(&stream, &secret, "a stream that was used");
    stream.idle(100);
    // SAFETY: the stream is not used as one after this.
    unsafe { ManuallyDrop::drop(&mut stream) };
    assert_wiped(&stream, &secret, "a dropped stream");
}

fn keys<S: Suite>() {
    for backend in Backend::available() {
        let new = |seed| Key::<S>::with_backend(&key_bytes::<S>(seed), backend).unwrap();
        // A smaller kind of key leaves space after it, which may hold stale addresses: bytes that
        // differ between equal keys do not belong to the key.
        let mut keys: Vec<_> = (0..8).map(|i| ManuallyDrop::new(new(1 + i % 2))).collect();
        let mut secret = secret(&keys[6], &keys[7]);
        for pair in keys.windows(3) {
            let (one, same) = (memory(&pair[0]), memory(&pair[2]));
            secret.retain(|&i| one[i] == same[i]);
        }
        assert!(secret.len() >= 16);
        // SAFETY: the key is not used as one after this.
        unsafe { ManuallyDrop::drop(&mut keys[6]) };
        assert_wiped(&keys[6], &secret, S::NAME);
    }
}

#[test]
fn dropped_key_leaves_nothing() {
    keys::<Aes128Gcm>();
    keys::<Aes256Gcm>();
    keys::<ChaCha20Poly1305>();
    keys::<Aes128Ocb3>();
    keys::<Aegis128L>();
    keys::<AsconAead128>();
    keys::<Morus1280>();
    keys::<Aes128Ccm8>();
    keys::<Aes256Ccm>();
}

#[test]
fn debug_hides_secrets() {
    let sealer = Sealer::<Aes128Gcm, _>::new(key(1, Backend::detect()), Counter(0, 1));
    assert_eq!(format!("{sealer:?}"), "Sealer(aes-128-gcm, ..)");
    assert_eq!(format!("{:?}", key::<ChaCha20Poly1305>(1, Backend::detect())), "Key(chacha20-poly1305, ..)");
    assert_eq!(format!("{:?}", Slot::<Aes256Gcm, 64>::new()), "Slot(aes-256-gcm, 0 of 64 bytes prepared)");
}
