//! ChaCha20 (RFC 8439 section 2.3) with SSSE3, for CPUs with AES-NI and without AVX2.
//!
//! Four blocks are computed with a word of each to a vector, which needs no turned rows; fewer
//! blocks with a row of one block to a vector. Rotations by whole bytes are one shuffle.

use super::chacha20_avx2::{Block, Hashed, by_16};
use crate::{Backend, backend::portable::chacha20::CONSTANTS};
use core::arch::x86_64::*;

/// Proof that the CPU supports SSSE3, with or without instructions for AES.
#[derive(Clone, Copy)]
pub(crate) struct AnySsse3(());

/// Blocks of a pass.
pub(super) const PASS: usize = 4;

impl AnySsse3 {
    /// Returns `None` for the portable backend: every other one of x86-64 has SSSE3.
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        (backend.min(super::detect()) != Backend::Portable).then_some(Self(()))
    }

    /// Key stream from block `counter`; `out` is a whole number of blocks.
    pub(crate) fn stream(self, key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [u8]) {
        let mut counter = counter;
        for part in super::chacha20poly1305::uninit(out).chunks_mut(PASS) {
            // SAFETY: `self` proves CPU support.
            unsafe { pass(key, counter, nonce, part, ()) };
            counter = counter.wrapping_add(PASS as u32);
        }
    }
}

/// Work between the rounds of a pass.
pub(super) trait Between {
    /// Does the next piece. A pass calls it twenty times.
    fn step(&mut self);
}

impl Between for () {
    #[inline(always)]
    fn step(&mut self) {}
}

impl Between for Hashed {
    /// Hashes a block: twenty calls more than cover the sixteen of a pass.
    #[inline(always)]
    fn step(&mut self) {
        self.next();
    }
}

/// Between one and [`PASS`] blocks of key stream from block `counter`, interleaved with other work.
/// Writes all of `out`.
#[inline]
#[target_feature(enable = "ssse3")]
pub(super) fn pass<B: Between>(
    key: &[u32; 8],
    counter: u32,
    nonce: &[u8; 12],
    out: &mut [Block],
    between: B,
) -> B {
    match out {
        [_] => rows::<1, B>(key, counter, nonce, out, between),
        [_, _] => rows::<2, B>(key, counter, nonce, out, between),
        [_, _, _] => rows::<3, B>(key, counter, nonce, out, between),
        _ => words(key, counter, nonce, out, between),
    }
}

/// The shuffles that rotate words by 16 bits and by 8.
#[inline]
#[target_feature(enable = "sse2")]
fn shuffles() -> [__m128i; 2] {
    [by_16(false), _mm_set_epi64x(0x0e0d_0c0f_0a09_080b, 0x0605_0407_0201_0003)]
}

/// A quarter round on vectors of words.
macro_rules! quarter_round {
    ($a:expr, $b:expr, $c:expr, $d:expr, $shuffles:expr) => {
        $a = _mm_add_epi32($a, $b);
        $d = _mm_shuffle_epi8(_mm_xor_si128($d, $a), $shuffles[0]);
        $c = _mm_add_epi32($c, $d);
        $b = _mm_xor_si128($b, $c);
        $b = _mm_or_si128(_mm_slli_epi32::<12>($b), _mm_srli_epi32::<20>($b));
        $a = _mm_add_epi32($a, $b);
        $d = _mm_shuffle_epi8(_mm_xor_si128($d, $a), $shuffles[1]);
        $c = _mm_add_epi32($c, $d);
        $b = _mm_xor_si128($b, $c);
        $b = _mm_or_si128(_mm_slli_epi32::<7>($b), _mm_srli_epi32::<25>($b));
    };
}

/// The words of a block's initial state, with counter zero.
#[inline(always)]
fn state(key: &[u32; 8], nonce: &[u8; 12]) -> [u32; 16] {
    let n = |i: usize| u32::from_le_bytes([nonce[i], nonce[i + 1], nonce[i + 2], nonce[i + 3]]);
    let ([c0, c1, c2, c3], [k0, k1, k2, k3, k4, k5, k6, k7]) = (CONSTANTS, *key);
    [c0, c1, c2, c3, k0, k1, k2, k3, k4, k5, k6, k7, 0, n(0), n(4), n(8)]
}

