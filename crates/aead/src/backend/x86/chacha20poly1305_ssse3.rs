//! ChaCha20-Poly1305 in one pass with SSSE3, for CPUs without AVX2: as with AVX2 (see
//! `chacha20poly1305_beside`), the MAC runs on 64-bit words between the cipher's rounds.

use super::{
    chacha20_avx2::{Block, Hashed},
    chacha20_ssse3::{AnySsse3, PASS, pass},
    poly1305::{OPEN, SEAL},
    poly1305_powers::{InTurn, scatter},
};
use crate::{backend::portable::poly1305::Limbs, buffers::Buffers, bytes::gather};
use core::{arch::x86_64::*, mem::MaybeUninit};
use zeroize::Zeroize;

/// Bytes of a pass.
const BYTES: usize = 64 * PASS;

/// Key stream of the current region and of the next. The first has the block for the MAC's key in
/// front.
#[repr(C, align(64))]
struct Streams([[Block; PASS]; 2]);

/// A region of a packet, which is what one pass of the cipher covers, and its key stream.
#[derive(Clone, Copy)]
struct Region {
    begin: usize,
    end: usize,
    stream: *const u8,
}

impl AnySsse3 {
    pub(crate) fn seal(self, key: &[u32; 8], nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        // SAFETY: `self` proves CPU support, and the buffers are of equal length.
        unsafe { one_shot::<SEAL>(key, nonce, aad, buffers.into_pointers()) }
    }

    pub(crate) fn open(self, key: &[u32; 8], nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        // SAFETY: `self` proves CPU support, and the buffers are of equal length.
        unsafe { one_shot::<OPEN>(key, nonce, aad, buffers.into_pointers()) }
    }
}

/// An unprepared packet.
///
/// # Safety
/// The CPU has SSSE3; the pointers are valid for the given length.
#[target_feature(enable = "ssse3")]
unsafe fn one_shot<const WAY: u8>(
    key: &[u32; 8],
    nonce: &[u8; 12],
    aad: &[u8],
    (src, dst, len): (*const u8, *mut u8, usize),
) -> [u8; 16] {
    let mut streams = Streams([const { [const { MaybeUninit::uninit() }; PASS] }; 2]);
    let [first, second] = &mut streams.0;
    let places: [*mut u8; 2] = [first.as_mut_ptr().cast(), second.as_mut_ptr().cast()];
    let units = (1 + len.div_ceil(64)).min(PASS);
    pass(key, 0, nonce, &mut first[..units], ());
    // SAFETY: the first block is initialised.
    let (mut r, s) = unsafe {
        (Limbs::clamped(&places[0].cast::<[u8; 16]>().read()), places[0].add(16).cast::<[u8; 16]>().read())
    };
    let mut mac = InTurn::new(&r, None);
    let (blocks, rest) = aad.as_chunks::<16>();
    blocks.iter().for_each(|block| mac.block(u128::from_le_bytes(*block)));
    if !rest.is_empty() {
        mac.block(gather(rest));
    }
    let mut hashed = Hashed::new(mac);
    let whole = len / 16 * 16;
    let mut now = Region { begin: 0, end: len.min(64 * (units - 1)), stream: places[0].wrapping_add(64) };
    let (mut counter, mut turn) = (PASS as u32, 1);
    // SAFETY: regions before the last are whole units of the packet, whose stream is initialised.
    // Bytes to hash are in the packet's buffers, and stay unchanged until hashed.
    let tag = unsafe {
        if WAY == SEAL {
            xor(src, dst, now);
        } else {
            // The whole ciphertext is available, and a pass asks for more than its own region.
            hashed.over(src, 0, whole);
        }
        while now.end < len {
            if WAY == SEAL {
                hashed.over(dst, now.begin, now.end);
            }
            let units = (len - now.end).div_ceil(64).min(PASS);
            let next = Region { begin: now.end, end: len.min(now.end + 64 * units), stream: places[turn] };
            let place = core::slice::from_raw_parts_mut(places[turn].cast::<Block>(), units);
            hashed = pass(key, counter, nonce, place, hashed);
            hashed.until(now.end);
            if WAY == OPEN {
                xor(src, dst, now);
            }
            (now, turn, counter) = (next, 1 - turn, counter.wrapping_add(PASS as u32));
            if WAY == SEAL {
                xor(src, dst, now);
            }
        }
        if WAY == SEAL {
            hashed.over(dst, now.begin, whole);
        }
        let mut mac = hashed.all();
        if WAY == OPEN {
            xor(src, dst, now);
        }
        let rest = len - whole;
        if rest > 0 {
            let x = gather(core::slice::from_raw_parts(src.add(whole), rest));
            let pad = now.stream.add(whole - now.begin).cast::<u128>().read_unaligned();
            let y = (x ^ pad) & (u128::MAX >> (128 - 8 * rest));
            scatter(dst.add(whole), y, rest);
            mac.block(if WAY == SEAL { y } else { x });
        }
        mac.block(aad.len() as u128 | (len as u128) << 64);
        mac.sum().tag(&s)
    };
    // SAFETY: both are places of a stream. The second was written if the packet is longer than the
    // first. The assembly keeps the compiler from removing the wipe.
    unsafe {
        let used = if len > BYTES - 64 { 2 } else { 1 };
        places[..used].iter().for_each(|place| core::ptr::write_bytes(*place, 0, BYTES));
        core::arch::asm!("/* {} */", in(reg) places[0], options(nostack, preserves_flags));
    }
    r.zeroize();
    tag
}

