//! Poly1305 (RFC 8439 section 2.5) in Advanced SIMD vectors: 26-bit limbs, two accumulators at
//! once, one for the even blocks and one for the odd.

use crate::backend::portable::poly1305::{Limbs, MASK_44, Poly1305};
use core::arch::aarch64::*;
use zeroize::Zeroize;

const MASK: u64 = (1 << 26) - 1;

/// Adds blocks in groups of four. `higher` holds the powers of r from r^2.
///
/// [`Poly1305`] takes the last four blocks and joins the two accumulators. The odd accumulator has
/// one factor r too many, so it is multiplied by r^3 there, and the even one by r^4.
pub(crate) fn fours(poly: &mut Poly1305, fours: &[[u8; 64]], higher: &[Limbs; 3]) {
    match fours.split_last() {
        Some((last, most)) if most.len() >= 2 => {
            // SAFETY: the target has Advanced SIMD.
            let (even, odd) = unsafe { run(&poly.value(), &higher[2], &higher[0], most) };
            poly.four_after(&even, &odd, last, higher);
        }
        _ => fours.iter().for_each(|four| poly.four(four, higher)),
    }
}

/// 26-bit limbs; the last also holds the bits above 2^130.
fn narrow(n: &Limbs) -> [u32; 5] {
    let [a, b, c] = n.0;
    // Bits above a 44-bit limb carry into the next.
    let (b, c) = (b + (a >> 44), c + ((b + (a >> 44)) >> 44));
    let (a, b) = (a & MASK_44, b & MASK_44);
    [a & MASK, (a >> 26 | b << 18) & MASK, b >> 8 & MASK, (b >> 34 | c << 10) & MASK, c >> 16]
        .map(|limb| limb as u32)
}

/// 44-bit limbs from limbs below 2^32.
fn wide([a, b, c, d, e]: [u64; 5]) -> Limbs {
    let (low, middle) = (a + (b << 26), c + (d << 26));
    // `middle` weighs 2^52.
    let second = (low >> 44) + ((middle << 8) & MASK_44);
    Limbs([low & MASK_44, second, (middle >> 36) + (e << 16)])
}

/// A power of r: its limbs, and five times all but the first.
fn factors(power: &Limbs) -> ([u32; 8], u32) {
    let [a, b, c, d, e] = narrow(power);
    ([a, b, c, d, e, 5 * b, 5 * c, 5 * d], 5 * e)
}

/// Accumulates the even and the odd blocks, starting from `sum`.
#[inline(never)]
#[target_feature(enable = "neon")]
fn run(sum: &Limbs, fourth: &Limbs, second: &Limbs, fours: &[[u8; 64]]) -> (Limbs, Limbs) {
    let ((mut four, four_last), (mut two, two_last)) = (factors(fourth), factors(second));
    let mut last = [four_last, two_last, 0, 0];
    // SAFETY: each pointer is valid for as many words as are loaded.
    let powers = unsafe {
        let load = |words: *const u32| vld1q_u32(words);
        [
            load(four.as_ptr()),
            load(four.as_ptr().add(4)),
            load(two.as_ptr()),
            load(two.as_ptr().add(4)),
            load(last.as_ptr()),
        ]
    };
    four.zeroize();
    two.zeroize();
    last.zeroize();
    let mut h = narrow(sum).map(|limb| vcombine_u64(vcreate_u64(limb.into()), vcreate_u64(0)));
    for blocks in fours {
        // SAFETY: the group has 64 bytes.
        let (first, rest) = unsafe { (pair(blocks.as_ptr()), pair(blocks.as_ptr().add(32))) };
        let sums: [uint32x2_t; 5] = core::array::from_fn(|i| vmovn_u64(vaddq_u64(h[i], first[i])));
        h = carried(products(sums, rest.map(|limb| vmovn_u64(limb)), powers));
    }
    let lane = |h: &[uint64x2_t; 5]| {
        (h.map(|limb| vgetq_lane_u64::<0>(limb)), h.map(|limb| vgetq_lane_u64::<1>(limb)))
    };
    let (even, odd) = lane(&h);
    (wide(even), wide(odd))
}

