//! Kernels with AES-NI and PCLMULQDQ: one block to a register, four registers at a time.

use super::{
    gcm_key::{Block, Key, POWERS, Segment, Stream},
    partial::{first, load, store},
};
use crate::backend::{
    modes::gcm::counter_block,
    portable::ghash::{FOLD, Power},
};
use core::arch::x86_64::*;

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn from(x: u128) -> __m128i {
    _mm_set_epi64x((x >> 64) as i64, x as i64)
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn into(x: __m128i) -> u128 {
    u128::from(_mm_extract_epi64::<1>(x) as u64) << 64 | u128::from(_mm_cvtsi128_si64(x) as u64)
}

/// An unreduced sum of products (see the portable `ghash`).
struct Sum {
    at_0: __m128i,
    at_64: __m128i,
}

impl Sum {
    #[inline]
    #[target_feature(enable = "sse2")]
    fn new() -> Self {
        Self { at_0: _mm_setzero_si128(), at_64: _mm_setzero_si128() }
    }

    #[inline]
    #[target_feature(enable = "sse2,pclmulqdq")]
    fn add(&mut self, x: __m128i, high: u128, low: u128) {
        let (high, low) = (from(high), from(low));
        let at_0 = _mm_xor_si128(_mm_clmulepi64_si128::<0x01>(x, high), _mm_clmulepi64_si128::<0x00>(x, low));
        let at_64 =
            _mm_xor_si128(_mm_clmulepi64_si128::<0x11>(x, high), _mm_clmulepi64_si128::<0x10>(x, low));
        self.at_0 = _mm_xor_si128(self.at_0, at_0);
        self.at_64 = _mm_xor_si128(self.at_64, at_64);
    }

    #[inline]
    #[target_feature(enable = "sse4.1,pclmulqdq")]
    fn value(&self) -> u128 {
        into(self.vector())
    }

    #[inline]
    #[target_feature(enable = "sse2,pclmulqdq")]
    fn vector(&self) -> __m128i {
        fold(self.at_0, self.at_64)
    }
}

/// `(at_0 + at_64 x^64) x^-64` in the field (see the portable `ghash`).
#[inline]
#[target_feature(enable = "sse2,pclmulqdq")]
pub(super) fn fold(at_0: __m128i, at_64: __m128i) -> __m128i {
    let folded = _mm_clmulepi64_si128::<0x00>(at_0, _mm_set_epi64x(0, FOLD as i64));
    let turned = _mm_shuffle_epi32::<0b01_00_11_10>(at_0);
    _mm_xor_si128(_mm_xor_si128(at_64, turned), folded)
}

/// The field product.
///
/// # Safety
/// The CPU has SSE4.1 and PCLMULQDQ.
#[target_feature(enable = "sse4.1,pclmulqdq")]
pub(super) unsafe fn times(x: u128, power: &Power) -> u128 {
    let mut sum = Sum::new();
    sum.add(from(x), power.high, power.low);
    sum.value()
}

/// An element as a multiplier (see the portable `ghash`).
///
/// # Safety
/// The CPU has SSE4.1 and PCLMULQDQ.
#[target_feature(enable = "sse4.1,pclmulqdq")]
pub(super) unsafe fn power(element: u128) -> Power {
    let high = Power::high(element);
    Power { high, low: into(fold(from(high), _mm_setzero_si128())) }
}

/// `W` counter blocks, XORed with the first round key.
#[inline]
#[target_feature(enable = "sse4.1,aes")]
pub(super) fn counters<const R: usize, const W: usize>(
    key: &Key<R>,
    nonce: &[u8; 12],
    counter: u32,
) -> [__m128i; W] {
    let base = from(u128::from_le_bytes(counter_block(nonce, 0)));
    let mut x = [_mm_setzero_si128(); W];
    for (i, block) in x.iter_mut().enumerate() {
        let counter = counter.wrapping_add(i as u32).swap_bytes() as i32;
        let key = from(u128::from_le_bytes(key.round_keys[0]));
        *block = _mm_xor_si128(_mm_insert_epi32::<3>(base, counter), key);
    }
    x
}

/// `W` blocks of key stream from a counter.
#[inline]
#[target_feature(enable = "sse4.1,aes")]
fn cipher<const R: usize, const W: usize>(key: &Key<R>, nonce: &[u8; 12], counter: u32) -> [__m128i; W] {
    let round_key = |round: usize| from(u128::from_le_bytes(key.round_keys[round]));
    let mut x = counters::<R, W>(key, nonce, counter);
    for round in 1..R {
        let k = round_key(round);
        for block in &mut x {
            *block = _mm_aesenc_si128(*block, k);
        }
    }
    let k = round_key(R);
    x.map(|block| _mm_aesenclast_si128(block, k))
}

/// E(J0), in memory order.
///
/// # Safety
/// The CPU has SSE4.1 and AES-NI.
#[target_feature(enable = "sse4.1,aes")]
pub(super) unsafe fn mask<const R: usize>(key: &Key<R>, nonce: &[u8; 12], out: &mut u128) {
    let [mask] = cipher::<R, 1>(key, nonce, 1);
    // SAFETY: the number has 16 bytes. (Stored as a vector, since a vector load reads it; two word
    // stores would delay that.)
    unsafe { _mm_storeu_si128(core::ptr::from_mut(out).cast(), mask) };
}

/// H, the encryption of the zero block.
///
/// # Safety
/// The CPU has SSE4.1 and AES-NI.
#[target_feature(enable = "sse4.1,aes")]
pub(super) unsafe fn hash_key<const R: usize>(key: &Key<R>) -> u128 {
    let [h] = cipher::<R, 1>(key, &[0; 12], 0);
    into(h).swap_bytes()
}

/// Payload key stream from unit `first`.
///
/// # Safety
/// The CPU has SSE4.1 and AES-NI.
#[target_feature(enable = "sse4.1,aes")]
pub(super) unsafe fn stream<const R: usize>(
    key: &Key<R>,
    nonce: &[u8; 12],
    first: usize,
    out: &mut [[u8; 64]],
) {
    let counter = 2u32.wrapping_add(4 * first as u32);
    let (pairs, rest) = out.as_chunks_mut::<2>();
    for (i, pair) in pairs.iter_mut().enumerate() {
        let blocks = cipher::<R, 8>(key, nonce, counter.wrapping_add(8 * i as u32));
        write(pair.as_flattened_mut(), blocks);
    }
    for unit in rest {
        write(unit, cipher::<R, 4>(key, nonce, counter.wrapping_add(8 * pairs.len() as u32)));
    }
}

#[inline]
#[target_feature(enable = "sse2")]
fn write<const W: usize>(out: &mut [u8], blocks: [__m128i; W]) {
    for (bytes, x) in out.as_chunks_mut::<16>().0.iter_mut().zip(blocks) {
        // SAFETY: a block has 16 bytes.
        unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), x) };
    }
}

