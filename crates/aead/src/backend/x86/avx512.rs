//! Kernels with VAES, VPCLMULQDQ and AVX-512: four blocks to a vector, masked tails.

use super::gcm_key::{Block, Key, POWERS, Segment};
use crate::backend::portable::ghash::FOLD;
use core::arch::x86_64::*;

/// Payload bytes from which three products per block beat four, on CPUs with slow wide products.
const THREE_FROM: usize = 512;

/// An unreduced sum of products (see the portable `ghash`) in four lanes. A block takes four
/// carry-less products, or with `THREE` three (Karatsuba), where products are the bottleneck.
pub(super) struct Sum<const THREE: bool> {
    at_0: __m512i,
    at_64: __m512i,
    /// With three products: the middle one. The others are at 0 and at 128.
    middle: __m512i,
    /// Powers for the next blocks.
    high: *const u128,
    low: *const u128,
}

impl<const THREE: bool> Sum<THREE> {
    /// Starts a sum over `blocks` blocks.
    ///
    /// # Safety
    /// `blocks` is at most [`POWERS`].
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn new<const R: usize>(key: &Key<R>, blocks: usize) -> Self {
        let zero = _mm512_setzero_si512();
        // SAFETY: POWERS - blocks is within the tables.
        let (high, low) =
            unsafe { (key.high.0.as_ptr().add(POWERS - blocks), key.low.0.as_ptr().add(POWERS - blocks)) };
        Self { at_0: zero, at_64: zero, middle: zero, high, low }
    }

    /// Adds a vector of byte-reversed blocks, of which `blocks` count.
    ///
    /// # Safety
    /// The sum was started for enough blocks. (A read past the last power is within the tables'
    /// padding.)
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub(super) unsafe fn add(&mut self, x: __m512i, blocks: usize) {
        // SAFETY: at least one power is left, and three blocks of padding follow the last one.
        unsafe {
            let high = _mm512_loadu_si512(self.high.cast());
            if THREE {
                self.add_three(x, high);
            } else {
                let low = _mm512_loadu_si512(self.low.cast());
                self.at_0 = xor3(
                    self.at_0,
                    _mm512_clmulepi64_epi128::<0x01>(x, high),
                    _mm512_clmulepi64_epi128::<0x00>(x, low),
                );
                self.at_64 = xor3(
                    self.at_64,
                    _mm512_clmulepi64_epi128::<0x11>(x, high),
                    _mm512_clmulepi64_epi128::<0x10>(x, low),
                );
            }
        }
        self.high = self.high.wrapping_add(blocks);
        self.low = self.low.wrapping_add(blocks);
    }

    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn add_three(&mut self, x: __m512i, power: __m512i) {
        let join = _mm512_xor_si512;
        self.at_0 = join(self.at_0, _mm512_clmulepi64_epi128::<0x00>(x, power));
        self.at_64 = join(self.at_64, _mm512_clmulepi64_epi128::<0x11>(x, power));
        self.middle = join(self.middle, _mm512_clmulepi64_epi128::<0x00>(halves(x), halves(power)));
    }

