//! The memory in which a packet is prepared.

use crate::{
    AuthenticationError, Key, Nonce, Suite,
    buffers::Buffers,
    bytes::{Bytes, wipe},
    suites::{
        engine::units,
        key::{assert_sealable, verdict},
    },
};
use core::fmt;
use zeroize::Zeroize;

/// Memory for one prepared packet: the key stream of up to `CAP` payload bytes and the input of the
/// tag.
///
/// `CAP` is a multiple of the suite's unit: 64 bytes, or 16 for a cipher that does one block at a
/// time, as on a mote. A slot is empty until a [`Sealer`](crate::Sealer) or an
/// [`Opener`](crate::Opener) prepares a packet in it. It never moves, and it is wiped when the
/// packet is sealed, opened, replaced or dropped.
#[cfg_attr(target_arch = "x86_64", repr(C, align(64)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C, align(4)))]
pub struct Slot<S: Suite, const CAP: usize> {
    #[cfg(not(target_arch = "x86_64"))]
    stream: [u8; CAP],
    once: S::OneTime,
    nonce: S::NonceBytes,
    number: u64,
    /// Bytes of `stream` that are prepared.
    ready: usize,
    stage: Stage,
    #[cfg(target_arch = "x86_64")]
    line: [Line; 0],
    /// On CPUs with pages, after the fields that are read first: a short packet finds all in one
    /// page.
    #[cfg(target_arch = "x86_64")]
    stream: [u8; CAP],
}

/// Aligns the next field to a cache line.
#[cfg(target_arch = "x86_64")]
#[repr(align(64))]
struct Line;

// The fields that are read first fill one cache line.
#[cfg(all(target_arch = "x86_64", feature = "gcm"))]
const _: () = assert!(core::mem::offset_of!(Slot<crate::Aes128Gcm, 64>, stream) == 64);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No nonce and no secret.
    Empty,
    /// A nonce, without any preparation.
    Named,
    /// `once` is ready, and `ready` bytes of the stream are.
    Begun,
}

