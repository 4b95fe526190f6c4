//! Poly1305 with AVX2, for CPUs without AVX-512 IFMA: four blocks at once, in five limbs of 26
//! bits.
//!
//! Each lane takes every fourth block. Up to four groups of four are multiplied by the powers of r
//! for their distance to the end of the last, with one reduction for all. At the end each lane is
//! multiplied by the power of its place, and the lanes are added.

use super::{
    poly1305::{OPEN, SEAL},
    poly1305_powers::{Part, Table},
};
use crate::backend::portable::poly1305::{Limbs, MASK_44};
use core::arch::{asm, x86_64::*};
use zeroize::Zeroize;

const MASK_26: u64 = (1 << 26) - 1;

type Vectors = [__m256i; 5];

/// A factor, and five times its upper limbs: 2^130 is congruent to 5 modulo 2^130 - 5.
#[repr(C, align(32))]
struct Factor([__m256i; 9]);

/// 26-bit limbs, the fourth with at most one bit more.
pub(super) fn narrow(n: &Limbs) -> [u64; 5] {
    let [a, b, c] = n.0;
    [
        a & MASK_26,
        (a >> 26) + ((b & 0xff) << 18),
        (b >> 8) & MASK_26,
        (b >> 34) + ((c & 0xffff) << 10),
        c >> 16,
    ]
}

/// The inverse of `narrow`, from limbs below 2^30.
fn wide([a, b, c, d, e]: [u64; 5]) -> Limbs {
    let low = a + (b << 26);
    let middle = (low >> 44) + (c << 8) + (d << 34);
    Limbs([low & MASK_44, middle & MASK_44, (middle >> 44) + (e << 16)])
}

impl Drop for Factor {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Factor {
    /// A separate factor for each lane.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn lanes(lanes: &[[u64; 4]; 5]) -> Self {
        // SAFETY: each row has four words.
        let r = [0, 1, 2, 3, 4].map(|i| unsafe { _mm256_loadu_si256(lanes[i].as_ptr().cast()) });
        let five = |x: __m256i| _mm256_add_epi64(x, _mm256_slli_epi64::<2>(x));
        Self([r[0], r[1], r[2], r[3], r[4], five(r[1]), five(r[2]), five(r[3]), five(r[4])])
    }

    /// The same factor for all lanes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn all(words: &[u64; 9]) -> Self {
        Self(words.map(|word| _mm256_set1_epi64x(word as i64)))
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

/// Multiplies the lower halves of each lane of `a` by the factor's limb at byte offset `AT`.
///
/// The compiler treats the intrinsic as a 64-bit multiplication, and emits three 32-bit ones where
/// it does not see that a factor from outside the loop is small. The limb stays in memory, since
/// the registers do not hold all limbs.
#[inline]
#[target_feature(enable = "avx2")]
fn times<const AT: usize>(a: __m256i, factor: &Factor) -> __m256i {
    const { assert!(AT < size_of::<Factor>() && AT.is_multiple_of(32)) };
    let product;
    // SAFETY: one AVX2 instruction, which reads a vector of the factor.
    unsafe {
        asm!("vpmuludq {}, {}, [{} + {}]", out(ymm_reg) product, in(ymm_reg) a, in(reg) factor, const AT,
            options(pure, readonly, nostack, preserves_flags));
    }
    product
}

/// The unreduced product. Limbs of `h` below 2^28 and of the factor below 2^27 give sums below
/// 2^60, of which four fit in 64 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn product(h: Vectors, factor: &Factor) -> Vectors {
    macro_rules! sum {
        ($($limb:literal)*) => {{
            let mut h = h.into_iter();
            let mut sum = _mm256_setzero_si256();
            $(if let Some(limb) = h.next() {
                sum = _mm256_add_epi64(sum, times::<{ 32 * $limb }>(limb, factor));
            })*
            sum
        }};
    }
    [sum!(0 8 7 6 5), sum!(1 0 8 7 6), sum!(2 1 0 8 7), sum!(3 2 1 0 8), sum!(4 3 2 1 0)]
}

