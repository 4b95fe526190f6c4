//! Moves bytes of a hole to their place in a block, in a vector, with AVX-512's masks.

use crate::holes::Piece;
use core::arch::x86_64::*;

/// Windows of 16 shuffle indices that move bytes up and fill with zeros; from 16 on bytes keep
/// their places.
static UP: [u8; 32] = windows::<false>();
/// Like `UP`, with the result reversed; at 0 nothing moves up.
static UP_REVERSED: [u8; 32] = windows::<true>();

const fn windows<const REVERSED: bool>() -> [u8; 32] {
    let mut bytes = [0x80; 32];
    let mut i = 0;
    while i < 16 {
        let (place, from) = if REVERSED { (i, 15 - i) } else { (16 + i, i) };
        bytes[place] = from as u8;
        i += 1;
    }
    bytes
}

/// Loads the piece's bytes, from the vector's first byte, zero-padded. (A load of a usual length
/// has about five cycles less latency than a masked one.)
///
/// # Safety
/// `at` is valid for the piece's bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
pub(super) unsafe fn load(piece: &Piece, at: *const u8) -> __m128i {
    // SAFETY: `at` is valid for the piece's bytes (caller).
    unsafe {
        match piece.len() {
            16 => _mm_loadu_si128(at.cast()),
            8 => _mm_loadl_epi64(at.cast()),
            4 => _mm_cvtsi32_si128(at.cast::<i32>().read_unaligned()),
            len => _mm_maskz_loadu_epi8(_bzhi_u32(u32::MAX, len as u32) as u16, at.cast()),
        }
    }
}

/// Moves a vector's bytes up by at most 15 places.
#[inline]
#[target_feature(enable = "ssse3")]
pub(super) fn up(x: __m128i, start: usize) -> __m128i {
    // SAFETY: the window starts at 1 or later, and ends at 32 or before.
    let window = unsafe { _mm_loadu_si128(UP.as_ptr().add(16 - (start & 15)).cast()) };
    _mm_shuffle_epi8(x, window)
}

/// Like `up`, with the result reversed.
#[inline]
#[target_feature(enable = "ssse3")]
pub(super) fn up_reversed(x: __m128i, start: usize) -> __m128i {
    // SAFETY: the window starts at 15 or before, and ends at 31 or before.
    let window = unsafe { _mm_loadu_si128(UP_REVERSED.as_ptr().add(start & 15).cast()) };
    _mm_shuffle_epi8(x, window)
}
