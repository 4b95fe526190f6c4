//! Flow tables: the nonce's half and the flow's half of a tag, prepared apart and joined by XOR.
//!
//! A gateway has one sequence of nonces for many flows and does not know the next packet's flow, so
//! it can't prepare that packet for a template. But GHASH is linear over XOR: the hash of a
//! ciphertext is the XOR of the hashes of key stream and plaintext. The first depends on nonce and
//! length alone, and is prepared for each nonce and each length of a flow. The second depends on
//! the flow alone, and is prepared once for a key. The XOR of the plaintext, the XOR of the halves,
//! and one multiplication for each block that a hole touches are left for the packet, instead of
//! one multiplication for each of its blocks.
//!
//! This works for AES-GCM only: Poly1305 adds where GHASH XORs, and the other MACs have no such
//! sum.
//!
//! - [`Flow`]: the flow's half
//! - [`FlowPool`]: a [`SealPool`] with the nonces' halves for some lengths
//! - [`Halved`]: its next packet
//!
//! As with a [template](crate::Template), the time reveals whether a packet is of the flow, but not
//! the bytes in its holes. Another packet is sealed directly, under the same nonce.

use crate::{
    Key, Linear, NonceSequence, Prepared, SealPool, Tag, Template, TemplateError,
    holes::{Head, Shape, Stretch},
    suites::engine::{UNIT, units},
};
use core::fmt;
use zeroize::Zeroize;

/// Lengths of payload that a pool prepares for.
pub const LENGTHS: usize = 4;

/// The common part of a flow's packets under one key: a template with holes anywhere, of up to
/// `AAD` bytes of associated data and `CAP` bytes of payload, whose holes touch up to `BLOCKS`
/// blocks.
///
/// `CAP` is a multiple of 64.
pub struct Flow<S: Linear, const AAD: usize, const CAP: usize, const BLOCKS: usize> {
    head: Head<S, BLOCKS>,
    shape: Shape,
    half: u128,
    /// The template with zeros in its holes, and a mask of its fixed bytes.
    aad: [u8; AAD],
    fixed_aad: [u8; AAD],
    payload: [u8; CAP],
    fixed: [u8; CAP],
}

impl<S: Linear, const AAD: usize, const CAP: usize, const BLOCKS: usize> Flow<S, AAD, CAP, BLOCKS> {
    /// Prepares the flow's half, which takes as long as some packets do.
    ///
    /// # Errors
    /// If the template is too long or has too many holes.
    pub fn new(key: &Key<S>, template: &Template<'_>) -> Result<Self, TemplateError> {
        const { assert!(CAP.is_multiple_of(UNIT), "the capacity of a flow is a multiple of 64") };
        let shape = Shape { aad: template.aad().len(), payload: template.payload().len() };
        for (len, capacity) in [(shape.payload, CAP), (shape.aad, AAD)] {
            if len > capacity {
                return Err(TemplateError::TooLong { len, capacity });
            }
        }
        let mut this = Self {
            head: Head::new(),
            shape,
            half: 0,
            aad: [0; AAD],
            fixed_aad: [0; AAD],
            payload: [0; CAP],
            fixed: [0; CAP],
        };
        let too_many = |touched| TemplateError::TooManyBlocks { touched, capacity: BLOCKS };
        this.head.fit(template).map_err(too_many)?;
        let parts = [
            (template.aad(), &mut this.aad[..], &mut this.fixed_aad[..], false),
            (template.payload(), &mut this.payload[..], &mut this.fixed[..], true),
        ];
        for (part, copy, fixed, is_payload) in parts {
            copy[..part.len()].copy_from_slice(part);
            fixed[..part.len()].fill(0xff);
            for (_, range) in
                template.holes().iter().map(|hole| hole.place()).filter(|(p, _)| *p == is_payload)
            {
                copy[range.clone()].fill(0);
                fixed[range].fill(0);
            }
        }
        this.prepare(key);
        Ok(this)
    }

