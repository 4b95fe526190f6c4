//! AES-GCM (NIST SP 800-38D) with nonces of 96 bits and tags of 128.
//!
//! The nonce gives the cipherstream and E(J0), the mask of the tag; the key gives the powers of H. So all AES work
//! can be done beforehand, and the deadline sees an XOR and a GHASH.

use crate::{
    Backend, Suite,
    backend::portable::{aes::RoundKeys, gcm as portable},
    buffers::Buffers,
    engine::Engine,
};
use zeroize::Zeroize;

/// AES-GCM with a key of 128 bits.
#[derive(Clone, Copy, Debug)]
pub struct Aes128Gcm;

/// AES-GCM with a key of 256 bits.
#[derive(Clone, Copy, Debug)]
pub struct Aes256Gcm;

impl Suite for Aes128Gcm {
    const NAME: &'static str = "aes-128-gcm";
    const KEY_LEN: usize = 16;
}

impl Suite for Aes256Gcm {
    const NAME: &'static str = "aes-256-gcm";
    const KEY_LEN: usize = 32;
}

/// An expanded key, in the form that its backend works with.
#[allow(clippy::large_enum_variant)]
pub enum Expanded {
    Portable(portable::Key),
}

/// What a nonce gives besides the cipherstream: E(J0).
#[derive(Default)]
pub struct OneTime {
    pub(crate) mask: [u8; 16],
}

impl Zeroize for OneTime {
    fn zeroize(&mut self) {
        self.mask.zeroize();
    }
}

macro_rules! engine {
    ($suite:ty) => {
        impl Engine for $suite {
            type Key = Expanded;
            type OneTime = OneTime;

            fn expand(key: &[u8], _backend: Backend) -> Expanded {
                Expanded::Portable(portable::Key::new(&RoundKeys::expand(key)))
            }

            fn prepare_once(key: &Expanded, nonce: &[u8; 12], once: &mut OneTime) {
                match key {
                    Expanded::Portable(key) => once.mask = key.mask(nonce),
                }
            }

            fn prepare_stream(key: &Expanded, nonce: &[u8; 12], first: usize, out: &mut [u8]) {
                match key {
                    Expanded::Portable(key) => key.stream(nonce, first, out),
                }
            }

            fn seal(key: &Expanded, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
                match key {
                    Expanded::Portable(key) => key.seal(nonce, aad, buffers),
                }
            }

            fn open(key: &Expanded, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
                match key {
                    Expanded::Portable(key) => key.open(nonce, aad, buffers),
                }
            }

            #[inline]
            fn seal_prepared(
                key: &Expanded,
                once: &OneTime,
                stream: &mut [u8],
                aad: &[u8],
                buffers: Buffers<'_>,
            ) -> [u8; 16] {
                match key {
                    Expanded::Portable(key) => key.seal_prepared(&once.mask, stream, aad, buffers),
                }
            }

            #[inline]
            fn open_prepared(
                key: &Expanded,
                once: &OneTime,
                stream: &[u8],
                aad: &[u8],
                buffers: Buffers<'_>,
            ) -> [u8; 16] {
                match key {
                    Expanded::Portable(key) => key.open_prepared(&once.mask, stream, aad, buffers),
                }
            }

            fn authenticate(key: &Expanded, once: &OneTime, aad: &[&[u8]]) -> [u8; 16] {
                match key {
                    Expanded::Portable(key) => key.authenticate(&once.mask, aad),
                }
            }
        }
    };
}

engine!(Aes128Gcm);
engine!(Aes256Gcm);
