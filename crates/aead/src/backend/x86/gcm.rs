//! AES-GCM on x86-64: the expanded key, and the division of packets into segments, which a kernel
//! processes in one pass.
//!
//! The hash of up to [`POWERS`] blocks is a sum of products with powers of H, folded once. A packet
//! of the Ethernet MTU with its associated data and length block is one segment. A longer packet is
//! several; the hash so far is XORed into the first block of the next. Powers are stored in falling
//! order, so that one load fetches the powers for a vector of blocks, and end in zeros, so that
//! lanes after the last block count nothing.

pub(crate) use super::gcm_key::Key;
use super::{
    Holes, avx512, gcm_beside, gcm_holes,
    gcm_key::{Block, Constants, Halves, Kind, POWERS, Powers, Segment, Stream},
    gcm_vaes, gcm_whole, ni,
};
use crate::{
    Backend,
    backend::{
        modes::gcm::{Gcm, Predicted},
        portable::{aes::RoundKeys, ghash::Power},
    },
    buffers::Buffers,
    holes::{Filling, FillingOne, Head, Reading, Spot, Stretch, Template, Values},
};
use zeroize::Zeroize;

/// Payload bytes of one segment of a longer packet: whole vectors, with space for the length block,
/// and an even number of units for `gcm_beside`.
const LONG: usize = 104 * 16;
const _: () = assert!(gcm_beside::begins_at(LONG / 64));

/// Powers of H that are computed beside each other in a key's expansion: each from the one this far
/// below it, so that no product waits for the one before.
const BESIDE: usize = 8;

impl<const R: usize> Key<R> {
    /// Returns `None` unless the backend belongs to x86-64 and the CPU supports it.
    pub(crate) fn new(round_keys: &RoundKeys, backend: Backend) -> Option<Self> {
        let kind = match backend.min(super::detect()) {
            Backend::Portable | Backend::Ssse3 => return None,
            Backend::AesNi if super::has_avx2_and_avx512f().0 => Kind::Avx,
            Backend::AesNi => Kind::Ni,
            Backend::Vaes => Kind::Vaes,
            Backend::Avx512 => Kind::Avx512,
        };
        assert_eq!(round_keys.rounds, R);
        let (high, low, halves) = (Powers::zero(), Powers::zero(), Halves([0; POWERS + 8]));
        let holes = Holes::new(backend);
        let three = super::has_slow_wide_products();
        let round_keys = round_keys.blocks;
        let mut key = Self { round_keys, kind, holes, three, constants: Constants::NEW, high, low, halves };
        // SAFETY: every kind of key needs a CPU with AES-NI, PCLMULQDQ, SSSE3 and SSE4.1.
        let mut last = [unsafe { ni::hash_key(&key) }; BESIDE];
        for k in 1..=POWERS {
            let by = if k > BESIDE { BESIDE } else { 1 };
            if k > 1 {
                last[k % BESIDE] = key.product(last[(k - by) % BESIDE], &key.power(by));
            }
            // SAFETY: as above.
            let power = unsafe { ni::power(last[k % BESIDE]) };
            let i = POWERS - k;
            (key.high.0[i], key.low.0[i]) = (power.high, power.low);
            key.halves.0[i] = power.high as u64 ^ (power.high >> 64) as u64;
        }
        last.zeroize();
        Some(key)
    }

    /// The field product with H.
    pub(crate) fn times(&self, element: u128) -> u128 {
        // SAFETY: every kind of key needs a CPU with AES-NI, PCLMULQDQ, SSSE3 and SSE4.1.
        unsafe { ni::times(element, &self.power(1)) }
    }

    /// The product of a block and a power.
    pub(crate) fn product(&self, block: u128, power: &Power) -> u128 {
        // SAFETY: every kind of key needs a CPU with AES-NI, PCLMULQDQ, SSSE3 and SSE4.1.
        unsafe { ni::times(block, power) }
    }

    /// E(J0), which masks the tag.
    pub(crate) fn mask(&self, nonce: &[u8; 12], out: &mut u128) {
        // SAFETY: every kind of key needs a CPU with AES-NI, PCLMULQDQ, SSSE3 and SSE4.1.
        unsafe { ni::mask(self, nonce, out) }
    }

