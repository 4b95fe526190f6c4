//! ChaCha20 (RFC 8439 section 2.3) with AVX2, for CPUs that lack what the AVX-512 backend asks for: a vector holds the same row of two
//! blocks' states. Where there is AVX-512F, long streams are made with it all the same.

use super::chacha20poly1305::uninit;
use crate::{Backend, backend::portable::chacha20::CONSTANTS};
use core::arch::x86_64::*;

/// The proof that the CPU has AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Avx2 {
    /// AVX-512F too, as the first server CPUs with it have it, without what [`Backend::Avx512`] asks for.
    avx512f: bool,
}

/// Blocks that are made at a time.
const BATCH: usize = 8;
/// Blocks from which on the widest vectors are worth what their first use costs.
const WIDE: usize = 9;

impl Avx2 {
    /// For a backend that has no kernels of its own for this cipher.
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        let (avx2, avx512f) = super::has_avx2_and_avx512f();
        (backend == Backend::AesNi && avx2).then_some(Self { avx512f })
    }

    /// Cipherstream from block `counter` on; `out` is a whole number of blocks.
    pub(crate) fn stream(self, key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [u8]) {
        let mut counter = counter;
        if self.avx512f && out.len() >= WIDE * 64 {
            // SAFETY: `self` is the proof.
            return unsafe { super::chacha20::stream(key, counter, nonce, uninit(out)) };
        }
        for part in out.as_chunks_mut::<64>().0.chunks_mut(BATCH) {
            // SAFETY: `self` is the proof.
            unsafe {
                match part.len() {
                    0..=2 => blocks::<1>(key, counter, nonce, part),
                    3..=4 => blocks::<2>(key, counter, nonce, part),
                    _ => blocks::<4>(key, counter, nonce, part),
                }
            }
            counter = counter.wrapping_add(BATCH as u32);
        }
    }
}

/// Four rows of two blocks each.
type Rows = [__m256i; 4];

#[inline]
#[target_feature(enable = "avx2")]
fn rotated<const BITS: i32, const REST: i32>(x: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_slli_epi32::<BITS>(x), _mm256_srli_epi32::<REST>(x))
}

#[inline]
#[target_feature(enable = "avx2")]
fn quarter_rounds<const W: usize>(sets: &mut [Rows; W]) {
    // Rotations by whole bytes are one shuffle.
    let by_16 = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0d0c_0f0e_0908_0b0a, 0x0504_0706_0100_0302));
    let by_8 = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0e0d_0c0f_0a09_080b, 0x0605_0407_0201_0003));
    for [a, b, c, d] in sets.iter_mut() {
        *a = _mm256_add_epi32(*a, *b);
        *d = _mm256_shuffle_epi8(_mm256_xor_si256(*d, *a), by_16);
        *c = _mm256_add_epi32(*c, *d);
        *b = rotated::<12, 20>(_mm256_xor_si256(*b, *c));
        *a = _mm256_add_epi32(*a, *b);
        *d = _mm256_shuffle_epi8(_mm256_xor_si256(*d, *a), by_8);
        *c = _mm256_add_epi32(*c, *d);
        *b = rotated::<7, 25>(_mm256_xor_si256(*b, *c));
    }
}

/// Up to `2 W` blocks from `counter` on.
///
/// # Safety
/// The CPU has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn blocks<const W: usize>(key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [[u8; 64]]) {
    let row = |w: [u32; 4]| {
        _mm256_broadcastsi128_si256(_mm_set_epi32(w[3] as i32, w[2] as i32, w[1] as i32, w[0] as i32))
    };
    let [k0, k1, k2, k3, k4, k5, k6, k7] = *key;
    let n = |i: usize| u32::from_le_bytes([nonce[i], nonce[i + 1], nonce[i + 2], nonce[i + 3]]);
    let each = _mm256_set_epi32(0, 0, 0, 1, 0, 0, 0, 0);
    let mut start = [[_mm256_setzero_si256(); 4]; W];
    for (i, set) in start.iter_mut().enumerate() {
        let counters = row([counter.wrapping_add(2 * i as u32), n(0), n(4), n(8)]);
        *set =
            [row(CONSTANTS), row([k0, k1, k2, k3]), row([k4, k5, k6, k7]), _mm256_add_epi32(counters, each)];
    }
    let mut sets = start;
    for _ in 0..10 {
        quarter_rounds(&mut sets);
        for [_, b, c, d] in &mut sets {
            *b = _mm256_shuffle_epi32::<0b00_11_10_01>(*b);
            *c = _mm256_shuffle_epi32::<0b01_00_11_10>(*c);
            *d = _mm256_shuffle_epi32::<0b10_01_00_11>(*d);
        }
        quarter_rounds(&mut sets);
        for [_, b, c, d] in &mut sets {
            *b = _mm256_shuffle_epi32::<0b10_01_00_11>(*b);
            *c = _mm256_shuffle_epi32::<0b01_00_11_10>(*c);
            *d = _mm256_shuffle_epi32::<0b00_11_10_01>(*d);
        }
    }
    for ((set, start), out) in sets.iter().zip(&start).zip(out.chunks_mut(2)) {
        let [a, b, c, d]: Rows = core::array::from_fn(|i| _mm256_add_epi32(set[i], start[i]));
        // Lane j of row i becomes lane i of block j.
        let whole = [
            [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x20>(c, d)],
            [_mm256_permute2x128_si256::<0x31>(a, b), _mm256_permute2x128_si256::<0x31>(c, d)],
        ];
        for (bytes, [low, high]) in out.iter_mut().zip(whole) {
            let at = bytes.as_mut_ptr();
            // SAFETY: a block has 64 bytes.
            unsafe {
                _mm256_storeu_si256(at.cast(), low);
                _mm256_storeu_si256(at.add(32).cast(), high);
            }
        }
    }
}