/// Two blocks as numbers, with the bit 2^128.
///
/// # Safety
/// `at` is valid for 32 bytes.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn pair(at: *const u8) -> [uint64x2_t; 5] {
    // Loads bytes, so no alignment is required even where the CPU checks it.
    // SAFETY: guaranteed by the caller.
    let (one, other) = unsafe { (vld1q_u8(at), vld1q_u8(at.add(16))) };
    let (one, other) = (vreinterpretq_u64_u8(one), vreinterpretq_u64_u8(other));
    let (low, high) = (vtrn1q_u64(one, other), vtrn2q_u64(one, other));
    let mask = vdupq_n_u64(MASK);
    [
        vandq_u64(low, mask),
        vandq_u64(vshrq_n_u64::<26>(low), mask),
        vandq_u64(vsliq_n_u64::<12>(vshrq_n_u64::<52>(low), high), mask),
        vandq_u64(vshrq_n_u64::<14>(high), mask),
        vorrq_u64(vshrq_n_u64::<40>(high), vdupq_n_u64(1 << 24)),
    ]
}

/// `a r^4 + b r^2`. 2^130 is congruent to 5, which folds the upper products down.
#[inline]
#[target_feature(enable = "neon")]
fn products(a: [uint32x2_t; 5], b: [uint32x2_t; 5], powers: [uint32x4_t; 5]) -> [uint64x2_t; 5] {
    let [p, q, v, w, last] = powers;
    /// Multiplies a limb by a limb of a power, or by five times that limb where the product is
    /// folded.
    macro_rules! add {
        ($d:expr, $h:ident, $low:ident, $high:ident, $last:literal; $(($i:literal, $j:tt)),*) => {
            $( $d = add!(@ $j, $d, $h[$i], $low, $high, $last); )*
        };
        (@ 0, $d:expr, $h:expr, $low:ident, $high:ident, $last:literal) => { vmlal_laneq_u32::<0>($d, $h, $low) };
        (@ 1, $d:expr, $h:expr, $low:ident, $high:ident, $last:literal) => { vmlal_laneq_u32::<1>($d, $h, $low) };
        (@ 2, $d:expr, $h:expr, $low:ident, $high:ident, $last:literal) => { vmlal_laneq_u32::<2>($d, $h, $low) };
        (@ 3, $d:expr, $h:expr, $low:ident, $high:ident, $last:literal) => { vmlal_laneq_u32::<3>($d, $h, $low) };
        (@ 4, $d:expr, $h:expr, $low:ident, $high:ident, $last:literal) => { vmlal_laneq_u32::<0>($d, $h, $high) };
        (@ s1, $d:expr, $h:expr, $low:ident, $high:ident, $last:literal) => { vmlal_laneq_u32::<1>($d, $h, $high) };
        (@ s2, $d:expr, $h:expr, $low:ident, $high:ident, $last:literal) => { vmlal_laneq_u32::<2>($d, $h, $high) };
        (@ s3, $d:expr, $h:expr, $low:ident, $high:ident, $last:literal) => { vmlal_laneq_u32::<3>($d, $h, $high) };
        (@ s4, $d:expr, $h:expr, $low:ident, $high:ident, $last:literal) => { vmlal_laneq_u32::<$last>($d, $h, last) };
    }
    let mut d = [vdupq_n_u64(0); 5];
    macro_rules! number {
        ($h:ident, $low:ident, $high:ident, $last:literal) => {
            add!(d[0], $h, $low, $high, $last; (0, 0), (1, s4), (2, s3), (3, s2), (4, s1));
            add!(d[1], $h, $low, $high, $last; (0, 1), (1, 0), (2, s4), (3, s3), (4, s2));
            add!(d[2], $h, $low, $high, $last; (0, 2), (1, 1), (2, 0), (3, s4), (4, s3));
            add!(d[3], $h, $low, $high, $last; (0, 3), (1, 2), (2, 1), (3, 0), (4, s4));
            add!(d[4], $h, $low, $high, $last; (0, 4), (1, 3), (2, 2), (3, 1), (4, 0));
        };
    }
    // Products that do not depend on the sum come first.
    number!(b, v, w, 1);
    number!(a, p, q, 0);
    d
}

