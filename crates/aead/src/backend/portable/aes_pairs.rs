//! AES (FIPS 197) in constant time without tables, for CPUs of 32 bits: two blocks, bit-sliced in
//! eight words, without ShiftRows ("fixslicing", Adomnicai and Peyrin, "Fixslicing AES-like
//! ciphers", TCHES 2021).
//!
//! Plane `k` holds bit `k` of every state byte. The byte of row `r`, column `c` and block `b` is bit
//! `8 r + 2 c + b`. An odd round leaves out ShiftRows: row `r` lies `r` columns away from its place, so
//! MixColumns takes the next row from one column further, and the round key is moved in the same
//! way. An even round makes up for both: it turns rows 1 and 3 by two columns.

use super::aes::sub_bytes;
use core::ops::{BitAnd, BitXor, Not};
use zeroize::Zeroize;

/// An expanded key: `KEYS` is one more than the rounds.
pub(crate) struct Aes<const KEYS: usize> {
    planes: [[u32; 8]; KEYS],
}

impl<const KEYS: usize> Drop for Aes<KEYS> {
    fn drop(&mut self) {
        self.planes.zeroize();
    }
}

/// A plane for the circuit without its constant: the round keys have it, and MixColumns keeps it.
#[derive(Clone, Copy)]
struct Bare(u32);

impl BitXor for Bare {
    type Output = Self;

    #[inline(always)]
    fn bitxor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

impl BitAnd for Bare {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Bare {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        self
    }
}

/// The constant of SubBytes (FIPS 197 section 5.1.1).
const CONSTANT: u8 = 0x63;

/// SubBytes without its constant. Out of line: key expansion and encryption share it.
#[inline(never)]
fn substitute(x: &mut [u32; 8]) {
    let mut planes = x.map(Bare);
    sub_bytes(&mut planes);
    *x = planes.map(|plane| plane.0);
}

fn sub_word(word: u32) -> u32 {
    let mut x = [word, 0, 0, 0, 0, 0, 0, 0];
    transpose(&mut x);
    substitute(&mut x);
    transpose(&mut x);
    x[0] ^ u32::from_ne_bytes([CONSTANT; 4])
}

/// Transposes four 8x8 bit matrices, each made of the same byte of the eight words. Self-inverse.
#[inline(never)]
fn transpose(x: &mut [u32; 8]) {
    let [a, b, c, d, e, f, g, h] = x;
    for (low, high) in [(&mut *a, &mut *b), (&mut *c, &mut *d), (&mut *e, &mut *f), (&mut *g, &mut *h)] {
        exchange::<1>(low, high, 0x5555_5555);
    }
    for (low, high) in [(&mut *a, &mut *c), (&mut *b, &mut *d), (&mut *e, &mut *g), (&mut *f, &mut *h)] {
        exchange::<2>(low, high, 0x3333_3333);
    }
    for (low, high) in [(a, e), (b, f), (c, g), (d, h)] {
        exchange::<4>(low, high, 0x0f0f_0f0f);
    }
}

/// Exchanges bits of two words: those of `low` above `STEP` with those of `high` in the mask.
#[inline(always)]
fn exchange<const STEP: u32>(low: &mut u32, high: &mut u32, mask: u32) {
    let swap = ((*low >> STEP) ^ *high) & mask;
    *high ^= swap;
    *low ^= swap << STEP;
}

/// The words of a block: its columns, with row 0 in the lowest byte.
fn columns(block: &[u8; 16]) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

fn put(block: &mut [u8; 16], words: [u32; 4]) {
    for (bytes, word) in block.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
}

/// The next row in the same column. Without ShiftRows (`ODD`) it lies a column further: a row is a
/// byte of four columns, and what leaves the byte comes in at its other end.
#[inline(always)]
fn next<const ODD: bool>(x: u32) -> u32 {
    match ODD {
        false => x.rotate_right(8),
        true => (x ^ ((x ^ x.rotate_right(8)) & 0xfcfc_fcfc)).rotate_right(2),
    }
}

/// The row after the next one.
#[inline(always)]
fn opposite<const ODD: bool>(x: u32) -> u32 {
    match ODD {
        false => x.rotate_right(16),
        true => (x ^ ((x ^ x.rotate_right(8)) & 0xf0f0_f0f0)).rotate_right(12),
    }
}

/// Rows 1 and 3 by two columns, which is ShiftRows twice.
#[inline(always)]
fn turn(plane: u32) -> u32 {
    let swap = ((plane >> 4) ^ plane) & 0x0f00_0f00;
    plane ^ swap ^ (swap << 4)
}

/// What is left of ShiftRows, then MixColumns and AddRoundKey.
#[inline(never)]
fn mix<const ODD: bool>(x: &mut [u32; 8], key: &[u32; 8]) {
    // From the last plane on, so that few values are alive: doubling moves plane 7 to plane 0.
    let last = if ODD { x[7] } else { turn(x[7]) };
    let n = next::<ODD>(last);
    let high = last ^ n;
    let (n, t) = plane::<ODD, 7>(x, key, 0, (n, high));
    let (n, t) = plane::<ODD, 6>(x, key, 0, (n, t));
    let (n, t) = plane::<ODD, 5>(x, key, 0, (n, t));
    let (n, t) = plane::<ODD, 4>(x, key, high, (n, t));
    let (n, t) = plane::<ODD, 3>(x, key, high, (n, t));
    let (n, t) = plane::<ODD, 2>(x, key, 0, (n, t));
    let (n, t) = plane::<ODD, 1>(x, key, high, (n, t));
    x[0] = high ^ n ^ opposite::<ODD>(t) ^ key[0];
}

/// Plane `K` of the mixed columns. Takes the next row's plane and its sum with this row's, and
/// returns those of the plane below, which is doubled.
#[inline(always)]
fn plane<const ODD: bool, const K: usize>(
    x: &mut [u32; 8],
    key: &[u32; 8],
    reduction: u32,
    (n, t): (u32, u32),
) -> (u32, u32) {
    let this = if ODD { x[K - 1] } else { turn(x[K - 1]) };
    let below = next::<ODD>(this);
    let doubled = this ^ below;
    x[K] = doubled ^ reduction ^ n ^ opposite::<ODD>(t) ^ key[K];
    (below, doubled)
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
        let (a, b) = (columns(first), columns(second));
        let mut x = [a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]];
        transpose(&mut x);
        for (plane, key) in x.iter_mut().zip(&self.planes[0]) {
            *plane ^= key;
        }
        // Two rounds, the last of which has no MixColumns.
        let (rounds, _) = self.planes[1..].as_chunks::<2>();
        for (i, [odd, even]) in rounds.iter().enumerate() {
            substitute(&mut x);
            mix::<true>(&mut x, odd);
            substitute(&mut x);
            if i + 1 < rounds.len() {
                mix::<false>(&mut x, even);
            } else {
                for (plane, key) in x.iter_mut().zip(even) {
                    *plane = turn(*plane) ^ key;
                }
            }
        }
        transpose(&mut x);
        let [a, b, c, d, e, f, g, h] = x;
        put(first, [a, c, e, g]);
        put(second, [b, d, f, h]);
        x.zeroize();
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
