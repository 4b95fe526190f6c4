//! Partial blocks in vectors, without general-purpose registers: two overlapping loads or stores,
//! and a shuffle that moves bytes to their places. The addresses depend on the length alone.

use core::arch::x86_64::*;

/// Shuffle table: read from byte `16 - n` it moves bytes up by `n`, from `16 + n` down by `n`;
/// zeros fill the rest.
static SHIFT: [u8; 48] = {
    let mut table = [0x80; 48];
    let mut i = 0;
    while i < 16 {
        table[16 + i] = i as u8;
        i += 1;
    }
    table
};

/// Read from byte `16 - n`, a mask of the first `n` bytes.
pub(super) static FIRST: [u8; 32] = {
    let mut table = [0; 32];
    let mut i = 0;
    while i < 16 {
        table[i] = 0xff;
        i += 1;
    }
    table
};

/// Read from byte `16 - n`, 0x80 at byte `n`.
static MARK: [u8; 32] = {
    let mut table = [0; 32];
    table[16] = 0x80;
    table
};

/// Loads 16 bytes of a table.
///
/// # Safety
/// `at + 16` is at most the table's length.
#[inline]
#[target_feature(enable = "sse2")]
unsafe fn row<const N: usize>(table: &'static [u8; N], at: usize) -> __m128i {
    debug_assert!(at + 16 <= N);
    // SAFETY: guaranteed by the caller.
    unsafe { _mm_loadu_si128(table.as_ptr().add(at).cast()) }
}

/// Loads `len` bytes, at most 16, into the places from byte `start`, with zeros around them.
///
/// # Safety
/// `at` is valid for `len` bytes; `start + len` is at most 16.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
pub(super) unsafe fn load(at: *const u8, len: usize, start: usize) -> __m128i {
    // SAFETY: each load is within the `len` bytes, and all shifts are by at most 16.
    unsafe {
        if len >= 8 {
            if len == 16 {
                return _mm_loadu_si128(at.cast());
            }
            let (low, high) = (_mm_loadl_epi64(at.cast()), _mm_loadl_epi64(at.add(len - 8).cast()));
            let low = if start > 0 { _mm_shuffle_epi8(low, row(&SHIFT, 16 - start)) } else { low };
            _mm_or_si128(low, _mm_shuffle_epi8(high, row(&SHIFT, 24 - len - start)))
        } else if len >= 4 {
            let word = |at: *const u8| _mm_cvtsi32_si128(at.cast::<i32>().read_unaligned());
            let low = _mm_shuffle_epi8(word(at), row(&SHIFT, 16 - start));
            _mm_or_si128(low, _mm_shuffle_epi8(word(at.add(len - 4)), row(&SHIFT, 20 - len - start)))
        } else if len > 0 {
            let (first, middle, last) = (at.read(), at.add(len / 2).read(), at.add(len - 1).read());
            let bytes =
                u32::from(first) | u32::from(middle) << (8 * (len / 2)) | u32::from(last) << (8 * (len - 1));
            _mm_shuffle_epi8(_mm_cvtsi32_si128(bytes as i32), row(&SHIFT, 16 - start))
        } else {
            _mm_setzero_si128()
        }
    }
}

/// Stores the first `len` bytes of a block, at most 16.
///
/// # Safety
/// `at` is valid for `len` bytes.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
pub(super) unsafe fn store(at: *mut u8, len: usize, x: __m128i) {
    // SAFETY: each store is within the `len` bytes, and all shifts are by at most 16.
    unsafe {
        if len >= 8 {
            if len == 16 {
                return _mm_storeu_si128(at.cast(), x);
            }
            _mm_storel_epi64(at.cast(), x);
            _mm_storel_epi64(at.add(len - 8).cast(), _mm_shuffle_epi8(x, row(&SHIFT, 8 + len)));
        } else if len >= 4 {
            let word = |x| _mm_cvtsi128_si32(x);
            at.cast::<i32>().write_unaligned(word(x));
            let last = word(_mm_shuffle_epi8(x, row(&SHIFT, 12 + len)));
            at.add(len - 4).cast::<i32>().write_unaligned(last);
        } else if len > 0 {
            let bytes = _mm_cvtsi128_si32(x) as u32;
            at.write(bytes as u8);
            at.add(len / 2).write((bytes >> (8 * (len / 2))) as u8);
            at.add(len - 1).write((bytes >> (8 * (len - 1))) as u8);
        }
    }
}

/// Keeps the first `len` bytes of a block, at most 16, and zeroes the others.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn first(x: __m128i, len: usize) -> __m128i {
    // SAFETY: a row starts at byte 16 at most.
    _mm_and_si128(x, unsafe { row(&FIRST, 16 - len.min(16)) })
}

/// 0x80 at byte `len`, at most 15, of a block of zeros.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn mark(len: usize) -> __m128i {
    // SAFETY: a row starts at byte 16 at most.
    unsafe { row(&MARK, 16 - len.min(16)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backend;

    fn bytes(x: __m128i) -> [u8; 16] {
        let mut out = [0; 16];
        // SAFETY: a block has 16 bytes.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), x) };
        out
    }

    #[test]
    fn partial_blocks_load_and_store() {
        if Backend::detect() < Backend::AesNi {
            return;
        }
        let src: [u8; 16] = core::array::from_fn(|i| i as u8 + 1);
        for len in 0..=16 {
            for start in 0..=16 - len {
                let mut expected = [0; 16];
                expected[start..start + len].copy_from_slice(&src[..len]);
                // A slice of its own, so that memory checkers detect reads past its end.
                let exact = &src[..len];
                // SAFETY: the CPU has SSSE3, and the lengths are the slices'.
                let x = unsafe { load(exact.as_ptr(), len, start) };
                assert_eq!(bytes(x), expected, "{len} bytes at {start}");
            }
            let mut out = [0xaa; 18];
            // SAFETY: as above.
            let (kept, marked) = unsafe {
                let x = load(src.as_ptr(), 16, 0);
                store(out.as_mut_ptr().add(1), len, x);
                (bytes(first(x, len)), bytes(mark(len)))
            };
            let mut expected = [0xaa; 18];
            expected[1..=len].copy_from_slice(&src[..len]);
            assert_eq!(out, expected, "{len} bytes");
            assert_eq!(kept, core::array::from_fn(|i| if i < len { src[i] } else { 0 }));
            assert_eq!(marked, core::array::from_fn(|i| if i == len { 0x80 } else { 0 }));
        }
    }
}
