//! 64-bit ARM with the cryptographic extension: AESE, AESD, AESMC, AESIMC and PMULL (Arm ARM,
//! C7.2). Detection runs once; the type of an expanded key proves that the CPU has the
//! instructions. ChaCha20 and Poly1305 need only Advanced SIMD, which needs no detection.
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

use super::Backend;
use core::sync::atomic::{AtomicU8, Ordering};

/// Detection result; 0 means not yet detected.
static FOUND: AtomicU8 = AtomicU8::new(0);
const ASKED: u8 = 1 << 7;
const BOTH: u8 = 1;

pub(crate) fn detect() -> Backend {
    let found = match FOUND.load(Ordering::Relaxed) {
        0 => {
            let found = ASKED | if ask() { BOTH } else { 0 };
            FOUND.store(found, Ordering::Relaxed);
            found
        }
        found => found,
    };
    if found & BOTH != 0 { Backend::Armv8 } else { Backend::Portable }
}

/// Whether the CPU has AES and PMULL. Linux reports it (`getauxval(3)`); without an operating
/// system the compiler's target decides. The kernels require little-endian byte order.
fn ask() -> bool {
    if cfg!(target_endian = "big") {
        return false;
    }
    #[cfg(target_os = "linux")]
    {
        unsafe extern "C" {
            safe fn getauxval(kind: core::ffi::c_ulong) -> core::ffi::c_ulong;
        }
        const AT_HWCAP: core::ffi::c_ulong = 16;
        const HWCAP_AES: core::ffi::c_ulong = 1 << 3;
        const HWCAP_PMULL: core::ffi::c_ulong = 1 << 4;
        let wanted = HWCAP_AES | HWCAP_PMULL;
        getauxval(AT_HWCAP) & wanted == wanted
    }
    #[cfg(not(target_os = "linux"))]
    {
        cfg!(target_feature = "aes")
    }
}

/// Proof that the CPU supports [`Backend::Armv8`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extension(());

impl Extension {
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        (backend.min(detect()) >= Backend::Armv8).then_some(Self(()))
    }
}
