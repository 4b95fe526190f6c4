//! Poly1305 (RFC 8439 section 2.5) with nine 16-bit words, for CPUs with 16-bit registers.
//!
//! As in `poly1305`, each block carries the bit 2^128, because the AEAD pads every part to whole
//! blocks. A word of a packet is a word of the number, so conversion needs no shifts. A product has
//! 17 words. The part above 2^130 counts five times: four times in place, and once shifted down by
//! two bits.
//!
//! With the feature `msp430-multiplier`, products and tags use assembly (`poly1305_16.s`) for the
//! 16 by 16 bit multiply-accumulate unit of the larger MSP430 chips. The Rust version serves chips
//! without one and host tests; the lab's simulator tests the assembly.

use zeroize::Zeroize;

/// A number, not fully reduced: a product is below 2^130 + 2^11, and a sum of some thousand
/// products fits.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(not(target_pointer_width = "16"), allow(unreachable_pub, reason = "for tests alone there"))]
pub struct Limbs(pub(crate) [u16; 9]);

impl Zeroize for Limbs {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

/// A block assembled byte by byte, without the bit 2^128, aligned so that its words are a number's.
#[repr(C, align(2))]
#[derive(Default)]
#[cfg_attr(not(target_pointer_width = "16"), allow(unreachable_pub, reason = "for tests alone there"))]
pub(crate) struct Block(pub(crate) [u8; 18]);

/// 16 times the prime, above any subtrahend.
const PRIMES: [u16; 9] = [0xffb0, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0x003f];

impl Limbs {
    /// The multiplier r, clamped (RFC 8439 section 2.5.1).
    pub(crate) fn clamped(bytes: &[u8; 16]) -> Self {
        Self::split(u128::from_le_bytes(*bytes) & 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff)
    }

    /// 16 bytes as a number, without the bit 2^128.
    #[inline]
    pub(crate) fn split(n: u128) -> Self {
        Self::of(&n.to_le_bytes(), 0)
    }

    /// A whole block: the number with the bit 2^128.
    #[inline]
    pub(crate) fn block(bytes: &[u8; 16]) -> Self {
        Self::of(bytes, 1)
    }

    #[inline]
    fn of(bytes: &[u8; 16], top: u16) -> Self {
        let mut words = [top; 9];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *word = u16::from_le_bytes(*bytes);
        }
        Self(words)
    }

    #[inline]
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut sum = *self;
        add(&mut sum.0, &other.0);
        sum
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

    /// The difference, for an `other` below 2^134. Adding a multiple of the prime keeps it
    /// positive.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        let mut difference = Self(PRIMES).plus(self);
        let mut borrow = false;
        for (word, other) in difference.0.iter_mut().zip(other.0) {
            let (less, first) = word.overflowing_sub(other);
            let (less, second) = less.overflowing_sub(borrow.into());
            (*word, borrow) = (less, first | second);
        }
        fold(&mut difference.0);
        difference
    }

    pub(crate) fn times(&self, r: &Self) -> Self {
        let mut product = Self::default();
        work::multiply_add(&mut product, self, r);
        product
    }

    /// Adds a block times `r`.
    #[inline]
    pub(crate) fn add_block(&mut self, block: &Block, r: &Self) {
        work::multiply_add_block(self, block, r);
    }

    /// The tag of this number.
    #[inline]
    pub(crate) fn tag_to(&self, s: &[u8; 16], tag: &mut [u8; 16]) {
        work::tag(self, s, tag);
    }
}

/// Adds with carry; overflow beyond the last word is lost.
#[inline]
fn add(to: &mut [u16], with: &[u16]) {
    let mut carry = 0u32;
    for (word, with) in to.iter_mut().zip(with) {
        let sum = u32::from(*word) + u32::from(*with) + carry;
        (*word, carry) = (sum as u16, sum >> 16);
    }
}

/// Folds the part above 2^130 down.
fn fold(words: &mut [u16; 9]) {
    let [low @ .., top] = words;
    let above = u32::from(*top >> 2) * 5;
    *top &= 3;
    let mut carry = above;
    for word in low {
        let sum = u32::from(*word) + (carry & 0xffff);
        (*word, carry) = (sum as u16, (carry >> 16) + (sum >> 16));
    }
    *top += carry as u16;
}

/// A sum of products.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum(Limbs);

impl Sum {
    /// A sum that starts with a number.
    #[inline]
    pub(crate) fn from(limbs: &Limbs) -> Self {
        Self(*limbs)
    }

    /// Makes room for the next product: nothing to do, since each product is folded.
    #[cfg(target_pointer_width = "16")]
    #[inline(always)]
    pub(crate) fn make_room(&mut self, _products: usize) {}

    /// Adds `h r`.
    #[inline(always)]
    pub(crate) fn add(&mut self, h: &Limbs, r: &Limbs) {
        work::multiply_add(&mut self.0, h, r);
    }

    /// The tag: the sum fully reduced modulo `p = 2^130 - 5`, plus s modulo 2^128.
    #[inline]
    pub(crate) fn tag(&self, s: &[u8; 16]) -> [u8; 16] {
        finish(&self.0, s)
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
    let mut tag = [0; 16];
    work::tag(h, s, &mut tag);
    tag
}

#[cfg(all(target_arch = "msp430", feature = "msp430-multiplier"))]
#[allow(unsafe_code, reason = "calls assembly")]
mod work {
    use super::{Block, Limbs};
    use core::arch::global_asm;

    global_asm!(include_str!("poly1305_16.s"));

