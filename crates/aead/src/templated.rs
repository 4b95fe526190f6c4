//! Packets that are prepared for a template: all is done but what lies in the holes.
//!
//! The predicted packet has zeros in its holes. Its ciphertext there is the bare cipherstream, and its MAC is a
//! polynomial, so a value costs an XOR and, for each block it touches, one multiplication by the power that belongs to
//! the block's place, which is kept ready in the slot. The time depends on where the holes are, and not on the values.

use crate::{
    Key, Nonce, NonceSequence, Opener, Prepared, Refused, Sealer, Slot, Sparse, Tag, Template, TemplateError,
    engine::{UNIT, wipe},
    prepare_error::PrepareError,
    tag,
};
use core::{array, fmt};
use zeroize::Zeroize;

/// Memory for one packet that is prepared for a template: up to `CAP` bytes of payload, and holes that touch up to
/// `BLOCKS` of the 16-byte blocks of associated data and payload.
pub struct TemplateSlot<S: Sparse, const CAP: usize, const BLOCKS: usize> {
    slot: Slot<S, CAP>,
    weights: [S::Weight; BLOCKS],
    sum: S::Sum,
    /// The blocks that holes touch: whether in the payload, and which.
    touched: [(bool, usize); BLOCKS],
    count: usize,
    /// Blocks of the MAC that are done, and weights.
    absorbed: usize,
    weighed: usize,
}

impl<S: Sparse, const CAP: usize, const BLOCKS: usize> TemplateSlot<S, CAP, BLOCKS> {
    /// An empty slot.
    pub fn new() -> Self {
        Self {
            slot: Slot::new(),
            weights: [S::Weight::default(); BLOCKS],
            sum: S::Sum::default(),
            touched: [(false, 0); BLOCKS],
            count: 0,
            absorbed: 0,
            weighed: 0,
        }
    }

    /// Makes the slot ready for a template, if it is large enough.
    fn fit(&mut self, template: &Template<'_>) -> Result<(), TemplateError> {
        let len = template.payload().len();
        if len > CAP {
            return Err(TemplateError::TooLong { len, capacity: CAP });
        }
        self.wipe();
        let mut touched = 0;
        for (index, hole) in template.holes().iter().enumerate() {
            let (part, range) = hole.place();
            for block in range.start / 16..range.end.div_ceil(16) {
                let earlier = template.holes()[..index].iter().any(|other| {
                    let (other_part, other) = other.place();
                    other_part == part && other.start / 16 <= block && block < other.end.div_ceil(16)
                });
                if !earlier {
                    if let Some(place) = self.touched.get_mut(touched) {
                        *place = (part, block);
                    }
                    touched += 1;
                }
            }
        }
        if touched > BLOCKS {
            return Err(TemplateError::TooManyBlocks { touched, capacity: BLOCKS });
        }
        self.count = touched;
        Ok(())
    }

    /// Blocks of the MAC: associated data, payload, and the lengths.
    fn blocks(template: &Template<'_>) -> (usize, usize) {
        (template.aad().len().div_ceil(16), template.payload().len().div_ceil(16))
    }

    fn is_ready(&self, template: &Template<'_>) -> bool {
        let (aad, payload) = Self::blocks(template);
        self.absorbed == aad + payload + 1 && self.weighed == self.count
    }

    fn step(&mut self, key: &Key<S>, template: &Template<'_>, budget: u32) -> u32 {
        let mut left = budget;
        left -= self.slot.step_to(key, left, template.payload().len().next_multiple_of(UNIT));
        let (aad, payload) = Self::blocks(template);
        while left > 0 && self.absorbed < aad + payload + 1 {
            for _ in 0..(UNIT / 16).min(aad + payload + 1 - self.absorbed) {
                self.absorb(key, template);
            }
            left -= 1;
        }
        while left > 0 && self.weighed < self.count {
            let (in_payload, block) = self.touched[self.weighed];
            let before = if in_payload { aad + block } else { block };
            self.weights[self.weighed] = S::weigh(&key.inner, self.slot.once(), aad + payload + 1 - before);
            self.weighed += 1;
            left -= 1;
        }
        budget - left
    }