    fn prepare(&mut self, key: &Key<S>) {
        let (key, shape) = (&key.inner, self.shape);
        let Head { sum, count, spots, .. } = &mut self.head;
        let spots = &mut spots[..BLOCKS.min(*count as usize)];
        // The key stream and the tag's mask are the nonce's half; they are zeros here.
        let (nothing, mut body) = (S::OneTime::default(), [0; CAP]);
        let stretch = Stretch {
            aad: &self.aad[..shape.aad],
            aad_from: 0,
            payload: &self.payload[..shape.payload],
            payload_from: 0,
            body: &mut body,
        };
        S::absorb(key, &nothing, sum, spots, stretch);
        S::close(key, &nothing, sum, &shape);
        for spot in spots {
            // The holes hold zeros, so this computes the weight and changes nothing.
            spot.weight = S::weigh(key, &nothing, sum, &shape, &spot.piece, 0, &mut body);
        }
        self.half = S::flow_half(sum);
        body.zeroize();
    }

    /// Blocks that a hole touches: one multiplication each.
    #[must_use]
    pub fn touched(&self) -> usize {
        self.head.pieces().count()
    }

    /// Whether a packet is of the flow. Compares all bytes in constant time.
    #[must_use]
    pub fn fits(&self, aad: &[u8], payload: &[u8]) -> bool {
        (aad.len(), payload.len()) == (self.shape.aad, self.shape.payload)
            && differs(aad, &self.aad, &self.fixed_aad) | differs(payload, &self.payload, &self.fixed) == 0
    }

    /// Whether a packet may be of the flow, by its associated data and the first block of its
    /// payload. That suffices to choose a flow; [`Halved::seal`] compares the whole packet.
    #[must_use]
    pub fn begins(&self, aad: &[u8], payload: &[u8]) -> bool {
        let front = self.shape.payload.min(16);
        (aad.len(), payload.len()) == (self.shape.aad, self.shape.payload)
            && differs(aad, &self.aad, &self.fixed_aad) == 0
            && differs(&payload[..front], &self.payload, &self.fixed) == 0
    }

    /// The XOR of the flow's half and the products of the bytes in a packet's holes. The packet
    /// fits the flow.
    fn sum(&self, key: &Key<S>, aad: &[u8], payload: &[u8]) -> u128 {
        let values = self.head.weighted().map(|(piece, weight)| {
            let block = piece.of_part(if piece.in_payload() { payload } else { aad });
            S::product(&key.inner, block.swap_bytes(), weight)
        });
        values.fold(self.half, |sum, product| sum ^ product)
    }
}

impl<S: Linear, const AAD: usize, const CAP: usize, const BLOCKS: usize> Drop for Flow<S, AAD, CAP, BLOCKS> {
    fn drop(&mut self) {
        self.head.wipe();
        self.half.zeroize();
        self.aad.zeroize();
        self.payload.zeroize();
    }
}

impl<S: Linear, const AAD: usize, const CAP: usize, const BLOCKS: usize> fmt::Debug
    for Flow<S, AAD, CAP, BLOCKS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { aad, payload } = self.shape;
        write!(f, "Flow({}, {aad} bytes of associated data, {payload} of payload)", S::NAME)
    }
}

/// The OR of all differing bits between a part and its template, outside the holes.
fn differs(part: &[u8], template: &[u8], fixed: &[u8]) -> u8 {
    let bytes = part.iter().zip(template).zip(fixed);
    bytes.fold(0, |differs, ((byte, template), fixed)| differs | (byte ^ template) & fixed)
}

/// A [`SealPool`] in which each nonce has its half of the tag for some lengths of payload.
#[cfg_attr(target_arch = "x86_64", repr(C))]
pub struct FlowPool<S: Linear, N: NonceSequence<S::NonceBytes>, const SLOTS: usize, const CAP: usize> {
    known: usize,
    pool: SealPool<S, N, SLOTS, CAP>,
    lengths: [usize; LENGTHS],
    halves: [[u128; LENGTHS]; SLOTS],
    /// Which halves exist: a slot that was prepared for shorter packets has none for a long one.
    has: [[bool; LENGTHS]; SLOTS],
    /// Number of lengths for which a slot has its half, or can't have it.
    done: [usize; SLOTS],
    /// The unfinished half: its slot, units done, and the MAC so far.
    begun: Option<(usize, usize, u128)>,
}

