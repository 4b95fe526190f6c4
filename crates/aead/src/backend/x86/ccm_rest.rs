//! The end of a CCM packet from a prepared chain: the work left at the deadline.

use super::{
    cbc_mac::{Mac, from, into, load, number, store},
    ccm::Key,
    partial,
};
use core::arch::x86_64::*;

/// Ends a packet from a chain that includes the first round key: XORs `src` into the key stream at
/// `dst` and computes the tag.
///
/// # Safety
/// The CPU supports the instructions; `src` and `dst` are valid for `len` bytes, at least one;
/// `within` is less than 16, and `TAG` at most 16.
#[inline]
#[allow(clippy::too_many_arguments, reason = "the parts of one packet")]
#[target_feature(enable = "sse4.1,aes,ssse3")]
pub(super) unsafe fn seal_rest<const R: usize, const TAG: usize>(
    key: &Key<R>,
    chain: &[u8; 16],
    src: *const u8,
    len: usize,
    within: usize,
    dst: *mut u8,
    mask: &[u8; 16],
    tag: &mut [u8; TAG],
) {
    // SAFETY: the loads and stores are within the buffers, which have one length.
    unsafe {
        let now = len.min(16 - within);
        let x = if now == 16 { _mm_loadu_si128(src.cast()) } else { number(load(src, now) << (8 * within)) };
        let mut mac = Mac::<R>::resume(key, _mm_xor_si128(from(chain), x));
        if now == 16 {
            xor_into(dst, x);
        } else {
            store(dst, now, load(src, now) ^ load(dst, now));
        }
        // The XORs are done inside the loop, where the MAC's dependent rounds hide them; after it
        // they would add latency.
        let mut at = now;
        while len - at >= 16 {
            let x = _mm_loadu_si128(src.add(at).cast());
            mac.add(key, x);
            xor_into(dst.add(at), x);
            at += 16;
        }
        if at < len {
            let x = load(src.add(at), len - at);
            mac.add(key, number(x));
            store(dst.add(at), len - at, x ^ load(dst.add(at), len - at));
        }
        put_tag(tag, mac.value(key, from(mask)));
    }
}

/// Like [`seal_rest`], for one whole block that ends the packet.
///
/// # Safety
/// The CPU supports the instructions; `TAG` is at most 16.
#[inline]
#[target_feature(enable = "sse4.1,aes,ssse3")]
pub(super) unsafe fn seal_block<const R: usize, const TAG: usize>(
    key: &Key<R>,
    chain: &[u8; 16],
    block: &[u8; 16],
    stream: &mut [u8; 16],
    mask: &[u8; 16],
    tag: &mut [u8; TAG],
) {
    let plain = from(block);
    let mac = Mac::<R>::resume(key, _mm_xor_si128(from(chain), plain));
    *stream = into(_mm_xor_si128(plain, from(stream)));
    put_tag(tag, mac.value(key, from(mask)));
}

/// Like [`seal_rest`], for part of one block, all of which is in `out`. Bytes outside the part keep
/// their values.
///
/// # Safety
/// As for [`seal_rest`]; `within + len` is at most 16.
#[inline]
#[allow(clippy::too_many_arguments, reason = "the parts of one packet")]
#[target_feature(enable = "sse4.1,aes,ssse3")]
pub(super) unsafe fn seal_some<const R: usize, const TAG: usize>(
    key: &Key<R>,
    chain: &[u8; 16],
    src: *const u8,
    len: usize,
    within: usize,
    out: &mut [u8; 16],
    mask: &[u8; 16],
    tag: &mut [u8; TAG],
) {
    // SAFETY: guaranteed by the caller.
    let plain = unsafe { partial::load(src, len, within) };
    let mac = Mac::<R>::resume(key, _mm_xor_si128(from(chain), plain));
    *out = into(_mm_xor_si128(plain, from(out)));
    put_tag(tag, mac.value(key, from(mask)));
}

