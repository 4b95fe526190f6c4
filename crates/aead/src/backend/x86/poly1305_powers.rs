//! Poly1305 for CPUs with AVX2 and BMI2: the powers of r, and short messages with scalar products.
//!
//! A 16-byte block is two words `a + 2^64 b`. With `2^64 r^k` stored beside `r^k`, both in limbs of
//! 44, 44 and 42 bits, a block takes six products without shifts, and eight blocks share a
//! reduction. The bits 2^128 of all blocks are added once, times the sum of their powers. Short
//! messages without prepared powers are hashed block by block. Longer ones use vectors (see
//! `poly1305_avx2`).

use super::{
    poly1305::{OPEN, Powers, SEAL},
    poly1305_avx2::{groups_of_four, narrow, two},
};
use crate::{
    backend::portable::poly1305::{Limbs, Sum},
    bytes::gather,
};
use core::{
    arch::x86_64::__m256i,
    mem::{MaybeUninit, align_of, size_of},
};

/// Blocks that share a reduction.
const GROUP: usize = 8;
/// Bytes from which a message uses vectors.
pub(super) const WORTH: usize = 448;

/// A power of r, and 2^64 times it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Power {
    low: Limbs,
    high: Limbs,
}

/// Input to authenticate, and its processing, as in the AVX-512 backend. Only neighbouring modules
/// construct one: its pointers are valid for `len` bytes, the stream for whole units of 64.
pub(super) struct Part<'a> {
    /// The value so far, unless this is the beginning.
    pub(super) so_far: Option<Limbs>,
    pub(super) aad: &'a [u8],
    pub(super) src: *const u8,
    pub(super) dst: *mut u8,
    pub(super) len: usize,
    /// The key stream to XOR, if any.
    pub(super) stream: *mut u8,
    /// The length block, if the packet ends here.
    pub(super) lengths: Option<(u64, u64)>,
}

/// The powers of r.
#[derive(Clone, Default)]
#[repr(C, align(64))]
pub(super) struct Table {
    r: Limbs,
    /// r to r^8.
    powers: [Power; GROUP],
    /// r^4, r^8, r^12 and r^16 in 26-bit limbs, and five times the upper four limbs.
    pub(super) factors: [[u64; 9]; 4],
    /// r^4, r^2, r^3 and r^1, limb by limb.
    pub(super) lanes: [[u64; 4]; 5],
    /// Words in place of padding, which could receive stack contents when the table is overwritten.
    _rest: [u64; 5],
}

const _: () = assert!(size_of::<Table>() == 8 * (3 + 6 * GROUP + 4 * 9 + 5 * 4 + 5));

// A packet's slot holds either form of the powers and must not grow beyond AVX-512's.
const _: () =
    assert!(size_of::<Table>() <= size_of::<Powers>() && align_of::<Table>() <= align_of::<Powers>());

impl Powers {
    pub(super) fn table(&self) -> &Table {
        // SAFETY: both are plain words; `self` has at least as many, and is aligned at least as
        // strictly.
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
        self.high = self.low.times_2_64();
    }
}

impl Table {
    /// Sets the powers for a message hashed once: r alone, and those for the vectors if it is long.
    #[inline]
    #[target_feature(enable = "bmi2")]
    pub(super) fn set(&mut self, r: &Limbs, long: bool) {
        self.r = *r;
        if long {
            let two = r.times(r);
            let four = two.times(&two);
            self.set_vectors([*r, two, two.times(r), four], four.times(&four));
        }
    }

    /// Sets all powers, so that none are left to compute when the message arrives.
    #[inline]
    #[target_feature(enable = "bmi2")]
    pub(super) fn set_all(&mut self, r: &Limbs) {
        self.r = *r;
        let two = r.times(r);
        let (three, four) = (two.times(r), two.times(&two));
        let first = [*r, two, three, four];
        let upper = first.map(|power| four.times(&power));
        for (power, low) in self.powers.iter_mut().zip(first.into_iter().chain(upper)) {
            power.low = low;
            power.set_high();
        }
        self.set_vectors(first, upper[3]);
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

    /// Overwrites all powers with zeros.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn wipe(&mut self) {
        *self = Self::default();
        // SAFETY: the assembly reads nothing. It keeps the compiler from removing the stores above.
        unsafe { core::arch::asm!("/* {} */", in(reg) self, options(nostack, preserves_flags)) };
    }
}

#[cfg(test)]
impl Table {
    pub(super) fn is_wiped(&self) -> bool {
        let powers = self.powers.iter().flat_map(|power| [power.low.0, power.high.0]);
        let powers = powers.chain([self.r.0]).flatten();
        let vectors = self.factors.iter().flatten().chain(self.lanes.iter().flatten());
        powers.chain(vectors.copied()).all(|word| word == 0)
    }
}

