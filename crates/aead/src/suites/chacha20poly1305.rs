//! ChaCha20-Poly1305 (RFC 8439 section 2.8).
//!
//! The nonce gives the key stream and, from its block 0, the one-time key (r, s) of Poly1305. An
//! XOR and a polynomial in r are left for the data.

#[cfg(all(
    target_arch = "aarch64",
    target_endian = "little",
    target_pointer_width = "64",
    target_feature = "neon"
))]
use crate::backend::arm::chacha20 as usual;
#[cfg(not(any(
    all(target_arch = "x86_64", target_feature = "sse2"),
    all(
        target_arch = "aarch64",
        target_endian = "little",
        target_pointer_width = "64",
        target_feature = "neon"
    )
)))]
use crate::backend::portable::chacha20 as usual;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::backend::x86::chacha20_sse2 as usual;
#[cfg(target_arch = "x86_64")]
use crate::backend::x86::{Avx512, chacha20_avx2::Avx2, chacha20_ssse3::AnySsse3, chacha20poly1305::Powers};
#[cfg(target_pointer_width = "64")]
use crate::holes::FillingOne;
use crate::{
    Backend, Suite,
    backend::portable::{
        pieces,
        poly1305::{self, Limbs, Poly1305},
        poly1305_holes::{self as holes, Prepared},
    },
    buffers::Buffers,
    bytes::{Tagged, wipe},
    holes::{Filling, Piece, Reading, Shape, Spot, Stretch, Values, WeightedMac, block_at, xor_block_at},
    suites::{
        engine::{Engine, UNIT, at_most},
        sparse::SparseEngine,
    },
};
use zeroize::Zeroize;

/// ChaCha20-Poly1305 with a key of 256 bits.
#[derive(Clone, Copy, Debug)]
pub struct ChaCha20Poly1305;

impl Suite for ChaCha20Poly1305 {
    const NAME: &'static str = "chacha20-poly1305";
    const KEY_LEN: usize = 32;
}

/// Bytes of key stream that a packet without a preparation makes at a time: a multiple of the
/// widest kernel's chunk, and few on a microcontroller with its small stack.
const BATCH: usize = if cfg!(target_pointer_width = "64") { 16 * UNIT } else { UNIT };

/// The key as words, and its backend's kernels.
pub struct Expanded {
    words: [u32; 8],
    #[cfg(target_arch = "x86_64")]
    avx512: Option<Avx512>,
    /// For CPUs without AVX-512.
    #[cfg(target_arch = "x86_64")]
    avx2: Option<Avx2>,
    /// For CPUs without AVX2.
    #[cfg(target_arch = "x86_64")]
    ssse3: Option<AnySsse3>,
}

impl Drop for Expanded {
    fn drop(&mut self) {
        self.words.zeroize();
    }
}

/// The one-time key of Poly1305.
#[derive(Default)]
pub(crate) struct Mac {
    r: Limbs,
    s: [u8; 16],
    /// r^2 to r^4.
    #[cfg(target_pointer_width = "64")]
    higher: [Limbs; 3],
}

impl Zeroize for Mac {
    fn zeroize(&mut self) {
        self.r.zeroize();
        crate::bytes::wipe(&mut self.s);
        #[cfg(target_pointer_width = "64")]
        self.higher.zeroize();
    }
}

impl Drop for Mac {
    fn drop(&mut self) {
        self.zeroize();
    }
}

/// The one-time key, and the powers of r if the backend uses them.
#[derive(Default)]
pub struct OneTime {
    mac: Mac,
    #[cfg(target_arch = "x86_64")]
    powers: Powers,
    /// The kernels of the powers, if not those of AVX-512.
    #[cfg(target_arch = "x86_64")]
    avx2: Option<Avx2>,
}

impl Zeroize for OneTime {
    fn zeroize(&mut self) {
        self.mac.zeroize();
        #[cfg(target_arch = "x86_64")]
        self.wipe_powers();
    }
}

#[cfg(target_arch = "x86_64")]
impl OneTime {
    fn prepare(&mut self, avx512: Avx512, key: &Expanded, nonce: &[u8; 12], out: &mut [u8]) {
        let once = (&mut self.mac.r, &mut self.mac.s, &mut self.powers);
        avx512.prepare(&key.words, nonce, once, out);
    }

    fn prepare_avx2(
        &mut self,
        avx2: Avx2,
        key: &Expanded,
        nonce: &[u8; 12],
        template: Option<usize>,
        out: &mut [u8],
    ) {
        self.avx2 = Some(avx2);
        let once = (&mut self.mac.r, &mut self.mac.s, &mut self.powers);
        avx2.prepare(&key.words, nonce, once, template, out);
    }

