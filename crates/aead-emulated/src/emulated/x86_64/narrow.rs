//! Registers of 128 bits and general ones: SSSE3, SSE4.1, AES-NI, PCLMULQDQ, GFNI, AVX-512 VL, BMI2.

use super::super::lanes;
use super::{__m128i, Register, load_masked, of128, store_masked, to128};

pub(crate) fn _mm_shuffle_epi8(a: __m128i, b: __m128i) -> __m128i {
    a.zip(b, lanes::shuffle8)
}

pub(crate) fn _mm_alignr_epi8<const IMM8: i32>(a: __m128i, b: __m128i) -> __m128i {
    a.zip(b, |a, b| lanes::align8(a, b, IMM8 as u8))
}

pub(crate) fn _mm_insert_epi32<const IMM8: i32>(a: __m128i, i: i32) -> __m128i {
    let mut words = lanes::words32(of128(a));
    words[(IMM8 & 3) as usize] = i as u32;
    to128(lanes::of32(words))
}

pub(crate) fn _mm_extract_epi32<const IMM8: i32>(a: __m128i) -> i32 {
    lanes::words32(of128(a))[(IMM8 & 3) as usize] as i32
}

pub(crate) fn _mm_extract_epi64<const IMM1: i32>(a: __m128i) -> i64 {
    lanes::words64(of128(a))[(IMM1 & 1) as usize] as i64
}

pub(crate) fn _mm_clmulepi64_si128<const IMM8: i32>(a: __m128i, b: __m128i) -> __m128i {
    a.zip(b, |a, b| lanes::carry_less_product(a, b, IMM8))
}

pub(crate) fn _mm_aesenc_si128(a: __m128i, key: __m128i) -> __m128i {
    a.zip(key, lanes::aesenc)
}

pub(crate) fn _mm_aesenclast_si128(a: __m128i, key: __m128i) -> __m128i {
    a.zip(key, lanes::aesenclast)
}

pub(crate) fn _mm_aesdec_si128(a: __m128i, key: __m128i) -> __m128i {
    a.zip(key, lanes::aesdec)
}

pub(crate) fn _mm_aesdeclast_si128(a: __m128i, key: __m128i) -> __m128i {
    a.zip(key, lanes::aesdeclast)
}

pub(crate) fn _mm_aesimc_si128(a: __m128i) -> __m128i {
    a.map(lanes::aesimc)
}

pub(crate) fn _mm_gf2p8affine_epi64_epi8<const B: i32>(x: __m128i, a: __m128i) -> __m128i {
    x.zip(a, |x, a| lanes::affine(x, a, B))
}

pub(crate) fn _mm_ternarylogic_epi64<const IMM8: i32>(a: __m128i, b: __m128i, c: __m128i) -> __m128i {
    to128(lanes::ternary(of128(a), of128(b), of128(c), IMM8))
}

pub(crate) fn _mm_maskz_mov_epi8(k: u16, a: __m128i) -> __m128i {
    a.select8(k.into(), to128(0))
}

pub(crate) fn _mm_maskz_set1_epi8(k: u16, a: i8) -> __m128i {
    to128(u128::from_le_bytes([a as u8; 16])).select8(k.into(), to128(0))
}

/// # Safety
/// The selected bytes are valid for reads.
pub(crate) unsafe fn _mm_maskz_loadu_epi8(k: u16, at: *const i8) -> __m128i {
    // SAFETY: guaranteed by the caller.
    unsafe { load_masked(k.into(), at.cast()) }
}

/// # Safety
/// The selected bytes are valid for writes.
pub(crate) unsafe fn _mm_mask_storeu_epi8(at: *mut i8, k: u16, a: __m128i) {
    // SAFETY: guaranteed by the caller.
    unsafe { store_masked(k.into(), at.cast(), a) }
}

/// BZHI: the index is the lowest byte; an index of the word's size or more keeps all bits.
pub(crate) fn _bzhi_u32(a: u32, index: u32) -> u32 {
    match index & 0xff {
        index @ 0..32 => a & ((1 << index) - 1),
        _ => a,
    }
}

pub(crate) fn _bzhi_u64(a: u64, index: u32) -> u64 {
    match index & 0xff {
        index @ 0..64 => a & ((1 << index) - 1),
        _ => a,
    }
}
