//! Cipher primitives per CPU. A key is expanded for one backend and keeps it, so packets pay
//! nothing for the choice.

#[cfg(target_arch = "aarch64")]
pub(crate) mod arm;
#[cfg(all(
    feature = "chacha20-poly1305",
    any(
        all(target_arch = "x86_64", target_feature = "sse2"),
        all(
            target_arch = "aarch64",
            target_endian = "little",
            target_pointer_width = "64",
            target_feature = "neon"
        )
    )
))]
mod chacha20_rows;
pub(crate) mod fours;
#[cfg(any(feature = "aegis", feature = "research"))]
pub(crate) mod kernels;
pub(crate) mod portable;
#[cfg(any(test, feature = "table-aes-1k", feature = "table-aes-2k"))]
pub(crate) mod table;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use core::sync::atomic::{AtomicU8, Ordering};

/// Runs portable code as a fallback beside CPU-specific kernels. Where such kernels exist, the call
/// is cold and out of line, so that it does not constrain the code generated for their loops.
#[cfg(any(feature = "gcm", feature = "ocb3"))]
#[cfg_attr(target_arch = "x86_64", cold, inline(never))]
#[cfg_attr(not(target_arch = "x86_64"), inline(always))]
pub(crate) fn portably<R>(call: impl FnOnce() -> R) -> R {
    call()
}

/// Number of the best backend allowed.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
static MOST: AtomicU8 = AtomicU8::new(Backend::Avx512 as u8);

/// Instruction sets a key may be expanded for, from the least to the most capable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Backend {
    /// Any CPU. AEGIS-128L and ChaCha20 use SSE2 on x86-64, ChaCha20-Poly1305 uses Advanced SIMD on
    /// 64-bit ARM; both are part of the base architecture.
    Portable,
    /// 64-bit ARM with AES and PMULL.
    #[cfg(target_arch = "aarch64")]
    Armv8,
    /// x86-64 with AES-NI and PCLMULQDQ.
    AesNi,
    /// x86-64 with VAES, VPCLMULQDQ and AVX2: Intel since Alder Lake, AMD Zen 3.
    Vaes,
    /// x86-64 with VAES, VPCLMULQDQ and AVX-512 (F, BW, DQ, VL, IFMA).
    Avx512,
}

impl Backend {
    /// The best backend of this CPU that is not [masked](Self::mask_beyond).
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        return x86::detect().min(match MOST.load(Ordering::Relaxed) {
            0 => Self::Portable,
            1 => Self::AesNi,
            2 => Self::Vaes,
            _ => Self::Avx512,
        });
        #[cfg(target_arch = "aarch64")]
        return arm::detect().min(match MOST.load(Ordering::Relaxed) {
            0 => Self::Portable,
            _ => Self::Armv8,
        });
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        Self::Portable
    }

    /// Limits keys expanded from now on to this backend, so that an experiment can run as on a
    /// lesser CPU. Existing keys keep theirs.
    #[doc(hidden)]
    pub fn mask_beyond(most: Self) {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        MOST.store(most as u8, Ordering::Relaxed);
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = most;
    }

    /// All backends this CPU can run, the portable one first.
    pub fn available() -> impl Iterator<Item = Self> {
        let best = Self::detect();
        let all = [
            Self::Portable,
            #[cfg(target_arch = "aarch64")]
            Self::Armv8,
            #[cfg(not(target_arch = "aarch64"))]
            Self::AesNi,
            #[cfg(not(target_arch = "aarch64"))]
            Self::Vaes,
            #[cfg(not(target_arch = "aarch64"))]
            Self::Avx512,
        ];
        all.into_iter().filter(move |backend| *backend <= best)
    }
}
