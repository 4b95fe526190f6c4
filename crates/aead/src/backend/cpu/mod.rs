//! The instruction sets of this CPU. A value of [`x86`]'s or [`arm`]'s types is the proof that the CPU has them.

#[cfg(target_arch = "aarch64")]
pub(crate) mod arm;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use core::sync::atomic::{AtomicU8, Ordering};

/// The number of the best backend that may be used.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
static MOST: AtomicU8 = AtomicU8::new(Backend::Avx512 as u8);

/// The instruction sets that a key may be expanded for, from the least to the most capable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Backend {
    /// Any CPU. On x86-64 AEGIS-128L and ChaCha20 use SSE2, on ARM with 64 bits ChaCha20-Poly1305 uses Advanced SIMD: each has these.
    Portable,
    /// ARM with 64 bits, AES and PMULL.
    #[cfg(target_arch = "aarch64")]
    Armv8,
    /// x86-64 with AES-NI and PCLMULQDQ.
    AesNi,
    /// x86-64 with VAES, VPCLMULQDQ and AVX2: Intel from Alder Lake on, AMD's Zen 3.
    Vaes,
    /// x86-64 with VAES, VPCLMULQDQ and AVX-512 (F, BW, DQ, VL, IFMA).
    Avx512,
}

impl Backend {
    /// The best backend of this CPU, as far as it is not [masked](Self::mask_beyond).
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

    /// Has all keys of this process that are expanded from now on use this backend at most, so that an experiment shows a
    /// program on a CPU that has no more. Keys that exist stay as they are.
    #[doc(hidden)]
    pub fn mask_beyond(most: Self) {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        MOST.store(most as u8, Ordering::Relaxed);
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = most;
    }

    /// All backends that this CPU can run, the portable one first.
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
