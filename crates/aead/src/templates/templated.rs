//! Packets that are prepared for a template: only the holes are left.
//!
//! The prepared packet has zeros in its holes. Its ciphertext there is the key stream, and its MAC
//! is a polynomial. So a value costs an XOR and, for each block that it touches, one multiplication
//! by the block's power, which the slot holds. The time depends on the places of the holes, not on
//! the values.

use crate::{
    Key, Nonce, NonceSequence, Opener, PrepareError, RefusedError, Sealer, Sparse, Tag, Template,
    TemplateError, TemplateSlot,
    buffers::Buffers,
    bytes::wipe,
    holes::{Apart, Joined, Values},
    suites::key::assert_sealable,
    tag,
};
use core::{fmt, mem::ManuallyDrop};

impl<S: Sparse, N: NonceSequence<S::NonceBytes>> Sealer<S, N> {
    /// Takes the next nonce and begins to prepare its packet for a template, replacing the slot's
    /// content.
    // Always in line: the handle has nine words, and its caller would load them as vectors right
    // after they are stored.
    #[inline(always)]
    pub fn prepare_template<'a, const CAP: usize, const BLOCKS: usize>(
        &'a mut self,
        template: &Template<'a>,
        slot: &'a mut TemplateSlot<S, CAP, BLOCKS>,
    ) -> Result<PreparedTemplate<'a, S, CAP, BLOCKS>, PrepareError<N::Error>> {
        slot.fit(template).map_err(PrepareError::Template)?;
        let (number, nonce) = self.sequence.next().map_err(PrepareError::Sequence)?;
        slot.name(number, nonce);
        Ok(PreparedTemplate { key: &self.key, template: *template, slot: Held(slot) })
    }
}

/// A packet to be sealed, known except for its holes. As [`Prepared`](crate::Prepared), it owns its
/// nonce.
pub struct PreparedTemplate<'a, S: Sparse, const CAP: usize, const BLOCKS: usize> {
    key: &'a Key<S>,
    template: Template<'a>,
    slot: Held<'a, S, CAP, BLOCKS>,
}

/// A slot in use, wiped on drop.
struct Held<'a, S: Sparse, const CAP: usize, const BLOCKS: usize>(&'a mut TemplateSlot<S, CAP, BLOCKS>);

impl<S: Sparse, const CAP: usize, const BLOCKS: usize> Drop for Held<'_, S, CAP, BLOCKS> {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

/// The values do not fit the holes. No nonce was used: the error gives the packet back.
#[derive(Debug)]
pub struct MisfitError<P> {
    /// The unsealed packet.
    pub prepared: P,
    /// The first hole without a value or with one of another length. The number of holes if there
    /// are surplus values or the values are joined.
    pub hole: usize,
    /// Length of the hole, or of all holes for joined values.
    pub expected: usize,
    /// Length of the given value.
    pub given: usize,
}

impl<P> fmt::Display for MisfitError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hole {} has {} bytes, but {} were given", self.hole, self.expected, self.given)
    }
}

impl<'a, S: Sparse, const CAP: usize, const BLOCKS: usize> PreparedTemplate<'a, S, CAP, BLOCKS> {
    /// A handle on a slot that has a nonce and a fitting template.
    pub(crate) fn new(
        key: &'a Key<S>,
        template: Template<'a>,
        slot: &'a mut TemplateSlot<S, CAP, BLOCKS>,
    ) -> Self {
        Self { key, template, slot: Held(slot) }
    }

    /// The packet number of the nonce.
    pub fn number(&self) -> u64 {
        self.slot.0.number()
    }

    /// Continues the preparation by at most `budget` units, and returns the units done: 0 when all
    /// is ready.
    pub fn step(&mut self, budget: u32) -> u32 {
        self.slot.0.step(self.key, &self.template, budget)
    }

    /// Whether only the holes are left.
    pub fn is_ready(&self) -> bool {
        self.slot.0.is_ready()
    }

    /// Leaves the packet in its slot without a handle. A [`Standby`](crate::Standby), which owns
    /// its slot, resumes it; in any other slot the packet is burnt.
    pub fn leave(self) {
        let mut slot = ManuallyDrop::new(self.slot);
        slot.0.leave();
    }

