//! ChaCha20-Poly1305 in one pass with AVX2: the MAC runs on 64-bit words between the cipher's
//! rounds, which leave the word multipliers free.
//!
//! A region is what one pass of the cipher covers. While a pass computes the next region's key
//! stream, the current region's ciphertext is hashed. So the XOR comes before hashing when sealing,
//! and after it when opening.

use super::{
    chacha20_avx2::{Avx2, Block, Hashed, PASS},
    poly1305::{OPEN, SEAL},
    poly1305_powers::{InTurn, Part, Source, part},
};
use crate::backend::portable::poly1305::Limbs;
use core::{arch::x86_64::*, mem::MaybeUninit};
use zeroize::Zeroize;

/// Bytes of a pass.
const BYTES: usize = 64 * PASS;

/// Key stream of the current region and of the next. The first has the block for the MAC's key in
/// front.
#[repr(C, align(64))]
struct Streams([[Block; PASS]; 2]);

/// A region of a packet, and its key stream.
#[derive(Clone, Copy)]
struct Region {
    begin: usize,
    end: usize,
    stream: *mut u8,
}

/// An unprepared packet of at least one whole pass.
///
/// # Safety
/// The CPU has AVX2 and BMI2; the pointers are valid for the given length, at least 64 bytes for
/// each block of a pass but one.
#[target_feature(enable = "avx2,bmi2")]
pub(super) unsafe fn one_shot<const WAY: u8>(
    avx2: Avx2,
    key: &[u32; 8],
    nonce: &[u8; 12],
    aad: &[u8],
    (src, dst, len): (*const u8, *mut u8, usize),
) -> [u8; 16] {
    let mut streams = Streams([const { [const { MaybeUninit::uninit() }; PASS] }; 2]);
    let [first, second] = &mut streams.0;
    let places: [*mut u8; 2] = [first.as_mut_ptr().cast(), second.as_mut_ptr().cast()];
    let nothing = Hashed::new(InTurn::new(&Limbs::default(), None));
    avx2.pass(key, 0, nonce, first, nothing);
    // SAFETY: the first block is initialised.
    let (mut r, s) = unsafe {
        (Limbs::clamped(&places[0].cast::<[u8; 16]>().read()), places[0].add(16).cast::<[u8; 16]>().read())
    };
    let mut mac = InTurn::new(&r, None);
    let (blocks, rest) = aad.as_chunks::<16>();
    blocks.iter().for_each(|block| mac.block(u128::from_le_bytes(*block)));
    if !rest.is_empty() {
        let mut block = [0; 16];
        block[..rest.len()].copy_from_slice(rest);
        mac.block(u128::from_le_bytes(block));
    }
    let mut hashed = Hashed::new(mac);
    let mut now = Region { begin: 0, end: BYTES - 64, stream: places[0].wrapping_add(64) };
    let (mut counter, mut turn) = (PASS as u32, 1);
    // SAFETY: regions before the last are whole units of the packet, whose stream is initialised.
    // Bytes to hash are in the packet's buffers, and stay unchanged until hashed.
    unsafe {
        if WAY == SEAL {
            xor(src, dst, now);
        } else {
            // The whole ciphertext is available, and a pass asks for more than its own region.
            hashed.over(src, 0, len / 64 * 64);
        }
        while now.end < len {
            if WAY == SEAL {
                hashed.over(dst, now.begin, now.end);
            }
            let units = (len - now.end).div_ceil(64).min(PASS);
            let next = Region { begin: now.end, end: len.min(now.end + 64 * units), stream: places[turn] };
            let place = core::slice::from_raw_parts_mut(places[turn].cast::<Block>(), units);
            hashed = avx2.pass(key, counter, nonce, place, hashed);
            hashed.until(now.end);
            if WAY == OPEN {
                xor(src, dst, now);
            }
            (now, turn, counter) = (next, 1 - turn, counter.wrapping_add(units as u32));
            if WAY == SEAL {
                xor(src, dst, now);
            }
        }
        // The last region: its whole units, then the remainder.
        let end = now.begin + (now.end - now.begin) / 64 * 64;
        if WAY == SEAL {
            hashed.over(dst, now.begin, end);
        }
        let so_far = Some(hashed.until(end).sum().value());
        if WAY == OPEN {
            xor(src, dst, now);
        }
        let last = Part {
            so_far,
            aad: &[],
            src: src.add(end),
            dst: dst.add(end),
            len: now.end - end,
            stream: now.stream.add(end - now.begin),
            lengths: Some((aad.len() as u64, len as u64)),
        };
        let tag = part::<WAY, false>(Source::Short(&r), &last).tag(&s);
        // Both streams, even where only part of the second was written. The assembly keeps the
        // compiler from removing the wipe.
        places.iter().for_each(|place| core::ptr::write_bytes(*place, 0, BYTES));
        core::arch::asm!("/* {} */", in(reg) places[0], options(nostack, preserves_flags));
        r.zeroize();
        tag
    }
}

