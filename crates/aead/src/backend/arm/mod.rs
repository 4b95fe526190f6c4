//! ARM with 64 bits and its cryptographic extension: AESE, AESD and their like, and PMULL (Arm ARM, C7.2). What is found out once is
//! remembered; the type of an expanded key is the proof that the CPU has the instructions. ChaCha20 and Poly1305 need no more than the
//! vectors of Advanced SIMD, which are not asked for.
#![allow(unsafe_code)]

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
