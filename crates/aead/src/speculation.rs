//! Opening a packet at the cost of what differs from a prediction.
//!
//! Where a receiver can guess a whole packet, but not where it will differ, there are no holes to declare. The guess is
//! encrypted and authenticated beforehand; the packet that comes is compared with it block by block, and each block that
//! differs costs one multiplication. **So the time tells how many blocks differ, to whoever can measure it**, which the
//! forms with declared holes do not. It tells nothing of the key.

use crate::{
    Key, Opener, Refused, Suite, TemplateError,
    buffers::Buffers,
    engine::{UNIT, wipe},
    key::verdict,
    sparse::{Shape, SparseEngine, Stretch},
};
use core::fmt;
use zeroize::Zeroize;

/// Blocks that may differ. A packet with more is opened the ordinary way, which is faster then.
const MOST: usize = 12;

/// A suite whose MAC is a polynomial in the packet's blocks.
pub trait Polynomial: SparseEngine<Sum: Clone> {
    /// Makes the MAC that of a packet in which the block at this distance from the end is another.
    fn exchange(
        key: &Self::Key,
        once: &Self::OneTime,
        sum: &mut Self::Sum,
        distance: usize,
        before: &[u8; 16],
        after: &[u8; 16],
    );

    /// The tag of a closed MAC.
    fn tag_of(sum: &Self::Sum) -> Self::TagBytes;
}

/// A suite that can open by [speculation](Opener::speculate): its MAC is a polynomial in the packet's blocks.
#[allow(private_bounds)]
pub trait Speculative: Suite + Polynomial {}

impl<S: Suite + Polynomial> Speculative for S {}

/// Memory for one packet that is guessed: up to `CAP` bytes of payload, a multiple of 64.
#[cfg_attr(target_arch = "x86_64", repr(C, align(64)))]
pub struct SpeculationSlot<S: Speculative, const CAP: usize> {
    /// The cipherstream, which becomes the ciphertext that is guessed.
    body: [u8; CAP],
    sum: S::Sum,
    once: S::OneTime,
    /// Units that are done, and bytes of `body` that hold something.
    done: usize,
    held: usize,
}

impl<S: Speculative, const CAP: usize> SpeculationSlot<S, CAP> {
    /// An empty slot.
    pub fn new() -> Self {
        const { assert!(CAP.is_multiple_of(UNIT), "the capacity of a slot is a multiple of 64") };
        Self { body: [0; CAP], sum: S::Sum::default(), once: S::OneTime::default(), done: 0, held: 0 }
    }

    fn wipe(&mut self) {
        if self.done > 0 {
            wipe(&mut self.body[..self.held]);
            self.sum.zeroize();
            self.once.zeroize();
            (self.done, self.held) = (0, 0);
        }
    }
}

impl<S: Speculative, const CAP: usize> Default for SpeculationSlot<S, CAP> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Speculative, const CAP: usize> Drop for SpeculationSlot<S, CAP> {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// A packet that is guessed. As with [`Expected`](crate::Expected), what is refused gives it back, and dropping it wipes
/// the slot.
pub struct Speculation<'a, S: Speculative, const CAP: usize> {
    key: &'a Key<S>,
    number: u64,
    nonce: S::NonceBytes,
    aad: &'a [u8],
    payload: &'a [u8],
    slot: &'a mut SpeculationSlot<S, CAP>,
}

impl<S: Speculative, F: Fn(u64) -> S::NonceBytes> Opener<S, F> {
    /// Begins to prepare for packet `number`, which is guessed to have this associated data and this payload, in place
    /// of what the slot had.
    ///
    /// **The time to open the packet tells how much of it was guessed wrongly.** Where that is a secret, declare holes
    /// and use [`expect_template`](Self::expect_template).
    pub fn speculate<'a, const CAP: usize>(
        &'a self,
        number: u64,
        aad: &'a [u8],
        payload: &'a [u8],
        slot: &'a mut SpeculationSlot<S, CAP>,
    ) -> Result<Speculation<'a, S, CAP>, TemplateError> {
        if payload.len() > CAP {
            return Err(TemplateError::TooLong { len: payload.len(), capacity: CAP });
        }
        slot.wipe();
        let nonce = (self.nonce_of)(number);
        Ok(Speculation { key: &self.key, number, nonce, aad, payload, slot })
    }
}

