//! AES-CCM on x86-64. The serial CBC-MAC determines a packet's latency; the counter blocks run in
//! parallel.
//!
//! A MAC is held before its last AES round (`Mac`). AESENCLAST XORs its key operand last, so one
//! instruction adds the last round key, the next block and the first round key of the next
//! encryption.

use super::{
    cbc_mac::{Mac, first, from, into, load, number, store},
    ccm_rest::{open_rest, seal_block, seal_part, seal_rest, seal_some},
    partial,
};
use crate::{Backend, backend::portable::aes::RoundKeys, backend::words::in_words, buffers::Buffers};
use core::arch::x86_64::*;
use zeroize::Zeroize;

/// A key for AES with `R` rounds.
#[repr(C, align(64))]
pub struct Key<const R: usize> {
    pub(super) round_keys: [[u8; 16]; 15],
    wide: bool,
}

impl<const R: usize> Drop for Key<R> {
    fn drop(&mut self) {
        self.round_keys.zeroize();
    }
}

/// The blocks derived from a packet's nonce and sizes.
pub(crate) struct Header {
    pub(crate) b0: u128,
    /// Counter block 0.
    pub(crate) a0: u128,
    /// The prefix of the associated data and its length, 0 without associated data.
    pub(crate) prefix: u128,
    pub(crate) prefix_len: usize,
}

/// Source of the key stream.
#[derive(Clone, Copy)]
enum Source {
    /// Computed during the pass, from counter 1.
    Cipher,
    /// Prepared; covers the payload in whole blocks.
    Kept(*const u8),
    /// Like `Kept`, and overwritten with zeros after use.
    Wiped(*mut u8),
}

/// Four blocks of key stream; the counter is the last word, big-endian.
#[inline]
#[target_feature(enable = "sse4.1,aes,ssse3")]
fn four<const R: usize>(key: &Key<R>, a0: __m128i, counter: u32) -> [__m128i; 4] {
    let base = _mm_extract_epi32::<3>(a0) as u32;
    let mut x = [a0; 4];
    for (i, block) in x.iter_mut().enumerate() {
        let word = base ^ counter.wrapping_add(i as u32).swap_bytes();
        *block = _mm_xor_si128(_mm_insert_epi32::<3>(a0, word as i32), from(&key.round_keys[0]));
    }
    for round in &key.round_keys[1..R] {
        let k = from(round);
        for block in &mut x {
            *block = _mm_aesenc_si128(*block, k);
        }
    }
    x.map(|block| _mm_aesenclast_si128(block, from(&key.round_keys[R])))
}

/// Like [`four`], in one vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn wide<const R: usize>(key: &Key<R>, a0: __m128i, counter: u32) -> __m512i {
    let word = |i: u32| counter.wrapping_add(i).swap_bytes() as i32;
    let counters = _mm512_set_epi32(word(3), 0, 0, 0, word(2), 0, 0, 0, word(1), 0, 0, 0, word(0), 0, 0, 0);
    let round_key = |round: usize| _mm512_broadcast_i32x4(from(&key.round_keys[round]));
    let mut x = _mm512_xor_si512(_mm512_broadcast_i32x4(a0), counters);
    x = _mm512_xor_si512(x, round_key(0));
    for round in 1..R {
        x = _mm512_aesenc_epi128(x, round_key(round));
    }
    _mm512_aesenclast_epi128(x, round_key(R))
}

/// Key stream from 64-byte unit `first`.
///
/// # Safety
/// The CPU supports the instructions.
#[target_feature(enable = "avx512f,avx512bw,vaes")]
unsafe fn stream_wide<const R: usize>(key: &Key<R>, a0: &[u8; 16], first: usize, out: &mut [[u8; 64]]) {
    let a0 = from(a0);
    for (i, unit) in out.iter_mut().enumerate() {
        let x = wide(key, a0, 1u32.wrapping_add(4 * (first + i) as u32));
        // SAFETY: a unit has 64 bytes.
        unsafe { _mm512_storeu_si512(unit.as_mut_ptr().cast(), x) };
    }
}

