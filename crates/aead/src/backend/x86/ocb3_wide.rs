//! AES-OCB3 with VAES and AVX-512: four blocks to a vector, sixteen to a group.
//!
//! A packet has at most three dependent encryptions: the nonce's block, the payload, and when
//! opening the tag. Associated data of up to three blocks shares a vector with the nonce's block.
//! The pad of the last bytes, and the tag when sealing, are encrypted beside the payload.

use super::ocb3::{Key, Packet, Start, cipher, from, into};
use crate::backend::modes::ocb3::{nonce_block, nonce_offset};
use core::arch::x86_64::*;

/// The cipher on `W` vectors at once.
#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn wide<const ENCRYPT: bool, const W: usize>(key: &Key, mut x: [__m512i; W]) -> [__m512i; W] {
    let keys = if ENCRYPT { &key.encrypt } else { &key.decrypt };
    let round_key = |round: usize| _mm512_broadcast_i32x4(from(u128::from_ne_bytes(keys[round])));
    let k = round_key(0);
    for blocks in &mut x {
        *blocks = _mm512_xor_si512(*blocks, k);
    }
    for round in 1..10 {
        let k = round_key(round);
        for blocks in &mut x {
            *blocks =
                if ENCRYPT { _mm512_aesenc_epi128(*blocks, k) } else { _mm512_aesdec_epi128(*blocks, k) };
        }
    }
    let k = round_key(10);
    x.map(
        |blocks| {
            if ENCRYPT { _mm512_aesenclast_epi128(blocks, k) } else { _mm512_aesdeclast_epi128(blocks, k) }
        },
    )
}

/// The mask of a vector's first `len` bytes; all of them if `len` is 64 or more (BZHI saturates up
/// to 255).
#[inline]
#[target_feature(enable = "bmi2")]
fn mask(len: usize) -> __mmask64 {
    _bzhi_u64(u64::MAX, len as u32)
}

/// The XOR of the four lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn join(x: __m512i) -> __m128i {
    let half = _mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
    _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
}

/// The Gray code values for blocks `4 i + 1` to `4 i + 4` of a group; the group's last block gets
/// zeros.
#[inline]
#[target_feature(enable = "avx512f")]
fn gray(key: &Key, i: usize) -> __m512i {
    if i == 3 {
        // Lanes 13, 14 and 15 of the table; the last is masked out.
        // SAFETY: reads words 26 to 31 of the table; the others are not accessed.
        return unsafe { _mm512_maskz_loadu_epi64(0x3f, key.gray.as_ptr().add(13).cast()) };
    }
    // SAFETY: four blocks from here are in the table.
    unsafe { _mm512_loadu_si512(key.gray.as_ptr().add(4 * i + 1).cast()) }
}

/// Up to 64 bytes of associated data from a group's block 0: each block XORed with its offset, a
/// partial last block with padding and L_*, then zeros.
///
/// # Safety
/// `i` is at most 3, so the vector is within the group; there are up to 64 bytes, fewer if `i` is
/// 3.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
unsafe fn associated(key: &Key, i: usize, base: __m512i, bytes: &[u8]) -> (__m512i, __mmask8) {
    let len = bytes.len();
    // SAFETY: masked-out bytes are not accessed.
    let mut x = unsafe { _mm512_maskz_loadu_epi8(mask(len), bytes.as_ptr().cast()) };
    let lanes = _bzhi_u32(0xff, 2 * len.div_ceil(16) as u32) as __mmask8;
    let mut offsets = _mm512_xor_si512(base, gray(key, i));
    if !len.is_multiple_of(16) {
        // The offset of a partial last block is the previous block's XOR L_*.
        let before = 4 * i + len / 16;
        let last = _mm_xor_si128(from(key.gray[before % 16]), from(key.masks.star));
        let lane = 3 << (2 * (len / 16));
        let last = _mm512_xor_si512(base, _mm512_broadcast_i32x4(last));
        offsets = _mm512_mask_mov_epi64(offsets, lane, last);
        x = _mm512_mask_mov_epi8(x, 1 << len, _mm512_set1_epi8(0x80u8 as i8));
    }
    (_mm512_maskz_xor_epi64(lanes, x, offsets), lanes)
}

