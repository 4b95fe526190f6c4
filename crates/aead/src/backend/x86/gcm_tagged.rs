//! AES-GCM of a packet in place, its tag directly after the payload: sealing and opening in a slot
//! of the gateway's ring.
//!
//! The key stream is prepared. With at most two blocks of associated data, all arguments fit in
//! registers. A read past a payload that ends within a block reads its tag, so no bytes are pieced
//! together. Both directions share code, because after a pause each cache line of code and data
//! comes from a farther cache.

use super::{
    gcm_key::{Constants, Key, Kind, POWERS, Powers},
    gcm_vaes::{Running, VECTOR},
};
use core::{
    arch::{asm, x86_64::*},
    mem, ptr,
};

/// Maximum bytes of associated data.
const AAD: usize = 32;
/// Maximum bytes of payload: with two blocks of associated data and the length block, one fold
/// covers them.
const PAYLOAD: usize = (POWERS - 3) * 16;

impl<const R: usize> Key<R> {
    /// Like [`seal_prepared`](Self::seal_prepared) in place, for a `packet` that ends with space
    /// for its tag. Returns whether it was sealed.
    #[inline(always)]
    pub(crate) fn seal_in_one_piece(
        &self,
        mask: &u128,
        stream: &mut [u8],
        aad: &[u8],
        packet: &mut [u8],
    ) -> bool {
        let tag = self.tagged(true, vector(mask.to_le_bytes()), stream, aad, packet);
        if let (Some(tag), Some(room)) = (tag, packet.last_chunk_mut()) {
            *room = bytes(tag);
        }
        tag.is_some()
    }

    /// Like [`open_and_wipe`](Self::open_and_wipe) in place, for a `packet` that ends with its tag.
    /// Returns whether the packet is authentic, or `None` if there is no kernel for it.
    #[inline(always)]
    pub(crate) fn open_in_one_piece(
        &self,
        mask: &u128,
        stream: &mut [u8],
        aad: &[u8],
        packet: &mut [u8],
    ) -> Option<bool> {
        // SAFETY: every CPU of this architecture has SSE2.
        let masked = unsafe { _mm_xor_si128(vector(mask.to_le_bytes()), vector(*packet.last_chunk()?)) };
        // The XOR is zero if both tags are equal. All bytes are compared at once.
        let left = self.tagged(false, masked, stream, aad, packet)?;
        // SAFETY: as above.
        Some(unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(left, _mm_setzero_si128())) } == 0xffff)
    }

    /// Computes the tag of a packet with space for one, and wipes all of `stream`, if there is a
    /// kernel for it.
    #[inline(always)]
    fn tagged(
        &self,
        seal: bool,
        mask: __m128i,
        stream: &mut [u8],
        aad: &[u8],
        packet: &mut [u8],
    ) -> Option<__m128i> {
        let (Kind::Vaes | Kind::Avx512) = self.kind else { return None };
        let len = packet.len().checked_sub(16)?;
        let [a, b] = blocks(aad).filter(|_| len <= PAYLOAD)?;
        let used = len.next_multiple_of(64);
        assert!(used <= stream.len());
        let (at, pads) = (packet.as_mut_ptr(), stream.as_mut_ptr());
        // SAFETY: the kind of key proves CPU support; packet and stream have the required lengths.
        let tag = unsafe { kernel(self.lines(), at, len, pads, seal, aad.len(), a, b, mask) };
        if used < stream.len() {
            self.wipe(&mut stream[used..]);
        }
        Some(tag)
    }

    /// Address of the constants, with the powers directly after them.
    #[inline(always)]
    fn lines(&self) -> *const Constants {
        const { assert!(mem::offset_of!(Self, constants) + size_of::<Constants>() == mem::offset_of!(Self, high)) };
        // A pointer derived from the constants alone would not be valid for the powers.
        ptr::from_ref(self).wrapping_byte_add(mem::offset_of!(Self, constants)).cast()
    }
}

/// Returns the length, opaque to the compiler, which would otherwise place a constant in another
/// cache line.
#[inline(always)]
pub(super) fn opaque(mut len: usize) -> usize {
    // SAFETY: the assembly is empty.
    unsafe { asm!("/* {} */", inout(reg) len, options(pure, nomem, nostack, preserves_flags)) };
    len
}

/// Associated data as two blocks, if it fits. A zero block in front does not change a hash.
#[inline(always)]
fn blocks(aad: &[u8]) -> Option<[__m128i; 2]> {
    // SAFETY: every CPU of this architecture has SSE2.
    let block = |at| unsafe { _mm_set_epi64x(word(aad, at + 8) as i64, word(aad, at) as i64) };
    match aad.len() {
        0..=16 => Some([vector([0; 16]), block(0)]),
        17..=AAD => Some([block(0), block(16)]),
        _ => None,
    }
}

#[inline(always)]
pub(super) fn vector(bytes: [u8; 16]) -> __m128i {
    // SAFETY: either type is sixteen bytes of any value.
    unsafe { mem::transmute(bytes) }
}

#[inline(always)]
fn bytes(vector: __m128i) -> [u8; 16] {
    // SAFETY: as above.
    unsafe { mem::transmute(vector) }
}

