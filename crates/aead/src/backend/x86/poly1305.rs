//! Poly1305 with AVX-512 IFMA: eight blocks at once, in limbs of 44, 44 and 42 bits (see the
//! portable one).
//!
//! Powers of r are stored in falling order and end in zeros, so that one load fetches the powers
//! for eight blocks at any distance from the end. Before the last 32 blocks, four groups of eight
//! are multiplied by the powers of their first lanes and reduced once; the lanes stay separate
//! until the end.

use super::Avx512;
use crate::{Backend, backend::portable::poly1305::Limbs};
use core::arch::{asm, x86_64::*};
use zeroize::Zeroize;

/// The highest power stored.
const HIGHEST: usize = 32;

/// r^32 to r^1, limb by limb, then zeros.
#[repr(C, align(64))]
pub(crate) struct Powers([[u64; HIGHEST + 8]; 3]);

impl Default for Powers {
    fn default() -> Self {
        Self([[0; HIGHEST + 8]; 3])
    }
}

impl Zeroize for Powers {
    fn zeroize(&mut self) {
        if Avx512::new(Backend::Avx512).is_some() {
            // SAFETY: the CPU has AVX-512; without it powers are never stored.
            unsafe { self.wipe() };
        }
        zeroize::optimization_barrier(&self.0);
    }
}

type Vectors = [__m512i; 3];

/// Unreduced sums of the products' lower and upper 52 bits. Two of each, since an addition waits
/// four cycles for the one before: one for the middle limb of the multiplicand, one for the others.
struct Sum {
    low: [Vectors; 2],
    high: [Vectors; 2],
}

/// The same value, opaque to the compiler, which would take two multiplications for two shifts.
#[inline]
#[target_feature(enable = "avx512f")]
fn opaque(mut x: __m512i) -> __m512i {
    // SAFETY: the assembly is empty.
    unsafe { asm!("/* {} */", inout(zmm_reg) x, options(pure, nomem, nostack, preserves_flags)) };
    x
}

#[inline]
#[target_feature(enable = "avx512f")]
fn times_20(x: __m512i) -> __m512i {
    _mm512_add_epi64(_mm512_slli_epi64::<4>(x), opaque(_mm512_slli_epi64::<2>(x)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn plus(a: Vectors, b: Vectors) -> Vectors {
    [_mm512_add_epi64(a[0], b[0]), _mm512_add_epi64(a[1], b[1]), _mm512_add_epi64(a[2], b[2])]
}

impl Sum {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        let zero = [_mm512_setzero_si512(); 3];
        Self { low: [zero; 2], high: [zero; 2] }
    }

    /// Adds `h r`, at most four times. All limbs are below 2^47, and 20 times a limb of r is below
    /// 2^49.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn add(&mut self, h: Vectors, r: Vectors) {
        let (s1, s2) = (times_20(r[1]), times_20(r[2]));
        let rows = [[r[0], s2, s1], [r[1], r[0], s2], [r[2], r[1], r[0]]];
        for (k, row) in rows.into_iter().enumerate() {
            for (i, (a, b)) in h.into_iter().zip(row).enumerate() {
                let (low, high) = (&mut self.low[i % 2][k], &mut self.high[i % 2][k]);
                *low = _mm512_madd52lo_epu64(*low, a, b);
                *high = _mm512_madd52hi_epu64(*high, a, b);
            }
        }
    }

    /// Reduces the sum. The upper halves weigh 2^52 = 2^8 2^44, so they go to the next limb; those
    /// of the last limb weigh 2^8 2^132, congruent to 20 2^8.
    ///
    /// No carry waits for another: the lowest limb is below 2^60 before, so the limbs are below
    /// 2^45 after.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn value(&self) -> Vectors {
        let (low, high) = (plus(self.low[0], self.low[1]), plus(self.high[0], self.high[1]));
        let (mask_44, mask_42) = (_mm512_set1_epi64((1 << 44) - 1), _mm512_set1_epi64((1 << 42) - 1));
        let twenty =
            _mm512_add_epi64(_mm512_slli_epi64::<12>(high[2]), opaque(_mm512_slli_epi64::<10>(high[2])));
        let d0 = _mm512_add_epi64(low[0], twenty);
        let d1 = _mm512_add_epi64(low[1], _mm512_slli_epi64::<8>(high[0]));
        let d2 = _mm512_add_epi64(low[2], _mm512_slli_epi64::<8>(high[1]));
        let over = _mm512_srli_epi64::<42>(d2);
        let over = _mm512_add_epi64(over, _mm512_slli_epi64::<2>(over));
        [
            _mm512_add_epi64(_mm512_and_si512(d0, mask_44), over),
            _mm512_add_epi64(_mm512_and_si512(d1, mask_44), _mm512_srli_epi64::<44>(d0)),
            _mm512_add_epi64(_mm512_and_si512(d2, mask_42), _mm512_srli_epi64::<44>(d1)),
        ]
    }
}