/// HASH (RFC 7253 section 4.1) of longer associated data.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,bmi2")]
fn hash(key: &Key, aad: &[u8]) -> __m128i {
    let mut sum = _mm512_setzero_si512();
    let mut base = _mm512_setzero_si512();
    let mut done = 0;
    let mut rest = aad;
    while let Some((group, later)) = rest.split_first_chunk::<256>() {
        done += 16;
        let (x, next) = group_offsets(key, base, done);
        let x = core::array::from_fn(|i| {
            // SAFETY: a group has four vectors.
            _mm512_xor_si512(x[i], unsafe { _mm512_loadu_si512(group.as_ptr().add(64 * i).cast()) })
        });
        let [a, b, c, d] = wide::<true, 4>(key, x);
        sum = _mm512_xor_si512(sum, _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d)));
        (base, rest) = (next, later);
    }
    for (i, bytes) in rest.chunks(64).enumerate() {
        // SAFETY: less than a group is left.
        let (x, lanes) = unsafe { associated(key, i, base, bytes) };
        let [y] = wide::<true, 1>(key, [x]);
        sum = _mm512_mask_xor_epi64(sum, lanes, sum, y);
    }
    join(sum)
}

/// The offsets of a whole group that ends with block `end`, and the last of them in every lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn group_offsets(key: &Key, base: __m512i, end: usize) -> ([__m512i; 4], __m512i) {
    // Block 15's Gray code, and the step to block 16.
    let last = _mm_xor_si128(from(key.gray[15]), from(key.masks.step(end)));
    let mut offsets: [__m512i; 4] = core::array::from_fn(|i| _mm512_xor_si512(base, gray(key, i)));
    let next = _mm512_xor_si512(base, _mm512_broadcast_i32x4(last));
    offsets[3] = _mm512_mask_mov_epi64(offsets[3], 0xc0, next);
    (offsets, next)
}

/// Whole blocks; see [`Key::stretch`](super::ocb3::Key::stretch). `before` is a multiple of four.
///
/// # Safety
/// The CPU supports the instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,bmi2")]
pub(super) unsafe fn stretch(
    key: &Key,
    offset: u128,
    before: usize,
    src: &[[u8; 16]],
    dst: &mut [[u8; 16]],
) -> u128 {
    // Offsets of the three blocks after a multiple of four are its own XOR these; the fourth's is
    // one step further.
    // SAFETY: four blocks from here are in the table.
    let three = unsafe { _mm512_loadu_si512(key.gray.as_ptr().add(1).cast()) };
    let mut base = _mm512_broadcast_i32x4(from(offset));
    let mut checksum = _mm512_setzero_si512();
    let mut done = before;
    for (src, dst) in src.chunks(4).zip(dst.chunks_mut(4)) {
        done += 4;
        let last = _mm512_broadcast_i32x4(from(key.gray[3] ^ key.masks.step(done)));
        let offsets = _mm512_xor_si512(base, _mm512_mask_mov_epi64(three, 0xc0, last));
        base = _mm512_xor_si512(base, last);
        let some = mask(16 * src.len());
        // SAFETY: bytes after the blocks are masked out and not accessed.
        unsafe {
            let bytes = _mm512_maskz_loadu_epi8(some, src.as_ptr().cast());
            checksum = _mm512_xor_si512(checksum, bytes);
            let [blocks] = wide::<true, 1>(key, [_mm512_xor_si512(bytes, offsets)]);
            _mm512_mask_storeu_epi8(dst.as_mut_ptr().cast(), some, _mm512_xor_si512(blocks, offsets));
        }
    }
    into(join(checksum))
}

