//! AES-GCM with 256-bit VAES and VPCLMULQDQ, for CPUs without AVX-512: Intel since Alder Lake,
//! including the small cores in many industrial computers, and AMD Zen 3. Two blocks to a vector.
//!
//! A block takes three products (Karatsuba). The XOR of a power's halves comes from the table of
//! powers by a second load, at an offset of eight bytes, so no other table needs caching. In the
//! one-pass kernel, the cipher's rounds of a chunk are interleaved with the hash of the chunk
//! before, as in [`gcm_beside`](super::gcm_beside).

use super::{
    gcm_key::{Block, Key, POWERS, Powers, Segment},
    ni::{fold, from, result},
    partial::{first, load, store},
};
use crate::backend::modes::gcm::counter_block;
use core::{
    arch::{asm, x86_64::*},
    mem::MaybeUninit,
};

/// Bytes of a vector.
pub(super) const VECTOR: usize = 32;
/// Vectors of key stream computed at a time, and their bytes.
const WIDTH: usize = 8;
const CHUNK: usize = WIDTH * VECTOR;
/// Payload bytes from which the one-pass kernel beats [`ni`](super::ni): it computes at least a
/// whole chunk of key stream.
pub(super) const FROM: usize = 112;

/// Ciphertext with the bytes of each block reversed: the current chunk and the one before. At the
/// end it also holds the remainder's key stream.
#[repr(C, align(64))]
struct Turned([u8; 2 * CHUNK]);

/// An unreduced sum of products in two lanes: of the lower halves, of the upper halves, and of the
/// halves' XORs.
///
/// `LATE` is 0, or 1 to add the last products only when the next ones start: a sum that waits for
/// its products delays the following ones. With the cipher's rounds interleaved there are too few
/// registers for it.
#[derive(Clone, Copy)]
pub(super) struct Running<const LATE: usize> {
    low: __m256i,
    high: __m256i,
    both: __m256i,
    /// The last products for each of the three sums, if not yet added.
    last: [[__m256i; 3]; LATE],
    /// The next block's power.
    power: *const u128,
}

impl<const LATE: usize> Running<LATE> {
    /// Starts with the products known at once: the length block times H, if the segment ends with
    /// one, and the hash so far times the power of the block it joins.
    #[inline]
    #[target_feature(enable = "avx2,vpclmulqdq")]
    fn new(powers: &Powers, segment: &Segment<'_>) -> Self {
        let (last, powers) = (powers.0[POWERS - 1], &powers.0[POWERS - segment.blocks()..]);
        let lengths = match segment.mask {
            // Byte-reversed, like all blocks.
            Some(_) => _mm_set_epi64x(segment.total_aad as i64 * 8, segment.total as i64 * 8),
            None => _mm_setzero_si128(),
        };
        let x = _mm256_set_m128i(from(u128::from_le_bytes(segment.hash.0)), lengths);
        let power = _mm256_set_m128i(from(powers[0]), from(last));
        Self::of(x, power, powers.as_ptr())
    }

    /// Starts with two byte-reversed blocks times two powers. The next block's power is at `next`.
    #[inline]
    #[target_feature(enable = "avx2,vpclmulqdq")]
    pub(super) fn of(x: __m256i, power: __m256i, next: *const u128) -> Self {
        let nothing = _mm256_setzero_si256();
        let (low, high, both) = (nothing, nothing, nothing);
        let mut new = Self { low, high, both, last: [[nothing; 3]; LATE], power: next };
        new.product(x, power, _mm256_xor_si256(power, turned(power)));
        new
    }

