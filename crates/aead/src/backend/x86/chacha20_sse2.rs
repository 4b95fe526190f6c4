//! [Rows](crate::backend::chacha20_rows) of ChaCha20 in SSE2 vectors, part of x86-64.

use crate::backend::chacha20_rows::{self, Row};
use core::arch::x86_64::*;

/// Key stream from block `counter`; `out` is a whole number of blocks.
pub(crate) fn stream(key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [u8]) {
    chacha20_rows::stream::<Sse2>(key, counter, nonce, out);
}

#[derive(Clone, Copy)]
struct Sse2(__m128i);

/// Wraps the result of an SSE2 expression.
macro_rules! sse2 {
    ($e:expr) => {
        // SAFETY: every x86-64 CPU has SSE2.
        Sse2(unsafe { $e })
    };
}

impl Sse2 {
    #[inline(always)]
    fn rotated<const BITS: i32, const REST: i32>(self) -> Self {
        sse2!(_mm_or_si128(_mm_slli_epi32::<BITS>(self.0), _mm_srli_epi32::<REST>(self.0)))
    }
}

impl Row for Sse2 {
    #[inline(always)]
    fn of(words: [u32; 4]) -> Self {
        let [a, b, c, d] = words.map(u32::cast_signed);
        sse2!(_mm_set_epi32(d, c, b, a))
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        sse2!(_mm_add_epi32(self.0, other.0))
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        sse2!(_mm_xor_si128(self.0, other.0))
    }

    /// Swaps the halves of each word.
    #[inline(always)]
    fn by_16(self) -> Self {
        sse2!(_mm_shufflehi_epi16::<0b10_11_00_01>(_mm_shufflelo_epi16::<0b10_11_00_01>(self.0)))
    }

    #[inline(always)]
    fn by_12(self) -> Self {
        self.rotated::<12, 20>()
    }

    #[inline(always)]
    fn by_8(self) -> Self {
        self.rotated::<8, 24>()
    }

    #[inline(always)]
    fn by_7(self) -> Self {
        self.rotated::<7, 25>()
    }

    #[inline(always)]
    fn turned_1(self) -> Self {
        sse2!(_mm_shuffle_epi32::<0b00_11_10_01>(self.0))
    }

    #[inline(always)]
    fn turned_2(self) -> Self {
        sse2!(_mm_shuffle_epi32::<0b01_00_11_10>(self.0))
    }

    #[inline(always)]
    fn turned_3(self) -> Self {
        sse2!(_mm_shuffle_epi32::<0b10_01_00_11>(self.0))
    }

    #[inline(always)]
    fn store(self, out: &mut [u8; 16]) {
        // SAFETY: as above; `out` is 16 bytes long.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), self.0) };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn stream_matches_scalar_code() {
        crate::backend::chacha20_rows::tests::is_that_of_the_scalar_code(super::stream);
    }
}