impl<S: Speculative, const CAP: usize> Speculation<'_, S, CAP> {
    /// The number of the packet.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Units of all: the nonce's part, cipherstream, associated data, payload, and the end of the MAC.
    fn units(&self) -> [usize; 4] {
        let streams = if S::STREAMS { self.payload.len().div_ceil(UNIT) } else { 0 };
        let aad = self.aad.len().div_ceil(UNIT);
        let ends = [1, streams, aad, self.payload.len().div_ceil(UNIT)];
        let mut sum = 0;
        ends.map(|units| {
            sum += units;
            sum
        })
    }

    /// Whether only what differs is left to do.
    pub fn is_ready(&self) -> bool {
        self.slot.done == self.units()[3] + 1
    }

    /// Prepares on, for at most `budget` units of about 64 bytes, and returns the units done: 0 when all is ready.
    pub fn step(&mut self, budget: u32) -> u32 {
        let [once, streams, aad, payload] = self.units();
        let key = &self.key.inner;
        let slot = &mut *self.slot;
        let mut left = budget;
        while left > 0 && slot.done <= payload {
            let at = slot.done;
            if at < once {
                S::prepare_once(key, &self.nonce, &mut slot.once);
            } else if at < streams {
                let unit = at - once;
                S::prepare_stream(key, &self.nonce, unit, &mut slot.body[UNIT * unit..UNIT * (unit + 1)]);
                slot.held = UNIT * (unit + 1);
            } else if at < payload {
                let part = |part: &mut &[u8], unit: usize| {
                    let bytes: &[u8] = part;
                    *part = &bytes[bytes.len().min(UNIT * unit)..bytes.len().min(UNIT * (unit + 1))];
                };
                let (mut aad_part, mut payload_part) = (self.aad, self.payload);
                let (mut aad_from, mut payload_from, mut body) = (0, 0, 0..0);
                if at < aad {
                    let unit = at - streams;
                    part(&mut aad_part, unit);
                    payload_part = &[];
                    aad_from = UNIT / 16 * unit;
                } else {
                    let unit = at - aad;
                    part(&mut payload_part, unit);
                    aad_part = &[];
                    payload_from = UNIT / 16 * unit;
                    body = UNIT * unit..UNIT * (unit + 1);
                    slot.held = slot.held.max(body.end);
                }
                let stretch = Stretch {
                    aad: aad_part,
                    aad_from,
                    payload: payload_part,
                    payload_from,
                    body: &mut slot.body[body],
                };
                S::absorb(key, &slot.once, &mut slot.sum, &[], stretch);
            } else {
                let shape = Shape { aad: self.aad.len(), payload: self.payload.len() };
                S::close(key, &slot.once, &mut slot.sum, &shape);
            }
            slot.done += 1;
            left -= 1;
        }
        budget - left
    }

    /// Decrypts `src` into `dst` if the packet is authentic; otherwise `dst` is zeroed. A packet of other lengths, one
    /// that was guessed badly, or one that comes before the preparation is ready, is opened the ordinary way, so the
    /// verdict is the same.
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
        assert_eq!(src.len(), dst.len(), "source and destination must have the same length");
        let opened = match self.expected(aad, src, dst) {
            Some(expected) => verdict(&expected, tag, Buffers::InPlace(dst)),
            None => self.key.open_buffers(&self.nonce, aad, Buffers::apart(src, dst), tag),
        };
        if opened.is_ok() { Ok(()) } else { Err(Refused(self)) }
    }

    /// The tag that the packet should have. `None` if that is better found the ordinary way.
    fn expected(&self, aad: &[u8], src: &[u8], dst: &mut [u8]) -> Option<S::TagBytes> {
        if !self.is_ready() || aad.len() != self.aad.len() || src.len() != self.payload.len() {
            return None;
        }
        let guessed = &self.slot.body[..src.len()];
        let (aad_blocks, blocks) = (aad.len().div_ceil(16), src.len().div_ceil(16));
        dst.copy_from_slice(self.payload);
        let mut sum = self.slot.sum.clone();
        let mut differing = 0;
        let parts = [(aad, self.aad, aad_blocks + blocks + 1), (src, guessed, blocks + 1)];
        for (part, (came, before, distance)) in parts.into_iter().enumerate() {
            for (i, (after, before)) in came.chunks(16).zip(before.chunks(16)).enumerate() {
                if after == before {
                    continue;
                }
                differing += 1;
                if differing > MOST {
                    sum.zeroize();
                    return None;
                }
                let (before, after) = (padded(before), padded(after));
                S::exchange(&self.key.inner, &self.slot.once, &mut sum, distance - i, &before, &after);
                if part == 1 {
                    for (plain, (a, b)) in dst[16 * i..].iter_mut().zip(before.iter().zip(&after)) {
                        *plain ^= a ^ b;
                    }
                }
            }
        }
        let tag = S::tag_of(&sum);
        sum.zeroize();
        Some(tag)
    }
}

fn padded(bytes: &[u8]) -> [u8; 16] {
    let mut block = [0; 16];
    block[..bytes.len()].copy_from_slice(bytes);
    block
}

impl<S: Speculative, const CAP: usize> Drop for Speculation<'_, S, CAP> {
    fn drop(&mut self) {
        self.slot.wipe();
    }
}

impl<S: Speculative, const CAP: usize> fmt::Debug for SpeculationSlot<S, CAP> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpeculationSlot({}, ..)", S::NAME)
    }
}

impl<S: Speculative, const CAP: usize> fmt::Debug for Speculation<'_, S, CAP> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Speculation({}, number {})", S::NAME, self.number)
    }
}
