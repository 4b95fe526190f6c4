//! Ascon-AEAD128 (NIST SP 800-232 section 4) on five 64-bit words, little-endian as in the
//! standard. Not the competition's Ascon-128, with its other byte order and half the rate.
//!
//! The permutation has no table and no branch, so it is constant-time. On ARMv7-M it is assembly: its ten
//! half words fit the registers, and a compiler spills them.

use super::pieces;
use zeroize::Zeroize;

/// Bytes per permutation.
pub(crate) const RATE: usize = 16;

/// Initial value of section 4.1.1: identifier 1, rounds 12 and 8, 128-bit tag, 16-byte rate.
const IV: u64 = 0x0000_1000_808c_0001;

/// The state, and the key for finalization.
#[derive(Clone, Default)]
pub struct State {
    s: [u64; 5],
    key: [u64; 2],
}

impl Zeroize for State {
    fn zeroize(&mut self) {
        self.s.zeroize();
        self.key.zeroize();
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.zeroize();
    }
}

fn words(bytes: &[u8; 16]) -> [u64; 2] {
    let number = u128::from_le_bytes(*bytes);
    [number as u64, (number >> 64) as u64]
}

/// Pads fewer than 16 bytes with a one bit and zeros (section 2.1).
fn padded(bytes: &[u8]) -> [u64; 2] {
    let mut block = [0; RATE];
    block[..bytes.len()].copy_from_slice(bytes);
    block[bytes.len()] = 1;
    words(&block)
}

/// The permutation (section 3), with the last `rounds` of the sixteen round constants.
#[cfg(armv7m)]
#[allow(unsafe_code, reason = "calls assembly")]
mod rounds {
    use core::arch::global_asm;

    global_asm!(include_str!("ascon/armv7m.s"), options(raw));

    unsafe extern "C" {
        fn antedate_ascon_permute(s: *mut [u64; 5], rounds: u32);
    }

    #[inline]
    pub(super) fn permute(s: &mut [u64; 5], rounds: u64) {
        // SAFETY: the function reads and writes the five words, and preserves the registers that the ABI
        // requires. It ends after 1 to 12 rounds; the callers want 8 or 12.
        unsafe { antedate_ascon_permute(s, rounds as u32) }
    }
}

#[cfg(armv7m)]
use rounds::permute;

/// The permutation (section 3), with the last `rounds` of the sixteen round constants.
#[cfg(not(armv7m))]
#[inline(always)]
fn permute(s: &mut [u64; 5], rounds: u64) {
    let [mut x0, mut x1, mut x2, mut x3, mut x4] = *s;
    for i in 16 - rounds..16 {
        // Section 3.2: from 0x3c on, the first digit falls and the second rises.
        x2 ^= (3u64.wrapping_sub(i) & 15) << 4 | (12 + i) & 15;
        // Section 3.3: table 6 as a circuit.
        x0 ^= x4;
        x4 ^= x3;
        x2 ^= x1;
        let (t0, t1, t2, t3, t4) =
            (x0 ^ (!x1 & x2), x1 ^ (!x2 & x3), x2 ^ (!x3 & x4), x3 ^ (!x4 & x0), x4 ^ (!x0 & x1));
        (x0, x1, x2, x3, x4) = (t0 ^ t4, t1 ^ t0, !t2, t3 ^ t2, t4);
        // Section 3.4.
        x0 ^= x0.rotate_right(19) ^ x0.rotate_right(28);
        x1 ^= x1.rotate_right(61) ^ x1.rotate_right(39);
        x2 ^= x2.rotate_right(1) ^ x2.rotate_right(6);
        x3 ^= x3.rotate_right(10) ^ x3.rotate_right(17);
        x4 ^= x4.rotate_right(7) ^ x4.rotate_right(41);
    }
    *s = [x0, x1, x2, x3, x4];
}

/// Absorbs blocks of associated data before its end.
#[inline(always)]
fn absorb(s: &mut [u64; 5], blocks: &[[u8; RATE]]) {
    for block in blocks.iter().map(words) {
        s[0] ^= block[0];
        s[1] ^= block[1];
        permute(s, 8);
    }
}