/// A product, reduced.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn product(h: Vectors, r: Vectors) -> Vectors {
    let mut sum = Sum::new();
    sum.add(h, r);
    sum.value()
}

/// The first lane in all lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn first(x: Vectors) -> Vectors {
    x.map(|limb| _mm512_permutex2var_epi64(limb, _mm512_setzero_si512(), limb))
}

/// The lanes in `mask` from `b`, the others from `a`.
#[inline]
#[target_feature(enable = "avx512f")]
fn mixed(a: Vectors, mask: __mmask8, b: Vectors) -> Vectors {
    [0, 1, 2].map(|i| _mm512_mask_mov_epi64(a[i], mask, b[i]))
}

impl Powers {
    /// No powers. (Lets the compiler use the widest stores.)
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn none() -> Self {
        Self::default()
    }

    /// Overwrites all powers with zeros.
    ///
    /// # Safety
    /// The CPU has AVX-512 F.
    #[target_feature(enable = "avx512f")]
    unsafe fn wipe(&mut self) {
        for words in self.0.as_flattened_mut().as_chunks_mut::<8>().0 {
            // SAFETY: the chunk has eight words.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), _mm512_setzero_si512()) };
        }
    }

    /// Sets all powers with five products after each other. (Products of words would have to get
    /// into their lanes.)
    ///
    /// # Safety
    /// The CPU has AVX-512 F and IFMA, and BMI2.
    #[target_feature(enable = "avx512f,avx512ifma,bmi2")]
    pub(super) unsafe fn set(&mut self, r: &Limbs) {
        let one = r.0.map(|limb| _mm512_set1_epi64(limb as i64));
        let two = product(one, one);
        // Lane i becomes r^(8 - i).
        let even = mixed(one, 0b0101_0101, two);
        let upper = product(even, two);
        let four = mixed(even, 0b0011_0011, upper);
        let upper = product(four, first(upper));
        let eighth = first(upper);
        let eight = mixed(four, 0b0000_1111, upper);
        let sixteen = product(eight, eighth);
        let sixteenth = first(sixteen);
        self.store(8, eight);
        self.store(16, sixteen);
        self.store(24, product(eight, sixteenth));
        self.store(32, product(sixteen, sixteenth));
    }

    /// Stores eight powers, from `to` down.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store(&mut self, to: usize, powers: Vectors) {
        for (limb, value) in self.0.iter_mut().zip(powers) {
            // SAFETY: eight words from here are in the table.
            unsafe { _mm512_storeu_si512(limb[HIGHEST - to..][..8].as_mut_ptr().cast(), value) };
        }
    }

    /// Eight powers from `highest` down, zeros after r^1.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn lanes(&self, highest: usize) -> Vectors {
        let at = HIGHEST - highest.min(HIGHEST);
        // SAFETY: `at` is at most 32, and eight words from there are in the table.
        [0, 1, 2].map(|limb| unsafe { _mm512_loadu_si512(self.0[limb].as_ptr().add(at).cast()) })
    }

    /// One power in all lanes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn broadcast(&self, power: usize) -> Vectors {
        [0, 1, 2].map(|limb| _mm512_set1_epi64(self.0[limb][HIGHEST - power] as i64))
    }

    /// r^power as a number, if the power is stored.
    pub(super) fn power(&self, power: usize) -> Option<Limbs> {
        let at = HIGHEST.checked_sub(power)?;
        let [r0, r1, r2] = &self.0;
        Some(Limbs([*r0.get(at)?, *r1.get(at)?, *r2.get(at)?]))
    }
}