    /// Adds the products of two byte-reversed blocks with two powers and the XORs of their halves.
    #[inline]
    #[target_feature(enable = "avx2,vpclmulqdq")]
    fn product(&mut self, x: __m256i, power: __m256i, of_power: __m256i) {
        let mut halves = _mm256_xor_si256(x, turned(x));
        if let Some([low, high, both]) = self.last.first_mut() {
            // SAFETY: the assembly is empty. It keeps the compiler from moving the sums before the
            // preceding code.
            unsafe {
                asm!(
                    "/* {} {} {} {} */",
                    inout(ymm_reg) *low,
                    inout(ymm_reg) *high,
                    inout(ymm_reg) *both,
                    inout(ymm_reg) halves,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
            self.settle();
            // SAFETY: as above. It keeps the products after the sums.
            unsafe {
                asm!(
                    "/* {} {} {} {} */",
                    inout(ymm_reg) self.low,
                    inout(ymm_reg) self.high,
                    inout(ymm_reg) self.both,
                    inout(ymm_reg) halves,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
        }
        let low = _mm256_clmulepi64_epi128::<0x00>(x, power);
        let high = _mm256_clmulepi64_epi128::<0x11>(x, power);
        let both = _mm256_clmulepi64_epi128::<0x00>(halves, of_power);
        match self.last.first_mut() {
            Some(last) => *last = [low, high, both],
            None => self.sum([low, high, both]),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn sum(&mut self, [low, high, both]: [__m256i; 3]) {
        self.low = _mm256_xor_si256(self.low, low);
        self.high = _mm256_xor_si256(self.high, high);
        self.both = _mm256_xor_si256(self.both, both);
    }

    /// Adds the last products, if not yet added.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn settle(&mut self) {
        if let Some(last) = self.last.first().copied() {
            self.sum(last);
        }
    }

    /// Adds two byte-reversed blocks, whose powers start `ahead` places on.
    ///
    /// # Safety
    /// A power is left there. (Zeros follow the last one.)
    #[inline]
    #[target_feature(enable = "avx2,vpclmulqdq")]
    pub(super) unsafe fn add(&mut self, x: __m256i, ahead: usize) {
        // SAFETY: guaranteed by the caller; four zeros follow the last power.
        let (power, turned) = unsafe {
            let at = self.power.add(ahead).cast::<u8>();
            (_mm256_loadu_si256(at.cast()), _mm256_loadu_si256(at.add(8).cast()))
        };
        self.product(x, power, _mm256_xor_si256(power, turned));
    }

    /// Continues after `blocks` blocks.
    #[inline]
    pub(super) fn skip(&mut self, blocks: usize) {
        self.power = self.power.wrapping_add(blocks);
    }

    /// The sum's value: joins the lanes, then folds twice.
    #[inline]
    #[target_feature(enable = "avx2,pclmulqdq")]
    pub(super) fn value(mut self) -> __m128i {
        self.settle();
        let join = |x| _mm_xor_si128(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
        let (low, high) = (join(self.low), join(self.high));
        let both = _mm_xor_si128(join(self.both), _mm_xor_si128(low, high));
        fold(fold(low, both), high)
    }
}

/// Swaps the halves of each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn turned(x: __m256i) -> __m256i {
    _mm256_shuffle_epi32::<0b01_00_11_10>(x)
}

/// Loads `len` bytes, 1 to 32, zero-padded.
///
/// # Safety
/// `at` is valid for `len` bytes.
#[inline]
#[target_feature(enable = "avx2,ssse3")]
unsafe fn load_some(at: *const u8, len: usize) -> __m256i {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match len.checked_sub(16) {
            Some(16) => _mm256_loadu_si256(at.cast()),
            Some(more) => _mm256_set_m128i(load(at.add(16), more, 0), _mm_loadu_si128(at.cast())),
            None => _mm256_zextsi128_si256(load(at, len, 0)),
        }
    }
}

/// Stores the first `len` bytes, 1 to 32, and returns them zero-padded.
///
/// # Safety
/// `at` is valid for `len` bytes.
#[inline]
#[target_feature(enable = "avx2,ssse3")]
unsafe fn store_some(at: *mut u8, len: usize, x: __m256i) -> __m256i {
    let (low, high) = (_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
    // SAFETY: guaranteed by the caller.
    unsafe {
        match len.checked_sub(16) {
            Some(16) => {
                _mm256_storeu_si256(at.cast(), x);
                x
            }
            Some(more) => {
                _mm_storeu_si128(at.cast(), low);
                store(at.add(16), more, high);
                _mm256_set_m128i(first(high, more), low)
            }
            None => {
                store(at, len, low);
                _mm256_zextsi128_si256(first(low, len))
            }
        }
    }
}

/// Reverses the bytes of each block.
#[inline]
#[target_feature(enable = "avx2")]
fn reversed(x: __m256i) -> __m256i {
    let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(order))
}

#[inline]
#[target_feature(enable = "avx2")]
fn round_key<const R: usize>(key: &Key<R>, round: usize) -> __m256i {
    _mm256_broadcastsi128_si256(from(u128::from_le_bytes(key.round_keys[round])))
}

/// Two counter blocks, whose last words are still little-endian.
#[inline]
#[target_feature(enable = "avx2")]
fn first_counters(nonce: &[u8; 12], counter: u32) -> __m256i {
    let base = _mm256_broadcastsi128_si256(from(u128::from_le_bytes(counter_block(nonce, 0))));
    let (one, two) = (counter as i32, counter.wrapping_add(1) as i32);
    _mm256_add_epi32(base, _mm256_set_epi32(two, 0, 0, 0, one, 0, 0, 0))
}

/// `W` vectors of counter blocks XORed with the first round key. Advances `next` to the following
/// counters.
#[inline]
#[target_feature(enable = "avx2")]
fn counters<const R: usize, const W: usize>(key: &Key<R>, next: &mut __m256i) -> [__m256i; W] {
    let order = _mm_set_epi64x(0x0c0d_0e0f_0b0a_0908, 0x0706_0504_0302_0100);
    let order = _mm256_broadcastsi128_si256(order);
    let two = _mm256_set_epi32(2, 0, 0, 0, 2, 0, 0, 0);
    let key = round_key(key, 0);
    let mut x = [_mm256_setzero_si256(); W];
    for vector in &mut x {
        *vector = _mm256_xor_si256(_mm256_shuffle_epi8(*next, order), key);
        *next = _mm256_add_epi32(*next, two);
    }
    x
}

/// Rounds from `first` on, for `W` vectors.
#[inline]
#[target_feature(enable = "avx2,vaes")]
fn rounds<const R: usize, const W: usize>(key: &Key<R>, first: usize, mut x: [__m256i; W]) -> [__m256i; W] {
    for round in first..R {
        let k = round_key(key, round);
        for vector in &mut x {
            *vector = _mm256_aesenc_epi128(*vector, k);
        }
    }
    let k = round_key(key, R);
    x.map(|vector| _mm256_aesenclast_epi128(vector, k))
}

/// Payload key stream from 64-byte unit `first`.
///
/// # Safety
/// The CPU supports the instructions.
#[target_feature(enable = "avx2,vaes")]
pub(super) unsafe fn stream<const R: usize>(
    key: &Key<R>,
    nonce: &[u8; 12],
    first: usize,
    out: &mut [[u8; 64]],
) {
    let mut next = first_counters(nonce, 2u32.wrapping_add(4 * first as u32));
    let (fours, rest) = out.as_chunks_mut::<{ CHUNK / 64 }>();
    for units in fours {
        let x = rounds(key, 1, counters::<R, WIDTH>(key, &mut next));
        for (bytes, x) in units.as_flattened_mut().as_chunks_mut::<VECTOR>().0.iter_mut().zip(x) {
            // SAFETY: a vector has 32 bytes.
            unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), x) };
        }
    }
    for unit in rest {
        let x = rounds(key, 1, counters::<R, 2>(key, &mut next));
        for (bytes, x) in unit.as_chunks_mut::<VECTOR>().0.iter_mut().zip(x) {
            // SAFETY: as above.
            unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), x) };
        }
    }
}