    fn wipe_powers(&mut self) {
        match self.avx2.take() {
            Some(avx2) => avx2.wipe(&mut self.powers),
            None => self.powers.zeroize(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for OneTime {
    fn drop(&mut self) {
        self.wipe_powers();
    }
}

impl Expanded {
    /// Takes the one-time key from the first block.
    fn once(&self, first: &mut [u8; 32], mac: &mut Mac) {
        let ([r, s], _) = first.as_chunks::<16>() else { return };
        mac.r = Limbs::clamped(r);
        mac.s = *s;
        wipe(first);
    }

    /// As [`once`](Self::once), with the powers of r for [`Mac::tag`].
    fn once_with_powers(&self, first: &mut [u8; 32], mac: &mut Mac) {
        self.once(first, mac);
        #[cfg(target_pointer_width = "64")]
        {
            mac.higher = poly1305::higher(&mac.r);
        }
    }

    /// Key stream from block `counter` on; `out` is a whole number of blocks.
    fn stream(&self, counter: u32, nonce: &[u8; 12], out: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = self.avx2 {
            return avx2.stream(&self.words, counter, nonce, out);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(ssse3) = self.ssse3 {
            return ssse3.stream(&self.words, counter, nonce, out);
        }
        usual::stream(&self.words, counter, nonce, out);
    }

    /// Makes the first key stream of a packet without a preparation, and takes the one-time key
    /// from it.
    #[cfg(target_pointer_width = "64")]
    fn begin(&self, nonce: &[u8; 12], len: usize, stream: &mut [u8; BATCH]) -> Mac {
        let needed = (UNIT + len).next_multiple_of(UNIT).min(BATCH);
        self.stream(0, nonce, &mut stream[..needed]);
        let mut mac = Mac::default();
        if let Some(first) = stream.first_chunk_mut() {
            self.once_with_powers(first, &mut mac);
        }
        mac
    }

    /// XORs the payload with that key stream, and makes the rest of it.
    #[cfg(target_pointer_width = "64")]
    fn finish(&self, nonce: &[u8; 12], data: &mut [u8], stream: &mut [u8; BATCH]) {
        let (now, later) = data.split_at_mut(data.len().min(BATCH - UNIT));
        pieces::xor(now, &stream[UNIT..]);
        let mut used = (UNIT + now.len()).next_multiple_of(UNIT);
        for (counter, part) in (1..).zip(later.chunks_mut(BATCH)) {
            let needed = part.len().next_multiple_of(UNIT);
            self.stream(counter * (BATCH / UNIT) as u32, nonce, &mut stream[..needed]);
            pieces::xor(part, stream);
            used = used.max(needed);
        }
        wipe(&mut stream[..used]);
    }

    /// XORs the payload.
    #[cfg(not(target_pointer_width = "64"))]
    fn xor(&self, nonce: &[u8; 12], data: &mut [u8]) {
        let mut stream = [0; BATCH];
        let mut counter = 1;
        for part in data.chunks_mut(BATCH) {
            let needed = part.len().next_multiple_of(UNIT);
            self.stream(counter, nonce, &mut stream[..needed]);
            pieces::xor(part, &stream);
            counter += (BATCH / UNIT) as u32;
        }
        stream.zeroize();
    }

    /// r^k.
    fn power(&self, once: &OneTime, k: usize) -> Limbs {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx512) = self.avx512 {
            return avx512.power(&once.powers, k);
        }
        once.mac.r.to_the(k)
    }

    /// The one-time key, from the first block alone.
    fn lone(&self, nonce: &[u8; 12], mac: &mut Mac) {
        #[cfg(target_pointer_width = "64")]
        {
            let mut first = [0; UNIT];
            self.stream(0, nonce, &mut first);
            let (key, rest) = first.split_at_mut(32);
            if let Some(key) = key.first_chunk_mut() {
                self.once_with_powers(key, mac);
            }
            wipe(rest);
        }
        // Half of a block suffices if words are computed one by one.
        #[cfg(not(target_pointer_width = "64"))]
        {
            let mut first = [0; 32];
            usual::block(&self.words, 0, nonce, &mut first);
            self.once_with_powers(&mut first, mac);
        }
    }
}

impl Mac {
    fn tag(&self, aad: &[&[u8]], ciphertext: &[u8]) -> [u8; 16] {
        let mut poly = Poly1305::new(&self.r);
        let aad_len = pieces::padded(aad, |block| poly.block(block));
        let rest = ciphertext;
        #[cfg(target_pointer_width = "64")]
        let rest = {
            let (fours, rest) = rest.as_chunks::<64>();
            #[cfg(all(
                target_arch = "aarch64",
                target_endian = "little",
                target_pointer_width = "64",
                target_feature = "neon"
            ))]
            crate::backend::arm::poly1305::fours(&mut poly, fours, &self.higher);
            #[cfg(not(all(
                target_arch = "aarch64",
                target_endian = "little",
                target_pointer_width = "64",
                target_feature = "neon"
            )))]
            poly.fours(fours, &self.higher);
            rest
        };
        pieces::padded(&[rest], |block| poly.block(block));
        poly.block(&lengths(aad_len, ciphertext.len()));
        poly1305::finish(&poly.value(), &self.s)
    }
}

