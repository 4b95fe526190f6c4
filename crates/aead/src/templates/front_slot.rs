//! The memory in which a front's packet is prepared.
//!
//! It holds the front's ciphertext, the key stream of the rest (if the suite has one), and the
//! chain, which is the MAC after the known bytes. Each block of the rest costs one step of the MAC.

use crate::{
    Front, FrontError, Fronted, Key, Nonce, Slot,
    buffers::Buffers,
    bytes::Bytes,
    suites::{
        engine::units,
        serial::{PORTION, Sizes},
    },
};
use core::array;
use zeroize::Zeroize;

/// Memory for one packet that is prepared for a [`Front`]: up to `CAP` bytes of payload, and
/// `LENGTHS` possible lengths. For a suite that needs no lengths, `LENGTHS` is 1.
pub struct FrontSlot<S: Fronted, const CAP: usize, const LENGTHS: usize> {
    slot: Slot<S, CAP>,
    chains: [S::Chain; LENGTHS],
    /// The chains' lengths of payload, and their number: a single 0 if one chain is for all
    /// lengths.
    lengths: [usize; LENGTHS],
    count: usize,
    /// The chains before this one are ready.
    current: usize,
    /// Bytes that the current chain has taken, and whether it was begun.
    taken: usize,
    begun: bool,
    /// Whether the preparation is finished.
    ready: bool,
    /// Whether the packet waits here without a handle.
    left: bool,
    /// Tag of the sealed packet.
    tag: S::TagBytes,
}

impl<S: Fronted, const CAP: usize, const LENGTHS: usize> FrontSlot<S, CAP, LENGTHS> {
    /// An empty slot.
    pub fn new() -> Self {
        const { assert!(LENGTHS > 0, "a slot takes one length at least") };
        Self {
            slot: Slot::new(),
            chains: array::from_fn(|_| S::Chain::default()),
            lengths: [0; LENGTHS],
            count: 0,
            current: 0,
            taken: 0,
            begun: false,
            ready: false,
            left: false,
            tag: S::TagBytes::ZERO,
        }
    }

    /// Whether a chain is for packets of one length only.
    fn by_length(front: &Front<'_>) -> bool {
        S::LENGTH_FIRST || front.has_length_field()
    }

    /// Whether a front fits. Checked before a nonce is taken.
    pub(crate) fn check(front: &Front<'_>) -> Result<(), FrontError> {
        let lengths = front.lengths();
        if Self::by_length(front) {
            if lengths.is_empty() {
                return Err(FrontError::NoLength);
            }
            if lengths.len() > LENGTHS {
                return Err(FrontError::TooManyLengths { given: lengths.len(), capacity: LENGTHS });
            }
        }
        Self::check_length(front)
    }

    /// Whether the payloads of a front fit.
    pub(crate) fn check_length(front: &Front<'_>) -> Result<(), FrontError> {
        let longest = front.lengths().iter().copied().max().unwrap_or(front.payload().len());
        let capacity = CAP.min(S::MAX_PAYLOAD);
        if longest > capacity {
            return Err(FrontError::TooLong { len: longest, capacity });
        }
        Ok(())
    }

    /// Gives the slot a packet to prepare for payloads of these lengths, and replaces its content.
    /// Lengths that do not fit are left out.
    pub(crate) fn name(
        &mut self,
        number: u64,
        nonce: Nonce<S::NonceBytes>,
        front: &Front<'_>,
        lengths: &[usize],
    ) {
        self.wipe();
        self.slot.name(number, nonce);
        self.aim(front, lengths);
    }

    fn aim(&mut self, front: &Front<'_>, lengths: &[usize]) {
        let fits = |len: &&usize| **len > front.payload().len() && **len <= CAP.min(S::MAX_PAYLOAD);
        (self.lengths, self.count) = ([0; LENGTHS], 0);
        for (place, len) in self.lengths.iter_mut().zip(lengths.iter().filter(fits)) {
            *place = *len;
            self.count += 1;
        }
        if !Self::by_length(front) {
            // One chain for all lengths; the key stream is for the longest.
            self.lengths[0] = self.longest();
            self.count = 1;
        } else if !S::STREAMS {
            // The front's ciphertext depends on the length here, and the slot has one.
            self.lengths[1..].fill(0);
            self.count = self.count.min(1);
        }
    }

    fn longest(&self) -> usize {
        self.lengths[..self.count].iter().copied().max().unwrap_or(0)
    }

