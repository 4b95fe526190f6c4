//! An expanded key, and the ordinary way to seal and open with it.

use crate::{
    Backend, Nonce, Suite, Tag, Unauthentic,
    buffers::Buffers,
    bytes::{Bytes, wipe},
    tag,
};
use core::fmt;

/// A key of suite `S`, expanded for this CPU. It is wiped when dropped and shows nothing of itself in `Debug`.
///
/// A key is some kilobytes long. Moving it leaves the bytes behind where it was, as every move in Rust does, so make
/// it where it stays, or box it.
pub struct Key<S: Suite> {
    pub(crate) inner: S::Key,
}

/// The bytes given as a key have the wrong length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidKeyLength {
    /// The suite's name.
    pub suite: &'static str,
    /// The bytes that the suite's key has.
    pub expected: usize,
    /// The bytes that were given.
    pub given: usize,
}

impl fmt::Display for InvalidKeyLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { suite, expected, given } = self;
        write!(f, "a key of {suite} has {expected} bytes, not {given}")
    }
}

impl core::error::Error for InvalidKeyLength {}

impl<S: Suite> Key<S> {
    /// Expands a key for the best backend of this CPU.
    pub fn new(bytes: &[u8]) -> Result<Self, InvalidKeyLength> {
        Self::with_backend(bytes, Backend::detect())
    }

    /// Expands a key for a given backend, so that a test can compare them.
    #[doc(hidden)]
    pub fn with_backend(bytes: &[u8], backend: Backend) -> Result<Self, InvalidKeyLength> {
        if bytes.len() != S::KEY_LEN {
            return Err(InvalidKeyLength { suite: S::NAME, expected: S::KEY_LEN, given: bytes.len() });
        }
        Ok(Self { inner: S::expand(bytes, backend.min(Backend::detect())) })
    }

    /// Encrypts `src` into `dst` and authenticates it together with `aad`.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length, or are longer than the suite allows: 65,535 bytes for CCM with nonces of 13 bytes, about
    /// 64 GiB for AES-GCM.
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

    /// As [`seal`](Self::seal), in the buffer where the plaintext is.
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
    ) -> Result<(), Unauthentic> {
        self.open_buffers(&nonce, aad, Buffers::apart(src, dst), tag)
    }

    /// As [`open`](Self::open), in the buffer where the ciphertext is.
    pub fn open_in_place(
        &self,
        nonce: S::NonceBytes,
        aad: &[u8],
        buffer: &mut [u8],
        tag: &S::TagBytes,
    ) -> Result<(), Unauthentic> {
        self.open_buffers(&nonce, aad, Buffers::InPlace(buffer), tag)
    }

    pub(crate) fn open_buffers(
        &self,
        nonce: &S::NonceBytes,
        aad: &[u8],
        mut buffers: Buffers<'_>,
        tag: &S::TagBytes,
    ) -> Result<(), Unauthentic> {
        if buffers.len() > S::MAX_PAYLOAD {
            wipe(buffers.into_destination());
            return Err(Unauthentic);
        }
        let expected = S::open(&self.inner, nonce, aad, buffers.reborrow());
        verdict(&expected, tag, buffers)
    }
}

/// A payload that the suite can't seal is a mistake of the program: nothing is sealed with a wrong length in it.
#[inline]
pub(crate) fn assert_sealable<S: Suite>(len: usize) {
    assert!(len <= S::MAX_PAYLOAD, "the payload is longer than the suite allows");
}

/// Compares the tags, and takes the plaintext back if they differ.
#[inline(always)]
pub(crate) fn verdict<B: Bytes>(expected: &B, received: &B, buffers: Buffers<'_>) -> Result<(), Unauthentic> {
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

    /// Bytes of payload: the most that are sealed.
    fn longest<S: Suite>(most: usize) {
        assert!(catch_unwind(|| assert_sealable::<S>(most)).is_ok(), "{}", S::NAME);
        assert!(catch_unwind(|| assert_sealable::<S>(most + 1)).is_err(), "{}", S::NAME);
    }

    #[test]
    fn no_payload_is_so_long_that_its_counter_begins_again() {
        longest::<Aes128Gcm>((1 << 36) - 32);
        longest::<ChaCha20Poly1305>((1 << 38) - 64);
        longest::<Aes128Ocb3>((1 << 36) - 1);
        longest::<AesCcm<Aes128, 13, 8>>((1 << 16) - 1);
        longest::<AesCcm<Aes128, 11, 8>>((1 << 32) - 1);
        longest::<AesCcm<Aes128, 10, 8>>((1 << 36) - 16);
        longest::<AesCcm<Aes128, 7, 8>>((1 << 36) - 16);
    }
}
