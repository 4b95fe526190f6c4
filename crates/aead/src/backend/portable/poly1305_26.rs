//! Poly1305 (RFC 8439 section 2.5) with five 26-bit limbs, for CPUs whose widest product has 64
//! bits.
//!
//! As in `poly1305`, each block carries the bit 2^128, because the AEAD pads every part to whole
//! blocks. A product of two reduced numbers has limbs below 2^57, and a sum of 64 products fits 64
//! bits.

use core::array;
use zeroize::Zeroize;

const MASK: u32 = (1 << 26) - 1;

/// A number below about 2^131, not fully reduced.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
#[cfg_attr(target_pointer_width = "64", allow(unreachable_pub, reason = "for tests alone there"))]
pub struct Limbs(pub(crate) [u32; 5]);

impl Zeroize for Limbs {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

fn words(bytes: &[u8; 16]) -> [u32; 4] {
    let (words, _) = bytes.as_chunks::<4>();
    array::from_fn(|i| u32::from_le_bytes(words[i]))
}

impl Limbs {
    /// The multiplier r, clamped (RFC 8439 section 2.5.1).
    pub(crate) fn clamped(bytes: &[u8; 16]) -> Self {
        Self::split(u128::from_le_bytes(*bytes) & 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff)
    }

    /// 16 bytes as a number, without the bit 2^128.
    #[inline]
    pub(crate) fn split(n: u128) -> Self {
        let [a, b, c, d] = words(&n.to_le_bytes());
        Self([
            a & MASK,
            (a >> 26 | b << 6) & MASK,
            (b >> 20 | c << 12) & MASK,
            (c >> 14 | d << 18) & MASK,
            d >> 8,
        ])
    }

    /// A whole block: the number with the bit 2^128.
    #[inline]
    pub(crate) fn block(bytes: &[u8; 16]) -> Self {
        let mut limbs = Self::split(u128::from_le_bytes(*bytes));
        limbs.0[4] |= 1 << 24;
        limbs
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

    /// The difference, for an `other` with limbs below 2^28. Adding a multiple of the prime keeps
    /// all limbs positive.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        let primes = [16 * (MASK - 4), 16 * MASK, 16 * MASK, 16 * MASK, 16 * MASK];
        Sum(array::from_fn(|i| u64::from(self.0[i] + primes[i] - other.0[i]))).value()
    }

    #[inline(never)]
    pub(crate) fn times(&self, r: &Self) -> Self {
        let mut sum = Sum::default();
        sum.add(self, r);
        sum.value()
    }
}

/// An unreduced sum of products.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub(crate) struct Sum([u64; 5]);

impl Sum {
    /// A sum that starts with a number.
    #[inline]
    pub(crate) fn from(limbs: &Limbs) -> Self {
        Self(limbs.0.map(u64::from))
    }

    /// Adds `h r`. 2^130 is congruent to 5 modulo 2^130 - 5, which folds the upper limbs' products
    /// down.
    #[inline(always)]
    pub(crate) fn add(&mut self, h: &Limbs, r: &Limbs) {
        let times = |a: u32, b: u32| u64::from(a) * u64::from(b);
        let ([h0, h1, h2, h3, h4], [r0, r1, r2, r3, r4]) = (h.0, r.0);
        let (s1, s2, s3, s4) = (5 * r1, 5 * r2, 5 * r3, 5 * r4);
        self.0[0] += times(h0, r0) + times(h1, s4) + times(h2, s3) + times(h3, s2) + times(h4, s1);
        self.0[1] += times(h0, r1) + times(h1, r0) + times(h2, s4) + times(h3, s3) + times(h4, s2);
        self.0[2] += times(h0, r2) + times(h1, r1) + times(h2, r0) + times(h3, s4) + times(h4, s3);
        self.0[3] += times(h0, r3) + times(h1, r2) + times(h2, r1) + times(h3, r0) + times(h4, s4);
        self.0[4] += times(h0, r4) + times(h1, r3) + times(h2, r2) + times(h3, r1) + times(h4, r0);
    }

    /// Makes room for the next product, after `products` products.
    #[inline(always)]
    pub(crate) fn make_room(&mut self, products: usize) {
        if products % 64 == 63 {
            *self = Self::from(&self.value());
        }
    }

