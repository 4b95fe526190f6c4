//! The sending side: a sealer owns the nonces, and a prepared packet owns one of them.

use crate::{Key, NonceSequence, Slot, Suite, Tag, buffers::Buffers, bytes::Bytes};
use core::fmt;

/// A key and its sequence of nonces. A sequence has one sealer, which can't be cloned.
///
/// ```compile_fail
/// # use antedate_aead::{Aes128Gcm, NonceSequence, Sealer};
/// fn double<N: NonceSequence>(sealer: Sealer<Aes128Gcm, N>) {
///     let another = sealer.clone();
/// }
/// ```
pub struct Sealer<S: Suite, N: NonceSequence<S::NonceBytes>> {
    pub(crate) key: Key<S>,
    pub(crate) sequence: N,
}

impl<S: Suite, N: NonceSequence<S::NonceBytes>> Sealer<S, N> {
    /// Takes the key and the sequence.
    pub const fn new(key: Key<S>, sequence: N) -> Self {
        Self { key, sequence }
    }

    /// Takes the next nonce and begins to prepare its packet in `slot`, replacing the slot's
    /// content.
    pub fn prepare<'a, const CAP: usize>(
        &'a mut self,
        slot: &'a mut Slot<S, CAP>,
    ) -> Result<Prepared<'a, S, CAP>, N::Error> {
        let (number, nonce) = self.sequence.next()?;
        slot.name(number, nonce);
        Ok(Prepared { key: &self.key, slot })
    }

    /// The sequence.
    pub const fn sequence(&self) -> &N {
        &self.sequence
    }

    /// The sequence, to raise a limit for example.
    pub const fn sequence_mut(&mut self) -> &mut N {
        &mut self.sequence
    }
}

impl<S: Suite, N: NonceSequence<S::NonceBytes>> fmt::Debug for Sealer<S, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({}, ..)", S::NAME)
    }
}

/// A [prepared](Prepared) packet whose preparation covers the requested length of payload.
#[derive(Debug)]
pub struct Ready<'a, S: Suite, const CAP: usize> {
    packet: Prepared<'a, S, CAP>,
    payload: usize,
}

impl<'a, S: Suite, const CAP: usize> Ready<'a, S, CAP> {
    /// The slot must cover `payload` bytes.
    #[inline(always)]
    pub(crate) fn new(key: &'a Key<S>, slot: &'a mut Slot<S, CAP>, payload: usize) -> Self {
        Self { packet: Prepared::new(key, slot), payload }
    }

    /// Encrypts the payload in place, authenticates it together with `aad`, and writes the tag
    /// after it. `packet` is the payload and the place of its tag.
    ///
    /// # Panics
    /// If `packet` has another length.
    #[inline(always)]
    pub fn seal_in_place(self, aad: &[u8], packet: &mut [u8]) {
        assert_eq!(packet.len(), self.payload + S::TagBytes::LEN, "the packet has another length");
        self.packet.slot.seal_tagged(self.packet.key, aad, packet);
        // `seal_tagged` has wiped the slot.
        core::mem::forget(self);
    }
}

/// A packet to be sealed: it owns a nonce and the work done for it. Sealing consumes it, and
/// dropping it burns the nonce; both wipe the slot.
///
/// ```compile_fail
/// # use antedate_aead::{Aes128Gcm, Prepared};
/// fn twice(prepared: Prepared<'_, Aes128Gcm, 64>) {
///     prepared.seal(b"", b"on", &mut [0; 2]);
///     prepared.seal(b"", b"off", &mut [0; 3]);
/// }
/// ```
pub struct Prepared<'a, S: Suite, const CAP: usize> {
    key: &'a Key<S>,
    slot: &'a mut Slot<S, CAP>,
}

impl<'a, S: Suite, const CAP: usize> Prepared<'a, S, CAP> {
    /// A handle on a slot that has a nonce.
    pub(crate) fn new(key: &'a Key<S>, slot: &'a mut Slot<S, CAP>) -> Self {
        Self { key, slot }
    }

    #[cfg(feature = "gcm")]
    pub(crate) fn key_and_slot(&mut self) -> (&Key<S>, &mut Slot<S, CAP>) {
        (self.key, self.slot)
    }

    /// The packet number of the nonce.
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

    /// Encrypts `src` into `dst` and authenticates it together with `aad`. A payload longer than
    /// the preparation is sealed directly, with the same nonce.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length.
    #[inline]
    pub fn seal(self, aad: &[u8], src: &[u8], dst: &mut [u8]) -> Tag<S::TagBytes> {
        let mut tag = Tag(S::TagBytes::ZERO);
        self.slot.seal(self.key, aad, Buffers::apart(src, dst), &mut tag.0);
        // Wiped here and not in `drop`: otherwise the tag is moved again, after stores that it has
        // to wait for.
        self.slot.wipe();
        tag
    }

    /// As [`seal`](Self::seal), in place.
    #[inline]
    pub fn seal_in_place(self, aad: &[u8], buffer: &mut [u8]) -> Tag<S::TagBytes> {
        let mut tag = Tag(S::TagBytes::ZERO);
        self.slot.seal(self.key, aad, Buffers::InPlace(buffer), &mut tag.0);
        self.slot.wipe();
        tag
    }

    /// Authenticates unencrypted data (GMAC, for example), given in pieces that are read as one.
    pub fn authenticate(self, aad: &[&[u8]]) -> Tag<S::TagBytes> {
        Tag(self.slot.authenticate(self.key, aad))
    }
}

impl<S: Suite, const CAP: usize> Drop for Prepared<'_, S, CAP> {
    #[inline]
    fn drop(&mut self) {
        self.slot.wipe();
    }
}

impl<S: Suite, const CAP: usize> fmt::Debug for Prepared<'_, S, CAP> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prepared({}, number {}, {} bytes ready)", S::NAME, self.number(), self.ready())
    }
}
