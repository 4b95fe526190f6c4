//! AES encryption and decryption with AES-NI: single blocks, and CBC (NIST SP 800-38A section 6.2),
//! whose encryption is serial and whose decryption takes eight blocks at a time.

use crate::{Backend, backend::portable::aes::RoundKeys};
use core::arch::x86_64::*;
use zeroize::Zeroize;

/// A key for AES with `R` rounds. Exists only on a CPU with AES-NI.
#[repr(C, align(64))]
pub(crate) struct Key<const R: usize> {
    encrypt: [[u8; 16]; 15],
    decrypt: [[u8; 16]; 15],
}

impl<const R: usize> Drop for Key<R> {
    fn drop(&mut self) {
        self.encrypt.zeroize();
        self.decrypt.zeroize();
    }
}

impl<const R: usize> Key<R> {
    /// Returns `None` unless the backend belongs to x86-64 and the CPU supports it.
    pub(crate) fn new(round_keys: &RoundKeys, backend: Backend) -> Option<Self> {
        if backend.min(super::detect()) < Backend::AesNi {
            return None;
        }
        let mut key = Self { encrypt: round_keys.blocks, decrypt: [[0; 16]; 15] };
        // SAFETY: the backends from this one on need a CPU with AES-NI.
        unsafe { invert::<R>(&key.encrypt, &mut key.decrypt) };
        Some(key)
    }

    pub(crate) fn encrypt(&self, block: &mut [u8; 16]) {
        // SAFETY: keys exist only on a CPU with AES-NI.
        unsafe { single::<R, true>(self, block) }
    }

    pub(crate) fn decrypt(&self, block: &mut [u8; 16]) {
        // SAFETY: keys exist only on a CPU with AES-NI.
        unsafe { single::<R, false>(self, block) }
    }

    /// CBC encryption. On entry `chain` is the IV, on return the last block of ciphertext.
    pub(crate) fn encrypt_chain(&self, chain: &mut [u8; 16], blocks: &mut [[u8; 16]]) {
        // SAFETY: keys exist only on a CPU with AES-NI.
        unsafe { encrypt_chain::<R>(self, chain, blocks) }
    }

    /// CBC decryption, with the same `chain` as encryption.
    pub(crate) fn decrypt_chain(&self, chain: &mut [u8; 16], blocks: &mut [[u8; 16]]) {
        // SAFETY: keys exist only on a CPU with AES-NI.
        unsafe { decrypt_chain::<R>(self, chain, blocks) }
    }
}

#[inline]
#[target_feature(enable = "sse2")]
fn from(block: &[u8; 16]) -> __m128i {
    // SAFETY: a block has 16 bytes.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn put(block: &mut [u8; 16], x: __m128i) {
    // SAFETY: a block has 16 bytes.
    unsafe { _mm_storeu_si128(block.as_mut_ptr().cast(), x) };
}

/// The round keys of the equivalent inverse cipher (FIPS 197 section 5.3.5).
#[target_feature(enable = "aes")]
fn invert<const R: usize>(encrypt: &[[u8; 16]; 15], decrypt: &mut [[u8; 16]; 15]) {
    for (i, key) in encrypt[..=R].iter().rev().enumerate() {
        let key = from(key);
        put(&mut decrypt[i], if i == 0 || i == R { key } else { _mm_aesimc_si128(key) });
    }
}

/// The cipher on `W` blocks at once.
#[inline]
#[target_feature(enable = "aes")]
fn cipher<const R: usize, const ENCRYPT: bool, const W: usize>(
    key: &Key<R>,
    mut x: [__m128i; W],
) -> [__m128i; W] {
    let keys = if ENCRYPT { &key.encrypt } else { &key.decrypt };
    let k = from(&keys[0]);
    for block in &mut x {
        *block = _mm_xor_si128(*block, k);
    }
    for round in &keys[1..R] {
        let k = from(round);
        for block in &mut x {
            *block = if ENCRYPT { _mm_aesenc_si128(*block, k) } else { _mm_aesdec_si128(*block, k) };
        }
    }
    let k = from(&keys[R]);
    x.map(|block| if ENCRYPT { _mm_aesenclast_si128(block, k) } else { _mm_aesdeclast_si128(block, k) })
}

#[target_feature(enable = "aes")]
fn single<const R: usize, const ENCRYPT: bool>(key: &Key<R>, block: &mut [u8; 16]) {
    let [x] = cipher::<R, ENCRYPT, 1>(key, [from(block)]);
    put(block, x);
}

#[target_feature(enable = "aes")]
fn encrypt_chain<const R: usize>(key: &Key<R>, chain: &mut [u8; 16], blocks: &mut [[u8; 16]]) {
    let mut x = from(chain);
    for block in blocks {
        [x] = cipher::<R, true, 1>(key, [_mm_xor_si128(x, from(block))]);
        put(block, x);
    }
    put(chain, x);
}

#[target_feature(enable = "aes")]
fn decrypt_chain<const R: usize>(key: &Key<R>, chain: &mut [u8; 16], blocks: &mut [[u8; 16]]) {
    let mut before = from(chain);
    let (eights, rest) = blocks.as_chunks_mut::<8>();
    for eight in eights {
        let x: [__m128i; 8] = core::array::from_fn(|i| from(&eight[i]));
        let y = cipher::<R, false, 8>(key, x);
        for (i, block) in eight.iter_mut().enumerate() {
            put(block, _mm_xor_si128(y[i], before));
            before = x[i];
        }
    }
    for block in rest {
        let x = from(block);
        let [y] = cipher::<R, false, 1>(key, [x]);
        put(block, _mm_xor_si128(y, before));
        before = x;
    }
    put(chain, before);
}