/// One segment of a packet with prepared key stream. Both directions and both key lengths share the
/// code.
///
/// # Safety
/// The CPU has AVX2 and VPCLMULQDQ with PCLMULQDQ and SSE4.1; the pointers are valid for the
/// segment's length, `stream` for whole vectors; the segment has at least one and at most
/// [`POWERS`] blocks.
#[inline(never)]
#[target_feature(enable = "avx2,vpclmulqdq,pclmulqdq,ssse3,sse4.1")]
pub(super) unsafe fn prepared(
    powers: &Powers,
    seal: bool,
    segment: &Segment<'_>,
    stream: *const u8,
) -> Block {
    let Segment { src, dst, len, .. } = *segment;
    // SAFETY: the segment has this many blocks; the caller guarantees the rest.
    let running = unsafe { payload::<0>(begun(powers, segment), seal, src, dst, len, stream.cast_mut()) };
    result(running.value(), segment.mask)
}

/// A whole packet with prepared key stream, wiped during the pass in units of 64 bytes. Like
/// [`prepared`], but takes its arguments in registers. Sealing and opening share the code, so that
/// it is cached when a gateway opens after sealing.
///
/// # Safety
/// As for [`prepared`], `stream` for whole units; `aad` and `len` with the length block make at
/// most [`POWERS`] blocks.
#[inline(never)]
#[target_feature(enable = "avx2,vpclmulqdq,pclmulqdq,ssse3,sse4.1")]
#[allow(clippy::too_many_arguments, reason = "the parts of one packet")]
pub(super) unsafe fn packet(
    powers: &Powers,
    aad: &[u8],
    src: *const u8,
    stream: *mut u8,
    len: usize,
    dst: *mut u8,
    seal: bool,
    mask: &u128,
    tag: &mut [u8; 16],
) {
    let hash = &Block([0; 16]);
    let whole = Segment { hash, aad, src, total_aad: aad.len(), dst, len, mask: Some(mask), total: len };
    // SAFETY: the packet has this many blocks; the caller guarantees the rest.
    let running = unsafe { payload::<1>(begun(powers, &whole), seal, src, dst, len, stream) };
    *tag = result(running.value(), Some(mask)).0;
    // Keeps the compiler from removing the wipe.
    // SAFETY: the assembly is empty.
    unsafe { asm!("/* {} */", in(reg) stream, options(nostack, preserves_flags)) };
}

