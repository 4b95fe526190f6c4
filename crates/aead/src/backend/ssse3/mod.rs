//! AES and GHASH by byte shuffles, for x86-64 without instructions for them. The type of an expanded
//! key proves that the CPU has SSSE3.
#![allow(unsafe_code, reason = "intrinsics of the kernels")]

mod aes;
mod ghash;
mod tower;

pub(crate) use super::cpu::x86::Ssse3;
pub(crate) use aes::{Aes, sub_word};

use core::arch::x86_64::*;

#[inline]
#[target_feature(enable = "sse2")]
fn from(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: a block has 16 bytes.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn into(x: __m128i) -> [u8; 16] {
    let mut out = [0; 16];
    // SAFETY: a block has 16 bytes.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), x) };
    out
}
