//! Poly1305 for CPUs with AVX2 and BMI2: what is prepared of r, and short messages with scalar products.
//!
//! A block of 16 bytes is two words `a + 2^64 b`. With `2^64 r^k` beside `r^k`, both in limbs of 44, 44 and 42 bits, it takes six
//! products, all of which go where the limbs are, and no shift; eight blocks share a reduction. The bits 2^128 of all blocks are
//! added once, times the sum of their powers. Longer messages go through vectors (see `poly1305_avx2`).

use super::{
    poly1305::{OPEN, Powers, SEAL},
    poly1305_avx2::{groups_of_four, narrow, two},
};
use crate::{
    backend::portable::poly1305::{Limbs, Sum},
    sparse::gather,
};
use core::{
    arch::x86_64::__m256i,
    mem::{MaybeUninit, align_of, size_of},
};

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

/// What is to be authenticated, and what is done to it on the way, as the AVX-512 backend has it. Only this module's neighbours
/// make one: its pointers are good for `len` bytes, the stream for whole units of 64.
pub(super) struct Part<'a> {
    /// The value so far, if this is not the beginning.
    pub(super) so_far: Option<Limbs>,
    pub(super) aad: &'a [u8],
    pub(super) src: *const u8,
    pub(super) dst: *mut u8,
    pub(super) len: usize,
    /// The cipherstream, if there is something to XOR.
    pub(super) stream: *mut u8,
    /// The block of the lengths, if the packet ends here.
    pub(super) lengths: Option<(u64, u64)>,
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
    #[inline(always)]
    fn set_high(&mut self) {
        let [a, b, c] = self.low.0.map(|limb| u128::from(limb) << 20);
        // 2^64 is 2^20 times the weight of the second limb; the third then weighs 2^132, which is 20.
        self.high = Sum([20 * c, a, b]).value();
    }
}

impl Table {
    /// The powers that a message takes which is hashed once: r to r^4, and those of the vectors if it is long.
    #[inline]
    #[target_feature(enable = "bmi2")]
    pub(super) fn set(&mut self, r: &Limbs, long: bool) {
        let two = r.times(r);
        let lows = [*r, two, two.times(r), two.times(&two)];
        for (power, low) in self.powers.iter_mut().zip(lows) {
            power.low = low;
        }
        if long {
            self.set_vectors(lows, lows[3].times(&lows[3]));
        }
    }

    /// All powers, so that nothing is left to do for them when the message is there.
    #[inline]
    #[target_feature(enable = "bmi2")]
    pub(super) fn set_all(&mut self, r: &Limbs) {
        self.set(r, false);
        let [one, two, three, four] = [0, 1, 2, 3].map(|k| self.powers[k].low);
        let uppers = [four.times(&one), four.times(&two), four.times(&three), four.times(&four)];
        for (power, low) in self.powers[4..].iter_mut().zip(uppers) {
            power.low = low;
        }
        for power in &mut self.powers {
            power.set_high();
        }
        self.set_vectors([one, two, three, four], uppers[3]);
    }

    #[inline]
    #[target_feature(enable = "bmi2")]
    fn set_vectors(&mut self, [one, two, three, four]: [Limbs; 4], eight: Limbs) {
        let factors = [four, eight, eight.times(&four), eight.times(&eight)];
        for (to, factor) in self.factors.iter_mut().zip(factors) {
            let limbs = narrow(&factor);
            to[..5].copy_from_slice(&limbs);
            for (five, limb) in to[5..].iter_mut().zip(&limbs[1..]) {
                *five = 5 * limb;
            }
        }
        let lanes = [four, two, three, one].map(|power| narrow(&power));
        for (i, limb) in self.lanes.iter_mut().enumerate() {
            *limb = lanes.map(|lane| lane[i]);
        }
    }

