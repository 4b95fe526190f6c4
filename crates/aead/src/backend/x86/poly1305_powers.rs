//! Poly1305 for CPUs with AVX2 and BMI2: what is prepared of r, and short messages with scalar products.
//!
//! A block of 16 bytes is two words `a + 2^64 b`. With `2^64 r^k` beside `r^k`, both in limbs of 44, 44 and 42 bits, it takes six
//! products, all of which go where the limbs are, and no shift; eight blocks share a reduction. The bits 2^128 of all blocks are
//! added once, times the sum of their powers. Longer messages go through vectors (see `poly1305_avx2`).

use super::poly1305::{OPEN, Part, Powers, SEAL};
use crate::{
    backend::portable::poly1305::{Limbs, Sum},
    sparse::gather,
};
use core::mem::{align_of, size_of};

/// Blocks that share a reduction.
const GROUP: usize = 8;
/// Bytes from which on a message is worth the vectors.
pub(super) const WORTH: usize = 448;

/// A power of r, and 2^64 times it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Power {
    low: Limbs,
    high: Limbs,
}

/// The powers of r.
#[derive(Clone, Default)]
#[repr(C, align(64))]
pub(super) struct Table {
    /// r to r^8.
    powers: [Power; GROUP],
    /// r^4, r^8, r^12 and r^16 in limbs of 26 bits, and five times the upper four limbs.
    pub(super) factors: [[u64; 9]; 4],
    /// r^4, r^2, r^3 and r^1, limb by limb.
    pub(super) lanes: [[u64; 4]; 5],
}

// The slot of a packet has room for either form of the powers, so that it is no larger than it is for AVX-512.
const _: () =
    assert!(size_of::<Table>() <= size_of::<Powers>() && align_of::<Table>() <= align_of::<Powers>());

impl Powers {
    pub(super) fn table(&self) -> &Table {
        // SAFETY: both are plain words, of which this has as many at least, and it is aligned as strictly.
        unsafe { &*core::ptr::from_ref(self).cast() }
    }

    pub(super) fn table_mut(&mut self) -> &mut Table {
        // SAFETY: as above.
        unsafe { &mut *core::ptr::from_mut(self).cast() }
    }
}

impl Power {
    #[inline]
    fn new(low: Limbs) -> Self {
        let [a, b, c] = low.0.map(|limb| u128::from(limb) << 20);
        // 2^64 is 2^20 times the weight of the second limb; the third then weighs 2^132, which is 20.
        Self { low, high: Sum([20 * c, a, b]).value() }
    }
}

impl Table {
    /// The powers that a message of so many blocks takes, and those of the vectors if it is `long`.
    #[inline]
    #[target_feature(enable = "bmi2")]
    pub(super) fn set(&mut self, r: &Limbs, blocks: usize, long: bool) {
        let highest = if long { GROUP } else { blocks.min(GROUP) };
        // By squares, so that no more than three products wait for each other.
        let mut power = |k: usize, value: Limbs| {
            self.powers[k - 1] = Power::new(value);
            value
        };
        power(1, *r);
        if highest > 1 {
            let two = power(2, r.times(r));
            if highest > 2 {
                let (three, four) = (power(3, two.times(r)), power(4, two.times(&two)));
                if highest > 4 {
                    power(5, four.times(r));
                    power(6, four.times(&two));
                    power(7, four.times(&three));
                    power(8, four.times(&four));
                }
            }
        }
        if long {
            let [one, two, three, four] = [0, 1, 2, 3].map(|k| self.powers[k].low);
            let eight = self.powers[7].low;
            let factors = [four, eight, eight.times(&four), eight.times(&eight)];
            for (to, factor) in self.factors.iter_mut().zip(factors) {
                let limbs = super::poly1305_avx2::narrow(&factor);
                to[..5].copy_from_slice(&limbs);
                for (five, limb) in to[5..].iter_mut().zip(&limbs[1..]) {
                    *five = 5 * limb;
                }
            }
            let lanes = [four, two, three, one].map(|power| super::poly1305_avx2::narrow(&power));
            for (i, limb) in self.lanes.iter_mut().enumerate() {
                *limb = lanes.map(|lane| lane[i]);
            }
        }
    }

    /// r^k for a `k` of at least 1.
    pub(super) fn power(&self, k: usize) -> Limbs {
        let eight = self.powers[GROUP - 1].low;
        match (k / GROUP, k % GROUP) {
            (0, rest) => self.powers[rest - 1].low,
            (many, 0) => eight.to_the(many),
            (many, rest) => eight.to_the(many).times(&self.powers[rest - 1].low),
        }
    }

    /// Overwrites all powers with zeros.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn wipe(&mut self) {
        *self = Self::default();
        // SAFETY: nothing is read. What was stored above must stay stored.
        unsafe { core::arch::asm!("/* {} */", in(reg) self, options(nostack, preserves_flags)) };
    }
}

#[cfg(test)]
impl Table {
    pub(super) fn is_wiped(&self) -> bool {
        let powers = self.powers.iter().flat_map(|power| [power.low.0, power.high.0]).flatten();
        let vectors = self.factors.iter().flatten().chain(self.lanes.iter().flatten());
        powers.chain(vectors.copied()).all(|word| word == 0)
    }
}

/// A stretch of blocks, group by group.
struct Run<'t> {
    table: &'t Table,
    /// The products of this group so far.
    sum: Sum,
    /// What was before this group, and the power that it is multiplied with.
    before: Limbs,
    size: usize,
    /// Blocks to come in this group.
    left: usize,
}

impl<'t> Run<'t> {
    /// Goes on from a value, for so many blocks, of which there is one at least.
    #[inline]
    #[target_feature(enable = "bmi2")]
    fn new(table: &'t Table, before: Limbs, blocks: usize) -> Self {
        let size = (blocks - 1) % GROUP + 1;
        Self { table, sum: Sum::default(), before, size, left: size }
    }

