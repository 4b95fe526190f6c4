//! A whole AES-GCM packet with AVX-512 and nothing prepared, four blocks to a vector.
//!
//! Vectors are processed in groups of four. A group's ciphertext is hashed beside the rounds of the
//! next group: rounds and products have different execution ports. The last vector has at most
//! three blocks of payload, and its last lane computes E(J0), the mask of the tag.

use super::{
    avx512::{self, Sum, from, mask, reversed},
    gcm_key::{Block, Key, Segment},
};
use core::arch::x86_64::*;

/// Vectors of a group.
const GROUP: usize = 4;
/// A group is hashed within the rounds of AES-128, which has the fewest.
const _: () = assert!(2 * GROUP - 1 < 10);

/// A packet in progress.
struct Packet<'k, const R: usize, const SEAL: bool> {
    key: &'k Key<R>,
    /// The next counter blocks.
    counters: __m512i,
    sum: Sum<false>,
    src: *const u8,
    dst: *mut u8,
    /// Bytes of payload left at the pointers.
    left: usize,
}

/// Byte-reversed ciphertext that waits for the hash.
type Waiting = [__m512i; GROUP];

impl<const R: usize, const SEAL: bool> Packet<'_, R, SEAL> {
    /// `W` vectors of counter blocks XORed with the first round key. All counters of a packet are
    /// below 256, so that adding to the last byte needs no carry.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn begin<const W: usize>(&mut self) -> [__m512i; W] {
        let key = round_key(self.key, 0);
        let four = _mm512_maskz_set1_epi32(0x8888, 4 << 24);
        let mut x = [_mm512_setzero_si512(); W];
        for block in &mut x {
            *block = _mm512_xor_si512(self.counters, key);
            self.counters = _mm512_add_epi32(self.counters, four);
        }
        x
    }

    /// The rounds, with the hash of the waiting vectors beside them if `HASH`.
    ///
    /// # Safety
    /// With `HASH` the powers of the waiting vectors are left.
    #[inline]
    #[target_feature(enable = "avx512f,vaes,vpclmulqdq")]
    unsafe fn rounds<const W: usize, const HASH: bool>(
        &mut self,
        mut x: [__m512i; W],
        waiting: &Waiting,
    ) -> [__m512i; W] {
        for round in 1..R {
            let k = round_key(self.key, round);
            for block in &mut x {
                *block = _mm512_aesenc_epi128(*block, k);
            }
            if HASH && round % 2 == 1 && round / 2 < GROUP {
                // SAFETY: guaranteed by the caller.
                unsafe { self.sum.add(waiting[round / 2], 4) };
            }
        }
        let k = round_key(self.key, R);
        x.map(|block| _mm512_aesenclast_epi128(block, k))
    }

    /// A group of whole vectors. Returns its blocks, for the hash.
    ///
    /// # Safety
    /// As for [`rounds`](Self::rounds); a group's bytes are left.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,vaes,vpclmulqdq")]
    unsafe fn group<const HASH: bool>(&mut self, waiting: &Waiting) -> Waiting {
        let x = self.begin();
        // SAFETY: guaranteed by the caller.
        let mut pads = unsafe { self.rounds::<GROUP, HASH>(x, waiting) };
        for (i, pad) in pads.iter_mut().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let x = _mm512_loadu_si512(self.src.add(64 * i).cast());
                let y = _mm512_xor_si512(x, *pad);
                _mm512_storeu_si512(self.dst.add(64 * i).cast(), y);
                *pad = reversed(if SEAL { y } else { x });
            }
        }
        self.src = self.src.wrapping_add(64 * GROUP);
        self.dst = self.dst.wrapping_add(64 * GROUP);
        self.left -= 64 * GROUP;
        pads
    }

    /// The last `W` vectors, of which the last two need not be whole, and the hash of all that is
    /// left. Returns E(J0).
    ///
    /// # Safety
    /// As for [`rounds`](Self::rounds); the bytes left end in the last two vectors, and leave the
    /// last lane free.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq,bmi2")]
    unsafe fn last<const W: usize, const HASH: bool>(
        &mut self,
        nonce: __m512i,
        waiting: &Waiting,
    ) -> __m128i {
        let mut x = self.begin::<W>();
        let one = _mm512_maskz_set1_epi32(0x8000, 1 << 24);
        let first = _mm512_xor_si512(_mm512_or_si512(nonce, one), round_key(self.key, 0));
        x[W - 1] = _mm512_mask_mov_epi64(x[W - 1], 0xc0, first);
        // SAFETY: guaranteed by the caller.
        let pads = unsafe { self.rounds::<W, HASH>(x, waiting) };
        for (i, pad) in pads.into_iter().enumerate() {
            let whole = i + 2 < W;
            let some = if whole { u64::MAX } else { mask(self.left.saturating_sub(64 * i)) };
            // SAFETY: these bytes are left, the others are masked out. The powers of these blocks are
            // left, and that of the length block.
            unsafe {
                let x = _mm512_maskz_loadu_epi8(some, self.src.wrapping_add(64 * i).cast());
                let y = _mm512_maskz_mov_epi8(some, _mm512_xor_si512(x, pad));
                _mm512_mask_storeu_epi8(self.dst.wrapping_add(64 * i).cast(), some, y);
                self.sum.add(reversed(if SEAL { y } else { x }), 4);
            }
        }
        _mm512_extracti32x4_epi32::<3>(pads[W - 1])
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn round_key<const R: usize>(key: &Key<R>, round: usize) -> __m512i {
    _mm512_broadcast_i32x4(from(u128::from_le_bytes(key.round_keys[round])))
}

/// Seals or opens a packet, and returns its tag.
///
/// # Safety
/// The CPU supports the instructions; the pointers are valid for `len` bytes; the packet with its
/// length block has at most [`POWERS`] blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,pclmulqdq,bmi2,sse4.1")]
pub(super) unsafe fn packet<const R: usize, const SEAL: bool>(
    key: &Key<R>,
    nonce: &[u8; 12],
    aad: &[u8],
    (src, dst, len): (*const u8, *mut u8, usize),
) -> [u8; 16] {
    let hash = &Block([0; 16]);
    let whole = Segment { hash, aad, src, total_aad: aad.len(), dst, len, mask: None, total: len };
    let mut block = [0; 16];
    block[..12].copy_from_slice(nonce);
    let nonce = _mm512_broadcast_i32x4(from(u128::from_le_bytes(block)));
    let each = _mm512_set_epi32(5 << 24, 0, 0, 0, 4 << 24, 0, 0, 0, 3 << 24, 0, 0, 0, 2 << 24, 0, 0, 0);
    let counters = _mm512_or_si512(nonce, each);
    // SAFETY: the packet fits the powers (caller).
    let mut sum = unsafe { Sum::<false>::new(key, avx512::blocks::<true>(&whole)) };
    sum.add_last(key, avx512::lengths(&whole));
    // SAFETY: as above.
    unsafe { avx512::associated::<true, false>(&mut sum, &whole) };
    let mut packet = Packet::<R, SEAL> { key, counters, sum, src, dst, left: len };
    let mut waiting = [_mm512_setzero_si512(); GROUP];
    // The last vector has at most three blocks, and before it one that may not be whole.
    let vectors = len.div_ceil(16) / 4 + 1;
    // SAFETY: the packet's bytes and blocks, in order. Groups end before the last two vectors.
    let mask = unsafe {
        match vectors {
            1 => packet.last::<1, false>(nonce, &waiting),
            2 => packet.last::<2, false>(nonce, &waiting),
            3 => packet.last::<3, false>(nonce, &waiting),
            4 => packet.last::<4, false>(nonce, &waiting),
            5 => packet.last::<5, false>(nonce, &waiting),
            _ => {
                waiting = packet.group::<false>(&waiting);
                for _ in 1..(vectors - 2) / GROUP {
                    waiting = packet.group::<true>(&waiting);
                }
                match (vectors - 2) % GROUP {
                    0 => packet.last::<2, true>(nonce, &waiting),
                    1 => packet.last::<3, true>(nonce, &waiting),
                    2 => packet.last::<4, true>(nonce, &waiting),
                    _ => packet.last::<5, true>(nonce, &waiting),
                }
            }
        }
    };
    let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    let tag = _mm_xor_si128(_mm_shuffle_epi8(packet.sum.value(), order), mask);
    let mut out = [0; 16];
    // SAFETY: a tag has 16 bytes.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), tag) };
    out
}
