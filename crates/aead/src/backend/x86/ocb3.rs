//! AES-OCB3 on x86-64: the expanded key, and AES-NI kernels, eight blocks at a time.
//!
//! A short packet is bound by latency. Its encryptions depend on each other only where the standard
//! requires it, and the CPU overlaps the others, provided that nothing is written to memory in
//! bytes or words and read back as a vector.
//!
//! In an aligned group of 8 or 16 blocks, the offsets are the group's first one plus the values for
//! Gray codes 1, 2, 3, ..., which are the same in all groups. Only the last block differs: its step
//! is L_ntz.

use super::{ocb3_holes as holes, ocb3_wide as wide, partial};
use crate::{
    Backend,
    backend::{
        modes::{ocb3::Masks, ocb3_holes::Mac},
        portable::aes::{Aes, RoundKeys},
    },
    buffers::Buffers,
    holes::{Filling, Reading, Values},
};
use core::arch::x86_64::*;
use zeroize::Zeroize;

/// An AES-128 key for encryption and decryption, with the masks.
#[repr(C, align(64))]
pub struct Key {
    /// Offsets within a group of 16 except its last block, starting with zeros for block 0.
    pub(super) gray: [u128; 16],
    pub(super) encrypt: [[u8; 16]; 11],
    pub(super) decrypt: [[u8; 16]; 11],
    pub(crate) masks: Masks,
    wide: bool,
}

impl Drop for Key {
    fn drop(&mut self) {
        self.gray.zeroize();
        self.encrypt.zeroize();
        self.decrypt.zeroize();
    }
}

/// Start of a packet's offsets.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
    /// A nonce, whose block is still to be encrypted.
    Nonce(&'a [u8; 12]),
    /// The nonce's offset, already prepared.
    Offset(u128),
}

/// A packet. The pointers are to `len` bytes, and may be equal.
pub(super) struct Packet<'a> {
    pub(super) start: Start<'a>,
    pub(super) aad: &'a [u8],
    pub(super) src: *const u8,
    pub(super) dst: *mut u8,
    pub(super) len: usize,
}

impl Key {
    /// Returns `None` unless the backend belongs to x86-64 and the CPU supports it.
    pub(crate) fn new(round_keys: &RoundKeys, backend: Backend) -> Option<Self> {
        let backend = backend.min(super::detect());
        if backend < Backend::AesNi {
            return None;
        }
        let mut blocks = [[0; 16]; 4];
        Aes::new(round_keys).encrypt(&mut blocks);
        let masks = Masks::new(u128::from_ne_bytes(blocks[0]));
        blocks.zeroize();
        let mut key = Self {
            gray: core::array::from_fn(|i| masks.offset(i)),
            encrypt: [[0; 16]; 11],
            decrypt: [[0; 16]; 11],
            masks,
            wide: backend == Backend::Avx512,
        };
        key.encrypt.copy_from_slice(&round_keys.blocks[..11]);
        // SAFETY: the backends from this one on need a CPU with AES-NI.
        unsafe { invert(&key.encrypt, &mut key.decrypt) };
        Some(key)
    }

    /// Encrypts blocks independently.
    #[inline]
    pub(crate) fn encrypt(&self, blocks: &mut [u128]) {
        // SAFETY: keys exist only on a CPU with AES-NI.
        unsafe { each(self, blocks) }
    }

    /// Encrypts whole blocks that follow `before` others and `offset`, and returns their sum.
    pub(crate) fn stretch(&self, offset: u128, before: usize, src: &[u8], dst: &mut [u8]) -> u128 {
        let (src, dst) = (src.as_chunks().0, dst.as_chunks_mut().0);
        // SAFETY: the kind of key proves CPU support.
        unsafe {
            if self.wide {
                wide::stretch(self, offset, before, src, dst)
            } else {
                stretch(self, offset, before, src, dst)
            }
        }
    }

