//! Bytes of a hole in a vector, with AVX-512's masks: taken from wherever they are to their place in a block.

use crate::holes::Piece;
use core::arch::x86_64::*;

/// Windows of 16 bytes that move bytes of a vector up, and fill the rest with zeros: from 16 on they stay where they are.
static UP: [u8; 32] = windows::<false>();
/// As `UP`, with the result in reverse: from 0 on nothing moves up.
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

/// The piece's bytes, from the vector's first on, with zeros behind. (A load of usual length is there five cycles sooner
/// than one by a mask.)
///
/// # Safety
/// `at` is good for the piece's bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
pub(super) unsafe fn load(piece: &Piece, at: *const u8) -> __m128i {
    // SAFETY: so many bytes are there (caller).
    unsafe {
        match piece.len() {
            16 => _mm_loadu_si128(at.cast()),
            8 => _mm_loadl_epi64(at.cast()),
            4 => _mm_cvtsi32_si128(at.cast::<i32>().read_unaligned()),
            len => _mm_maskz_loadu_epi8(_bzhi_u32(u32::MAX, len as u32) as u16, at.cast()),
        }
    }
}

/// Moves a vector's bytes up to a place of at most 15.
#[inline]
#[target_feature(enable = "ssse3")]
pub(super) fn up(x: __m128i, start: usize) -> __m128i {
    // SAFETY: the window begins at 1 or behind, and ends at 32 or before.
    let window = unsafe { _mm_loadu_si128(UP.as_ptr().add(16 - (start & 15)).cast()) };
    _mm_shuffle_epi8(x, window)
}

/// As `up`, with the result in reverse.
#[inline]
#[target_feature(enable = "ssse3")]
pub(super) fn up_reversed(x: __m128i, start: usize) -> __m128i {
    // SAFETY: the window begins at 15 or before, and ends at 31 or before.
    let window = unsafe { _mm_loadu_si128(UP_REVERSED.as_ptr().add(start & 15).cast()) };
    _mm_shuffle_epi8(x, window)
}
