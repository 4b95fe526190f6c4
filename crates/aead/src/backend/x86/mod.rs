//! x86-64. Instruction sets are detected once. A key is expanded for one of them, and the type of
//! the expanded key proves that the CPU has it: nothing else constructs one.
#![allow(unsafe_code, reason = "intrinsics and pointers of the kernels")]

#[cfg(feature = "aegis")]
pub(crate) mod aegis;
#[cfg(feature = "aegis")]
mod aegis_sse2;
#[cfg(feature = "ascon")]
pub(crate) mod ascon;
mod avx512;
mod cbc_mac;
pub(crate) mod ccm;
mod ccm_rest;
mod chacha20;
#[cfg(feature = "chacha20-poly1305")]
pub(crate) mod chacha20_avx2;
#[cfg(all(feature = "chacha20-poly1305", target_feature = "sse2"))]
pub(crate) mod chacha20_sse2;
#[cfg(feature = "chacha20-poly1305")]
pub(crate) mod chacha20_ssse3;
#[cfg(feature = "chacha20-poly1305")]
pub(crate) mod chacha20poly1305;
#[cfg(feature = "chacha20-poly1305")]
pub(crate) mod chacha20poly1305_avx2;
#[cfg(feature = "chacha20-poly1305")]
mod chacha20poly1305_beside;
#[cfg(feature = "chacha20-poly1305")]
mod chacha20poly1305_ssse3;
pub(crate) mod expansion;
pub(crate) mod gcm;
mod gcm_beside;
mod gcm_holes;
pub(crate) mod gcm_key;
mod gcm_tagged;
mod gcm_vaes;
mod gcm_whole;
#[cfg(feature = "research")]
pub(crate) mod morus;
mod ni;
#[cfg(feature = "ocb3")]
pub(crate) mod ocb3;
#[cfg(feature = "ocb3")]
mod ocb3_holes;
#[cfg(feature = "ocb3")]
mod ocb3_wide;
mod partial;
mod pieces;
mod poly1305;
#[cfg(feature = "chacha20-poly1305")]
mod poly1305_avx2;
#[cfg(feature = "chacha20-poly1305")]
mod poly1305_powers;
pub(crate) mod two_way;

#[cfg(feature = "chacha20-poly1305")]
pub(crate) use super::cpu::x86::has_avx2_and_avx512vl;
pub(crate) use super::cpu::x86::{Avx512, Holes, detect, has_avx2_and_avx512f, has_slow_wide_products};
