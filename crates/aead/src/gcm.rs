//! AES-GCM (NIST SP 800-38D) with nonces of 96 bits and tags of 128.
//!
//! The nonce gives the cipherstream and E(J0), the mask of the tag; the key gives the powers of H. So all AES work
//! can be done beforehand, and the deadline sees an XOR and a GHASH.

#[cfg(target_arch = "x86_64")]
use crate::backend::x86::gcm as x86;
use crate::{
    Backend, Suite,
    backend::portable::{aes::RoundKeys, gcm as portable, ghash::Power},
    buffers::Buffers,
    engine::{Engine, Linear},
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

/// An expanded key for AES of `R` rounds, in the form that its backend works with.
#[allow(clippy::large_enum_variant)]
pub enum Expanded<const R: usize> {
    Portable(portable::Key),
    #[cfg(target_arch = "x86_64")]
    X86(x86::Key<R>),
}

/// Calls the same method on whichever key there is.
macro_rules! with {
    ($expanded:expr, $key:ident => $call:expr) => {
        match $expanded {
            Expanded::Portable($key) => $call,
            #[cfg(target_arch = "x86_64")]
            Expanded::X86($key) => $call,
        }
    };
}

/// What a nonce gives besides the cipherstream: E(J0), as it lies in memory.
#[derive(Default)]
pub struct OneTime {
    mask: u128,
}

impl Zeroize for OneTime {
    #[inline]
    fn zeroize(&mut self) {
        self.mask.zeroize();
    }
}

macro_rules! engine {
    ($suite:ty, $rounds:literal) => {
        impl Engine for $suite {
            type Key = Expanded<$rounds>;
            type OneTime = OneTime;
            type NonceBytes = [u8; 12];
            type TagBytes = [u8; 16];
            const STREAMS: bool = true;

            fn expand(key: &[u8], backend: Backend) -> Self::Key {
                let round_keys = RoundKeys::expand(key);
                #[cfg(target_arch = "x86_64")]
                if let Some(key) = x86::Key::new(&round_keys, backend) {
                    return Expanded::X86(key);
                }
                let _ = backend;
                Expanded::Portable(portable::Key::new(&round_keys))
            }

            fn prepare_once(key: &Self::Key, nonce: &[u8; 12], once: &mut OneTime) {
                with!(key, key => key.mask(nonce, &mut once.mask));
            }

            fn prepare_stream(key: &Self::Key, nonce: &[u8; 12], first: usize, out: &mut [u8]) {
                with!(key, key => key.stream(nonce, first, out));
            }

            fn seal(key: &Self::Key, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
                with!(key, key => key.seal(nonce, aad, buffers))
            }

            fn open(key: &Self::Key, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
                with!(key, key => key.open(nonce, aad, buffers))
            }

            #[inline]
            fn seal_prepared(
                key: &Self::Key,
                _nonce: &[u8; 12],
                once: &OneTime,
                stream: &mut [u8],
                aad: &[u8],
                buffers: Buffers<'_>,
                tag: &mut [u8; 16],
            ) {
                with!(key, key => key.seal_prepared(&once.mask, stream, aad, buffers, tag))
            }

            #[inline]
            fn open_prepared(
                key: &Self::Key,
                _nonce: &[u8; 12],
                once: &OneTime,
                stream: &[u8],
                aad: &[u8],
                buffers: Buffers<'_>,
                tag: &mut [u8; 16],
            ) {
                with!(key, key => key.open_prepared(&once.mask, stream, aad, buffers, tag))
            }

            fn authenticate(
                key: &Self::Key,
                _nonce: &[u8; 12],
                once: &OneTime,
                aad: &[&[u8]],
            ) -> [u8; 16] {
                with!(key, key => key.authenticate(&once.mask, aad))
            }

            #[inline]
            fn wipe(key: &Self::Key, bytes: &mut [u8]) {
                with!(key, key => key.wipe(bytes))
            }
        }

        impl Linear for $suite {
            type Sum = u128;
            type Weight = Power;
            const SETTLES_BLOCKS: bool = false;

            fn length_block(aad: usize, payload: usize) -> [u8; 16] {
                portable::lengths(aad, payload)
            }

            // The predicted packet is hashed as it is: XOR is its own difference, so the values can be added alone.
            fn absorb(key: &Self::Key, _once: &OneTime, sum: &mut u128, block: &[u8; 16], _touched: bool) {
                *sum = with!(key, key => key.times(*sum ^ u128::from_be_bytes(*block)));
            }

            fn weigh(key: &Self::Key, _once: &OneTime, distance: usize) -> Power {
                with!(key, key => key.power(distance))
            }

            fn settle(
                key: &Self::Key,
                once: &OneTime,
                sum: &u128,
                weights: &[Power],
                deltas: &[[u8; 16]],
                _blocks: &[[u8; 16]],
            ) -> [u8; 16] {
                let hash = sum ^ with!(key, key => key.products(deltas, weights));
                (u128::from_ne_bytes(hash.to_be_bytes()) ^ once.mask).to_ne_bytes()
            }
        }
    };
}

engine!(Aes128Gcm, 10);
engine!(Aes256Gcm, 14);
