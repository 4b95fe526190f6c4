//! ChaCha20 (RFC 8439 section 2.3) with AVX2, for CPUs below the AVX-512 backend: a vector holds
//! one row of one or two blocks' states.
//!
//! A pass takes as long as one block, up to the number of rows that fill the execution ports, so a
//! packet is cut into few passes of similar size. Up to three blocks use 128-bit vectors: unused
//! upper vector halves power down after about 100 µs, and the first use then stalls for about 0.5
//! µs. CPUs with AVX-512 VL rotate in one instruction at every vector length, and take long streams
//! 16 blocks at a time. Row b stays in place between rounds: it is ready last, and the next round
//! begins with it.

use super::{Avx512, poly1305_powers::InTurn};
use crate::{Backend, backend::portable::chacha20::CONSTANTS};
use core::{
    arch::{asm, x86_64::*},
    mem::MaybeUninit,
};

/// Proof that the CPU supports AVX2 and BMI2.
#[derive(Clone, Copy)]
pub(crate) struct Avx2 {
    /// The blocks from which it uses AVX-512's widest vectors, on a CPU that has F and VL as well.
    wide: Option<usize>,
}

/// Uninitialised memory for a block.
pub(super) type Block = MaybeUninit<[u8; 64]>;

/// The widest vectors repay the cost of their first use from here on early AVX-512 server CPUs,
/// below [`Backend::Avx512`].
const EARLY: usize = 9;
/// As [`EARLY`], with [`Backend::Avx512`]: five blocks take 5 ns less than in narrower vectors.
const WIDE: usize = 5;

impl From<Avx512> for Avx2 {
    /// [`Backend::Avx512`] implies AVX2.
    fn from(_: Avx512) -> Self {
        Self { wide: Some(WIDE) }
    }
}

impl Avx2 {
    /// Returns `None` on a CPU without AVX2 and BMI2.
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        let (avx2, avx512) = super::has_avx2_and_avx512vl();
        (matches!(backend, Backend::AesNi | Backend::Vaes) && avx2)
            .then_some(Self { wide: avx512.then_some(EARLY) })
    }

    /// Key stream from block `counter`; `out` is a whole number of blocks.
    pub(crate) fn stream(self, key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [u8]) {
        self.blocks(key, counter, nonce, super::chacha20poly1305::uninit(out));
    }

    /// Whether a packet of `len` bytes is faster with [`pass`](Self::pass): only without wider
    /// vectors.
    pub(super) fn is_worth_a_mac_beside(self, len: usize) -> bool {
        self.wide.is_none() && len >= 64 * (PASS - 1)
    }

    /// Between one and [`PASS`] blocks of key stream from block `counter`, interleaved with a MAC.
    pub(super) fn pass(
        self,
        key: &[u32; 8],
        counter: u32,
        nonce: &[u8; 12],
        out: &mut [Block],
        beside: Hashed,
    ) -> Hashed {
        // SAFETY: `self` proves CPU support.
        unsafe {
            match self.wide {
                Some(_) => rotating::pass_beside(key, counter, nonce, out, beside),
                None => shifting::pass_beside(key, counter, nonce, out, beside),
            }
        }
    }

    /// Key stream from block `counter`. Writes all of `out`.
    pub(super) fn blocks(self, key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [Block]) {
        // SAFETY: `self` proves CPU support.
        unsafe {
            match self.wide {
                Some(from) if out.len() >= from => {
                    super::chacha20::stream(key, counter, nonce, None, out);
                }
                Some(_) => rotating::stream(key, counter, nonce, out),
                None => shifting::stream(key, counter, nonce, out),
            }
        }
    }
}

