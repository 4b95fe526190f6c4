//! Registers of 512 bits: AVX-512 F, BW, DQ, IFMA, VAES, VPCLMULQDQ.

use super::super::lanes;
use super::{__m128i, __m256i, __m512i, Register, load_masked, of128, store_masked, to128};
use core::array::from_fn;

macro_rules! lane_by_lane {
    ($($name:ident $operation:expr;)*) => {$(
        pub(crate) fn $name(a: __m512i, b: __m512i) -> __m512i {
            a.zip(b, $operation)
        }
    )*};
}

lane_by_lane! {
    _mm512_add_epi32 |a, b| lanes::each32(a, b, u32::wrapping_add);
    _mm512_add_epi64 |a, b| lanes::each64(a, b, u64::wrapping_add);
    _mm512_sub_epi64 |a, b| lanes::each64(a, b, u64::wrapping_sub);
    _mm512_and_si512 |a, b| a & b;
    _mm512_or_si512 |a, b| a | b;
    _mm512_xor_si512 |a, b| a ^ b;
    _mm512_shuffle_epi8 lanes::shuffle8;
    _mm512_unpacklo_epi32 lanes::unpack_low32;
    _mm512_unpackhi_epi32 lanes::unpack_high32;
    _mm512_unpacklo_epi64 lanes::unpack_low64;
    _mm512_unpackhi_epi64 lanes::unpack_high64;
    _mm512_aesenc_epi128 lanes::aesenc;
    _mm512_aesenclast_epi128 lanes::aesenclast;
    _mm512_aesdec_epi128 lanes::aesdec;
    _mm512_aesdeclast_epi128 lanes::aesdeclast;
}

pub(crate) fn _mm512_shuffle_epi32<const ORDER: i32>(a: __m512i) -> __m512i {
    a.map(|a| lanes::shuffle32(a, ORDER))
}

pub(crate) fn _mm512_rol_epi32<const BY: i32>(a: __m512i) -> __m512i {
    a.map(|a| lanes::each32(a, 0, |a, _| a.rotate_left(BY as u32)))
}

pub(crate) fn _mm512_slli_epi64<const BY: u32>(a: __m512i) -> __m512i {
    a.map(|a| lanes::each64(a, 0, |a, _| lanes::shl64(a, BY)))
}

pub(crate) fn _mm512_srli_epi64<const BY: u32>(a: __m512i) -> __m512i {
    a.map(|a| lanes::each64(a, 0, |a, _| lanes::shr64(a, BY)))
}

pub(crate) fn _mm512_clmulepi64_epi128<const IMM8: i32>(a: __m512i, b: __m512i) -> __m512i {
    a.zip(b, |a, b| lanes::carry_less_product(a, b, IMM8))
}

pub(crate) fn _mm512_ternarylogic_epi64<const IMM8: i32>(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    __m512i(from_fn(|i| lanes::ternary(a.0[i], b.0[i], c.0[i], IMM8)))
}

/// The product of two numbers of 52 bits.
fn product52(b: u64, c: u64) -> u128 {
    const MASK: u64 = (1 << 52) - 1;
    u128::from(b & MASK) * u128::from(c & MASK)
}

/// VPMADD52LUQ: adds the lower 52 bits of the product.
pub(crate) fn _mm512_madd52lo_epu64(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    let low = b.zip(c, |b, c| lanes::each64(b, c, |b, c| product52(b, c) as u64 & ((1 << 52) - 1)));
    _mm512_add_epi64(a, low)
}

/// VPMADD52HUQ: adds the upper 52 bits of the product.
pub(crate) fn _mm512_madd52hi_epu64(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    let high = b.zip(c, |b, c| lanes::each64(b, c, |b, c| (product52(b, c) >> 52) as u64));
    _mm512_add_epi64(a, high)
}

/// VSHUFI32X4: two lanes of `a`, then two of `b`.
pub(crate) fn _mm512_shuffle_i32x4<const IMM8: i32>(a: __m512i, b: __m512i) -> __m512i {
    let place = |i: i32| (IMM8 >> (2 * i) & 3) as usize;
    __m512i([a.0[place(0)], a.0[place(1)], b.0[place(2)], b.0[place(3)]])
}

/// VPERMI2Q: bit 3 of an index chooses between `a` and `b`.
pub(crate) fn _mm512_permutex2var_epi64(a: __m512i, index: __m512i, b: __m512i) -> __m512i {
    let words = [a.0.map(lanes::words64), b.0.map(lanes::words64)];
    let words = words.as_flattened().as_flattened();
    index.map(|index| lanes::each64(index, 0, |index, _| words[(index & 15) as usize]))
}

pub(crate) fn _mm512_maskz_permutex2var_epi64(k: u8, a: __m512i, index: __m512i, b: __m512i) -> __m512i {
    _mm512_maskz_mov_epi64(k, _mm512_permutex2var_epi64(a, index, b))
}

pub(crate) fn _mm512_reduce_add_epi64(a: __m512i) -> i64 {
    a.0.map(lanes::words64).as_flattened().iter().fold(0u64, |sum, word| sum.wrapping_add(*word)) as i64
}

pub(crate) fn _mm512_broadcast_i32x4(a: __m128i) -> __m512i {
    __m512i([of128(a); 4])
}

pub(crate) fn _mm512_castsi512_si128(a: __m512i) -> __m128i {
    to128(a.0[0])
}

pub(crate) fn _mm512_castsi512_si256(a: __m512i) -> __m256i {
    __m256i([a.0[0], a.0[1]])
}

