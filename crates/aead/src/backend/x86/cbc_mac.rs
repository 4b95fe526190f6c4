//! CBC-MAC with AES-NI, and loads and stores of its blocks.

use super::ccm::{Header, Key};
use core::arch::x86_64::*;

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn from(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: a block has 16 bytes.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn into(x: __m128i) -> [u8; 16] {
    let mut out = [0; 16];
    // SAFETY: a block has 16 bytes.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), x) };
    out
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn number(x: u128) -> __m128i {
    _mm_set_epi64x((x >> 64) as i64, x as i64)
}

/// Loads fewer than 16 bytes, zero-padded, with two overlapping loads.
///
/// # Safety
/// `at` is valid for `len` bytes, and `len` is less than 16.
#[inline]
pub(super) unsafe fn load(at: *const u8, len: usize) -> u128 {
    // SAFETY: each load is within the `len` bytes.
    unsafe {
        if len >= 8 {
            let low = at.cast::<u64>().read_unaligned();
            let high = at.add(len - 8).cast::<u64>().read_unaligned();
            u128::from(low) | u128::from(high) << (8 * (len - 8))
        } else if len >= 4 {
            let low = at.cast::<u32>().read_unaligned();
            let high = at.add(len - 4).cast::<u32>().read_unaligned();
            u128::from(u64::from(low) | u64::from(high) << (8 * (len - 4)))
        } else if len > 0 {
            let (first, middle, last) = (at.read(), at.add(len / 2).read(), at.add(len - 1).read());
            let number =
                u32::from(first) | u32::from(middle) << (8 * (len / 2)) | u32::from(last) << (8 * (len - 1));
            u128::from(number)
        } else {
            0
        }
    }
}

/// Stores the first `len` bytes of a number, with two overlapping stores.
///
/// # Safety
/// `at` is valid for `len` bytes, and `len` is less than 16.
#[inline]
pub(super) unsafe fn store(at: *mut u8, len: usize, x: u128) {
    // SAFETY: each store is within the `len` bytes.
    unsafe {
        if len >= 8 {
            at.cast::<u64>().write_unaligned(x as u64);
            at.add(len - 8).cast::<u64>().write_unaligned((x >> (8 * (len - 8))) as u64);
        } else if len >= 4 {
            at.cast::<u32>().write_unaligned(x as u32);
            at.add(len - 4).cast::<u32>().write_unaligned((x >> (8 * (len - 4))) as u32);
        } else if len > 0 {
            at.write(x as u8);
            at.add(len / 2).write((x >> (8 * (len / 2))) as u8);
            at.add(len - 1).write((x >> (8 * (len - 1))) as u8);
        }
    }
}

/// Keeps the first `len` bytes of a block and zeroes the others.
#[inline]
pub(super) fn first(x: u128, len: usize) -> u128 {
    x & !(u128::MAX << (8 * len))
}

/// A CBC-MAC held before the last round of its last block.
#[derive(Clone, Copy)]
pub(super) struct Mac<const R: usize> {
    state: __m128i,
    /// The XOR of the last round key and the first, applied between two blocks.
    between: __m128i,
}

impl<const R: usize> Mac<R> {
    #[inline]
    #[target_feature(enable = "sse4.1,aes")]
    pub(super) fn rounds(key: &Key<R>, mut x: __m128i) -> __m128i {
        for round in &key.round_keys[1..R] {
            x = _mm_aesenc_si128(x, from(round));
        }
        x
    }

    #[inline]
    #[target_feature(enable = "sse4.1,aes")]
    fn between(key: &Key<R>) -> __m128i {
        _mm_xor_si128(from(&key.round_keys[R]), from(&key.round_keys[0]))
    }

    #[inline]
    #[target_feature(enable = "sse4.1,aes")]
    pub(super) fn new(key: &Key<R>, b0: __m128i) -> Self {
        let x = _mm_xor_si128(b0, from(&key.round_keys[0]));
        Self { state: Self::rounds(key, x), between: Self::between(key) }
    }

    /// Continues from a chain that already includes the first round key and the next block.
    #[inline]
    #[target_feature(enable = "sse4.1,aes")]
    pub(super) fn resume(key: &Key<R>, folded: __m128i) -> Self {
        Self { state: Self::rounds(key, folded), between: Self::between(key) }
    }

    #[inline]
    #[target_feature(enable = "sse4.1,aes")]
    pub(super) fn add(&mut self, key: &Key<R>, block: __m128i) {
        let x = _mm_aesenclast_si128(self.state, _mm_xor_si128(self.between, block));
        self.state = Self::rounds(key, x);
    }

    /// The MAC, XORed with `mask`.
    #[inline]
    #[target_feature(enable = "sse4.1,aes")]
    pub(super) fn value(&self, key: &Key<R>, mask: __m128i) -> __m128i {
        _mm_aesenclast_si128(self.state, _mm_xor_si128(from(&key.round_keys[R]), mask))
    }

    /// Absorbs bytes in whole blocks, the last padded with zeros.
    ///
    /// # Safety
    /// `at` is valid for `len` bytes.
    #[inline]
    #[target_feature(enable = "sse4.1,aes")]
    pub(super) unsafe fn bytes(&mut self, key: &Key<R>, mut at: *const u8, mut len: usize) {
        // SAFETY: `len` bytes from `at` are left.
        unsafe {
            while len >= 16 {
                self.add(key, _mm_loadu_si128(at.cast()));
                at = at.add(16);
                len -= 16;
            }
            if len > 0 {
                self.add(key, number(load(at, len)));
            }
        }
    }

    /// Absorbs the associated data.
    ///
    /// # Safety
    /// The CPU has SSE4.1 and AES-NI.
    #[inline]
    #[target_feature(enable = "sse4.1,aes")]
    pub(super) unsafe fn associated(&mut self, key: &Key<R>, header: &Header, aad: &[u8]) {
        if header.prefix_len == 0 {
            return;
        }
        let now = aad.len().min(16 - header.prefix_len);
        // SAFETY: `now` is at most the slice's length, and less than 16.
        let beginning = unsafe { load(aad.as_ptr(), now) };
        self.add(key, number(header.prefix | beginning << (8 * header.prefix_len)));
        let rest = &aad[now..];
        // SAFETY: the pointer and length come from the slice.
        unsafe { self.bytes(key, rest.as_ptr(), rest.len()) };
    }
}