/// Kernels for one instruction set. Where the CPU has a rotate instruction, the compiler uses it
/// for the two shifts.
macro_rules! kernels {
    ($name:ident, $features:literal, $rotates:literal) => {
        mod $name {
            use super::*;

            /// Key stream from block `counter`. Writes all of `out`.
            ///
            /// # Safety
            /// The CPU supports the instructions.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn stream(key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [Block]) {
                let (mut counter, mut rest) = (counter, out);
                while !rest.is_empty() {
                    let (now, later) = rest.split_at_mut(next_pass(rest.len()));
                    pass(key, counter, nonce, now, ());
                    counter = counter.wrapping_add(now.len() as u32);
                    rest = later;
                }
            }

            /// Between one and [`PASS`] blocks of key stream from block `counter`, interleaved with
            /// other work.
            #[inline]
            #[target_feature(enable = $features)]
            fn pass<B: Beside>(
                key: &[u32; 8],
                counter: u32,
                nonce: &[u8; 12],
                out: &mut [Block],
                beside: B,
            ) -> B {
                match out.len() {
                    1 => narrow::<1, B>(key, counter, nonce, out, beside),
                    2 => narrow::<2, B>(key, counter, nonce, out, beside),
                    3 => narrow::<3, B>(key, counter, nonce, out, beside),
                    4 => wide::<2, B>(key, counter, nonce, out, beside),
                    5..=6 => wide::<3, B>(key, counter, nonce, out, beside),
                    _ => wide::<4, B>(key, counter, nonce, out, beside),
                }
            }

            /// Like [`pass`], interleaved with a MAC.
            ///
            /// # Safety
            /// The CPU supports the instructions.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn pass_beside(
                key: &[u32; 8],
                counter: u32,
                nonce: &[u8; 12],
                out: &mut [Block],
                beside: Hashed,
            ) -> Hashed {
                pass(key, counter, nonce, out, beside)
            }

            /// `W` blocks from `counter`, one row of one block to a vector.
            #[inline]
            #[target_feature(enable = $features)]
            fn narrow<const W: usize, B: Beside>(
                key: &[u32; 8],
                counter: u32,
                nonce: &[u8; 12],
                out: &mut [Block],
                mut beside: B,
            ) -> B {
                let rows = rows(key, nonce);
                let one = _mm_set_epi32(0, 0, 0, 1);
                let mut counters = _mm_add_epi32(rows[3], _mm_set_epi32(0, 0, 0, counter as i32));
                let mut last = [counters; W];
                for row in &mut last {
                    *row = counters;
                    counters = _mm_add_epi32(counters, one);
                }
                let mut sets = last.map(|last| [rows[0], rows[1], rows[2], last]);
                // Rotations by whole bytes are one shuffle.
                let by_16 = by_16($rotates);
                let by_8 = _mm_set_epi64x(0x0e0d_0c0f_0a09_080b, 0x0605_0407_0201_0003);
                macro_rules! quarter_rounds {
                    () => {
                        for [a, b, c, d] in &mut sets {
                            *a = _mm_add_epi32(*a, *b);
                            *d = _mm_shuffle_epi8(_mm_xor_si128(*d, *a), by_16);
                            *c = _mm_add_epi32(*c, *d);
                            *b = _mm_xor_si128(*b, *c);
                            *b = _mm_or_si128(_mm_slli_epi32::<12>(*b), _mm_srli_epi32::<20>(*b));
                            *a = _mm_add_epi32(*a, *b);
                            *d = _mm_shuffle_epi8(_mm_xor_si128(*d, *a), by_8);
                            *c = _mm_add_epi32(*c, *d);
                            *b = _mm_xor_si128(*b, *c);
                            *b = _mm_or_si128(_mm_slli_epi32::<7>(*b), _mm_srli_epi32::<25>(*b));
                        }
                    };
                }
                for _ in 0..10 {
                    quarter_rounds!();
                    beside.step();
                    for [a, _, c, d] in &mut sets {
                        *a = _mm_shuffle_epi32::<0b10_01_00_11>(*a);
                        *c = _mm_shuffle_epi32::<0b00_11_10_01>(*c);
                        *d = _mm_shuffle_epi32::<0b01_00_11_10>(*d);
                    }
                    quarter_rounds!();
                    beside.step();
                    for [a, _, c, d] in &mut sets {
                        *a = _mm_shuffle_epi32::<0b00_11_10_01>(*a);
                        *c = _mm_shuffle_epi32::<0b10_01_00_11>(*c);
                        *d = _mm_shuffle_epi32::<0b01_00_11_10>(*d);
                    }
                }
                for ((set, last), block) in sets.iter().zip(last).zip(out) {
                    let first = [rows[0], rows[1], rows[2], last];
                    for (i, (row, first)) in set.iter().zip(first).enumerate() {
                        let to = block.as_mut_ptr().cast::<__m128i>();
                        // SAFETY: a block has 64 bytes, four vectors.
                        unsafe { _mm_storeu_si128(to.add(i), _mm_add_epi32(*row, first)) };
                    }
                }
                beside
            }

            /// Up to `2 W` blocks from `counter`, one row of two blocks to a vector.
            #[inline]
            #[target_feature(enable = $features)]
            fn wide<const W: usize, B: Beside>(
                key: &[u32; 8],
                counter: u32,
                nonce: &[u8; 12],
                out: &mut [Block],
                mut beside: B,
            ) -> B {
                let rows = rows(key, nonce).map(|row| _mm256_broadcastsi128_si256(row));
                let two = _mm256_set_epi32(0, 0, 0, 2, 0, 0, 0, 2);
                let first = counter as i32;
                let first = _mm256_set_epi32(0, 0, 0, first.wrapping_add(1), 0, 0, 0, first);
                let mut counters = _mm256_add_epi32(rows[3], first);
                let mut last = [counters; W];
                for row in &mut last {
                    *row = counters;
                    counters = _mm256_add_epi32(counters, two);
                }
                let mut sets = last.map(|last| [rows[0], rows[1], rows[2], last]);
                let by_16 = by_16($rotates);
                let by_8 = _mm_set_epi64x(0x0e0d_0c0f_0a09_080b, 0x0605_0407_0201_0003);
                let [by_16, by_8] = [by_16, by_8].map(|by| _mm256_broadcastsi128_si256(by));
                macro_rules! quarter_rounds {
                    () => {
                        for [a, b, c, d] in &mut sets {
                            *a = _mm256_add_epi32(*a, *b);
                            *d = _mm256_shuffle_epi8(_mm256_xor_si256(*d, *a), by_16);
                            *c = _mm256_add_epi32(*c, *d);
                            *b = _mm256_xor_si256(*b, *c);
                            *b = _mm256_or_si256(_mm256_slli_epi32::<12>(*b), _mm256_srli_epi32::<20>(*b));
                            *a = _mm256_add_epi32(*a, *b);
                            *d = _mm256_shuffle_epi8(_mm256_xor_si256(*d, *a), by_8);
                            *c = _mm256_add_epi32(*c, *d);
                            *b = _mm256_xor_si256(*b, *c);
                            *b = _mm256_or_si256(_mm256_slli_epi32::<7>(*b), _mm256_srli_epi32::<25>(*b));
                        }
                    };
                }
                for _ in 0..10 {
                    quarter_rounds!();
                    beside.step();
                    for [a, _, c, d] in &mut sets {
                        *a = _mm256_shuffle_epi32::<0b10_01_00_11>(*a);
                        *c = _mm256_shuffle_epi32::<0b00_11_10_01>(*c);
                        *d = _mm256_shuffle_epi32::<0b01_00_11_10>(*d);
                    }
                    quarter_rounds!();
                    beside.step();
                    for [a, _, c, d] in &mut sets {
                        *a = _mm256_shuffle_epi32::<0b00_11_10_01>(*a);
                        *c = _mm256_shuffle_epi32::<0b10_01_00_11>(*c);
                        *d = _mm256_shuffle_epi32::<0b01_00_11_10>(*d);
                    }
                }
                for ((set, last), out) in sets.iter().zip(last).zip(out.chunks_mut(2)) {
                    let [a, b, c, d] = *set;
                    let (a, b) = (_mm256_add_epi32(a, rows[0]), _mm256_add_epi32(b, rows[1]));
                    let (c, d) = (_mm256_add_epi32(c, rows[2]), _mm256_add_epi32(d, last));
                    // Lane j of row i becomes lane i of block j.
                    let whole = [
                        [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x20>(c, d)],
                        [_mm256_permute2x128_si256::<0x31>(a, b), _mm256_permute2x128_si256::<0x31>(c, d)],
                    ];
                    for (block, [low, high]) in out.iter_mut().zip(whole) {
                        let to = block.as_mut_ptr().cast::<__m256i>();
                        // SAFETY: a block has 64 bytes, two vectors.
                        unsafe {
                            _mm256_storeu_si256(to, low);
                            _mm256_storeu_si256(to.add(1), high);
                        }
                    }
                }
                beside
            }
        }
    };
}

