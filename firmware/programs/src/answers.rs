//! Known answers, checked before any measurement.

use crate::{Wrong, right};
use antedate_aead::{AesCcm, AsconAead128, BlockCipher, ChaCha20Poly1305, Key, Nonce};
use core::array::from_fn;

/// The result for all zeros after a hundred rounds of ten encryptions, from OpenSSL.
const CHAINED: [u8; 16] = 0xc48f_f47b_32df_eb07_fa15_a718_b2b9_f90d_u128.to_be_bytes();

pub(crate) fn aes_and_ccm<A: BlockCipher>() -> Result<(), Wrong> {
    // FIPS 197 appendix C.1.
    let key: [u8; 16] = from_fn(|i| i as u8);
    let mut block: [u8; 16] = from_fn(|i| 0x11 * i as u8);
    A::new(&key).encrypt(&mut block);
    right(block == 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128.to_be_bytes())?;

    // Many blocks, each round with the previous result as its key.
    let mut key = [0; 16];
    for _ in 0..100 {
        let mut block = key;
        for _ in 0..10 {
            A::new(&key).encrypt(&mut block);
        }
        key = block;
    }
    right(key == CHAINED)?;

    // RFC 3610 section 8, packet vector 1.
    let key: [u8; 16] = from_fn(|i| 0xc0 + i as u8);
    let nonce = [0, 0, 0, 3, 2, 1, 0, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5];
    let aad: [u8; 8] = from_fn(|i| i as u8);
    let mut packet: [u8; 23] = from_fn(|i| 8 + i as u8);
    let key = Key::<AesCcm<A, 13, 8>>::new(&key).map_err(|_| Wrong::Fit)?;
    let tag = key.seal_in_place(Nonce::assume_unique(nonce), &aad, &mut packet);
    right(
        packet
            == [
                0x58, 0x8c, 0x97, 0x9a, 0x61, 0xc6, 0x63, 0xd2, 0xf0, 0x66, 0xd0, 0xc2, 0xc0, 0xf9, 0x89,
                0x80, 0x6d, 0x5f, 0x6b, 0x61, 0xda, 0xc3, 0x84,
            ]
            && tag.as_bytes() == &[0x17, 0xe8, 0xd1, 0x2c, 0xfd, 0xf9, 0x26, 0xe0],
    )
}

pub(crate) fn chacha() -> Result<(), Wrong> {
    // RFC 8439 section 2.8.2.
    let key: [u8; 32] = from_fn(|i| 0x80 + i as u8);
    let nonce = [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47];
    let aad = [0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7];
    let mut packet =
        *b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
        sunscreen would be it.";
    let key = Key::<ChaCha20Poly1305>::new(&key).map_err(|_| Wrong::Fit)?;
    let tag = key.seal_in_place(Nonce::assume_unique(nonce), &aad, &mut packet);
    right(
        packet[..8] == [0xd3, 0x1a, 0x8d, 0x34, 0x64, 0x8e, 0x60, 0xdb]
            && tag.as_bytes() == &0x1ae1_0b59_4f09_e26a_7e90_2ecb_d060_0691_u128.to_be_bytes(),
    )
}

pub(crate) fn ascon() -> Result<(), Wrong> {
    let octets: [u8; 16] = from_fn(|i| i as u8);
    let key = Key::<AsconAead128>::new(&octets).map_err(|_| Wrong::Fit)?;
    let seal = |aad: &[u8], packet: &mut [u8]| key.seal_in_place(Nonce::assume_unique(octets), aad, packet);
    // The first of the known answers of the standard's authors.
    let tag = seal(&[], &mut []);
    right(tag.as_bytes() == &0x4427_d64b_8e1e_1451_fc44_5960_f083_9bb0_u128.to_be_bytes())?;
    // Whole blocks and partial ones, computed by the standard's text.
    let (aad, mut packet): ([u8; 20], [u8; 40]) = (from_fn(|i| i as u8), from_fn(|i| i as u8));
    let tag = seal(&aad, &mut packet);
    right(
        packet[..8] == [0xc3, 0x05, 0xeb, 0x0e, 0x85, 0x1d, 0xf9, 0x2b]
            && packet[32..] == [0x0c, 0x68, 0x74, 0x77, 0xec, 0x87, 0x3f, 0x21],
    )?;
    right(tag.as_bytes() == &0x0c44_1450_56f8_1b63_c472_dcee_a5eb_423a_u128.to_be_bytes())
}