    /// r^k for a `k` of at least 1.
    pub(super) fn power(&self, k: usize) -> Limbs {
        let four = self.powers[3].low;
        match (k / 4, k % 4) {
            (0, rest) => self.powers[rest - 1].low,
            (many, 0) => four.to_the(many),
            (many, rest) => four.to_the(many).times(&self.powers[rest - 1].low),
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

/// The products of up to eight blocks, and of what was before them.
///
/// A limb has two products below 2^109 of each block, one of the number before, and less than that of the bits.
#[inline(always)]
fn group(table: &Table, before: Option<&Limbs>, blocks: &[[u8; 16]]) -> Sum {
    let times = |a: u64, b: u64| u128::from(a) * u128::from(b);
    let powers = &table.powers[..blocks.len().min(GROUP)];
    let [mut d0, mut d1, mut d2] = [0u128; 3];
    for (block, Power { low, high }) in blocks.iter().zip(powers.iter().rev()) {
        let block = u128::from_le_bytes(*block);
        let (a, b) = (block as u64, (block >> 64) as u64);
        d0 += times(a, low.0[0]) + times(b, high.0[0]);
        d1 += times(a, low.0[1]) + times(b, high.0[1]);
        d2 += times(a, low.0[2]) + times(b, high.0[2]);
    }
    let [mut a, mut b, mut c] = [0u64; 3];
    for Power { low, .. } in powers {
        (a, b, c) = (a + low.0[0], b + low.0[1], c + low.0[2]);
    }
    // 2^128 is 2^40 times the weight of the third limb; 2^132 is 20.
    let [a, b, c] = [a, 20 * b, 20 * c].map(|limb| u128::from(limb) << 40);
    let mut sum = Sum([d0 + b, d1 + c, d2 + a]);
    if let (Some(before), Some(Power { low, .. })) = (before, powers.last()) {
        sum.add(before, low);
    }
    sum
}

/// The same for up to four blocks, with nothing but the powers themselves.
#[inline(always)]
fn small_group(table: &Table, before: Option<&Limbs>, blocks: &[[u8; 16]]) -> Sum {
    let powers = &table.powers[..blocks.len().min(4)];
    let (mut sum, mut before) = (Sum::default(), before.copied().unwrap_or_default());
    for (block, Power { low, .. }) in blocks.iter().zip(powers.iter().rev()) {
        sum.add(&core::mem::take(&mut before).plus(&Limbs::block(block)), low);
    }
    sum
}

/// The sum over blocks, of which there is one at least, that goes on from a number; with all powers or with the first four.
#[inline(never)]
#[target_feature(enable = "avx2,bmi2")]
fn hash<const ALL: bool>(table: &Table, before: Option<Limbs>, blocks: &[[u8; 16]]) -> Sum {
    if ALL {
        let (first, rest) = blocks.split_at((blocks.len() + GROUP - 1) % GROUP + 1);
        let mut sum = group(table, before.as_ref(), first);
        for blocks in rest.as_chunks::<GROUP>().0 {
            sum = group(table, Some(&sum.value()), blocks);
        }
        return sum;
    }
    let (first, rest) = blocks.split_at((blocks.len() + 3) % 4 + 1);
    let mut sum = small_group(table, before.as_ref(), first);
    for blocks in rest.as_chunks::<4>().0 {
        sum = small_group(table, Some(&sum.value()), blocks);
    }
    sum
}

/// Blocks that wait to be hashed one behind the other. Nothing in them is secret.
struct Waiting {
    blocks: [MaybeUninit<[u8; 16]>; AAD / 16 + WORTH / 16 + 2],
    count: usize,
}

/// Bytes of associated data that wait with the payload.
const AAD: usize = 64;

impl Waiting {
    #[inline(always)]
    fn push(&mut self, block: u128) {
        self.blocks[self.count].write(block.to_le_bytes());
        self.count += 1;
    }

    #[inline(always)]
    fn take(&mut self) -> &[[u8; 16]] {
        let waiting = &self.blocks[..core::mem::take(&mut self.count)];
        // SAFETY: so many blocks were written.
        unsafe { &*(core::ptr::from_ref(waiting) as *const [[u8; 16]]) }
    }
}

/// Writes the first `len` bytes, less than 16, of a block.
///
/// # Safety
/// The pointer is good for them.
#[inline(always)]
unsafe fn scatter(to: *mut u8, block: u128, len: usize) {
    let (low, high) = (block as u64, (block >> 64) as u64);
    // SAFETY: what is written ends with the last of `len` bytes.
    unsafe {
        if len >= 8 {
            to.cast::<u64>().write_unaligned(low);
            // The last eight bytes: none of `high` if there are no more than eight.
            let last = low >> (8 * (len - 8)) | (high << 1) << (127 - 8 * len);
            to.add(len - 8).cast::<u64>().write_unaligned(last);
        } else if len >= 4 {
            to.cast::<u32>().write_unaligned(low as u32);
            to.add(len - 4).cast::<u32>().write_unaligned((low >> (8 * (len - 4))) as u32);
        } else {
            to.write(low as u8);
            to.add(len / 2).write((low >> (8 * (len / 2))) as u8);
            to.add(len - 1).write((low >> (8 * (len - 1))) as u8);
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
        let len = (self.len - at).min(16);
        // SAFETY: the caller's; the stream is good for whole blocks where there is payload, and both are read before the
        // destination, which may be the source, is written.
        unsafe {
            let x = if len == 16 {
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
            if len == 16 {
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
/// hashed. The table has all powers, or those of a message that is hashed once.
#[target_feature(enable = "avx2,bmi2")]
pub(super) unsafe fn part<const WAY: u8, const WIPE: bool, const ALL: bool>(
    table: &Table,
    part: &Part<'_>,
) -> Sum {
    let mut waiting = Waiting { blocks: [const { MaybeUninit::uninit() }; _], count: 0 };
    let mut before = part.so_far;
    let (blocks, aad_rest) = part.aad.as_chunks::<16>();
    if blocks.len() > AAD / 16 {
        before = Some(hash::<ALL>(table, before, blocks).value());
    } else {
        blocks.iter().for_each(|block| waiting.push(u128::from_le_bytes(*block)));
    }
    if !aad_rest.is_empty() {
        waiting.push(gather(aad_rest));
    }
    let mut at = 0;
    if part.len >= WORTH {
        if waiting.count > 0 {
            before = Some(hash::<ALL>(table, before, waiting.take()).value());
        }
        let groups = part.len / 64;
        // SAFETY: the caller's, and so many groups of four blocks are in the payload.
        before =
            Some(unsafe { groups_of_four::<WAY, WIPE>(table, before.unwrap_or_default(), part, groups) });
        at = 64 * groups;
    }
    while at + 32 <= part.len {
        // SAFETY: the caller's, 32 bytes from `at` on are in the payload, and two more blocks may wait.
        unsafe {
            let two = two::<WAY, WIPE>(part, at);
            waiting.blocks.as_mut_ptr().add(waiting.count).cast::<__m256i>().write_unaligned(two);
        }
        waiting.count += 2;
        at += 32;
    }
    while at < part.len {
        // SAFETY: the caller's, and `at` is before the end.
        waiting.push(unsafe { part.block::<WAY, WIPE>(at) });
        at += 16;
    }
    if let Some((aad, payload)) = part.lengths {
        waiting.push(u128::from(aad) | u128::from(payload) << 64);
    }
    if waiting.count == 0 {
        return Sum::from(&before.unwrap_or_default());
    }
    hash::<ALL>(table, before, waiting.take())
}
