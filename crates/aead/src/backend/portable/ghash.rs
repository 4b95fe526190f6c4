//! GHASH (NIST SP 800-38D section 6.4) without tables.
//!
//! A block is read as a big-endian integer. This turns the field's reflected polynomial into `p =
//! x^128 + x^127 + x^126 + x^121 + 1` and the field's product of `c` and `h` into `c (h x) x^-128
//! mod p`. A multiplier is stored as two elements, `G = h x` and `G' = h x x^-64` (both mod `p`).
//! With `c = c1 x^64 + c0`,
//!
//! ```text
//! c h  =  (c1 G + c0 G') x^-64  mod p,
//! ```
//!
//! a sum of 192 bits, of which one fold removes the lowest 64: `x^-64 = x^64 + x^63 + x^62 + x^57`.
//! A sum of products is folded once. Every backend stores its powers in this form.

#[cfg(target_arch = "aarch64")]
use crate::backend::cpu::arm::Extension;
#[cfg(target_arch = "x86_64")]
use crate::backend::cpu::x86::Ssse3;
use zeroize::Zeroize;

/// `x^63 + x^62 + x^57`.
pub(crate) const FOLD: u64 = 0xc200_0000_0000_0000;

/// Carry-less multiplication of words.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Multiplier {
    /// Integer multiplication, on every CPU.
    Integers,
    /// PMULL.
    #[cfg(target_arch = "aarch64")]
    Arm(Extension),
    /// As `Integers`, but blocks by tables of the powers, with the byte shuffles of SSSE3.
    #[cfg(target_arch = "x86_64")]
    Shuffles(Ssse3),
}

impl Multiplier {
    /// The carry-less product of two words.
    #[inline]
    fn multiply(self, a: u64, b: u64) -> u128 {
        match self {
            #[cfg(target_arch = "aarch64")]
            Self::Arm(extension) => extension.multiply(a, b),
            _ => multiply(a, b),
        }
    }

    /// `(a + b x^64) x^-64 mod p` for `a` and `b` of 128 bits.
    #[inline]
    fn fold(self, a: u128, b: u128) -> u128 {
        b ^ a.rotate_left(64) ^ self.multiply(a as u64, FOLD)
    }
}

/// A power of H as a multiplier: `G`, then `G'`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Power {
    pub(crate) high: u128,
    pub(crate) low: u128,
}

impl Zeroize for Power {
    fn zeroize(&mut self) {
        self.high.zeroize();
        self.low.zeroize();
    }
}

impl Power {
    /// The multiplier for field element `h`.
    pub(crate) fn new(by: Multiplier, h: u128) -> Self {
        let high = Self::high(h);
        Self { high, low: by.fold(high, 0) }
    }

    /// The field `high` for an element: its double.
    pub(crate) fn high(h: u128) -> u128 {
        (h << 1) ^ ((h >> 127) * (1 | u128::from(FOLD) << 64))
    }

    /// The field product of `block` and this power.
    pub(crate) fn times(&self, by: Multiplier, block: u128) -> u128 {
        let mut sum = Sum::new(by);
        sum.add(block, self);
        sum.value()
    }
}

/// H^k for k ≥ 1, by squaring; the time depends on k alone.
pub(crate) fn power(by: Multiplier, h: &Power, k: usize) -> Power {
    // H is the product of its multiplier and the field's one, the most significant bit.
    let element = h.times(by, 1 << 127);
    let mut result = element;
    for bit in (0..k.ilog2()).rev() {
        result = Power::new(by, result).times(by, result);
        if k >> bit & 1 == 1 {
            result = h.times(by, result);
        }
    }
    Power::new(by, result)
}

/// Blocks whose products have one sum.
#[cfg(target_arch = "x86_64")]
pub(crate) const FOUR: usize = 4;

/// Byte `k` of the products of the lower and the upper halves of bytes.
#[cfg(target_arch = "x86_64")]
pub(crate) type Rows = [[[u8; 16]; 2]; 16];

/// The products of H^4 to H, for byte shuffles.
#[cfg(target_arch = "x86_64")]
#[derive(Default)]
pub(crate) struct Tables(pub(crate) [Rows; FOUR]);

