//! Helpers for this crate's tests.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use antedate_aead::{Backend, Key, Nonce, NonceSequence, Suite};

/// A counter whose number is the last eight bytes of the nonce.
pub struct Counter(pub u64, pub u64);

impl NonceSequence for Counter {
    type Error = &'static str;

    fn next(&mut self) -> Result<(u64, Nonce), Self::Error> {
        if self.0 == self.1 {
            return Err("the counter is at its end");
        }
        self.0 += 1;
        Ok((self.0 - 1, Nonce::assume_unique(nonce_of(self.0 - 1))))
    }
}

pub fn nonce_of(number: u64) -> [u8; 12] {
    let mut nonce = [0x5a; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

pub fn key<S: Suite>(seed: u8, backend: Backend) -> Key<S> {
    Key::with_backend(&key_bytes::<S>(seed), backend).unwrap()
}

pub fn key_bytes<S: Suite>(seed: u8) -> Vec<u8> {
    (0..S::KEY_LEN).map(|i| (i as u8).wrapping_mul(59).wrapping_add(seed)).collect()
}

/// Bytes that depend on position and seed.
pub fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8).wrapping_add(seed)).collect()
}
