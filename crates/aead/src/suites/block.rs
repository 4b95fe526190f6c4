//! AES on single blocks, as katsikeas2017 encrypts a sensor's value. **For research only:** equal
//! values give equal ciphertexts, and nothing is authenticated.

use crate::{Backend, suites::two_way::TwoWay};
use core::fmt;

macro_rules! block {
    ($name:ident, $bits:literal, $bytes:literal, $rounds:literal) => {
        #[doc = concat!("AES-", $bits, " on single blocks (FIPS 197). Reproduces a paper; never protect data with it.")]
        pub struct $name(TwoWay<$rounds>);

        impl $name {
            /// Expands a key for the best backend of this CPU.
            pub fn new(key: &[u8; $bytes]) -> Self {
                Self::with_backend(key, Backend::detect())
            }

            /// Expands a key for a given backend, for tests.
            #[doc(hidden)]
            pub fn with_backend(key: &[u8; $bytes], backend: Backend) -> Self {
                Self(TwoWay::new(key, backend))
            }

            /// Encrypts a block.
            pub fn encrypt(&self, block: &mut [u8; 16]) {
                self.0.encrypt(block);
            }

            /// Decrypts a block.
            pub fn decrypt(&self, block: &mut [u8; 16]) {
                self.0.decrypt(block);
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

block!(SingleBlockAes128, "128", 16, 10);
#[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
block!(SingleBlockAes256, "256", 32, 14);