    /// XORs a value into a block of key stream, adds the block, without the bit 2^128, times its
    /// weight, and wipes the weight.
    #[inline]
    pub(crate) fn fill(&mut self, weight: &mut Limbs, value: &[u8; 16], block: &mut [u8; 16]) {
        block_of_a_template::fill(self, weight, value, block);
    }

    #[inline]
    pub(crate) fn value(&self) -> Limbs {
        let [d0, d1, d2, d3, d4] = self.0;
        let low = |d: u64| d as u32 & MASK;
        let d1 = d1 + (d0 >> 26);
        let d2 = d2 + (d1 >> 26);
        let d3 = d3 + (d2 >> 26);
        let d4 = d4 + (d3 >> 26);
        let h0 = u64::from(low(d0)) + (d4 >> 26) * 5;
        Limbs([low(h0), low(d1) + (h0 >> 26) as u32, low(d2), low(d3), low(d4)])
    }

    /// The tag: the sum fully reduced modulo `p = 2^130 - 5`, plus s modulo 2^128.
    ///
    /// The part above 2^130 counts five times. The number is then below `2 p`, and `n - p` is not
    /// negative exactly if `n + 5` reaches 2^130.
    #[inline]
    pub(crate) fn tag(&self, s: &[u8; 16]) -> [u8; 16] {
        let [d0, d1, d2, d3, d4] = self.0;
        let d1 = d1 + (d0 >> 26);
        let d2 = d2 + (d1 >> 26);
        let d3 = d3 + (d2 >> 26);
        let d4 = d4 + (d3 >> 26);
        let [h0, h1, h2, h3, h4] = [d0, d1, d2, d3, d4].map(|d| d as u32 & MASK);
        let pair = |low: u32, high: u32| u128::from(u64::from(low) | u64::from(high) << 32);
        let low =
            pair(h0 | h1 << 26, h1 >> 6 | h2 << 20) | pair(h2 >> 12 | h3 << 14, h3 >> 18 | h4 << 8) << 64;
        let (low, carry) = low.overflowing_add(u128::from((d4 >> 26) * 5));
        let top = (h4 >> 24) + u32::from(carry);
        let (_, carry) = low.overflowing_add(5);
        let once_more = (top + u32::from(carry)) >> 2;
        low.wrapping_add(u128::from(once_more * 5)).wrapping_add(u128::from_le_bytes(*s)).to_le_bytes()
    }
}

/// `Sum::fill` in assembly: the limbs of two numbers fit the registers, but a compiler spills them.
/// Tested in QEMU.
#[cfg(all(target_arch = "arm", target_os = "none", target_has_atomic = "32"))]
#[allow(unsafe_code, reason = "calls assembly")]
mod block_of_a_template {
    use super::{Limbs, Sum};
    use core::arch::global_asm;

    // Exclusive loads and stores distinguish ARMv7-M from ARMv6-M, which lacks long products.
    global_asm!(include_str!("poly1305_arm.s"));

    unsafe extern "C" {
        fn antedate_poly1305_fill(
            sum: *mut Sum,
            weight: *mut Limbs,
            value: *const [u8; 16],
            block: *mut [u8; 16],
        );
    }

    #[inline]
    pub(super) fn fill(sum: &mut Sum, weight: &mut Limbs, value: &[u8; 16], block: &mut [u8; 16]) {
        // SAFETY: the function reads and writes the five doublewords of the sum, the five words of
        // the weight and the 16 bytes of the block, and reads the 16 bytes of the value; all
        // outlive the call. It reads bytes with loads that may be unaligned, and preserves the
        // registers that the ABI requires.
        unsafe { antedate_poly1305_fill(sum, weight, value, block) }
    }
}

/// `Sum::fill` on any other CPU.
#[cfg(not(all(target_arch = "arm", target_os = "none", target_has_atomic = "32")))]
mod block_of_a_template {
    use super::{Limbs, Sum};
    use zeroize::Zeroize;