/// XORs a region's whole units.
///
/// # Safety
/// The pointers are valid for the region, and its stream is initialised.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn xor(src: *const u8, dst: *mut u8, Region { begin, end, stream }: Region) {
    for at in (0..(end - begin) / 64 * 64).step_by(32) {
        // SAFETY: 32 bytes from `at` are within the region's whole units. The source is read before
        // the destination, possibly the same memory, is written.
        unsafe {
            let pad = _mm256_load_si256(stream.add(at).cast());
            let x = _mm256_loadu_si256(src.add(begin + at).cast());
            _mm256_storeu_si256(dst.add(begin + at).cast(), _mm256_xor_si256(x, pad));
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::{Backend, ChaCha20Poly1305, Key, Nonce};
    use std::vec;

    /// Compares with the portable cipher a packet of `len` bytes with `aad` bytes of associated
    /// data: sealed and opened, in separate buffers and in place.
    fn same(avx2: Avx2, aad: usize, len: usize) {
        let (key, nonce) = ([7u8; 32], [len as u8; 12]);
        let words = core::array::from_fn(|i| u32::from_le_bytes([key[4 * i]; 4]));
        let aad: vec::Vec<u8> = (0..aad).map(|i| (i * 5) as u8).collect();
        let plain: vec::Vec<u8> = (0..len).map(|i| (i * 31 + len) as u8).collect();
        let portable = Key::<ChaCha20Poly1305>::with_backend(&key, Backend::Portable).expect("32 bytes");
        let mut sealed = vec![0; len];
        let tag = portable.seal(Nonce::assume_unique(nonce), &aad, &plain, &mut sealed);
        let mut out = vec![0xaa; len + 1];
        let mut place = plain.clone();
        // SAFETY: the CPU has AVX2 and BMI2, and the pointers are to `len` bytes, enough for a
        // pass.
        unsafe {
            let apart = one_shot::<SEAL>(avx2, &words, &nonce, &aad, (plain.as_ptr(), out.as_mut_ptr(), len));
            assert!(
                apart == *tag.as_bytes() && out[..len] == sealed && out[len] == 0xaa,
                "{len} sealed apart"
            );
            let at = place.as_mut_ptr();
            let within = one_shot::<SEAL>(avx2, &words, &nonce, &aad, (at, at, len));
            assert!(within == *tag.as_bytes() && place == sealed, "{len} sealed in place");
            let apart =
                one_shot::<OPEN>(avx2, &words, &nonce, &aad, (sealed.as_ptr(), out.as_mut_ptr(), len));
            assert!(
                apart == *tag.as_bytes() && out[..len] == plain && out[len] == 0xaa,
                "{len} opened apart"
            );
            let within = one_shot::<OPEN>(avx2, &words, &nonce, &aad, (at, at, len));
            assert!(within == *tag.as_bytes() && place == plain, "{len} opened in place");
        }
    }

    #[test]
    fn packets_match_portable_cipher() {
        let Some(avx2) = Avx2::new(Backend::AesNi) else { return };
        for len in BYTES - 64..2 * BYTES + 600 {
            same(avx2, len % 40, len);
        }
        for len in [2048, 4095, 4096, 9000, 65_537] {
            same(avx2, 0, len);
        }
    }
}
