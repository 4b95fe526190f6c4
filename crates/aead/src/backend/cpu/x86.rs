//! The instruction sets of an x86-64 CPU, detected once, and the tokens that prove them.
#![allow(unsafe_code, reason = "CPUID and XGETBV")]

use super::Backend;
use core::{
    arch::x86_64::{__cpuid, __cpuid_count, _xgetbv},
    sync::atomic::{AtomicU16, Ordering},
};

/// The detected instruction sets; 0 before the detection. CPUID leaves a virtual machine and takes
/// microseconds there.
static FOUND: AtomicU16 = AtomicU16::new(0);

const ASKED: u16 = 1 << 7;
const AES_NI: u16 = 1;
const AVX2: u16 = 1 << 1;
const AVX512F: u16 = 1 << 2;
/// BW and VL beside AVX-512F, and BMI2.
const MASKS: u16 = 1 << 3;
/// All instruction sets of [`Backend::Avx512`].
const WIDE: u16 = 1 << 4;
const BMI2: u16 = 1 << 5;
/// The vendor is AMD.
const AMD: u16 = 1 << 6;
/// GFNI beside the masks.
const AFFINE: u16 = 1 << 8;
/// All instruction sets of [`Backend::Vaes`].
const VAES: u16 = 1 << 9;
const SSSE3: u16 = 1 << 10;

fn found() -> u16 {
    match FOUND.load(Ordering::Relaxed) {
        0 => {
            let found = ask() | ASKED;
            FOUND.store(found, Ordering::Relaxed);
            found
        }
        found => found,
    }
}

fn has(what: u16) -> bool {
    found() & what == what
}

pub(crate) fn detect() -> Backend {
    match found() {
        found if found & WIDE != 0 => Backend::Avx512,
        found if found & VAES != 0 => Backend::Vaes,
        found if found & AES_NI != 0 => Backend::AesNi,
        found if found & SSSE3 != 0 => Backend::Ssse3,
        _ => Backend::Portable,
    }
}

/// Intel SDM volume 1, sections 12.13, 14.3 and 15.2: CPUID reports instructions, XGETBV the
/// enabled register state.
fn ask() -> u16 {
    let all = |register: u32, bits: &[u32]| bits.iter().all(|bit| register >> bit & 1 == 1);
    let zero = __cpuid(0);
    let (highest, one) = (zero.eax, __cpuid(1));
    // "AuthenticAMD"
    let mut found = if zero.ebx == u32::from_le_bytes(*b"Auth") { AMD } else { 0 };
    if all(one.ecx, &[9]) {
        found |= SSSE3;
    }
    // PCLMULQDQ, SSSE3, SSE4.1, AES
    if all(one.ecx, &[1, 9, 19, 25]) {
        found |= AES_NI;
    }
    // OSXSAVE, AVX
    if highest < 7 || !all(one.ecx, &[27, 28]) {
        return found;
    }
    let seven = __cpuid_count(7, 0);
    // SAFETY: OSXSAVE was seen, so XGETBV is enabled.
    let state = unsafe { _xgetbv(0) };
    // XMM, YMM
    if state & 6 != 6 || !all(seven.ebx, &[5]) {
        return found;
    }
    found |= AVX2;
    if found & AES_NI != 0 && all(seven.ecx, &[9, 10]) {
        found |= VAES;
    }
    if all(seven.ebx, &[8]) {
        found |= BMI2;
    }
    // Opmask, upper ZMM, high ZMM
    if state & 0xe0 != 0xe0 || !all(seven.ebx, &[16]) {
        return found;
    }
    found |= AVX512F;
    // BW, VL
    if found & BMI2 != 0 && all(seven.ebx, &[30, 31]) {
        found |= MASKS;
        if all(seven.ecx, &[8]) {
            found |= AFFINE;
        }
    }
    // BMI1, DQ, IFMA
    if found & (VAES | MASKS) == VAES | MASKS && all(seven.ebx, &[3, 17, 21]) {
        found |= WIDE;
    }
    found
}

/// Proves that the CPU has SSSE3.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ssse3(());

impl Ssse3 {
    /// Returns `None` also for a backend that has instructions for AES.
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        (backend.min(detect()) == Backend::Ssse3).then_some(Self(()))
    }
}

/// Proves that the CPU has the instruction sets of [`Backend::Avx512`].
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        (backend.min(detect()) >= Backend::Avx512).then_some(Self(()))
    }
}

/// Proves that the CPU has PCLMULQDQ and AVX-512's byte masks.
#[derive(Clone, Copy)]
pub(crate) struct Masks(());

impl Masks {
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        (backend >= Backend::AesNi && has(AES_NI | MASKS)).then_some(Self(()))
    }
}

/// Proves that the CPU has GFNI in addition to [`Masks`].
#[derive(Clone, Copy)]
pub(crate) struct Affine(());

impl Affine {
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        (backend >= Backend::AesNi && has(AES_NI | AFFINE)).then_some(Self(()))
    }
}

/// Whether a carry-less product of 512 bits takes two cycles, as on AMD's Zen 4 and Zen 5. Three
/// products with their extra work are faster than four there. (Intel's take one cycle, on the port
/// that the shuffles use.)
pub(crate) fn has_slow_wide_products() -> bool {
    has(AMD)
}

/// AVX2 and AVX-512F, with their registers' state.
pub(crate) fn has_avx2_and_avx512f() -> (bool, bool) {
    (has(AVX2), has(AVX512F))
}

/// AVX2 with BMI2, and AVX-512 F and VL in addition, with their registers' state.
#[cfg(feature = "chacha20-poly1305")]
pub(crate) fn has_avx2_and_avx512vl() -> (bool, bool) {
    (has(AVX2 | BMI2), has(AVX2 | BMI2 | MASKS))
}

/// The kernels that fill holes of AES-GCM, and the proof that the CPU has their instructions.
#[derive(Clone, Copy)]
pub(crate) enum Holes {
    /// With PCLMULQDQ, SSSE3 and SSE4.1. Exists only within a key for such a CPU.
    Ni(()),
    Masked(Masks),
    Affine(Affine),
}

impl Holes {
    pub(crate) fn new(backend: Backend) -> Self {
        match (Affine::new(backend), Masks::new(backend)) {
            (Some(affine), _) => Self::Affine(affine),
            (None, Some(masks)) => Self::Masked(masks),
            (None, None) => Self::Ni(()),
        }
    }
}