/// A whole packet; returns the tag.
///
/// # Safety
/// The CPU supports the instructions; the pointers are valid for the packet's length.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,aes,bmi2,sse4.1")]
pub(super) unsafe fn packet<const SEAL: bool>(key: &Key, packet: &Packet<'_>) -> [u8; 16] {
    // The nonce's block and short associated data.
    let zero = _mm512_setzero_si512();
    let short = packet.aad.len() <= 48;
    let (mut first, lanes) = if short && !packet.aad.is_empty() {
        // SAFETY: there are up to 48 bytes.
        unsafe { associated(key, 0, zero, packet.aad) }
    } else {
        (zero, 0)
    };
    let (offset, hash) = match packet.start {
        Start::Nonce(nonce) => {
            let (block, bottom) = nonce_block(nonce);
            first = _mm512_inserti32x4::<3>(first, from(u128::from_ne_bytes(block)));
            let [done] = wide::<true, 1>(key, [first]);
            let top = into(_mm512_extracti32x4_epi32::<3>(done));
            (from(nonce_offset(top, bottom)), _mm512_maskz_mov_epi64(lanes, done))
        }
        Start::Offset(offset) => {
            let mut hash = zero;
            if lanes != 0 {
                let [done] = wide::<true, 1>(key, [first]);
                hash = _mm512_maskz_mov_epi64(lanes, done);
            }
            (from(offset), hash)
        }
    };

    // Whole groups.
    let mut base = _mm512_broadcast_i32x4(offset);
    let mut checksum = zero;
    let mut done = 0;
    while packet.len - done >= 256 {
        let (offsets, next) = group_offsets(key, base, done / 16 + 16);
        let mut x = [zero; 4];
        for (i, blocks) in x.iter_mut().enumerate() {
            // SAFETY: 256 bytes from `done` are within the packet.
            let bytes = unsafe { _mm512_loadu_si512(packet.src.add(done + 64 * i).cast()) };
            if SEAL {
                checksum = _mm512_xor_si512(checksum, bytes);
            }
            *blocks = _mm512_xor_si512(bytes, offsets[i]);
        }
        for (i, blocks) in wide::<SEAL, 4>(key, x).into_iter().enumerate() {
            let bytes = _mm512_xor_si512(blocks, offsets[i]);
            if !SEAL {
                checksum = _mm512_xor_si512(checksum, bytes);
            }
            // SAFETY: 256 bytes from `done` are within the packet.
            unsafe { _mm512_storeu_si512(packet.dst.add(done + 64 * i).cast(), bytes) };
        }
        base = next;
        done += 256;
    }

    // Whole blocks, in independent vectors.
    let group = done;
    let whole = packet.len / 16 * 16;
    let mut i = 0;
    while done < whole {
        let some = mask(whole - done);
        let offsets = _mm512_xor_si512(base, gray(key, i));
        // SAFETY: bytes after the last whole block are masked out and not accessed.
        unsafe {
            let bytes = _mm512_maskz_loadu_epi8(some, packet.src.add(done).cast());
            let [blocks] = wide::<SEAL, 1>(key, [_mm512_xor_si512(bytes, offsets)]);
            let out = _mm512_maskz_mov_epi8(some, _mm512_xor_si512(blocks, offsets));
            checksum = _mm512_xor_si512(checksum, if SEAL { bytes } else { out });
            _mm512_mask_storeu_epi8(packet.dst.add(done).cast(), some, out);
        }
        done += 64;
        i += 1;
    }

    // The last bytes, and the tag.
    let mut offset = _mm_xor_si128(_mm512_castsi512_si128(base), from(key.gray[(whole - group) / 16 % 16]));
    let mut checksum = join(checksum);
    let left = packet.len - whole;
    if left > 0 {
        let some = mask(left) as __mmask16;
        offset = _mm_xor_si128(offset, from(key.masks.star));
        // SAFETY: bytes after the packet's end are masked out and not accessed.
        unsafe {
            let bytes = _mm_maskz_loadu_epi8(some, packet.src.add(whole).cast());
            let [pad] = cipher::<true, 1>(key, [offset]);
            let out = _mm_maskz_mov_epi8(some, _mm_xor_si128(bytes, pad));
            let padding = _mm_maskz_set1_epi8(1 << left, 0x80u8 as i8);
            checksum = _mm_xor_si128(checksum, _mm_xor_si128(if SEAL { bytes } else { out }, padding));
            _mm_mask_storeu_epi8(packet.dst.add(whole).cast(), some, out);
        }
    }
    let sum = _mm_xor_si128(_mm_xor_si128(checksum, offset), from(key.masks.dollar));
    let [tag] = cipher::<true, 1>(key, [sum]);
    let hash = if short { join(hash) } else { self::hash(key, packet.aad) };
    into(_mm_xor_si128(tag, hash)).to_ne_bytes()
}
