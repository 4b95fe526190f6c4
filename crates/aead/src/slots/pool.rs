//! Rings of slots, for the next packets of a sequence and for the next expected ones.

use crate::{
    AuthenticationError, Key, Nonce, NonceSequence, Opener, Prepared, Ready, Sealer, Slot, Suite,
    buffers::Buffers, bytes::Bytes, tag,
};
use core::{array, fmt};

/// A [`Sealer`] with a ring of `SLOTS` slots, in which the next packets of the sequence are
/// prepared in order.
///
/// If the pool begins at a page, each packet finds all it needs of the pool and the key in the
/// first page.
#[cfg_attr(target_arch = "x86_64", repr(C))]
pub struct SealPool<S: Suite, N: NonceSequence<S::NonceBytes>, const SLOTS: usize, const CAP: usize> {
    /// The slot of the next packet.
    head: usize,
    /// Slots from `head` on that have a nonce.
    named: usize,
    /// Slots from `head` on that are prepared up to the reach at that time.
    prepared: usize,
    reach: usize,
    sealer: Sealer<S, N>,
    slots: [Slot<S, CAP>; SLOTS],
}

impl<S: Suite, N: NonceSequence<S::NonceBytes>, const SLOTS: usize, const CAP: usize>
    SealPool<S, N, SLOTS, CAP>
{
    /// An empty pool.
    pub fn new(key: Key<S>, sequence: N) -> Self {
        const { assert!(SLOTS > 0, "a pool has a slot at least") };
        Self {
            sealer: Sealer::new(key, sequence),
            slots: array::from_fn(|_| Slot::new()),
            head: 0,
            named: 0,
            prepared: 0,
            reach: CAP,
        }
    }

    /// Limits the preparation to the first `bytes` of each packet, at most `CAP`. A longer packet
    /// is sealed without a preparation.
    ///
    /// With a short reach the pool is ready sooner, and its slots stay in the nearest cache.
    pub fn set_reach(&mut self, bytes: usize) {
        self.reach = bytes.min(CAP).next_multiple_of(S::UNIT);
    }

    /// As [`set_reach`](Self::set_reach), and extends packets that are already prepared.
    pub(crate) fn set_reach_of_all(&mut self, bytes: usize) {
        self.set_reach(bytes);
        let slots = (0..self.prepared).map(|ahead| &self.slots[Self::turn(self.head + ahead)]);
        self.prepared = slots.take_while(|slot| slot.is_ready(self.reach)).count();
    }

    /// Does at most `budget` units of preparation (about 64 bytes of key stream each) and returns
    /// the units done. Less than `budget` means that nothing is left to do.
    pub fn idle(&mut self, budget: u32) -> u32 {
        let mut left = budget;
        while left > 0 && self.prepared < SLOTS {
            let slot = &mut self.slots[Self::turn(self.head + self.prepared)];
            if self.prepared == self.named {
                let Ok((number, nonce)) = self.sealer.sequence.next() else { break };
                slot.name(number, nonce);
                self.named += 1;
            }
            left -= slot.step_to(&self.sealer.key, left, self.reach);
            if slot.is_ready(self.reach) {
                self.prepared += 1;
            }
        }
        budget - left
    }

    /// The next packet of the sequence, prepared as far as [`idle`](Self::idle) got.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "it lends from the pool and fails as the sequence does")]
    pub fn next(&mut self) -> Result<Prepared<'_, S, CAP>, N::Error> {
        let slot = &mut self.slots[self.head];
        if self.named == 0 {
            let (number, nonce) = self.sealer.sequence.next()?;
            slot.name(number, nonce);
            self.named = 1;
        }
        // The ring advances before it gives the handle: the slot of a forgotten handle is only ever
        // renamed.
        self.head = Self::turn(self.head + 1);
        self.named -= 1;
        self.prepared = self.prepared.saturating_sub(1);
        Ok(Prepared::new(&self.sealer.key, slot))
    }

    /// As [`next`](Self::next), if that packet has this number and is prepared for this length of
    /// payload. Otherwise nothing changes.
    #[inline(always)]
    pub fn next_ready(&mut self, number: u64, bytes: usize) -> Option<Ready<'_, S, CAP>> {
        let slot = self.slots.get_mut(self.head)?;
        // A prepared slot has a number.
        if self.prepared == 0 || slot.number() != number || !slot.covers(bytes) {
            return None;
        }
        self.head = Self::turn(self.head + 1);
        self.named -= 1;
        self.prepared -= 1;
        Some(Ready::new(&self.sealer.key, slot, bytes))
    }

    /// Reads a byte of each cache line of the next packet's preparation for `bytes` of payload, and
    /// of the key's part for it.
    pub fn touch(&self, bytes: usize) {
        let len = bytes.min(CAP).min(S::MAX_PAYLOAD);
        self.slots[self.head].touch(len);
        S::touch(&self.sealer.key.inner, len);
    }

    /// Number of prepared slots, each up to the reach at its time.
    pub const fn prepared(&self) -> usize {
        self.prepared
    }

    /// The sequence. It is ahead of the packets by the nonces in slots.
    pub const fn sequence(&self) -> &N {
        self.sealer.sequence()
    }

    /// The sequence, to raise a limit for example.
    pub const fn sequence_mut(&mut self) -> &mut N {
        self.sealer.sequence_mut()
    }

    /// The number of the next packet, if its nonce was already taken.
    pub fn next_number(&self) -> Option<u64> {
        (self.named > 0).then(|| self.slots[self.head].number())
    }

    /// The sealer. Its key and sequence must not leave the pool.
    pub(crate) const fn sealer_mut(&mut self) -> &mut Sealer<S, N> {
        &mut self.sealer
    }

    #[cfg(feature = "gcm")]
    pub(crate) const fn key(&self) -> &Key<S> {
        &self.sealer.key
    }

    #[cfg(feature = "gcm")]
    /// Index of the slot that is `ahead` packets after the next one.
    pub(crate) const fn place(&self, ahead: usize) -> usize {
        Self::turn(self.head + ahead)
    }

    #[cfg(feature = "gcm")]
    pub(crate) fn slot_mut(&mut self, place: usize) -> (&Key<S>, &mut Slot<S, CAP>) {
        (&self.sealer.key, &mut self.slots[place])
    }

    const fn turn(index: usize) -> usize {
        if index < SLOTS { index } else { index - SLOTS }
    }
}

