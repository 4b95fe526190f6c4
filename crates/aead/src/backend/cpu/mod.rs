//! The instruction sets of this CPU, and the choice of a backend. A value of a token type
//! (`Avx512`, `Extension`, ...) proves that the CPU has the instructions.

#[cfg(target_arch = "aarch64")]
pub(crate) mod arm;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use core::sync::atomic::{AtomicU8, Ordering};

/// Number of the best backend that may be used.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
static MOST: AtomicU8 = AtomicU8::new(Backend::Avx512 as u8);

/// The backends, from the least to the most capable. A key is expanded for one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Backend {
    /// Any CPU. On x86-64 AEGIS-128L and ChaCha20 use SSE2; on ARM with 64 bits ChaCha20-Poly1305
    /// uses Advanced SIMD. All CPUs of these architectures have them.
    Portable,
    /// ARM with 64 bits, AES and PMULL.
    #[cfg(target_arch = "aarch64")]
    Armv8,
    /// x86-64 with SSSE3.
    Ssse3,
    /// x86-64 with AES-NI and PCLMULQDQ.
    AesNi,
    /// x86-64 with VAES, VPCLMULQDQ and AVX2: Intel from Alder Lake on, AMD's Zen 3.
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
            1 => Self::Ssse3,
            2 => Self::AesNi,
            3 => Self::Vaes,
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

    /// Limits this process to at most this backend for keys that are expanded from now on, so that
    /// an experiment can imitate a lesser CPU. Existing keys stay unchanged.
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
            Self::Ssse3,
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