/// The eight bytes from `at`, zero-padded after the end. Loads words, because associated data was
/// just written in words: a wider load would wait for the stores of its parts, while words may stay
/// in the registers they were written from.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).unwrap_or_default();
    if let Some(word) = bytes.first_chunk() {
        return u64::from_le_bytes(*word);
    }
    let (low, rest) = match bytes.split_first_chunk() {
        Some((half, rest)) => (u64::from(u32::from_le_bytes(*half)), rest),
        None => (0, bytes),
    };
    let from = bytes.len() - rest.len();
    rest.iter().enumerate().fold(low, |word, (i, byte)| word | u64::from(*byte) << (8 * (from + i)))
}

/// Processes a packet's payload in place and returns its tag, with the associated data in two
/// blocks. Wipes the key stream in units of 64 bytes. The sysv64 convention passes all arguments
/// and results in registers, blocks included.
///
/// # Safety
/// The CPU has AVX2 and VPCLMULQDQ with PCLMULQDQ, SSSE3 and SSE4.1. The powers follow the
/// constants directly. `at` is valid for `len` bytes, at most [`PAYLOAD`], and for the tag after
/// them, which is preserved; `stream` is valid for `len` bytes rounded up to whole units.
#[inline(never)]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".text.antedate.near"))]
#[target_feature(enable = "avx2,vpclmulqdq,pclmulqdq,ssse3,sse4.1")]
#[allow(clippy::too_many_arguments, reason = "the parts of one packet")]
#[allow(improper_ctypes_definitions, reason = "called by this crate alone")]
unsafe extern "sysv64" fn kernel(
    constants: *const Constants,
    at: *mut u8,
    len: usize,
    stream: *mut u8,
    seal: bool,
    aad_len: usize,
    a: __m128i,
    b: __m128i,
    mask: __m128i,
) -> __m128i {
    let aad_len = opaque(aad_len);
    // SAFETY: guaranteed by the caller.
    let (constants, powers) = unsafe { (&*constants, &*constants.add(1).cast::<Powers>()) };
    let turn = vector(constants.turn);
    let reversed = |x| _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(turn));
    // SAFETY: 16 bytes remain from byte 16 of 32 or before.
    let first =
        |len: usize| unsafe { _mm_loadu_si128(constants.first.as_ptr().add(16 - len.min(16)).cast()) };
    let nothing = _mm256_setzero_si256();
    // The ciphertext is the input when opening, and the input XOR the key stream when sealing.
    let sealing = _mm256_set1_epi8(-i8::from(seal));
    let (mut at, mut pads) = (at, stream);
    // SAFETY: whole vectors below `len` are within packet and stream. The payload's remainder is
    // read and written up to a whole block, within the payload and its tag; bytes after the payload
    // are written back unchanged. There is a power for each block.
    unsafe {
        let power = powers.0.as_ptr().add(POWERS - 3 - len.div_ceil(16));
        let one = _mm_loadu_si128(powers.0.as_ptr().add(POWERS - 1).cast());
        let lengths = _mm_slli_epi64::<3>(_mm_set_epi64x(aad_len as i64, len as i64));
        let (x, one) = (_mm256_zextsi128_si256(lengths), _mm256_zextsi128_si256(one));
        let mut running = Running::<1>::of(x, one, power);
        running.add(reversed(_mm256_set_m128i(b, a)), 0);
        running.skip(2);
        macro_rules! vector {
            ($i:literal) => {{
                let (at, pads) = (at.add($i * VECTOR).cast(), pads.add($i * VECTOR).cast());
                let (x, pad) = (_mm256_loadu_si256(at), _mm256_loadu_si256(pads));
                _mm256_storeu_si256(at, _mm256_xor_si256(x, pad));
                _mm256_storeu_si256(pads, nothing);
                running.add(reversed(_mm256_xor_si256(x, _mm256_and_si256(pad, sealing))), $i * 2);
            }};
        }
        let mut left = len;
        while left >= 2 * VECTOR {
            vector!(0);
            vector!(1);
            (at, pads, left) = (at.add(2 * VECTOR), pads.add(2 * VECTOR), left - 2 * VECTOR);
            running.skip(4);
        }
        let rest = pads;
        if left >= VECTOR {
            vector!(0);
            (at, pads, left) = (at.add(VECTOR), pads.add(VECTOR), left - VECTOR);
            running.skip(2);
        }
        if left > 0 {
            let block = |at: *mut u8, pads: *mut u8, len| {
                let (x, first) = (_mm_loadu_si128(at.cast()), first(len));
                let pad = _mm_and_si128(_mm_loadu_si128(pads.cast()), first);
                _mm_storeu_si128(at.cast(), _mm_xor_si128(x, pad));
                let pad = _mm_and_si128(pad, _mm256_castsi256_si128(sealing));
                _mm_xor_si128(_mm_and_si128(x, first), pad)
            };
            let low = block(at, pads, left);
            let high =
                if left > 16 { block(at.add(16), pads.add(16), left - 16) } else { _mm_setzero_si128() };
            running.add(reversed(_mm256_set_m128i(high, low)), 0);
        }
        if !len.is_multiple_of(2 * VECTOR) {
            _mm256_storeu_si256(rest.cast(), nothing);
            _mm256_storeu_si256(rest.add(VECTOR).cast(), nothing);
        }
        // Keeps the compiler from removing the wipe.
        asm!("/* {} */", in(reg) stream, options(nostack, preserves_flags));
        _mm_xor_si128(_mm_shuffle_epi8(running.value(), turn), mask)
    }
}
