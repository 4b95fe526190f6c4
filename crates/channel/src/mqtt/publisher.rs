//! The sending side: one publisher, its key, and the numbers that it may use.

use alloc::{boxed::Box, vec::Vec};
use core::fmt;

use antedate_aead::{
    Aes128Gcm, Aes128Ocb3, Aes256Gcm, ChaCha20Poly1305, CoseCcm16_64_128, FrontSlot, InvalidKeyLength, Key,
    Nonce, NonceSequence, Sealer, Slot, TemplateSlot,
};
use zeroize::Zeroizing;

use super::cipher::Blocks;
use super::derive::{Material, nonce};
use super::envelope::Head;
use super::layout::Layout;
use super::{Algorithm, topic};

/// Where sequence numbers come from. A number that was given is never given again, in no run of the program: that is what keeps
/// nonces apart.
pub trait Numbers {
    /// Why there is none.
    type Error;

    /// The next number.
    ///
    /// # Errors
    /// When there is none: then nothing is sealed.
    fn take(&mut self) -> Result<u64, Self::Error>;
}

impl<N: Numbers> Numbers for &mut N {
    type Error = N::Error;

    fn take(&mut self) -> Result<u64, N::Error> {
        (**self).take()
    }
}

/// Numbers that were reserved before: whoever made it has written the upper bound to where it survives a crash.
#[derive(Debug)]
pub struct Reserved {
    next: u64,
    limit: u64,
}

/// The reservation is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoNumber;

impl fmt::Display for NoNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no sequence number is reserved")
    }
}

impl core::error::Error for NoNumber {}

impl Reserved {
    /// The numbers from `next` on and below `limit`. Zero is no number.
    pub const fn new(next: u64, limit: u64) -> Self {
        Self { next: if next == 0 { 1 } else { next }, limit }
    }

    /// The next one.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// How many are left.
    pub const fn left(&self) -> u64 {
        self.limit.saturating_sub(self.next)
    }

    /// Adds the numbers up to a higher limit, once they are reserved. A lower one changes nothing.
    pub const fn raise(&mut self, limit: u64) {
        if limit > self.limit {
            self.limit = limit;
        }
    }
}

impl Numbers for Reserved {
    type Error = NoNumber;

    fn take(&mut self) -> Result<u64, NoNumber> {
        if self.next >= self.limit {
            return Err(NoNumber);
        }
        self.next += 1;
        Ok(self.next - 1)
    }
}

/// Why a payload was not sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishError<E> {
    /// There is no sequence number.
    Number(E),
    /// The topic is none to publish on.
    Topic(topic::Invalid),
    /// The payload is longer than the algorithm allows.
    TooLong {
        /// Bytes of the payload.
        len: usize,
        /// Bytes that are allowed.
        max: usize,
    },
}

impl<E: fmt::Display> fmt::Display for PublishError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(error) => error.fmt(f),
            Self::Topic(error) => error.fmt(f),
            Self::TooLong { len, max } => {
                write!(f, "the payload has {len} bytes, and the group's algorithm takes {max} at most")
            }
        }
    }
}

impl<E: core::error::Error> core::error::Error for PublishError<E> {}

/// Bytes of payload that a template may have.
pub(super) const CAP: usize = 1024;
/// Blocks that its holes may touch.
pub(super) const BLOCKS: usize = 32;

/// The engine's sequence: base and number.
pub(super) struct Nonces<N> {
    base: Zeroizing<Vec<u8>>,
    pub(super) numbers: N,
    /// The next number, where the associated data had to be made of it before the nonce was asked for.
    announced: Option<u64>,
}

impl<N: Numbers> Nonces<N> {
    /// The number that the next nonce will have.
    pub(super) fn announce(&mut self) -> Option<u64> {
        if self.announced.is_none() {
            self.announced = self.numbers.take().ok();
        }
        self.announced
    }
}

impl<N: Numbers, const LEN: usize> NonceSequence<[u8; LEN]> for Nonces<N> {
    type Error = N::Error;

    fn next(&mut self) -> Result<(u64, Nonce<[u8; LEN]>), N::Error> {
        let number = match self.announced.take() {
            Some(number) => number,
            None => self.numbers.take()?,
        };
        Ok((number, Nonce::assume_unique(nonce(&self.base, number))))
    }
}

/// A sealer of a suite whose templates have holes anywhere, with its memory.
pub(super) struct SparseLane<S: antedate_aead::Sparse<NonceBytes = [u8; 12]>, N: Numbers> {
    pub(super) sealer: Sealer<S, Nonces<N>>,
    once: Slot<S, 64>,
    pub(super) slot: TemplateSlot<S, CAP, BLOCKS>,
}

/// A sealer of a suite with a serial MAC, with its memory.
pub(super) struct FrontLane<N: Numbers> {
    pub(super) sealer: Sealer<CoseCcm16_64_128, Nonces<N>>,
    once: Slot<CoseCcm16_64_128, 64>,
    pub(super) slot: FrontSlot<CoseCcm16_64_128, CAP, 1>,
}

pub(super) enum Lane<N: Numbers> {
    Ccm(Box<FrontLane<N>>),
    Gcm128(Box<SparseLane<Aes128Gcm, N>>),
    Gcm256(Box<SparseLane<Aes256Gcm, N>>),
    ChaCha(Box<SparseLane<ChaCha20Poly1305, N>>),
    Ocb3(Box<SparseLane<Aes128Ocb3, N>>),
    Blocks(Box<Blocks>, N),
}