/// Absorbs the end of the associated data, less than a block. Empty associated data gets no
/// padding.
#[inline(always)]
fn absorb_end(s: &mut [u64; 5], rest: &[u8], some: bool) {
    if some {
        let block = padded(rest);
        s[0] ^= block[0];
        s[1] ^= block[1];
        permute(s, 8);
    }
    // Separates associated data from payload.
    s[4] ^= 1 << 63;
}

/// Encrypts or decrypts whole blocks (sections 4.1.3 and 4.2.3).
#[inline(always)]
fn crypt<const SEAL: bool>(s: &mut [u64; 5], data: &mut [[u8; RATE]]) {
    for bytes in data {
        let block = words(bytes);
        let out = [s[0] ^ block[0], s[1] ^ block[1]];
        [s[0], s[1]] = if SEAL { out } else { block };
        *bytes = joined(out);
        permute(s, 8);
    }
}

fn joined(words: [u64; 2]) -> [u8; 16] {
    (u128::from(words[1]) << 64 | u128::from(words[0])).to_le_bytes()
}

impl State {
    /// State after absorbing key and nonce (section 4.1.1).
    #[inline(always)]
    pub(crate) fn start(&mut self, key: &[u8; 16], nonce: &[u8; 16]) {
        let (key, nonce) = (words(key), words(nonce));
        let mut s = [IV, key[0], key[1], nonce[0], nonce[1]];
        permute(&mut s, 12);
        s[3] ^= key[0];
        s[4] ^= key[1];
        *self = Self { s, key };
    }

    /// Absorbs all associated data (section 4.1.2), pieces read as one string. Called exactly once
    /// per packet, also without associated data.
    #[inline(always)]
    pub(crate) fn absorb(&mut self, aad: &[&[u8]]) {
        let mut rest = ([0; RATE], 0);
        let total = pieces::staged::<RATE>(aad, |part| {
            let (whole, tail) = part.as_chunks();
            absorb(&mut self.s, whole);
            rest.0[..tail.len()].copy_from_slice(tail);
            rest.1 = tail.len();
        });
        absorb_end(&mut self.s, &rest.0[..rest.1], total > 0);
    }

    /// Absorbs whole blocks of associated data; more must follow.
    #[inline(always)]
    pub(crate) fn associate(&mut self, blocks: &[u8]) {
        absorb(&mut self.s, blocks.as_chunks().0);
    }

    /// Encrypts whole blocks before the end of the packet.
    #[inline(always)]
    pub(crate) fn block(&mut self, data: &mut [u8]) {
        crypt::<true>(&mut self.s, data.as_chunks_mut().0);
    }

    /// Absorbs the associated data unless already done, encrypts or decrypts the rest of the
    /// packet, and returns the tag (sections 4.1.3 and 4.1.4).
    #[inline(always)]
    pub(crate) fn finish<const SEAL: bool>(&self, aad: Option<&[u8]>, data: &mut [u8]) -> [u8; 16] {
        let mut s = self.s;
        if let Some(aad) = aad {
            let (whole, rest) = aad.as_chunks();
            absorb(&mut s, whole);
            absorb_end(&mut s, rest, !aad.is_empty());
        }
        let (whole, rest) = data.as_chunks_mut();
        crypt::<SEAL>(&mut s, whole);
        let stream = joined([s[0], s[1]]);
        let mut plain = [0; 2];
        if SEAL {
            plain = padded(rest);
        }
        for (byte, pad) in rest.iter_mut().zip(stream) {
            *byte ^= pad;
        }
        if !SEAL {
            plain = padded(rest);
        }
        s[0] ^= plain[0];
        s[1] ^= plain[1];
        s[2] ^= self.key[0];
        s[3] ^= self.key[1];
        permute(&mut s, 12);
        joined([s[3] ^ self.key[0], s[4] ^ self.key[1]])
    }
}