/// Like [`stream_wide`].
///
/// # Safety
/// The CPU supports the instructions.
#[target_feature(enable = "sse4.1,aes,ssse3")]
unsafe fn stream_ni<const R: usize>(key: &Key<R>, a0: &[u8; 16], first: usize, out: &mut [[u8; 64]]) {
    let a0 = from(a0);
    for (i, unit) in out.iter_mut().enumerate() {
        let x = four(key, a0, 1u32.wrapping_add(4 * (first + i) as u32));
        for (bytes, x) in unit.as_chunks_mut::<16>().0.iter_mut().zip(x) {
            *bytes = into(x);
        }
    }
}

/// Encrypts blocks, eight at a time.
///
/// # Safety
/// The CPU supports the instructions.
#[target_feature(enable = "sse4.1,aes")]
unsafe fn encrypt<const R: usize>(key: &Key<R>, blocks: &mut [[u8; 16]]) {
    for some in blocks.chunks_mut(8) {
        let mut x = [_mm_setzero_si128(); 8];
        for (x, block) in x.iter_mut().zip(some.iter()) {
            *x = _mm_xor_si128(from(block), from(&key.round_keys[0]));
        }
        for round in &key.round_keys[1..R] {
            for x in &mut x {
                *x = _mm_aesenc_si128(*x, from(round));
            }
        }
        for (x, block) in x.iter().zip(some) {
            *block = into(_mm_aesenclast_si128(*x, from(&key.round_keys[R])));
        }
    }
}

/// Encrypts one block.
///
/// # Safety
/// The CPU supports the instructions.
#[target_feature(enable = "sse4.1,aes")]
unsafe fn encrypt_one<const R: usize>(key: &Key<R>, block: &mut [u8; 16]) {
    let x = Mac::<R>::rounds(key, _mm_xor_si128(from(block), from(&key.round_keys[0])));
    *block = into(_mm_aesenclast_si128(x, from(&key.round_keys[R])));
}

/// Starts a chain with B0 and the prefix.
///
/// # Safety
/// The CPU supports the instructions; the prefix has at most 16 bytes.
#[target_feature(enable = "sse4.1,aes,ssse3")]
unsafe fn begin_chain<const R: usize>(key: &Key<R>, chain: &mut [u8; 16], b0: u128, prefix: &[u8]) {
    let x = Mac::<R>::rounds(key, _mm_xor_si128(number(b0), from(&key.round_keys[0])));
    // SAFETY: the pointer and length come from the slice.
    let prefix = unsafe { partial::load(prefix.as_ptr(), prefix.len(), 0) };
    *chain = into(_mm_aesenclast_si128(x, _mm_xor_si128(prefix, from(&key.round_keys[R]))));
}

/// Adds bytes to a chain whose block holds `held` bytes, and encrypts it.
///
/// # Safety
/// The CPU supports the instructions; there are at most `16 - held` bytes.
#[target_feature(enable = "sse4.1,aes,ssse3")]
unsafe fn take_bytes<const R: usize>(key: &Key<R>, chain: &mut [u8; 16], held: usize, bytes: &[u8]) {
    // SAFETY: the pointer and length come from the slice.
    let block = unsafe { partial::load(bytes.as_ptr(), bytes.len(), held) };
    let x = _mm_xor_si128(_mm_xor_si128(from(chain), from(&key.round_keys[0])), block);
    *chain = into(_mm_aesenclast_si128(Mac::<R>::rounds(key, x), from(&key.round_keys[R])));
}

/// Continues the CBC-MAC over whole blocks.
///
/// # Safety
/// The CPU supports the instructions.
#[target_feature(enable = "sse4.1,aes")]
unsafe fn chain_blocks<const R: usize>(key: &Key<R>, chain: &mut [u8; 16], blocks: &[[u8; 16]]) {
    let [first, rest @ ..] = blocks else { return };
    let folded = _mm_xor_si128(_mm_xor_si128(from(chain), from(first)), from(&key.round_keys[0]));
    let mut mac = Mac::<R>::resume(key, folded);
    for block in rest {
        mac.add(key, from(block));
    }
    *chain = into(mac.value(key, _mm_setzero_si128()));
}