/// Like [`seal_rest`], for part of one block, with masks.
///
/// # Safety
/// As for [`seal_rest`]; `within + len` is at most 16.
#[inline]
#[allow(clippy::too_many_arguments, reason = "the parts of one packet")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2,sse4.1,aes")]
pub(super) unsafe fn seal_part<const R: usize, const TAG: usize>(
    key: &Key<R>,
    chain: &[u8; 16],
    src: *const u8,
    len: usize,
    within: usize,
    dst: *mut u8,
    mask: &[u8; 16],
    tag: &mut [u8; TAG],
) {
    let bytes = (_bzhi_u32(0xffff, len as u32) << within) as __mmask16;
    let (src, dst) = (src.wrapping_sub(within), dst.wrapping_sub(within));
    // SAFETY: the mask has `len` bytes from `within`, those of the buffers. The others are not
    // accessed.
    unsafe {
        let plain = _mm_maskz_loadu_epi8(bytes, src.cast());
        let mac = Mac::<R>::resume(key, _mm_xor_si128(from(chain), plain));
        let sealed = _mm_xor_si128(plain, _mm_maskz_loadu_epi8(bytes, dst.cast()));
        _mm_mask_storeu_epi8(dst.cast(), bytes, sealed);
        put_tag(tag, mac.value(key, from(mask)));
    }
}

/// XORs a block into memory.
///
/// # Safety
/// `at` is valid for 16 bytes.
#[inline]
#[target_feature(enable = "sse2")]
unsafe fn xor_into(at: *mut u8, x: __m128i) {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm_storeu_si128(at.cast(), _mm_xor_si128(x, _mm_loadu_si128(at.cast()))) }
}

/// Writes the first bytes of a block to `tag`.
#[inline]
#[target_feature(enable = "sse2")]
fn put_tag<const TAG: usize>(tag: &mut [u8; TAG], value: __m128i) {
    // SAFETY: the tag has this many bytes.
    unsafe {
        match TAG {
            8 => _mm_storel_epi64(tag.as_mut_ptr().cast(), value),
            16 => _mm_storeu_si128(tag.as_mut_ptr().cast(), value),
            _ => tag.copy_from_slice(&into(value)[..TAG]),
        }
    }
}

/// Like [`seal_rest`], but decrypts `src` into `dst` with the key stream at `stream`.
///
/// # Safety
/// The CPU supports the instructions; all three slices have one length, which is not 0; `within` is
/// less than 16.
#[inline]
#[target_feature(enable = "sse4.1,aes,ssse3")]
pub(super) unsafe fn open_rest<const R: usize>(
    key: &Key<R>,
    chain: &[u8; 16],
    within: usize,
    stream: &[u8],
    src: &[u8],
    dst: &mut [u8],
    mask: &[u8; 16],
) -> [u8; 16] {
    let (src, pad, dst, len) = (src.as_ptr(), stream.as_ptr(), dst.as_mut_ptr(), src.len());
    // SAFETY: the loads and stores are within the slices, which have one length.
    unsafe {
        // The MAC's blocks are computed from ciphertext and stream, so that no load waits for a
        // store.
        let now = len.min(16 - within);
        let mut mac;
        if now == 16 {
            let x = _mm_xor_si128(_mm_loadu_si128(src.cast()), _mm_loadu_si128(pad.cast()));
            mac = Mac::<R>::resume(key, _mm_xor_si128(from(chain), x));
            _mm_storeu_si128(dst.cast(), x);
        } else {
            let x = load(src, now) ^ load(pad, now);
            mac = Mac::<R>::resume(key, _mm_xor_si128(from(chain), number(x << (8 * within))));
            store(dst, now, x);
        }
        let mut at = now;
        while len - at >= 16 {
            let x = _mm_xor_si128(_mm_loadu_si128(src.add(at).cast()), _mm_loadu_si128(pad.add(at).cast()));
            mac.add(key, x);
            _mm_storeu_si128(dst.add(at).cast(), x);
            at += 16;
        }
        if at < len {
            let x = load(src.add(at), len - at) ^ load(pad.add(at), len - at);
            mac.add(key, number(x));
            store(dst.add(at), len - at, x);
        }
        into(mac.value(key, from(mask)))
    }
}
