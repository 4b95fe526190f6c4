//! This CPU's kernels for ciphers whose rate is 32 bytes.

#[cfg(all(feature = "aegis", target_arch = "aarch64"))]
pub(crate) use super::arm::aegis;
#[cfg(all(feature = "aegis", target_arch = "x86_64"))]
pub(crate) use super::x86::aegis;
#[cfg(all(feature = "research", target_arch = "x86_64"))]
pub(crate) use super::x86::morus;

#[cfg(all(feature = "aegis", not(any(target_arch = "aarch64", target_arch = "x86_64"))))]
pub(crate) use none as aegis;
#[cfg(all(feature = "research", not(target_arch = "x86_64")))]
pub(crate) use none as morus;

/// For CPUs without kernels.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) mod none {
    use crate::{Backend, buffers::Buffers};

    /// Uninhabited.
    #[derive(Clone, Copy)]
    pub(crate) enum Kernels {}

    impl Kernels {
        pub(crate) fn new(_: Backend) -> Option<Self> {
            None
        }

        pub(crate) fn start<S>(self, _: &mut S, _: &[u8; 16], _: &[u8; 16]) {
            match self {}
        }

        pub(crate) fn absorb<S>(self, _: &mut S, _: &[u8]) {
            match self {}
        }

        pub(crate) fn block<S>(self, _: &mut S, _: &mut [u8]) {
            match self {}
        }

        pub(crate) fn finish<const SEAL: bool>(
            self,
            _: &impl Sized,
            _: &[u8],
            _: Buffers<'_>,
            _: (usize, usize),
        ) -> [u8; 16] {
            match self {}
        }
    }
}