/// The payload as pointers: source and destination may be the same.
struct Payload {
    src: *const u8,
    dst: *mut u8,
    len: usize,
}

/// Processes a payload: one kernel for each way to compute key stream.
macro_rules! kernels {
    ($features:literal, $packet:ident, $payload:ident, |$key:ident, $a0:ident, $counter:ident| $four:expr) => {
        /// Processes the payload.
        ///
        /// # Safety
        /// The CPU supports the instructions; the pointers are valid for the payload's length, a
        /// prepared stream for that rounded up to whole blocks.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $payload<const R: usize, const SEAL: bool>(
            $key: &Key<R>,
            mac: &mut Mac<R>,
            $a0: __m128i,
            payload: &Payload,
            source: Source,
        ) {
            let &Payload { src, dst, len } = payload;
            let mut done = 0;
            let mut pads = [_mm_setzero_si128(); 4];
            while done < len {
                let unit = (len - done).min(64);
                // SAFETY: bytes from `done` to `len` are within the payload, and bytes up to the
                // end of the block are within the stream.
                unsafe {
                    match source {
                        Source::Cipher => {
                            let $counter = 1u32.wrapping_add((done / 16) as u32);
                            pads = $four;
                        }
                        Source::Kept(at) => {
                            for i in 0..unit.div_ceil(16) {
                                pads[i] = _mm_loadu_si128(at.add(done + 16 * i).cast());
                            }
                        }
                        Source::Wiped(at) => {
                            for i in 0..unit.div_ceil(16) {
                                let at = at.add(done + 16 * i).cast();
                                pads[i] = _mm_loadu_si128(at);
                                _mm_storeu_si128(at, _mm_setzero_si128());
                            }
                        }
                    }
                    for i in 0..unit / 16 {
                        let x = _mm_loadu_si128(src.add(done + 16 * i).cast());
                        let y = _mm_xor_si128(x, pads[i]);
                        _mm_storeu_si128(dst.add(done + 16 * i).cast(), y);
                        mac.add($key, if SEAL { x } else { y });
                    }
                    let (whole, left) = (unit / 16, unit % 16);
                    if left > 0 {
                        let x = load(src.add(done + 16 * whole), left);
                        let y = first(x ^ u128::from_le_bytes(into(pads[whole])), left);
                        store(dst.add(done + 16 * whole), left, y);
                        mac.add($key, number(if SEAL { x } else { y }));
                    }
                }
                done += unit;
            }
            if let Source::Wiped(at) = source {
                // SAFETY: the assembly reads nothing. It keeps the compiler from removing the
                // stores.
                unsafe { core::arch::asm!("/* {} */", in(reg) at, options(nostack, preserves_flags)) };
            }
        }

        /// A whole packet.
        ///
        /// # Safety
        /// As above.
        #[target_feature(enable = $features)]
        unsafe fn $packet<const R: usize, const SEAL: bool>(
            key: &Key<R>,
            header: &Header,
            aad: &[u8],
            payload: &Payload,
            source: Source,
            mask: Option<&[u8; 16]>,
        ) -> [u8; 16] {
            let mut mac = Mac::<R>::new(key, number(in_words(header.b0)));
            let a0 = number(in_words(header.a0));
            let mask = match mask {
                Some(mask) => from(mask),
                None => {
                    let x = Mac::<R>::rounds(key, _mm_xor_si128(a0, from(&key.round_keys[0])));
                    _mm_aesenclast_si128(x, from(&key.round_keys[R]))
                }
            };
            // SAFETY: guaranteed by the caller.
            unsafe {
                mac.associated(key, header, aad);
                $payload::<R, SEAL>(key, &mut mac, a0, payload, source);
            }
            into(mac.value(key, mask))
        }
    };
}

