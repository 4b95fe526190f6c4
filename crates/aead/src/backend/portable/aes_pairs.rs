//! AES (FIPS 197) in constant time without tables, for CPUs of 32 bits: two blocks, bit-sliced in
//! eight words, without ShiftRows ("fixslicing", Adomnicai and Peyrin, "Fixslicing AES-like
//! ciphers", TCHES 2021).
//!
//! Plane `k` holds bit `k` of every state byte. The byte of row `r`, column `c` and block `b` is bit
//! `8 r + 2 c + b`. An odd round leaves out ShiftRows: row `r` lies `r` columns away from its place, so
//! MixColumns takes the next row from one column further, and the round key is moved in the same
//! way. An even round makes up for both: it turns rows 1 and 3 by two columns.
//!
//! On ARMv7-M the rounds are assembly (`aes_pairs/armv7m.s`): eight planes leave a compiler too few
//! registers for the circuit. The Rust version serves other CPUs and host tests. `cargo xtask firmware`
//! compares the assembly with the AES of four blocks in QEMU.

use zeroize::Zeroize;

use rounds::{encrypt, substitute, transpose};

#[cfg(not(armv7m))]
mod rounds;

/// The rounds in assembly.
#[cfg(armv7m)]
#[allow(unsafe_code, reason = "calls assembly")]
mod rounds {
    use core::arch::global_asm;

    global_asm!(include_str!("aes_pairs/armv7m.s"), options(raw));

    unsafe extern "C" {
        fn antedate_aes_pair(
            keys: *const [u32; 8],
            first: *mut [u8; 16],
            second: *mut [u8; 16],
            last: *const [u32; 8],
        );
        fn antedate_aes_substitute(planes: *mut [u32; 8]);
        fn antedate_aes_transpose(words: *mut [u32; 8]);
    }

    /// Encrypts two blocks with an expanded key: an even number of rounds, at least two.
    pub(super) fn encrypt<const KEYS: usize>(
        planes: &[[u32; 8]; KEYS],
        first: &mut [u8; 16],
        second: &mut [u8; 16],
    ) {
        const { assert!(KEYS >= 3 && KEYS % 2 == 1) };
        // SAFETY: the last round key is within the array. The function reads the array from its start
        // to that key, which comes after an even number of rounds, where it stops. It reads and writes
        // the 16 bytes of either block, with accesses that may be unaligned, and preserves the
        // registers that the ABI requires.
        unsafe { antedate_aes_pair(planes.as_ptr(), first, second, planes.as_ptr().add(KEYS - 1)) }
    }

    /// SubBytes without its constant.
    pub(super) fn substitute(planes: &mut [u32; 8]) {
        // SAFETY: the function reads and writes the eight words, and preserves the registers that the
        // ABI requires.
        unsafe { antedate_aes_substitute(planes) }
    }

    /// Transposes four 8x8 bit matrices, each made of the same byte of the eight words. Self-inverse.
    pub(super) fn transpose(words: &mut [u32; 8]) {
        // SAFETY: as in `substitute`.
        unsafe { antedate_aes_transpose(words) }
    }
}

/// An expanded key: `KEYS` is one more than the rounds.
pub(crate) struct Aes<const KEYS: usize> {
    planes: [[u32; 8]; KEYS],
}

impl<const KEYS: usize> Drop for Aes<KEYS> {
    fn drop(&mut self) {
        self.planes.zeroize();
    }
}

/// The constant of SubBytes (FIPS 197 section 5.1.1).
const CONSTANT: u8 = 0x63;

fn sub_word(word: u32) -> u32 {
    let mut x = [word, 0, 0, 0, 0, 0, 0, 0];
    transpose(&mut x);
    substitute(&mut x);
    transpose(&mut x);
    x[0] ^ u32::from_ne_bytes([CONSTANT; 4])
}