/// H, and the powers for CPU instructions that take four blocks at once.
#[derive(Default)]
pub(crate) struct Powers {
    pub(crate) h: Power,
    /// H^2 to H^4, where used.
    #[cfg(target_arch = "aarch64")]
    pub(crate) higher: [Power; 3],
    #[cfg(target_arch = "x86_64")]
    tables: Tables,
}

impl Zeroize for Powers {
    fn zeroize(&mut self) {
        self.h.zeroize();
        #[cfg(target_arch = "aarch64")]
        self.higher.zeroize();
        #[cfg(target_arch = "x86_64")]
        self.tables.0.zeroize();
    }
}

impl Drop for Powers {
    fn drop(&mut self) {
        self.zeroize();
    }
}

impl Powers {
    pub(crate) fn new(by: Multiplier, h: u128) -> Self {
        #[cfg(target_arch = "x86_64")]
        let tables = match by {
            Multiplier::Integers => Default::default(),
            Multiplier::Shuffles(ssse3) => ssse3.tables(h),
        };
        let h = Power::new(by, h);
        #[cfg(target_arch = "aarch64")]
        let higher = match by {
            Multiplier::Integers => Default::default(),
            Multiplier::Arm(_) => core::array::from_fn(|i| power(by, &h, i + 2)),
        };
        Self {
            h,
            #[cfg(target_arch = "aarch64")]
            higher,
            #[cfg(target_arch = "x86_64")]
            tables,
        }
    }
}

/// An unreduced sum of products.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    by: Multiplier,
    at_0: u128,
    at_64: u128,
}

impl Sum {
    pub(crate) fn new(by: Multiplier) -> Self {
        Self { by, at_0: 0, at_64: 0 }
    }

    #[inline]
    pub(crate) fn add(&mut self, block: u128, power: &Power) {
        let (at_0, at_64) = match self.by {
            #[cfg(target_arch = "aarch64")]
            Multiplier::Arm(extension) => extension.products(block, power),
            _ => {
                let (c0, c1) = (block as u64, (block >> 64) as u64);
                (
                    multiply(c1, power.high as u64) ^ multiply(c0, power.low as u64),
                    multiply(c1, (power.high >> 64) as u64) ^ multiply(c0, (power.low >> 64) as u64),
                )
            }
        };
        self.at_0 ^= at_0;
        self.at_64 ^= at_64;
    }

    pub(crate) fn value(&self) -> u128 {
        self.by.fold(self.at_0, self.at_64)
    }
}

/// The carry-less product of two words.
fn multiply(a: u64, b: u64) -> u128 {
    let low = multiply_low(a, b);
    let high = multiply_low(a.reverse_bits(), b.reverse_bits()).reverse_bits() >> 1;
    u128::from(high) << 64 | u128::from(low)
}

/// The lower half of the carry-less product, by integer multiplications of words in which only
/// every fourth bit is set. A digit counts to at most 16; only the top digit reaches 16, and its
/// carry leaves the word.
fn multiply_low(a: u64, b: u64) -> u64 {
    const EVERY_FOURTH: u64 = 0x1111_1111_1111_1111;
    let part = |word: u64, i: u32| word & (EVERY_FOURTH << i);
    let (a0, a1, a2, a3) = (part(a, 0), part(a, 1), part(a, 2), part(a, 3));
    let (b0, b1, b2, b3) = (part(b, 0), part(b, 1), part(b, 2), part(b, 3));
    let times = u64::wrapping_mul;
    part(times(a0, b0) ^ times(a1, b3) ^ times(a2, b2) ^ times(a3, b1), 0)
        | part(times(a0, b1) ^ times(a1, b0) ^ times(a2, b3) ^ times(a3, b2), 1)
        | part(times(a0, b2) ^ times(a1, b1) ^ times(a2, b0) ^ times(a3, b3), 2)
        | part(times(a0, b3) ^ times(a1, b2) ^ times(a2, b1) ^ times(a3, b0), 3)
}

/// A running GHASH.
pub(crate) struct Ghash<'k> {
    by: Multiplier,
    powers: &'k Powers,
    sum: u128,
}

impl Drop for Ghash<'_> {
    fn drop(&mut self) {
        self.sum.zeroize();
    }
}

