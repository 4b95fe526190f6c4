//! One table of 1 KB, for Cortex-M.

use super::{S_BOX, double};
use zeroize::Zeroize;

/// What a byte of row 0 gives to its column in SubBytes and MixColumns, as a little-endian word: 2s, s, s, 3s.
static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let s = S_BOX[i];
        table[i] = u32::from_le_bytes([double(s), s, s, double(s) ^ s]);
        i += 1;
    }
    table
};

/// An expanded key: the round keys as little-endian words.
pub(crate) struct Aes128 {
    keys: [[u32; 4]; 11],
}

impl Drop for Aes128 {
    fn drop(&mut self) {
        self.keys.as_flattened_mut().zeroize();
    }
}

fn words(block: &[u8; 16]) -> [u32; 4] {
    let (bytes, _) = block.as_chunks::<4>();
    core::array::from_fn(|i| u32::from_le_bytes(bytes[i]))
}

fn xor(a: [u32; 4], b: &[u32; 4]) -> [u32; 4] {
    core::array::from_fn(|i| a[i] ^ b[i])
}

#[inline(always)]
fn byte(word: u32, row: usize) -> usize {
    (word >> (8 * row) & 0xff) as usize
}

#[inline(always)]
fn round(x: [u32; 4], key: &[u32; 4]) -> [u32; 4] {
    let column = |c: usize| {
        let part = |row: usize| TABLE[byte(x[(c + row) & 3], row)].rotate_left(8 * row as u32);
        key[c] ^ part(0) ^ part(1) ^ part(2) ^ part(3)
    };
    [column(0), column(1), column(2), column(3)]
}

/// A column of the last round, which has no MixColumns.
#[inline(always)]
fn last(x: &[u32; 4], c: usize) -> u32 {
    let part = |row: usize| (TABLE[byte(x[(c + row) & 3], row)] >> 8 & 0xff) << (8 * row);
    part(0) | part(1) | part(2) | part(3)
}

impl Aes128 {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        let mut keys = [[0; 4]; 11];
        keys[0] = words(key);
        let mut rcon = 1u8;
        for i in 1..11 {
            let before = keys[i - 1];
            let mut word = last(&[before[3].rotate_right(8); 4], 0) ^ u32::from(rcon);
            for c in 0..4 {
                word ^= before[c];
                keys[i][c] = word;
            }
            rcon = double(rcon);
        }
        Self { keys }
    }

    #[inline(always)]
    fn middle(&self, mut x: [u32; 4]) -> [u32; 4] {
        let [_, keys @ .., _] = &self.keys;
        for key in keys {
            x = round(x, key);
        }
        x
    }

    /// Encrypts a block.
    #[inline(never)]
    pub(crate) fn encrypt(&self, block: &mut [u8; 16]) {
        let x = self.middle(xor(words(block), &self.keys[0]));
        for (c, bytes) in block.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *bytes = (last(&x, c) ^ self.keys[10][c]).to_le_bytes();
        }
    }

    /// Adds round key 0 to a chain; this is the form that `advance` and `finish` work with.
    #[inline]
    pub(crate) fn fold(&self, chain: &mut [u8; 16]) {
        add(chain, &self.keys[0]);
    }

    /// Adds the last round key to the mask of a tag.
    #[inline]
    pub(crate) fn fold_mask(&self, mask: &mut [u8; 16]) {
        add(mask, &self.keys[10]);
    }

    /// Encrypts a folded chain and folds the result.
    #[inline(never)]
    pub(crate) fn advance(&self, chain: &mut [u8; 16]) {
        let x = self.middle(words(chain));
        for (c, bytes) in chain.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *bytes = (last(&x, c) ^ self.keys[10][c] ^ self.keys[0][c]).to_le_bytes();
        }
    }

    /// The first 8 bytes of a folded chain's encryption, masked with a folded mask.
    #[inline(never)]
    pub(crate) fn finish(&self, chain: &[u8; 16], mask: &[u8; 16], tag: &mut [u8; 8]) {
        let x = self.middle(words(chain));
        let mask = words(mask);
        for (c, bytes) in tag.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *bytes = (last(&x, c) ^ mask[c]).to_le_bytes();
        }
    }
}

/// XORs words into bytes.
fn add(block: &mut [u8; 16], words: &[u32; 4]) {
    for (bytes, word) in block.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = (u32::from_le_bytes(*bytes) ^ word).to_le_bytes();
    }
}
