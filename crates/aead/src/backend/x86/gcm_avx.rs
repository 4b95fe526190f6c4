//! AES-GCM in one pass with AVX, AES-NI and PCLMULQDQ, for packets of more than a few blocks.
//!
//! Without VAES and VPCLMULQDQ, many CPUs run the cipher's rounds on one execution port, and the
//! hash's multiplications share another with the shuffles. Both are therefore interleaved: a chunk
//! of key stream with the hash of the chunk before. The hash uses three multiplications per block
//! (Karatsuba; the key stores the XOR of both halves of each power), and a block's halves meet by a
//! load, since hashed bytes go through memory.
//!
//! Packets with prepared key stream use [`ni`], which is at least as fast for them.

use super::{
    gcm_key::{Block, Key, POWERS, Segment},
    ni::{self, reversed},
    partial::{first, load, store},
};
use core::{arch::x86_64::*, mem::MaybeUninit};

/// Payload bytes from which this is faster than [`ni`].
pub(super) const FROM: usize = 192;
/// Bytes of key stream computed at a time.
const CHUNK: usize = 128;

/// Ciphertext with the bytes of each block reversed: the current chunk and the one before.
#[repr(C, align(64))]
struct Turned([u8; 2 * CHUNK]);

/// An unreduced sum of products: of the lower halves, of the upper halves, and of the halves' XORs.
/// Passed by value: behind a reference it would go through memory for each block.
#[derive(Clone, Copy)]
struct Running {
    low: __m128i,
    high: __m128i,
    both: __m128i,
    /// The value to XOR into the next block: the hash so far, until a block takes it.
    joined: __m128i,
    /// The next block's power, and the XOR of its halves.
    power: *const u128,
    halves: *const u64,
}

impl Running {
    #[inline]
    #[target_feature(enable = "avx,pclmulqdq")]
    fn new<const R: usize>(key: &Key<R>, segment: &Segment<'_>) -> Self {
        let nothing = _mm_setzero_si128();
        let place = POWERS - segment.blocks();
        Self {
            low: nothing,
            high: nothing,
            both: nothing,
            // SAFETY: a block has 16 bytes.
            joined: unsafe { _mm_loadu_si128(segment.hash.0.as_ptr().cast()) },
            power: key.high.0[place..].as_ptr(),
            halves: key.halves.0[place..].as_ptr(),
        }
    }

    /// Adds the product of a block and a power; `halves` is the XOR of the block's halves.
    #[inline]
    #[target_feature(enable = "avx,pclmulqdq")]
    fn product(&mut self, block: __m128i, halves: __m128i, power: __m128i, of_power: __m128i) {
        self.low = _mm_xor_si128(self.low, _mm_clmulepi64_si128::<0x00>(block, power));
        self.high = _mm_xor_si128(self.high, _mm_clmulepi64_si128::<0x11>(block, power));
        self.both = _mm_xor_si128(self.both, _mm_clmulepi64_si128::<0x00>(halves, of_power));
    }

    /// Adds a block.
    ///
    /// # Safety
    /// A power is left.
    #[inline]
    #[target_feature(enable = "avx,pclmulqdq")]
    unsafe fn block(&mut self, block: __m128i) {
        let block = _mm_xor_si128(reversed(block), self.joined);
        self.joined = _mm_setzero_si128();
        let halves = _mm_xor_si128(block, _mm_shuffle_epi32::<0b01_00_11_10>(block));
        // SAFETY: guaranteed by the caller; the table extends past the last power.
        let (power, of_power) =
            unsafe { (_mm_loadu_si128(self.power.cast()), _mm_loadu_si128(self.halves.cast())) };
        self.product(block, halves, power, of_power);
        self.skip(1);
    }

