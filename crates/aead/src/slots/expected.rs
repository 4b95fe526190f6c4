//! The receiving side: an opener and the packets that it expects.

use crate::{AuthenticationError, Key, Nonce, Slot, Suite, buffers::Buffers, tag};
use core::fmt;

/// A key, and the function from a packet number to its nonce.
pub struct Opener<S: Suite, F: Fn(u64) -> S::NonceBytes> {
    pub(crate) key: Key<S>,
    pub(crate) nonce_of: F,
}

impl<S: Suite, F: Fn(u64) -> S::NonceBytes> Opener<S, F> {
    /// Takes the key and the function.
    pub const fn new(key: Key<S>, nonce_of: F) -> Self {
        Self { key, nonce_of }
    }

    /// Begins to prepare packet `number` in `slot`, and replaces the slot's content.
    pub fn expect<'a, const CAP: usize>(
        &'a self,
        number: u64,
        slot: &'a mut Slot<S, CAP>,
    ) -> Expected<'a, S, CAP> {
        // Opening does not use up a nonce: forgeries may carry it before the packet arrives.
        slot.name(number, Nonce::assume_unique((self.nonce_of)(number)));
        Expected { key: &self.key, slot }
    }

    /// Opens packet `number` without a preparation.
    pub fn open(
        &self,
        number: u64,
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &S::TagBytes,
    ) -> Result<(), AuthenticationError> {
        self.key.open((self.nonce_of)(number), aad, src, dst, tag)
    }

    /// As [`open`](Self::open), in place.
    pub fn open_in_place(
        &self,
        number: u64,
        aad: &[u8],
        buffer: &mut [u8],
        tag: &S::TagBytes,
    ) -> Result<(), AuthenticationError> {
        self.key.open_in_place((self.nonce_of)(number), aad, buffer, tag)
    }
}

impl<S: Suite, F: Fn(u64) -> S::NonceBytes> fmt::Debug for Opener<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opener({}, ..)", S::NAME)
    }
}

/// An expected packet and its preparation. Opening consumes it; a refused packet gives it back for
/// the genuine one. Dropping it wipes the slot.
pub struct Expected<'a, S: Suite, const CAP: usize> {
    key: &'a Key<S>,
    slot: &'a mut Slot<S, CAP>,
}

/// A packet was not authentic. The error holds the expected packet, still prepared.
#[derive(Debug)]
pub struct RefusedError<E>(pub E);

impl<E> From<RefusedError<E>> for AuthenticationError {
    fn from(_: RefusedError<E>) -> Self {
        Self
    }
}

impl<E> fmt::Display for RefusedError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        AuthenticationError.fmt(f)
    }
}

impl<'a, S: Suite, const CAP: usize> Expected<'a, S, CAP> {
    /// The number of the packet.
    pub fn number(&self) -> u64 {
        self.slot.number()
    }

    /// Continues the preparation by at most `budget` units of about 64 bytes, and returns the units
    /// done: 0 when all is ready.
    pub fn step(&mut self, budget: u32) -> u32 {
        self.slot.step(self.key, budget)
    }

    /// Bytes of payload that are prepared.
    pub fn ready(&self) -> usize {
        self.slot.ready()
    }

    /// Decrypts `src` into `dst` if the packet is authentic; otherwise `dst` is zeroed.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length.
    pub fn open(
        self,
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &S::TagBytes,
    ) -> Result<(), RefusedError<Self>> {
        match self.slot.open(self.key, aad, Buffers::apart(src, dst), tag) {
            Ok(()) => Ok(()),
            Err(AuthenticationError) => Err(RefusedError(self)),
        }
    }

    /// As [`open`](Self::open), in place.
    pub fn open_in_place(
        self,
        aad: &[u8],
        buffer: &mut [u8],
        tag: &S::TagBytes,
    ) -> Result<(), RefusedError<Self>> {
        match self.slot.open(self.key, aad, Buffers::InPlace(buffer), tag) {
            Ok(()) => Ok(()),
            Err(AuthenticationError) => Err(RefusedError(self)),
        }
    }

    /// Verifies unencrypted data, given in pieces that are read as one.
    pub fn verify(self, aad: &[&[u8]], tag: &S::TagBytes) -> Result<(), RefusedError<Self>> {
        let expected = self.slot.authenticate(self.key, aad);
        match tag::check(&expected, tag) {
            Ok(()) => Ok(()),
            Err(AuthenticationError) => Err(RefusedError(self)),
        }
    }
}

impl<S: Suite, const CAP: usize> Drop for Expected<'_, S, CAP> {
    fn drop(&mut self) {
        self.slot.wipe();
    }
}

impl<S: Suite, const CAP: usize> fmt::Debug for Expected<'_, S, CAP> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expected({}, number {}, {} bytes ready)", S::NAME, self.number(), self.ready())
    }
}
