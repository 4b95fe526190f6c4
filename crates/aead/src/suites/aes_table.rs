//! AES-128 by table look-ups as the block cipher of CCM and CTR.

use crate::{
    BlockCipher,
    backend::{blocks::xor_in, table::cipher::table},
};

/// AES with a key of 128 bits, by table look-ups.
pub struct Aes128(table::Aes128);

impl BlockCipher for Aes128 {
    const KEY_LEN: usize = 16;

    // The caller has refused a key of another length; missing bytes would be zeros.
    fn new(key: &[u8]) -> Self {
        let mut bytes = [0; 16];
        for (byte, of) in bytes.iter_mut().zip(key) {
            *byte = *of;
        }
        let this = Self(table::Aes128::new(&bytes));
        crate::bytes::wipe(&mut bytes);
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
