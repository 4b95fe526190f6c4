//! Poly1305 with AVX2, for CPUs without AVX-512 IFMA: four blocks at once, in five limbs of 26 bits.
//!
//! A lane of a vector has every fourth block. All lanes are multiplied by r^4 for the next four blocks, or two groups of four by
//! r^8 and r^4 with one reduction for both; at the end each lane meets the power of its own place, and the lanes are added.

use super::chacha20_avx2::Avx2;
use crate::backend::portable::poly1305::{Limbs, MASK_44};
use core::arch::{asm, x86_64::*};
use zeroize::Zeroize;

const MASK_26: u64 = (1 << 26) - 1;
/// Shorter messages are not worth the powers, nor waking the upper halves of the vectors.
pub(crate) const WORTH: usize = 512;

type Vectors = [__m256i; 5];

/// A factor, and five times its upper limbs: 2^130 is 5 modulo 2^130 - 5.
struct Factor {
    r: Vectors,
    s: [__m256i; 4],
}

/// Limbs of 26 bits, the fourth of at most one bit more.
fn narrow(n: &Limbs) -> [u64; 5] {
    let [a, b, c] = n.0;
    [
        a & MASK_26,
        (a >> 26) + ((b & 0xff) << 18),
        (b >> 8) & MASK_26,
        (b >> 34) + ((c & 0xffff) << 10),
        c >> 16,
    ]
}

/// The way back, from limbs below 2^30.
fn wide([a, b, c, d, e]: [u64; 5]) -> Limbs {
    let low = a + (b << 26);
    let middle = (low >> 44) + (c << 8) + (d << 34);
    Limbs([low & MASK_44, middle & MASK_44, (middle >> 44) + (e << 16)])
}

impl Drop for Factor {
    fn drop(&mut self) {
        self.r.zeroize();
        self.s.zeroize();
    }
}