/// XORs a region's whole blocks of the MAC.
///
/// # Safety
/// The pointers are valid for the region, and its stream is initialised.
#[inline]
#[target_feature(enable = "ssse3")]
unsafe fn xor(src: *const u8, dst: *mut u8, Region { begin, end, stream }: Region) {
    for at in (0..(end - begin) / 16 * 16).step_by(16) {
        // SAFETY: 16 bytes from `at` are within the region. The source is read before the
        // destination, possibly the same memory, is written.
        unsafe {
            let pad = _mm_load_si128(stream.add(at).cast());
            let x = _mm_loadu_si128(src.add(begin + at).cast());
            _mm_storeu_si128(dst.add(begin + at).cast(), _mm_xor_si128(x, pad));
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::{Backend, ChaCha20Poly1305, Key, Nonce};
    use std::{vec, vec::Vec};

    #[test]
    fn packets_match_portable_cipher() {
        let Some(ssse3) = AnySsse3::new(Backend::AesNi) else { return };
        let key = [0x5a; 32];
        let words = [0x5a5a_5a5a; 8];
        let portable = Key::<ChaCha20Poly1305>::with_backend(&key, Backend::Portable).expect("32 bytes");
        for len in (0..1100).chain([1500, 2048, 4095, 9000]) {
            let nonce = [len as u8; 12];
            let aad = vec![7; len * 7 % 61];
            let plain: Vec<u8> = (0..len).map(|i| (i * 31 + len) as u8).collect();
            let mut sealed = vec![0; len];
            let tag = portable.seal(Nonce::assume_unique(nonce), &aad, &plain, &mut sealed);
            let tag = *tag.as_bytes();

            // Separate buffers, at an odd address.
            let mut out = vec![0xee; len + 2];
            let apart = Buffers::Apart(&plain, &mut out[1..][..len]);
            assert_eq!(ssse3.seal(&words, &nonce, &aad, apart), tag, "{len}");
            assert_eq!((out[0], &out[1..][..len], out[len + 1]), (0xee, &sealed[..], 0xee), "{len}");
            let apart = Buffers::Apart(&sealed, &mut out[1..][..len]);
            assert_eq!(ssse3.open(&words, &nonce, &aad, apart), tag, "{len}");
            assert_eq!((out[0], &out[1..][..len], out[len + 1]), (0xee, &plain[..], 0xee), "{len}");

            let mut data = plain.clone();
            assert_eq!(ssse3.seal(&words, &nonce, &aad, Buffers::InPlace(&mut data)), tag, "{len}");
            assert!(data == sealed, "{len} sealed in place");
            assert_eq!(ssse3.open(&words, &nonce, &aad, Buffers::InPlace(&mut data)), tag, "{len}");
            assert!(data == plain, "{len} opened in place");
        }
    }
}