    /// Seals the packet with one value for each hole, in the template's order, with those of the
    /// associated data. The ciphertext stays in the slot; the preparation is wiped.
    ///
    /// An unfinished preparation costs at most the work of the plain cipher.
    #[inline(always)]
    #[allow(clippy::result_large_err, reason = "the error gives the packet back")]
    pub fn seal(self, values: &[&[u8]]) -> Result<Sealed<'a, S, CAP, BLOCKS>, MisfitError<Self>> {
        match self.fill(Apart(values)) {
            Ok(sealed) => Ok(sealed),
            Err(prepared) => Err(prepared.misfit(values)),
        }
    }

    /// As [`seal`](Self::seal), with the values one after the other in one string. This is the
    /// fastest way.
    #[inline(always)]
    #[allow(clippy::result_large_err, reason = "the error gives the packet back")]
    pub fn seal_joined(self, values: &[u8]) -> Result<Sealed<'a, S, CAP, BLOCKS>, MisfitError<Self>> {
        match self.fill(Joined(values)) {
            Ok(sealed) => Ok(sealed),
            Err(prepared) => Err(prepared.misjoined(values)),
        }
    }

    #[inline(always)]
    fn fill(self, values: impl Values) -> Result<Sealed<'a, S, CAP, BLOCKS>, Self> {
        let slot = &mut *self.slot.0;
        #[cfg(target_pointer_width = "64")]
        if let Some(value) = values.one_block()
            && slot.fill_one(value)
        {
            return Ok(Sealed { slot: self.slot });
        }
        if slot.is_ready() && slot.fill(self.key, values) {
            return Ok(Sealed { slot: self.slot });
        }
        self.fill_early(values)
    }

    #[cold]
    fn fill_early(self, values: impl Values) -> Result<Sealed<'a, S, CAP, BLOCKS>, Self> {
        let fits = self.slot.0.fill_early(self.key, &self.template, values);
        if fits { Ok(Sealed { slot: self.slot }) } else { Err(self) }
    }

    #[cold]
    fn misjoined(self, values: &[u8]) -> MisfitError<Self> {
        let holes = self.template.holes();
        let expected = holes.iter().map(|hole| hole.place().1.len()).sum();
        MisfitError { prepared: self, hole: holes.len(), expected, given: values.len() }
    }

    #[cold]
    fn misfit(self, values: &[&[u8]]) -> MisfitError<Self> {
        let holes = self.template.holes();
        let length = |i: usize| holes.get(i).map_or(0, |hole| hole.place().1.len());
        let fits =
            |i: &usize| *i < holes.len() && values.get(*i).is_some_and(|value| value.len() == length(*i));
        let hole = (0..).find(|i| !fits(i)).unwrap_or(holes.len());
        let given = values.get(hole).map_or(0, |value| value.len());
        MisfitError { prepared: self, hole, expected: length(hole), given }
    }

    /// Seals another packet with the nonce, without the preparation.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length, or are longer than the suite allows.
    pub fn seal_other(self, aad: &[u8], src: &[u8], dst: &mut [u8]) -> Tag<S::TagBytes> {
        assert_sealable::<S>(src.len());
        let Nonce(nonce) = self.slot.0.give_up();
        Tag(S::seal(&self.key.inner, &nonce, aad, Buffers::apart(src, dst)))
    }

    /// As [`seal_other`](Self::seal_other), in place.
    ///
    /// # Panics
    /// If the buffer is longer than the suite allows.
    pub fn seal_other_in_place(self, aad: &[u8], buffer: &mut [u8]) -> Tag<S::TagBytes> {
        assert_sealable::<S>(buffer.len());
        let Nonce(nonce) = self.slot.0.give_up();
        Tag(S::seal(&self.key.inner, &nonce, aad, Buffers::InPlace(buffer)))
    }
}

/// A sealed packet in its slot. Dropping it wipes the slot.
pub struct Sealed<'a, S: Sparse, const CAP: usize, const BLOCKS: usize> {
    slot: Held<'a, S, CAP, BLOCKS>,
}

impl<S: Sparse, const CAP: usize, const BLOCKS: usize> Sealed<'_, S, CAP, BLOCKS> {
    /// The ciphertext of the payload.
    pub fn ciphertext(&self) -> &[u8] {
        self.slot.0.ciphertext()
    }

    /// The tag.
    pub fn tag(&self) -> Tag<S::TagBytes> {
        Tag(*self.slot.0.tag())
    }

    /// The packet number.
    pub fn number(&self) -> u64 {
        self.slot.0.number()
    }
}

impl<S: Sparse, F: Fn(u64) -> S::NonceBytes> Opener<S, F> {
    /// Begins to prepare for packet `number`, which should be of a template, and replaces the
    /// slot's content.
    pub fn expect_template<'a, const CAP: usize, const BLOCKS: usize>(
        &'a self,
        number: u64,
        template: &Template<'a>,
        slot: &'a mut TemplateSlot<S, CAP, BLOCKS>,
    ) -> Result<ExpectedTemplate<'a, S, CAP, BLOCKS>, TemplateError> {
        slot.fit(template)?;
        slot.name(number, Nonce::assume_unique((self.nonce_of)(number)));
        Ok(ExpectedTemplate { key: &self.key, template: *template, slot: Held(slot) })
    }
}

/// An expected packet of a template. As with [`Expected`](crate::Expected), a refused packet gives
/// it back.
pub struct ExpectedTemplate<'a, S: Sparse, const CAP: usize, const BLOCKS: usize> {
    key: &'a Key<S>,
    template: Template<'a>,
    slot: Held<'a, S, CAP, BLOCKS>,
}

impl<S: Sparse, const CAP: usize, const BLOCKS: usize> ExpectedTemplate<'_, S, CAP, BLOCKS> {
    /// The number of the packet.
    pub fn number(&self) -> u64 {
        self.slot.0.number()
    }

    /// Continues the preparation by at most `budget` units, and returns the units done: 0 when all
    /// is ready.
    pub fn step(&mut self, budget: u32) -> u32 {
        self.slot.0.step(self.key, &self.template, budget)
    }

    /// Whether only the holes are left.
    pub fn is_ready(&self) -> bool {
        self.slot.0.is_ready()
    }

    /// Decrypts `src` into `dst` if the packet is authentic; otherwise `dst` is zeroed. A packet
    /// that is not of the template, or comes before the preparation is finished, is opened without
    /// it, with the same verdict.
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
        assert_eq!(src.len(), dst.len(), "source and destination must have the same length");
        let slot = &*self.slot.0;
        let expected = match slot.is_ready() && slot.fits(&self.template, aad, src) {
            true => slot.check(self.key, &self.template, aad, src, dst),
            false => None,
        };
        let verdict = match expected {
            Some(expected) => tag::check(&expected, tag).inspect_err(|_| wipe(dst)),
            None => self.key.open(*slot.nonce(), aad, src, dst, tag),
        };
        verdict.map_err(|_| RefusedError(self))
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
    ($($type:ident),*) => {$(
        impl<S: Sparse, const CAP: usize, const BLOCKS: usize> fmt::Debug for $type<'_, S, CAP, BLOCKS> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($type), "({}, ..)"), S::NAME)
            }
        }
    )*};
}

debug!(PreparedTemplate, ExpectedTemplate, Sealed);