/// Carries in two chains at once; leaves 26-bit limbs, two of them slightly larger.
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

/// Four whole blocks with the bit 2^128, in lane order first, third, second, fourth.
#[inline]
#[target_feature(enable = "avx2")]
fn limbs(a: __m256i, b: __m256i) -> Vectors {
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

/// XORs and stores two blocks of payload, and returns the bytes to hash.
///
/// # Safety
/// As for [`groups_of_four`]; 32 bytes from `at` are in the payload.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn two<const WAY: u8, const WIPE: bool>(part: &Part<'_>, at: usize) -> __m256i {
    // SAFETY: guaranteed by the caller; the stream is read before the destination, possibly the
    // source, is written.
    unsafe {
        let x = _mm256_loadu_si256(part.src.add(at).cast());
        if WAY != SEAL && WAY != OPEN {
            return x;
        }
        let pad = part.stream.add(at).cast();
        let y = _mm256_xor_si256(x, _mm256_loadu_si256(pad));
        _mm256_storeu_si256(part.dst.add(at).cast(), y);
        if WIPE {
            _mm256_storeu_si256(pad, _mm256_setzero_si256());
        }
        if WAY == SEAL { y } else { x }
    }
}

/// Continues from `sum` over the first groups of four blocks of a payload.
///
/// # Safety
/// The CPU has AVX2; the part's pointers are valid for `groups` groups, at least one. The table has
/// the powers for a long message.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn groups_of_four<const WAY: u8, const WIPE: bool>(
    table: &Table,
    sum: Limbs,
    part: &Part<'_>,
    groups: usize,
) -> Limbs {
    let mut at = 0;
    let mut next = || {
        at += 64;
        // SAFETY: called once for each group, so both pairs are in the payload.
        unsafe { limbs(two::<WAY, WIPE>(part, at - 64), two::<WAY, WIPE>(part, at - 32)) }
    };
    let [by_4, by_8, by_12, by_16] = [0, 1, 2, 3].map(|i| Factor::all(&table.factors[i]));
    // The sum so far goes into the first block's lane.
    let mut h = narrow(&sum).map(|limb| _mm256_set_epi64x(0, 0, 0, limb as i64));
    // The odd groups come first; the last group has its own powers.
    match (groups - 1) % 4 {
        1 => h = reduced(product(plus(h, next()), &by_4)),
        2 => {
            let first = product(plus(h, next()), &by_8);
            h = reduced(plus(first, product(next(), &by_4)));
        }
        3 => {
            let first = product(plus(h, next()), &by_12);
            let second = plus(first, product(next(), &by_8));
            h = reduced(plus(second, product(next(), &by_4)));
        }
        _ => {}
    }
    for _ in 0..(groups - 1) / 4 {
        let first = next();
        let mut all = product(next(), &by_12);
        all = plus(all, product(next(), &by_8));
        all = plus(all, product(next(), &by_4));
        // The product that depends on the previous groups comes last.
        h = reduced(plus(all, product(plus(h, first), &by_16)));
    }
    let own = Factor::lanes(&table.lanes);
    let h = reduced(product(plus(h, next()), &own));
    wide(h.map(|limb| {
        let both = _mm_add_epi64(_mm256_castsi256_si128(limb), _mm256_extracti128_si256::<1>(limb));
        (_mm_cvtsi128_si64(both) as u64).wrapping_add(_mm_extract_epi64::<1>(both) as u64)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::portable::poly1305::finish;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn limb_widths_convert_both_ways(a in 0u64..1 << 44, b in 0u64..1 << 45, c in 0u64..1 << 42) {
            let n = Limbs([a, b, c]);
            prop_assert_eq!(finish(&wide(narrow(&n)), &[0; 16]), finish(&n, &[0; 16]));
        }
    }
}
