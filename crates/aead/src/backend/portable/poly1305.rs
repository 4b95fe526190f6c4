//! Poly1305 (RFC 8439 section 2.5) with limbs of 44, 44 and 42 bits.
//!
//! The AEAD pads every part to whole blocks (RFC 8439 section 2.8), so each block carries the bit
//! 2^128. A product of two reduced numbers leaves limbs of at most 44, 45 and 42 bits, and a sum of
//! 64 products fits 128 bits.

use core::array;
use zeroize::Zeroize;

pub(crate) const MASK_44: u64 = (1 << 44) - 1;
const MASK_42: u64 = (1 << 42) - 1;

/// A number below about 2^131, not fully reduced.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Limbs(pub(crate) [u64; 3]);

impl Zeroize for Limbs {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

impl Limbs {
    /// The multiplier r, clamped (RFC 8439 section 2.5.1).
    pub(crate) fn clamped(bytes: &[u8; 16]) -> Self {
        Self::split(u128::from_le_bytes(*bytes) & 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff)
    }

    /// 16 bytes as a number, without the bit 2^128.
    #[inline]
    pub(crate) fn split(n: u128) -> Self {
        Self([n as u64 & MASK_44, (n >> 44) as u64 & MASK_44, (n >> 88) as u64])
    }

    /// A whole block: the number with the bit 2^128.
    #[inline]
    pub(crate) fn block(bytes: &[u8; 16]) -> Self {
        let mut limbs = Self::split(u128::from_le_bytes(*bytes));
        limbs.0[2] |= 1 << 40;
        limbs
    }

    /// The number in 64-bit words, and the part above 2^128.
    #[inline]
    pub(crate) fn words(&self) -> ([u64; 2], u64) {
        let [a, b, c] = self.0.map(u128::from);
        let (low, carry) = (a + (b << 44)).overflowing_add(c << 88);
        ([low as u64, (low >> 64) as u64], (c >> 40) as u64 + u64::from(carry))
    }

    /// 2^64 times the number. 2^64 is 2^20 times the weight of the second limb; the third then
    /// weighs 2^132, congruent to 20.
    #[inline(always)]
    pub(crate) fn times_2_64(&self) -> Self {
        let [a, b, c] = self.0.map(|limb| u128::from(limb) << 20);
        Sum([20 * c, a, b]).value()
    }

    #[inline]
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self(array::from_fn(|i| self.0[i] + other.0[i]))
    }

    /// The power for an exponent ≥ 1, by squaring; the time depends on the exponent alone.
    pub(crate) fn to_the(self, exponent: usize) -> Self {
        let mut result = self;
        for bit in (0..exponent.ilog2()).rev() {
            result = result.times(&result);
            if exponent >> bit & 1 == 1 {
                result = result.times(&self);
            }
        }
        result
    }

    /// The difference, for an `other` with limbs below 2^46. Adding a multiple of the prime keeps
    /// all limbs positive.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        let primes = [16 * (MASK_44 - 4), 16 * MASK_44, 16 * MASK_42];
        Sum(array::from_fn(|i| u128::from(self.0[i] + primes[i] - other.0[i]))).value()
    }

    #[inline]
    pub(crate) fn times(&self, r: &Self) -> Self {
        let mut sum = Sum::default();
        sum.add(self, r);
        sum.value()
    }
}

/// r^2 to r^4, so that four blocks share a reduction.
pub(crate) fn higher(r: &Limbs) -> [Limbs; 3] {
    let two = r.times(r);
    [two, two.times(r), two.times(&two)]
}

/// An unreduced sum of products.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum(pub(crate) [u128; 3]);

impl Sum {
    /// Adds `h r`. 2^132 is congruent to 20 modulo 2^130 - 5, which folds the upper limbs' products
    /// down.
    #[inline]
    pub(crate) fn add(&mut self, h: &Limbs, r: &Limbs) {
        let times = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let ([h0, h1, h2], [r0, r1, r2]) = (h.0, r.0);
        let (s1, s2) = (20 * r1, 20 * r2);
        self.0[0] += times(h0, r0) + times(h1, s2) + times(h2, s1);
        self.0[1] += times(h0, r1) + times(h1, r0) + times(h2, s2);
        self.0[2] += times(h0, r2) + times(h1, r1) + times(h2, r0);
    }

    #[inline]
    pub(crate) fn value(&self) -> Limbs {
        let [d0, d1, d2] = self.0;
        let d1 = d1 + (d0 >> 44);
        let d2 = d2 + (d1 >> 44);
        let h0 = u128::from(d0 as u64 & MASK_44) + (d2 >> 42) * 5;
        Limbs([h0 as u64 & MASK_44, (d1 as u64 & MASK_44) + (h0 >> 44) as u64, d2 as u64 & MASK_42])
    }
}

impl Sum {
    /// A sum that starts with a number.
    #[inline]
    pub(crate) fn from(limbs: &Limbs) -> Self {
        Self(limbs.0.map(u128::from))
    }

