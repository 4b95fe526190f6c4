//! Packets that are prepared for a front: only the rest is left.

use crate::{
    Front, FrontError, FrontSlot, Fronted, Key, Nonce, NonceSequence, Opener, PrepareError, RefusedError,
    Sealer, Tag,
    buffers::Buffers,
    suites::key::{assert_sealable, verdict},
};
use core::{fmt, mem::ManuallyDrop};

/// A slot in use, wiped on drop.
struct Held<'a, S: Fronted, const CAP: usize, const LENGTHS: usize>(&'a mut FrontSlot<S, CAP, LENGTHS>);

impl<S: Fronted, const CAP: usize, const LENGTHS: usize> Drop for Held<'_, S, CAP, LENGTHS> {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

impl<S: Fronted, N: NonceSequence<S::NonceBytes>> Sealer<S, N> {
    /// Takes the next nonce and begins to prepare its packet for a front, replacing the slot's
    /// content. A front that does not fit the slot costs no nonce.
    pub fn prepare_front<'a, const CAP: usize, const LENGTHS: usize>(
        &'a mut self,
        front: &'a Front<'a>,
        slot: &'a mut FrontSlot<S, CAP, LENGTHS>,
    ) -> Result<PreparedFront<'a, S, CAP, LENGTHS>, PrepareError<N::Error, FrontError>> {
        FrontSlot::<S, CAP, LENGTHS>::check(front).map_err(PrepareError::Template)?;
        let (number, nonce) = self.sequence.next().map_err(PrepareError::Sequence)?;
        slot.name(number, nonce, front, front.lengths());
        Ok(PreparedFront::new(&self.key, front, slot))
    }
}

/// A packet to be sealed, with a known beginning. As [`Prepared`](crate::Prepared), it owns its
/// nonce.
///
/// ```compile_fail
/// # use antedate_aead::{Aes128Ccm8, PreparedFront};
/// fn twice(prepared: PreparedFront<'_, Aes128Ccm8, 64, 1>) {
///     let sealed = prepared.seal(b"on");
///     let sealed = prepared.seal(b"off"); // one nonce, one packet
/// }
/// ```
///
/// Suites whose MAC is a polynomial take a [`Template`](crate::Template) instead:
///
/// ```compile_fail
/// # use antedate_aead::{Aes128Gcm, FrontSlot};
/// let slot = FrontSlot::<Aes128Gcm, 64, 1>::new();
/// ```
pub struct PreparedFront<'a, S: Fronted, const CAP: usize, const LENGTHS: usize> {
    key: &'a Key<S>,
    front: &'a Front<'a>,
    slot: Held<'a, S, CAP, LENGTHS>,
}

/// The payload is longer than the slot. No nonce was used: the error gives the packet back, and
/// [`seal_other`](PreparedFront::seal_other) can seal the payload elsewhere.
#[derive(Debug)]
pub struct OversizeError<P> {
    /// The unsealed packet.
    pub prepared: P,
    /// Length of the payload, front and rest.
    pub len: usize,
    /// Capacity of the slot.
    pub capacity: usize,
}

impl<P> fmt::Display for OversizeError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the payload has {} bytes, but the slot takes {}", self.len, self.capacity)
    }
}

impl<'a, S: Fronted, const CAP: usize, const LENGTHS: usize> PreparedFront<'a, S, CAP, LENGTHS> {
    /// A handle on a slot that has a nonce, for a checked front.
    #[inline]
    pub(crate) fn new(
        key: &'a Key<S>,
        front: &'a Front<'a>,
        slot: &'a mut FrontSlot<S, CAP, LENGTHS>,
    ) -> Self {
        Self { key, front, slot: Held(slot) }
    }

    /// The packet number of the nonce.
    pub fn number(&self) -> u64 {
        self.slot.0.number()
    }

    /// Continues the preparation by at most `budget` units (one block of the MAC, or a unit of key
    /// stream), and returns the units done: 0 when all is ready.
    pub fn step(&mut self, budget: u32) -> u32 {
        self.slot.0.step(self.key, self.front, budget)
    }

    /// Whether only the rest is left.
    pub fn is_ready(&self) -> bool {
        self.slot.0.is_ready()
    }

    /// Leaves the packet in its slot without a handle. A [`Standby`](crate::Standby), which owns
    /// its slot, resumes it; in any other slot the packet is burnt.
    pub fn leave(self) {
        let mut slot = ManuallyDrop::new(self.slot);
        slot.0.leave();
    }

    /// Seals the packet; its payload is the front and then `rest`. The ciphertext stays in the
    /// slot.
    ///
    /// A packet of another length, or with an unfinished preparation, is sealed with the same nonce
    /// after the missing work.
    #[inline]
    #[allow(clippy::result_large_err, reason = "the error gives the packet back")]
    pub fn seal(self, rest: &[u8]) -> Result<SealedFront<'a, S, CAP, LENGTHS>, OversizeError<Self>> {
        let Self { key, front, slot } = self;
        let len = front.payload().len() + rest.len();
        match slot.0.chain(front, len) {
            Some(chain) => slot.0.seal_rest(key, front, front.payload().len(), chain, rest),
            None if len > CAP.min(S::MAX_PAYLOAD) => {
                let capacity = CAP.min(S::MAX_PAYLOAD);
                return Err(OversizeError { prepared: Self { key, front, slot }, len, capacity });
            }
            None => slot.0.seal_late(key, front, rest),
        }
        Ok(SealedFront { slot, len })
    }

    /// Seals another packet with the nonce, without the preparation.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length, or are longer than the suite allows.
    pub fn seal_other(self, aad: &[u8], src: &[u8], dst: &mut [u8]) -> Tag<S::TagBytes> {
        assert_sealable::<S>(src.len());
        Tag(S::seal(&self.key.inner, self.slot.0.nonce(), aad, Buffers::apart(src, dst)))
    }

    /// As [`seal_other`](Self::seal_other), in place.
    ///
    /// # Panics
    /// If the buffer is longer than the suite allows.
    pub fn seal_other_in_place(self, aad: &[u8], buffer: &mut [u8]) -> Tag<S::TagBytes> {
        assert_sealable::<S>(buffer.len());
        Tag(S::seal(&self.key.inner, self.slot.0.nonce(), aad, Buffers::InPlace(buffer)))
    }
}

