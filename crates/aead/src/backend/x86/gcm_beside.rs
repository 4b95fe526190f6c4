//! AES-GCM in one pass with AES-NI and PCLMULQDQ, for packets of more than a few blocks.
//!
//! Without VAES and VPCLMULQDQ, many CPUs run the cipher's rounds on one execution port, and the
//! hash's multiplications share another with the shuffles. Both are therefore interleaved: a chunk
//! of key stream with the hash of the chunk before. The hash uses three multiplications per block
//! (Karatsuba; the key stores the XOR of both halves of each power), and a block's halves meet by a
//! load, since hashed bytes go through memory. Counter blocks differ from a common one by an XOR.
//!
//! CPUs with AVX use the same code, in the encoding without it: 1500 bytes took 223 ns, 270 with it.
//! Packets with prepared key stream use [`ni`], which is at least as fast for them.

use super::{
    gcm_key::{Block, Key, POWERS, Segment},
    ni::{self, reversed},
    partial::{first, load, store},
};
use core::{
    arch::{asm, x86_64::*},
    mem::MaybeUninit,
};

/// Payload bytes from which this is faster than [`ni`].
pub(super) const FROM: usize = 192;
/// Bytes of key stream computed at a time.
const CHUNK: usize = 128;

/// Ciphertext of a chunk with the bytes of each block reversed.
#[repr(C, align(64))]
struct Turned([u8; CHUNK]);

/// An unreduced sum of products: of the lower halves, of the upper halves, and of the halves' XORs.
/// Passed by value: behind a reference it would go through memory for each block.
#[derive(Clone, Copy)]
struct Sums {
    low: __m128i,
    high: __m128i,
    both: __m128i,
}

impl Sums {
    /// Adds the product of a block and a power; `halves` is the XOR of the block's halves.
    #[inline]
    #[target_feature(enable = "ssse3,pclmulqdq")]
    fn plus(self, block: __m128i, halves: __m128i, power: __m128i, of_power: __m128i) -> Self {
        Self {
            low: _mm_xor_si128(self.low, _mm_clmulepi64_si128::<0x00>(block, power)),
            high: _mm_xor_si128(self.high, _mm_clmulepi64_si128::<0x11>(block, power)),
            both: _mm_xor_si128(self.both, _mm_clmulepi64_si128::<0x00>(halves, of_power)),
        }
    }

    /// The sum's value. Folds the part at 0 onto those at 64 and 128, then the result at 64 onto
    /// that at 128.
    #[inline]
    #[target_feature(enable = "ssse3,pclmulqdq")]
    fn value(self) -> __m128i {
        let both = _mm_xor_si128(self.both, _mm_xor_si128(self.low, self.high));
        ni::fold(ni::fold(self.low, both), self.high)
    }
}

/// The powers of the blocks to come, and the XOR of the halves of each.
#[derive(Clone, Copy)]
struct Ahead {
    power: *const u128,
    halves: *const u64,
}

impl Ahead {
    /// Those from the next block but `blocks`.
    #[inline(always)]
    fn after(self, blocks: usize) -> Self {
        Self { power: self.power.wrapping_add(blocks), halves: self.halves.wrapping_add(blocks) }
    }

    /// Adds the next block, bytes reversed.
    ///
    /// # Safety
    /// A power is left.
    #[inline]
    #[target_feature(enable = "ssse3,pclmulqdq")]
    unsafe fn add(self, sums: Sums, block: __m128i) -> Sums {
        let halves = _mm_xor_si128(block, _mm_shuffle_epi32::<0b01_00_11_10>(block));
        // SAFETY: guaranteed by the caller.
        let (power, of_power) =
            unsafe { (_mm_load_si128(self.power.cast()), _mm_loadl_epi64(self.halves.cast())) };
        sums.plus(block, halves, power, of_power)
    }

