//! This target's table cipher as the block cipher of CCM and CTR, and in both directions for OCB3,
//! CBC and single blocks.

use super::inverse;
#[cfg(feature = "table-aes-2k")]
use super::narrow as table;
#[cfg(all(feature = "table-aes-1k", not(feature = "table-aes-2k")))]
use super::wide as table;
use crate::BlockCipher;
use crate::backend::portable::blocks::xor_in;

/// AES with a key of 128 bits, by table look-ups.
pub struct Aes128(table::Aes128);

impl BlockCipher for Aes128 {
    const KEY_LEN: usize = 16;

    // Keys of another length were refused before; missing bytes would be zeros.
    fn new(key: &[u8]) -> Self {
        let mut bytes = [0; 16];
        for (byte, of) in bytes.iter_mut().zip(key) {
            *byte = *of;
        }
        let this = Self(table::Aes128::new(&bytes));
        crate::engine::wipe(&mut bytes);
        this
    }

    #[inline]
    fn encrypt(&self, block: &mut [u8; 16]) {
        self.0.encrypt(block);
    }

    #[inline]
    fn fold(&self, chain: &mut [u8; 16]) {
        self.0.fold(chain);
    }

    #[inline]
    fn advance(&self, chain: &mut [u8; 16]) {
        self.0.advance(chain);
    }

    #[inline]
    fn fold_mask(&self, mask: &mut [u8; 16]) {
        self.0.fold_mask(mask);
    }

    #[inline]
    fn finish<const TAG: usize>(&self, chain: &[u8; 16], mask: &[u8; 16], tag: &mut [u8; TAG]) {
        if let Ok(tag) = <&mut [u8; 8]>::try_from(&mut tag[..]) {
            return self.0.finish(chain, mask, tag);
        }
        // Adding round key 0 and the last one again removes them.
        let mut whole = *chain;
        self.0.advance(&mut whole);
        self.0.fold(&mut whole);
        self.0.fold_mask(&mut whole);
        xor_in(&mut whole, mask);
        for (byte, of) in tag.iter_mut().zip(&whole) {
            *byte = *of;
        }
    }
}

impl core::fmt::Debug for Aes128 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Aes128(..)")
    }
}

/// AES-128 for encryption and decryption.
pub(crate) struct BothWays {
    forth: table::Aes128,
    back: inverse::Aes128,
}

impl BothWays {
    /// Expands a key of 16 bytes.
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut bytes = [0; 16];
        for (byte, of) in bytes.iter_mut().zip(key) {
            *byte = *of;
        }
        let this = Self { forth: table::Aes128::new(&bytes), back: inverse::Aes128::new(&bytes) };
        crate::engine::wipe(&mut bytes);
        this
    }

    /// Encrypts blocks independently.
    pub(crate) fn encrypt_some(&self, blocks: &mut [[u8; 16]]) {
        blocks.iter_mut().for_each(|block| self.forth.encrypt(block));
    }

    /// Decrypts blocks independently.
    pub(crate) fn decrypt_some(&self, blocks: &mut [[u8; 16]]) {
        blocks.iter_mut().for_each(|block| self.back.decrypt(block));
    }
}
