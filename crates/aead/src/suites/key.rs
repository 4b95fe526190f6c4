//! An expanded key, and sealing and opening without a preparation.

use crate::{
    AuthenticationError, Backend, Nonce, Suite, Tag,
    buffers::Buffers,
    bytes::{Bytes, wipe},
    tag,
};
use core::fmt;

/// A key of suite `S`, expanded for this CPU. It is wiped when dropped, and `Debug` prints none of
/// it.
///
/// A key has some kilobytes. A move leaves the bytes at the old place, so create the key in its
/// final place, or box it.
pub struct Key<S: Suite> {
    pub(crate) inner: S::Key,
}

/// The given key has the wrong length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLengthError {
    /// Name of the suite.
    pub suite: &'static str,
    /// Length of the suite's keys.
    pub expected: usize,
    /// Length of the given bytes.
    pub given: usize,
}

impl fmt::Display for KeyLengthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { suite, expected, given } = self;
        write!(f, "a key of {suite} has {expected} bytes, not {given}")
    }
}

impl core::error::Error for KeyLengthError {}

impl<S: Suite> Key<S> {
    /// Expands a key for the best backend of this CPU.
    pub fn new(bytes: &[u8]) -> Result<Self, KeyLengthError> {
        Self::with_backend(bytes, Backend::detect())
    }

    /// Expands a key for a given backend, for tests.
    #[doc(hidden)]
    pub fn with_backend(bytes: &[u8], backend: Backend) -> Result<Self, KeyLengthError> {
        if bytes.len() != S::KEY_LEN {
            return Err(KeyLengthError { suite: S::NAME, expected: S::KEY_LEN, given: bytes.len() });
        }
        Ok(Self { inner: S::expand(bytes, backend.min(Backend::detect())) })
    }

    /// Encrypts `src` into `dst` and authenticates it together with `aad`.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length, or are longer than the suite allows: 65,535 bytes for
    /// CCM with nonces of 13 bytes, about 64 GiB for AES-GCM.
    pub fn seal(
        &self,
        nonce: Nonce<S::NonceBytes>,
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
    ) -> Tag<S::TagBytes> {
        assert_sealable::<S>(src.len());
        Tag(S::seal(&self.inner, &nonce.0, aad, Buffers::apart(src, dst)))
    }

    /// As [`seal`](Self::seal), in place.
    pub fn seal_in_place(
        &self,
        nonce: Nonce<S::NonceBytes>,
        aad: &[u8],
        buffer: &mut [u8],
    ) -> Tag<S::TagBytes> {
        assert_sealable::<S>(buffer.len());
        Tag(S::seal(&self.inner, &nonce.0, aad, Buffers::InPlace(buffer)))
    }

    /// Decrypts `src` into `dst` if the packet is authentic; otherwise `dst` is zeroed.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length.
    pub fn open(
        &self,
        nonce: S::NonceBytes,
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &S::TagBytes,
    ) -> Result<(), AuthenticationError> {
        self.open_buffers(&nonce, aad, Buffers::apart(src, dst), tag)
    }

    /// As [`open`](Self::open), in place.
    pub fn open_in_place(
        &self,
        nonce: S::NonceBytes,
        aad: &[u8],
        buffer: &mut [u8],
        tag: &S::TagBytes,
    ) -> Result<(), AuthenticationError> {
        self.open_buffers(&nonce, aad, Buffers::InPlace(buffer), tag)
    }

    pub(crate) fn open_buffers(
        &self,
        nonce: &S::NonceBytes,
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &S::TagBytes,
    ) -> Result<(), AuthenticationError> {
        open_buffers::<S>(&self.inner, nonce, aad, buffers, tag)
    }
}

pub(crate) fn open_buffers<S: Suite>(
    key: &S::Key,
    nonce: &S::NonceBytes,
    aad: &[u8],
    mut buffers: Buffers<'_>,
    tag: &S::TagBytes,
) -> Result<(), AuthenticationError> {
    if buffers.len() > S::MAX_PAYLOAD {
        wipe(buffers.into_destination());
        return Err(AuthenticationError);
    }
    let expected = S::open(key, nonce, aad, buffers.reborrow());
    verdict(&expected, tag, buffers)
}

/// Panics if the suite can't seal a payload of this length. Otherwise a wrong length would be
/// authenticated.
#[inline]
pub(crate) fn assert_sealable<S: Suite>(len: usize) {
    assert!(len <= S::MAX_PAYLOAD, "the payload is longer than the suite allows");
}

/// Compares the tags, and wipes the plaintext if they differ.
#[inline(always)]
pub(crate) fn verdict<B: Bytes>(
    expected: &B,
    received: &B,
    buffers: Buffers<'_>,
) -> Result<(), AuthenticationError> {
    tag::check(expected, received).inspect_err(|_| take_back(buffers))
}

#[cold]
#[inline(never)]
fn take_back(buffers: Buffers<'_>) {
    wipe(buffers.into_destination());
}

impl<S: Suite> fmt::Debug for Key<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, ..)", S::NAME)
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    extern crate std;

    use super::*;
    use crate::{Aes128, Aes128Gcm, Aes128Ocb3, AesCcm, ChaCha20Poly1305};
    use std::panic::catch_unwind;

    /// `most` is the longest payload.
    fn longest<S: Suite>(most: usize) {
        assert!(catch_unwind(|| assert_sealable::<S>(most)).is_ok(), "{}", S::NAME);
        assert!(catch_unwind(|| assert_sealable::<S>(most + 1)).is_err(), "{}", S::NAME);
    }

    #[test]
    fn longest_payload_never_wraps() {
        longest::<Aes128Gcm>((1 << 36) - 32);
        longest::<ChaCha20Poly1305>((1 << 38) - 64);
        longest::<Aes128Ocb3>((1 << 36) - 1);
        longest::<AesCcm<Aes128, 13, 8>>((1 << 16) - 1);
        longest::<AesCcm<Aes128, 11, 8>>((1 << 32) - 1);
        longest::<AesCcm<Aes128, 10, 8>>((1 << 36) - 16);
        longest::<AesCcm<Aes128, 7, 8>>((1 << 36) - 16);
    }
}
