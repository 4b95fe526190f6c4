//! GHASH with PMULL, the carry-less product of two words. Powers have the form of
//! [`portable::ghash`](crate::backend::portable::ghash).

use super::Extension;
use crate::backend::portable::ghash::{FOLD, Power, Powers};
use core::arch::aarch64::{
    uint8x16_t, vcombine_u64, vcreate_u64, veorq_u8, vextq_u8, vgetq_lane_p64, vgetq_lane_u64, vld1q_u8,
    vmull_high_p64, vmull_p64, vreinterpretq_p64_u8, vreinterpretq_u8_p128, vreinterpretq_u8_u64,
    vreinterpretq_u64_u8, vrev64q_u8,
};

impl Extension {
    /// The carry-less product of two words.
    pub(crate) fn multiply(self, a: u64, b: u64) -> u128 {
        // SAFETY: the extension is present.
        unsafe { product(a, b) }
    }

    /// The unfolded products of a block and a power: the parts at 1 and at x^64.
    pub(crate) fn products(self, block: u128, power: &Power) -> (u128, u128) {
        // SAFETY: the extension is present.
        unsafe {
            let (a, b) = products(vector(block), Factors::of(power));
            (number(a), number(b))
        }
    }

    /// Continues a hash over these blocks.
    pub(crate) fn hash(self, powers: &Powers, sum: u128, blocks: &[[u8; 16]]) -> u128 {
        // SAFETY: the extension is present.
        unsafe { hash(powers, vector(sum), blocks) }
    }
}

/// The lower words of G' and G, and their upper words. Each is multiplied by the block's word in
/// the same place.
#[derive(Clone, Copy)]
struct Factors {
    lower: uint8x16_t,
    upper: uint8x16_t,
}

impl Factors {
    #[target_feature(enable = "aes")]
    fn of(power: &Power) -> Self {
        let pair = |low: u64, high: u64| vector(u128::from(low) | u128::from(high) << 64);
        Self {
            lower: pair(power.low as u64, power.high as u64),
            upper: pair((power.low >> 64) as u64, (power.high >> 64) as u64),
        }
    }
}

#[target_feature(enable = "aes")]
fn product(a: u64, b: u64) -> u128 {
    vmull_p64(a, b)
}

#[target_feature(enable = "aes")]
fn products(block: uint8x16_t, factors: Factors) -> (uint8x16_t, uint8x16_t) {
    (both(block, factors.lower), both(block, factors.upper))
}

/// The sum of the products of corresponding words.
#[target_feature(enable = "aes")]
fn both(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
    let (a, b) = (vreinterpretq_p64_u8(a), vreinterpretq_p64_u8(b));
    let low = vmull_p64(vgetq_lane_p64::<0>(a), vgetq_lane_p64::<0>(b));
    veorq_u8(vreinterpretq_u8_p128(low), vreinterpretq_u8_p128(vmull_high_p64(a, b)))
}

#[target_feature(enable = "aes")]
fn hash(powers: &Powers, mut sum: uint8x16_t, blocks: &[[u8; 16]]) -> u128 {
    let fold = vector(FOLD.into());
    let folded = |(at_0, at_64)| veorq_u8(veorq_u8(at_64, turned(at_0)), both(at_0, fold));
    let one = Factors::of(&powers.h);
    let (fours, rest) = blocks.as_chunks::<4>();
    if !fours.is_empty() {
        let [two, three, four] = &powers.higher;
        let factors = [Factors::of(four), Factors::of(three), Factors::of(two), one];
        for [first, others @ ..] in fours {
            // One fold for four independent products.
            let mut sums = products(veorq_u8(sum, read(first)), factors[0]);
            for (block, factors) in others.iter().zip(&factors[1..]) {
                let (at_0, at_64) = products(read(block), *factors);
                sums = (veorq_u8(sums.0, at_0), veorq_u8(sums.1, at_64));
            }
            sum = folded(sums);
        }
    }
    for block in rest {
        sum = folded(products(veorq_u8(sum, read(block)), one));
    }
    number(sum)
}

/// A block as a number, most significant byte first in memory.
#[target_feature(enable = "neon")]
fn read(block: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the buffer has 16 bytes.
    turned(vrev64q_u8(unsafe { vld1q_u8(block.as_ptr()) }))
}

/// Swaps the words.
#[target_feature(enable = "neon")]
fn turned(v: uint8x16_t) -> uint8x16_t {
    vextq_u8::<8>(v, v)
}

#[target_feature(enable = "neon")]
fn vector(n: u128) -> uint8x16_t {
    vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(n as u64), vcreate_u64((n >> 64) as u64)))
}

#[target_feature(enable = "neon")]
fn number(v: uint8x16_t) -> u128 {
    let v = vreinterpretq_u64_u8(v);
    u128::from(vgetq_lane_u64::<0>(v)) | u128::from(vgetq_lane_u64::<1>(v)) << 64
}