/// Reverses the bytes of a block.
#[inline]
#[target_feature(enable = "ssse3")]
pub(super) fn reversed(x: __m128i) -> __m128i {
    _mm_shuffle_epi8(x, turn())
}

/// The shuffle that reverses the bytes of a block.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn turn() -> __m128i {
    _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f)
}

/// A sum over a segment's blocks, in order.
struct Running {
    sum: Sum,
    /// The value to XOR into the next block: the hash so far, until a block takes it.
    joined: __m128i,
    /// The next block's powers.
    high: *const u128,
    low: *const u128,
}

impl Running {
    /// Adds a block.
    ///
    /// # Safety
    /// A power is left.
    #[inline]
    #[target_feature(enable = "ssse3,pclmulqdq")]
    unsafe fn add(&mut self, block: __m128i) {
        // SAFETY: guaranteed by the caller.
        let (high, low) = unsafe { (*self.high, *self.low) };
        self.sum.add(_mm_xor_si128(reversed(block), self.joined), high, low);
        self.joined = _mm_setzero_si128();
        self.high = self.high.wrapping_add(1);
        self.low = self.low.wrapping_add(1);
    }

    /// XORs in whole blocks of key stream, and adds the ciphertext.
    ///
    /// # Safety
    /// `W` powers are left, and the pointers are valid for `W` blocks.
    #[inline]
    #[target_feature(enable = "ssse3,pclmulqdq")]
    unsafe fn blocks<const SEAL: bool, const W: usize>(
        &mut self,
        src: *const u8,
        dst: *mut u8,
        pads: [__m128i; W],
    ) {
        for (i, pad) in pads.into_iter().enumerate() {
            // SAFETY: block `i` is one of the `W`.
            unsafe {
                let x = _mm_loadu_si128(src.add(16 * i).cast());
                let y = _mm_xor_si128(x, pad);
                _mm_storeu_si128(dst.add(16 * i).cast(), y);
                self.add(if SEAL { y } else { x });
            }
        }
    }
}

/// The next blocks of a prepared key stream.
///
/// # Safety
/// `at` is valid for `W` blocks, also for writing if they are wiped.
#[inline]
#[target_feature(enable = "sse2")]
unsafe fn take<const W: usize>(at: *mut u8, wipe: bool) -> [__m128i; W] {
    let mut pads = [_mm_setzero_si128(); W];
    for (i, pad) in pads.iter_mut().enumerate() {
        // SAFETY: block `i` is one of the `W`.
        unsafe {
            let at = at.add(16 * i).cast();
            *pad = _mm_loadu_si128(at);
            if wipe {
                _mm_storeu_si128(at, _mm_setzero_si128());
            }
        }
    }
    pads
}

