//! The memory in which a template's packet is prepared.

#[cfg(target_pointer_width = "64")]
use crate::holes::FillingOne;
use crate::{
    Key, Nonce, Sparse, Template, TemplateError,
    buffers::Buffers,
    bytes::{Bytes, wipe},
    holes::{Filling, Head, Reading, Shape, Spot, Stage, Stretch, Values},
    suites::engine::{UNIT, units},
};
use core::{fmt, ops::Range};
use zeroize::Zeroize;

/// Memory for one packet that is prepared for a template: up to `CAP` bytes of payload, and holes
/// that touch up to `BLOCKS` 16-byte blocks of associated data and payload (a block counts once for
/// each hole that touches it).
///
/// `CAP` is a multiple of 64.
#[cfg_attr(target_arch = "x86_64", repr(C, align(64)))]
pub struct TemplateSlot<S: Sparse, const CAP: usize, const BLOCKS: usize> {
    head: Head<S, BLOCKS>,
    /// The key stream, which becomes the ciphertext.
    body: [u8; CAP],
    once: S::OneTime,
    nonce: S::NonceBytes,
    number: u64,
    shape: Shape,
    /// Units of preparation done.
    done: usize,
    /// Whether the packet waits here without a handle.
    left: bool,
}

/// The next work of `step`.
enum Work {
    Once,
    Stream(Range<usize>),
    Absorb { aad: Range<usize>, payload: Range<usize> },
    Close,
    Weigh(usize),
    End,
}

impl<S: Sparse, const CAP: usize, const BLOCKS: usize> TemplateSlot<S, CAP, BLOCKS> {
    /// An empty slot.
    pub fn new() -> Self {
        const { assert!(CAP.is_multiple_of(UNIT), "the capacity of a slot is a multiple of 64") };
        Self {
            head: Head::new(),
            body: [0; CAP],
            once: S::OneTime::default(),
            nonce: S::NonceBytes::ZERO,
            number: 0,
            shape: Shape::default(),
            done: 0,
            left: false,
        }
    }

    /// Whether a template fits.
    pub(crate) fn takes(template: &Template<'_>) -> Result<(), TemplateError> {
        let (len, touched) = (template.payload().len(), template.pieces().count());
        if len > CAP {
            return Err(TemplateError::TooLong { len, capacity: CAP });
        }
        if touched > BLOCKS {
            return Err(TemplateError::TooManyBlocks { touched, capacity: BLOCKS });
        }
        Ok(())
    }

    /// Wipes the slot and gives it the template's shape, if it is large enough.
    #[inline(never)]
    pub(crate) fn fit(&mut self, template: &Template<'_>) -> Result<(), TemplateError> {
        let len = template.payload().len();
        if len > CAP {
            return Err(TemplateError::TooLong { len, capacity: CAP });
        }
        self.wipe();
        self.head
            .fit(template)
            .map_err(|touched| TemplateError::TooManyBlocks { touched, capacity: BLOCKS })?;
        self.shape = Shape { aad: template.aad().len(), payload: len };
        Ok(())
    }