kernels!("sse4.1,aes,ssse3", packet_ni, payload_ni, |key, a0, counter| four(key, a0, counter));
kernels!("avx512f,avx512bw,avx512vl,vaes,sse4.1,aes,ssse3", packet_wide, payload_wide, |key, a0, counter| {
    let x = wide(key, a0, counter);
    [
        _mm512_castsi512_si128(x),
        _mm512_extracti32x4_epi32::<1>(x),
        _mm512_extracti32x4_epi32::<2>(x),
        _mm512_extracti32x4_epi32::<3>(x),
    ]
});

impl<const R: usize> Key<R> {
    /// Returns `None` unless the backend belongs to x86-64 and the CPU supports it.
    pub(crate) fn new(round_keys: &RoundKeys, backend: Backend) -> Option<Self> {
        let wide = match backend.min(super::detect()) {
            Backend::Portable | Backend::Ssse3 => return None,
            Backend::AesNi | Backend::Vaes => false,
            Backend::Avx512 => true,
        };
        assert_eq!(round_keys.rounds, R);
        Some(Self { round_keys: round_keys.blocks, wide })
    }

    #[inline]
    pub(crate) fn encrypt(&self, block: &mut [u8; 16]) {
        // SAFETY: keys exist only on a CPU with AES-NI and SSE4.1.
        unsafe { encrypt_one(self, block) }
    }

    pub(crate) fn encrypt_all(&self, blocks: &mut [[u8; 16]]) {
        // SAFETY: keys exist only on a CPU with AES-NI and SSE4.1.
        unsafe { encrypt(self, blocks) }
    }

    /// XORs the first round key into a chain.
    pub(crate) fn fold(&self, chain: &mut [u8; 16]) {
        crate::backend::blocks::xor_in(chain, &self.round_keys[0]);
    }

    /// Key stream from 64-byte unit `first`, starting at counter 1; `out` is a whole number of
    /// units.
    pub(crate) fn stream(&self, a0: &[u8; 16], first: usize, out: &mut [u8]) {
        let (units, _) = out.as_chunks_mut::<64>();
        // SAFETY: keys exist only on a CPU with AES-NI and SSE4.1, wide ones only with VAES and
        // AVX-512.
        unsafe {
            if self.wide { stream_wide(self, a0, first, units) } else { stream_ni(self, a0, first, units) }
        }
    }

    /// Starts a chain with B0, and adds the prefix of the associated data.
    pub(crate) fn begin(&self, chain: &mut [u8; 16], b0: u128, prefix: &[u8]) {
        assert!(prefix.len() <= 16);
        // SAFETY: keys exist only on a CPU with AES-NI and SSSE3; the prefix was checked.
        unsafe { begin_chain(self, chain, b0, prefix) }
    }

    /// Adds bytes to a chain whose block already holds `held` bytes, and encrypts it.
    pub(crate) fn take(&self, chain: &mut [u8; 16], held: usize, bytes: &[u8]) {
        assert!(held <= 16 && bytes.len() <= 16 - held);
        // SAFETY: keys exist only on a CPU with AES-NI and SSSE3; the bytes were checked.
        unsafe { take_bytes(self, chain, held, bytes) }
    }

    /// CBC-MAC over whole blocks: updates `chain` to the result after the last.
    pub(crate) fn chain(&self, chain: &mut [u8; 16], blocks: &[[u8; 16]]) {
        // SAFETY: keys exist only on a CPU with AES-NI and SSE4.1.
        unsafe { chain_blocks(self, chain, blocks) }
    }

    pub(crate) fn one_shot<const SEAL: bool>(
        &self,
        header: &Header,
        aad: &[u8],
        buffers: Buffers<'_>,
    ) -> [u8; 16] {
        self.packet::<SEAL>(header, aad, buffers, Source::Cipher, None)
    }

    /// `stream` covers the payload, is a whole number of units, and is wiped.
    #[inline]
    pub(crate) fn seal_prepared(
        &self,
        header: &Header,
        mask: &[u8; 16],
        stream: &mut [u8],
        aad: &[u8],
        buffers: Buffers<'_>,
    ) -> [u8; 16] {
        let used = buffers.len().next_multiple_of(16);
        assert!(used <= stream.len());
        let tag = self.packet::<true>(header, aad, buffers, Source::Wiped(stream.as_mut_ptr()), Some(mask));
        if used < stream.len() {
            crate::bytes::wipe(&mut stream[used..]);
        }
        tag
    }