/// One segment of a packet.
///
/// # Safety
/// As for [`prepared`], except for the stream; the CPU also has VAES and AES-NI.
#[target_feature(enable = "avx2,vaes,vpclmulqdq,aes,pclmulqdq,ssse3,sse4.1")]
pub(super) unsafe fn segment<const R: usize, const SEAL: bool>(
    key: &Key<R>,
    segment: &Segment<'_>,
    nonce: &[u8; 12],
    unit: usize,
) -> Block {
    let counters = first_counters(nonce, 2u32.wrapping_add(4 * unit as u32));
    // SAFETY: the segment has this many blocks; the caller guarantees the rest.
    let running = unsafe { ciphered::<R, SEAL>(begun(&key.high, segment), segment, key, counters) };
    result(running.value(), segment.mask)
}

/// The sum of a segment's associated data and of the products known at once.
///
/// # Safety
/// The table has the segment's powers.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq,ssse3")]
unsafe fn begun<const LATE: usize>(powers: &Powers, segment: &Segment<'_>) -> Running<LATE> {
    let mut running = Running::new(powers, segment);
    for some in segment.aad.chunks(VECTOR) {
        // SAFETY: the bytes come from the slice; the caller guarantees the powers.
        unsafe { running.add(reversed(load_some(some.as_ptr(), some.len())), 0) };
        running.skip(some.len().div_ceil(16));
    }
    running
}

/// XORs in a key stream, and adds the ciphertext: the output when sealing, the input when opening.
/// `PACKET` is 1 for a whole packet, which adds its last products late and wipes its key stream in
/// units of 64 bytes; otherwise 0.
///
/// # Safety
/// The pointers are valid for `len` bytes, `stream` for whole vectors (units, for a packet), and
/// the blocks' powers are left.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq,ssse3")]
unsafe fn payload<const PACKET: usize>(
    mut running: Running<PACKET>,
    seal: bool,
    src: *const u8,
    dst: *mut u8,
    len: usize,
    stream: *mut u8,
) -> Running<PACKET> {
    let nothing = _mm256_setzero_si256();
    // SAFETY: 32 bytes from `at` are within the stream for each `at` below `len` that is a multiple
    // of 32.
    let taken = |at: usize| unsafe { _mm256_loadu_si256(stream.add(at).cast()) };
    let mut done = 0;
    // SAFETY: vectors below `len` are within source and destination, and their powers are left.
    unsafe {
        macro_rules! vectors {
            ($wire:ident, $($i:literal)*) => {
                $(
                    let at = done + $i * VECTOR;
                    let (x, pad) = (_mm256_loadu_si256(src.add(at).cast()), taken(at));
                    let y = _mm256_xor_si256(x, pad);
                    _mm256_storeu_si256(dst.add(at).cast(), y);
                    if PACKET == 1 {
                        _mm256_storeu_si256(stream.add(at).cast(), nothing);
                    }
                    let wire = $wire(x, y);
                    running.add(reversed(wire), $i * 2);
                )*
            };
        }
        // Two vectors at a time while there are two. One loop per direction is shorter than a loop
        // that chooses for each vector.
        macro_rules! pairs {
            ($wire:ident) => {
                while len - done >= 2 * VECTOR {
                    vectors!($wire, 0 1);
                    done += 2 * VECTOR;
                    running.skip(4);
                }
            };
        }
        let (sealed, opened) = (|_, y| y, |x, _| x);
        if seal {
            pairs!(sealed);
        } else {
            pairs!(opened);
        }
        let either = |x, y| if seal { y } else { x };
        if len - done >= VECTOR {
            vectors!(either, 0);
            done += VECTOR;
            running.skip(2);
        }
        if done < len {
            let (at, left) = (done, len - done);
            let x = load_some(src.add(at), left);
            let y = store_some(dst.add(at), left, _mm256_xor_si256(x, taken(at)));
            running.add(reversed(either(x, y)), 0);
        }
        if PACKET == 1 && !len.is_multiple_of(2 * VECTOR) {
            let last = stream.add(len - len % (2 * VECTOR));
            _mm256_storeu_si256(last.cast(), nothing);
            _mm256_storeu_si256(last.add(VECTOR).cast(), nothing);
        }
    }
    running
}

