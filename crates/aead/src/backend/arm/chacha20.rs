//! The [rows](crate::backend::chacha20_rows) of ChaCha20 in the vectors of Advanced SIMD, which ARM with 64 bits has unless the compiler's
//! target leaves them out.

use crate::backend::chacha20_rows::{self, Row};
use core::arch::aarch64::*;

/// Cipherstream from block `counter` on; `out` is a whole number of blocks.
pub(crate) fn stream(key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [u8]) {
    chacha20_rows::stream::<Neon>(key, counter, nonce, out);
}

#[derive(Clone, Copy)]
struct Neon(uint32x4_t);

/// A vector of what Advanced SIMD computes.
macro_rules! neon {
    ($e:expr) => {
        // SAFETY: the target has it.
        Neon(unsafe { $e })
    };
}

impl Row for Neon {
    #[inline(always)]
    fn of(words: [u32; 4]) -> Self {
        // SAFETY: the target has it, and four words are there.
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

    /// The halves of each word change places.
    #[inline(always)]
    fn by_16(self) -> Self {
        neon!(vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(self.0))))
    }

    #[inline(always)]
    fn by_12(self) -> Self {
        neon!(vsriq_n_u32::<20>(vshlq_n_u32::<12>(self.0), self.0))
    }

    /// Each octet comes one place further up.
    #[inline(always)]
    fn by_8(self) -> Self {
        const PLACES: [u8; 16] = [3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14];
        // SAFETY: as above, and sixteen octets are there.
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
        // SAFETY: as above, and there is room for a vector.
        unsafe { vst1q_u8(out.as_mut_ptr(), vreinterpretq_u8_u32(self.0)) };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_stream_is_that_of_the_scalar_code_of_any_length_and_over_the_counters_end() {
        crate::backend::chacha20_rows::tests::is_that_of_the_scalar_code(super::stream);
    }
}