    /// `stream` covers the payload, is a whole number of units, and is kept.
    #[inline]
    pub(crate) fn open_prepared(
        &self,
        header: &Header,
        mask: &[u8; 16],
        stream: &[u8],
        aad: &[u8],
        buffers: Buffers<'_>,
    ) -> [u8; 16] {
        assert!(buffers.len().next_multiple_of(16) <= stream.len());
        self.packet::<false>(header, aad, buffers, Source::Kept(stream.as_ptr()), Some(mask))
    }

    fn packet<const SEAL: bool>(
        &self,
        header: &Header,
        aad: &[u8],
        buffers: Buffers<'_>,
        source: Source,
        mask: Option<&[u8; 16]>,
    ) -> [u8; 16] {
        let payload = match buffers {
            Buffers::Apart(src, dst) => {
                assert_eq!(src.len(), dst.len());
                Payload { src: src.as_ptr(), dst: dst.as_mut_ptr(), len: dst.len() }
            }
            Buffers::InPlace(buffer) => {
                let start = buffer.as_mut_ptr();
                Payload { src: start.cast_const(), dst: start, len: buffer.len() }
            }
        };
        // SAFETY: keys exist only on a CPU with AES-NI and SSE4.1, wide ones only with VAES and
        // AVX-512. The pointers come from the buffers, and the callers have checked a prepared
        // stream.
        unsafe {
            if self.wide && payload.len > 16 && matches!(source, Source::Cipher) {
                packet_wide::<R, SEAL>(self, header, aad, &payload, source, mask)
            } else {
                packet_ni::<R, SEAL>(self, header, aad, &payload, source, mask)
            }
        }
    }

    /// Seals the end of a packet, from a chain that includes the first round key and `within` bytes
    /// of its next block. `out` holds all blocks that contain these bytes and the rest.
    #[inline(always)]
    pub(crate) fn seal_rest<const TAG: usize>(
        &self,
        chain: &[u8; 16],
        within: usize,
        rest: &[u8],
        out: &mut [u8],
        mask: &[u8; 16],
        tag: &mut [u8; TAG],
    ) {
        if let (0, Ok(block), Some(stream)) = (within, rest.try_into(), out.first_chunk_mut()) {
            // SAFETY: keys exist only on a CPU with AES-NI and SSE4.1; CCM has tags of at most 16
            // bytes.
            return unsafe { seal_block(self, chain, block, stream, mask, tag) };
        }
        let (src, len) = (rest.as_ptr(), rest.len());
        assert!(len > 0 && within < 16);
        if len <= 16 - within
            && !self.wide
            && let Some(block) = out.first_chunk_mut()
        {
            // SAFETY: keys exist only on a CPU with AES-NI, SSSE3 and SSE4.1; the rest was checked.
            return unsafe { seal_some(self, chain, src, len, within, block, mask, tag) };
        }
        let dst = out[within..][..len].as_mut_ptr();
        // SAFETY: keys exist only on a CPU with AES-NI and SSE4.1, wide ones only with AVX-512; the
        // rest was checked.
        unsafe {
            if self.wide && within + len <= 16 {
                seal_part(self, chain, src, len, within, dst, mask, tag);
            } else {
                seal_rest(self, chain, src, len, within, dst, mask, tag);
            }
        }
    }

    /// Opens the end of a packet, the inverse of [`seal_rest`](Self::seal_rest).
    #[inline]
    pub(crate) fn open_rest(
        &self,
        chain: &[u8; 16],
        within: usize,
        stream: &[u8],
        src: &[u8],
        dst: &mut [u8],
        mask: &[u8; 16],
    ) -> [u8; 16] {
        assert!(src.len() == dst.len() && src.len() == stream.len() && !src.is_empty() && within < 16);
        // SAFETY: keys exist only on a CPU with AES-NI and SSE4.1; the rest was checked.
        unsafe { open_rest(self, chain, within, stream, src, dst, mask) }
    }
}