impl Factor {
    /// A factor for each lane.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn lanes(lanes: [&Limbs; 4]) -> Self {
        let [a, b, c, d] = lanes.map(narrow);
        let limb = |i: usize| _mm256_set_epi64x(d[i] as i64, c[i] as i64, b[i] as i64, a[i] as i64);
        Self::new([limb(0), limb(1), limb(2), limb(3), limb(4)])
    }

    /// The same factor for all lanes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn all(limbs: &Limbs) -> Self {
        let n = narrow(limbs);
        let limb = |i: usize| _mm256_set1_epi64x(n[i] as i64);
        Self::new([limb(0), limb(1), limb(2), limb(3), limb(4)])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(r: Vectors) -> Self {
        let five = |x: __m256i| _mm256_add_epi64(x, _mm256_slli_epi64::<2>(x));
        Self { r, s: [five(r[1]), five(r[2]), five(r[3]), five(r[4])] }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn plus(a: Vectors, b: Vectors) -> Vectors {
    [
        _mm256_add_epi64(a[0], b[0]),
        _mm256_add_epi64(a[1], b[1]),
        _mm256_add_epi64(a[2], b[2]),
        _mm256_add_epi64(a[3], b[3]),
        _mm256_add_epi64(a[4], b[4]),
    ]
}

/// The products of the lower halves of each lane.
///
/// The intrinsic is a multiplication of 64 bits to the compiler, which takes three of 32 bits where it lost sight of how small a
/// factor from outside the loop is.
#[inline]
#[target_feature(enable = "avx2")]
fn times(a: __m256i, b: __m256i) -> __m256i {
    let product;
    // SAFETY: one instruction of AVX2 between registers.
    unsafe {
        asm!("vpmuludq {}, {}, {}", out(ymm_reg) product, in(ymm_reg) a, in(ymm_reg) b,
            options(pure, nomem, nostack, preserves_flags));
    }
    product
}

/// The unreduced product. Limbs of `h` below 2^29 and of the factor below 2^27 give sums below 2^61.
#[inline]
#[target_feature(enable = "avx2")]
fn product(h: Vectors, factor: &Factor) -> Vectors {
    let Factor { r, s } = factor;
    let sum = |k: [__m256i; 5]| {
        let by = |i: usize| times(h[i], k[i]);
        let (a, b) = (_mm256_add_epi64(by(0), by(1)), _mm256_add_epi64(by(2), by(3)));
        _mm256_add_epi64(_mm256_add_epi64(a, b), by(4))
    };
    [
        sum([r[0], s[3], s[2], s[1], s[0]]),
        sum([r[1], r[0], s[3], s[2], s[1]]),
        sum([r[2], r[1], r[0], s[3], s[2]]),
        sum([r[3], r[2], r[1], r[0], s[3]]),
        sum([r[4], r[3], r[2], r[1], r[0]]),
    ]
}

/// Carries in two chains at once; leaves limbs of 26 bits, two of them with a bit more.
#[inline]
#[target_feature(enable = "avx2")]
fn reduced(d: Vectors) -> Vectors {
    let mask = _mm256_set1_epi64x(MASK_26 as i64);
    let [mut d0, mut d1, mut d2, mut d3, mut d4] = d;
    d1 = _mm256_add_epi64(d1, _mm256_srli_epi64::<26>(d0));
    d4 = _mm256_add_epi64(d4, _mm256_srli_epi64::<26>(d3));
    d0 = _mm256_and_si256(d0, mask);
    d3 = _mm256_and_si256(d3, mask);
    d2 = _mm256_add_epi64(d2, _mm256_srli_epi64::<26>(d1));
    let over = _mm256_srli_epi64::<26>(d4);
    d0 = _mm256_add_epi64(d0, _mm256_add_epi64(over, _mm256_slli_epi64::<2>(over)));
    d1 = _mm256_and_si256(d1, mask);
    d4 = _mm256_and_si256(d4, mask);
    d3 = _mm256_add_epi64(d3, _mm256_srli_epi64::<26>(d2));
    d1 = _mm256_add_epi64(d1, _mm256_srli_epi64::<26>(d0));
    d2 = _mm256_and_si256(d2, mask);
    d0 = _mm256_and_si256(d0, mask);
    d4 = _mm256_add_epi64(d4, _mm256_srli_epi64::<26>(d3));
    d3 = _mm256_and_si256(d3, mask);
    [d0, d1, d2, d3, d4]
}

/// Four whole blocks, each with the bit 2^128: the first, the third, the second and the fourth, lane by lane.
#[inline]
#[target_feature(enable = "avx2")]
fn load(four: &[u8; 64]) -> Vectors {
    // SAFETY: there are 64 bytes.
    let (a, b) = unsafe {
        (_mm256_loadu_si256(four.as_ptr().cast()), _mm256_loadu_si256(four.as_ptr().add(32).cast()))
    };
    let (low, high) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    let mask = _mm256_set1_epi64x(MASK_26 as i64);
    let middle = _mm256_or_si256(_mm256_srli_epi64::<52>(low), _mm256_slli_epi64::<12>(high));
    [
        _mm256_and_si256(low, mask),
        _mm256_and_si256(_mm256_srli_epi64::<26>(low), mask),
        _mm256_and_si256(middle, mask),
        _mm256_and_si256(_mm256_srli_epi64::<14>(high), mask),
        _mm256_or_si256(_mm256_srli_epi64::<40>(high), _mm256_set1_epi64x(1 << 24)),
    ]
}

impl Avx2 {
    /// Goes on from `sum` over groups of four whole blocks. `powers` are r to r^4.
    pub(crate) fn poly1305(self, powers: [&Limbs; 4], sum: Limbs, fours: &[[u8; 64]]) -> Limbs {
        // SAFETY: `self` is the proof.
        unsafe { run(powers, sum, fours) }
    }
}

/// # Safety
/// The CPU has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn run([one, two, three, four]: [&Limbs; 4], sum: Limbs, fours: &[[u8; 64]]) -> Limbs {
    let Some((last, before)) = fours.split_last() else { return sum };
    let by_four = Factor::all(four);
    let by_eight = Factor::all(&four.times(four));
    // The sum so far is in the first block's lane.
    let mut h = narrow(&sum).map(|limb| _mm256_set_epi64x(0, 0, 0, limb as i64));
    let (pairs, single) = before.as_chunks::<2>();
    for [a, b] in pairs {
        h = reduced(plus(product(plus(h, load(a)), &by_eight), product(load(b), &by_four)));
    }
    for a in single {
        h = reduced(product(plus(h, load(a)), &by_four));
    }
    let own = Factor::lanes([four, two, three, one]);
    let h = reduced(product(plus(h, load(last)), &own));
    wide(h.map(|limb| {
        let both = _mm_add_epi64(_mm256_castsi256_si128(limb), _mm256_extracti128_si256::<1>(limb));
        (_mm_cvtsi128_si64(both) as u64).wrapping_add(_mm_extract_epi64::<1>(both) as u64)
    }))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::{
        Backend,
        backend::portable::poly1305::{Poly1305, finish, higher},
    };
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn wide_vectors_are_blocks_in_turn(
            r: [u8; 16],
            before: [u8; 16],
            octets in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..1600),
                (0usize..1600).prop_map(|len| std::vec![0xff; len]),
            ],
        ) {
            let Some(avx2) = Avx2::new(Backend::AesNi) else { return Ok(()) };
            let r = Limbs::clamped(&r);
            let [two, three, four] = higher(&r);
            let mut slow = Poly1305::new(&r);
            slow.block(&before);
            let begun = slow.value();
            let (fours, _) = octets.as_chunks::<64>();
            fours.as_flattened().as_chunks::<16>().0.iter().for_each(|block| slow.block(block));
            let fast = avx2.poly1305([&r, &two, &three, &four], begun, fours);
            prop_assert_eq!(finish(&fast, &[7; 16]), finish(&slow.value(), &[7; 16]));
        }

        #[test]
        fn limbs_of_both_widths_are_the_same_number(a in 0u64..1 << 44, b in 0u64..1 << 45, c in 0u64..1 << 42) {
            let n = Limbs([a, b, c]);
            prop_assert_eq!(finish(&wide(narrow(&n)), &[0; 16]), finish(&n, &[0; 16]));
        }
    }
}