    /// Adds block `i` of a byte-reversed chunk in memory; `upper` is the address of its upper half.
    ///
    /// # Safety
    /// The chunk has block `i`, and a power is left for it.
    #[inline]
    #[target_feature(enable = "ssse3,pclmulqdq")]
    unsafe fn turned(self, sums: Sums, chunk: *const u8, upper: *const u8, i: usize) -> Sums {
        // SAFETY: guaranteed by the caller; the table extends past the last power.
        unsafe {
            let block = _mm_load_si128(chunk.add(16 * i).cast());
            let halves = _mm_xor_si128(block, _mm_loadl_epi64(upper.add(16 * i).cast()));
            let power = _mm_load_si128(self.power.add(i).cast());
            let of_power = _mm_loadu_si128(self.halves.add(i).cast());
            let mut sums = sums.plus(block, halves, power, of_power);
            // Keeps the compiler from summing a chunk as a tree, which needs more registers than
            // there are.
            asm!(
                "/* {0} {1} {2} */", inout(xmm_reg) sums.low, inout(xmm_reg) sums.high, inout(xmm_reg) sums.both,
                options(nostack, preserves_flags)
            );
            sums
        }
    }
}

/// Whether a segment may begin with this 64-byte unit: its first counter is then two more than a
/// multiple of eight.
pub(super) const fn begins_at(unit: usize) -> bool {
    unit.is_multiple_of(2)
}

/// One segment of a packet, with the key stream from a 64-byte unit.
///
/// # Safety
/// The CPU supports the instructions; the pointers are valid for the segment's length,
/// which is not 0, and the segment has at most [`POWERS`] blocks.
#[target_feature(enable = "sse4.1,ssse3,aes,pclmulqdq")]
pub(super) unsafe fn segment<const R: usize, const SEAL: bool>(
    key: &Key<R>,
    segment: &Segment<'_>,
    nonce: &[u8; 12],
    unit: usize,
) -> Block {
    debug_assert!(begins_at(unit));
    let place = POWERS - segment.blocks();
    let mut ahead = Ahead { power: key.high.0[place..].as_ptr(), halves: key.halves.0[place..].as_ptr() };
    let nothing = _mm_setzero_si128();
    let mut sums = Sums { low: nothing, high: nothing, both: nothing };
    // SAFETY: the segment has this many blocks, and the pointers are valid for them (caller); a block
    // has 16 bytes.
    unsafe {
        // The hash so far, until a block takes it.
        let mut joined = _mm_loadu_si128(segment.hash.0.as_ptr().cast());
        for block in segment.aad.chunks(16) {
            let block = reversed(load(block.as_ptr(), block.len(), 0));
            sums = ahead.add(sums, _mm_xor_si128(block, joined));
            (joined, ahead) = (nothing, ahead.after(1));
        }
        let counter = 2u32.wrapping_add(4 * unit as u32);
        (sums, ahead) = ciphered::<R, SEAL>(sums, ahead, joined, segment, key, nonce, counter);
        if segment.mask.is_some() {
            let lengths = _mm_set_epi64x(segment.total_aad as i64 * 8, segment.total as i64 * 8);
            sums = ahead.add(sums, lengths);
        }
    }
    ni::result(sums.value(), segment.mask)
}