/// Processes a segment: one kernel for each instruction encoding. The AVX encoding has separate
/// destinations, which saves register copies.
macro_rules! kernels {
    ($features:literal, $segment:ident, $pass:ident) => {
        /// One segment of a packet.
        ///
        /// # Safety
        /// The CPU supports the instructions; the pointers are valid for the segment's length, a
        /// prepared `stream` for whole units; the segment has at most [`POWERS`] blocks.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $segment<const R: usize, const SEAL: bool>(
            key: &Key<R>,
            segment: &Segment<'_>,
            stream: Stream<'_>,
        ) -> Block {
            // SAFETY: guaranteed by the caller, with the same conditions as the functions called.
            unsafe {
                match stream {
                    Stream::Kept(at) => {
                        let at = at.cast_mut();
                        $pass::<R, SEAL>(
                            key,
                            segment,
                            |done| take(at.add(done), false),
                            |done| take(at.add(done), false),
                        )
                    }
                    Stream::Wiped(at) => {
                        let pads = $pass::<R, SEAL>(
                            key,
                            segment,
                            |done| take(at.add(done), true),
                            |done| take(at.add(done), true),
                        );
                        // Reads nothing; keeps the compiler from removing the wipe.
                        core::arch::asm!("/* {} */", in(reg) at, options(nostack, preserves_flags));
                        pads
                    }
                    Stream::Cipher(nonce, unit) => {
                        let counter = |done: usize| 2u32.wrapping_add((4 * unit + done / 16) as u32);
                        $pass::<R, SEAL>(
                            key,
                            segment,
                            |done| cipher::<R, 8>(key, nonce, counter(done)),
                            |done| cipher::<R, 4>(key, nonce, counter(done)),
                        )
                    }
                }
            }
        }

        /// One pass over a segment; key stream comes eight or four blocks at a time.
        ///
        /// # Safety
        /// As for [`segment`]; the streams may be asked for whole units up to the end of the
        /// segment.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $pass<const R: usize, const SEAL: bool>(
            key: &Key<R>,
            segment: &Segment<'_>,
            eight: impl Fn(usize) -> [__m128i; 8],
            four: impl Fn(usize) -> [__m128i; 4],
        ) -> Block {
            let place = POWERS - segment.blocks();
            let (high, low) = (key.high.0[place..].as_ptr(), key.low.0[place..].as_ptr());
            let joined = from(u128::from_le_bytes(segment.hash.0));
            let mut running = Running { sum: Sum::new(), joined, high, low };
            let Segment { src, dst, len, .. } = *segment;
            // SAFETY: the segment has this many blocks; those before `len` are within source and
            // destination.
            unsafe {
                for block in segment.aad.chunks(16) {
                    running.add(load(block.as_ptr(), block.len(), 0));
                }
                let mut done = 0;
                while len - done >= 128 {
                    running.blocks::<SEAL, 8>(src.add(done), dst.add(done), eight(done));
                    done += 128;
                }
                while done < len {
                    let pads = four(done);
                    if len - done >= 64 {
                        running.blocks::<SEAL, 4>(src.add(done), dst.add(done), pads);
                    } else {
                        for (i, pad) in pads.into_iter().enumerate().take((len - done).div_ceil(16)) {
                            let at = done + 16 * i;
                            let now = (len - at).min(16);
                            let x = load(src.add(at), now, 0);
                            let y = first(_mm_xor_si128(x, pad), now);
                            store(dst.add(at), now, y);
                            running.add(if SEAL { y } else { x });
                        }
                    }
                    done += 64;
                }
                if segment.mask.is_some() {
                    let lengths = _mm_set_epi64x(segment.total_aad as i64 * 8, segment.total as i64 * 8);
                    running.add(reversed(lengths));
                }
            }
            result(running.sum.vector(), segment.mask)
        }
    };
}

kernels!("sse4.1,ssse3,aes,pclmulqdq", segment, pass);
kernels!("avx,sse4.1,ssse3,aes,pclmulqdq", segment_avx, pass_avx);

/// The result of a segment: its hash, or the packet's tag.
#[inline]
#[target_feature(enable = "ssse3")]
pub(super) fn result(hash: __m128i, mask: Option<&u128>) -> Block {
    let result = match mask {
        None => hash,
        Some(mask) => _mm_xor_si128(reversed(hash), from(*mask)),
    };
    let mut out = Block::default();
    // SAFETY: a block has 16 bytes.
    unsafe { _mm_storeu_si128(out.0.as_mut_ptr().cast(), result) };
    out
}
