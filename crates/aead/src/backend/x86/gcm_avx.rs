//! AES-GCM in one go, with AVX beside AES-NI and PCLMULQDQ, for packets of more than a few blocks.
//!
//! Without VAES and VPCLMULQDQ the cipher's rounds have one execution port of many CPUs, and the multiplications of the
//! hash share another one with the shuffles. So both run side by side here, a chunk of cipherstream and the hash of the
//! chunk before, and the hash is kept short: a block takes three multiplications (Karatsuba's form, for which the key
//! keeps the XOR of both halves of each power), and its halves meet by a load, since what is hashed goes through memory.
//!
//! Packets whose cipherstream is prepared stay with [`ni`]: hashed this way, with two blocks to a vector, those of 1500
//! octets in a pool were no faster, and shorter ones were slower.

use super::{
    gcm_key::{Block, Key, POWERS, Segment},
    ni::{self, reversed},
    partial::{first, load, store},
};
use core::{arch::x86_64::*, mem::MaybeUninit};

/// Payload bytes from which on this is faster than [`ni`].
pub(super) const FROM: usize = 192;
/// Bytes that the cipher makes at a time.
const CHUNK: usize = 128;

/// What lies on the wire, with the bytes of each block turned around: the chunk at hand, and the one before.
#[repr(C, align(64))]
struct Turned([u8; 2 * CHUNK]);

/// An unreduced sum of products: that of the lower halves, of the upper halves, and of the halves' XORs. (The pass has
/// it by value: one behind a reference would go to memory and back for each block.)
#[derive(Clone, Copy)]
struct Running {
    low: __m128i,
    high: __m128i,
    both: __m128i,
    /// What the next block is joined to: the hash so far, until a block has taken it.
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

    /// Adds the product of a block and a power; `halves` are the block's.
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
        // SAFETY: the caller's; the table goes on behind the last power.
        let (power, of_power) =
            unsafe { (_mm_loadu_si128(self.power.cast()), _mm_loadu_si128(self.halves.cast())) };
        self.product(block, halves, power, of_power);
        self.skip(1);
    }

    /// Adds block `i` of a chunk that lies turned around in memory.
    ///
    /// # Safety
    /// The chunk has block `i`, the blocks before were added this way, and a power is left for each.
    #[inline]
    #[target_feature(enable = "avx,pclmulqdq")]
    unsafe fn turned(&mut self, chunk: *const u8, i: usize) {
        // SAFETY: the caller's; the table goes on behind the last power.
        unsafe {
            let block = _mm_load_si128(chunk.add(16 * i).cast());
            let halves = _mm_xor_si128(block, _mm_loadl_epi64(chunk.add(16 * i + 8).cast()));
            let power = _mm_loadu_si128(self.power.add(i).cast());
            let of_power = _mm_loadu_si128(self.halves.add(i).cast());
            self.product(block, halves, power, of_power);
            // The compiler would sum up a chunk as a tree, for which it has not the registers.
            core::arch::asm!(
                "/* {0} {1} {2} */", inout(xmm_reg) self.low, inout(xmm_reg) self.high, inout(xmm_reg) self.both,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Goes on behind blocks that were added by their numbers.
    #[inline]
    #[target_feature(enable = "avx")]
    fn skip(&mut self, blocks: usize) {
        self.power = self.power.wrapping_add(blocks);
        self.halves = self.halves.wrapping_add(blocks);
    }

    /// Joins the hash so far to a chunk that begins a segment.
    ///
    /// # Safety
    /// The chunk is good for a block.
    #[inline]
    #[target_feature(enable = "avx")]
    unsafe fn join(&mut self, chunk: *mut u8) {
        // SAFETY: the caller's.
        unsafe {
            let first = _mm_load_si128(chunk.cast());
            _mm_store_si128(chunk.cast(), _mm_xor_si128(first, self.joined));
        }
        self.joined = _mm_setzero_si128();
    }

    /// The sum's value: the part at 0 is folded onto those at 64 and 128, and what is then at 64 onto that at 128.
    #[inline]
    #[target_feature(enable = "avx,pclmulqdq")]
    fn value(&self) -> __m128i {
        let both = _mm_xor_si128(self.both, _mm_xor_si128(self.low, self.high));
        ni::fold(ni::fold(self.low, both), self.high)
    }
}

/// One segment of a packet, with the cipherstream from a 64-byte unit on.
///
/// # Safety
/// The CPU has AVX, AES-NI and PCLMULQDQ; the pointers are good for the segment's length, which is not 0, and the segment
/// has at most [`POWERS`] blocks.
#[target_feature(enable = "avx,aes,pclmulqdq")]
pub(super) unsafe fn segment<const R: usize, const SEAL: bool>(
    key: &Key<R>,
    segment: &Segment<'_>,
    nonce: &[u8; 12],
    unit: usize,
) -> Block {
    let mut running = Running::new(key, segment);
    // SAFETY: the segment has so many blocks, and the pointers are good for them (caller).
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
    /// XORs the cipherstream into block `i` of the last `rest` bytes, which may end in it, and adds what is on the wire.
    ///
    /// # Safety
    /// The pointers are good for `rest` bytes, of which some are in block `i`, and a power is left.
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
        // SAFETY: the caller's.
        unsafe {
            let x = load(src.add(16 * i), now, 0);
            let y = first(_mm_xor_si128(x, pad), now);
            store(dst.add(16 * i), now, y);
            self.block(if SEAL { y } else { x });
        }
    }
}

/// XORs the cipher's stream from `counter` on in, whose rounds take turns with the hash of what lay on the wire a chunk
/// before.
///
/// # Safety
/// The CPU has AVX, AES-NI and PCLMULQDQ; the pointers are good for the segment's length, which is not 0, and so many
/// powers are left.
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
    // SAFETY: blocks before `len` are within source and destination, and `done & CHUNK` chooses one of the two chunks in
    // the room, whose other one was written a turn before.
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
                    // So that the rounds stay where they are.
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