    /// Writes values into a prepared packet.
    #[inline]
    pub(crate) fn fill<S: Mac, V: Values, const N: usize>(&self, filling: Filling<'_, S, V, N>) {
        let (head, values, body) = filling.parts();
        // SAFETY: the kind of key proves CPU support; the three come from a `Filling`.
        unsafe {
            if self.wide {
                holes::avx512::fill(self, head, values, body);
            } else {
                holes::ni::fill(self, head, values, body);
            }
        }
    }

    /// Reads the values of a received packet and returns the expected tag.
    #[inline]
    pub(crate) fn check<S: Mac, const N: usize>(&self, reading: Reading<'_, S, N>) -> [u8; 16] {
        let (head, aad, src, _, dst) = reading.parts();
        // SAFETY: the kind of key proves CPU support; the parts come from a `Reading`.
        unsafe {
            if self.wide {
                holes::avx512::check(self, head, aad, src, dst)
            } else {
                holes::ni::check(self, head, aad, src, dst)
            }
        }
    }

    /// The nonce's offset.
    pub(crate) fn offset(&self, nonce: &[u8; 12]) -> u128 {
        // SAFETY: keys exist only on a CPU with AES-NI and SSSE3.
        unsafe { into(offset(self, nonce)) }
    }

    /// Encrypts one block.
    #[inline]
    pub(crate) fn encrypt_one(&self, block: u128) -> u128 {
        // SAFETY: keys exist only on a CPU with AES-NI.
        unsafe { one(self, block) }
    }

    /// Contribution of block `index` (from 0) of associated data to HASH; the last block may be
    /// partial.
    pub(crate) fn associated(&self, index: usize, bytes: &[u8]) -> u128 {
        // SAFETY: keys exist only on a CPU with AES-NI and SSSE3.
        unsafe { into(associated(self, from(self.masks.offset(index)), index, bytes)) }
    }

    /// Encrypts a partial last block after a block with this offset, and returns its part of the
    /// checksum.
    pub(crate) fn last(&self, offset: u128, src: &[u8], dst: &mut [u8]) -> u128 {
        assert!(src.len() < 16 && src.len() <= dst.len());
        // SAFETY: keys exist only on a CPU with AES-NI and SSSE3; both slices have these bytes,
        // fewer than 16.
        unsafe {
            let mut sum = _mm_setzero_si128();
            last::<true>(self, &mut from(offset), src.as_ptr(), dst.as_mut_ptr(), src.len(), &mut sum);
            into(sum)
        }
    }

    /// Processes a packet and returns its expected tag.
    pub(crate) fn one_shot<const SEAL: bool>(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        buffers: Buffers<'_>,
    ) -> [u8; 16] {
        self.packet::<SEAL>(Start::Nonce(nonce), aad, buffers)
    }

    /// Like `one_shot`, from the nonce's offset.
    pub(crate) fn prepared<const SEAL: bool>(
        &self,
        offset: u128,
        aad: &[u8],
        buffers: Buffers<'_>,
    ) -> [u8; 16] {
        self.packet::<SEAL>(Start::Offset(offset), aad, buffers)
    }

    fn packet<const SEAL: bool>(&self, start: Start<'_>, aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        let (src, dst, len) = match buffers {
            Buffers::Apart(src, dst) => {
                assert_eq!(src.len(), dst.len());
                (src.as_ptr(), dst.as_mut_ptr(), dst.len())
            }
            Buffers::InPlace(buffer) => {
                let dst = buffer.as_mut_ptr();
                (dst.cast_const(), dst, buffer.len())
            }
        };
        let packet = Packet { start, aad, src, dst, len };
        // SAFETY: the kind of key proves CPU support; the pointers come from the buffers.
        unsafe {
            if self.wide { wide::packet::<SEAL>(self, &packet) } else { self::packet::<SEAL>(self, &packet) }
        }
    }

    /// HASH of associated data.
    pub(super) fn hash(&self, aad: &[&[u8]]) -> u128 {
        crate::backend::modes::ocb3::hash(&self.masks, aad, |blocks| self.encrypt(blocks))
    }

    /// The tag of a packet without payload.
    pub(crate) fn authenticate(&self, offset: u128, aad: &[&[u8]]) -> [u8; 16] {
        let mut tag = [offset ^ self.masks.dollar];
        self.encrypt(&mut tag);
        (tag[0] ^ self.hash(aad)).to_ne_bytes()
    }
}