    #[inline]
    pub(super) fn fill(sum: &mut Sum, weight: &mut Limbs, value: &[u8; 16], block: &mut [u8; 16]) {
        let now = u128::from_le_bytes(*value) ^ u128::from_le_bytes(*block);
        *block = now.to_le_bytes();
        sum.add(&Limbs::split(now), weight);
        weight.zeroize();
    }
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

    pub(crate) fn value(&self) -> Limbs {
        self.sum
    }
}

/// Tag for an accumulator value.
#[inline]
pub(crate) fn finish(h: &Limbs, s: &[u8; 16]) -> [u8; 16] {
    Sum::from(h).tag(s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reduction_is_full_around_prime() {
        let p = [MASK - 4, MASK, MASK, MASK, MASK];
        for (above, expected) in [(-1, u128::MAX - 5), (0, 0), (4, 4)] {
            let mut limbs = p;
            limbs[0] = limbs[0].wrapping_add_signed(above);
            assert_eq!(u128::from_le_bytes(finish(&Limbs(limbs), &[0; 16])), expected, "{above}");
        }
    }

    // The oracle is a different implementation only where words have 64 bits.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn any_number_of_products_is_summed() {
        use crate::backend::portable::poly1305 as wide;
        let (value, weight) = ([0xff; 16], [0xf7; 16]);
        let [h, r] = [value, weight].map(|bytes| Limbs::split(u128::from_le_bytes(bytes)));
        let [wide_h, wide_r] = [value, weight].map(|bytes| wide::Limbs::split(u128::from_le_bytes(bytes)));
        let (mut sum, mut oracle) = (Sum::default(), wide::Sum::default());
        for products in 0..5000 {
            sum.make_room(products);
            sum.add(&h, &r);
            oracle.add(&wide_h, &wide_r);
        }
        assert_eq!(sum.tag(&[7; 16]), oracle.tag(&[7; 16]));
    }

    proptest! {
        #[test]
        fn tags_match_wide_limbs(
            r: [u8; 16], s: [u8; 16], first: [u8; 16], blocks in prop::collection::vec(any::<[u8; 16]>(), 0..9),
        ) {
            use crate::backend::portable::poly1305 as wide;
            let (small_r, wide_r) = (Limbs::clamped(&r), wide::Limbs::clamped(&r));
            let (mut small, mut oracle) = (Poly1305::new(&small_r), wide::Poly1305::new(&wide_r));
            for block in [&first].into_iter().chain(&blocks) {
                small.block(block);
                oracle.block(block);
            }
            prop_assert_eq!(finish(&small.value(), &s), wide::finish(&oracle.value(), &s));

            // The computation of a template: powers, a difference, and a sum of products.
            let n = blocks.len() + 1;
            let before = Limbs::block(&first).times(&small_r.to_the(n));
            let mut sum = Sum::from(&small.value().minus(&before));
            sum.add(&Limbs::block(&first), &small_r.to_the(n));
            prop_assert_eq!(sum.tag(&s), wide::finish(&oracle.value(), &s));
        }

        #[test]
        fn fill_adds_block_and_wipes_weight(r: [u8; 16], s: [u8; 16], value: [u8; 16], stream: [u8; 16]) {
            let mut weight = Limbs::clamped(&r).to_the(3);
            let (mut sum, mut expected) = (Sum::from(&weight), Sum::from(&weight));
            let (mut there, both) = (stream, array::from_fn::<u8, 16, _>(|i| value[i] ^ stream[i]));
            expected.add(&Limbs::split(u128::from_le_bytes(both)), &weight);
            sum.fill(&mut weight, &value, &mut there);
            prop_assert_eq!(there, both);
            prop_assert_eq!(sum.tag(&s), expected.tag(&s));
            prop_assert!(weight == Limbs::default());

            #[cfg(target_pointer_width = "64")]
            {
                use crate::backend::portable::{poly1305 as wide, poly1305_weights};
                let number = wide::Limbs::clamped(&r).to_the(3);
                let (mut sum, mut there) = (poly1305_weights::Sum::from(&number), stream);
                sum.fill(&mut number.into(), &value, &mut there);
                prop_assert_eq!(there, both);
                prop_assert_eq!(sum.tag(&s), expected.tag(&s));
            }
        }
    }
}
