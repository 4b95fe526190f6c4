//! This target's table cipher, in both directions for OCB3, CBC and single blocks.

use super::inverse;
#[cfg(feature = "table-aes-2k")]
pub(crate) use super::narrow as table;
#[cfg(all(feature = "table-aes-1k", not(feature = "table-aes-2k")))]
pub(crate) use super::wide as table;

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
        crate::bytes::wipe(&mut bytes);
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
