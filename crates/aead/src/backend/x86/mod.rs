//! x86-64. The instruction sets are found once and remembered; a key is expanded for one of them, and the type of the
//! expanded key is the proof that the CPU has it: there is no other way to make one.
#![allow(unsafe_code)]

#[cfg(feature = "aegis")]
pub(crate) mod aegis;
#[cfg(feature = "aegis")]
mod aegis_sse2;
#[cfg(feature = "ascon")]
pub(crate) mod ascon;
mod avx512;
pub(crate) mod ccm;
mod ccm_rest;
mod chacha20;
#[cfg(feature = "chacha20-poly1305")]
pub(crate) mod chacha20_avx2;
#[cfg(feature = "chacha20-poly1305")]
pub(crate) mod chacha20_sse2;
#[cfg(feature = "chacha20-poly1305")]
pub(crate) mod chacha20poly1305;
pub(crate) mod gcm;
#[cfg(feature = "research")]
pub(crate) mod morus;
mod ni;
#[cfg(feature = "ocb3")]
pub(crate) mod ocb3;
#[cfg(feature = "ocb3")]
mod ocb3_holes;
#[cfg(feature = "ocb3")]
mod ocb3_wide;
mod poly1305;
#[cfg(feature = "chacha20-poly1305")]
pub(crate) mod poly1305_avx2;
pub(crate) mod two_way;

use super::Backend;
use core::{
    arch::x86_64::{__cpuid, __cpuid_count, _xgetbv},
    sync::atomic::{AtomicU8, Ordering},
};

/// What was found: 0 for not asked yet. (CPUID leaves a virtual machine and takes microseconds there.)
static FOUND: AtomicU8 = AtomicU8::new(0);

pub(crate) fn detect() -> Backend {
    match FOUND.load(Ordering::Relaxed) {
        1 => Backend::Portable,
        2 => Backend::AesNi,
        3 => Backend::Avx512,
        _ => {
            let found = ask();
            FOUND.store(found as u8 + 1, Ordering::Relaxed);
            found
        }
    }
}

/// The proof that the CPU has what [`Backend::Avx512`] stands for.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        (backend.min(detect()) >= Backend::Avx512).then_some(Self(()))
    }
}

/// Intel SDM volume 1, sections 12.13, 14.3 and 15.2: the instructions by CPUID, the registers' state by XGETBV.
fn ask() -> Backend {
    let all = |register: u32, bits: &[u32]| bits.iter().all(|bit| register >> bit & 1 == 1);
    let highest = __cpuid(0).eax;
    let one = __cpuid(1);
    // PCLMULQDQ, SSSE3, SSE4.1, AES
    if !all(one.ecx, &[1, 9, 19, 25]) {
        return Backend::Portable;
    }
    // OSXSAVE, AVX
    if highest < 7 || !all(one.ecx, &[27, 28]) {
        return Backend::AesNi;
    }
    let seven = __cpuid_count(7, 0);
    // BMI1, AVX2, BMI2, AVX512F, DQ, IFMA, BW, VL; VAES, VPCLMULQDQ
    let instructions = all(seven.ebx, &[3, 5, 8, 16, 17, 21, 30, 31]) && all(seven.ecx, &[9, 10]);
    // SAFETY: OSXSAVE was seen, so XGETBV is enabled.
    let state = unsafe { _xgetbv(0) };
    // XMM, YMM, opmask, upper ZMM, high ZMM
    if instructions && state & 0xe6 == 0xe6 { Backend::Avx512 } else { Backend::AesNi }
}

/// AVX2 and AVX-512F with their registers' state, for what needs no more. They are asked for each time, which is when a key is
/// expanded.
pub(crate) fn has_avx2_and_avx512f() -> (bool, bool) {
    // OSXSAVE, AVX
    if __cpuid(0).eax < 7 || __cpuid(1).ecx >> 27 & 3 != 3 {
        return (false, false);
    }
    let seven = __cpuid_count(7, 0).ebx;
    // SAFETY: OSXSAVE was seen, so XGETBV is enabled.
    let state = unsafe { _xgetbv(0) };
    // XMM, YMM; opmask, upper ZMM, high ZMM
    let avx2 = seven >> 5 & 1 == 1 && state & 6 == 6;
    (avx2, avx2 && seven >> 16 & 1 == 1 && state & 0xe0 == 0xe0)
}