    /// Adds two vectors of whole blocks, with three products.
    ///
    /// # Safety
    /// As for [`Self::add`].
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    unsafe fn add_two(&mut self, x: __m512i, y: __m512i) {
        // SAFETY: eight powers are left.
        let [p, q] = unsafe { [0, 4].map(|i| _mm512_loadu_si512(self.high.add(i).cast())) };
        self.at_0 =
            xor3(self.at_0, _mm512_clmulepi64_epi128::<0x00>(x, p), _mm512_clmulepi64_epi128::<0x00>(y, q));
        self.at_64 =
            xor3(self.at_64, _mm512_clmulepi64_epi128::<0x11>(x, p), _mm512_clmulepi64_epi128::<0x11>(y, q));
        // XORs the halves of each lane: one vector's results in the lower halves, the other's in
        // the upper.
        let halves = |a, b| _mm512_xor_si512(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
        let (blocks, powers) = (halves(x, y), halves(p, q));
        self.middle = xor3(
            self.middle,
            _mm512_clmulepi64_epi128::<0x00>(blocks, powers),
            _mm512_clmulepi64_epi128::<0x11>(blocks, powers),
        );
        self.high = self.high.wrapping_add(8);
        self.low = self.low.wrapping_add(8);
    }

    /// Adds the length block, times H.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,pclmulqdq")]
    pub(super) fn add_last<const R: usize>(&mut self, key: &Key<R>, x: __m128i) {
        let (high, low) = (from(key.high.0[POWERS - 1]), from(key.low.0[POWERS - 1]));
        if THREE {
            return self.add_three(_mm512_zextsi128_si512(x), _mm512_zextsi128_si512(high));
        }
        let at_0 = _mm_xor_si128(_mm_clmulepi64_si128::<0x01>(x, high), _mm_clmulepi64_si128::<0x00>(x, low));
        let at_64 =
            _mm_xor_si128(_mm_clmulepi64_si128::<0x11>(x, high), _mm_clmulepi64_si128::<0x10>(x, low));
        self.at_0 = _mm512_xor_si512(self.at_0, _mm512_zextsi128_si512(at_0));
        self.at_64 = _mm512_xor_si512(self.at_64, _mm512_zextsi128_si512(at_64));
    }

    /// Joins the lanes, then folds once: the fold is linear.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,vpclmulqdq")]
    pub(super) fn value(&self) -> __m128i {
        if THREE {
            let middle = xor3(self.at_0, self.middle, self.at_64);
            return join(fold(fold(self.at_0, middle), self.at_64));
        }
        join(fold(self.at_0, self.at_64))
    }
}

/// XORs each lane's two halves, into both halves.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(x: __m512i) -> __m512i {
    _mm512_xor_si512(x, turned(x))
}

/// Swaps the halves of each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn turned(x: __m512i) -> __m512i {
    _mm512_shuffle_epi32::<0b01_00_11_10>(x)
}

/// `(at_0 + at_64 x^64) x^-64` in the field, in each lane (see the portable `ghash`).
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn fold(at_0: __m512i, at_64: __m512i) -> __m512i {
    let fold = _mm512_broadcast_i32x4(_mm_set_epi64x(0, FOLD as i64));
    xor3(at_64, turned(at_0), _mm512_clmulepi64_epi128::<0x00>(at_0, fold))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(a, b, c)
}

/// The XOR of the four lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn join(x: __m512i) -> __m128i {
    let half = _mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
    _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn from(x: u128) -> __m128i {
    _mm_set_epi64x((x >> 64) as i64, x as i64)
}

/// Reverses the bytes of each block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn reversed(x: __m512i) -> __m512i {
    let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(order))
}

/// The mask of a vector's first `len` bytes; all of them if `len` is 64 or more (BZHI saturates up
/// to 255).
#[inline]
#[target_feature(enable = "bmi2")]
pub(super) fn mask(len: usize) -> __mmask64 {
    _bzhi_u64(u64::MAX, len as u32)
}

/// The segment's blocks; a whole packet includes a length block.
#[inline]
pub(super) fn blocks<const WHOLE: bool>(segment: &Segment<'_>) -> usize {
    if WHOLE { segment.aad.len().div_ceil(16) + segment.len.div_ceil(16) + 1 } else { segment.blocks() }
}

/// The length block (SP 800-38D section 7.1, step 5), byte-reversed.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn lengths(segment: &Segment<'_>) -> __m128i {
    _mm_set_epi64x(segment.total_aad as i64 * 8, segment.total as i64 * 8)
}

