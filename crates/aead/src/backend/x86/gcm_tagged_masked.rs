//! The kernel of [`gcm_tagged`](super::gcm_tagged) for CPUs with AVX-512, on 256-bit vectors, with
//! masked remainders and three-operand joins.
//!
//! 512-bit vectors are faster in a busy loop but slower in the gateway, because the upper half of
//! the vector unit powers down between packets (see the book, *How the round trips became what they
//! are*).

use super::{
    avx512::mask,
    gcm_key::{Constants, POWERS, Powers},
    gcm_tagged::{opaque, vector},
    gcm_vaes::VECTOR,
};
use core::arch::{asm, x86_64::*};

/// Bytes of the pair of vectors processed together.
const PAIR: usize = 2 * VECTOR;

/// An unreduced sum of products, three per block, in two lanes: of the lower halves, of the upper
/// halves, and of the halves' XORs. The XOR of a power's halves comes from the table of powers by a
/// second load, at an offset of eight bytes.
struct Sum {
    low: __m256i,
    high: __m256i,
    both: __m256i,
}

impl Sum {
    /// Adds two vectors of byte-reversed blocks. One vector holds the XORs of the halves of both.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,vpclmulqdq")]
    fn add(&mut self, [x, y]: [__m256i; 2], [p, q]: [Power; 2]) {
        let halves = _mm256_xor_si256(_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y));
        self.low = xor3(
            self.low,
            _mm256_clmulepi64_epi128::<0x00>(x, p.power),
            _mm256_clmulepi64_epi128::<0x00>(y, q.power),
        );
        self.high = xor3(
            self.high,
            _mm256_clmulepi64_epi128::<0x11>(x, p.power),
            _mm256_clmulepi64_epi128::<0x11>(y, q.power),
        );
        self.both = xor3(
            self.both,
            _mm256_clmulepi64_epi128::<0x00>(halves, p.halves),
            _mm256_clmulepi64_epi128::<0x01>(halves, q.halves),
        );
    }
}

/// Two powers, and the XORs of their halves in the lower halves.
#[derive(Clone, Copy)]
struct Power {
    power: __m256i,
    halves: __m256i,
}

impl Power {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn of(power: __m256i) -> Self {
        Self { power, halves: _mm256_xor_si256(power, turned(power)) }
    }

    /// Loads two powers.
    ///
    /// # Safety
    /// A power is at `at` or directly before it; four zeros follow the last power.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(at: *const u128) -> Self {
        // SAFETY: guaranteed by the caller.
        let (power, shifted) =
            unsafe { (_mm256_loadu_si256(at.cast()), _mm256_loadu_si256(at.cast::<u8>().add(8).cast())) };
        Self { power, halves: _mm256_xor_si256(power, shifted) }
    }
}

/// Swaps the halves of each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn turned(x: __m256i) -> __m256i {
    _mm256_shuffle_epi32::<0b01_00_11_10>(x)
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn xor3(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
    _mm256_ternarylogic_epi64::<0x96>(a, b, c)
}