impl<S: Suite, const CAP: usize> Slot<S, CAP> {
    /// An empty slot.
    pub fn new() -> Self {
        const {
            assert!(
                CAP.is_multiple_of(S::UNIT),
                "the capacity of a slot is a multiple of the suite's unit, 64 for most"
            )
        };
        Self {
            stream: [0; CAP],
            once: S::OneTime::default(),
            nonce: S::NonceBytes::ZERO,
            number: 0,
            ready: 0,
            stage: Stage::Empty,
            #[cfg(target_arch = "x86_64")]
            line: [],
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stage == Stage::Empty
    }

    /// Whether a packet of up to `reach` bytes is fully prepared.
    pub(crate) fn is_ready(&self, reach: usize) -> bool {
        self.stage == Stage::Begun && (!S::STREAMS || self.ready >= reach)
    }

    /// Bytes of payload that are prepared.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// Gives the slot a packet to prepare, and wipes its old content.
    pub(crate) fn name(&mut self, number: u64, nonce: Nonce<S::NonceBytes>) {
        self.wipe();
        self.number = number;
        self.nonce = nonce.0;
        self.stage = Stage::Named;
    }

    /// Does up to `budget` units of work and returns the units done.
    pub(crate) fn step(&mut self, key: &Key<S>, budget: u32) -> u32 {
        self.step_to(key, budget, CAP)
    }

    /// As `step`, for the first `end` bytes of the stream, a whole number of units.
    pub(crate) fn step_to(&mut self, key: &Key<S>, budget: u32, end: usize) -> u32 {
        let mut left = budget;
        if left > 0 && self.stage == Stage::Named {
            left -= 1;
            self.stage = Stage::Begun;
            // Two calls are shorter code where no suite has a combined kernel.
            let at_once = cfg!(target_arch = "x86_64") && S::STREAMS;
            let now = if at_once { units(left).min(end / S::UNIT) } else { 0 };
            if now > 0 && self.ready == 0 {
                let out = &mut self.stream[..now * S::UNIT];
                S::prepare_with_stream(&key.inner, &self.nonce, &mut self.once, out, None);
                self.ready = now * S::UNIT;
                return budget - (left - now as u32);
            }
            S::prepare_once(&key.inner, &self.nonce, &mut self.once);
        }
        if S::STREAMS && left > 0 && self.stage == Stage::Begun && self.ready < end {
            let now = units(left).min((end - self.ready) / S::UNIT);
            let out = &mut self.stream[self.ready..][..now * S::UNIT];
            S::prepare_stream(&key.inner, &self.nonce, self.ready / S::UNIT, out);
            self.ready += now * S::UNIT;
            left -= now as u32;
        }
        budget - left
    }

    /// Whether the preparation covers a payload of this length.
    #[inline(always)]
    pub(crate) fn covers(&self, len: usize) -> bool {
        self.stage == Stage::Begun
            && (!S::STREAMS || len <= self.ready)
            // A stream is never longer than the slot.
            && (S::STREAMS && CAP <= S::MAX_PAYLOAD || len <= S::MAX_PAYLOAD)
    }

    /// Encrypts, and leaves the slot empty.
    #[inline(always)]
    pub(crate) fn seal(&mut self, key: &Key<S>, aad: &[u8], buffers: Buffers<'_>, tag: &mut S::TagBytes) {
        assert_sealable::<S>(buffers.len());
        if self.covers(buffers.len()) {
            let stream = &mut self.stream[..self.ready];
            S::seal_prepared(&key.inner, &self.nonce, &self.once, stream, aad, buffers, tag);
            self.ready = 0;
        } else {
            self.seal_unprepared(key, aad, buffers, tag);
        }
    }

    /// Out of line, to keep the code for a prepared packet together.
    #[cold]
    #[inline(never)]
    fn seal_unprepared(&self, key: &Key<S>, aad: &[u8], buffers: Buffers<'_>, tag: &mut S::TagBytes) {
        *tag = S::seal(&key.inner, &self.nonce, aad, buffers);
    }

    /// Decrypts. The slot is emptied if the packet is authentic, and unchanged otherwise.
    #[inline(always)]
    pub(crate) fn open(
        &mut self,
        key: &Key<S>,
        aad: &[u8],
        mut buffers: Buffers<'_>,
        tag: &S::TagBytes,
    ) -> Result<(), AuthenticationError> {
        let mut wiped = false;
        if self.covers(buffers.len()) {
            let stream = &mut self.stream[..self.ready];
            let mut expected = S::TagBytes::ZERO;
            wiped = S::open_and_wipe(
                &key.inner,
                &self.nonce,
                &self.once,
                stream,
                aad,
                buffers.reborrow(),
                &mut expected,
            );
            if let Err(forged) = verdict(&expected, tag, buffers) {
                if wiped {
                    self.stream_again(key);
                }
                return Err(forged);
            }
        } else {
            key.open_buffers(&self.nonce, aad, buffers, tag)?;
        }
        if !wiped {
            S::wipe(&key.inner, &mut self.stream[..self.ready]);
        }
        self.ready = 0;
        self.wipe();
        Ok(())
    }

    /// As [`seal`](Self::seal) in place, for a `packet` that ends with the place of its tag and
    /// whose payload is prepared.
    #[inline(always)]
    pub(crate) fn seal_tagged(&mut self, key: &Key<S>, aad: &[u8], packet: &mut [u8]) {
        debug_assert!(packet.len().checked_sub(S::TagBytes::LEN).is_some_and(|len| self.covers(len)));
        let stream = &mut self.stream[..self.ready];
        if !S::seal_in_one_piece(&key.inner, &self.once, stream, aad, packet)
            && let (payload, Some(tag)) = S::TagBytes::split_last(packet)
        {
            S::seal_prepared(
                &key.inner,
                &self.nonce,
                &self.once,
                stream,
                aad,
                Buffers::InPlace(payload),
                tag,
            );
        }
        self.ready = 0;
        self.once.zeroize();
        self.stage = Stage::Empty;
    }

    /// As [`open`](Self::open) in place, for a `packet` that ends with its tag and whose payload is
    /// prepared.
    #[inline(always)]
    pub(crate) fn open_tagged(
        &mut self,
        key: &Key<S>,
        aad: &[u8],
        packet: &mut [u8],
    ) -> Result<(), AuthenticationError> {
        debug_assert!(packet.len().checked_sub(S::TagBytes::LEN).is_some_and(|len| self.covers(len)));
        let stream = &mut self.stream[..self.ready];
        match S::open_in_one_piece(&key.inner, &self.once, stream, aad, packet) {
            Some(true) => {}
            Some(false) => {
                self.refuse(key, packet);
                return Err(AuthenticationError);
            }
            None => {
                let (payload, Some(tag)) = S::TagBytes::split_last(packet) else {
                    return Err(AuthenticationError);
                };
                return self.open(key, aad, Buffers::InPlace(payload), tag);
            }
        }
        self.ready = 0;
        self.once.zeroize();
        self.stage = Stage::Empty;
        Ok(())
    }

    /// Wipes the plaintext of a forged packet, and keeps the preparation for the genuine one.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, key: &Key<S>, packet: &mut [u8]) {
        wipe(S::TagBytes::split_last(packet).0);
        self.stream_again(key);
    }

