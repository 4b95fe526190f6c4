//! Holes of ChaCha20-Poly1305 on 64-bit CPUs: six word products for each hole.
//!
//! A 16-byte block is two words `a + 2^64 b`. A weight w, a power of r, is stored as w and 2^64 w,
//! both modulo 2^130 - 5 and in whole words. `a w + b (2^64 w)` then needs no shift before it and a
//! single reduction after it.

use super::poly1305::{self, Limbs};
use zeroize::{Zeroize, optimization_barrier};

/// A number, and 2^64 times it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Weight {
    low: [u64; 2],
    high: [u64; 2],
    /// The parts of both above 2^128.
    tops: [u32; 2],
}

impl From<Limbs> for Weight {
    fn from(number: Limbs) -> Self {
        let (low, low_top) = number.words();
        let (high, high_top) = number.times_2_64().words();
        Self { low, high, tops: [low_top as u32, high_top as u32] }
    }
}

impl Zeroize for Weight {
    #[inline]
    fn zeroize(&mut self) {
        *self = Self::default();
        optimization_barrier(self);
    }
}

/// A sum of values times weights: the parts of weight 1, 2^64 and 2^128, carries not yet
/// propagated.
pub(crate) struct Sum([u128; 3]);

impl Sum {
    /// A sum that starts with a number.
    #[inline]
    pub(crate) fn from(number: &Limbs) -> Self {
        let ([a, b], top) = number.words();
        Self([a, b, top].map(u128::from))
    }

    /// Makes room for the next product: nothing to do, since any number of products fits.
    #[inline(always)]
    pub(crate) fn make_room(&mut self, _products: usize) {}

    /// Adds a value, without the bit 2^128, times its weight.
    #[inline]
    pub(crate) fn add(&mut self, value: u128, weight: &Weight) {
        let times = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            (product as u64, (product >> 64) as u64)
        };
        let (a, b) = (value as u64, (value >> 64) as u64);
        let [p, q] = [times(a, weight.low[0]), times(b, weight.high[0])];
        let [r, t] = [times(a, weight.low[1]), times(b, weight.high[1])];
        let [u, v] = [(a, weight.tops[0]), (b, weight.tops[1])].map(|(a, b)| u128::from(a) * u128::from(b));
        let all = |words: [u64; 4]| words.into_iter().map(u128::from).sum::<u128>();
        self.0[0] += all([p.0, q.0, 0, 0]);
        self.0[1] += all([p.1, q.1, r.0, t.0]);
        self.0[2] += all([r.1, t.1, 0, 0]) + u + v;
    }

    /// XORs a value into a block of key stream, adds the block times its weight, and wipes the
    /// weight.
    #[inline]
    pub(crate) fn fill(&mut self, weight: &mut Weight, value: &[u8; 16], block: &mut [u8; 16]) {
        let value = u128::from_le_bytes(*value);
        #[cfg(target_arch = "x86_64")]
        let value = crate::backend::words::in_words(value);
        let now = value ^ u128::from_le_bytes(*block);
        *block = now.to_le_bytes();
        self.add(now, weight);
        weight.zeroize();
    }

    /// The tag: the sum fully reduced modulo 2^130 - 5, plus s modulo 2^128.
    #[inline]
    pub(crate) fn tag(&self, s: &[u8; 16]) -> [u8; 16] {
        let [a, b, c] = self.0;
        let b = b + (a >> 64);
        let c = c + (b >> 64);
        // The part above 2^130 counts five times: four times in place, and once two bits lower.
        let (above, far_above) = (c as u64, (c >> 64) as u64);
        let five = u128::from(above & !3) + u128::from(above >> 2 | far_above << 62);
        let five = five + (u128::from(far_above + (far_above >> 2)) << 64);
        let (low, carry) = (u128::from(a as u64) | b << 64).overflowing_add(five);
        poly1305::reduced(low, (above & 3) + u64::from(carry), s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn weighted_sum_matches_limbs(
            begin in any::<[u8; 16]>(),
            s in any::<[u8; 16]>(),
            pieces in prop::collection::vec((any::<u128>(), any::<[u8; 16]>()), 0..40),
        ) {
            let mut limbs = poly1305::Sum::from(&Limbs::block(&begin));
            let mut words = Sum::from(&Limbs::block(&begin));
            for (value, r) in &pieces {
                let weight = Limbs::block(r).times(&Limbs::clamped(r));
                limbs.add(&Limbs::split(*value), &weight);
                words.add(*value, &weight.into());
            }
            prop_assert_eq!(words.tag(&s), limbs.tag(&s));
        }
    }

    #[test]
    fn largest_values_carry_correctly() {
        let largest = Limbs([poly1305::MASK_44, poly1305::MASK_44 + 1, (1 << 42) - 1]);
        let mut limbs = poly1305::Sum::from(&largest);
        let mut words = Sum::from(&largest);
        for _ in 0..60 {
            limbs.add(&Limbs::split(u128::MAX), &largest);
            words.add(u128::MAX, &largest.into());
        }
        assert_eq!(words.tag(&[0xff; 16]), limbs.tag(&[0xff; 16]));
    }

    #[test]
    fn fill_adds_block_and_wipes_weight() {
        let mut weight = Weight::from(Limbs::clamped(&[0x5a; 16]));
        let (mut sum, mut expected) = (Sum::from(&Limbs::default()), Sum::from(&Limbs::default()));
        expected.add(u128::from_le_bytes([3 ^ 5; 16]), &weight);
        let mut block = [5; 16];
        sum.fill(&mut weight, &[3; 16], &mut block);
        assert_eq!((block, sum.tag(&[0; 16])), ([3 ^ 5; 16], expected.tag(&[0; 16])));
        assert_eq!((weight.low, weight.high, weight.tops), Default::default());
    }
}