kernels!(shifting, "avx2,bmi2", false);
kernels!(rotating, "avx2,bmi2,avx512f,avx512vl", true);

/// The shuffle that rotates words by 16 bits. Opaque to the compiler on CPUs without rotations:
/// knowing the constant, it would emit two half-word shuffles on the busiest ports.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn by_16(rotates: bool) -> __m128i {
    let mut by = _mm_set_epi64x(0x0d0c_0f0e_0908_0b0a, 0x0504_0706_0100_0302);
    if !rotates {
        // SAFETY: the assembly is empty.
        unsafe { asm!("/* {} */", inout(xmm_reg) by, options(pure, nomem, nostack, preserves_flags)) };
    }
    by
}

/// Maximum blocks per pass.
pub(super) const PASS: usize = 8;

/// Blocks for the next pass: two passes of six are faster than one of eight and a short one.
#[inline(always)]
fn next_pass(blocks: usize) -> usize {
    if (9..=12).contains(&blocks) { 6 } else { blocks.min(PASS) }
}

/// Work interleaved with the rounds of a pass, on execution ports that vectors leave free.
trait Beside {
    /// Does the next piece. A pass calls it twenty times.
    fn step(&mut self);
}

impl Beside for () {
    #[inline(always)]
    fn step(&mut self) {}
}