impl<S: Suite, N: NonceSequence<S::NonceBytes>, const SLOTS: usize, const CAP: usize> fmt::Debug
    for SealPool<S, N, SLOTS, CAP>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealPool({}, {} of {SLOTS} prepared)", S::NAME, self.prepared)
    }
}

/// An [`Opener`] with a ring of `SLOTS` slots, in which the next packet numbers are prepared.
///
/// Packet `number` uses slot `number % SLOTS` while it is among the next `SLOTS` numbers. The
/// memory layout is that of a [`SealPool`].
#[cfg_attr(target_arch = "x86_64", repr(C))]
pub struct OpenPool<S: Suite, F: Fn(u64) -> S::NonceBytes, const SLOTS: usize, const CAP: usize> {
    /// The lowest expected number.
    expected: u64,
    /// All expected numbers below this one are prepared or were opened.
    prepared: u64,
    reach: usize,
    opener: Opener<S, F>,
    slots: [Slot<S, CAP>; SLOTS],
}

impl<S: Suite, F: Fn(u64) -> S::NonceBytes, const SLOTS: usize, const CAP: usize> OpenPool<S, F, SLOTS, CAP> {
    /// A pool that expects packet 0, with nothing prepared.
    pub fn new(key: Key<S>, nonce_of: F) -> Self {
        const { assert!(SLOTS > 0, "a pool has a slot at least") };
        Self {
            opener: Opener::new(key, nonce_of),
            slots: array::from_fn(|_| Slot::new()),
            expected: 0,
            prepared: 0,
            reach: CAP,
        }
    }

    /// Makes `number` the next expected packet, and wipes the preparation of older ones.
    #[inline]
    pub fn expect_from(&mut self, number: u64) {
        if self.expected.checked_add(1) == Some(number) {
            self.slots[Self::place(self.expected)].wipe();
            self.prepared = self.prepared.max(number);
            self.expected = number;
        } else {
            self.expect_anew(number);
        }
    }

    /// As [`expect_from`](Self::expect_from), for any distance.
    #[inline(never)]
    fn expect_anew(&mut self, number: u64) {
        if number < self.expected {
            // Backwards, as after a new key agreement: the slots belong to other numbers.
            self.slots.iter_mut().for_each(Slot::wipe);
            self.prepared = number;
        } else {
            let passed = (number - self.expected).min(SLOTS as u64);
            for old in self.expected..self.expected + passed {
                self.slots[Self::place(old)].wipe();
            }
            self.prepared = self.prepared.max(number);
        }
        self.expected = number;
    }

    /// Limits the preparation to the first `bytes` of each packet, at most `CAP`. A longer packet
    /// is opened without a preparation.
    ///
    /// With a short reach the pool is ready sooner, and its slots stay in the nearest cache.
    pub fn set_reach(&mut self, bytes: usize) {
        self.reach = bytes.min(CAP).next_multiple_of(S::UNIT);
    }

    /// Does at most `budget` units of preparation (about 64 bytes of key stream each) and returns
    /// the units done. Less than `budget` means that nothing is left to do.
    pub fn idle(&mut self, budget: u32) -> u32 {
        let mut left = budget;
        let end = self.expected.saturating_add(SLOTS as u64);
        while left > 0 && self.prepared < end {
            let slot = &mut self.slots[Self::place(self.prepared)];
            if slot.is_empty() {
                let nonce = (self.opener.nonce_of)(self.prepared);
                slot.name(self.prepared, Nonce::assume_unique(nonce));
            }
            left -= slot.step_to(&self.opener.key, left, self.reach);
            if slot.is_ready(self.reach) {
                self.prepared += 1;
            }
        }
        budget - left
    }

