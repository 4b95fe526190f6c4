//! Inverse of AES-128 (FIPS 197 section 5.3.5) with four tables of 16-bit words, 2 KB, on both
//! kinds of mote. Opens CBC, OCB3 and single blocks; CCM, GCM and CTR never need it.
//!
//! As in [`narrow`](super::narrow), a column is two words, and the contributions of rows 2 and 3
//! are those of rows 0 and 1 with the words swapped.

use super::{S_BOX, times};
use zeroize::Zeroize;

/// The inverse of the S-box.
static INVERSE: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        table[S_BOX[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// A byte's contribution to its column, two rows a word: 0e s 09 s, 0d s 0b s, 0b s 0e s, 09 s 0d
/// s.
static TABLES: [[u16; 256]; 4] = {
    let mut tables = [[0; 256]; 4];
    let mut i = 0;
    while i < 256 {
        let s = INVERSE[i];
        let (e, n, d, b) = (times(s, 0x0e), times(s, 0x09), times(s, 0x0d), times(s, 0x0b));
        tables[0][i] = u16::from_le_bytes([e, n]);
        tables[1][i] = u16::from_le_bytes([d, b]);
        tables[2][i] = u16::from_le_bytes([b, e]);
        tables[3][i] = u16::from_le_bytes([n, d]);
        i += 1;
    }
    tables
};

/// A column of InvMixColumns after the inverse S-box, from the bytes of its four rows.
#[inline]
fn column(bytes: [u8; 4]) -> [u16; 2] {
    let part = |row: usize, table: usize| TABLES[table][usize::from(bytes[row])];
    [part(0, 0) ^ part(1, 2) ^ part(2, 1) ^ part(3, 3), part(0, 1) ^ part(1, 3) ^ part(2, 0) ^ part(3, 2)]
}

/// The bytes that InvShiftRows moves to column `c`.
#[inline]
fn shifted(x: &[u8; 16], c: usize) -> [u8; 4] {
    let at = |row: usize| x[(4 * (c + 4 - row) + row) % 16];
    [at(0), at(1), at(2), at(3)]
}

/// An expanded key.
pub(crate) struct Aes128 {
    /// Round key 10, then 9 to 1 after InvMixColumns, then 0.
    keys: [[u8; 16]; 11],
}

impl Drop for Aes128 {
    fn drop(&mut self) {
        self.keys.as_flattened_mut().zeroize();
    }
}

impl Aes128 {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        let mut keys = [[0; 16]; 11];
        let mut block = *key;
        let mut rcon = 1u8;
        for round in 0..11 {
            keys[10 - round] = block;
            if (1..10).contains(&round) {
                let columns = keys[10 - round].as_chunks_mut::<4>().0;
                for bytes in columns {
                    let [low, high] = column(bytes.map(|byte| S_BOX[usize::from(byte)]));
                    let ([a, b], [c, d]) = (low.to_le_bytes(), high.to_le_bytes());
                    *bytes = [a, b, c, d];
                }
            }
            for at in 0..16 {
                let add = match at {
                    0..4 => S_BOX[usize::from(block[12 + (at + 1) % 4])],
                    _ => block[at - 4],
                };
                block[at] ^= add;
            }
            for bytes in block.as_chunks_mut::<4>().0 {
                bytes[0] ^= rcon;
            }
            rcon = super::double(rcon);
        }
        block.zeroize();
        Self { keys }
    }

    /// Decrypts a block.
    #[inline(never)]
    pub(crate) fn decrypt(&self, block: &mut [u8; 16]) {
        let [first, middle @ .., last] = &self.keys;
        xor(block, first);
        for key in middle {
            let x = *block;
            for (c, bytes) in block.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let [low, high] = column(shifted(&x, c));
                let ([p, q], [r, s]) = (low.to_le_bytes(), high.to_le_bytes());
                *bytes = [p, q, r, s];
            }
            xor(block, key);
        }
        let x = *block;
        for (c, bytes) in block.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *bytes = shifted(&x, c).map(|byte| INVERSE[usize::from(byte)]);
        }
        xor(block, last);
    }
}

use crate::backend::blocks::xor_in as xor;