/// Adds the associated data and returns the value to XOR into the next block: the hash so far, if
/// no block has taken it.
///
/// # Safety
/// As for [`Sum::add`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,bmi2")]
pub(super) unsafe fn associated<const WHOLE: bool, const THREE: bool>(
    sum: &mut Sum<THREE>,
    segment: &Segment<'_>,
) -> __m512i {
    let mut joined = _mm512_setzero_si512();
    if !WHOLE {
        joined = _mm512_zextsi128_si512(from(u128::from_le_bytes(segment.hash.0)));
    }
    let mut at = segment.aad.as_ptr();
    let mut left = segment.aad.len();
    while left > 0 {
        let now = left.min(64);
        // SAFETY: `now` bytes from `at` are within the slice; the others are masked out and not
        // accessed. The sum's powers count these blocks.
        unsafe {
            let x = _mm512_maskz_loadu_epi8(mask(now), at.cast());
            sum.add(_mm512_xor_si512(reversed(x), joined), now.div_ceil(16));
        }
        joined = _mm512_setzero_si512();
        at = at.wrapping_add(now);
        left -= now;
    }
    joined
}

/// A whole packet with prepared key stream. Takes in registers what [`prepared`] takes in memory;
/// the last three parameters go by the stack.
///
/// # Safety
/// As for [`prepared`]; `aad` and `len` with the length block make at most [`POWERS`] blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vpclmulqdq,pclmulqdq,bmi2,sse4.1")]
#[allow(clippy::too_many_arguments, reason = "the parts of one packet")]
pub(super) unsafe fn packet<const R: usize, const SEAL: bool, const WIPE: bool>(
    key: &Key<R>,
    aad: &[u8],
    src: *const u8,
    stream: *mut u8,
    len: usize,
    dst: *mut u8,
    mask: &u128,
    tag: &mut [u8; 16],
) {
    let hash = &Block([0; 16]);
    let whole = Segment { hash, aad, src, total_aad: aad.len(), dst, len, mask: Some(mask), total: len };
    // SAFETY: guaranteed by the caller.
    *tag = unsafe {
        // For a short packet the second fold would be on the critical path.
        if key.three && len >= THREE_FROM {
            prepared::<R, SEAL, WIPE, true, true>(key, &whole, stream)
        } else {
            prepared::<R, SEAL, WIPE, true, false>(key, &whole, stream)
        }
    }
    .0;
}

/// A segment with prepared key stream: XOR, hash and optional wiping in one pass.
///
/// # Safety
/// The CPU supports the instructions; the pointers are valid for the segment's length, `stream` for
/// whole vectors; the segment has at most [`POWERS`] blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vpclmulqdq,pclmulqdq,bmi2,sse4.1")]
pub(super) unsafe fn prepared<
    const R: usize,
    const SEAL: bool,
    const WIPE: bool,
    const WHOLE: bool,
    const THREE: bool,