impl<'k> Ghash<'k> {
    pub(crate) fn new(by: Multiplier, powers: &'k Powers) -> Self {
        Self::resume(by, powers, 0)
    }

    /// Continues from a value.
    pub(crate) fn resume(by: Multiplier, powers: &'k Powers, sum: u128) -> Self {
        Self { by, powers, sum }
    }

    pub(crate) fn block(&mut self, block: &[u8; 16]) {
        #[cfg(target_arch = "x86_64")]
        if let Multiplier::Shuffles(ssse3) = self.by {
            self.sum = ssse3.hash(&self.powers.tables, self.sum, core::slice::from_ref(block));
            return;
        }
        self.sum = self.powers.h.times(self.by, self.sum ^ u128::from_be_bytes(*block));
    }

    /// Adds data in blocks, the last padded with zeros.
    pub(crate) fn padded(&mut self, data: &[u8]) {
        let (blocks, tail) = data.as_chunks::<16>();
        match self.by {
            Multiplier::Integers => blocks.iter().for_each(|block| self.block(block)),
            #[cfg(target_arch = "aarch64")]
            Multiplier::Arm(extension) => self.sum = extension.hash(self.powers, self.sum, blocks),
            #[cfg(target_arch = "x86_64")]
            Multiplier::Shuffles(ssse3) => self.sum = ssse3.hash(&self.powers.tables, self.sum, blocks),
        }
        if !tail.is_empty() {
            let mut last = [0; 16];
            last[..tail.len()].copy_from_slice(tail);
            self.block(&last);
        }
    }

    pub(crate) fn value(&self) -> u128 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Algorithm 1 of SP 800-38D section 6.3, bit by bit.
    fn by_the_standard(x: u128, y: u128) -> u128 {
        let (mut z, mut v) = (0, y);
        for i in (0..128).rev() {
            if x >> i & 1 == 1 {
                z ^= v;
            }
            v = (v >> 1) ^ ((v & 1) * (0xe1 << 120));
        }
        z
    }

    /// All multipliers of this build.
    fn multipliers() -> impl Iterator<Item = Multiplier> {
        #[cfg(target_arch = "aarch64")]
        let others = Extension::new(crate::Backend::detect()).map(Multiplier::Arm);
        #[cfg(target_arch = "x86_64")]
        let others = Ssse3::new(crate::Backend::Ssse3).map(Multiplier::Shuffles);
        #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
        let others = None;
        core::iter::once(Multiplier::Integers).chain(others)
    }

    #[test]
    fn batched_blocks_match_single_blocks() {
        for by in multipliers() {
            let powers = Powers::new(by, 0x66e9_4bd4_ef8a_2c3b_884c_fa59_ca34_2b2e);
            let data: [u8; 16 * 13 + 5] = core::array::from_fn(|i| (i * i + 7 * i) as u8);
            for len in 0..=data.len() {
                let (mut fast, mut slow) = (Ghash::new(by, &powers), Ghash::new(by, &powers));
                for hash in [&mut fast, &mut slow] {
                    hash.block(&[0xa5; 16]);
                }
                fast.padded(&data[..len]);
                for chunk in data[..len].chunks(16) {
                    let mut block = [0; 16];
                    block[..chunk.len()].copy_from_slice(chunk);
                    slow.block(&block);
                }
                assert_eq!(fast.value(), slow.value(), "{by:?}, {len}");
            }
        }
    }

    #[test]
    fn product_matches_sp_800_38d() {
        multipliers().for_each(check);
    }

    fn check(by: Multiplier) {
        let mut x = 0x0123_4567_89ab_cdef_0011_2233_4455_6677_u128;
        let mut y = u128::MAX;
        for _ in 0..500 {
            assert_eq!(Power::new(by, y).times(by, x), by_the_standard(x, y));
            (x, y) = (x.wrapping_mul(0x5851_f42d_4c95_7f2d_1405_7b7e_f767_814f).wrapping_add(11), x);
        }
        for i in 0..128 {
            assert_eq!(Power::new(by, 1 << i).times(by, u128::MAX), by_the_standard(u128::MAX, 1 << i));
        }
    }
}
