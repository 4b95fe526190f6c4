//! The intrinsics that the kernels use, under their names in `core::arch::x86_64`. SSE2 is part of
//! the architecture and real; the others are written from the "Operation" sections of the Intel
//! SDM, volume 2.
#![allow(non_camel_case_types, reason = "the names of `core::arch`")]

mod narrow;
mod ymm;
mod zmm;

pub(crate) use super::cpu::{__cpuid, __cpuid_count, _xgetbv};
pub(crate) use core::arch::x86_64::{
    __m128i, __mmask8, __mmask16, __mmask32, __mmask64, _mm_add_epi8, _mm_add_epi32, _mm_add_epi64,
    _mm_and_si128, _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_cvtsi32_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si32,
    _mm_cvtsi128_si64, _mm_load_si128, _mm_loadl_epi64, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128,
    _mm_set_epi8, _mm_set_epi32, _mm_set_epi64x, _mm_set1_epi8, _mm_set1_epi32, _mm_setzero_si128,
    _mm_shuffle_epi32, _mm_shufflehi_epi16, _mm_shufflelo_epi16, _mm_sll_epi64, _mm_slli_epi16,
    _mm_slli_epi32, _mm_slli_epi64, _mm_slli_si128, _mm_srl_epi64, _mm_srli_epi16, _mm_srli_epi32,
    _mm_srli_epi64, _mm_srli_si128, _mm_store_si128, _mm_storel_epi64, _mm_storeu_si128, _mm_sub_epi8,
    _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi8, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    _mm_xor_si128,
};
pub(crate) use {narrow::*, ymm::*, zmm::*};

use core::array::from_fn;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub(crate) struct __m256i(pub(super) [u128; 2]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct __m512i(pub(super) [u128; 4]);

/// As the real register.
impl zeroize::Zeroize for __m256i {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

pub(super) fn of128(x: __m128i) -> u128 {
    // SAFETY: either type is sixteen bytes of any value.
    unsafe { core::mem::transmute(x) }
}

pub(super) fn to128(x: u128) -> __m128i {
    // SAFETY: as above.
    unsafe { core::mem::transmute(x) }
}

/// A register of some lanes of 128 bits.
pub(super) trait Register: Copy {
    fn lanes(self) -> [u128; 4];
    /// Takes as many lanes as the register has.
    fn of(lanes: [u128; 4]) -> Self;

    fn map(self, f: impl Fn(u128) -> u128) -> Self {
        Self::of(self.lanes().map(f))
    }

    fn zip(self, other: Self, f: impl Fn(u128, u128) -> u128) -> Self {
        let (a, b) = (self.lanes(), other.lanes());
        Self::of(from_fn(|i| f(a[i], b[i])))
    }

    /// Bytes that the mask selects from `self`, the others from `other`.
    fn select8(self, mask: u64, other: Self) -> Self {
        let (a, b) = (self.lanes(), other.lanes());
        Self::of(from_fn(|lane| {
            let (a, b) = (a[lane].to_le_bytes(), b[lane].to_le_bytes());
            u128::from_le_bytes(from_fn(|i| if mask >> (16 * lane + i) & 1 == 1 { a[i] } else { b[i] }))
        }))
    }

    /// Words of 64 bits that the mask selects from `self`, the others from `other`.
    fn select64(self, mask: u8, other: Self) -> Self {
        self.select8((0..8).filter(|i| mask >> i & 1 == 1).fold(0, |bytes, i| bytes | 0xff << (8 * i)), other)
    }
}

impl Register for __m128i {
    fn lanes(self) -> [u128; 4] {
        [of128(self), 0, 0, 0]
    }

    fn of([lane, ..]: [u128; 4]) -> Self {
        to128(lane)
    }
}

impl Register for __m256i {
    fn lanes(self) -> [u128; 4] {
        [self.0[0], self.0[1], 0, 0]
    }

    fn of([low, high, ..]: [u128; 4]) -> Self {
        Self([low, high])
    }
}

impl Register for __m512i {
    fn lanes(self) -> [u128; 4] {
        self.0
    }

    fn of(lanes: [u128; 4]) -> Self {
        Self(lanes)
    }
}

/// Reads the bytes that the mask selects, the only ones accessed; zeros elsewhere.
///
/// # Safety
/// The selected bytes are valid for reads.
pub(super) unsafe fn load_masked<R: Register>(mask: u64, at: *const u8) -> R {
    let mut lanes = [0; 4];
    for i in (0..64).filter(|i| mask >> i & 1 == 1) {
        // SAFETY: guaranteed by the caller.
        lanes[i / 16] |= u128::from(unsafe { at.add(i).read() }) << (i % 16 * 8);
    }
    R::of(lanes)
}

/// Writes the bytes that the mask selects, the only ones accessed.
///
/// # Safety
/// The selected bytes are valid for writes.
pub(super) unsafe fn store_masked(mask: u64, at: *mut u8, x: impl Register) {
    let lanes = x.lanes();
    for i in (0..64).filter(|i| mask >> i & 1 == 1) {
        // SAFETY: guaranteed by the caller.
        unsafe { at.add(i).write((lanes[i / 16] >> (i % 16 * 8)) as u8) };
    }
}