    /// Makes the key stream again, after a forged packet used it up.
    #[cold]
    fn stream_again(&mut self, key: &Key<S>) {
        S::prepare_stream(&key.inner, &self.nonce, 0, &mut self.stream[..self.ready]);
    }

    /// Reads a byte of each cache line of the preparation, for `len` bytes of payload.
    pub(crate) fn touch(&self, len: usize) {
        core::hint::black_box(self.number);
        for byte in self.stream[..self.ready.min(len)].iter().step_by(64) {
            core::hint::black_box(*byte);
        }
    }

    /// The tag of a packet without payload. The preparation stays.
    pub(crate) fn authenticate(&mut self, key: &Key<S>, aad: &[&[u8]]) -> S::TagBytes {
        self.step(key, u32::from(self.stage == Stage::Named));
        S::authenticate(&key.inner, &self.nonce, &self.once, aad)
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.stage == Stage::Begun
    }

    /// Marks the first `len` bytes of the stream as in use, so that they are wiped.
    pub(crate) fn hold(&mut self, len: usize) {
        self.ready = self.ready.max(len);
    }

    #[inline]
    pub(crate) fn parts(&mut self) -> (&S::OneTime, &mut [u8; CAP]) {
        (&self.once, &mut self.stream)
    }

    pub(crate) fn nonce_and_stream(&mut self) -> (&S::NonceBytes, &mut [u8; CAP]) {
        (&self.nonce, &mut self.stream)
    }

    pub(crate) fn nonce(&self) -> &S::NonceBytes {
        &self.nonce
    }

    pub(crate) fn once(&self) -> &S::OneTime {
        &self.once
    }

    pub(crate) fn stream(&self) -> &[u8; CAP] {
        &self.stream
    }

    pub(crate) fn stream_mut(&mut self) -> &mut [u8; CAP] {
        &mut self.stream
    }

    /// Wipes the packet and its preparation.
    #[inline(always)]
    pub(crate) fn wipe(&mut self) {
        if self.ready > 0 {
            wipe(&mut self.stream[..self.ready]);
            self.ready = 0;
        }
        if self.stage != Stage::Empty {
            self.once.zeroize();
            self.stage = Stage::Empty;
        }
    }
}

impl<S: Suite, const CAP: usize> Default for Slot<S, CAP> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Suite, const CAP: usize> Drop for Slot<S, CAP> {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl<S: Suite, const CAP: usize> fmt::Debug for Slot<S, CAP> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({}, {} of {CAP} bytes prepared)", S::NAME, self.ready)
    }
}