/// Limbs of slightly more than 26 bits. Two sums of five products of at most 28 and 29 bits are
/// below 2^61.
#[inline]
#[target_feature(enable = "neon")]
fn carried([d0, d1, d2, d3, d4]: [uint64x2_t; 5]) -> [uint64x2_t; 5] {
    let mask = vdupq_n_u64(MASK);
    let d1 = vsraq_n_u64::<26>(d1, d0);
    let d4 = vsraq_n_u64::<26>(d4, d3);
    let d2 = vsraq_n_u64::<26>(d2, d1);
    // Five times the part above, by shift and add: there is no 64-bit product.
    let four_times = vbicq_u64(vshrq_n_u64::<24>(d4), vdupq_n_u64(3));
    let d0 = vaddq_u64(vsraq_n_u64::<26>(vandq_u64(d0, mask), d4), four_times);
    let d3 = vsraq_n_u64::<26>(vandq_u64(d3, mask), d2);
    let d1 = vsraq_n_u64::<26>(vandq_u64(d1, mask), d0);
    let d4 = vsraq_n_u64::<26>(vandq_u64(d4, mask), d3);
    [vandq_u64(d0, mask), d1, vandq_u64(d2, mask), vandq_u64(d3, mask), d4]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::portable::poly1305::{finish, higher};
    use core::array;

    #[test]
    fn four_blocks_match_single_blocks() {
        for (r, octets) in [(0xf7, 0x1d), (0xff, 0xff), (0, 0x80), (0x55, 0)] {
            let r = Limbs::clamped(&array::from_fn(|i| r ^ (31 * i) as u8));
            let higher = higher(&r);
            let blocks: [[u8; 64]; 40] = array::from_fn(|k| {
                array::from_fn(|i| if octets == 0xff { 0xff } else { (octets * (k + 1) * (i | 1)) as u8 })
            });
            for len in 0..blocks.len() {
                let (mut fast, mut slow) = (Poly1305::new(&r), Poly1305::new(&r));
                for poly in [&mut fast, &mut slow] {
                    poly.block(&[0xff; 16]);
                }
                fours(&mut fast, &blocks[..len], &higher);
                blocks[..len].as_flattened().as_chunks().0.iter().for_each(|block| slow.block(block));
                assert_eq!(finish(&fast.value(), &[7; 16]), finish(&slow.value(), &[7; 16]), "{len}");
            }
        }
    }

    #[test]
    fn largest_limbs_are_carried() {
        for limbs in [[MASK; 5], [MASK << 6; 5], [0, 0, 0, 0, 1], [MASK + 4096, 1, MASK, 3, MASK + 9]] {
            let big = |limbs: &[u64], bits: u32| {
                // Modulo 2^130 - 5, by Horner's rule on 130-bit numbers: the tag with s = 0, from
                // words.
                let mut poly = Limbs::default();
                for limb in limbs.iter().rev() {
                    let shift = Limbs([1 << bits, 0, 0]);
                    poly = poly.times(&shift).plus(&Limbs([limb & MASK_44, limb >> 44, 0]));
                }
                finish(&poly, &[0; 16])
            };
            let back = wide(limbs);
            assert_eq!(finish(&back, &[0; 16]), big(&limbs, 26));
            assert_eq!(big(&narrow(&back).map(u64::from), 26), finish(&back, &[0; 16]));
        }
    }
}
