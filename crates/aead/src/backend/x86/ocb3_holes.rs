//! AES-OCB3 work left at the deadline: the blocks that holes touch, and the tag. When sealing, the
//! encryptions are independent and the CPU overlaps them; when opening, the tag's depends on the
//! others.

use super::ocb3::{Key, cipher, from};
use crate::{
    backend::modes::ocb3_holes::{Mac, mark},
    holes::{Head, Piece, Values},
};
use core::arch::x86_64::*;

/// Kernels for one instruction set. `value` moves a piece of a value to its place in a block,
/// `around` loads the block that contains a piece, `put` stores the first bytes of a block.
macro_rules! kernels {
    ($features:literal) => {
        /// Writes values into a prepared packet.
        ///
        /// # Safety
        /// The CPU supports the instructions, and the last three come from one
        /// [`Filling`](crate::holes::Filling): each piece has its bytes of a value, and the body
        /// has each payload piece's whole block.
        #[target_feature(enable = $features)]
        pub(in super::super) unsafe fn fill<S: Mac, V: Values, const N: usize>(
            key: &Key,
            head: &mut Head<S, N>,
            values: V,
            body: &mut [u8],
        ) {
            let mut checksum = from(head.sum.checksum);
            let mut hash = from(head.sum.hash);
            let mut pieces = head.weighted().peekable();
            while let Some((piece, weight)) = pieces.next() {
                // SAFETY: the value exists and is as long as its hole (caller).
                let mut filled = unsafe { value(piece, values) };
                let mut input = from(weight.input);
                while let Some((piece, weight)) = pieces.next_if(|(piece, _)| !piece.lead()) {
                    input = _mm_xor_si128(input, from(weight.input));
                    // SAFETY: as above.
                    filled = _mm_xor_si128(filled, unsafe { value(piece, values) });
                }
                input = _mm_xor_si128(input, filled);
                if weight.ciphered == 1 {
                    [input] = cipher::<true, 1>(key, [input]);
                }
                if piece.in_payload() {
                    checksum = _mm_xor_si128(checksum, filled);
                    // SAFETY: the body has 16 bytes from `at` (caller).
                    unsafe {
                        let at = body.as_mut_ptr().add(piece.at()).cast();
                        _mm_storeu_si128(at, _mm_xor_si128(input, from(weight.offset)));
                    }
                } else {
                    hash = _mm_xor_si128(hash, input);
                }
            }
            drop(pieces);
            let [tag] = cipher::<true, 1>(key, [checksum]);
            // SAFETY: a tag has 16 bytes.
            unsafe { _mm_storeu_si128(head.tag.as_mut_ptr().cast(), _mm_xor_si128(tag, hash)) };
            head.wipe();
        }

        /// Reads the values of a received packet and returns the expected tag.
        ///
        /// # Safety
        /// The CPU supports the instructions, and the last four come from one
        /// [`Reading`](crate::holes::Reading): each piece's bytes are within their part, and `dst`
        /// is as long as `src`.
        #[target_feature(enable = $features)]
        pub(in super::super) unsafe fn check<S: Mac, const N: usize>(
            key: &Key,
            head: &Head<S, N>,
            aad: &[u8],
            src: &[u8],
            dst: &mut [u8],
        ) -> [u8; 16] {
            let mut checksum = from(head.sum.checksum);
            let mut hash = from(head.sum.hash);
            let mut pieces = head.weighted().peekable();
            while let Some((piece, weight)) = pieces.next() {
                // Adds the template's contents of the block's other pieces, so that they cancel.
                let mut known = from(weight.input);
                while let Some((_, weight)) = pieces.next_if(|(piece, _)| !piece.lead()) {
                    known = _mm_xor_si128(known, from(weight.input));
                }
                let part = if piece.in_payload() { src } else { aad };
                let bytes = (part.len() - piece.at()).min(16);
                // SAFETY: the part has these bytes from `at`.
                let block = unsafe { around(piece, part, bytes) };
                let x = _mm_xor_si128(block, from(weight.offset));
                if !piece.in_payload() {
                    let padding = if bytes < 16 { mark(bytes) } else { 0 };
                    let [x] = cipher::<true, 1>(key, [_mm_xor_si128(x, from(padding))]);
                    hash = _mm_xor_si128(hash, x);
                    continue;
                }
                let (mut plain, mut sum) = (x, x);
                if weight.ciphered == 1 {
                    [sum] = cipher::<false, 1>(key, [x]);
                    plain = _mm_xor_si128(sum, from(weight.offset));
                }
                checksum = _mm_xor_si128(checksum, _mm_xor_si128(sum, known));
                // SAFETY: `dst` is as long as `src`, which has these bytes from `at`.
                unsafe { put(dst.as_mut_ptr().add(piece.at()), bytes, plain) };
            }
            let [tag] = cipher::<true, 1>(key, [checksum]);
            let mut out = [0; 16];
            // SAFETY: a tag has 16 bytes.
            unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_xor_si128(tag, hash)) };
            out
        }
    };
}