    /// Adds the next block of the predicted packet to the MAC, and encrypts it if it is of the payload.
    fn absorb(&mut self, key: &Key<S>, template: &Template<'_>) {
        let (aad, payload) = Self::blocks(template);
        let mut touched = false;
        let block = if self.absorbed == aad + payload {
            S::length_block(template.aad().len(), template.payload().len())
        } else {
            let in_payload = self.absorbed >= aad;
            let index = if in_payload { self.absorbed - aad } else { self.absorbed };
            touched = self.touched[..self.count].contains(&(in_payload, index));
            let mut block = template.predicted(in_payload, 16 * index);
            if in_payload {
                let len = (template.payload().len() - 16 * index).min(16);
                let stream = &mut self.slot.stream_mut()[16 * index..][..len];
                for (byte, predicted) in stream.iter_mut().zip(&mut block) {
                    *byte ^= *predicted;
                    *predicted = *byte;
                }
            }
            block
        };
        S::absorb(&key.inner, self.slot.once(), &mut self.sum, &block, touched);
        self.absorbed += 1;
    }

    /// The tag of the packet whose values (the difference from zero) are in `deltas`, block by block, and whose blocks
    /// are in `blocks`.
    fn settle(&self, key: &Key<S>, deltas: &[[u8; 16]; BLOCKS], blocks: &[[u8; 16]; BLOCKS]) -> [u8; 16] {
        let n = self.count;
        S::settle(&key.inner, self.slot.once(), &self.sum, &self.weights[..n], &deltas[..n], &blocks[..n])
    }

    /// The touched blocks of the packet as it goes on the wire.
    fn gather(&self, aad: impl Fn(usize) -> [u8; 16], ciphertext: &[u8]) -> [[u8; 16]; BLOCKS] {
        if !S::SETTLES_BLOCKS {
            return [[0; 16]; BLOCKS];
        }
        array::from_fn(|i| match self.touched[i] {
            _ if i >= self.count => [0; 16],
            (false, block) => aad(block),
            (true, block) => {
                let bytes = &ciphertext[16 * block..ciphertext.len().min(16 * block + 16)];
                let mut whole = [0; 16];
                whole[..bytes.len()].copy_from_slice(bytes);
                whole
            }
        })
    }

    /// Puts the bytes of a hole into the blocks it touches.
    fn spread(&self, deltas: &mut [[u8; 16]; BLOCKS], in_payload: bool, start: usize, value: &[u8]) {
        let mut at = start;
        let mut rest = value;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(16 - at % 16));
            if let Some(i) =
                self.touched[..self.count].iter().position(|place| *place == (in_payload, at / 16))
            {
                deltas[i][at % 16..][..now.len()].copy_from_slice(now);
            }
            at += now.len();
            rest = later;
        }
    }

    fn wipe(&mut self) {
        self.slot.wipe();
        self.weights.iter_mut().for_each(Zeroize::zeroize);
        self.sum.zeroize();
        (self.count, self.absorbed, self.weighed) = (0, 0, 0);
    }
}

impl<S: Sparse, const CAP: usize, const BLOCKS: usize> Default for TemplateSlot<S, CAP, BLOCKS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Sparse, const CAP: usize, const BLOCKS: usize> Drop for TemplateSlot<S, CAP, BLOCKS> {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl<S: Sparse, N: NonceSequence<S::NonceBytes>> Sealer<S, N> {
    /// Takes the next nonce and begins to prepare its packet for a template, in place of what the slot had.
    pub fn prepare_template<'a, const CAP: usize, const BLOCKS: usize>(
        &'a mut self,
        template: &Template<'a>,
        slot: &'a mut TemplateSlot<S, CAP, BLOCKS>,
    ) -> Result<PreparedTemplate<'a, S, CAP, BLOCKS>, PrepareError<N::Error>> {
        slot.fit(template).map_err(PrepareError::Template)?;
        let (number, nonce) = self.sequence.next().map_err(PrepareError::Sequence)?;
        slot.slot.name(number, nonce);
        Ok(PreparedTemplate { key: &self.key, template: *template, slot: Held(slot) })
    }
}

/// A packet to be, of which all but the holes is known. As [`Prepared`], it owns its nonce.
pub struct PreparedTemplate<'a, S: Sparse, const CAP: usize, const BLOCKS: usize> {
    key: &'a Key<S>,
    template: Template<'a>,
    slot: Held<'a, S, CAP, BLOCKS>,
}

/// A slot in use; it is wiped when whoever holds it is dropped.
struct Held<'a, S: Sparse, const CAP: usize, const BLOCKS: usize>(&'a mut TemplateSlot<S, CAP, BLOCKS>);

impl<S: Sparse, const CAP: usize, const BLOCKS: usize> Drop for Held<'_, S, CAP, BLOCKS> {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

/// The values given do not fit the holes. Nothing was spent: the packet is given back.
#[derive(Debug)]
pub struct Misfit<P> {
    /// What was to be sealed.
    pub prepared: P,
    /// The first hole that has no value or one of another length, or the number of holes if there are more values.
    pub hole: usize,
    /// The bytes of the hole.
    pub expected: usize,
    /// The bytes that were given for it.
    pub given: usize,
}