/// Whether a packet is one group, lengths included, with all of its associated data in the first
/// vector.
fn short(aad_blocks: usize, blocks: usize) -> bool {
    aad_blocks <= 4 && aad_blocks + blocks < 8
}

/// The bytes from `at`, zeros outside the slice.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn window(bytes: &[u8], at: isize) -> __m512i {
    let len = bytes.len() as isize;
    if at <= -64 || at >= len {
        return _mm512_setzero_si512();
    }
    let skipped = (-at).max(0);
    let there = (len - at).min(64);
    let mask = (u64::MAX << skipped) & (u64::MAX >> (64 - there));
    // SAFETY: the mask covers only bytes of the slice; masked-out bytes are not accessed.
    unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().wrapping_offset(at).cast()) }
}

/// Two vectors of four blocks as limbs; the blocks in `present` get the bit 2^128.
#[inline]
#[target_feature(enable = "avx512f")]
fn limbs(a: __m512i, b: __m512i, present: __mmask8) -> Vectors {
    let (even, odd) =
        (_mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0), _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1));
    let mask_44 = _mm512_set1_epi64((1 << 44) - 1);
    let (low, high) = (_mm512_permutex2var_epi64(a, even, b), _mm512_permutex2var_epi64(a, odd, b));
    let middle = _mm512_or_si512(_mm512_srli_epi64::<44>(low), _mm512_slli_epi64::<20>(high));
    [
        _mm512_and_si512(low, mask_44),
        _mm512_and_si512(middle, mask_44),
        _mm512_or_si512(_mm512_srli_epi64::<24>(high), _mm512_maskz_set1_epi64(present, 1 << 40)),
    ]
}

/// Input to authenticate, and its processing. Only the kernels of neighbouring modules construct
/// one: its pointers are valid for `len` bytes, the stream for whole units of 64.
pub(super) struct Part<'a> {
    /// The value so far.
    pub(super) so_far: Limbs,
    pub(super) aad: &'a [u8],
    pub(super) src: *const u8,
    pub(super) dst: *mut u8,
    pub(super) len: usize,
    /// The key stream to XOR, if any.
    pub(super) stream: *mut u8,
    /// The length block, if the packet ends here.
    pub(super) lengths: Option<(u64, u64)>,
}

impl Part<'_> {
    /// Keeps the compiler from removing the wipe of the stream.
    #[inline]
    fn stay_wiped<const WIPE: bool>(&self) {
        if WIPE {
            // SAFETY: the pointer is to the caller's buffer, and the assembly is empty.
            unsafe { core::arch::asm!("/* {} */", in(reg) self.stream, options(nostack, preserves_flags)) };
        }
    }

    /// Like `vector`, for a full one.
    ///
    /// # Safety
    /// As for [`part`]; 64 bytes from `at` are in the payload.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn full<const WAY: u8, const WIPE: bool>(&self, at: usize) -> __m512i {
        // SAFETY: guaranteed by the caller; the stream is read before the destination, possibly the
        // same memory, is written.
        unsafe {
            let x = _mm512_loadu_si512(self.src.add(at).cast());
            if WAY == HASH {
                return x;
            }
            let pad = self.stream.add(at);
            let y = _mm512_xor_si512(x, _mm512_loadu_si512(pad.cast()));
            _mm512_storeu_si512(self.dst.add(at).cast(), y);
            if WIPE {
                _mm512_storeu_si512(pad.cast(), _mm512_setzero_si512());
            }
            if WAY == SEAL { y } else { x }
        }
    }

    /// XORs and stores the vector of payload at `at`, and returns the bytes to hash.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2")]
    fn vector<const WAY: u8, const WIPE: bool>(&self, at: usize) -> __m512i {
        if at >= self.len {
            return _mm512_setzero_si512();
        }
        if at + 64 <= self.len {
            // SAFETY: the vector is within the payload.
            return unsafe { self.full::<WAY, WIPE>(at) };
        }
        let mask = _bzhi_u64(u64::MAX, (self.len - at).min(64) as u32);
        // SAFETY: the mask covers only bytes of the payload; the stream is valid for whole vectors
        // where there is payload, and is read before the destination, possibly the same memory, is
        // written. (The constructor of a `Part` guarantees the pointers.)
        unsafe {
            let x = _mm512_maskz_loadu_epi8(mask, self.src.wrapping_add(at).cast());
            if WAY == HASH {
                return x;
            }
            let pad = self.stream.add(at);
            let y = _mm512_xor_si512(x, _mm512_loadu_si512(pad.cast()));
            _mm512_mask_storeu_epi8(self.dst.wrapping_add(at).cast(), mask, y);
            if WIPE {
                _mm512_storeu_si512(pad.cast(), _mm512_setzero_si512());
            }
            if WAY == SEAL { _mm512_maskz_mov_epi8(mask, y) } else { x }
        }
    }
}

