//! 64-bit ARM with the cryptographic extension: AESE, AESD, AESMC, AESIMC and PMULL (Arm ARM,
//! C7.2). Detection runs once; the type of an expanded key proves that the CPU has the
//! instructions. ChaCha20 and Poly1305 need only Advanced SIMD, which needs no detection.
#![allow(unsafe_code, reason = "intrinsics and pointers of the kernels")]

#[cfg(feature = "aegis")]
pub(crate) mod aegis;
mod aes;
#[cfg(all(
    feature = "chacha20-poly1305",
    target_endian = "little",
    target_pointer_width = "64",
    target_feature = "neon"
))]
pub(crate) mod chacha20;
mod ghash;
#[cfg(all(
    feature = "chacha20-poly1305",
    target_endian = "little",
    target_pointer_width = "64",
    target_feature = "neon"
))]
pub(crate) mod poly1305;

pub(crate) use aes::Aes;

pub(crate) use super::cpu::arm::Extension;