impl<S: Linear, N: NonceSequence<S::NonceBytes>, const SLOTS: usize, const CAP: usize>
    FlowPool<S, N, SLOTS, CAP>
{
    /// A pool without lengths.
    pub fn new(pool: SealPool<S, N, SLOTS, CAP>) -> Self {
        Self {
            pool,
            lengths: [0; LENGTHS],
            known: 0,
            halves: [[0; LENGTHS]; SLOTS],
            has: [[false; LENGTHS]; SLOTS],
            done: [0; SLOTS],
            begun: None,
        }
    }

    /// Prepares for payloads of this length too. Returns false if there are [`LENGTHS`] others, or
    /// if it is longer than a slot.
    pub fn add_length(&mut self, len: usize) -> bool {
        if self.lengths[..self.known].contains(&len) {
            return true;
        }
        let room = self.known < LENGTHS && len <= CAP;
        if room {
            self.lengths[self.known] = len;
            self.known += 1;
        }
        room
    }

    /// Removes all lengths.
    pub fn forget_lengths(&mut self) {
        (self.known, self.done, self.begun) = (0, [0; SLOTS], None);
        self.has = [[false; LENGTHS]; SLOTS];
        self.halves.iter_mut().for_each(Zeroize::zeroize);
    }

    /// The plain pool, if no length is set: then a packet pays nothing for flow tables.
    #[inline]
    pub fn plain(&mut self) -> Option<&mut SealPool<S, N, SLOTS, CAP>> {
        if self.known == 0 { Some(&mut self.pool) } else { None }
    }

    /// As [`SealPool::set_reach`].
    pub fn set_reach(&mut self, bytes: usize) {
        self.pool.set_reach(bytes);
    }

    /// As [`SealPool::touch`].
    pub fn touch(&self, bytes: usize) {
        core::hint::black_box(self.known);
        self.pool.touch(bytes);
    }

    /// The plain pool.
    pub const fn pool(&self) -> &SealPool<S, N, SLOTS, CAP> {
        &self.pool
    }

    /// As [`SealPool::idle`], with one unit for each 64 bytes of a half, and one for closing it.
    pub fn idle(&mut self, budget: u32) -> u32 {
        let done = self.pool.idle(budget);
        done + self.finish(budget - done)
    }

    /// As [`idle`](Self::idle), for the halves of prepared packets only; prepares no further
    /// packet.
    pub fn finish(&mut self, budget: u32) -> u32 {
        let mut done = 0;
        while done < budget && self.known > 0 {
            let ready = (0..self.pool.prepared()).map(|ahead| self.pool.place(ahead));
            let Some(place) = ready.into_iter().find(|place| self.done[*place] < self.known) else { break };
            let index = self.done[place];
            let len = self.lengths[index];
            let (mut from, mut mac) = match self.begun.take() {
                Some((begun, from, mac)) if begun == place => (from, mac),
                _ => (0, 0),
            };
            let (key, slot) = self.pool.slot_mut(place);
            let end = len.div_ceil(UNIT);
            if slot.ready() >= UNIT * end {
                let (once, stream) = slot.parts();
                let to = end.min(from.saturating_add(units(budget - done)));
                let rest = len.saturating_sub(UNIT * from).min(UNIT * (to - from));
                S::add_stream(&key.inner, &mut mac, &mut stream[UNIT * from..UNIT * to], rest);
                done += (to - from) as u32;
                from = to;
                if from < end {
                    self.begun = Some((place, from, mac));
                    continue;
                }
                self.halves[place][index] = S::close_stream(&key.inner, once, mac);
                self.has[place][index] = true;
            }
            self.done[place] = index + 1;
            done += 1;
        }
        done.min(budget)
    }

    /// The key, for [`Flow::new`].
    pub const fn key(&self) -> &Key<S> {
        self.pool.key()
    }

    /// The sequence, to raise a limit for example.
    pub const fn sequence_mut(&mut self) -> &mut N {
        self.pool.sequence_mut()
    }

    /// The next packet of the sequence, with its nonce's halves.
    ///
    /// # Errors
    /// The error of the sequence.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "it lends from the pool and fails as the sequence does")]
    pub fn next(&mut self) -> Result<Halved<'_, S, CAP>, N::Error> {
        let place = self.pool.place(0);
        let known = if self.pool.prepared() > 0 { self.done[place] } else { 0 };
        let mut halves = [(NONE, 0); LENGTHS];
        if known > 0 {
            let prepared = self.lengths.iter().zip(&self.halves[place]).zip(&self.has[place]);
            for (half, ((len, sum), has)) in halves.iter_mut().zip(prepared).take(known) {
                *half = (if *has { *len } else { NONE }, *sum);
            }
            self.halves[place].zeroize();
            self.has[place] = [false; LENGTHS];
        }
        self.done[place] = 0;
        if self.begun.is_some_and(|(begun, ..)| begun == place) {
            self.begun = None;
        }
        Ok(Halved { prepared: self.pool.next()?, halves, known })
    }
}