/// A group of associated data; empty lanes precede the first one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn aad_group(aad: &[u8], index: usize, empty: usize) -> Vectors {
    let at = 128 * index as isize - 16 * empty as isize;
    let present = if index == 0 { 0xff << empty } else { 0xff };
    limbs(window(aad, at), window(aad, at + 64), present)
}

/// Eight whole blocks of payload.
///
/// # Safety
/// As for [`part`]; 128 bytes from `at` are in the payload.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn full_group<const WAY: u8, const WIPE: bool>(part: &Part<'_>, at: usize) -> Vectors {
    // SAFETY: guaranteed by the caller.
    unsafe { limbs(part.full::<WAY, WIPE>(at), part.full::<WAY, WIPE>(at + 64), 0xff) }
}

/// Inserts the lengths as the block with this index.
#[inline]
#[target_feature(enable = "avx512f")]
fn with_lengths(a: __m512i, b: __m512i, at: usize, lengths: (u64, u64)) -> (__m512i, __m512i) {
    let words = 1u32 << (2 * at);
    let (aad, payload) = (_mm512_set1_epi64(lengths.0 as i64), _mm512_set1_epi64(lengths.1 as i64));
    let put = |x, words: u32| {
        _mm512_mask_mov_epi64(_mm512_mask_mov_epi64(x, words as u8, aad), (words << 1) as u8, payload)
    };
    (put(a, words & 0xff), put(b, words >> 8))
}

/// A short packet: associated data, payload and lengths in one group.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512ifma,bmi2")]
fn one_group<const WAY: u8, const WIPE: bool>(
    powers: &Powers,
    part: &Part<'_>,
    aad_blocks: usize,
    blocks: usize,
    lengths: (u64, u64),
) -> Limbs {
    let (a, b) = (part.vector::<WAY, WIPE>(0), part.vector::<WAY, WIPE>(64));
    // Moves the payload's words up past the associated data's.
    let up = _mm512_set1_epi64(2 * aad_blocks as i64);
    let index = _mm512_sub_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), up);
    let free = (0xffu32 << (2 * aad_blocks)) as u8;
    let first = _mm512_maskz_permutex2var_epi64(free, a, index, b);
    let second = _mm512_permutex2var_epi64(a, _mm512_add_epi64(index, _mm512_set1_epi64(8)), b);
    let first = _mm512_or_si512(first, window(part.aad, 0));
    let (first, second) = with_lengths(first, second, aad_blocks + blocks, lengths);
    let all = aad_blocks + blocks + 1;
    let mut sum = Sum::new();
    let m = limbs(first, second, ((1u32 << all) - 1) as u8);
    let so_far = part.so_far.0.map(|limb| _mm512_maskz_set1_epi64(1, limb as i64));
    sum.add(plus(m, so_far), powers.lanes(all));
    part.stay_wiped::<WIPE>();
    Limbs(sum.value().map(|limb| _mm512_reduce_add_epi64(limb) as u64))
}