/// The products of up to eight blocks and of the number before them.
///
/// Each limb sums two products below 2^109 for each block, one for the number before, and less than
/// that for the bits 2^128.
#[inline(always)]
fn group(table: &Table, before: Option<&Limbs>, blocks: &[[u8; 16]]) -> Sum {
    let times = |a: u64, b: u64| u128::from(a) * u128::from(b);
    let powers = &table.powers[..blocks.len().min(GROUP)];
    let [mut d0, mut d1, mut d2] = [0u128; 3];
    // In the same loop: in a separate one, a compiler that vectorises with gathers would do so,
    // which is slower.
    let [mut a, mut b, mut c] = [0u64; 3];
    for (block, Power { low, high }) in blocks.iter().zip(powers.iter().rev()) {
        let block = u128::from_le_bytes(*block);
        let (m0, m1) = (block as u64, (block >> 64) as u64);
        d0 += times(m0, low.0[0]) + times(m1, high.0[0]);
        d1 += times(m0, low.0[1]) + times(m1, high.0[1]);
        d2 += times(m0, low.0[2]) + times(m1, high.0[2]);
        (a, b, c) = (a + low.0[0], b + low.0[1], c + low.0[2]);
    }
    // 2^128 is 2^40 times the weight of the third limb; 2^132 is congruent to 20.
    let [a, b, c] = [a, 20 * b, 20 * c].map(|limb| u128::from(limb) << 40);
    let mut sum = Sum([d0 + b, d1 + c, d2 + a]);
    if let (Some(before), Some(Power { low, .. })) = (before, powers.last()) {
        sum.add(before, low);
    }
    sum
}

/// Block by block with r alone, in 64-bit words. For a few blocks this is less work than computing
/// powers, and beside vectors it uses multipliers that they leave free.
///
/// r is clamped: both words are below 2^60, and the upper one's last two bits are zero, so that
/// 2^128 times it is congruent to 5/4 of it.
pub(super) struct InTurn {
    r0: u64,
    r1: u64,
    s1: u64,
    h: u128,
    /// The part above 2^128, below 5.
    top: u64,
}

impl InTurn {
    #[inline(always)]
    pub(super) fn new(r: &Limbs, before: Option<Limbs>) -> Self {
        let [a, b, c] = r.0;
        let (r0, r1) = (a | b << 44, b >> 20 | c << 24);
        let s1 = r1 + (r1 >> 2);
        let [a, b, c] = before.unwrap_or_default().0.map(u128::from);
        // The upper limb may be as large as the sum of four vector lanes. The part above 2^130
        // counts five times.
        let whole = a + (b << 44);
        let (h, carry) = whole.overflowing_add(c << 88);
        let top = (c >> 40) as u64 + u64::from(carry);
        let (h, carry) = h.overflowing_add(u128::from((top >> 2) * 5));
        Self { r0, r1, s1, h, top: (top & 3) + u64::from(carry) }
    }

    #[inline(always)]
    pub(super) fn block(&mut self, block: u128) {
        let times = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let Self { r0, r1, s1, .. } = *self;
        let (sum, carry) = self.h.overflowing_add(block);
        // Includes the bit 2^128; at most 6.
        let top = self.top + 1 + u64::from(carry);
        let (h0, h1) = (sum as u64, (sum >> 64) as u64);
        let d0 = times(h0, r0) + times(h1, s1);
        let d1 = times(h0, r1) + times(h1, r0) + u128::from(top * s1) + (d0 >> 64);
        // Below 8 2^60, as `d1` is below 2^125 and s1 below 5/4 2^60; 5/4 of it is also below 2^64.
        let d2 = top * r0 + (d1 >> 64) as u64;
        let (sum, carry) =
            (u128::from(d0 as u64) | d1 << 64).overflowing_add(u128::from((d2 & !3) + (d2 >> 2)));
        (self.h, self.top) = (sum, (d2 & 3) + u64::from(carry));
    }

    #[inline(always)]
    pub(super) fn sum(&self) -> Sum {
        Sum([self.h, 0, u128::from(self.top) << 40])
    }
}

#[inline(always)]
fn in_turn(r: &Limbs, before: Option<Limbs>, blocks: &[[u8; 16]]) -> Sum {
    let mut turn = InTurn::new(r, before);
    // In fours, since a CPU foresees the end of a shorter loop.
    let (fours, rest) = blocks.as_chunks::<4>();
    for four in fours {
        four.iter().for_each(|block| turn.block(u128::from_le_bytes(*block)));
    }
    rest.iter().for_each(|block| turn.block(u128::from_le_bytes(*block)));
    turn.sum()
}