    /// Gives the slot a packet to prepare, after `fit`.
    pub(crate) fn name(&mut self, number: u64, nonce: Nonce<S::NonceBytes>) {
        self.number = number;
        self.nonce = nonce.0;
        self.head.stage = Stage::Begun;
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn nonce(&self) -> &S::NonceBytes {
        &self.nonce
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.head.stage >= Stage::Ready && self.head.stage != Stage::Sealed
    }

    /// Keeps the packet here without a handle.
    pub(crate) fn leave(&mut self) {
        self.left = true;
    }

    /// Whether a packet was left here; clears the mark.
    #[inline]
    pub(crate) fn resume(&mut self) -> bool {
        core::mem::take(&mut self.left)
    }

    /// The sealed packet's ciphertext.
    pub(crate) fn ciphertext(&self) -> &[u8] {
        &self.body[..self.shape.payload]
    }

    /// The sealed packet's tag.
    pub(crate) fn tag(&self) -> &S::TagBytes {
        &self.head.tag
    }

    /// Does up to `budget` units of work for the slot's template, and returns the units done.
    pub(crate) fn step(&mut self, key: &Key<S>, template: &Template<'_>, budget: u32) -> u32 {
        let most = units(budget);
        let mut left = most;
        while left > 0 && self.head.stage == Stage::Begun {
            let units = self.work(key, template, left);
            self.done += units;
            left -= units;
        }
        (most - left) as u32
    }

    /// The next work, of at most `most` units.
    fn next(&self, most: usize) -> Work {
        let Some(at) = self.done.checked_sub(1) else { return Work::Once };
        let [aad, payload] = [self.shape.aad, self.shape.payload].map(|len| len.div_ceil(UNIT));
        let streams = if S::STREAMS { payload } else { 0 };
        let Some(at) = at.checked_sub(streams) else {
            return Work::Stream(at..streams.min(at.saturating_add(most)));
        };
        let Some(at) = at.checked_sub(aad + payload) else {
            let end = (aad + payload).min(at.saturating_add(most));
            return Work::Absorb {
                aad: at.min(aad)..end.min(aad),
                payload: at.saturating_sub(aad)..end.saturating_sub(aad),
            };
        };
        match at.checked_sub(1) {
            None => Work::Close,
            Some(piece) if piece < self.head.count as usize => Work::Weigh(piece),
            Some(_) => Work::End,
        }
    }

    /// The units of all remaining work.
    #[cfg(target_arch = "x86_64")]
    fn whole(&self) -> usize {
        let [aad, payload] = [self.shape.aad, self.shape.payload].map(|len| len.div_ceil(UNIT));
        let streams = if S::STREAMS { payload } else { 0 };
        1 + streams + aad + payload + 1 + self.head.count as usize
    }

    /// Does some work and returns its units. Out of line on CPUs with kernels: in the loop of
    /// `step` the compiler would load all round keys and masks before the first unit.
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn work(&mut self, key: &Key<S>, template: &Template<'_>, most: usize) -> usize {
        let key = &key.inner;
        let next = self.next(most);
        #[cfg(target_arch = "x86_64")]
        let whole = self.whole();
        let Head { sum, count, spots, .. } = &mut self.head;
        let (spots, shape) = (&mut spots[..BLOCKS.min(*count as usize)], &self.shape);
        match next {
            #[cfg(target_arch = "x86_64")]
            Work::Once
                if most >= whole
                    && S::prepare_whole(key, &self.nonce, sum, spots, template, &mut self.body) =>
            {
                self.head.ready(CAP);
                whole
            }
            Work::Once => {
                let at_once = cfg!(target_arch = "x86_64") && S::STREAMS;
                let streams = if at_once { shape.payload.div_ceil(UNIT).min(most - 1) } else { 0 };
                if streams > 0 {
                    let out = &mut self.body[..UNIT * streams];
                    S::prepare_with_stream(key, &self.nonce, &mut self.once, out, Some(shape.payload));
                } else {
                    S::prepare_once(key, &self.nonce, &mut self.once);
                }
                1 + streams
            }
            Work::Stream(units) => {
                let out = &mut self.body[UNIT * units.start..UNIT * units.end];
                S::prepare_stream(key, &self.nonce, units.start, out);
                units.len()
            }
            Work::Absorb { aad, payload } => {
                let units = aad.len() + payload.len();
                let part = |part: &[u8], units: &Range<usize>| {
                    part.len().min(UNIT * units.start)..part.len().min(UNIT * units.end)
                };
                let stretch = Stretch {
                    aad: &template.aad()[part(template.aad(), &aad)],
                    aad_from: UNIT / 16 * aad.start,
                    payload: &template.payload()[part(template.payload(), &payload)],
                    payload_from: UNIT / 16 * payload.start,
                    body: &mut self.body[UNIT * payload.start..UNIT * payload.end],
                };
                S::absorb(key, &self.once, sum, spots, stretch);
                units
            }
            Work::Close => {
                S::close(key, &self.once, sum, shape);
                // The key stream after the payload.
                let end = shape.payload.next_multiple_of(UNIT);
                if S::STREAMS && shape.payload < end {
                    self.body[shape.payload..end].fill(0);
                }
                self.done_if_weighed(0);
                1
            }
            Work::Weigh(index) => {
                let Spot { piece, weight } = &mut spots[index];
                let part = if piece.in_payload() { template.payload() } else { template.aad() };
                let block = piece.around(part);
                *weight = S::weigh(key, &self.once, sum, shape, piece, block, &mut self.body);
                self.done_if_weighed(index + 1);
                1
            }
            Work::End => 0,
        }
    }

    /// Wipes `once` when all pieces have their weights.
    fn done_if_weighed(&mut self, weighed: usize) {
        if weighed == self.head.count as usize {
            self.once.zeroize();
            self.head.ready(CAP);
        }
    }

    /// Seals the prepared packet with these values, if they fit.
    #[inline(always)]
    pub(crate) fn fill(&mut self, key: &Key<S>, values: impl Values) -> bool {
        let filling = Filling::new(&mut self.head, values, &mut self.body);
        let fits = filling.is_some();
        if let Some(filling) = filling {
            S::fill(&key.inner, filling);
            self.head.stage = Stage::Sealed;
        }
        fits
    }

    /// Seals the prepared packet with one value that is a whole block, if its only hole is one.
    #[inline(always)]
    #[cfg(target_pointer_width = "64")]
    pub(crate) fn fill_one(&mut self, value: &[u8; 16]) -> bool {
        let filled = FillingOne::new(&mut self.head, value, &mut self.body).is_some_and(S::fill_one);
        if filled {
            self.head.stage = Stage::Sealed;
        }
        filled
    }

    /// As `fill`, for an unfinished preparation: finishes it, or seals from the start if that is
    /// shorter.
    #[cold]
    pub(crate) fn fill_early(&mut self, key: &Key<S>, template: &Template<'_>, values: impl Values) -> bool {
        let mut copy = [0; 256];
        let begun = !matches!(self.next(1), Work::Close | Work::Weigh(_) | Work::End);
        if self.is_ready() || !begun || self.shape.aad > copy.len() {
            self.step(key, template, u32::MAX);
            return self.fill(key, values);
        }
        if Filling::new(&mut self.head, values, &mut self.body).is_none() {
            return false;
        }
        let aad = &mut copy[..self.shape.aad];
        aad.copy_from_slice(template.aad());
        let payload = &mut self.body[..self.shape.payload];
        payload.copy_from_slice(template.payload());
        for piece in self.head.pieces() {
            let value = piece.block_of(values.bytes(piece));
            piece.put(value, if piece.in_payload() { &mut *payload } else { &mut *aad });
        }
        self.head.tag = S::seal(&key.inner, &self.nonce, aad, Buffers::InPlace(payload));
        self.head.wipe();
        self.once.zeroize();
        wipe(&mut self.body[self.shape.payload..self.shape.payload.next_multiple_of(UNIT)]);
        self.head.stage = Stage::Sealed;
        true
    }

    /// Whether a packet is of the template: its lengths, and all bytes outside the holes. Compares
    /// in constant time.
    pub(crate) fn fits(&self, template: &Template<'_>, aad: &[u8], src: &[u8]) -> bool {
        if aad.len() != self.shape.aad || src.len() != self.shape.payload {
            return false;
        }
        let mut difference = 0;
        for (in_payload, part, predicted) in
            [(false, aad, template.aad()), (true, src, &self.body[..src.len()])]
        {
            let mut at = 0;
            for piece in self.head.pieces().filter(|piece| piece.in_payload() == in_payload) {
                let (start, end) = if S::BY_BLOCK {
                    (piece.at(), part.len().min(piece.at() + 16))
                } else {
                    (piece.at() + piece.start(), piece.at() + piece.start() + piece.len())
                };
                if start > at {
                    difference |= differences(&part[at..start], &predicted[at..start]);
                }
                at = at.max(end);
            }
            difference |= differences(&part[at..], &predicted[at..]);
        }
        core::hint::black_box(difference) == 0
    }

    /// Decrypts a packet that `fits` and returns its expected tag.
    #[inline]
    pub(crate) fn check(
        &self,
        key: &Key<S>,
        template: &Template<'_>,
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
    ) -> Option<S::TagBytes> {
        dst.copy_from_slice(template.payload());
        let reading = Reading::new(&self.head, aad, src, &self.body, dst)?;
        Some(S::check(&key.inner, reading))
    }

    /// Wipes the preparation, and returns the nonce for another packet.
    pub(crate) fn give_up(&mut self) -> Nonce<S::NonceBytes> {
        self.wipe();
        Nonce::assume_unique(self.nonce)
    }

    /// Wipes the packet and its preparation.
    pub(crate) fn wipe(&mut self) {
        self.left = false;
        if self.head.stage == Stage::Empty {
            return;
        }
        if self.head.stage != Stage::Sealed {
            self.head.wipe();
            self.once.zeroize();
        }
        wipe(&mut self.body[..self.shape.payload.next_multiple_of(UNIT)]);
        self.done = 0;
        self.head.stage = Stage::Empty;
    }
}

/// The OR of the differing bits of two equally long strings.
fn differences(a: &[u8], b: &[u8]) -> u64 {
    let (a_words, a_rest) = a.as_chunks::<8>();
    let (b_words, b_rest) = b.as_chunks::<8>();
    let words = a_words.iter().zip(b_words);
    let joined = words.fold(0, |sum, (a, b)| sum | (u64::from_ne_bytes(*a) ^ u64::from_ne_bytes(*b)));
    a_rest.iter().zip(b_rest).fold(joined, |sum, (a, b)| sum | u64::from(a ^ b))
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

impl<S: Sparse, const CAP: usize, const BLOCKS: usize> fmt::Debug for TemplateSlot<S, CAP, BLOCKS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TemplateSlot({}, ..)", S::NAME)
    }
}
