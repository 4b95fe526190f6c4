//! Inverse of the sliced AES (FIPS 197 section 5.3), round by round in the standard's order.
//!
//! The S-box is inversion, then an affine map A. Its inverse is A⁻¹, then inversion, which equals
//! A⁻¹, the S-box, A⁻¹: the forward circuit serves both directions. InvMixColumns is MixColumns
//! after a sparser matrix: {0e, 0b, 0d, 09} = {02, 03, 01, 01} · {05, 00, 04, 00} in the ring of
//! circulants.

use super::aes::{Aes, add, mix_columns, pack, sub_bytes, unpack};

impl Aes {
    /// Decrypts four blocks at once.
    pub(crate) fn decrypt(&self, blocks: &mut [[u8; 16]; 4]) {
        let mut x = pack(blocks);
        add(&mut x, &self.planes[self.rounds]);
        for key in self.planes[1..self.rounds].iter().rev() {
            inverse_shift_rows(&mut x);
            inverse_sub_bytes(&mut x);
            add(&mut x, key);
            inverse_mix_columns(&mut x);
        }
        inverse_shift_rows(&mut x);
        inverse_sub_bytes(&mut x);
        add(&mut x, &self.planes[0]);
        unpack(&mut x, blocks);
    }
}

/// Rotates row r, a 16-bit lane of four columns, left by r columns.
fn inverse_shift_rows(x: &mut [u64; 8]) {
    for plane in x {
        let p = *plane;
        *plane = (p & 0x0000_0000_0000_ffff)
            | ((p << 4) & 0x0000_0000_fff0_0000)
            | ((p >> 12) & 0x0000_0000_000f_0000)
            | ((p >> 8) & 0x0000_00ff_0000_0000)
            | ((p << 8) & 0x0000_ff00_0000_0000)
            | ((p << 12) & 0xf000_0000_0000_0000)
            | ((p >> 4) & 0x0fff_0000_0000_0000);
    }
}

fn inverse_sub_bytes(x: &mut [u64; 8]) {
    inverse_affine(x);
    sub_bytes(x);
    inverse_affine(x);
}

/// The inverse of FIPS 197 section 5.1.1's affine map: bit i is the sum of bits i + 2, i + 5 and i
/// + 7 and of bit i of {05}.
fn inverse_affine(x: &mut [u64; 8]) {
    let y = *x;
    for (i, plane) in x.iter_mut().enumerate() {
        *plane = y[(i + 2) % 8] ^ y[(i + 5) % 8] ^ y[(i + 7) % 8];
    }
    x[0] = !x[0];
    x[2] = !x[2];
}

fn inverse_mix_columns(x: &mut [u64; 8]) {
    // Adds to each byte four times the sum of itself and the byte two rows on.
    let t = x.map(|p| p ^ p.rotate_right(32));
    let twice = |t: [u64; 8]| [t[7], t[0] ^ t[7], t[1], t[2] ^ t[7], t[3] ^ t[7], t[4], t[5], t[6]];
    for (plane, four) in x.iter_mut().zip(twice(twice(t))) {
        *plane ^= four;
    }
    mix_columns(x);
}

#[cfg(test)]
mod tests {
    use super::super::aes::RoundKeys;
    use super::*;

    #[test]
    fn fips_197_examples_decrypt() {
        let plain: [u8; 16] = core::array::from_fn(|i| 0x11 * i as u8);
        let key: [u8; 32] = core::array::from_fn(|i| i as u8);
        for (length, cipher) in [
            (16, 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128),
            (32, 0x8ea2_b7ca_5167_45bf_eafc_4990_4b49_6089),
        ] {
            let mut blocks = [[0; 16], cipher.to_be_bytes(), [1; 16], cipher.to_be_bytes()];
            Aes::new(&RoundKeys::expand(&key[..length])).decrypt(&mut blocks);
            assert_eq!([blocks[1], blocks[3]], [plain; 2]);
        }
    }

    #[test]
    fn decryption_inverts_encryption() {
        let aes = Aes::new(&RoundKeys::expand(b"sixteen byte key"));
        for byte in 0..=255u8 {
            let plain: [[u8; 16]; 4] =
                core::array::from_fn(|b| core::array::from_fn(|i| byte.wrapping_add((16 * b + i) as u8)));
            let mut blocks = plain;
            aes.encrypt(&mut blocks);
            assert_ne!(blocks, plain);
            aes.decrypt(&mut blocks);
            assert_eq!(blocks, plain);
        }
    }
}