/// A sealed packet in its slot. Dropping it wipes the slot.
pub struct SealedFront<'a, S: Fronted, const CAP: usize, const LENGTHS: usize> {
    slot: Held<'a, S, CAP, LENGTHS>,
    len: usize,
}

impl<S: Fronted, const CAP: usize, const LENGTHS: usize> SealedFront<'_, S, CAP, LENGTHS> {
    /// The ciphertext of the whole payload, front and rest.
    pub fn ciphertext(&self) -> &[u8] {
        self.slot.0.ciphertext(self.len)
    }

    /// The tag.
    pub fn tag(&self) -> Tag<S::TagBytes> {
        Tag(self.slot.0.tag())
    }

    /// The packet number.
    pub fn number(&self) -> u64 {
        self.slot.0.number()
    }
}

impl<S: Fronted, F: Fn(u64) -> S::NonceBytes> Opener<S, F> {
    /// Begins to prepare for packet `number`, which should begin with a front, and replaces the
    /// slot's content.
    pub fn expect_front<'a, const CAP: usize, const LENGTHS: usize>(
        &'a self,
        number: u64,
        front: &'a Front<'a>,
        slot: &'a mut FrontSlot<S, CAP, LENGTHS>,
    ) -> Result<ExpectedFront<'a, S, CAP, LENGTHS>, FrontError> {
        FrontSlot::<S, CAP, LENGTHS>::check(front)?;
        slot.name(number, Nonce::assume_unique((self.nonce_of)(number)), front, front.lengths());
        Ok(ExpectedFront::new(&self.key, front, slot))
    }
}

/// An expected packet with a front. As with [`Expected`](crate::Expected), a refused packet gives
/// it back.
pub struct ExpectedFront<'a, S: Fronted, const CAP: usize, const LENGTHS: usize> {
    key: &'a Key<S>,
    front: &'a Front<'a>,
    slot: Held<'a, S, CAP, LENGTHS>,
}

impl<'a, S: Fronted, const CAP: usize, const LENGTHS: usize> ExpectedFront<'a, S, CAP, LENGTHS> {
    /// A handle on a slot that has a nonce, for a checked front.
    #[inline]
    pub(crate) fn new(
        key: &'a Key<S>,
        front: &'a Front<'a>,
        slot: &'a mut FrontSlot<S, CAP, LENGTHS>,
    ) -> Self {
        Self { key, front, slot: Held(slot) }
    }

    /// Leaves the preparation in its slot.
    pub(crate) fn leave(self) {
        let _ = ManuallyDrop::new(self.slot);
    }

    /// The number of the packet.
    pub fn number(&self) -> u64 {
        self.slot.0.number()
    }

    /// Continues the preparation, as [`PreparedFront::step`] does.
    pub fn step(&mut self, budget: u32) -> u32 {
        self.slot.0.step(self.key, self.front, budget)
    }

    /// Whether only the rest is left.
    pub fn is_ready(&self) -> bool {
        self.slot.0.is_ready()
    }

    /// Decrypts `src` into `dst` if the packet is authentic; otherwise `dst` is zeroed. A packet
    /// without this front, of another length, or before the preparation is finished, is opened
    /// without it, with the same verdict.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length.
    #[inline]
    pub fn open(
        self,
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &S::TagBytes,
    ) -> Result<(), RefusedError<Self>> {
        assert_eq!(src.len(), dst.len(), "source and destination must have the same length");
        let opened = match self.slot.0.open_rest(self.key, self.front, aad, src, dst) {
            Some(expected) => verdict(&expected, tag, Buffers::InPlace(dst)),
            None => self.key.open_buffers(self.slot.0.nonce(), aad, Buffers::apart(src, dst), tag),
        };
        if opened.is_ok() { Ok(()) } else { Err(RefusedError(self)) }
    }

    /// Decrypts in place, without the preparation. A packet that is not authentic becomes zeros.
    pub fn open_in_place(
        self,
        aad: &[u8],
        buffer: &mut [u8],
        tag: &S::TagBytes,
    ) -> Result<(), RefusedError<Self>> {
        match self.key.open_in_place(*self.slot.0.nonce(), aad, buffer, tag) {
            Ok(()) => Ok(()),
            Err(_) => Err(RefusedError(self)),
        }
    }
}

macro_rules! debug {
    ($($type:ident $(<$life:lifetime>)?),*) => {$(
        impl<S: Fronted, const CAP: usize, const LENGTHS: usize> fmt::Debug for $type<$($life,)? S, CAP, LENGTHS> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($type), "({}, ..)"), S::NAME)
            }
        }
    )*};
}

debug!(FrontSlot, PreparedFront<'_>, ExpectedFront<'_>, SealedFront<'_>);