/// The round keys of the equivalent inverse cipher (FIPS 197 section 5.3.5).
#[target_feature(enable = "aes")]
fn invert(encrypt: &[[u8; 16]; 11], decrypt: &mut [[u8; 16]; 11]) {
    for (i, (key, out)) in encrypt.iter().rev().zip(decrypt).enumerate() {
        let key = from(u128::from_ne_bytes(*key));
        *out = into(if i == 0 || i == 10 { key } else { _mm_aesimc_si128(key) }).to_ne_bytes();
    }
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn from(x: u128) -> __m128i {
    _mm_set_epi64x((x >> 64) as i64, x as i64)
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn into(x: __m128i) -> u128 {
    let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(x, x));
    u128::from(high as u64) << 64 | u128::from(_mm_cvtsi128_si64(x) as u64)
}

/// The cipher on `W` blocks at once.
#[inline]
#[target_feature(enable = "aes")]
pub(super) fn cipher<const ENCRYPT: bool, const W: usize>(key: &Key, mut x: [__m128i; W]) -> [__m128i; W] {
    let keys = if ENCRYPT { &key.encrypt } else { &key.decrypt };
    let round_key = |round: usize| from(u128::from_ne_bytes(keys[round]));
    let k = round_key(0);
    for block in &mut x {
        *block = _mm_xor_si128(*block, k);
    }
    for round in 1..10 {
        let k = round_key(round);
        for block in &mut x {
            *block = if ENCRYPT { _mm_aesenc_si128(*block, k) } else { _mm_aesdec_si128(*block, k) };
        }
    }
    let k = round_key(10);
    x.map(|block| if ENCRYPT { _mm_aesenclast_si128(block, k) } else { _mm_aesdeclast_si128(block, k) })
}

/// Encrypts blocks independently.
///
/// # Safety
/// The CPU has AES-NI.
#[inline]
#[target_feature(enable = "aes")]
unsafe fn each(key: &Key, blocks: &mut [u128]) {
    let (fours, rest) = blocks.as_chunks_mut::<4>();
    for four in fours {
        let done = cipher::<true, 4>(key, core::array::from_fn(|i| from(four[i])));
        for (block, done) in four.iter_mut().zip(done) {
            *block = into(done);
        }
    }
    // Two at a time: the end of a packet is usually a block and the tag.
    if let [first, second, ..] = rest {
        let [a, b] = cipher::<true, 2>(key, [from(*first), from(*second)]);
        (*first, *second) = (into(a), into(b));
    }
    let odd = rest.len() / 2 * 2;
    for block in rest.iter_mut().skip(odd) {
        let [done] = cipher::<true, 1>(key, [from(*block)]);
        *block = into(done);
    }
}

/// Encrypts one block.
///
/// # Safety
/// The CPU has AES-NI.
#[target_feature(enable = "aes")]
unsafe fn one(key: &Key, block: u128) -> u128 {
    let [done] = cipher::<true, 1>(key, [from(block)]);
    into(done)
}

/// The nonce's offset (RFC 7253 section 4.2). Nonce bytes are loaded as words and moved to vectors
/// from registers.
///
/// # Safety
/// The CPU supports the instructions.
#[inline]
#[target_feature(enable = "sse4.1,ssse3,aes")]
unsafe fn offset(key: &Key, nonce: &[u8; 12]) -> __m128i {
    let [a, b, c, d, rest @ ..] = *nonce;
    // The first field, the tag length modulo 128, is zero.
    let front = 1 << 24 | u64::from(u32::from_le_bytes([a, b, c, d])) << 32;
    let back = u64::from_le_bytes(rest);
    let bottom = back >> 56 & 0x3f;
    let [top] = cipher::<true, 1>(key, [_mm_set_epi64x((back & !(0x3f << 56)) as i64, front as i64)]);
    // 64-bit numbers: the high half above the low one; the low half above the last part of
    // "Stretch"; and the result, each half with the upper bits of the one that follows.
    let swap = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let number = _mm_shuffle_epi8(top, swap);
    let stretch = _mm_shuffle_epi8(top, _mm_set_epi8(-1, -1, -1, -1, -1, -1, -1, -1, 1, 2, 3, 4, 5, 6, 7, 8));
    let behind = _mm_xor_si128(_mm_shuffle_epi32::<0x4e>(number), stretch);
    let up = _mm_sll_epi64(number, _mm_cvtsi64_si128(bottom as i64));
    let down = _mm_srl_epi64(behind, _mm_cvtsi64_si128(64 - bottom as i64));
    _mm_shuffle_epi8(_mm_or_si128(up, down), swap)
}

/// Contribution of block `index` (from 0) of associated data to HASH, after a block with this
/// offset.
///
/// # Safety
/// The CPU supports the instructions; there are up to 16 bytes.
#[inline]
#[target_feature(enable = "sse4.1,ssse3,aes")]
unsafe fn associated(key: &Key, before: __m128i, index: usize, bytes: &[u8]) -> __m128i {
    let len = bytes.len();
    let (step, padding) = if len == 16 {
        (from(key.masks.step(index + 1)), _mm_setzero_si128())
    } else {
        (from(key.masks.star), partial::mark(len))
    };
    // SAFETY: the pointer and length come from the slice.
    let block = unsafe { partial::load(bytes.as_ptr(), len, 0) };
    let x = _mm_xor_si128(_mm_xor_si128(block, padding), _mm_xor_si128(before, step));
    let [y] = cipher::<true, 1>(key, [x]);
    y
}

/// HASH (RFC 7253 section 4.1).
///
/// # Safety
/// The CPU supports the instructions.
#[inline]
#[target_feature(enable = "sse4.1,ssse3,aes")]
unsafe fn hash(key: &Key, aad: &[u8]) -> __m128i {
    let (mut sum, mut offset) = (_mm_setzero_si128(), _mm_setzero_si128());
    for (index, bytes) in aad.chunks(16).enumerate() {
        // SAFETY: a chunk has up to 16 bytes.
        sum = _mm_xor_si128(sum, unsafe { associated(key, offset, index, bytes) });
        offset = _mm_xor_si128(offset, from(key.masks.step(index + 1)));
    }
    sum
}

/// `W` whole blocks. Adds the plaintext to `checksum`, when sealing and when opening.
///
/// # Safety
/// The CPU supports the instructions; the pointers are valid for these blocks.
#[inline]
#[target_feature(enable = "aes")]
unsafe fn blocks<const SEAL: bool, const W: usize>(
    key: &Key,
    offsets: [__m128i; W],
    src: *const u8,
    dst: *mut u8,
    checksum: &mut __m128i,
) {
    let mut x = [_mm_setzero_si128(); W];
    for (i, block) in x.iter_mut().enumerate() {
        // SAFETY: guaranteed by the caller.
        let plain = unsafe { _mm_loadu_si128(src.add(16 * i).cast()) };
        if SEAL {
            *checksum = _mm_xor_si128(*checksum, plain);
        }
        *block = _mm_xor_si128(plain, offsets[i]);
    }
    for (i, block) in cipher::<SEAL, W>(key, x).into_iter().enumerate() {
        let out = _mm_xor_si128(block, offsets[i]);
        if !SEAL {
            *checksum = _mm_xor_si128(*checksum, out);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { _mm_storeu_si128(dst.add(16 * i).cast(), out) };
    }
}

/// A partial last block after a block with `offset`, which is updated to this block's.
///
/// # Safety
/// The CPU supports the instructions; the pointers are valid for `len` bytes, fewer than 16.
#[inline]
#[target_feature(enable = "sse4.1,ssse3,aes")]
unsafe fn last<const SEAL: bool>(
    key: &Key,
    offset: &mut __m128i,
    src: *const u8,
    dst: *mut u8,
    len: usize,
    checksum: &mut __m128i,
) {
    *offset = _mm_xor_si128(*offset, from(key.masks.star));
    let [pad] = cipher::<true, 1>(key, [*offset]);
    // SAFETY: guaranteed by the caller.
    unsafe {
        let bytes = partial::load(src, len, 0);
        let out = partial::first(_mm_xor_si128(bytes, pad), len);
        partial::store(dst, len, out);
        let plain = _mm_xor_si128(if SEAL { bytes } else { out }, partial::mark(len));
        *checksum = _mm_xor_si128(*checksum, plain);
    }
}

/// Whole blocks; see [`Key::stretch`].
///
/// # Safety
/// The CPU has AES-NI.
#[target_feature(enable = "aes")]
unsafe fn stretch(key: &Key, offset: u128, before: usize, src: &[[u8; 16]], dst: &mut [[u8; 16]]) -> u128 {
    let (mut offset, mut done) = (from(offset), before);
    let mut checksum = _mm_setzero_si128();
    let mut next = || {
        done += 1;
        offset = _mm_xor_si128(offset, from(key.masks.step(done)));
        offset
    };
    let (src, few) = src.as_chunks::<8>();
    let (dst, dst_few) = dst.as_chunks_mut::<8>();
    for (src, dst) in src.iter().zip(dst) {
        let offsets = core::array::from_fn(|_| next());
        // SAFETY: both slices have eight blocks.
        unsafe {
            blocks::<true, 8>(key, offsets, src.as_ptr().cast(), dst.as_mut_ptr().cast(), &mut checksum)
        };
    }
    for (src, dst) in few.iter().zip(dst_few) {
        // SAFETY: both are one block.
        unsafe { blocks::<true, 1>(key, [next()], src.as_ptr(), dst.as_mut_ptr(), &mut checksum) };
    }
    into(checksum)
}

/// A whole packet; returns the tag.
///
/// # Safety
/// The CPU supports the instructions; the pointers are valid for the packet's length.
#[target_feature(enable = "sse4.1,ssse3,aes")]
unsafe fn packet<const SEAL: bool>(key: &Key, packet: &Packet<'_>) -> [u8; 16] {
    let &Packet { ref start, aad, src, dst, len } = packet;
    let mut offset = match start {
        // SAFETY: guaranteed by the caller.
        Start::Nonce(nonce) => unsafe { self::offset(key, nonce) },
        Start::Offset(offset) => from(*offset),
    };
    // SAFETY: guaranteed by the caller.
    let hash = unsafe { hash(key, aad) };
    let mut checksum = _mm_setzero_si128();
    let whole = len / 16;
    let mut done = 0;
    while whole - done >= 8 {
        let mut offsets: [__m128i; 8] =
            core::array::from_fn(|i| _mm_xor_si128(offset, from(key.gray[(i + 1) % 8])));
        let last = _mm_xor_si128(from(key.gray[7]), from(key.masks.step(done + 8)));
        offset = _mm_xor_si128(offset, last);
        offsets[7] = offset;
        // SAFETY: at least eight blocks are left.
        unsafe { blocks::<SEAL, 8>(key, offsets, src.add(16 * done), dst.add(16 * done), &mut checksum) };
        done += 8;
    }
    let (base, few) = (offset, whole - done);
    for i in 1..=few {
        offset = _mm_xor_si128(base, from(key.gray[i % 16]));
        // SAFETY: at least one block is left.
        unsafe { blocks::<SEAL, 1>(key, [offset], src.add(16 * done), dst.add(16 * done), &mut checksum) };
        done += 1;
    }
    if len % 16 > 0 {
        // SAFETY: the pointers are to the last bytes of the packet.
        unsafe {
            let (src, dst) = (src.add(16 * whole), dst.add(16 * whole));
            last::<SEAL>(key, &mut offset, src, dst, len % 16, &mut checksum);
        }
    }
    let sum = _mm_xor_si128(_mm_xor_si128(checksum, offset), from(key.masks.dollar));
    let [tag] = cipher::<true, 1>(key, [sum]);
    let mut out = [0; 16];
    // SAFETY: a tag has 16 bytes.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_xor_si128(tag, hash)) };
    out
}
