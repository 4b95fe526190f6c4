//! Kernels with AES-NI and PCLMULQDQ: one block to a register, four registers at a time.

use super::gcm::{Block, Key, POWERS, Segment, Stream};
use crate::{
    backend::portable::{
        gcm::{Gcm, counter_block, value},
        ghash::Power,
    },
    sparse::{self, Head, Spot, Values},
};
use core::arch::x86_64::*;

#[inline]
#[target_feature(enable = "sse2")]
fn from(x: u128) -> __m128i {
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
        let folded =
            _mm_clmulepi64_si128::<0x00>(self.at_0, _mm_set_epi64x(0, 0xc2u64.rotate_right(8) as i64));
        let turned = _mm_shuffle_epi32::<0b01_00_11_10>(self.at_0);
        into(_mm_xor_si128(_mm_xor_si128(self.at_64, turned), folded))
    }
}

/// The field's product.
///
/// # Safety
/// The CPU has SSE4.1 and PCLMULQDQ.
#[target_feature(enable = "sse4.1,pclmulqdq")]
pub(super) unsafe fn times(x: u128, power: &Power) -> u128 {
    let mut sum = Sum::new();
    sum.add(from(x), power.high, power.low);
    sum.value()
}

/// Puts values into a prepared packet.
///
/// # Safety
/// The CPU has SSE4.1, SSSE3 and PCLMULQDQ.
#[target_feature(enable = "sse4.1,ssse3,pclmulqdq")]
pub(super) unsafe fn fill<S: Gcm, V: Values, const N: usize>(
    head: &mut Head<S, N>,
    values: V,
    body: &mut [u8],
) {
    let mut sum = Sum::new();
    for Spot { piece, weight: power } in head.spots() {
        let value = piece.block_of(values.bytes(piece));
        if piece.in_payload() {
            sparse::xor_block(body, piece.at(), value);
        }
        sum.add(from(value.swap_bytes()), power.high, power.low);
    }
    head.tag = (head.sum.hash ^ sum.value()).to_be_bytes();
    head.wipe();
}

/// Takes values out of a received packet and returns its tag.
///
/// # Safety
/// The CPU has SSE4.1, SSSE3 and PCLMULQDQ.
#[target_feature(enable = "sse4.1,ssse3,pclmulqdq")]
pub(super) unsafe fn check<S: Gcm, const N: usize>(
    head: &Head<S, N>,
    aad: &[u8],
    src: &[u8],
    body: &[u8],
    dst: &mut [u8],
) -> [u8; 16] {
    let mut sum = Sum::new();
    for Spot { piece, weight: power } in head.spots() {
        sum.add(from(value(piece, aad, src, body, dst).swap_bytes()), power.high, power.low);
    }
    (head.sum.hash ^ sum.value()).to_be_bytes()
}

/// `W` blocks of cipherstream from a counter on.
#[inline]
#[target_feature(enable = "sse4.1,aes")]
fn cipher<const R: usize, const W: usize>(key: &Key<R>, nonce: &[u8; 12], counter: u32) -> [__m128i; W] {
    let round_key = |round: usize| from(u128::from_le_bytes(key.round_keys[round]));
    let base = from(u128::from_le_bytes(counter_block(nonce, 0)));
    let mut x = [_mm_setzero_si128(); W];
    for (i, block) in x.iter_mut().enumerate() {
        let counter = counter.wrapping_add(i as u32).swap_bytes() as i32;
        *block = _mm_xor_si128(_mm_insert_epi32::<3>(base, counter), round_key(0));
    }
    for round in 1..R {
        let k = round_key(round);
        for block in &mut x {
            *block = _mm_aesenc_si128(*block, k);
        }
    }
    let k = round_key(R);
    x.map(|block| _mm_aesenclast_si128(block, k))
}

/// E(J0) as it lies in memory.
///
/// # Safety
/// The CPU has SSE4.1 and AES-NI.
#[target_feature(enable = "sse4.1,aes")]
pub(super) unsafe fn mask<const R: usize>(key: &Key<R>, nonce: &[u8; 12], out: &mut u128) {
    let [mask] = cipher::<R, 1>(key, nonce, 1);
    // SAFETY: the number has 16 bytes. (Its reader is a vector load, which two word stores would hold up.)
    unsafe { _mm_storeu_si128(core::ptr::from_mut(out).cast(), mask) };
}

