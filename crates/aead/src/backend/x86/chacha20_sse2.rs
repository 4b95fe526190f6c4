//! ChaCha20 (RFC 8439 section 2.3) with SSE2, which every x86-64 CPU has: a vector holds a row of a block's state.

use crate::backend::portable::chacha20::CONSTANTS;
use core::arch::x86_64::*;

/// Blocks that are made at a time: so many rows as there are registers.
const BATCH: usize = 4;

/// Four rows of a block.
type Rows = [__m128i; 4];

/// Cipherstream from block `counter` on; `out` is a whole number of blocks.
pub(crate) fn stream(key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [u8]) {
    let mut counter = counter;
    for part in out.as_chunks_mut::<64>().0.chunks_mut(BATCH) {
        // SAFETY: every x86-64 CPU has SSE2.
        unsafe {
            match part.len() {
                1 => blocks::<1>(key, counter, nonce, part),
                2 => blocks::<2>(key, counter, nonce, part),
                3 => blocks::<3>(key, counter, nonce, part),
                _ => blocks::<4>(key, counter, nonce, part),
            }
        }
        counter = counter.wrapping_add(BATCH as u32);
    }
}

#[inline]
#[target_feature(enable = "sse2")]
fn rotated<const BITS: i32, const REST: i32>(x: __m128i) -> __m128i {
    _mm_or_si128(_mm_slli_epi32::<BITS>(x), _mm_srli_epi32::<REST>(x))
}

/// By 16: the halves of each word change places.
#[inline]
#[target_feature(enable = "sse2")]
fn by_16(x: __m128i) -> __m128i {
    _mm_shufflehi_epi16::<0b10_11_00_01>(_mm_shufflelo_epi16::<0b10_11_00_01>(x))
}

#[inline]
#[target_feature(enable = "sse2")]
fn quarter_rounds<const W: usize>(sets: &mut [Rows; W]) {
    for [a, b, c, d] in sets.iter_mut() {
        *a = _mm_add_epi32(*a, *b);
        *d = by_16(_mm_xor_si128(*d, *a));
        *c = _mm_add_epi32(*c, *d);
        *b = rotated::<12, 20>(_mm_xor_si128(*b, *c));
        *a = _mm_add_epi32(*a, *b);
        *d = rotated::<8, 24>(_mm_xor_si128(*d, *a));
        *c = _mm_add_epi32(*c, *d);
        *b = rotated::<7, 25>(_mm_xor_si128(*b, *c));
    }
}

/// `W` blocks from `counter` on.
#[inline]
#[target_feature(enable = "sse2")]
fn blocks<const W: usize>(key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [[u8; 64]]) {
    let row = |w: [u32; 4]| _mm_set_epi32(w[3] as i32, w[2] as i32, w[1] as i32, w[0] as i32);
    let [k0, k1, k2, k3, k4, k5, k6, k7] = *key;
    let n = |i: usize| u32::from_le_bytes([nonce[i], nonce[i + 1], nonce[i + 2], nonce[i + 3]]);
    let start: [Rows; W] = core::array::from_fn(|i| {
        let last = row([counter.wrapping_add(i as u32), n(0), n(4), n(8)]);
        [row(CONSTANTS), row([k0, k1, k2, k3]), row([k4, k5, k6, k7]), last]
    });
    let mut sets = start;
    for _ in 0..10 {
        quarter_rounds(&mut sets);
        for [_, b, c, d] in &mut sets {
            *b = _mm_shuffle_epi32::<0b00_11_10_01>(*b);
            *c = _mm_shuffle_epi32::<0b01_00_11_10>(*c);
            *d = _mm_shuffle_epi32::<0b10_01_00_11>(*d);
        }
        quarter_rounds(&mut sets);
        for [_, b, c, d] in &mut sets {
            *b = _mm_shuffle_epi32::<0b10_01_00_11>(*b);
            *c = _mm_shuffle_epi32::<0b01_00_11_10>(*c);
            *d = _mm_shuffle_epi32::<0b00_11_10_01>(*d);
        }
    }
    for ((set, start), block) in sets.iter().zip(&start).zip(out) {
        let at = block.as_mut_ptr();
        for (i, (row, first)) in set.iter().zip(start).enumerate() {
            // SAFETY: a block has 64 bytes, which are four vectors.
            unsafe { _mm_storeu_si128(at.add(16 * i).cast(), _mm_add_epi32(*row, *first)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::portable::chacha20;

    #[test]
    fn the_stream_is_that_of_the_scalar_code_of_any_length_and_over_the_counters_end() {
        let key = core::array::from_fn(|i| 0x1234_5678u32.wrapping_mul(i as u32 + 1));
        for blocks in 0..14 {
            for counter in [0, 1, u32::MAX - 2] {
                let (mut ours, mut scalar) = ([0; 64 * 14], [0; 64 * 14]);
                super::stream(&key, counter, b"twelve bytes", &mut ours[..64 * blocks]);
                chacha20::stream(&key, counter, b"twelve bytes", &mut scalar[..64 * blocks]);
                assert_eq!(ours, scalar, "{blocks} blocks from {counter}");
            }
        }
    }
}