/// Processes a packet's payload in place and returns its tag, as the kernel of
/// [`gcm_tagged`](super::gcm_tagged) does. Does not access bytes after the payload.
///
/// # Safety
/// The CPU supports the instructions enabled here. The powers follow the constants directly. `at`
/// is valid for `len` bytes, at most that kernel's maximum; `stream` is valid for `len` bytes
/// rounded up to whole units of 64.
#[inline(never)]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".text.antedate.near"))]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,pclmulqdq,bmi2,sse4.1")]
#[allow(clippy::too_many_arguments, reason = "the parts of one packet")]
#[allow(improper_ctypes_definitions, reason = "called by this crate alone")]
pub(super) unsafe extern "sysv64" fn kernel(
    constants: *const Constants,
    at: *mut u8,
    len: usize,
    stream: *mut u8,
    seal: bool,
    aad_len: usize,
    a: __m128i,
    b: __m128i,
    masks_tag: __m128i,
) -> __m128i {
    let aad_len = opaque(aad_len);
    // SAFETY: guaranteed by the caller.
    let (constants, powers) = unsafe { (&*constants, &*constants.add(1).cast::<Powers>()) };
    let (turn, by) = (vector(constants.turn), _mm256_set1_epi64x(constants.fold as i64));
    let turns = _mm256_broadcastsi128_si256(turn);
    let reversed = |x| _mm256_shuffle_epi8(x, turns);
    let fold = |at_0, at_64| xor3(at_64, turned(at_0), _mm256_clmulepi64_epi128::<0x00>(at_0, by));
    // The ciphertext is the input when opening, and the input XOR the key stream when sealing.
    let sealing = 0u8.wrapping_sub(seal.into());
    let wire = |x, pad| reversed(_mm256_mask_xor_epi64(x, sealing, x, pad));
    let nothing = _mm256_setzero_si256();
    let (mut at, mut pads) = (at, stream);
    // SAFETY: whole vectors below `len` are within packet and stream; after them only existing
    // bytes are accessed. There is a power for each block.
    unsafe {
        let mut power = powers.0.as_ptr().add(POWERS - 3 - len.div_ceil(16));
        let one = _mm_loadu_si128(powers.0.as_ptr().add(POWERS - 1).cast());
        let lengths = _mm_slli_epi64::<3>(_mm_set_epi64x(aad_len as i64, len as i64));
        let mut sum = Sum { low: nothing, high: nothing, both: nothing };
        let one = Power::of(_mm256_zextsi128_si256(one));
        sum.add(
            [reversed(_mm256_set_m128i(b, a)), _mm256_zextsi128_si256(lengths)],
            [Power::load(power), one],
        );
        power = power.add(2);
        // The remainder comes first: after the loop its masked loads and products would delay the
        // fold.
        let whole = len & !(PAIR - 1);
        if len > whole {
            let some = mask(len - whole);
            let (at, pads, power) = (at.add(whole), pads.add(whole), power.byte_add(whole));
            macro_rules! step {
                ($i:expr) => {{
                    let (at, pads) = (at.add($i).cast(), pads.add($i).cast());
                    let some = (some >> $i) as __mmask32;
                    let (x, pad) = (_mm256_maskz_loadu_epi8(some, at), _mm256_maskz_loadu_epi8(some, pads));
                    _mm256_mask_storeu_epi8(at, some, _mm256_xor_si256(x, pad));
                    _mm256_storeu_si256(pads.cast(), nothing);
                    wire(x, pad)
                }};
            }
            sum.add([step!(0), step!(VECTOR)], [Power::load(power), Power::load(power.add(2))]);
        }
        let end = at.add(whole);
        while at != end {
            macro_rules! step {
                ($i:expr) => {{
                    let (at, pads) = (at.add($i).cast(), pads.add($i).cast());
                    let (x, pad) = (_mm256_loadu_si256(at), _mm256_loadu_si256(pads));
                    _mm256_storeu_si256(at, _mm256_xor_si256(x, pad));
                    _mm256_storeu_si256(pads, nothing);
                    wire(x, pad)
                }};
            }
            sum.add([step!(0), step!(VECTOR)], [Power::load(power), Power::load(power.add(2))]);
            (at, pads, power) = (at.add(PAIR), pads.add(PAIR), power.add(4));
        }
        // Keeps the compiler from removing the wipe.
        asm!("/* {} */", in(reg) stream, options(nostack, preserves_flags));
        let Sum { low, high, both } = sum;
        let hash = fold(fold(low, xor3(low, both, high)), high);
        let hash = _mm_xor_si128(_mm256_castsi256_si128(hash), _mm256_extracti128_si256::<1>(hash));
        _mm_xor_si128(_mm_shuffle_epi8(hash, turn), masks_tag)
    }
}
