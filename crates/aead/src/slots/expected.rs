//! The receiving side: an opener knows which nonces come, an expected packet is prepared for one of them.

use crate::{Key, Nonce, Slot, Suite, Unauthentic, buffers::Buffers, tag};
use core::fmt;

/// A key with the rule by which a packet's number gives its nonce.
pub struct Opener<S: Suite, F: Fn(u64) -> S::NonceBytes> {
    pub(crate) key: Key<S>,
    pub(crate) nonce_of: F,
}

impl<S: Suite, F: Fn(u64) -> S::NonceBytes> Opener<S, F> {
    /// Takes the key and the rule.
    pub const fn new(key: Key<S>, nonce_of: F) -> Self {
        Self { key, nonce_of }
    }

    /// Begins to prepare for packet `number` in `slot`, in place of what the slot had.
    pub fn expect<'a, const CAP: usize>(
        &'a self,
        number: u64,
        slot: &'a mut Slot<S, CAP>,
    ) -> Expected<'a, S, CAP> {
        // A received nonce is not spent by its use: forgeries may come under it before the packet does.
        slot.name(number, Nonce::assume_unique((self.nonce_of)(number)));
        Expected { key: &self.key, slot }
    }

    /// Opens packet `number` the ordinary way.
    pub fn open(
        &self,
        number: u64,
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &S::TagBytes,
    ) -> Result<(), Unauthentic> {
        self.key.open((self.nonce_of)(number), aad, src, dst, tag)
    }
}

impl<S: Suite, F: Fn(u64) -> S::NonceBytes> fmt::Debug for Opener<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opener({}, ..)", S::NAME)
    }
}

/// A packet that is expected, and the work done for it so far. Opening consumes it; a packet that is refused gives it
/// back for the genuine one. Dropping it wipes the slot.
pub struct Expected<'a, S: Suite, const CAP: usize> {
    key: &'a Key<S>,
    slot: &'a mut Slot<S, CAP>,
}

/// A packet was not authentic. What was expected still is.
#[derive(Debug)]
pub struct Refused<E>(pub E);

impl<E> From<Refused<E>> for Unauthentic {
    fn from(_: Refused<E>) -> Self {
        Self
    }
}

impl<E> fmt::Display for Refused<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Unauthentic.fmt(f)
    }
}

impl<'a, S: Suite, const CAP: usize> Expected<'a, S, CAP> {
    /// The number of the packet.
    pub fn number(&self) -> u64 {
        self.slot.number()
    }

    /// Prepares on, for at most `budget` units of about 64 bytes, and returns the units done: 0 when all is ready.
    pub fn step(&mut self, budget: u32) -> u32 {
        self.slot.step(self.key, budget)
    }

    /// Bytes of payload that the preparation covers so far.
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
    ) -> Result<(), Refused<Self>> {
        match self.slot.open(self.key, aad, Buffers::apart(src, dst), tag) {
            Ok(()) => Ok(()),
            Err(Unauthentic) => Err(Refused(self)),
        }
    }

    /// Verifies data that is not encrypted, given in pieces that are read as one.
    pub fn verify(self, aad: &[&[u8]], tag: &S::TagBytes) -> Result<(), Refused<Self>> {
        let expected = self.slot.authenticate(self.key, aad);
        match tag::check(&expected, tag) {
            Ok(()) => Ok(()),
            Err(Unauthentic) => Err(Refused(self)),
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