    /// Adds block `i` of a byte-reversed chunk in memory.
    ///
    /// # Safety
    /// The chunk has block `i`, the blocks before were added this way, and a power is left for
    /// each.
    #[inline]
    #[target_feature(enable = "avx,pclmulqdq")]
    unsafe fn turned(&mut self, chunk: *const u8, i: usize) {
        // SAFETY: guaranteed by the caller; the table extends past the last power.
        unsafe {
            let block = _mm_load_si128(chunk.add(16 * i).cast());
            let halves = _mm_xor_si128(block, _mm_loadl_epi64(chunk.add(16 * i + 8).cast()));
            let power = _mm_loadu_si128(self.power.add(i).cast());
            let of_power = _mm_loadu_si128(self.halves.add(i).cast());
            self.product(block, halves, power, of_power);
            // Keeps the compiler from summing a chunk as a tree, which needs more registers than
            // there are.
            core::arch::asm!(
                "/* {0} {1} {2} */", inout(xmm_reg) self.low, inout(xmm_reg) self.high, inout(xmm_reg) self.both,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Continues after blocks that were added by index.
    #[inline]
    #[target_feature(enable = "avx")]
    fn skip(&mut self, blocks: usize) {
        self.power = self.power.wrapping_add(blocks);
        self.halves = self.halves.wrapping_add(blocks);
    }

    /// XORs the hash so far into a chunk that starts a segment.
    ///
    /// # Safety
    /// The chunk is valid for a block.
    #[inline]
    #[target_feature(enable = "avx")]
    unsafe fn join(&mut self, chunk: *mut u8) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let first = _mm_load_si128(chunk.cast());
            _mm_store_si128(chunk.cast(), _mm_xor_si128(first, self.joined));
        }
        self.joined = _mm_setzero_si128();
    }

    /// The sum's value. Folds the part at 0 onto those at 64 and 128, then the result at 64 onto
    /// that at 128.
    #[inline]
    #[target_feature(enable = "avx,pclmulqdq")]
    fn value(&self) -> __m128i {
        let both = _mm_xor_si128(self.both, _mm_xor_si128(self.low, self.high));
        ni::fold(ni::fold(self.low, both), self.high)
    }
}

/// One segment of a packet, with the key stream from a 64-byte unit.
///
/// # Safety
/// The CPU has AVX, AES-NI and PCLMULQDQ; the pointers are valid for the segment's length, which is
/// not 0, and the segment has at most [`POWERS`] blocks.
#[target_feature(enable = "avx,aes,pclmulqdq")]
pub(super) unsafe fn segment<const R: usize, const SEAL: bool>(
    key: &Key<R>,
    segment: &Segment<'_>,
    nonce: &[u8; 12],
    unit: usize,
) -> Block {
    let mut running = Running::new(key, segment);
    // SAFETY: the segment has this many blocks, and the pointers are valid for them (caller).
    unsafe {
        for block in segment.aad.chunks(16) {
            running.block(load(block.as_ptr(), block.len(), 0));
        }
        running = ciphered::<R, SEAL>(running, segment, key, nonce, 2u32.wrapping_add(4 * unit as u32));
        if segment.mask.is_some() {
            let lengths = _mm_set_epi64x(segment.total_aad as i64 * 8, segment.total as i64 * 8);
            running.block(reversed(lengths));
        }
    }
    ni::result(running.value(), segment.mask)
}

impl Running {
    /// XORs the key stream into block `i` of the last `rest` bytes, possibly a partial block, and
    /// adds the ciphertext.
    ///
    /// # Safety
    /// The pointers are valid for `rest` bytes, some of them in block `i`, and a power is left.
    #[inline]
    #[target_feature(enable = "avx,pclmulqdq")]
    unsafe fn rest<const SEAL: bool>(
        &mut self,
        src: *const u8,
        dst: *mut u8,
        rest: usize,
        i: usize,
        pad: __m128i,
    ) {
        let now = (rest - 16 * i).min(16);
        // SAFETY: guaranteed by the caller.
        unsafe {
            let x = load(src.add(16 * i), now, 0);
            let y = first(_mm_xor_si128(x, pad), now);
            store(dst.add(16 * i), now, y);
            self.block(if SEAL { y } else { x });
        }
    }
}

/// XORs in the cipher's key stream from `counter`, its rounds interleaved with the hash of the
/// ciphertext one chunk earlier.
///
/// # Safety
/// The CPU has AVX, AES-NI and PCLMULQDQ; the pointers are valid for the segment's length, which is
/// not 0, and a power is left for each of its blocks.
#[inline]
#[target_feature(enable = "avx,aes,pclmulqdq")]
unsafe fn ciphered<const R: usize, const SEAL: bool>(
    mut running: Running,
    segment: &Segment<'_>,
    key: &Key<R>,
    nonce: &[u8; 12],
    counter: u32,
) -> Running {
    let Segment { src, dst, len, .. } = *segment;
    let mut room = MaybeUninit::<Turned>::uninit();
    let room = room.as_mut_ptr().cast::<u8>();
    let round_key = |round: usize| {
        // SAFETY: a round key has 16 bytes.
        unsafe { _mm_load_si128(key.round_keys[round].as_ptr().cast()) }
    };
    let mut done = 0;
    // SAFETY: blocks before `len` are within source and destination, and `done & CHUNK` chooses one
    // of the buffer's two chunks; the previous iteration wrote the other one.
    unsafe {
        loop {
            let (now, before) = (room.add(done & CHUNK), room.add(CHUNK - (done & CHUNK)));
            let rest = len - done;
            if rest == 0 {
                for i in 0..CHUNK / 16 {
                    running.turned(before, i);
                }
                running.skip(CHUNK / 16);
                return running;
            }
            let mut pads = ni::counters::<R, 8>(key, nonce, counter.wrapping_add(done as u32 / 16));
            macro_rules! round {
                ($round:literal) => {{
                    let k = round_key($round);
                    for block in &mut pads {
                        *block = _mm_aesenc_si128(*block, k);
                    }
                    let [a, b, c, d, e, f, g, h] = &mut pads;
                    // Keeps the rounds in this order.
                    core::arch::asm!(
                        "/* {0} {1} {2} {3} {4} {5} {6} {7} */",
                        inout(xmm_reg) * a,
                        inout(xmm_reg) * b,
                        inout(xmm_reg) * c,
                        inout(xmm_reg) * d,
                        inout(xmm_reg) * e,
                        inout(xmm_reg) * f,
                        inout(xmm_reg) * g,
                        inout(xmm_reg) * h,
                        options(nostack, preserves_flags)
                    );
                    if done > 0 {
                        running.turned(before, $round - 1);
                    }
                }};
            }
            round!(1);
            round!(2);
            round!(3);
            round!(4);
            round!(5);
            round!(6);
            round!(7);
            round!(8);
            if done > 0 {
                running.skip(CHUNK / 16);
            }
            for round in 9..R {
                let k = round_key(round);
                for block in &mut pads {
                    *block = _mm_aesenc_si128(*block, k);
                }
            }
            let pads = pads.map(|block| _mm_aesenclast_si128(block, round_key(R)));
            if rest < CHUNK {
                for (i, pad) in pads.into_iter().enumerate() {
                    if 16 * i < rest {
                        running.rest::<SEAL>(src.add(done), dst.add(done), rest, i, pad);
                    }
                }
                return running;
            }
            for (i, pad) in pads.into_iter().enumerate() {
                let x = _mm_loadu_si128(src.add(done + 16 * i).cast());
                let y = _mm_xor_si128(x, pad);
                _mm_storeu_si128(dst.add(done + 16 * i).cast(), y);
                _mm_store_si128(now.add(16 * i).cast(), reversed(if SEAL { y } else { x }));
            }
            if done == 0 {
                running.join(now);
            }
            done += CHUNK;
        }
    }
}