/// Marks a missing half: no payload has this length.
const NONE: usize = usize::MAX;

/// A packet to be sealed, as [`Prepared`], with its nonce's halves for some lengths of payload.
pub struct Halved<'a, S: Linear, const CAP: usize> {
    prepared: Prepared<'a, S, CAP>,
    halves: [(usize, u128); LENGTHS],
    known: usize,
}

impl<'a, S: Linear, const CAP: usize> Halved<'a, S, CAP> {
    /// The packet number of the nonce.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.prepared.number()
    }

    /// Encrypts `src` into `dst` and authenticates it together with `aad`: by flow tables if the
    /// nonce has its half for this length and the packet is of the flow, else directly. Returns the
    /// tag, and whether the tables were used.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length.
    pub fn seal<const AAD: usize, const LONGEST: usize, const BLOCKS: usize>(
        mut self,
        flow: &Flow<S, AAD, LONGEST, BLOCKS>,
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
    ) -> (Tag<[u8; 16]>, bool) {
        assert_eq!(src.len(), dst.len(), "source and destination must have the same length");
        let half = self.halves[..self.known].iter().find(|(len, _)| *len == src.len()).map(|(_, half)| *half);
        // Without key stream for all of it, the packet would be sent in clear.
        let Some(half) = half.filter(|_| self.prepared.ready() >= src.len() && flow.fits(aad, src)) else {
            return (self.whole().seal(aad, src, dst), false);
        };
        let (key, slot) = self.prepared.key_and_slot();
        for ((to, from), stream) in dst.iter_mut().zip(src).zip(slot.stream()) {
            *to = from ^ stream;
        }
        let tag = S::tag(half ^ flow.sum(key, aad, src));
        self.forget();
        (Tag(tag), true)
    }

    /// The packet without its halves.
    #[inline]
    pub fn whole(mut self) -> Prepared<'a, S, CAP> {
        self.forget();
        self.prepared
    }

    fn forget(&mut self) {
        for (_, half) in &mut self.halves[..self.known] {
            half.zeroize();
        }
    }
}

impl<S: Linear, N: NonceSequence<S::NonceBytes>, const SLOTS: usize, const CAP: usize> Drop
    for FlowPool<S, N, SLOTS, CAP>
{
    fn drop(&mut self) {
        self.halves.iter_mut().for_each(Zeroize::zeroize);
    }
}

impl<S: Linear, const CAP: usize> fmt::Debug for Halved<'_, S, CAP> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Halved({:?}, {} lengths)", self.prepared, self.known)
    }
}

impl<S: Linear, N: NonceSequence<S::NonceBytes>, const SLOTS: usize, const CAP: usize> fmt::Debug
    for FlowPool<S, N, SLOTS, CAP>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FlowPool({:?}, {:?})", self.pool, &self.lengths[..self.known])
    }
}