/// The last block of the MAC: both lengths in bytes.
fn lengths(aad: usize, payload: usize) -> [u8; 16] {
    ((aad as u128) | (payload as u128) << 64).to_le_bytes()
}

impl Tagged for ChaCha20Poly1305 {
    type TagBytes = [u8; 16];
}

impl Engine for ChaCha20Poly1305 {
    type Key = Expanded;
    type OneTime = OneTime;
    type NonceBytes = [u8; 12];
    const STREAMS: bool = true;
    // RFC 8439 section 2.8: block 0 is the MAC's.
    const MAX_PAYLOAD: usize = at_most((1 << 38) - 64);

    fn expand(key: &[u8], backend: Backend) -> Expanded {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let _ = backend;
        Expanded {
            words,
            #[cfg(target_arch = "x86_64")]
            avx512: Avx512::new(backend),
            #[cfg(target_arch = "x86_64")]
            avx2: Avx2::new(backend),
            #[cfg(target_arch = "x86_64")]
            ssse3: AnySsse3::new(backend),
        }
    }

    fn prepare_once(key: &Expanded, nonce: &[u8; 12], once: &mut OneTime) {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx512) = key.avx512 {
            return once.prepare(avx512, key, nonce, &mut []);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = key.avx2 {
            return once.prepare_avx2(avx2, key, nonce, None, &mut []);
        }
        key.lone(nonce, &mut once.mac);
    }