/// Seals payloads for one group under one epoch, as one publisher. There is one to a set of [`Numbers`].
pub struct Publisher<N: Numbers> {
    pub(super) head: Head,
    pub(super) protected: Vec<u8>,
    pub(super) lane: Lane<N>,
    /// That of the topic on which was published last.
    layout: Layout,
}

/// Takes the next number and seals into what `put` makes of it.
macro_rules! seal {
    ($lane:expr, $self:ident, $topic:ident, $payload:ident, $out:ident) => {{
        let prepared = $lane.sealer.prepare(&mut $lane.once).map_err(PublishError::Number)?;
        let number = prepared.number();
        if !$self.layout.fits($topic, number) {
            $self.layout.renew(&$self.head, &$self.protected, $topic, number);
        }
        $self.layout.put(number, $self.head.algorithm.sealed_len($payload.len()), $out);
        let start = $out.len();
        $out.extend_from_slice($payload);
        let tag = prepared.seal_in_place($self.layout.associated_data(number), &mut $out[start..]);
        $out.extend_from_slice(tag.as_bytes());
        number
    }};
}

impl<N: Numbers> Publisher<N> {
    /// Takes what was derived for the publisher, and its numbers.
    ///
    /// # Panics
    /// Never: a material has keys of the right length.
    pub fn new(material: &Material, numbers: N) -> Self {
        let lane = Self::lane(material, numbers);
        let lane = lane.unwrap_or_else(|_| unreachable!("a material has a key of the right length"));
        let head = material.head.clone();
        Self { protected: head.protected(), head, lane, layout: Layout::default() }
    }

    fn lane(material: &Material, numbers: N) -> Result<Lane<N>, InvalidKeyLength> {
        let nonces = |numbers| Nonces { base: material.base.clone(), numbers, announced: None };
        macro_rules! sparse {
            ($name:ident) => {
                Lane::$name(Box::new(SparseLane {
                    sealer: Sealer::new(Key::new(&material.key)?, nonces(numbers)),
                    once: Slot::new(),
                    slot: TemplateSlot::new(),
                }))
            };
        }
        Ok(match material.head.algorithm {
            Algorithm::AesCcm16_64_128 => Lane::Ccm(Box::new(FrontLane {
                sealer: Sealer::new(Key::new(&material.key)?, nonces(numbers)),
                once: Slot::new(),
                slot: FrontSlot::new(),
            })),
            Algorithm::A128Gcm => sparse!(Gcm128),
            Algorithm::A256Gcm => sparse!(Gcm256),
            Algorithm::ChaCha20Poly1305 => sparse!(ChaCha),
            Algorithm::Aes128Ocb3 => sparse!(Ocb3),
            _ => Lane::Blocks(Box::new(Blocks::new(material)?), numbers),
        })
    }

    /// What stands in the envelopes.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The numbers, to raise a limit for example.
    pub fn numbers_mut(&mut self) -> &mut N {
        match &mut self.lane {
            Lane::Ccm(lane) => &mut lane.sealer.sequence_mut().numbers,
            Lane::Gcm128(lane) => &mut lane.sealer.sequence_mut().numbers,
            Lane::Gcm256(lane) => &mut lane.sealer.sequence_mut().numbers,
            Lane::ChaCha(lane) => &mut lane.sealer.sequence_mut().numbers,
            Lane::Ocb3(lane) => &mut lane.sealer.sequence_mut().numbers,
            Lane::Blocks(_, numbers) => numbers,
        }
    }

    /// Seals a payload and appends the envelope to `out`; returns its sequence number.
    ///
    /// # Errors
    /// [`PublishError`]; then `out` is as it was, and no number was used but by an error of the numbers themselves.
    pub fn seal(
        &mut self,
        topic: &str,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u64, PublishError<N::Error>> {
        if !self.layout.is_of(topic) {
            topic::check_name(topic).map_err(PublishError::Topic)?;
        }
        let max = self.head.algorithm.max_payload();
        if payload.len() > max {
            return Err(PublishError::TooLong { len: payload.len(), max });
        }
        Ok(match &mut self.lane {
            Lane::Ccm(lane) => seal!(lane, self, topic, payload, out),
            Lane::Gcm128(lane) => seal!(lane, self, topic, payload, out),
            Lane::Gcm256(lane) => seal!(lane, self, topic, payload, out),
            Lane::ChaCha(lane) => seal!(lane, self, topic, payload, out),
            Lane::Ocb3(lane) => seal!(lane, self, topic, payload, out),
            Lane::Blocks(blocks, numbers) => {
                let number = numbers.take().map_err(PublishError::Number)?;
                if !self.layout.fits(topic, number) {
                    self.layout.renew(&self.head, &self.protected, topic, number);
                }
                self.layout.put(number, self.head.algorithm.sealed_len(payload.len()), out);
                blocks.seal(number, self.layout.associated_data(number), payload, out);
                number
            }
        })
    }
}

impl<N: Numbers> fmt::Debug for Publisher<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Publisher({}, epoch {}, ..)", self.head.algorithm, self.head.epoch)
    }
}
