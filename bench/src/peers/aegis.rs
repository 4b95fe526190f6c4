//! The crate aegis, a wrapper of libaegis in C.

use crate::packet::{AAD, Cipher, key};
use aegis::aegis128l::Aegis128L;

/// AEGIS-128L with a 16-byte tag. There is no key schedule.
pub struct Peer;

impl Cipher<16, 16> for Peer {
    #[inline]
    fn seal(&mut self, nonce: &[u8; 16], buffer: &mut [u8]) -> [u8; 16] {
        Aegis128L::<16>::new(&key(), nonce).encrypt_in_place(buffer, &AAD)
    }

    #[inline]
    fn open(&mut self, nonce: &[u8; 16], buffer: &mut [u8], tag: &[u8; 16]) -> bool {
        Aegis128L::<16>::new(&key(), nonce).decrypt_in_place(buffer, tag, &AAD).is_ok()
    }
}