impl<P> fmt::Display for Misfit<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hole {} has {} bytes, but {} were given", self.hole, self.expected, self.given)
    }
}

impl<'a, S: Sparse, const CAP: usize, const BLOCKS: usize> PreparedTemplate<'a, S, CAP, BLOCKS> {
    /// The packet number that the nonce was given for.
    pub fn number(&self) -> u64 {
        self.slot.0.slot.number()
    }

    /// Prepares on, for at most `budget` units, and returns the units done: 0 when all is ready.
    pub fn step(&mut self, budget: u32) -> u32 {
        self.slot.0.step(self.key, &self.template, budget)
    }

    /// Whether only the holes are left to do.
    pub fn is_ready(&self) -> bool {
        self.slot.0.is_ready(&self.template)
    }

    /// Seals the packet with these values, one for each hole in the order of the template, those of the associated
    /// data included. The ciphertext lies in the slot, and nothing else of the preparation does any more.
    ///
    /// What is not prepared yet is done first.
    #[allow(clippy::result_large_err)]
    pub fn seal(mut self, values: &[&[u8]]) -> Result<Sealed<'a, S, CAP, BLOCKS>, Misfit<Self>> {
        let holes = self.template.holes();
        let length = |i: usize| holes.get(i).map_or(0, |hole| hole.place().1.len());
        let misfit = (0..holes.len().max(values.len()))
            .find(|&i| i >= holes.len() || values.get(i).is_none_or(|value| value.len() != length(i)));
        if let Some(hole) = misfit {
            let given = values.get(hole).map_or(0, |value| value.len());
            return Err(Misfit { prepared: self, hole, expected: length(hole), given });
        }
        self.step(u32::MAX);
        let Self { key, template, slot: held } = self;
        let slot = &mut *held.0;
        let mut deltas = [[0; 16]; BLOCKS];
        for (hole, value) in holes.iter().zip(values) {
            let (in_payload, range) = hole.place();
            slot.spread(&mut deltas, in_payload, range.start, value);
            if in_payload {
                for (byte, plain) in slot.slot.stream_mut()[range].iter_mut().zip(*value) {
                    *byte ^= plain;
                }
            }
        }
        let len = template.payload().len();
        let blocks = slot.gather(
            |block| {
                let mut bytes = template.predicted(false, 16 * block);
                let place = slot.touched[..slot.count].iter().position(|place| *place == (false, block));
                for (byte, delta) in bytes.iter_mut().zip(place.map_or([0; 16], |i| deltas[i])) {
                    *byte ^= delta;
                }
                bytes
            },
            &slot.slot.stream()[..len],
        );
        let tag = Tag(slot.settle(key, &deltas, &blocks));
        wipe(deltas.as_flattened_mut());
        slot.slot.keep_only(len);
        Ok(Sealed { slot: held, len, tag })
    }

    /// Seals another packet with the nonce, the ordinary way.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length.
    pub fn seal_other(self, aad: &[u8], src: &[u8], dst: &mut [u8]) -> Tag {
        let slot = &mut self.slot.0.slot;
        slot.forget_preparation();
        Prepared::new(self.key, slot).seal(aad, src, dst)
    }
}

/// A sealed packet that lies in its slot. Dropping it wipes the slot.
pub struct Sealed<'a, S: Sparse, const CAP: usize, const BLOCKS: usize> {
    slot: Held<'a, S, CAP, BLOCKS>,
    len: usize,
    tag: Tag,
}

impl<S: Sparse, const CAP: usize, const BLOCKS: usize> Sealed<'_, S, CAP, BLOCKS> {
    /// The ciphertext of the payload.
    pub fn ciphertext(&self) -> &[u8] {
        &self.slot.0.slot.stream()[..self.len]
    }

    /// The tag.
    pub const fn tag(&self) -> Tag {
        self.tag
    }

    /// The packet number.
    pub fn number(&self) -> u64 {
        self.slot.0.slot.number()
    }
}

impl<S: Sparse, F: Fn(u64) -> S::NonceBytes> Opener<S, F> {
    /// Begins to prepare for packet `number`, which is expected to be of a template, in place of what the slot had.
    pub fn expect_template<'a, const CAP: usize, const BLOCKS: usize>(
        &'a self,
        number: u64,
        template: &Template<'a>,
        slot: &'a mut TemplateSlot<S, CAP, BLOCKS>,
    ) -> Result<ExpectedTemplate<'a, S, CAP, BLOCKS>, TemplateError> {
        slot.fit(template)?;
        slot.slot.name(number, Nonce::assume_unique((self.nonce_of)(number)));
        Ok(ExpectedTemplate { key: &self.key, template: *template, slot: Held(slot) })
    }
}

