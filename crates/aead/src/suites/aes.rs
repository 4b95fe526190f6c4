//! AES (FIPS 197) as a block cipher, on any backend.

#[cfg(target_pointer_width = "32")]
use crate::backend::portable::aes_pairs::Aes as Pairs;
#[cfg(not(target_pointer_width = "32"))]
use crate::backend::{fours::Aes, round_keys};
use crate::{Backend, BlockCipher};
#[cfg(target_arch = "x86_64")]
use crate::{backend::x86::ccm as x86, suites::block_cipher::Kernels};

/// An expanded key.
#[cfg(not(target_pointer_width = "32"))]
#[allow(clippy::large_enum_variant, reason = "a key stays where it was made")]
enum Expanded<const R: usize> {
    Portable(Aes),
    #[cfg(target_arch = "x86_64")]
    X86(x86::Key<R>),
}

#[cfg(not(target_pointer_width = "32"))]
impl<const R: usize> Expanded<R> {
    fn new(key: &[u8], backend: Backend) -> Self {
        let round_keys = round_keys(key, backend);
        #[cfg(target_arch = "x86_64")]
        if let Some(key) = x86::Key::new(&round_keys, backend) {
            return Self::X86(key);
        }
        Self::Portable(Aes::new(&round_keys, backend))
    }

    fn encrypt(&self, block: &mut [u8; 16]) {
        match self {
            Self::Portable(aes) => aes.encrypt_one(block),
            #[cfg(target_arch = "x86_64")]
            Self::X86(key) => key.encrypt(block),
        }
    }

    fn encrypt_two(&self, first: &mut [u8; 16], second: &mut [u8; 16]) {
        match self {
            Self::Portable(aes) => aes.encrypt_two(first, second),
            #[cfg(target_arch = "x86_64")]
            Self::X86(key) => [first, second].into_iter().for_each(|block| key.encrypt(block)),
        }
    }

    fn encrypt_all(&self, blocks: &mut [[u8; 16]]) {
        match self {
            Self::Portable(aes) => aes.encrypt_all(blocks),
            #[cfg(target_arch = "x86_64")]
            Self::X86(key) => key.encrypt_all(blocks),
        }
    }
}

#[cfg(not(target_pointer_width = "32"))]
macro_rules! aes {
    ($name:ident, $bits:literal, $bytes:literal, $rounds:literal) => {
        #[doc = concat!("AES with a key of ", $bits, " bits.")]
        pub struct $name(Expanded<$rounds>);

        impl BlockCipher for $name {
            const KEY_LEN: usize = $bytes;
            const UNIT: usize = 64;

            fn new(key: &[u8]) -> Self {
                Self::select(key, Backend::detect())
            }

            fn encrypt(&self, block: &mut [u8; 16]) {
                self.0.encrypt(block);
            }

            fn encrypt_two(&self, first: &mut [u8; 16], second: &mut [u8; 16]) {
                self.0.encrypt_two(first, second);
            }

            fn encrypt_all(&self, blocks: &mut [[u8; 16]]) {
                self.0.encrypt_all(blocks);
            }

            fn select(key: &[u8], backend: Backend) -> Self {
                Self(Expanded::new(key, backend))
            }

            #[cfg(target_arch = "x86_64")]
            #[inline]
            fn kernels(&self) -> Kernels<'_> {
                match &self.0 {
                    Expanded::Portable(_) => Kernels::None,
                    Expanded::X86(key) => Kernels::$name(key),
                }
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

#[cfg(target_pointer_width = "32")]
macro_rules! aes {
    ($name:ident, $bits:literal, $bytes:literal, $rounds:literal) => {
        #[doc = concat!("AES with a key of ", $bits, " bits.")]
        pub struct $name(Pairs<{ $rounds + 1 }>);

        impl BlockCipher for $name {
            const KEY_LEN: usize = $bytes;
            const UNIT: usize = 32;

            fn new(key: &[u8]) -> Self {
                Self::select(key, Backend::detect())
            }

            fn encrypt(&self, block: &mut [u8; 16]) {
                self.0.encrypt_one(block);
            }

            fn encrypt_two(&self, first: &mut [u8; 16], second: &mut [u8; 16]) {
                self.0.encrypt(first, second);
            }

            fn encrypt_all(&self, blocks: &mut [[u8; 16]]) {
                self.0.encrypt_all(blocks);
            }

            fn select(key: &[u8], _: Backend) -> Self {
                Self(Pairs::new(key))
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

#[cfg(any(feature = "table-aes-1k", feature = "table-aes-2k"))]
pub use super::aes_table::Aes128;
#[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
aes!(Aes128, "128", 16, 10);
aes!(Aes256, "256", 32, 14);