/// Hashes the payload only.
pub(super) const HASH: u8 = 0;
/// XORs the stream, then hashes the output.
pub(super) const SEAL: u8 = 1;
/// Hashes the payload, then XORs the stream.
pub(super) const OPEN: u8 = 2;

/// The sum of a part's blocks times powers of r, with limbs below 2^50.
///
/// # Safety
/// The CPU has AVX-512 F, BW, VL and IFMA, and BMI2; the part's pointers are valid for its length,
/// its stream for whole units of 64 unless the part is only hashed.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512ifma,bmi2")]
pub(super) unsafe fn part<const WAY: u8, const WIPE: bool>(powers: &Powers, part: &Part<'_>) -> Limbs {
    let aad_blocks = part.aad.len().div_ceil(16);
    let blocks = part.len.div_ceil(16);
    if let (true, Some(lengths)) = (short(aad_blocks, blocks), part.lengths) {
        return one_group::<WAY, WIPE>(powers, part, aad_blocks, blocks, lengths);
    }
    let aad_groups = aad_blocks.div_ceil(8);
    // Empty lanes precede the associated data's first group.
    let empty = 8 * aad_groups - aad_blocks;
    let tail_blocks = blocks % 8;
    let behind = tail_blocks + usize::from(part.lengths.is_some());

    // The value so far joins the first block.
    let lane: __mmask8 = 1 << if aad_groups > 0 { empty } else { 0 };
    let mut h = part.so_far.0.map(|limb| _mm512_maskz_set1_epi64(lane, limb as i64));
    // Leaves at most one group of associated data for the payload's loop.
    for index in 1..aad_groups {
        let mut sum = Sum::new();
        sum.add(plus(aad_group(part.aad, index - 1, empty), h), powers.broadcast(8));
        h = sum.value();
    }
    let aad = aad_groups.min(1);
    let full = aad + blocks / 8;
    let last = full.min(3);
    let mut done = 0;
    while done < full - last {
        // The first chunk is the odd one.
        let chunk = (full - last - done - 1) % 4 + 1;
        let mut sum = Sum::new();
        // The product that depends on the previous chunk comes last.
        for i in 1..chunk {
            // SAFETY: after the associated data and before the last groups, all groups are full
            // payload groups.
            let m = unsafe { full_group::<WAY, WIPE>(part, 128 * (done + i - aad)) };
            sum.add(m, powers.broadcast(8 * (chunk - i)));
        }
        let m = if done < aad {
            aad_group(part.aad, aad_groups - 1, empty)
        } else {
            // SAFETY: as above.
            unsafe { full_group::<WAY, WIPE>(part, 128 * (done - aad)) }
        };
        sum.add(plus(m, h), powers.broadcast(8 * chunk));
        h = sum.value();
        done += chunk;
    }
    let mut sum = Sum::new();
    if behind > 0 {
        let at = 16 * (blocks - tail_blocks);
        let (mut a, mut b) = (part.vector::<WAY, WIPE>(at), part.vector::<WAY, WIPE>(at + 64));
        if let Some(lengths) = part.lengths {
            (a, b) = with_lengths(a, b, tail_blocks, lengths);
        }
        let mut m = limbs(a, b, ((1u32 << behind) - 1) as u8);
        if last == 0 {
            m = plus(m, h);
        }
        sum.add(m, powers.lanes(behind));
    }
    for i in (0..last).rev() {
        let mut m = if done + i < aad {
            aad_group(part.aad, aad_groups - 1, empty)
        } else {
            let at = 128 * (done + i - aad);
            limbs(part.vector::<WAY, WIPE>(at), part.vector::<WAY, WIPE>(at + 64), 0xff)
        };
        if i == 0 {
            m = plus(m, h);
        }
        sum.add(m, powers.lanes(8 * (last - i) + behind));
    }
    part.stay_wiped::<WIPE>();
    if behind == 0 && last == 0 {
        return part.so_far;
    }
    Limbs(sum.value().map(|limb| _mm512_reduce_add_epi64(limb) as u64))
}
