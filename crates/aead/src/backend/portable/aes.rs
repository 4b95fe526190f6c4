//! AES (FIPS 197) in constant time without tables: four blocks, bit-sliced in eight words.
//!
//! Plane `k` holds bit `k` of every state byte. The byte of row `r`, column `c` and block `b` is
//! bit `16 r + 4 c + b`, so ShiftRows rotates each 16-bit lane and MixColumns rotates whole words.
//! SubBytes is the circuit of Boyar and Peralta ("A depth-16 circuit for the AES S-box", 2011). No
//! address and no branch depends on the key or the data.

use core::ops::{BitAnd, BitXor, Not};
use zeroize::Zeroize;

/// Round keys in the layout of FIPS 197 section 5.2; `rounds + 1` blocks are in use.
pub(crate) struct RoundKeys {
    pub(crate) blocks: [[u8; 16]; 15],
    pub(crate) rounds: usize,
}

impl Drop for RoundKeys {
    fn drop(&mut self) {
        self.blocks.zeroize();
    }
}

impl RoundKeys {
    /// Expands a key of 16 or 32 bytes.
    pub(crate) fn expand(key: &[u8]) -> Self {
        Self::expand_by(key, sub_word)
    }

    /// As [`expand`](Self::expand), with another implementation of SubWord (FIPS 197 section 5.2).
    pub(crate) fn expand_by(key: &[u8], sub_word: impl Fn([u8; 4]) -> [u8; 4]) -> Self {
        let words = key.len() / 4;
        let rounds = words + 6;
        let mut w = [[0u8; 4]; 60];
        for (word, bytes) in w.iter_mut().zip(key.chunks_exact(4)) {
            word.copy_from_slice(bytes);
        }
        let mut rcon = 1u8;
        for i in words..4 * (rounds + 1) {
            let mut t = w[i - 1];
            if i % words == 0 {
                t.rotate_left(1);
                t = sub_word(t);
                t[0] ^= rcon;
                rcon = (rcon << 1) ^ ((rcon >> 7) * 0x1b);
            } else if words > 6 && i % words == 4 {
                t = sub_word(t);
            }
            for k in 0..4 {
                w[i][k] = w[i - words][k] ^ t[k];
            }
        }
        let mut blocks = [[0u8; 16]; 15];
        for (i, word) in w.iter().enumerate() {
            blocks[i / 4][4 * (i % 4)..][..4].copy_from_slice(word);
        }
        w.zeroize();
        Self { blocks, rounds }
    }
}

/// An expanded key in sliced form.
pub(crate) struct Aes {
    pub(super) planes: [[u64; 8]; 15],
    pub(super) rounds: usize,
}

impl Drop for Aes {
    fn drop(&mut self) {
        self.planes.zeroize();
    }
}

impl Aes {
    pub(crate) fn new(key: &RoundKeys) -> Self {
        let mut planes = [[0u64; 8]; 15];
        for (sliced, block) in planes.iter_mut().zip(&key.blocks) {
            *sliced = pack(&[*block; 4]);
        }
        Self { planes, rounds: key.rounds }
    }

    /// Encrypts four blocks at once.
    pub(crate) fn encrypt(&self, blocks: &mut [[u8; 16]; 4]) {
        let mut x = pack(blocks);
        add(&mut x, &self.planes[0]);
        for key in &self.planes[1..self.rounds] {
            sub_bytes(&mut x);
            shift_rows(&mut x);
            mix_columns(&mut x);
            add(&mut x, key);
        }
        sub_bytes(&mut x);
        shift_rows(&mut x);
        add(&mut x, &self.planes[self.rounds]);
        unpack(&mut x, blocks);
    }
}

#[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
impl Aes {
    /// Encrypts up to four blocks.
    pub(crate) fn encrypt_some(&self, blocks: &mut [[u8; 16]]) {
        self.some(blocks, Self::encrypt);
    }

    /// Decrypts up to four blocks.
    pub(crate) fn decrypt_some(&self, blocks: &mut [[u8; 16]]) {
        self.some(blocks, Self::decrypt);
    }

    fn some(&self, blocks: &mut [[u8; 16]], direction: impl Fn(&Self, &mut [[u8; 16]; 4])) {
        let mut four = [[0; 16]; 4];
        for (block, of) in four.iter_mut().zip(&*blocks) {
            *block = *of;
        }
        direction(self, &mut four);
        for (block, of) in blocks.iter_mut().zip(&four) {
            *block = *of;
        }
        four.zeroize();
    }
}

fn sub_word(word: [u8; 4]) -> [u8; 4] {
    let mut blocks = [[0u8; 16]; 4];
    blocks[0][..4].copy_from_slice(&word);
    let mut x = pack(&blocks);
    sub_bytes(&mut x);
    unpack(&mut x, &mut blocks);
    let [a, b, c, d, ..] = blocks[0];
    [a, b, c, d]
}