    fn prepare_stream(key: &Expanded, nonce: &[u8; 12], first: usize, out: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx512) = key.avx512 {
            return avx512.stream(&key.words, 1 + first as u32, nonce, out);
        }
        key.stream(1 + first as u32, nonce, out);
    }

    #[cfg(target_arch = "x86_64")]
    fn prepare_with_stream(
        key: &Expanded,
        nonce: &[u8; 12],
        once: &mut OneTime,
        out: &mut [u8],
        template: Option<usize>,
    ) {
        if let Some(avx512) = key.avx512 {
            return once.prepare(avx512, key, nonce, out);
        }
        if let Some(avx2) = key.avx2 {
            return once.prepare_avx2(avx2, key, nonce, template, out);
        }
        Self::prepare_once(key, nonce, once);
        Self::prepare_stream(key, nonce, 0, out);
    }

    fn seal(key: &Expanded, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx512) = key.avx512 {
            return avx512.seal(&key.words, nonce, aad, buffers);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = key.avx2 {
            return avx2.seal(&key.words, nonce, aad, buffers);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(ssse3) = key.ssse3 {
            return ssse3.seal(&key.words, nonce, aad, buffers);
        }
        let data = buffers.into_in_place();
        #[cfg(target_pointer_width = "64")]
        {
            let mut stream = [0; BATCH];
            let mac = key.begin(nonce, data.len(), &mut stream);
            key.finish(nonce, data, &mut stream);
            mac.tag(&[aad], data)
        }
        #[cfg(not(target_pointer_width = "64"))]
        {
            key.xor(nonce, data);
            let mut mac = Mac::default();
            key.lone(nonce, &mut mac);
            mac.tag(&[aad], data)
        }
    }

    fn open(key: &Expanded, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx512) = key.avx512 {
            return avx512.open(&key.words, nonce, aad, buffers);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = key.avx2 {
            return avx2.open(&key.words, nonce, aad, buffers);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(ssse3) = key.ssse3 {
            return ssse3.open(&key.words, nonce, aad, buffers);
        }
        let data = buffers.into_in_place();
        #[cfg(target_pointer_width = "64")]
        {
            let mut stream = [0; BATCH];
            let tag = key.begin(nonce, data.len(), &mut stream).tag(&[aad], data);
            key.finish(nonce, data, &mut stream);
            tag
        }
        #[cfg(not(target_pointer_width = "64"))]
        {
            let mut mac = Mac::default();
            key.lone(nonce, &mut mac);
            let tag = mac.tag(&[aad], data);
            key.xor(nonce, data);
            tag
        }
    }

    fn seal_prepared(
        key: &Expanded,
        _nonce: &[u8; 12],
        once: &OneTime,
        stream: &mut [u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut [u8; 16],
    ) {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx512) = key.avx512 {
            *tag = avx512.seal_prepared(&once.powers, &once.mac.s, stream, aad, buffers);
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = key.avx2 {
            *tag = avx2.seal_prepared(&once.powers, &once.mac.s, stream, aad, buffers);
            return;
        }
        let _ = key;
        let data = buffers.into_in_place();
        pieces::xor(data, stream);
        wipe(stream);
        *tag = once.mac.tag(&[aad], data);
    }

    fn open_prepared(
        key: &Expanded,
        _nonce: &[u8; 12],
        once: &OneTime,
        stream: &[u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut [u8; 16],
    ) {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx512) = key.avx512 {
            *tag = avx512.open_prepared(&once.powers, &once.mac.s, stream, aad, buffers);
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = key.avx2 {
            *tag = avx2.open_prepared(&once.powers, &once.mac.s, stream, aad, buffers);
            return;
        }
        let _ = key;
        let data = buffers.into_in_place();
        *tag = once.mac.tag(&[aad], data);
        pieces::xor(data, stream);
    }

    fn authenticate(key: &Expanded, _nonce: &[u8; 12], once: &OneTime, aad: &[&[u8]]) -> [u8; 16] {
        #[cfg(target_arch = "x86_64")]
        if let (Some(avx512), [whole]) = (key.avx512, aad) {
            return avx512.tag(&once.powers, &once.mac.s, whole, &[]);
        }
        #[cfg(target_arch = "x86_64")]
        if let (Some(avx2), [whole]) = (key.avx2, aad) {
            return avx2.tag(&once.powers, &once.mac.s, whole, &[]);
        }
        let _ = key;
        once.mac.tag(aad, &[])
    }
}

impl WeightedMac for ChaCha20Poly1305 {
    type Sum = Prepared;
    type Weight = holes::Weight;
}

impl SparseEngine for ChaCha20Poly1305 {
    const BY_BLOCK: bool = false;

    fn absorb(
        key: &Expanded,
        once: &OneTime,
        sum: &mut Prepared,
        _spots: &[Spot<Self::Weight>],
        stretch: Stretch<'_>,
    ) {
        let Stretch { aad, payload, body, .. } = stretch;
        #[cfg(target_arch = "x86_64")]
        if let Some(avx512) = key.avx512 {
            return avx512.absorb(&once.powers, &mut sum.polynomial, aad, payload, body);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = key.avx2 {
            return avx2.absorb(&once.powers, &mut sum.polynomial, aad, payload, body);
        }
        let _ = key;
        let body = &mut body[..payload.len()];
        pieces::xor(body, payload);
        let mut running = Poly1305::resume(&once.mac.r, &sum.polynomial);
        pieces::padded(&[aad], |block| running.block(block));
        pieces::padded(&[body], |block| running.block(block));
        sum.polynomial = running.value();
    }

    fn close(key: &Expanded, once: &OneTime, sum: &mut Prepared, shape: &Shape) {
        let mut running = Poly1305::resume(&once.mac.r, &sum.polynomial);
        running.block(&lengths(shape.aad, shape.payload));
        sum.polynomial = running.value();
        sum.s = once.mac.s;
        let _ = key;
        #[cfg(target_arch = "x86_64")]
        {
            sum.avx512 = key.avx512;
        }
    }

    // XOR with a value is no difference modulo 2^130 - 5. So the sum excludes the piece's
    // ciphertext bytes, including their key stream; `fill` adds the final ones.
    fn weigh(
        key: &Expanded,
        once: &OneTime,
        sum: &mut Prepared,
        shape: &Shape,
        piece: &Piece,
        block: u128,
        body: &mut [u8],
    ) -> Self::Weight {
        let had = block & piece.bits();
        let weight = key.power(once, shape.distance(piece.block(shape)));
        let mut there = had;
        if piece.in_payload() {
            there = block_at(body, piece.at()) & piece.bits();
            xor_block_at(body, piece.at(), had);
        }
        sum.polynomial = sum.polynomial.minus(&Limbs::split(there).times(&weight));
        weight.into()
    }

    #[inline(always)]
    fn fill<V: Values, const N: usize>(key: &Expanded, filling: Filling<'_, Self, V, N>) {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx512) = filling.sum().avx512 {
            return avx512.fill_poly1305(filling);
        }
        let _ = key;
        let (head, values, body) = filling.parts();
        holes::fill(head, values, body);
    }

    #[inline(always)]
    #[cfg(target_pointer_width = "64")]
    fn fill_one<const N: usize>(filling: FillingOne<'_, Self, N>) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx512) = filling.sum().avx512 {
            return avx512.fill_one_poly1305(filling);
        }
        let (head, value, body) = filling.parts();
        holes::fill_one(head, value, body)
    }

    #[inline(always)]
    fn check<const N: usize>(key: &Expanded, reading: Reading<'_, Self, N>) -> [u8; 16] {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx512) = reading.sum().avx512 {
            return avx512.check_poly1305(reading);
        }
        let _ = key;
        let (head, aad, src, body, dst) = reading.parts();
        holes::check(head, aad, src, body, dst)
    }
}