    #[inline]
    #[target_feature(enable = "bmi2")]
    fn take(&mut self, block: u128) {
        if self.left == 0 {
            self.before = self.close().value();
            self.sum = Sum::default();
            (self.size, self.left) = (GROUP, GROUP);
        }
        self.left -= 1;
        let Power { low, high } = &self.table.powers[self.left & (GROUP - 1)];
        let times = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let (a, b) = (block as u64, (block >> 64) as u64);
        for ((sum, low), high) in self.sum.0.iter_mut().zip(low.0).zip(high.0) {
            *sum += times(a, low) + times(b, high);
        }
    }

    /// The group with its bits 2^128 and what was before it.
    ///
    /// A limb has products below 2^109 of at most eight blocks, and one of the number before.
    #[inline]
    #[target_feature(enable = "bmi2")]
    fn close(&self) -> Sum {
        let powers = &self.table.powers[..self.size];
        let [mut a, mut b, mut c] = [0u64; 3];
        for Power { low, .. } in powers {
            (a, b, c) = (a + low.0[0], b + low.0[1], c + low.0[2]);
        }
        let mut sum = self.sum;
        // 2^128 is 2^40 times the weight of the third limb; 2^132 is 20.
        let [a, b, c] = [a, 20 * b, 20 * c].map(|limb| u128::from(limb) << 40);
        sum.0[0] += b;
        sum.0[1] += c;
        sum.0[2] += a;
        sum.add(&self.before, &powers[self.size - 1].low);
        sum
    }
}

/// Writes the first `len` bytes, less than 16, of a block.
///
/// # Safety
/// The pointer is good for them.
#[inline]
unsafe fn scatter(to: *mut u8, block: u128, len: usize) {
    // SAFETY: what is written ends with the last of `len` bytes.
    unsafe {
        if len >= 8 {
            to.cast::<u64>().write_unaligned(block as u64);
            to.add(len - 8).cast::<u64>().write_unaligned((block >> (8 * (len - 8))) as u64);
        } else if len >= 4 {
            to.cast::<u32>().write_unaligned(block as u32);
            to.add(len - 4).cast::<u32>().write_unaligned((block >> (8 * (len - 4))) as u32);
        } else {
            for i in 0..len {
                to.add(i).write((block >> (8 * i)) as u8);
            }
        }
    }
}

impl Part<'_> {
    /// The block of payload at `at`, XORed and stored on the way; what is to be hashed is returned.
    ///
    /// # Safety
    /// As for [`part`]; `at` is before the end.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    unsafe fn block<const WAY: u8, const WIPE: bool>(&self, at: usize) -> u128 {
        let len = self.len - at;
        // SAFETY: the caller's; the stream is good for whole blocks where there is payload, and both are read before the
        // destination, which may be the source, is written.
        unsafe {
            let x = if len >= 16 {
                self.src.add(at).cast::<u128>().read_unaligned()
            } else {
                gather(core::slice::from_raw_parts(self.src.add(at), len))
            };
            if WAY != SEAL && WAY != OPEN {
                return x;
            }
            let pad = self.stream.add(at).cast::<u128>();
            let mut y = x ^ pad.read_unaligned();
            if WIPE {
                pad.write_unaligned(0);
            }
            if len >= 16 {
                self.dst.add(at).cast::<u128>().write_unaligned(y);
            } else {
                scatter(self.dst.add(at), y, len);
                y &= u128::MAX >> (128 - 8 * len);
            }
            if WAY == SEAL { y } else { x }
        }
    }
}

/// The sum of a part's blocks with the powers of r, with limbs below 2^114.
///
/// # Safety
/// The CPU has AVX2 and BMI2; the part's pointers are good for its length, its stream for whole units of 64, unless it is only
/// hashed. The table has the powers for a message of so many blocks, or for a long one.
#[target_feature(enable = "avx2,bmi2")]
pub(super) unsafe fn part<const WAY: u8, const WIPE: bool>(table: &Table, part: &Part<'_>) -> Sum {
    let (aad, aad_rest) = part.aad.as_chunks::<16>();
    let aad_blocks = part.aad.len().div_ceil(16);
    let behind = usize::from(part.lengths.is_some());
    let vectors = if part.len >= WORTH { part.len / 64 } else { 0 };
    let rest = part.len.div_ceil(16) - 4 * vectors + behind;
    let mut value = part.so_far;
    // The associated data go with the payload, if that has no vectors.
    let mut blocks = aad_blocks + if vectors > 0 { 0 } else { rest };
    if blocks == 0 && vectors == 0 {
        return Sum::from(&value);
    }
    let mut run = Run::new(table, value, blocks.max(1));
    aad.iter().for_each(|block| run.take(u128::from_le_bytes(*block)));
    if !aad_rest.is_empty() {
        run.take(gather(aad_rest));
    }
    if vectors > 0 {
        if blocks > 0 {
            value = run.close().value();
        }
        // SAFETY: the caller's, and so many groups of four blocks are in the payload.
        value = unsafe { super::poly1305_avx2::groups::<WAY, WIPE>(table, value, part, vectors) };
        blocks = rest;
        if blocks == 0 {
            return Sum::from(&value);
        }
        run = Run::new(table, value, blocks);
    }
    for at in (64 * vectors..part.len).step_by(16) {
        // SAFETY: the caller's, and `at` is before the end.
        run.take(unsafe { part.block::<WAY, WIPE>(at) });
    }
    if let Some((aad, payload)) = part.lengths {
        run.take(u128::from(aad) | u128::from(payload) << 64);
    }
    run.close()
}