/// Maps byte `m` of word `j` to bits `8 m + j` of the planes: row `m / 2`, column `2 (m % 2) + j /
/// 4`, block `j % 4`.
fn place(j: usize, m: usize) -> (usize, usize) {
    (j & 3, 4 * (2 * (m & 1) + (j >> 2)) + (m >> 1))
}

pub(super) fn pack(blocks: &[[u8; 16]; 4]) -> [u64; 8] {
    let mut x = [0u64; 8];
    for (j, word) in x.iter_mut().enumerate() {
        let mut bytes = [0u8; 8];
        for (m, byte) in bytes.iter_mut().enumerate() {
            let (block, index) = place(j, m);
            *byte = blocks[block][index];
        }
        *word = u64::from_le_bytes(bytes);
    }
    transpose(&mut x);
    x
}

pub(super) fn unpack(x: &mut [u64; 8], blocks: &mut [[u8; 16]; 4]) {
    transpose(x);
    for (j, word) in x.iter().enumerate() {
        for (m, byte) in word.to_le_bytes().into_iter().enumerate() {
            let (block, index) = place(j, m);
            blocks[block][index] = byte;
        }
    }
}

/// Transposes eight 8x8 bit matrices, each made of the same byte of the eight words. Self-inverse.
fn transpose(x: &mut [u64; 8]) {
    for (step, mask) in
        [(1, 0x5555_5555_5555_5555u64), (2, 0x3333_3333_3333_3333), (4, 0x0f0f_0f0f_0f0f_0f0f)]
    {
        for i in 0..8 {
            if i & step == 0 {
                let swap = ((x[i] >> step) ^ x[i + step]) & mask;
                x[i + step] ^= swap;
                x[i] ^= swap << step;
            }
        }
    }
}

pub(super) fn add(x: &mut [u64; 8], key: &[u64; 8]) {
    for (plane, k) in x.iter_mut().zip(key) {
        *plane ^= k;
    }
}

pub(super) fn shift_rows(x: &mut [u64; 8]) {
    for plane in x {
        let p = *plane;
        // Row r is a 16-bit lane of four columns, rotated right by r columns.
        *plane = (p & 0x0000_0000_0000_ffff)
            | ((p >> 4) & 0x0000_0000_0fff_0000)
            | ((p << 12) & 0x0000_0000_f000_0000)
            | ((p >> 8) & 0x0000_00ff_0000_0000)
            | ((p << 8) & 0x0000_ff00_0000_0000)
            | ((p >> 12) & 0x000f_0000_0000_0000)
            | ((p << 4) & 0xfff0_0000_0000_0000);
    }
}

pub(super) fn mix_columns(x: &mut [u64; 8]) {
    let next = x.map(|p| p.rotate_right(16));
    let mut t = [0u64; 8];
    for k in 0..8 {
        t[k] = x[k] ^ next[k];
    }
    let doubled = [t[7], t[0] ^ t[7], t[1], t[2] ^ t[7], t[3] ^ t[7], t[4], t[5], t[6]];
    for k in 0..8 {
        x[k] = doubled[k] ^ next[k] ^ t[k].rotate_right(32);
    }
}

/// A plane of bits for the S-box circuit, one bit per byte of state.
pub(in crate::backend) trait Plane:
    Copy + BitXor<Output = Self> + BitAnd<Output = Self> + Not<Output = Self>
{
}

impl<T: Copy + BitXor<Output = T> + BitAnd<Output = T> + Not<Output = T>> Plane for T {}