/// Payload cipherstream from unit `first` on.
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
        let x = cipher::<R, 8>(key, nonce, counter.wrapping_add(8 * i as u32));
        for (bytes, x) in pair.as_flattened_mut().as_chunks_mut::<16>().0.iter_mut().zip(x) {
            *bytes = into(x).to_ne_bytes();
        }
    }
    for unit in rest {
        let x = cipher::<R, 4>(key, nonce, counter.wrapping_add(8 * pairs.len() as u32));
        for (bytes, x) in unit.as_chunks_mut::<16>().0.iter_mut().zip(x) {
            *bytes = into(x).to_ne_bytes();
        }
    }
}

/// Up to 16 bytes, padded with zeros.
///
/// # Safety
/// `at` is good for `len` bytes, and `len` is at most 16.
#[inline]
unsafe fn load(at: *const u8, len: usize) -> u128 {
    if len == 16 {
        // SAFETY: `at` is good for `len` bytes.
        return unsafe { at.cast::<u128>().read_unaligned() };
    }
    let mut block = [0u8; 16];
    // SAFETY: both are good for `len` bytes.
    unsafe { at.copy_to_nonoverlapping(block.as_mut_ptr(), len) };
    u128::from_ne_bytes(block)
}

/// One segment of a packet.
///
/// # Safety
/// The CPU has the instructions; the pointers are good for the segment's length, a prepared `stream` for whole units;
/// the segment has at most [`POWERS`] blocks.
#[target_feature(enable = "sse4.1,ssse3,aes,pclmulqdq")]
pub(super) unsafe fn segment<const R: usize, const SEAL: bool>(
    key: &Key<R>,
    segment: &Segment<'_>,
    stream: Stream<'_>,
) -> Block {
    let mut sum = Sum::new();
    let mut joined = u128::from_le_bytes(segment.hash.0);
    let mut power = POWERS - segment.blocks();
    let mut add = |block: u128| {
        sum.add(from(block.swap_bytes() ^ joined), key.high.0[power], key.low.0[power]);
        joined = 0;
        power += 1;
    };
    for block in segment.aad.chunks(16) {
        // SAFETY: a chunk has at most 16 bytes.
        add(unsafe { load(block.as_ptr(), block.len()) });
    }
    let mut pad = [[0u8; 16]; 4];
    let mut done = 0;
    while done < segment.len {
        let unit = (segment.len - done).min(64);
        match stream {
            // SAFETY: the stream is good for whole units.
            Stream::Kept(at) => pad = unsafe { at.add(done).cast::<[[u8; 16]; 4]>().read_unaligned() },
            // SAFETY: the stream is good for whole units.
            Stream::Wiped(at) => unsafe {
                let at = at.add(done).cast::<[[u8; 16]; 4]>();
                pad = at.read_unaligned();
                at.write_unaligned([[0; 16]; 4]);
            },
            Stream::Cipher(nonce, first) => {
                let counter = 2u32.wrapping_add(4 * (first + done / 64) as u32);
                pad = cipher::<R, 4>(key, nonce, counter).map(|x| into(x).to_ne_bytes());
            }
        }
        let mut within = 0;
        while within < unit {
            let len = (unit - within).min(16);
            // SAFETY: `len` bytes from here on are within the segment, and at most 16.
            unsafe {
                let x = load(segment.src.add(done + within), len);
                let y = x ^ u128::from_ne_bytes(pad[within / 16]);
                let at = segment.dst.add(done + within);
                let bytes = y.to_ne_bytes();
                if len == 16 {
                    at.cast::<[u8; 16]>().write_unaligned(bytes);
                } else {
                    bytes.as_ptr().copy_to_nonoverlapping(at, len);
                }
                let shown = if SEAL { load(bytes.as_ptr(), len) } else { x };
                add(shown);
            }
            within += len;
        }
        done += unit;
    }
    if segment.mask.is_some() {
        add((((segment.total_aad as u128 * 8) << 64) | (segment.total as u128 * 8)).swap_bytes());
    }
    crate::engine::wipe(pad.as_flattened_mut());
    if let Stream::Wiped(at) = stream {
        // SAFETY: nothing is read; what was stored must stay stored.
        unsafe { core::arch::asm!("/* {} */", in(reg) at, options(nostack, preserves_flags)) };
    }
    let hash = sum.value();
    Block(segment.mask.map_or(hash, |mask| hash.swap_bytes() ^ mask).to_le_bytes())
}
