//! Packets that are prepared for a front: all is done but the rest.

use crate::{
    Front, FrontError, FrontSlot, Fronted, Key, Nonce, NonceSequence, Opener, PrepareError, Refused, Sealer,
    Tag,
    buffers::Buffers,
    suites::key::{assert_sealable, verdict},
};
use core::{fmt, mem::ManuallyDrop};

/// A slot in use; it is wiped when whoever holds it is dropped.
struct Held<'a, S: Fronted, const CAP: usize, const LENGTHS: usize>(&'a mut FrontSlot<S, CAP, LENGTHS>);

impl<S: Fronted, const CAP: usize, const LENGTHS: usize> Drop for Held<'_, S, CAP, LENGTHS> {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

impl<S: Fronted, N: NonceSequence<S::NonceBytes>> Sealer<S, N> {
    /// Takes the next nonce and begins to prepare its packet for a front, in place of what the slot had. A front that
    /// does not fit the slot costs no nonce.
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

/// A packet to be, whose beginning is known. As [`Prepared`](crate::Prepared), it owns its nonce.
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

/// The payload is longer than the slot. Nothing was spent: the packet is given back, and
/// [`seal_other`](PreparedFront::seal_other) can seal it elsewhere.
#[derive(Debug)]
pub struct Oversize<P> {
    /// What was to be sealed.
    pub prepared: P,
    /// Bytes of payload, front and rest.
    pub len: usize,
    /// Bytes that the slot takes.
    pub capacity: usize,
}

impl<P> fmt::Display for Oversize<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the payload has {} bytes, but the slot takes {}", self.len, self.capacity)
    }
}

impl<'a, S: Fronted, const CAP: usize, const LENGTHS: usize> PreparedFront<'a, S, CAP, LENGTHS> {
    /// A handle on a slot that was named, for a front that was checked.
    #[inline]
    pub(crate) fn new(
        key: &'a Key<S>,
        front: &'a Front<'a>,
        slot: &'a mut FrontSlot<S, CAP, LENGTHS>,
    ) -> Self {
        Self { key, front, slot: Held(slot) }
    }

    /// The packet number that the nonce was given for.
    pub fn number(&self) -> u64 {
        self.slot.0.number()
    }

    /// Prepares on, for at most `budget` units (one block of the MAC, or as much cipherstream as the suite makes at
    /// once), and returns the units done: 0 when all is ready.
    pub fn step(&mut self, budget: u32) -> u32 {
        self.slot.0.step(self.key, self.front, budget)
    }

    /// Whether only the rest is left to do.
    pub fn is_ready(&self) -> bool {
        self.slot.0.is_ready()
    }

    /// Leaves the packet in its slot, for whoever cannot keep the handle until the rest comes. A [`Standby`](crate::Standby), whose
    /// slot nobody else has, takes it up again; in any other slot it is burnt.
    pub fn leave(self) {
        let mut slot = ManuallyDrop::new(self.slot);
        slot.0.leave();
    }

    /// Seals the packet whose payload is the front and then `rest`. The ciphertext lies in the slot.
    ///
    /// A packet of a length that the front does not name, or that is not prepared yet, is sealed with the same nonce;
    /// what is missing is done first.
    #[inline]
    #[allow(clippy::result_large_err)]
    pub fn seal(self, rest: &[u8]) -> Result<SealedFront<'a, S, CAP, LENGTHS>, Oversize<Self>> {
        let Self { key, front, slot } = self;
        let len = front.payload().len() + rest.len();
        match slot.0.chain(front, len) {
            Some(chain) => slot.0.seal_rest(key, front, front.payload().len(), chain, rest),
            None if len > CAP.min(S::MAX_PAYLOAD) => {
                let capacity = CAP.min(S::MAX_PAYLOAD);
                return Err(Oversize { prepared: Self { key, front, slot }, len, capacity });
            }
            None => slot.0.seal_late(key, front, rest),
        }
        Ok(SealedFront { slot, len })
    }

    /// Seals another packet with the nonce, the ordinary way.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length, or are longer than the suite allows.
    pub fn seal_other(self, aad: &[u8], src: &[u8], dst: &mut [u8]) -> Tag<S::TagBytes> {
        assert_sealable::<S>(src.len());
        Tag(S::seal(&self.key.inner, self.slot.0.nonce(), aad, Buffers::apart(src, dst)))
    }
}

/// A sealed packet that lies in its slot. Dropping it wipes the slot.
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
    /// Begins to prepare for packet `number`, which is expected to begin with a front, in place of what the slot had.
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

/// A packet that is expected to begin with a front. As with [`Expected`](crate::Expected), what is refused gives it
/// back.
pub struct ExpectedFront<'a, S: Fronted, const CAP: usize, const LENGTHS: usize> {
    key: &'a Key<S>,
    front: &'a Front<'a>,
    slot: Held<'a, S, CAP, LENGTHS>,
}

impl<'a, S: Fronted, const CAP: usize, const LENGTHS: usize> ExpectedFront<'a, S, CAP, LENGTHS> {
    /// A handle on a slot that was named, for a front that was checked.
    #[inline]
    pub(crate) fn new(
        key: &'a Key<S>,
        front: &'a Front<'a>,
        slot: &'a mut FrontSlot<S, CAP, LENGTHS>,
    ) -> Self {
        Self { key, front, slot: Held(slot) }
    }

    /// Leaves what is prepared in its slot.
    pub(crate) fn leave(self) {
        let _ = ManuallyDrop::new(self.slot);
    }

    /// The number of the packet.
    pub fn number(&self) -> u64 {
        self.slot.0.number()
    }

    /// Prepares on, as [`PreparedFront::step`] does.
    pub fn step(&mut self, budget: u32) -> u32 {
        self.slot.0.step(self.key, self.front, budget)
    }

    /// Whether only the rest is left to do.
    pub fn is_ready(&self) -> bool {
        self.slot.0.is_ready()
    }

    /// Decrypts `src` into `dst` if the packet is authentic; otherwise `dst` is zeroed. A packet that does not begin
    /// with the front, is of another length, or comes before the preparation is ready, is opened the ordinary way, so
    /// the verdict is the same.
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
    ) -> Result<(), Refused<Self>> {
        assert_eq!(src.len(), dst.len(), "source and destination must have the same length");
        let opened = match self.slot.0.open_rest(self.key, self.front, aad, src, dst) {
            Some(expected) => verdict(&expected, tag, Buffers::InPlace(dst)),
            None => self.key.open_buffers(self.slot.0.nonce(), aad, Buffers::apart(src, dst), tag),
        };
        if opened.is_ok() { Ok(()) } else { Err(Refused(self)) }
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