/// XORs in the cipher's key stream from `counter`, its rounds interleaved with the hash
/// of the ciphertext one chunk earlier. Returns the sums and the powers left.
///
/// # Safety
/// As for [`segment`]; a power is left for each of its blocks.
#[inline]
#[target_feature(enable = "sse4.1,ssse3,aes,pclmulqdq")]
unsafe fn ciphered<const R: usize, const SEAL: bool>(
    mut sums: Sums,
    mut ahead: Ahead,
    joined: __m128i,
    segment: &Segment<'_>,
    key: &Key<R>,
    nonce: &[u8; 12],
    counter: u32,
) -> (Sums, Ahead) {
    let Segment { src, dst, len, .. } = *segment;
    let mut room = MaybeUninit::<Turned>::uninit();
    let chunk = room.as_mut_ptr().cast::<u8>();
    let [nonce] = ni::counters::<R, 1>(key, nonce, 0);
    let base = |counter: u32| _mm_xor_si128(nonce, _mm_set_epi32(counter.swap_bytes() as i32, 0, 0, 0));
    // Counters from two more than a multiple of eight: six of its blocks, and two of the
    // next one's.
    let mut counter = counter & !7;
    let (mut this, mut next) = (base(counter), base(counter.wrapping_add(8)));
    let mut done = 0;
    // SAFETY: blocks before `len` are within source and destination, and a power is left
    // for each.
    unsafe {
        let mut pads;
        (pads, sums) = pads_beside::<R, false>(key, this, next, sums, ahead, chunk);
        while len - done >= CHUNK {
            for (i, pad) in pads.into_iter().enumerate() {
                let x = _mm_loadu_si128(src.add(done + 16 * i).cast());
                let y = _mm_xor_si128(x, pad);
                _mm_storeu_si128(dst.add(done + 16 * i).cast(), y);
                let mut turned = reversed(if SEAL { y } else { x });
                if i == 0 && done == 0 {
                    turned = _mm_xor_si128(turned, joined);
                }
                _mm_store_si128(chunk.add(16 * i).cast(), turned);
            }
            done += CHUNK;
            if done == len {
                for i in 0..CHUNK / 16 {
                    sums = ahead.turned(sums, chunk, chunk.add(8), i);
                }
                return (sums, ahead.after(CHUNK / 16));
            }
            counter = counter.wrapping_add(8);
            (this, next) = (next, base(counter.wrapping_add(8)));
            (pads, sums) = pads_beside::<R, true>(key, this, next, sums, ahead, chunk);
            ahead = ahead.after(CHUNK / 16);
        }
        let mut joined = if done == 0 { joined } else { _mm_setzero_si128() };
        for pad in pads {
            let now = (len - done).min(16);
            if now == 0 {
                break;
            }
            let x = load(src.add(done), now, 0);
            let y = first(_mm_xor_si128(x, pad), now);
            store(dst.add(done), now, y);
            let turned = reversed(if SEAL { y } else { x });
            sums = ahead.add(sums, _mm_xor_si128(turned, joined));
            (joined, ahead) = (_mm_setzero_si128(), ahead.after(1));
            done += now;
        }
    }
    (sums, ahead)
}

/// Eight blocks of key stream, and the sums with those of the chunk before added. `this`
/// and `next` are counter blocks of adjacent multiples of eight, XORed with the first
/// round key.
///
/// # Safety
/// The chunk is eight blocks, with a power left for each, if they are to be hashed.
#[inline]
#[target_feature(enable = "sse4.1,ssse3,aes,pclmulqdq")]
unsafe fn pads_beside<const R: usize, const HASH: bool>(
    key: &Key<R>,
    this: __m128i,
    next: __m128i,
    mut sums: Sums,
    ahead: Ahead,
    chunk: *const u8,
) -> ([__m128i; 8], Sums) {
    let plus = |base: __m128i, n: i32| _mm_xor_si128(base, _mm_set_epi32(n << 24, 0, 0, 0));
    let mut pads = [
        plus(this, 2),
        plus(this, 3),
        plus(this, 4),
        plus(this, 5),
        plus(this, 6),
        plus(this, 7),
        next,
        plus(next, 1),
    ];
    // Opaque: the round keys are loaded again for each chunk instead of taking registers,
    // and the upper halves are loaded instead of shuffled.
    let (mut keys, mut upper) = (key.round_keys.as_ptr(), chunk.wrapping_add(8));
    // SAFETY: the assembly is empty.
    unsafe {
        asm!("/* {} {} */", inout(reg) keys, inout(reg) upper, options(nostack, preserves_flags));
    }
    // SAFETY: the key has this round's.
    let round_key = |round: usize| unsafe { _mm_load_si128(keys.add(round).cast()) };
    macro_rules! round {
        ($round:literal) => {{
            let k = round_key($round);
            for block in &mut pads {
                *block = _mm_aesenc_si128(*block, k);
            }
            if HASH {
                let [a, b, c, d, e, f, g, h] = &mut pads;
                // SAFETY: the assembly is empty; the rest is the caller's promise.
                unsafe {
                    // Keeps the rounds in this order.
                    asm!(
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
                    sums = ahead.turned(sums, chunk, upper, $round - 1);
                }
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
    for round in 9..R {
        let k = round_key(round);
        for block in &mut pads {
            *block = _mm_aesenc_si128(*block, k);
        }
    }
    let k = round_key(R);
    (pads.map(|block| _mm_aesenclast_si128(block, k)), sums)
}