    /// Payload key stream from 64-byte unit `first`; `out` is a whole number of units.
    pub(crate) fn stream(&self, nonce: &[u8; 12], first: usize, out: &mut [u8]) {
        let (units, _) = out.as_chunks_mut::<64>();
        // SAFETY: the kind of key proves CPU support.
        unsafe {
            match self.kind {
                Kind::Ni | Kind::Avx => ni::stream(self, nonce, first, units),
                Kind::Vaes => gcm_vaes::stream(self, nonce, first, units),
                Kind::Avx512 => avx512::stream(self, nonce, first, units),
            }
        }
    }

    pub(crate) fn seal(&self, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        self.in_one_go::<true>(nonce, aad, buffers)
    }

    pub(crate) fn open(&self, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        self.in_one_go::<false>(nonce, aad, buffers)
    }

    /// A packet with nothing prepared.
    #[inline(always)]
    fn in_one_go<const SEAL: bool>(&self, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        if matches!(self.kind, Kind::Avx512) && aad.len().saturating_add(buffers.len()) <= (POWERS - 3) * 16 {
            // SAFETY: the kind of key proves CPU support; the pointers come from the buffers, and
            // the packet fits.
            return unsafe { gcm_whole::packet::<R, SEAL>(self, nonce, aad, buffers.into_pointers()) };
        }
        let mut mask = 0;
        self.mask(nonce, &mut mask);
        let mut tag = [0; 16];
        self.packet::<SEAL>(Stream::Cipher(nonce, 0), aad, buffers, &mask, &mut tag);
        tag
    }

