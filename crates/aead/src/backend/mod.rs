//! The primitives per CPU. A key is expanded for one backend and keeps it, so no packet pays for the choice.

pub(crate) mod portable;
#[cfg(any(test, feature = "table-aes-1k", feature = "table-aes-2k"))]
pub(crate) mod table;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

/// The instruction sets that a key may be expanded for, from the least to the most capable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Backend {
    /// Any CPU.
    Portable,
    /// x86-64 with AES-NI and PCLMULQDQ.
    AesNi,
    /// x86-64 with VAES, VPCLMULQDQ and AVX-512 (F, BW, DQ, VL, IFMA).
    Avx512,
}

impl Backend {
    /// The best backend of this CPU.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        return x86::detect();
        #[cfg(not(target_arch = "x86_64"))]
        Self::Portable
    }

    /// All backends that this CPU can run, the portable one first.
    pub fn available() -> impl Iterator<Item = Self> {
        let best = Self::detect();
        [Self::Portable, Self::AesNi, Self::Avx512].into_iter().filter(move |backend| *backend <= best)
    }
}
