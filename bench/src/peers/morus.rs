//! The crate morus.

use crate::packet::{AAD, Cipher, key};
use morus::Morus;

/// MORUS-1280-128. There is no key schedule.
pub struct Peer;

impl Cipher<16, 16> for Peer {
    #[inline]
    fn seal(&mut self, nonce: &[u8; 16], buffer: &mut [u8]) -> [u8; 16] {
        Morus::new(nonce, &key()).encrypt_in_place(buffer, &AAD)
    }

    #[inline]
    fn open(&mut self, nonce: &[u8; 16], buffer: &mut [u8], tag: &[u8; 16]) -> bool {
        Morus::new(nonce, &key()).decrypt_in_place(buffer, tag, &AAD).is_ok()
    }
}