>(
    key: &Key<R>,
    segment: &Segment<'_>,
    stream: *mut u8,
) -> Block {
    // SAFETY: the segment fits the powers (caller), and `add` is called for its blocks only.
    let mut sum = unsafe { Sum::<THREE>::new(key, blocks::<WHOLE>(segment)) };
    if WHOLE {
        sum.add_last(key, lengths(segment));
    }
    // SAFETY: as above.
    let mut joined = unsafe { associated::<WHOLE, THREE>(&mut sum, segment) };
    let mut done = 0;
    // A vector of payload, and its input to the hash.
    let vector = |done: usize| {
        // SAFETY: 64 bytes from `done` are within the segment (below).
        unsafe {
            let at = stream.add(done);
            let pad = _mm512_loadu_si512(at.cast());
            let x = _mm512_loadu_si512(segment.src.add(done).cast());
            let y = _mm512_xor_si512(x, pad);
            _mm512_storeu_si512(segment.dst.add(done).cast(), y);
            if WIPE {
                _mm512_storeu_si512(at.cast(), _mm512_setzero_si512());
            }
            reversed(if SEAL { y } else { x })
        }
    };
    while THREE && segment.len - done >= 128 {
        // SAFETY: the sum's powers count these blocks.
        unsafe { sum.add_two(_mm512_xor_si512(vector(done), joined), vector(done + 64)) };
        joined = _mm512_setzero_si512();
        done += 128;
    }
    while segment.len - done >= 64 {
        // SAFETY: the sum's powers count these blocks.
        unsafe { sum.add(_mm512_xor_si512(vector(done), joined), 4) };
        joined = _mm512_setzero_si512();
        done += 64;
    }
    let left = segment.len - done;
    if left > 0 {
        let some = mask(left);
        // SAFETY: `left` bytes from `done` are within the segment, the others are masked out; the
        // stream is valid for whole vectors.
        unsafe {
            let at = stream.add(done);
            let pad = _mm512_loadu_si512(at.cast());
            let x = _mm512_maskz_loadu_epi8(some, segment.src.add(done).cast());
            let y = _mm512_maskz_mov_epi8(some, _mm512_xor_si512(x, pad));
            _mm512_mask_storeu_epi8(segment.dst.add(done).cast(), some, y);
            if WIPE {
                _mm512_storeu_si512(at.cast(), _mm512_setzero_si512());
            }
            sum.add(_mm512_xor_si512(reversed(if SEAL { y } else { x }), joined), left.div_ceil(16));
        }
        joined = _mm512_setzero_si512();
    }
    if WIPE {
        // SAFETY: the pointer is to the caller's buffer, and the assembly reads nothing. It keeps
        // the compiler from removing the stores above.
        unsafe { core::arch::asm!("/* {} */", in(reg) stream, options(nostack, preserves_flags)) };
    }
    finish::<R, WHOLE, THREE>(key, segment, sum, joined)
}

/// The last block's product unless already added, the fold, and the mask.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,pclmulqdq,ssse3")]
fn finish<const R: usize, const WHOLE: bool, const THREE: bool>(
    key: &Key<R>,
    segment: &Segment<'_>,
    mut sum: Sum<THREE>,
    joined: __m512i,
) -> Block {
    if !WHOLE && segment.mask.is_some() {
        sum.add_last(key, _mm_xor_si128(lengths(segment), _mm512_castsi512_si128(joined)));
    }
    let hash = sum.value();
    let result = match segment.mask {
        None => hash,
        Some(mask) => {
            let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
            _mm_xor_si128(_mm_shuffle_epi8(hash, order), from(*mask))
        }
    };
    let mut out = Block::default();
    // SAFETY: a block has 16 bytes.
    unsafe { _mm_storeu_si128(out.0.as_mut_ptr().cast(), result) };
    out
}

/// `W` vectors of key stream from a vector of counter blocks, whose last words are still
/// little-endian.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn cipher<const R: usize, const W: usize>(key: &Key<R>, counters: &mut __m512i) -> [__m512i; W] {
    let order = _mm_set_epi64x(0x0c0d_0e0f_0b0a_0908, 0x0706_0504_0302_0100);
    let order = _mm512_broadcast_i32x4(order);
    let four = _mm512_set_epi32(4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0);
    let round_key = |round: usize| _mm512_broadcast_i32x4(from(u128::from_le_bytes(key.round_keys[round])));
    let mut x = [_mm512_setzero_si512(); W];
    for block in &mut x {
        *block = _mm512_xor_si512(_mm512_shuffle_epi8(*counters, order), round_key(0));
        *counters = _mm512_add_epi32(*counters, four);
    }
    for round in 1..R {
        let k = round_key(round);
        for block in &mut x {
            *block = _mm512_aesenc_epi128(*block, k);
        }
    }
    let k = round_key(R);
    x.map(|block| _mm512_aesenclast_epi128(block, k))
}

/// The counter blocks of unit `first` (SP 800-38D section 7.1: the payload's counter starts at 2).
#[inline]
#[target_feature(enable = "avx512f")]
fn counters(nonce: &[u8; 12], first: usize) -> __m512i {
    let mut block = [0; 16];
    block[..12].copy_from_slice(nonce);
    let base = _mm512_broadcast_i32x4(from(u128::from_le_bytes(block)));
    let start = _mm512_maskz_set1_epi32(0x8888, 2i32.wrapping_add(4 * first as i32));
    let each = _mm512_set_epi32(3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0);
    _mm512_add_epi32(base, _mm512_add_epi32(start, each))
}