/// XORs in the cipher's key stream, its rounds interleaved with the hash of the ciphertext one
/// chunk earlier.
///
/// # Safety
/// As for [`segment`]; the payload's powers are left.
#[inline]
#[target_feature(enable = "avx2,vaes,vpclmulqdq,ssse3")]
unsafe fn ciphered<const R: usize, const SEAL: bool>(
    mut running: Running<0>,
    segment: &Segment<'_>,
    key: &Key<R>,
    mut next: __m256i,
) -> Running<0> {
    let Segment { src, dst, len, .. } = *segment;
    let mut room = MaybeUninit::<Turned>::uninit();
    let room = room.as_mut_ptr().cast::<u8>();
    let mut done = 0;
    // SAFETY: vectors below `len` are within source and destination, and `done & CHUNK` chooses one
    // of the buffer's two chunks; the previous iteration wrote the other one. The powers of a
    // hashed chunk were left for it.
    unsafe {
        loop {
            let (now, before) = (room.add(done & CHUNK), room.add(CHUNK - (done & CHUNK)));
            let mut pads = counters::<R, WIDTH>(key, &mut next);
            macro_rules! round {
                ($round:literal) => {{
                    let k = round_key(key, $round);
                    for vector in &mut pads {
                        *vector = _mm256_aesenc_epi128(*vector, k);
                    }
                    let [a, b, c, d, e, f, g, h] = &mut pads;
                    // Keeps the rounds in this order.
                    asm!(
                        "/* {0} {1} {2} {3} {4} {5} {6} {7} */",
                        inout(ymm_reg) * a,
                        inout(ymm_reg) * b,
                        inout(ymm_reg) * c,
                        inout(ymm_reg) * d,
                        inout(ymm_reg) * e,
                        inout(ymm_reg) * f,
                        inout(ymm_reg) * g,
                        inout(ymm_reg) * h,
                        options(nostack, preserves_flags)
                    );
                    if done > 0 {
                        let x = _mm256_load_si256(before.add(VECTOR * ($round - 1)).cast());
                        running.add(x, 2 * ($round - 1));
                        // Keeps the compiler from summing a chunk as a tree, which needs more
                        // registers than there are.
                        asm!(
                            "/* {0} {1} {2} */",
                            inout(ymm_reg) running.low,
                            inout(ymm_reg) running.high,
                            inout(ymm_reg) running.both,
                            options(nostack, preserves_flags)
                        );
                    }
                }};
            }
            round!(1);
            round!(2);
            round!(3);
            round!(4);
            round!(5);
            round!(6);
            round!(7);
            round!(8);
            if done > 0 {
                running.skip(CHUNK / 16);
            }
            let pads = rounds(key, WIDTH + 1, pads);
            let rest = len - done;
            if rest < CHUNK {
                for (i, pad) in pads.into_iter().enumerate() {
                    _mm256_store_si256(now.add(VECTOR * i).cast(), pad);
                }
                let running = payload::<0>(running, SEAL, src.add(done), dst.add(done), rest, now);
                // Wipes unused key stream as well. The assembly keeps the compiler from removing
                // the wipe.
                for i in 0..WIDTH {
                    _mm256_store_si256(now.add(VECTOR * i).cast(), _mm256_setzero_si256());
                }
                asm!("/* {} */", in(reg) now, options(nostack, preserves_flags));
                return running;
            }
            for (i, pad) in pads.into_iter().enumerate() {
                let at = done + VECTOR * i;
                let x = _mm256_loadu_si256(src.add(at).cast());
                let y = _mm256_xor_si256(x, pad);
                _mm256_storeu_si256(dst.add(at).cast(), y);
                _mm256_store_si256(now.add(VECTOR * i).cast(), reversed(if SEAL { y } else { x }));
            }
            done += CHUNK;
        }
    }
}