/// A MAC that continues over whole blocks on request.
pub(super) struct Hashed {
    mac: InTurn,
    bytes: *const u8,
    /// Bytes hashed so far, and the limit.
    done: usize,
    end: usize,
}

impl Hashed {
    /// A MAC with no bytes pending.
    #[inline(always)]
    pub(super) fn new(mac: InTurn) -> Self {
        Self { mac, bytes: core::ptr::null(), done: 0, end: 0 }
    }

    /// Continues with these bytes of a packet, whole blocks, at each step.
    ///
    /// # Safety
    /// The pointer is valid for them until they are hashed.
    #[inline(always)]
    pub(super) unsafe fn over(&mut self, packet: *const u8, begin: usize, end: usize) {
        (self.bytes, self.done, self.end) = (packet, begin, end);
    }

    /// Hashes at least all bytes before `place`, and returns the MAC so far.
    #[inline(always)]
    pub(super) fn until(&mut self, place: usize) -> &InTurn {
        while self.done < place.min(self.end) {
            self.one();
        }
        &self.mac
    }

    /// Hashes the next block, if one is left.
    #[inline(always)]
    pub(super) fn next(&mut self) {
        if self.done < self.end {
            self.one();
        }
    }

    /// Hashes all bytes, and returns the MAC.
    #[inline(always)]
    pub(super) fn all(mut self) -> InTurn {
        while self.done < self.end {
            self.one();
        }
        self.mac
    }

    #[inline(always)]
    fn one(&mut self) {
        // SAFETY: a whole block is left, for which the pointer is valid.
        self.mac.block(u128::from_le_bytes(unsafe { self.bytes.add(self.done).cast::<[u8; 16]>().read() }));
        self.done += 16;
    }
}

impl Beside for Hashed {
    /// Hashes two blocks: twenty calls more than cover the 32 of a pass.
    #[inline(always)]
    fn step(&mut self) {
        if self.end - self.done >= 32 {
            self.one();
            self.one();
        }
    }
}

/// The rows of a block's initial state, with counter zero.
#[inline]
#[target_feature(enable = "avx2")]
fn rows(key: &[u32; 8], nonce: &[u8; 12]) -> [__m128i; 4] {
    let row = |w: [u32; 4]| _mm_set_epi32(w[3] as i32, w[2] as i32, w[1] as i32, w[0] as i32);
    let [k0, k1, k2, k3, k4, k5, k6, k7] = *key;
    let n = |i: usize| u32::from_le_bytes([nonce[i], nonce[i + 1], nonce[i + 2], nonce[i + 3]]);
    [row(CONSTANTS), row([k0, k1, k2, k3]), row([k4, k5, k6, k7]), row([0, n(0), n(4), n(8)])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::portable::chacha20;

    #[test]
    fn stream_matches_scalar_code() {
        let Some(avx2) = Avx2::new(Backend::AesNi) else { return };
        let key = core::array::from_fn(|i| 0x1234_5678u32.wrapping_mul(i as u32 + 1));
        let wide = avx2.wide.map(|_| WIDE);
        for avx2 in [avx2, Avx2 { wide }, Avx2 { wide: None }] {
            for blocks in 0..36 {
                for counter in [0, 1, u32::MAX - 2] {
                    let (mut ours, mut scalar) = ([0; 64 * 36], [0; 64 * 36]);
                    avx2.stream(&key, counter, b"twelve bytes", &mut ours[..64 * blocks]);
                    chacha20::stream(&key, counter, b"twelve bytes", &mut scalar[..64 * blocks]);
                    assert_eq!(ours, scalar, "{blocks} blocks from {counter}");
                }
            }
        }
    }
}
