//! The instruction sets of an ARM CPU with 64 bits, detected once, and the token that proves them.
#![allow(unsafe_code, reason = "getauxval is a C function")]

use super::Backend;
use core::sync::atomic::{AtomicU8, Ordering};

/// The detected instruction sets; 0 before the detection.
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
/// system the compiler's target decides. The kernels are written for little-endian.
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

/// Proves that the CPU has the instruction sets of [`Backend::Armv8`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extension(());

impl Extension {
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        (backend.min(detect()) >= Backend::Armv8).then_some(Self(()))
    }
}