    unsafe extern "C" {
        fn antedate_poly1305_multiply_add(sum: *mut Limbs, h: *const Limbs, r: *const Limbs);
        fn antedate_poly1305_tag(h: *const Limbs, s: *const Words, tag: *mut Words);
    }

    #[repr(C, align(2))]
    struct Words([u8; 16]);

    /// Adds `h r` to the sum and reduces it below 2^130 + 2^11.
    #[inline]
    pub(super) fn multiply_add(sum: &mut Limbs, h: &Limbs, r: &Limbs) {
        // SAFETY: the pointers are valid and even, since `Limbs` is made of words. The function
        // reads nine words of each, writes those of the sum after reading all, and preserves the
        // registers that the ABI requires.
        unsafe { antedate_poly1305_multiply_add(sum, h, r) }
    }

    /// As `multiply_add`, with a block, whose bytes are a number's words on this CPU.
    #[inline]
    pub(super) fn multiply_add_block(sum: &mut Limbs, block: &Block, r: &Limbs) {
        // SAFETY: as above; the block is at an even address and has 18 bytes, nine words with the
        // lower byte first.
        unsafe { antedate_poly1305_multiply_add(sum, (&raw const *block).cast(), r) }
    }

    /// The CPU reads words at even addresses only; operands at odd addresses are copied.
    #[inline]
    pub(super) fn tag(h: &Limbs, s: &[u8; 16], tag: &mut [u8; 16]) {
        let (s_at, tag_at) = (&raw const *s, &raw mut *tag);
        if (s_at.addr() | tag_at.addr()) & 1 == 0 {
            // SAFETY: the pointers are valid and even. The function reads nine words of `h` and 16
            // bytes of `s`, and writes 16 bytes.
            unsafe { antedate_poly1305_tag(h, s_at.cast(), tag_at.cast()) }
        } else {
            let (mut s, mut words) = (Words(*s), Words([0; 16]));
            // SAFETY: as above; the copies are at even addresses.
            unsafe { antedate_poly1305_tag(h, &raw const s, &raw mut words) }
            *tag = words.0;
            crate::bytes::wipe(&mut s.0);
        }
    }
}

/// The same functions in Rust.
#[cfg(not(all(target_arch = "msp430", feature = "msp430-multiplier")))]
mod work {
    use super::{Block, Limbs, add, fold};

    pub(super) fn multiply_add(sum: &mut Limbs, h: &Limbs, r: &Limbs) {
        // Row by row: a product of words plus a word plus a carry is below 2^32.
        let mut product = [0u16; 18];
        for (i, h) in h.0.iter().enumerate() {
            let mut carry = 0u16;
            for (word, r) in product[i..].iter_mut().zip(r.0) {
                let all = u32::from(*h) * u32::from(r) + u32::from(*word) + u32::from(carry);
                (*word, carry) = (all as u16, (all >> 16) as u16);
            }
            product[i + 9] = carry;
        }
        // The part above 2^130, counted four times in place and once shifted.
        let mut above = [0u16; 9];
        above.copy_from_slice(&product[8..17]);
        above[0] &= !3;
        let four_times = above;
        for i in 0..9 {
            let next = above.get(i + 1).copied().unwrap_or(0);
            above[i] = above[i] >> 2 | next << 14;
        }
        product[8] &= 3;
        let (low, _) = product.split_at(9);
        add(&mut sum.0, low);
        add(&mut sum.0, &four_times);
        add(&mut sum.0, &above);
        fold(&mut sum.0);
    }

    pub(super) fn multiply_add_block(sum: &mut Limbs, block: &Block, r: &Limbs) {
        let mut h = Limbs::default();
        for (word, bytes) in h.0.iter_mut().zip(block.0.as_chunks::<2>().0) {
            *word = u16::from_le_bytes(*bytes);
        }
        multiply_add(sum, &h, r);
    }

    pub(super) fn tag(h: &Limbs, s: &[u8; 16], tag: &mut [u8; 16]) {
        let mut n = h.0;
        fold(&mut n);
        // The number is now below 2 p, and `n - p` is not negative exactly if `n + 5` reaches
        // 2^130.
        let mut more = n;
        add(&mut more, &[5, 0, 0, 0, 0, 0, 0, 0, 0]);
        let once_more = more[8] >> 2;
        add(&mut n, &[once_more * 5, 0, 0, 0, 0, 0, 0, 0, 0]);
        add(&mut n, &Limbs::split(u128::from_le_bytes(*s)).0);
        for (bytes, word) in tag.as_chunks_mut::<2>().0.iter_mut().zip(n) {
            *bytes = word.to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reduction_is_full_around_prime() {
        let p = [0xfffbu16, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 3];
        for (above, expected) in [(-1, u128::MAX - 5), (0, 0), (4, 4)] {
            let mut words = p;
            words[0] = words[0].wrapping_add_signed(above);
            assert_eq!(u128::from_le_bytes(finish(&Limbs(words), &[0; 16])), expected, "{above}");
        }
        // The largest result of a product.
        let mut words = [0; 9];
        (words[0], words[8]) = (0x07ff, 4);
        assert_eq!(u128::from_le_bytes(finish(&Limbs(words), &[0; 16])), 0x07ff + 5);
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

            // The same from a block of bytes, in place.
            let mut block = Block::default();
            block.0[..16].copy_from_slice(&first);
            block.0[16] = 1;
            let mut sum = small.value().minus(&before);
            sum.add_block(&block, &small_r.to_the(n));
            let mut tag = [0; 16];
            sum.tag_to(&s, &mut tag);
            prop_assert_eq!(tag, wide::finish(&oracle.value(), &s));
        }
    }
}