/// SubBytes. Names follow the paper's straight-line program; `u0` is the most significant bit.
#[inline(always)]
pub(in crate::backend) fn sub_bytes<T: Plane>(x: &mut [T; 8]) {
    let [u7, u6, u5, u4, u3, u2, u1, u0] = *x;

    let y14 = u3 ^ u5;
    let y13 = u0 ^ u6;
    let y9 = u0 ^ u3;
    let y8 = u0 ^ u5;
    let t0 = u1 ^ u2;
    let y1 = t0 ^ u7;
    let y4 = y1 ^ u3;
    let y12 = y13 ^ y14;
    let y2 = y1 ^ u0;
    let y5 = y1 ^ u6;
    let y3 = y5 ^ y8;
    let t1 = u4 ^ y12;
    let y15 = t1 ^ u5;
    let y20 = t1 ^ u1;
    let y6 = y15 ^ u7;
    let y10 = y15 ^ t0;
    let y11 = y20 ^ y9;
    let y7 = u7 ^ y11;
    let y17 = y10 ^ y11;
    let y19 = y10 ^ y8;
    let y16 = t0 ^ y11;
    let y21 = y13 ^ y16;
    let y18 = u0 ^ y16;

    let t2 = y12 & y15;
    let t4 = (y3 & y6) ^ t2;
    let t6 = (y4 & u7) ^ t2;
    let t7 = y13 & y16;
    let t9 = (y5 & y1) ^ t7;
    let t11 = (y2 & y7) ^ t7;
    let t12 = y9 & y11;
    let t14 = (y14 & y17) ^ t12;
    let t16 = (y8 & y10) ^ t12;
    let t21 = t4 ^ t14 ^ y20;
    let t22 = t6 ^ t16 ^ y19;
    let t23 = t9 ^ t14 ^ y21;
    let t24 = t11 ^ t16 ^ y18;
    let t25 = t21 ^ t22;
    let t26 = t21 & t23;
    let t27 = t24 ^ t26;
    let t29 = (t25 & t27) ^ t22;
    let t30 = t23 ^ t24;
    let t31 = t22 ^ t26;
    let t33 = (t31 & t30) ^ t24;
    let t34 = t23 ^ t33;
    let t35 = t27 ^ t33;
    let t36 = t24 & t35;
    let t37 = t36 ^ t34;
    let t38 = t27 ^ t36;
    let t40 = t25 ^ (t29 & t38);
    let t41 = t40 ^ t37;
    let t42 = t29 ^ t33;
    let t43 = t29 ^ t40;
    let t44 = t33 ^ t37;
    let t45 = t42 ^ t41;

    let z0 = t44 & y15;
    let z1 = t37 & y6;
    let z2 = t33 & u7;
    let z3 = t43 & y16;
    let z4 = t40 & y1;
    let z5 = t29 & y7;
    let z6 = t42 & y11;
    let z7 = t45 & y17;
    let z8 = t41 & y10;
    let z9 = t44 & y12;
    let z10 = t37 & y3;
    let z11 = t33 & y4;
    let z12 = t43 & y13;
    let z13 = t40 & y5;
    let z14 = t29 & y2;
    let z15 = t42 & y9;
    let z16 = t45 & y14;
    let z17 = t41 & y8;

    let t46 = z15 ^ z16;
    let t48 = z5 ^ z13;
    let t53 = z0 ^ z3;
    let t57 = z2 ^ z12 ^ t53;
    let t58 = z4 ^ t46;
    let t59 = z3 ^ z6 ^ z7;
    let t60 = t46 ^ t57;
    let t62 = z7 ^ z8 ^ t58;
    let t63 = z9 ^ z10 ^ t58;
    let t64 = z4 ^ t59;
    let t65 = z14 ^ t57 ^ t62;
    let t66 = z1 ^ t63;
    let s3 = t53 ^ t66;
    *x = [
        t48 ^ !t60,
        z12 ^ t48 ^ !t62,
        z10 ^ z11 ^ t65,
        z2 ^ z5 ^ t66,
        s3,
        z16 ^ z17 ^ !(t64 ^ t65),
        t64 ^ !s3,
        t59 ^ t63,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The S-box by definition (FIPS 197 section 5.1.1): inversion, then the affine map.
    fn s_box(byte: u8) -> u8 {
        fn mul(mut a: u8, mut b: u8) -> u8 {
            let mut product = 0;
            while b != 0 {
                product ^= a * (b & 1);
                a = (a << 1) ^ ((a >> 7) * 0x1b);
                b >>= 1;
            }
            product
        }
        let inverse = (0..=255u8).find(|&other| mul(byte, other) == 1).unwrap_or(0);
        (0..5).fold(0x63, |sum, turn| sum ^ inverse.rotate_left(turn))
    }

    #[test]
    fn circuit_matches_s_box() {
        for byte in 0..=255u8 {
            assert_eq!(sub_word([byte, 0, byte, 1])[0], s_box(byte));
            assert_eq!(sub_word([byte, 0, byte, 1])[2], s_box(byte));
        }
    }

    #[test]
    fn fips_197_examples_encrypt() {
        let plain: [u8; 16] = core::array::from_fn(|i| 0x11 * i as u8);
        let key: [u8; 32] = core::array::from_fn(|i| i as u8);
        for (length, expected) in [
            (16, 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128),
            (32, 0x8ea2_b7ca_5167_45bf_eafc_4990_4b49_6089),
        ] {
            let mut blocks = [[0; 16], plain, [1; 16], plain];
            Aes::new(&RoundKeys::expand(&key[..length])).encrypt(&mut blocks);
            assert_eq!(u128::from_be_bytes(blocks[1]), expected);
            assert_eq!(u128::from_be_bytes(blocks[3]), expected);
        }
    }
}