/// `W` blocks from `counter`, one row of one block to a vector.
#[inline]
#[target_feature(enable = "ssse3")]
fn rows<const W: usize, B: Between>(
    key: &[u32; 8],
    counter: u32,
    nonce: &[u8; 12],
    out: &mut [Block],
    mut between: B,
) -> B {
    let state = state(key, nonce);
    let row = |i: usize| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| state[4 * i + k] as i32);
        _mm_set_epi32(d, c, b, a)
    };
    let start = [row(0), row(1), row(2), row(3)];
    let mut last = [start[3]; W];
    for (i, last) in last.iter_mut().enumerate() {
        let counter = counter.wrapping_add(i as u32) as i32;
        *last = _mm_add_epi32(*last, _mm_set_epi32(0, 0, 0, counter));
    }
    let mut sets = last.map(|last| [start[0], start[1], start[2], last]);
    let by = shuffles();
    for _ in 0..10 {
        for [a, b, c, d] in &mut sets {
            quarter_round!(*a, *b, *c, *d, by);
        }
        between.step();
        for [_, b, c, d] in &mut sets {
            *b = _mm_shuffle_epi32::<0b00_11_10_01>(*b);
            *c = _mm_shuffle_epi32::<0b01_00_11_10>(*c);
            *d = _mm_shuffle_epi32::<0b10_01_00_11>(*d);
        }
        for [a, b, c, d] in &mut sets {
            quarter_round!(*a, *b, *c, *d, by);
        }
        between.step();
        for [_, b, c, d] in &mut sets {
            *b = _mm_shuffle_epi32::<0b10_01_00_11>(*b);
            *c = _mm_shuffle_epi32::<0b01_00_11_10>(*c);
            *d = _mm_shuffle_epi32::<0b00_11_10_01>(*d);
        }
    }
    for ((set, last), block) in sets.into_iter().zip(last).zip(out) {
        let start = [start[0], start[1], start[2], last];
        for (i, (row, start)) in set.into_iter().zip(start).enumerate() {
            let to = block.as_mut_ptr().cast::<__m128i>();
            // SAFETY: a block has 64 bytes, four vectors.
            unsafe { _mm_storeu_si128(to.add(i), _mm_add_epi32(row, start)) };
        }
    }
    between
}

/// Four blocks from `counter`, one word of each to a vector.
#[inline]
#[target_feature(enable = "ssse3")]
fn words<B: Between>(key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [Block], mut between: B) -> B {
    let state = state(key, nonce);
    let counters = _mm_add_epi32(_mm_set1_epi32(counter as i32), _mm_set_epi32(3, 2, 1, 0));
    let start = |i: usize| if i == 12 { counters } else { _mm_set1_epi32(state[i] as i32) };
    let mut x: [__m128i; 16] =
        core::array::from_fn(|i| if i == 12 { counters } else { _mm_set1_epi32(state[i] as i32) });
    let by = shuffles();
    for _ in 0..10 {
        quarter_round!(x[0], x[4], x[8], x[12], by);
        quarter_round!(x[1], x[5], x[9], x[13], by);
        between.step();
        quarter_round!(x[2], x[6], x[10], x[14], by);
        quarter_round!(x[3], x[7], x[11], x[15], by);
        quarter_round!(x[0], x[5], x[10], x[15], by);
        quarter_round!(x[1], x[6], x[11], x[12], by);
        between.step();
        quarter_round!(x[2], x[7], x[8], x[13], by);
        quarter_round!(x[3], x[4], x[9], x[14], by);
    }
    for i in 0..4 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| _mm_add_epi32(x[4 * i + k], start(4 * i + k)));
        let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
        let (ab_high, cd_high) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
        let parts = [
            _mm_unpacklo_epi64(ab, cd),
            _mm_unpackhi_epi64(ab, cd),
            _mm_unpacklo_epi64(ab_high, cd_high),
            _mm_unpackhi_epi64(ab_high, cd_high),
        ];
        for (block, part) in out.iter_mut().zip(parts) {
            // SAFETY: a block has 64 bytes, four vectors.
            unsafe { _mm_storeu_si128(block.as_mut_ptr().cast::<__m128i>().add(i), part) };
        }
    }
    between
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_matches_scalar_code() {
        let Some(ssse3) = AnySsse3::new(Backend::AesNi) else { return };
        crate::backend::chacha20_rows::tests::is_that_of_the_scalar_code(|key, counter, nonce, out| {
            ssse3.stream(key, counter, nonce, out);
        });
    }
}
