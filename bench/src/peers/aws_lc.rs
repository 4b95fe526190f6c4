//! aws-lc-rs, with the key type that takes nonces from the caller.

use crate::packet::{AAD, Cipher, key};
use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};

/// A key for any of the suites.
pub struct Peer(LessSafeKey);

fn peer(algorithm: &'static Algorithm, key: &[u8]) -> Peer {
    Peer(LessSafeKey::new(UnboundKey::new(algorithm, key).expect("the key is of the suite's length")))
}

/// AES-128-GCM.
pub fn aes_128_gcm() -> Peer {
    peer(&AES_128_GCM, &key::<16>())
}

/// AES-256-GCM.
pub fn aes_256_gcm() -> Peer {
    peer(&AES_256_GCM, &key::<32>())
}

/// ChaCha20-Poly1305.
pub fn chacha20_poly1305() -> Peer {
    peer(&CHACHA20_POLY1305, &key::<32>())
}

impl Cipher<12, 16> for Peer {
    #[inline]
    fn seal(&mut self, nonce: &[u8; 12], buffer: &mut [u8]) -> [u8; 16] {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let tag =
            self.0.seal_in_place_separate_tag(nonce, Aad::from(&AAD), buffer).expect("it is short enough");
        let mut bytes = [0; 16];
        bytes.copy_from_slice(tag.as_ref());
        bytes
    }

    #[inline]
    fn open(&mut self, nonce: &[u8; 12], buffer: &mut [u8], tag: &[u8; 16]) -> bool {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        self.0.open_in_place_separate_tag(nonce, Aad::from(&AAD), tag, buffer).is_ok()
    }
}
