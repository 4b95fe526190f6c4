//! AES-128 by table look-ups, for CPUs without a data cache.
//!
//! On such a CPU every load from RAM takes the same time, so a look-up at a secret address leaks
//! nothing; with a cache it would leak the key. The features therefore name their target, and a
//! build for any other target is refused. Flash is cached on many chips, so the table of [`wide`]
//! lies in RAM; those of [`inverse`] do not.
//!
//! - [`wide`]: one table of 256 32-bit words (1 KB). Rotating an entry gives the other three
//!   tables, and a Cortex-M rotates within the XOR.
//! - [`narrow`]: four tables of 256 16-bit words (2 KB). An MSP430 rotates by one bit at a time, so
//!   all four are stored. A column is two words, both from the same four tables.
//!
//! The last block of a serial MAC is on the deadline, so its surroundings are folded into the
//! preparation: the chain so far is XORed into the first round key, and the tag's mask into the
//! last. A tag of 8 bytes is two of four columns, so the last round does half of its look-ups.
//!
//! OCB3, CBC and single blocks use the same tables, and those of [`inverse`] to decrypt. GCM uses
//! the sliced AES.

#[cfg(all(feature = "table-aes-1k", not(all(target_arch = "arm", target_os = "none"))))]
compile_error!(
    "table-aes-1k is for Cortex-M alone: where there is a data cache, the time of a look-up tells the key; \
     leave the feature out, and AES is constant-time"
);
#[cfg(all(feature = "table-aes-2k", not(target_arch = "msp430")))]
compile_error!(
    "table-aes-2k is for MSP430 alone: where there is a data cache, the time of a look-up tells the key; \
     leave the feature out, and AES is constant-time"
);

#[cfg(any(feature = "table-aes-1k", feature = "table-aes-2k"))]
pub(crate) mod cipher;
#[cfg(any(test, feature = "table-aes-1k", feature = "table-aes-2k"))]
pub(crate) mod inverse;
#[cfg(any(test, feature = "table-aes-2k"))]
pub(crate) mod narrow;
#[cfg(any(test, feature = "table-aes-1k"))]
pub(crate) mod wide;

/// The S-box (FIPS 197 section 5.1.1), computed at compile time.
const S_BOX: [u8; 256] = {
    let mut table = [0; 256];
    // 3 generates the field's multiplicative group: p runs through it, and q through the inverses
    // (0xf6 is 1/3).
    let (mut p, mut q) = (1u8, 1u8);
    loop {
        p ^= double(p);
        q = times(q, 0xf6);
        let affine = q ^ q.rotate_left(1) ^ q.rotate_left(2) ^ q.rotate_left(3) ^ q.rotate_left(4);
        table[p as usize] = affine ^ 0x63;
        if p == 1 {
            break;
        }
    }
    table[0] = 0x63;
    table
};

const fn double(a: u8) -> u8 {
    (a << 1) ^ ((a >> 7) * 0x1b)
}

const fn times(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::{S_BOX, inverse, narrow, wide};
    use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
    use proptest::prelude::*;

    #[test]
    fn s_box_matches_fips_197() {
        assert_eq!(S_BOX[..8], [0x63, 0x7c, 0x77, 0x7b, 0xf2, 0x6b, 0x6f, 0xc5]);
        assert_eq!(S_BOX[248..], [0x41, 0x99, 0x2d, 0x0f, 0xb0, 0x54, 0xbb, 0x16]);
        let mut seen = [false; 256];
        S_BOX.iter().for_each(|&s| seen[usize::from(s)] = true);
        assert_eq!(seen, [true; 256]);
    }

    /// Tests for every table cipher, against RustCrypto's AES.
    macro_rules! agrees {
        ($aes:ty, $key:expr, $block:expr, $mask:expr) => {
            let (aes, oracle) = (<$aes>::new(&$key), aes::Aes128::new(&$key.into()));
            let encrypted = |block: [u8; 16]| {
                let mut block = block.into();
                oracle.encrypt_block(&mut block);
                <[u8; 16]>::from(block)
            };
            let mut block = $block;
            aes.encrypt(&mut block);
            prop_assert_eq!(block, encrypted($block));

            let mut chain = $block;
            aes.fold(&mut chain);
            let folded = chain;
            let mut mask = $mask;
            aes.fold_mask(&mut mask);
            let mut tag = [0; 8];
            aes.finish(&folded, &mask, &mut tag);
            let expected: [u8; 8] = core::array::from_fn(|i| block[i] ^ $mask[i]);
            prop_assert_eq!(tag, expected);

            aes.advance(&mut chain);
            aes.fold(&mut chain);
            prop_assert_eq!(chain, block);
        };
    }

    proptest! {
        #[test]
        fn table_ciphers_match_rustcrypto(
            key: [u8; 16], block: [u8; 16], mask: [u8; 16],
        ) {
            agrees!(wide::Aes128, key, block, mask);
            agrees!(narrow::Aes128, key, block, mask);
        }

        #[test]
        fn inverse_matches_rustcrypto(key: [u8; 16], block: [u8; 16]) {
            let mut expected = block.into();
            aes::Aes128::new(&key.into()).decrypt_block(&mut expected);
            let mut found = block;
            inverse::Aes128::new(&key).decrypt(&mut found);
            prop_assert_eq!(found, <[u8; 16]>::from(expected));
        }
    }
}