    pub(crate) fn number(&self) -> u64 {
        self.slot.number()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Continues the preparation.
    pub(crate) fn step(&mut self, key: &Key<S>, front: &Front<'_>, budget: u32) -> u32 {
        if self.ready {
            return 0;
        }
        let mut left = budget;
        left -= self.slot.step_to(key, left.min(1), 0);
        let longest = self.longest();
        left -= self.step_stream(key, front, left, longest);
        while left > 0 && self.current < self.count {
            left -= self.step_chain(key, front, front.payload().len(), self.lengths[self.current], left);
        }
        let streams = !S::STREAMS || self.slot.ready() >= longest;
        self.ready = streams && self.current == self.count && self.slot.is_begun();
        budget - left
    }

    /// Makes key stream for `len` bytes and encrypts the front with it.
    fn step_stream(&mut self, key: &Key<S>, front: &Front<'_>, budget: u32, len: usize) -> u32 {
        let before = self.slot.ready();
        let done = self.slot.step_to(key, budget, len.next_multiple_of(S::UNIT));
        if S::STREAMS {
            let front = front.payload();
            let (from, to) = (before.min(front.len()), self.slot.ready().min(front.len()));
            xor(&mut self.slot.stream_mut()[from..to], &front[from..to]);
        }
        done
    }

    /// Advances the current chain over the associated data and `front_len` bytes of front.
    /// Continues with the next chain when it is ready.
    fn step_chain(
        &mut self,
        key: &Key<S>,
        front: &Front<'_>,
        front_len: usize,
        len: usize,
        budget: u32,
    ) -> u32 {
        let mut left = budget;
        let aad_len = front.aad().len();
        // The first step has made `once` from the nonce.
        let Self { slot, chains, current, taken, begun, .. } = self;
        let chain = &mut chains[*current];
        if left > 0 && !*begun {
            S::begin(
                &key.inner,
                slot.nonce(),
                slot.once(),
                aad_len,
                if S::LENGTH_FIRST { len } else { 0 },
                chain,
            );
            *begun = true;
            left -= 1;
        }
        while left > 0 && *taken < aad_len {
            let mut buffer = [0; PORTION];
            let portion = &mut buffer[..S::portion(aad_len, *taken)];
            front.portion(*taken, portion, len);
            S::associate(&key.inner, chain, aad_len, *taken, portion);
            *taken += portion.len();
            left -= 1;
        }
        let whole = front_len - front_len % S::RATE;
        if left > 0 && *begun && *taken >= aad_len && *taken < aad_len + whole {
            let at = *taken - aad_len;
            let now = units(left).min((whole - at) / S::RATE) * S::RATE;
            let out = if S::STREAMS { &mut [][..] } else { &mut slot.stream_mut()[at..at + now] };
            S::absorb(&key.inner, chain, &front.payload()[at..at + now], out);
            *taken += now;
            left -= (now / S::RATE) as u32;
        }
        if *begun && *taken == aad_len + whole {
            S::settle_front(&key.inner, chain, &front.payload()[whole..front_len]);
            if !S::STREAMS {
                self.slot.hold(whole);
            }
            (*taken, *begun) = (0, false);
            *current += 1;
        }
        budget - left
    }

    /// The chain for this length of payload, if the preparation is finished.
    #[inline(always)]
    pub(crate) fn chain(&self, front: &Front<'_>, len: usize) -> Option<usize> {
        if !self.ready || len <= front.payload().len() {
            return None;
        }
        if !Self::by_length(front) {
            let room = if S::STREAMS { self.slot.ready() } else { CAP };
            return (len <= room).then_some(0);
        }
        // Unused entries are 0, which is shorter than any front with a rest.
        self.lengths.iter().position(|&one| one == len)
    }

    /// Seals the rest from this chain, and leaves ciphertext and tag in the slot.
    #[inline(always)]
    pub(crate) fn seal_rest(
        &mut self,
        key: &Key<S>,
        front: &Front<'_>,
        front_len: usize,
        chain: usize,
        rest: &[u8],
    ) {
        let payload = front_len + rest.len();
        let Self { slot, chains, tag, .. } = self;
        let (once, stream) = slot.parts();
        let (whole, sizes) = (front_len - front_len % S::RATE, Sizes { aad: front.aad().len(), payload });
        let tail = &front.payload()[whole..front_len];
        // The cipher's rounds start after the preceding instructions, so these are as few as
        // possible.
        let on = cfg!(target_arch = "x86_64") && S::STREAMS;
        let out = if on { &mut stream[whole..] } else { &mut stream[whole..payload] };
        S::seal_rest(&key.inner, once, &chains[chain], sizes, tail, rest, out, tag);
    }

    /// Seals a packet of another length, or with an unfinished preparation: does the missing work,
    /// at most that of the plain cipher.
    #[cold]
    pub(crate) fn seal_late(&mut self, key: &Key<S>, front: &Front<'_>, rest: &[u8]) {
        let fixed = front.payload();
        let len = fixed.len() + rest.len();
        if !self.slot.is_begun() && !front.has_length_field() {
            let data = &mut self.slot.stream_mut()[..len];
            data[..fixed.len()].copy_from_slice(fixed);
            data[fixed.len()..].copy_from_slice(rest);
            self.slot.hold(len);
            let (nonce, data) = self.slot.nonce_and_stream();
            self.tag = S::seal(&key.inner, nonce, front.aad(), Buffers::InPlace(&mut data[..len]));
            return;
        }
        self.slot.step_to(key, 1, 0);
        if len == 0 {
            let mut aad = [0; 8];
            let (before, after) = front.around_field();
            let field = &mut aad[..front.aad().len() - before.len() - after.len()];
            front.portion(before.len(), field, 0);
            self.tag =
                S::authenticate(&key.inner, self.slot.nonce(), self.slot.once(), &[before, field, after]);
            return;
        }
        self.step_stream(key, front, u32::MAX, len);
        // A chain that is prepared or begun for this length is used; else the first one is begun
        // again.
        let mut front_len = fixed.len();
        let mut rest = rest;
        let lengths = &self.lengths[..self.count];
        let position =
            if Self::by_length(front) { lengths.iter().position(|&one| one == len) } else { Some(0) };
        let chain = match position.filter(|&chain| chain <= self.current && !rest.is_empty()) {
            Some(chain) => chain,
            None => {
                (self.current, self.taken, self.begun) = (0, 0, false);
                if rest.is_empty() {
                    // The front's last byte is treated as rest.
                    let (_, last) = fixed.split_at(fixed.len() - 1);
                    (front_len, rest) = (fixed.len() - 1, last);
                    if S::STREAMS {
                        xor(&mut self.slot.stream_mut()[front_len..len], last);
                    }
                }
                0
            }
        };
        while self.current <= chain {
            self.step_chain(key, front, front_len, len, u32::MAX);
        }
        self.slot.hold(len);
        self.seal_rest(key, front, front_len, chain, rest);
    }

    /// Opens a packet from the preparation. `None` if it is not of the front, or not prepared.
    #[inline]
    pub(crate) fn open_rest(
        &self,
        key: &Key<S>,
        front: &Front<'_>,
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
    ) -> Option<S::TagBytes> {
        let chain = self.chain(front, src.len())?;
        let fixed = front.payload();
        let whole = fixed.len() - fixed.len() % S::RATE;
        // Without a key stream, the tail's ciphertext depends on the rest.
        let covered = if S::STREAMS { fixed.len() } else { whole };
        let stream = self.slot.stream();
        let difference = src[..covered].iter().zip(&stream[..covered]).fold(0, |sum, (a, b)| sum | (a ^ b));
        if !front.fits(aad, src.len()) || core::hint::black_box(difference) != 0 {
            return None;
        }
        let mut expected = S::TagBytes::ZERO;
        let sizes = Sizes { aad: aad.len(), payload: src.len() };
        let (dst_front, dst_rest) = dst.split_at_mut(whole);
        dst_front.copy_from_slice(&fixed[..whole]);
        let stream = if S::STREAMS { &stream[whole..src.len()] } else { &[] };
        let (tail, src) = (&fixed[whole..], &src[whole..]);
        S::open_rest(
            &key.inner,
            self.slot.once(),
            &self.chains[chain],
            sizes,
            tail,
            stream,
            src,
            dst_rest,
            &mut expected,
        );
        Some(expected)
    }

    /// The nonce of the packet.
    pub(crate) fn nonce(&self) -> &S::NonceBytes {
        self.slot.nonce()
    }

    /// The first `len` bytes of the sealed packet.
    pub(crate) fn ciphertext(&self, len: usize) -> &[u8] {
        &self.slot.stream()[..len]
    }

    /// Tag of the sealed packet.
    pub(crate) fn tag(&self) -> S::TagBytes {
        self.tag
    }

    /// Keeps the packet here without a handle.
    pub(crate) fn leave(&mut self) {
        self.left = true;
    }

    /// Whether a packet was left here; clears the mark.
    pub(crate) fn resume(&mut self) -> bool {
        core::mem::take(&mut self.left)
    }

    pub(crate) fn wipe(&mut self) {
        self.left = false;
        self.slot.wipe();
        self.forget_chains();
    }

    fn forget_chains(&mut self) {
        if self.current > 0 || self.begun {
            self.chains.iter_mut().for_each(Zeroize::zeroize);
        }
        (self.current, self.taken, self.begun, self.ready) = (0, 0, false, false);
    }
}

/// XORs bytes of equal length.
fn xor(data: &mut [u8], with: &[u8]) {
    for (byte, other) in data.iter_mut().zip(with) {
        *byte ^= other;
    }
}

impl<S: Fronted, const CAP: usize, const LENGTHS: usize> Default for FrontSlot<S, CAP, LENGTHS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Fronted, const CAP: usize, const LENGTHS: usize> Drop for FrontSlot<S, CAP, LENGTHS> {
    fn drop(&mut self) {
        self.wipe();
    }
}