/// Payload key stream from unit `first`.
///
/// # Safety
/// The CPU supports the instructions.
#[target_feature(enable = "avx512f,avx512bw,vaes")]
pub(super) unsafe fn stream<const R: usize>(
    key: &Key<R>,
    nonce: &[u8; 12],
    first: usize,
    out: &mut [[u8; 64]],
) {
    let mut counters = counters(nonce, first);
    let (eights, rest) = out.as_chunks_mut::<8>();
    for units in eights {
        for (unit, x) in units.iter_mut().zip(cipher::<R, 8>(key, &mut counters)) {
            // SAFETY: a unit has 64 bytes.
            unsafe { _mm512_storeu_si512(unit.as_mut_ptr().cast(), x) };
        }
    }
    for unit in rest {
        let [x] = cipher::<R, 1>(key, &mut counters);
        // SAFETY: a unit has 64 bytes.
        unsafe { _mm512_storeu_si512(unit.as_mut_ptr().cast(), x) };
    }
}

/// A segment with key stream computed during the pass, from unit `first`.
///
/// # Safety
/// The CPU supports the instructions; the pointers are valid for the segment's length; the segment
/// has at most [`POWERS`] blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,pclmulqdq,bmi2,sse4.1")]
pub(super) unsafe fn unprepared<const R: usize, const SEAL: bool>(
    key: &Key<R>,
    segment: &Segment<'_>,
    nonce: &[u8; 12],
    first: usize,
) -> Block {
    let mut counters = counters(nonce, first);
    // SAFETY: the segment fits the powers (caller), and `add` is called for its blocks only.
    let mut sum = unsafe { Sum::<false>::new(key, blocks::<false>(segment)) };
    // SAFETY: as above.
    let mut joined = unsafe { associated::<false, false>(&mut sum, segment) };
    let mut done = 0;
    while segment.len - done >= 256 {
        for pad in cipher::<R, 4>(key, &mut counters) {
            // SAFETY: 256 bytes from the loop's first `done` are within the segment.
            unsafe {
                let x = _mm512_loadu_si512(segment.src.add(done).cast());
                let y = _mm512_xor_si512(x, pad);
                _mm512_storeu_si512(segment.dst.add(done).cast(), y);
                sum.add(_mm512_xor_si512(reversed(if SEAL { y } else { x }), joined), 4);
            }
            joined = _mm512_setzero_si512();
            done += 64;
        }
    }
    while done < segment.len {
        let now = (segment.len - done).min(64);
        let some = mask(now);
        let [pad] = cipher::<R, 1>(key, &mut counters);
        // SAFETY: `now` bytes from `done` are within the segment, the others are masked out.
        unsafe {
            let x = _mm512_maskz_loadu_epi8(some, segment.src.add(done).cast());
            let y = _mm512_maskz_mov_epi8(some, _mm512_xor_si512(x, pad));
            _mm512_mask_storeu_epi8(segment.dst.add(done).cast(), some, y);
            sum.add(_mm512_xor_si512(reversed(if SEAL { y } else { x }), joined), now.div_ceil(16));
        }
        joined = _mm512_setzero_si512();
        done += now;
    }
    finish::<R, false, false>(key, segment, sum, joined)
}

/// Wipes bytes in whole vectors.
///
/// # Safety
/// The CPU supports the instructions.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn wipe(bytes: &mut [u8]) {
    let zero = _mm512_setzero_si512();
    let (units, rest) = bytes.as_chunks_mut::<64>();
    for unit in units {
        // SAFETY: a unit has 64 bytes.
        unsafe { _mm512_storeu_si512(unit.as_mut_ptr().cast(), zero) };
    }
    rest.fill(0);
    zeroize::optimization_barrier(bytes);
}
