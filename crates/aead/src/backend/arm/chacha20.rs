//! [Rows](crate::backend::chacha20_rows) of ChaCha20 in Advanced SIMD vectors, part of 64-bit ARM
//! unless the target disables them.

use crate::backend::chacha20_rows::{self, Row};
use core::arch::aarch64::*;

/// Key stream from block `counter`; `out` is a whole number of blocks.
pub(crate) fn stream(key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [u8]) {
    chacha20_rows::stream::<Neon>(key, counter, nonce, out);
}

#[derive(Clone, Copy)]
struct Neon(uint32x4_t);

/// Wraps the result of an Advanced SIMD expression.
macro_rules! neon {
    ($e:expr) => {
        // SAFETY: the target has Advanced SIMD.
        Neon(unsafe { $e })
    };
}

impl Row for Neon {
    #[inline(always)]
    fn of(words: [u32; 4]) -> Self {
        // SAFETY: the target has Advanced SIMD, and `words` has four words.
        Self(unsafe { vld1q_u32(words.as_ptr()) })
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        neon!(vaddq_u32(self.0, other.0))
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        neon!(veorq_u32(self.0, other.0))
    }

    /// Swaps the halves of each word.
    #[inline(always)]
    fn by_16(self) -> Self {
        neon!(vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(self.0))))
    }

    #[inline(always)]
    fn by_12(self) -> Self {
        neon!(vsriq_n_u32::<20>(vshlq_n_u32::<12>(self.0), self.0))
    }

    /// Moves each byte one place up within its word.
    #[inline(always)]
    fn by_8(self) -> Self {
        const PLACES: [u8; 16] = [3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14];
        // SAFETY: as above; the table has 16 bytes.
        let places = unsafe { vld1q_u8(PLACES.as_ptr()) };
        neon!(vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(self.0), places)))
    }

    #[inline(always)]
    fn by_7(self) -> Self {
        neon!(vsriq_n_u32::<25>(vshlq_n_u32::<7>(self.0), self.0))
    }

    #[inline(always)]
    fn turned_1(self) -> Self {
        neon!(vextq_u32::<1>(self.0, self.0))
    }

    #[inline(always)]
    fn turned_2(self) -> Self {
        neon!(vextq_u32::<2>(self.0, self.0))
    }

    #[inline(always)]
    fn turned_3(self) -> Self {
        neon!(vextq_u32::<3>(self.0, self.0))
    }

    #[inline(always)]
    fn store(self, out: &mut [u8; 16]) {
        // SAFETY: as above; `out` is 16 bytes long.
        unsafe { vst1q_u8(out.as_mut_ptr(), vreinterpretq_u8_u32(self.0)) };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn stream_matches_scalar_code() {
        crate::backend::chacha20_rows::tests::is_that_of_the_scalar_code(super::stream);
    }
}