impl<const KEYS: usize> Aes<KEYS> {
    /// Expands a key of 16 bytes (`KEYS` 11) or 32 (15). Missing bytes would be zeros.
    pub(crate) fn new(key: &[u8]) -> Self {
        const { assert!(KEYS == 11 || KEYS == 15) };
        let words = KEYS - 7;
        let mut this = Self { planes: [[0; 8]; KEYS] };
        // The last words, the oldest first.
        let mut last = [0u32; 8];
        for (word, bytes) in last.iter_mut().zip(key.as_chunks::<4>().0).take(words) {
            *word = u32::from_le_bytes(*bytes);
        }
        let mut rcon = 1u32;
        for i in 0..4 * KEYS {
            let place = i % words;
            if i >= words {
                let mut word = last[(i - 1) % words];
                if place == 0 {
                    word = sub_word(word.rotate_right(8)) ^ rcon;
                    rcon = (rcon << 1) ^ ((rcon >> 7) * 0x11b);
                } else if words == 8 && place == 4 {
                    word = sub_word(word);
                }
                last[place] ^= word;
            }
            let column = i % 4;
            let planes = &mut this.planes[i / 4];
            (planes[2 * column], planes[2 * column + 1]) = (last[place], last[place]);
        }
        last.zeroize();
        for (j, planes) in this.planes.iter_mut().enumerate() {
            transpose(planes);
            // The rounds without ShiftRows.
            for plane in planes.iter_mut().filter(|_| j % 2 == 1) {
                let [a, b, c, d] = plane.to_le_bytes();
                let rows = [a, b.rotate_left(2), c.rotate_left(4), d.rotate_left(6)];
                *plane = u32::from_le_bytes(rows);
            }
            // The constant of the round's SubBytes.
            for (k, plane) in planes.iter_mut().enumerate() {
                if j > 0 && CONSTANT >> k & 1 == 1 {
                    *plane = !*plane;
                }
            }
        }
        this
    }

    /// Encrypts two blocks.
    pub(crate) fn encrypt(&self, first: &mut [u8; 16], second: &mut [u8; 16]) {
        encrypt(&self.planes, first, second);
    }

    /// Encrypts one block.
    pub(crate) fn encrypt_one(&self, block: &mut [u8; 16]) {
        self.encrypt(block, &mut [0; 16]);
    }

    /// Encrypts any number of blocks.
    pub(crate) fn encrypt_all(&self, blocks: &mut [[u8; 16]]) {
        let (pairs, rest) = blocks.as_chunks_mut::<2>();
        for [first, second] in pairs {
            self.encrypt(first, second);
        }
        rest.iter_mut().for_each(|block| self.encrypt_one(block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::portable::aes::{Aes as Fours, RoundKeys};
    use proptest::prelude::*;

    #[test]
    fn fips_197_examples_encrypt() {
        let plain: [u8; 16] = core::array::from_fn(|i| 0x11 * i as u8);
        let key: [u8; 32] = core::array::from_fn(|i| i as u8);
        let (mut short, mut long, mut other) = (plain, plain, [1; 16]);
        Aes::<11>::new(&key[..16]).encrypt(&mut other, &mut short);
        Aes::<15>::new(&key).encrypt(&mut long, &mut other);
        assert_eq!(u128::from_be_bytes(short), 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a);
        assert_eq!(u128::from_be_bytes(long), 0x8ea2_b7ca_5167_45bf_eafc_4990_4b49_6089);
    }

    proptest! {
        #[test]
        fn pairs_equal_fours(key in any::<[u8; 32]>(), mut blocks in any::<[[u8; 16]; 4]>(), some in 0..5usize) {
            let mut expected = blocks;
            Fours::new(&RoundKeys::expand(&key)).encrypt(&mut expected);
            let untouched = blocks;
            Aes::<15>::new(&key).encrypt_all(&mut blocks[..some]);
            prop_assert_eq!(&blocks[..some], &expected[..some]);
            prop_assert_eq!(&blocks[some..], &untouched[some..]);
            let (mut blocks, mut expected) = (untouched, untouched);
            Fours::new(&RoundKeys::expand(&key[..16])).encrypt(&mut expected);
            Aes::<11>::new(&key[..16]).encrypt_all(&mut blocks);
            prop_assert_eq!(blocks, expected);
        }
    }
}