    /// `stream` covers the payload, is a whole number of units, and is wiped.
    #[inline(always)]
    pub(crate) fn seal_prepared(
        &self,
        mask: &u128,
        stream: &mut [u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut [u8; 16],
    ) {
        self.used_up::<true>(mask, stream, aad, buffers, tag);
    }

    /// Processes a packet in one direction, then wipes all of `stream`.
    #[inline(always)]
    fn used_up<const SEAL: bool>(
        &self,
        mask: &u128,
        stream: &mut [u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut [u8; 16],
    ) {
        let used = buffers.len().next_multiple_of(64);
        assert!(used <= stream.len());
        self.packet::<SEAL>(Stream::Wiped(stream.as_mut_ptr()), aad, buffers, mask, tag);
        if used < stream.len() {
            self.wipe(&mut stream[used..]);
        }
    }

    /// `stream` covers the payload, is a whole number of units, and is kept.
    #[inline]
    pub(crate) fn open_prepared(
        &self,
        mask: &u128,
        stream: &[u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut [u8; 16],
    ) {
        assert!(buffers.len().next_multiple_of(64) <= stream.len());
        self.packet::<false>(Stream::Kept(stream.as_ptr()), aad, buffers, mask, tag);
    }

    /// Like [`open_prepared`](Self::open_prepared), but may wipe `stream` during the pass. Returns
    /// whether it did.
    #[inline(always)]
    pub(crate) fn open_and_wipe(
        &self,
        mask: &u128,
        stream: &mut [u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut [u8; 16],
    ) -> bool {
        let Kind::Vaes = self.kind else {
            self.open_prepared(mask, stream, aad, buffers, tag);
            return false;
        };
        self.used_up::<false>(mask, stream, aad, buffers, tag);
        true
    }

    /// Reads a byte of each cache line of constants and powers that a packet with `len` bytes of
    /// payload needs.
    pub(crate) fn touch(&self, len: usize) {
        core::hint::black_box(self.constants.fold as u8);
        let first = POWERS.saturating_sub(len.div_ceil(16));
        for power in self.high.0[first..].iter().step_by(4) {
            core::hint::black_box(*power as u8);
        }
    }

    /// The tag of associated data alone.
    pub(crate) fn authenticate(&self, mask: &u128, aad: &[&[u8]]) -> [u8; 16] {
        let mut hash = Block::default();
        let mut total = 0;
        let mut staged = [0; 1024];
        let mut held = 0;
        for piece in aad {
            let mut rest = *piece;
            total += rest.len();
            while held + rest.len() > staged.len() {
                let (now, later) = rest.split_at(staged.len() - held);
                staged[held..].copy_from_slice(now);
                hash = self.hash(&hash, &staged, None, total);
                (held, rest) = (0, later);
            }
            staged[held..][..rest.len()].copy_from_slice(rest);
            held += rest.len();
        }
        self.hash(&hash, &staged[..held], Some(mask), total).0
    }

    /// Encrypts a stretch and adds it to a hash.
    pub(crate) fn absorb(&self, hash: &mut u128, stretch: Stretch<'_>) {
        let Stretch { aad, payload, body, .. } = stretch;
        assert!(payload.len().next_multiple_of(64) <= body.len());
        let mut so_far = Block(hash.to_le_bytes());
        let (mut aad, mut done) = (aad, 0);
        loop {
            let (now, later) = aad.split_at(aad.len().min(POWERS * 16));
            aad = later;
            // Whole vectors beside the associated data.
            let room = (POWERS - now.len().div_ceil(16)) / 4 * 64;
            let len = if later.is_empty() { room.min(payload.len() - done) } else { 0 };
            let (src, at) = (payload.as_ptr().wrapping_add(done), body.as_mut_ptr().wrapping_add(done));
            let part =
                Segment { hash: &so_far, aad: now, src, total_aad: 0, dst: at, len, mask: None, total: 0 };
            // SAFETY: `done + len` is at most the payload's length, `done` is a whole number of
            // units, the body covers the payload in whole units, and the segment fits. The stream
            // is read before it is overwritten, vector by vector.
            so_far = unsafe { self.segment::<true>(&part, Stream::Kept(at)) };
            done += len;
            if later.is_empty() && done == payload.len() {
                break;
            }
        }
        *hash = u128::from_le_bytes(so_far.0);
    }

    /// Seals a template with the current contents of its holes, then removes those. The tag is then
    /// the MAC of all unchanging bytes, and the body is ready to be XORed with the values.
    pub(crate) fn prepare_whole(
        &self,
        nonce: &[u8; 12],
        sum: &mut Predicted,
        spots: &mut [Spot<Power>],
        template: &Template<'_>,
        body: &mut [u8],
    ) {
        let payload = template.payload();
        assert!(payload.len().next_multiple_of(16) <= body.len());
        let tag = self.seal(nonce, template.aad(), Buffers::Apart(payload, &mut body[..payload.len()]));
        let hash = &mut sum.hash;
        // SAFETY: `holes` proves CPU support; a slot's pieces are its template's, and the body
        // covers the payload in whole blocks.
        unsafe {
            match self.holes {
                Holes::Affine(_) => gcm_holes::affine::take_out(self, spots, template, body, &tag, hash),
                Holes::Masked(_) => gcm_holes::masks::take_out(self, spots, template, body, &tag, hash),
                Holes::Ni(()) => gcm_holes::ssse3::take_out(self, spots, template, body, &tag, hash),
            }
        }
        sum.holes = Some(self.holes);
    }

    /// How to fill holes.
    pub(crate) fn holes(&self) -> Holes {
        self.holes
    }

    /// Writes values into a prepared packet.
    pub(crate) fn fill<S: Gcm, V: Values, const N: usize>(&self, filling: Filling<'_, S, V, N>) {
        self.holes.fill(filling);
    }

    /// Reads the values of a received packet and returns the expected tag.
    pub(crate) fn check<S: Gcm, const N: usize>(&self, reading: Reading<'_, S, N>) -> [u8; 16] {
        self.holes.check(reading)
    }

    /// Wipes whole units.
    #[inline]
    pub(crate) fn wipe(&self, bytes: &mut [u8]) {
        match self.kind {
            Kind::Ni | Kind::Avx | Kind::Vaes => crate::bytes::wipe(bytes),
            // SAFETY: the kind of key proves CPU support.
            Kind::Avx512 => unsafe { avx512::wipe(bytes) },
        }
    }

    /// Processes a packet in one direction and returns the expected tag.
    #[inline(always)]
    fn packet<const SEAL: bool>(
        &self,
        stream: Stream<'_>,
        aad: &[u8],
        buffers: Buffers<'_>,
        mask: &u128,
        tag: &mut [u8; 16],
    ) {
        let (src, dst, len) = buffers.into_pointers();
        // Leaves space for the length block and two padded ones.
        if aad.len().saturating_add(len) <= (POWERS - 3) * 16 {
            // SAFETY: the kind of key proves CPU support; the pointers come from the buffers, and
            // the packet fits.
            unsafe {
                match (self.kind, stream) {
                    (Kind::Avx512, Stream::Kept(at)) => {
                        let at = at.cast_mut();
                        avx512::packet::<R, SEAL, false>(self, aad, src, at, len, dst, mask, tag);
                        return;
                    }
                    (Kind::Avx512, Stream::Wiped(at)) => {
                        avx512::packet::<R, SEAL, true>(self, aad, src, at, len, dst, mask, tag);
                        return;
                    }
                    (Kind::Vaes, Stream::Wiped(at)) => {
                        gcm_vaes::packet(&self.high, aad, src, at, len, dst, SEAL, mask, tag);
                        return;
                    }
                    _ => {}
                }
            }
        }
        // SAFETY: the pointers come from the buffers.
        unsafe { self.segments::<SEAL>(stream, aad, (src, dst, len), mask, tag) };
    }

    /// Like [`packet`](Self::packet), in segments. Out of line, away from the code for prepared
    /// packets of usual length.
    ///
    /// # Safety
    /// The pointers are valid for `len` bytes, and those of `stream` for `len` rounded up to whole
    /// units.
    #[inline(never)]
    unsafe fn segments<const SEAL: bool>(
        &self,
        stream: Stream<'_>,
        aad: &[u8],
        (src, dst, len): (*const u8, *mut u8, usize),
        mask: &u128,
        tag: &mut [u8; 16],
    ) {
        let hash = &Block([0; 16]);
        let whole = Segment { hash, aad, src, total_aad: aad.len(), dst, len, mask: Some(mask), total: len };
        if whole.blocks() <= POWERS {
            // SAFETY: guaranteed by the caller, and the packet fits.
            *tag = unsafe { self.segment::<SEAL>(&whole, stream).0 };
        } else {
            // SAFETY: guaranteed by the caller.
            *tag = unsafe { self.long::<SEAL>(whole, stream).0 };
        }
    }

    /// A packet of several segments.
    ///
    /// # Safety
    /// The pointers of `whole` and `stream` are valid for its length (in `stream` rounded up to
    /// whole units).
    #[cold]
    unsafe fn long<const SEAL: bool>(&self, whole: Segment<'_>, stream: Stream<'_>) -> Block {
        let mut hash = Block::default();
        for aad in whole.aad.chunks(POWERS * 16) {
            hash = self.hash(&hash, aad, None, 0);
        }
        let mut done = 0;
        loop {
            let len = (whole.len - done).min(LONG);
            let last = done + len == whole.len;
            let part = Segment {
                hash: &hash,
                aad: &[],
                src: whole.src.wrapping_add(done),
                dst: whole.dst.wrapping_add(done),
                len,
                mask: whole.mask.filter(|_| last),
                ..whole
            };
            // SAFETY: done + len is at most the whole length, done is a whole number of units, and
            // the segment fits.
            hash = unsafe { self.segment::<SEAL>(&part, stream.skip(done)) };
            if last {
                return hash;
            }
            done += len;
        }
    }

    /// Adds padded bytes to a hash, at most as many as a segment holds.
    fn hash(&self, hash: &Block, bytes: &[u8], mask: Option<&u128>, total_aad: usize) -> Block {
        let nothing = &mut [];
        let (src, dst) = (nothing.as_ptr(), nothing.as_mut_ptr());
        let part = Segment { hash, aad: bytes, src, total_aad, dst, len: 0, mask, total: 0 };
        assert!(part.blocks() <= POWERS);
        // SAFETY: no payload is read or written, and the segment fits.
        unsafe { self.segment::<true>(&part, Stream::Kept(nothing.as_ptr())) }
    }

    /// Processes one segment with the kernel for this key.
    ///
    /// # Safety
    /// The pointers are valid for the segment's length (in `stream` rounded up to whole units), and
    /// the segment has at most [`POWERS`] blocks.
    unsafe fn segment<const SEAL: bool>(&self, segment: &Segment<'_>, stream: Stream<'_>) -> Block {
        debug_assert!(segment.blocks() <= POWERS);
        // SAFETY: the kind of key proves CPU support; the caller guarantees the rest.
        unsafe {
            match (self.kind, stream) {
                (Kind::Avx | Kind::Ni, Stream::Cipher(nonce, unit)) if segment.len >= gcm_beside::FROM => {
                    gcm_beside::segment::<R, SEAL>(self, segment, nonce, unit)
                }
                (Kind::Avx, _) => ni::segment_avx::<R, SEAL>(self, segment, stream),
                (Kind::Ni, _) => ni::segment::<R, SEAL>(self, segment, stream),
                (Kind::Vaes, Stream::Kept(at)) => gcm_vaes::prepared(&self.high, SEAL, segment, at),
                (Kind::Vaes, Stream::Wiped(at)) => {
                    let result = gcm_vaes::prepared(&self.high, SEAL, segment, at);
                    let used = segment.len.next_multiple_of(64);
                    crate::bytes::wipe(core::slice::from_raw_parts_mut(at, used));
                    result
                }
                (Kind::Vaes, Stream::Cipher(nonce, unit)) if segment.len >= gcm_vaes::FROM => {
                    gcm_vaes::segment::<R, SEAL>(self, segment, nonce, unit)
                }
                (Kind::Vaes, Stream::Cipher(..)) => ni::segment_avx::<R, SEAL>(self, segment, stream),
                (Kind::Avx512, Stream::Kept(at)) => {
                    avx512::prepared::<R, SEAL, false, false, false>(self, segment, at.cast_mut())
                }
                (Kind::Avx512, Stream::Wiped(at)) => {
                    avx512::prepared::<R, SEAL, true, false, false>(self, segment, at)
                }
                (Kind::Avx512, Stream::Cipher(nonce, unit)) => {
                    avx512::unprepared::<R, SEAL>(self, segment, nonce, unit)
                }
            }
        }
    }
}

impl Holes {
    /// Writes values into a prepared packet.
    #[inline(always)]
    pub(crate) fn fill<S: Gcm, V: Values, const N: usize>(self, filling: Filling<'_, S, V, N>) {
        let (head, values, body) = filling.parts();
        // SAFETY: `self` proves CPU support; the parts come from a `Filling`.
        unsafe {
            match self {
                Self::Affine(_) => gcm_holes::affine::fill(head, values, body),
                Self::Masked(_) => gcm_holes::masks::fill(head, values, body),
                Self::Ni(()) => gcm_holes::ssse3::fill(head, values, body),
            }
        }
    }

    /// Writes a value into a prepared packet that has one hole, a whole block.
    #[inline(always)]
    pub(crate) fn fill_one<S: Gcm, const N: usize>(self, filling: FillingOne<'_, S, N>) -> bool {
        let (head, value, body) = filling.parts();
        // SAFETY: `self` proves CPU support; the parts come from a `FillingOne`.
        unsafe {
            match self {
                Self::Affine(_) => gcm_holes::affine::fill_one(head, value, body),
                _ => self.fill_one_otherwise(head, value, body),
            }
        }
    }

    /// Out of line, so that the main case is a comparison and not a jump table.
    ///
    /// # Safety
    /// All three come from one [`FillingOne`].
    #[inline(never)]
    unsafe fn fill_one_otherwise<S: Gcm, const N: usize>(
        self,
        head: &mut Head<S, N>,
        value: &[u8; 16],
        body: &mut [u8],
    ) -> bool {
        // SAFETY: `self` proves CPU support; the caller guarantees the rest.
        unsafe {
            match self {
                Self::Affine(_) => gcm_holes::affine::fill_one(head, value, body),
                Self::Masked(_) => gcm_holes::masks::fill_one(head, value, body),
                Self::Ni(()) => gcm_holes::ssse3::fill_one(head, value, body),
            }
        }
    }

    /// Reads the values of a received packet and returns the expected tag.
    #[inline(always)]
    pub(crate) fn check<S: Gcm, const N: usize>(self, reading: Reading<'_, S, N>) -> [u8; 16] {
        let (head, aad, src, body, dst) = reading.parts();
        // SAFETY: `self` proves CPU support; the parts come from a `Reading`.
        unsafe {
            match self {
                Self::Affine(_) => gcm_holes::affine::check(head, aad, src, body, dst),
                Self::Masked(_) => gcm_holes::masks::check(head, aad, src, body, dst),
                Self::Ni(()) => gcm_holes::ssse3::check(head, aad, src, body, dst),
            }
        }
    }
}

#[cfg(test)]
#[path = "gcm_tests.rs"]
mod tests;