/// The available powers of r.
#[derive(Clone, Copy)]
pub(super) enum Source<'t> {
    /// Only r, for a short message.
    Short(&'t Limbs),
    /// r, and the powers for the vectors if the message is long.
    Once(&'t Table),
    /// All powers.
    All(&'t Table),
}

/// The sum over at least one block, continuing from a number.
#[inline(never)]
#[target_feature(enable = "avx2,bmi2")]
fn hash(source: Source<'_>, before: Option<Limbs>, blocks: &[[u8; 16]]) -> Sum {
    let table = match source {
        Source::Short(r) => return in_turn(r, before, blocks),
        Source::Once(table) => return in_turn(&table.r, before, blocks),
        Source::All(table) => table,
    };
    let (first, rest) = blocks.split_at((blocks.len() + GROUP - 1) % GROUP + 1);
    let mut sum = group(table, before.as_ref(), first);
    for blocks in rest.as_chunks::<GROUP>().0 {
        sum = group(table, Some(&sum.value()), blocks);
    }
    sum
}

/// Blocks waiting to be hashed, contiguous. None is secret.
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
        // SAFETY: this many blocks are initialised.
        unsafe { &*(core::ptr::from_ref(waiting) as *const [[u8; 16]]) }
    }
}

/// Writes the first `len` bytes of a block, fewer than 16.
///
/// # Safety
/// The pointer is valid for `len` bytes.
#[inline(always)]
pub(super) unsafe fn scatter(to: *mut u8, block: u128, len: usize) {
    let (low, high) = (block as u64, (block >> 64) as u64);
    // SAFETY: the writes end at the last of `len` bytes.
    unsafe {
        if len >= 8 {
            to.cast::<u64>().write_unaligned(low);
            // The last eight bytes; includes nothing of `high` if there are only eight.
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
    /// XORs and stores the block of payload at `at`, and returns the block to hash.
    ///
    /// # Safety
    /// As for [`part`]; `at` is before the end.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    unsafe fn block<const WAY: u8, const WIPE: bool>(&self, at: usize) -> u128 {
        let len = (self.len - at).min(16);
        // SAFETY: guaranteed by the caller; the stream is valid for whole blocks where there is
        // payload, and both are read before the destination, possibly the source, is written.
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

/// The sum of a part's blocks times powers of r, with limbs below 2^114.
///
/// # Safety
/// The CPU has AVX2 and BMI2; the part's pointers are valid for its length, its stream for whole
/// units of 64 unless the part is only hashed. If the part is long, the source has the vectors'
/// powers.
#[target_feature(enable = "avx2,bmi2")]
pub(super) unsafe fn part<const WAY: u8, const WIPE: bool>(source: Source<'_>, part: &Part<'_>) -> Sum {
    let mut waiting = Waiting { blocks: [const { MaybeUninit::uninit() }; _], count: 0 };
    let mut before = part.so_far;
    let (blocks, aad_rest) = part.aad.as_chunks::<16>();
    if blocks.len() > AAD / 16 {
        before = Some(hash(source, before, blocks).value());
    } else {
        blocks.iter().for_each(|block| waiting.push(u128::from_le_bytes(*block)));
    }
    if !aad_rest.is_empty() {
        waiting.push(gather(aad_rest));
    }
    let mut at = 0;
    if let Source::Once(table) | Source::All(table) = source
        && part.len >= WORTH
    {
        if waiting.count > 0 {
            before = Some(hash(source, before, waiting.take()).value());
        }
        let groups = part.len / 64;
        // SAFETY: guaranteed by the caller; this many groups of four blocks are in the payload.
        before =
            Some(unsafe { groups_of_four::<WAY, WIPE>(table, before.unwrap_or_default(), part, groups) });
        at = 64 * groups;
    }
    // The waiting blocks have no space for a longer message.
    assert!(part.len - at < WORTH);
    while at + 32 <= part.len {
        // SAFETY: guaranteed by the caller; 32 bytes from `at` are in the payload, and there is
        // space for two more waiting blocks.
        unsafe {
            let two = two::<WAY, WIPE>(part, at);
            waiting.blocks.as_mut_ptr().add(waiting.count).cast::<__m256i>().write_unaligned(two);
        }
        waiting.count += 2;
        at += 32;
    }
    while at < part.len {
        // SAFETY: guaranteed by the caller; `at` is before the end.
        waiting.push(unsafe { part.block::<WAY, WIPE>(at) });
        at += 16;
    }
    if let Some((aad, payload)) = part.lengths {
        waiting.push(u128::from(aad) | u128::from(payload) << 64);
    }
    if waiting.count == 0 {
        return Sum::from(&before.unwrap_or_default());
    }
    hash(source, before, waiting.take())
}