    /// The tag: the sum fully reduced modulo `p = 2^130 - 5`, plus s modulo 2^128.
    ///
    /// With limbs below 2^114 the sum is below 2^203. Its upper part q weighs 2^130, congruent to
    /// 5; the rest and `5 q` together are below `2 p`.
    #[inline]
    pub(crate) fn tag(&self, s: &[u8; 16]) -> [u8; 16] {
        let [d0, d1, d2] = self.0;
        let (low, carry_1) = d0.overflowing_add(d1 << 44);
        let (low, carry_2) = low.overflowing_add(d2 << 88);
        let top = (d1 >> 84) + (d2 >> 40) + u128::from(carry_1) + u128::from(carry_2);
        let (low, carry) = low.overflowing_add((top >> 2) * 5);
        reduced(low, (top as u64 & 3) + u64::from(carry), s)
    }
}

/// Reduces a number n below `2 p` modulo p and adds s modulo 2^128; `top` is the part of n above
/// 2^128. `n - p` is negative exactly if `n + 5` is below 2^130.
#[inline]
pub(crate) fn reduced(low: u128, top: u64, s: &[u8; 16]) -> [u8; 16] {
    let (_, carry) = low.overflowing_add(5);
    let once_more = (top + u64::from(carry)) >> 2;
    // Adds s first, since it does not depend on the carry.
    low.wrapping_add(u128::from_le_bytes(*s)).wrapping_add(u128::from(once_more * 5)).to_le_bytes()
}

/// Tag for an accumulator value.
#[inline]
pub(crate) fn finish(h: &Limbs, s: &[u8; 16]) -> [u8; 16] {
    Sum::from(h).tag(s)
}

/// A running Poly1305 over whole blocks.
pub(crate) struct Poly1305 {
    r: Limbs,
    sum: Limbs,
}

impl Drop for Poly1305 {
    fn drop(&mut self) {
        self.r.zeroize();
        self.sum.zeroize();
    }
}

impl Poly1305 {
    pub(crate) fn new(r: &Limbs) -> Self {
        Self::resume(r, &Limbs::default())
    }

    /// Continues from a value.
    pub(crate) fn resume(r: &Limbs, sum: &Limbs) -> Self {
        Self { r: *r, sum: *sum }
    }

    pub(crate) fn block(&mut self, block: &[u8; 16]) {
        self.sum = self.sum.plus(&Limbs::block(block)).times(&self.r);
    }

    /// Adds four blocks. `higher` holds the powers of r from r^2.
    #[inline]
    pub(crate) fn four(&mut self, blocks: &[u8; 64], higher: &[Limbs; 3]) {
        self.four_after(&self.value(), &Limbs::default(), blocks, higher);
    }

    /// Like [`four`](Self::four), after an even number of blocks with the value in two parts: that
    /// of the first, third and so on, and that of the others times r.
    #[inline]
    pub(crate) fn four_after(&mut self, even: &Limbs, odd: &Limbs, blocks: &[u8; 64], higher: &[Limbs; 3]) {
        let ([a, b, c, d], _) = blocks.as_chunks::<16>() else { return };
        let mut sum = Sum::default();
        sum.add(&even.plus(&Limbs::block(a)), &higher[2]);
        sum.add(&odd.plus(&Limbs::block(b)), &higher[1]);
        sum.add(&Limbs::block(c), &higher[0]);
        sum.add(&Limbs::block(d), &self.r);
        self.sum = sum.value();
    }

    /// Adds blocks in groups of four.
    #[cfg(not(all(
        target_arch = "aarch64",
        target_endian = "little",
        target_pointer_width = "64",
        target_feature = "neon"
    )))]
    #[inline]
    pub(crate) fn fours(&mut self, fours: &[[u8; 64]], higher: &[Limbs; 3]) {
        fours.iter().for_each(|four| self.four(four, higher));
    }

    pub(crate) fn value(&self) -> Limbs {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_blocks_match_single_blocks() {
        let r = Limbs::clamped(&array::from_fn(|i| 0xf7 ^ (31 * i) as u8));
        let higher = higher(&r);
        let (mut fast, mut slow) = (Poly1305::new(&r), Poly1305::new(&r));
        for round in 0..200u8 {
            let blocks: [u8; 64] =
                array::from_fn(|i| if round % 3 == 0 { 0xff } else { round.wrapping_mul(i as u8 | 1) });
            fast.four(&blocks, &higher);
            blocks.as_chunks::<16>().0.iter().for_each(|block| slow.block(block));
            assert_eq!(finish(&fast.value(), &[7; 16]), finish(&slow.value(), &[7; 16]), "{round}");
        }
    }

    #[test]
    fn reduction_is_full_around_prime() {
        let p = Limbs([MASK_44 - 4, MASK_44, MASK_42]);
        let above = Limbs([MASK_44, MASK_44, MASK_42]);
        let below = Limbs([MASK_44 - 5, MASK_44, MASK_42]);
        assert_eq!(finish(&p, &[0; 16]), [0; 16]);
        assert_eq!(u128::from_le_bytes(finish(&above, &[0; 16])), 4);
        assert_eq!(u128::from_le_bytes(finish(&below, &[0; 16])), u128::MAX - 5);
    }
}