    /// Reads the preparation of the next expected packet, as [`SealPool::touch`] does.
    pub fn touch(&self, bytes: usize) {
        let len = bytes.min(CAP).min(S::MAX_PAYLOAD);
        self.slots[Self::place(self.expected)].touch(len);
        S::touch(&self.opener.key.inner, len);
    }

    /// Decrypts packet `number` from `src` into `dst` if it is authentic. Otherwise `dst` is
    /// zeroed, and the preparation stays for the genuine packet. A number without a preparation is
    /// opened directly.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length.
    #[inline]
    pub fn open(
        &mut self,
        number: u64,
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &S::TagBytes,
    ) -> Result<(), AuthenticationError> {
        self.open_buffers(number, aad, Buffers::apart(src, dst), tag)
    }

    /// As [`open`](Self::open), in place.
    #[inline]
    pub fn open_in_place(
        &mut self,
        number: u64,
        aad: &[u8],
        buffer: &mut [u8],
        tag: &S::TagBytes,
    ) -> Result<(), AuthenticationError> {
        self.open_buffers(number, aad, Buffers::InPlace(buffer), tag)
    }

    /// As [`open_in_place`](Self::open_in_place), for a `packet` that ends with its tag. If it is
    /// authentic, the following number is expected next.
    #[inline(always)]
    pub fn open_next_in_place(
        &mut self,
        number: u64,
        aad: &[u8],
        packet: &mut [u8],
    ) -> Result<(), AuthenticationError> {
        let slot = &mut self.slots[Self::place(number)];
        let covered = |len| slot.covers(len);
        if number != self.expected
            || slot.number() != number
            || !packet.len().checked_sub(S::TagBytes::LEN).is_some_and(covered)
        {
            return self.open_unprepared_in_place(number, aad, packet);
        }
        // The slot is empty from here on.
        slot.open_tagged(&self.opener.key, aad, packet)?;
        self.expected = number.saturating_add(1);
        self.prepared = self.prepared.max(self.expected);
        Ok(())
    }

    /// Out of line, to keep the code for a prepared packet together.
    #[inline(never)]
    fn open_unprepared_in_place(
        &mut self,
        number: u64,
        aad: &[u8],
        packet: &mut [u8],
    ) -> Result<(), AuthenticationError> {
        let (buffer, Some(tag)) = S::TagBytes::split_last(packet) else { return Err(AuthenticationError) };
        self.open_in_place(number, aad, buffer, tag)?;
        self.expect_from(number.saturating_add(1));
        Ok(())
    }

    /// Verifies packet `number` with unencrypted data, given in pieces that are read as one.
    pub fn verify(
        &mut self,
        number: u64,
        aad: &[&[u8]],
        tag: &S::TagBytes,
    ) -> Result<(), AuthenticationError> {
        let key = &self.opener.key;
        let slot = &mut self.slots[Self::place(number)];
        if slot.number() == number && !slot.is_empty() {
            tag::check(&slot.authenticate(key, aad), tag)?;
            slot.wipe();
            return Ok(());
        }
        let mut once = zeroize::Zeroizing::new(S::OneTime::default());
        let nonce = (self.opener.nonce_of)(number);
        S::prepare_once(&key.inner, &nonce, &mut once);
        tag::check(&S::authenticate(&key.inner, &nonce, &once, aad), tag)
    }

    /// Slots that are fully prepared.
    pub fn prepared(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_ready(self.reach)).count()
    }

    #[inline]
    fn open_buffers(
        &mut self,
        number: u64,
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &S::TagBytes,
    ) -> Result<(), AuthenticationError> {
        let slot = &mut self.slots[Self::place(number)];
        if slot.number() == number && !slot.is_empty() {
            slot.open(&self.opener.key, aad, buffers, tag)
        } else {
            self.opener.key.open_buffers(&(self.opener.nonce_of)(number), aad, buffers, tag)
        }
    }

    const fn place(number: u64) -> usize {
        (number % SLOTS as u64) as usize
    }
}

impl<S: Suite, F: Fn(u64) -> S::NonceBytes, const SLOTS: usize, const CAP: usize> fmt::Debug
    for OpenPool<S, F, SLOTS, CAP>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenPool({}, {} of {SLOTS} prepared)", S::NAME, self.prepared())
    }
}

#[cfg(all(test, feature = "gcm", target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::Aes256Gcm;
    use core::mem::offset_of;

    struct Numbers;

    impl NonceSequence for Numbers {
        type Error = ();

        fn next(&mut self) -> Result<(u64, Nonce), ()> {
            Err(())
        }
    }

    type Sealing = SealPool<Aes256Gcm, Numbers, 16, 1600>;
    type Opening = OpenPool<Aes256Gcm, fn(u64) -> [u8; 12], 16, 1600>;

    #[test]
    fn hot_fields_fit_the_first_page() {
        let head = offset_of!(Sealing, sealer).max(offset_of!(Opening, opener));
        let key = offset_of!(Sealer<Aes256Gcm, Numbers>, key)
            .max(offset_of!(Opener<Aes256Gcm, fn(u64) -> [u8; 12]>, key));
        // A flow pool has one line in front.
        assert!(64 + head + key + crate::backend::x86::gcm_key::NEEDED <= 4096);
    }
}
