//! Registers of 256 bits: AVX2, VAES, VPCLMULQDQ, AVX-512 VL.

use super::super::lanes;
use super::{__m128i, __m256i, Register, load_masked, of128, store_masked, to128};

macro_rules! lane_by_lane {
    ($($name:ident $operation:expr;)*) => {$(
        pub(crate) fn $name(a: __m256i, b: __m256i) -> __m256i {
            a.zip(b, $operation)
        }
    )*};
}

lane_by_lane! {
    _mm256_add_epi32 |a, b| lanes::each32(a, b, u32::wrapping_add);
    _mm256_add_epi64 |a, b| lanes::each64(a, b, u64::wrapping_add);
    _mm256_and_si256 |a, b| a & b;
    _mm256_or_si256 |a, b| a | b;
    _mm256_xor_si256 |a, b| a ^ b;
    _mm256_shuffle_epi8 lanes::shuffle8;
    _mm256_unpacklo_epi64 lanes::unpack_low64;
    _mm256_unpackhi_epi64 lanes::unpack_high64;
    _mm256_aesenc_epi128 lanes::aesenc;
    _mm256_aesenclast_epi128 lanes::aesenclast;
    _mm256_mul_epu32 |a, b| lanes::each64(a, b, lanes::product32);
}

macro_rules! by_a_constant {
    ($($name:ident $operation:expr;)*) => {$(
        pub(crate) fn $name<const IMM8: i32>(a: __m256i) -> __m256i {
            a.map(|a| $operation(a, IMM8))
        }
    )*};
}

by_a_constant! {
    _mm256_shuffle_epi32 lanes::shuffle32;
    _mm256_slli_epi32 |a, by| lanes::each32(a, 0, |a, _| lanes::shl32(a, by as u32));
    _mm256_srli_epi32 |a, by| lanes::each32(a, 0, |a, _| lanes::shr32(a, by as u32));
    _mm256_slli_epi64 |a, by| lanes::each64(a, 0, |a, _| lanes::shl64(a, by as u32));
    _mm256_srli_epi64 |a, by| lanes::each64(a, 0, |a, _| lanes::shr64(a, by as u32));
    _mm256_rol_epi64 |a, by| lanes::each64(a, 0, |a, _| a.rotate_left(by as u32));
}

pub(crate) fn _mm256_clmulepi64_epi128<const IMM8: i32>(a: __m256i, b: __m256i) -> __m256i {
    a.zip(b, |a, b| lanes::carry_less_product(a, b, IMM8))
}

pub(crate) fn _mm256_ternarylogic_epi64<const IMM8: i32>(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
    __m256i(core::array::from_fn(|i| lanes::ternary(a.0[i], b.0[i], c.0[i], IMM8)))
}

/// VPERMQ: any of the four words in each place.
pub(crate) fn _mm256_permute4x64_epi64<const IMM8: i32>(a: __m256i) -> __m256i {
    let words = a.0.map(lanes::words64);
    let word = |i: i32| words.as_flattened()[(IMM8 >> (2 * i) & 3) as usize];
    __m256i([lanes::of64([word(0), word(1)]), lanes::of64([word(2), word(3)])])
}

/// VPERM2I128: any of the four lanes, or zero, in each place.
pub(crate) fn _mm256_permute2x128_si256<const IMM8: i32>(a: __m256i, b: __m256i) -> __m256i {
    let lanes = [a.0[0], a.0[1], b.0[0], b.0[1]];
    let lane = |control: i32| if control & 8 != 0 { 0 } else { lanes[(control & 3) as usize] };
    __m256i([lane(IMM8), lane(IMM8 >> 4)])
}

pub(crate) fn _mm256_broadcastsi128_si256(a: __m128i) -> __m256i {
    __m256i([of128(a); 2])
}

pub(crate) fn _mm256_castsi256_si128(a: __m256i) -> __m128i {
    to128(a.0[0])
}

pub(crate) fn _mm256_zextsi128_si256(a: __m128i) -> __m256i {
    __m256i([of128(a), 0])
}

pub(crate) fn _mm256_extracti128_si256<const IMM1: i32>(a: __m256i) -> __m128i {
    to128(a.0[(IMM1 & 1) as usize])
}

pub(crate) fn _mm256_set_m128i(high: __m128i, low: __m128i) -> __m256i {
    __m256i([of128(low), of128(high)])
}

pub(crate) fn _mm256_setzero_si256() -> __m256i {
    __m256i([0; 2])
}

pub(crate) fn _mm256_set1_epi8(a: i8) -> __m256i {
    __m256i([u128::from_le_bytes([a as u8; 16]); 2])
}

pub(crate) fn _mm256_set1_epi64x(a: i64) -> __m256i {
    _mm256_set_epi64x(a, a, a, a)
}

pub(crate) fn _mm256_set_epi64x(d: i64, c: i64, b: i64, a: i64) -> __m256i {
    __m256i([lanes::of64([a as u64, b as u64]), lanes::of64([c as u64, d as u64])])
}

#[allow(clippy::too_many_arguments, reason = "as the intrinsic")]
pub(crate) fn _mm256_set_epi32(h: i32, g: i32, f: i32, e: i32, d: i32, c: i32, b: i32, a: i32) -> __m256i {
    __m256i([[a, b, c, d], [e, f, g, h]].map(|four| lanes::of32(four.map(|word| word as u32))))
}

pub(crate) fn _mm256_maskz_mov_epi8(k: u32, a: __m256i) -> __m256i {
    a.select8(k.into(), _mm256_setzero_si256())
}

/// # Safety
/// `at` is valid for a vector, and aligned.
pub(crate) unsafe fn _mm256_load_si256(at: *const __m256i) -> __m256i {
    assert!(at.is_aligned(), "VMOVDQA of an unaligned address");
    // SAFETY: guaranteed by the caller.
    unsafe { at.read() }
}

/// # Safety
/// `at` is valid for a vector.
pub(crate) unsafe fn _mm256_loadu_si256(at: *const __m256i) -> __m256i {
    // SAFETY: guaranteed by the caller.
    unsafe { at.read_unaligned() }
}

/// # Safety
/// `at` is valid for a vector, and aligned.
pub(crate) unsafe fn _mm256_store_si256(at: *mut __m256i, a: __m256i) {
    assert!(at.is_aligned(), "VMOVDQA of an unaligned address");
    // SAFETY: guaranteed by the caller.
    unsafe { at.write(a) }
}

/// # Safety
/// `at` is valid for a vector.
pub(crate) unsafe fn _mm256_storeu_si256(at: *mut __m256i, a: __m256i) {
    // SAFETY: guaranteed by the caller.
    unsafe { at.write_unaligned(a) }
}

/// # Safety
/// The selected bytes are valid for reads.
pub(crate) unsafe fn _mm256_maskz_loadu_epi8(k: u32, at: *const i8) -> __m256i {
    // SAFETY: guaranteed by the caller.
    unsafe { load_masked(k.into(), at.cast()) }
}

/// # Safety
/// The selected bytes are valid for writes.
pub(crate) unsafe fn _mm256_mask_storeu_epi8(at: *mut i8, k: u32, a: __m256i) {
    // SAFETY: guaranteed by the caller.
    unsafe { store_masked(k.into(), at.cast(), a) }
}