/// A packet that is expected to be of a template. As with [`Expected`](crate::Expected), what is refused gives it back.
pub struct ExpectedTemplate<'a, S: Sparse, const CAP: usize, const BLOCKS: usize> {
    key: &'a Key<S>,
    template: Template<'a>,
    slot: Held<'a, S, CAP, BLOCKS>,
}

impl<S: Sparse, const CAP: usize, const BLOCKS: usize> ExpectedTemplate<'_, S, CAP, BLOCKS> {
    /// The number of the packet.
    pub fn number(&self) -> u64 {
        self.slot.0.slot.number()
    }

    /// Prepares on, for at most `budget` units, and returns the units done: 0 when all is ready.
    pub fn step(&mut self, budget: u32) -> u32 {
        self.slot.0.step(self.key, &self.template, budget)
    }

    /// Whether only the holes are left to do.
    pub fn is_ready(&self) -> bool {
        self.slot.0.is_ready(&self.template)
    }

    /// Decrypts `src` into `dst` if the packet is authentic; otherwise `dst` is zeroed. A packet that is not of the
    /// template, or comes before the preparation is ready, is opened the ordinary way, so the verdict is the same.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length.
    pub fn open(self, aad: &[u8], src: &[u8], dst: &mut [u8], tag: &[u8; 16]) -> Result<(), Refused<Self>> {
        assert_eq!(src.len(), dst.len(), "source and destination must have the same length");
        if !self.is_ready() || !self.fits(aad, src) {
            return match self.key.open(*self.slot.0.slot.nonce(), aad, src, dst, tag) {
                Ok(()) => Ok(()),
                Err(_) => Err(Refused(self)),
            };
        }
        let slot = &*self.slot.0;
        let padded = |bytes: &[u8]| {
            let mut block = [0; 16];
            block[..bytes.len()].copy_from_slice(bytes);
            block
        };
        let blocks = slot.gather(|block| padded(&aad[16 * block..aad.len().min(16 * block + 16)]), src);
        dst.copy_from_slice(self.template.payload());
        let mut deltas = [[0; 16]; BLOCKS];
        for hole in self.template.holes() {
            let (in_payload, range) = hole.place();
            if in_payload {
                let pads = &slot.slot.stream()[range.clone()];
                for ((plain, byte), pad) in dst[range.clone()].iter_mut().zip(&src[range.clone()]).zip(pads) {
                    *plain = byte ^ pad;
                }
                slot.spread(&mut deltas, true, range.start, &dst[range.clone()]);
            } else {
                slot.spread(&mut deltas, false, range.start, &aad[range.clone()]);
            }
        }
        let expected = slot.settle(self.key, &deltas, &blocks);
        wipe(deltas.as_flattened_mut());
        if tag::check(&expected, tag).is_err() {
            wipe(dst);
            return Err(Refused(self));
        }
        Ok(())
    }

    /// Whether the packet is of the template: the lengths are, and all bytes outside the holes. Takes the same time
    /// wherever the packet differs.
    fn fits(&self, aad: &[u8], src: &[u8]) -> bool {
        if aad.len() != self.template.aad().len() || src.len() != self.template.payload().len() {
            return false;
        }
        let stream = self.slot.0.slot.stream();
        let differ = |a: &[u8], b: &[u8]| a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b));
        let mut difference = 0;
        for (in_payload, part, predicted) in [(false, aad, self.template.aad()), (true, src, stream)] {
            // From hole to hole; the holes lie in any order.
            let mut at = 0;
            while at < part.len() {
                let within = |at: usize| {
                    self.template.holes().iter().map(|hole| hole.place()).find_map(|(there, range)| {
                        (there == in_payload && range.contains(&at)).then_some(range.end)
                    })
                };
                if let Some(end) = within(at) {
                    at = end;
                    continue;
                }
                let next = self.template.holes().iter().map(|hole| hole.place());
                let next = next.filter(|(there, range)| *there == in_payload && range.start > at);
                let end = next.map(|(_, range)| range.start).min().unwrap_or(part.len());
                difference |= differ(&part[at..end], &predicted[at..end]);
                at = end;
            }
        }
        core::hint::black_box(difference) == 0
    }
}

macro_rules! debug {
    ($($type:ident $(<$life:lifetime>)?),*) => {$(
        impl<S: Sparse, const CAP: usize, const BLOCKS: usize> fmt::Debug for $type<$($life,)? S, CAP, BLOCKS> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($type), "({}, ..)"), S::NAME)
            }
        }
    )*};
}

debug!(TemplateSlot, PreparedTemplate<'_>, ExpectedTemplate<'_>, Sealed<'_>);
