//! x86-64. Instruction sets are detected once. A key is expanded for one of them, and the type of
//! the expanded key proves that the CPU has it: nothing else constructs one.
#![allow(unsafe_code)]

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
pub(crate) mod chacha20poly1305;
#[cfg(feature = "chacha20-poly1305")]
pub(crate) mod chacha20poly1305_avx2;
#[cfg(feature = "chacha20-poly1305")]
mod chacha20poly1305_beside;
pub(crate) mod gcm;
mod gcm_avx;
mod gcm_holes;
mod gcm_tagged;
mod gcm_tagged_masked;
mod gcm_vaes;
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

use super::Backend;
use core::{
    arch::x86_64::{__cpuid, __cpuid_count, _xgetbv},
    sync::atomic::{AtomicU16, Ordering},
};

/// Detection result; 0 means not yet detected. (CPUID traps in a virtual machine and takes
/// microseconds.)
static FOUND: AtomicU16 = AtomicU16::new(0);

const ASKED: u16 = 1 << 7;
const AES_NI: u16 = 1;
const AVX2: u16 = 1 << 1;
const AVX512F: u16 = 1 << 2;
/// AVX-512F with BW, VL and BMI2.
const MASKS: u16 = 1 << 3;
/// All of [`Backend::Avx512`].
const WIDE: u16 = 1 << 4;
const BMI2: u16 = 1 << 5;
/// The CPU is AMD's.
const AMD: u16 = 1 << 6;
/// GFNI and the masks.
const AFFINE: u16 = 1 << 8;
/// All of [`Backend::Vaes`].
const VAES: u16 = 1 << 9;

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
    // PCLMULQDQ, SSSE3, SSE4.1, AES
    if all(one.ecx, &[1, 9, 19, 25]) {
        found |= AES_NI;
    }
    // OSXSAVE, AVX
    if highest < 7 || !all(one.ecx, &[27, 28]) {
        return found;
    }
    let seven = __cpuid_count(7, 0);
    // SAFETY: OSXSAVE is set, so XGETBV is enabled.
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

/// Proof that the CPU supports [`Backend::Avx512`].
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        (backend.min(detect()) >= Backend::Avx512).then_some(Self(()))
    }
}

/// Proof that the CPU supports PCLMULQDQ and AVX-512's byte masks.
#[derive(Clone, Copy)]
pub(crate) struct Masks(());

impl Masks {
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        (backend != Backend::Portable && has(AES_NI | MASKS)).then_some(Self(()))
    }
}

/// Proof that the CPU supports GFNI and all of [`Masks`].
#[derive(Clone, Copy)]
pub(crate) struct Affine(());

impl Affine {
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        (backend != Backend::Portable && has(AES_NI | AFFINE)).then_some(Self(()))
    }
}

/// Returns the number as two general-purpose words. Without this a compiler may load a vector and
/// extract its words for products, or load a vector over two fresh word stores; each adds six or
/// more cycles of latency.
#[inline(always)]
pub(crate) fn in_words(n: u128) -> u128 {
    let (mut low, mut high) = (n as u64, (n >> 64) as u64);
    // SAFETY: the assembly is empty.
    unsafe {
        core::arch::asm!("/* {} {} */", inout(reg) low, inout(reg) high, options(pure, nomem, nostack, preserves_flags));
    }
    u128::from(low) | u128::from(high) << 64
}

/// Whether 512-bit carry-less products are slow (two cycles, AMD Zen 4 and Zen 5), so that three
/// with their extra work beat four. Intel's take one cycle, on the port that shuffles use.
pub(crate) fn has_slow_wide_products() -> bool {
    has(AMD)
}

/// Whether AVX2 and AVX-512F are usable, with their register state.
pub(crate) fn has_avx2_and_avx512f() -> (bool, bool) {
    (has(AVX2), has(AVX512F))
}

/// Whether AVX2 with BMI2 is usable, and AVX-512 F and VL as well.
#[cfg(feature = "chacha20-poly1305")]
pub(crate) fn has_avx2_and_avx512vl() -> (bool, bool) {
    (has(AVX2 | BMI2), has(AVX2 | BMI2 | MASKS))
}