pub(super) mod ni {
    use super::*;

    kernels!("sse4.1,aes");

    /// Moves a piece of a value to its place in a block.
    ///
    /// # Safety
    /// The values fit the piece's head.
    #[inline]
    #[target_feature(enable = "sse4.1")]
    unsafe fn value<V: Values>(piece: &Piece, values: V) -> __m128i {
        from(piece.block_of(values.bytes(piece)))
    }

    /// Loads the block that contains the piece.
    ///
    /// # Safety
    /// The part has `bytes` bytes, at most 16, from the piece's block.
    #[inline]
    #[target_feature(enable = "sse4.1")]
    unsafe fn around(piece: &Piece, part: &[u8], _bytes: usize) -> __m128i {
        from(piece.around(part))
    }

    /// Stores the first `bytes` bytes of a block.
    ///
    /// # Safety
    /// `at` is valid for `bytes` bytes, at most 16.
    #[inline]
    #[target_feature(enable = "sse4.1")]
    unsafe fn put(at: *mut u8, bytes: usize, block: __m128i) {
        if bytes == 16 {
            // SAFETY: guaranteed by the caller.
            unsafe { _mm_storeu_si128(at.cast(), block) };
        } else {
            let block = super::super::ocb3::into(block).to_ne_bytes();
            // SAFETY: guaranteed by the caller.
            unsafe { block.as_ptr().copy_to_nonoverlapping(at, bytes) };
        }
    }
}

pub(super) mod avx512 {
    use super::{
        super::pieces::{load, up},
        *,
    };

    kernels!("aes,avx512f,avx512bw,avx512vl,bmi2,ssse3");

    /// Moves a piece of a value to its place in a block.
    ///
    /// # Safety
    /// The values fit the piece's head.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2,ssse3")]
    unsafe fn value<V: Values>(piece: &Piece, values: V) -> __m128i {
        // SAFETY: the piece has its bytes (caller).
        unsafe { up(load(piece, values.at(piece)), piece.start()) }
    }

    /// Loads the block that contains the piece.
    ///
    /// # Safety
    /// The part has `bytes` bytes, at most 16, from the piece's block.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,bmi2")]
    unsafe fn around(piece: &Piece, part: &[u8], bytes: usize) -> __m128i {
        let some = _bzhi_u32(0xffff, bytes as u32) as __mmask16;
        // SAFETY: masked-out bytes are not accessed.
        unsafe { _mm_maskz_loadu_epi8(some, part.as_ptr().wrapping_add(piece.at()).cast()) }
    }

    /// Stores the first `bytes` bytes of a block.
    ///
    /// # Safety
    /// `at` is valid for `bytes` bytes, at most 16.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,bmi2")]
    unsafe fn put(at: *mut u8, bytes: usize, block: __m128i) {
        let some = _bzhi_u32(0xffff, bytes as u32) as __mmask16;
        // SAFETY: masked-out bytes are not accessed.
        unsafe { _mm_mask_storeu_epi8(at.cast(), some, block) };
    }
}