pub(crate) fn _mm512_zextsi128_si512(a: __m128i) -> __m512i {
    __m512i([of128(a), 0, 0, 0])
}

pub(crate) fn _mm512_extracti32x4_epi32<const IMM8: i32>(a: __m512i) -> __m128i {
    to128(a.0[(IMM8 & 3) as usize])
}

pub(crate) fn _mm512_extracti64x4_epi64<const IMM8: i32>(a: __m512i) -> __m256i {
    let from = (IMM8 & 1) as usize * 2;
    __m256i([a.0[from], a.0[from + 1]])
}

pub(crate) fn _mm512_inserti32x4<const IMM8: i32>(mut a: __m512i, b: __m128i) -> __m512i {
    a.0[(IMM8 & 3) as usize] = of128(b);
    a
}

pub(crate) fn _mm512_setzero_si512() -> __m512i {
    __m512i([0; 4])
}

pub(crate) fn _mm512_set1_epi8(a: i8) -> __m512i {
    __m512i([u128::from_le_bytes([a as u8; 16]); 4])
}

pub(crate) fn _mm512_set1_epi32(a: i32) -> __m512i {
    __m512i([lanes::of32([a as u32; 4]); 4])
}

pub(crate) fn _mm512_set1_epi64(a: i64) -> __m512i {
    __m512i([lanes::of64([a as u64; 2]); 4])
}

#[allow(clippy::too_many_arguments, reason = "as the intrinsic")]
pub(crate) fn _mm512_set_epi64(h: i64, g: i64, f: i64, e: i64, d: i64, c: i64, b: i64, a: i64) -> __m512i {
    __m512i([[a, b], [c, d], [e, f], [g, h]].map(|two| lanes::of64(two.map(|word| word as u64))))
}

#[rustfmt::skip]
#[allow(clippy::too_many_arguments, reason = "as the intrinsic")]
pub(crate) fn _mm512_set_epi32(
    p: i32, o: i32, n: i32, m: i32, l: i32, k: i32, j: i32, i: i32,
    h: i32, g: i32, f: i32, e: i32, d: i32, c: i32, b: i32, a: i32,
) -> __m512i {
    let fours = [[a, b, c, d], [e, f, g, h], [i, j, k, l], [m, n, o, p]];
    __m512i(fours.map(|four| lanes::of32(four.map(|word| word as u32))))
}

pub(crate) fn _mm512_maskz_set1_epi32(k: u16, a: i32) -> __m512i {
    let word = |i: usize| if k >> i & 1 == 1 { a as u32 } else { 0 };
    __m512i(from_fn(|lane| lanes::of32(from_fn(|i| word(4 * lane + i)))))
}

pub(crate) fn _mm512_maskz_set1_epi64(k: u8, a: i64) -> __m512i {
    _mm512_maskz_mov_epi64(k, _mm512_set1_epi64(a))
}

pub(crate) fn _mm512_mask_mov_epi8(src: __m512i, k: u64, a: __m512i) -> __m512i {
    a.select8(k, src)
}

pub(crate) fn _mm512_maskz_mov_epi8(k: u64, a: __m512i) -> __m512i {
    a.select8(k, _mm512_setzero_si512())
}

pub(crate) fn _mm512_mask_mov_epi64(src: __m512i, k: u8, a: __m512i) -> __m512i {
    a.select64(k, src)
}

pub(crate) fn _mm512_maskz_mov_epi64(k: u8, a: __m512i) -> __m512i {
    a.select64(k, _mm512_setzero_si512())
}

pub(crate) fn _mm512_mask_xor_epi64(src: __m512i, k: u8, a: __m512i, b: __m512i) -> __m512i {
    _mm512_xor_si512(a, b).select64(k, src)
}

pub(crate) fn _mm512_maskz_xor_epi64(k: u8, a: __m512i, b: __m512i) -> __m512i {
    _mm512_maskz_mov_epi64(k, _mm512_xor_si512(a, b))
}

/// # Safety
/// `at` is valid for a vector.
pub(crate) unsafe fn _mm512_loadu_si512(at: *const __m512i) -> __m512i {
    // SAFETY: guaranteed by the caller.
    unsafe { at.read_unaligned() }
}

/// # Safety
/// `at` is valid for a vector.
pub(crate) unsafe fn _mm512_storeu_si512(at: *mut __m512i, a: __m512i) {
    // SAFETY: guaranteed by the caller.
    unsafe { at.write_unaligned(a) }
}

/// # Safety
/// The selected bytes are valid for reads.
pub(crate) unsafe fn _mm512_maskz_loadu_epi8(k: u64, at: *const i8) -> __m512i {
    // SAFETY: guaranteed by the caller.
    unsafe { load_masked(k, at.cast()) }
}

/// # Safety
/// The selected words are valid for reads.
pub(crate) unsafe fn _mm512_maskz_loadu_epi64(k: u8, at: *const i64) -> __m512i {
    let bytes = (0..8).filter(|i| k >> i & 1 == 1).fold(0, |bytes, i| bytes | 0xff << (8 * i));
    // SAFETY: guaranteed by the caller.
    unsafe { load_masked(bytes, at.cast()) }
}

/// # Safety
/// The selected bytes are valid for writes.
pub(crate) unsafe fn _mm512_mask_storeu_epi8(at: *mut i8, k: u64, a: __m512i) {
    // SAFETY: guaranteed by the caller.
    unsafe { store_masked(k, at.cast(), a) }
}
