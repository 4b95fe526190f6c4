//! graviola, which needs AES-NI, AVX2 and ADX.

use crate::packet::{AAD, Cipher, key};
use graviola::aead::{AesGcm, ChaCha20Poly1305};

/// Whether this CPU has the instructions without which it does not run.
pub fn runs_here() -> bool {
    is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("adx")
}

/// A key of AES-GCM.
pub struct Gcm(AesGcm);

/// AES-128-GCM.
pub fn aes_128_gcm() -> Gcm {
    Gcm(AesGcm::new(&key::<16>()))
}

/// AES-256-GCM.
pub fn aes_256_gcm() -> Gcm {
    Gcm(AesGcm::new(&key::<32>()))
}

impl Cipher<12, 16> for Gcm {
    #[inline]
    fn seal(&mut self, nonce: &[u8; 12], buffer: &mut [u8]) -> [u8; 16] {
        let mut tag = [0; 16];
        self.0.encrypt(nonce, &AAD, buffer, &mut tag);
        tag
    }

    #[inline]
    fn open(&mut self, nonce: &[u8; 12], buffer: &mut [u8], tag: &[u8; 16]) -> bool {
        self.0.decrypt(nonce, &AAD, buffer, tag).is_ok()
    }
}

/// A key of ChaCha20-Poly1305.
pub struct Chacha(ChaCha20Poly1305);

/// ChaCha20-Poly1305.
pub fn chacha20_poly1305() -> Chacha {
    Chacha(ChaCha20Poly1305::new(key()))
}

impl Cipher<12, 16> for Chacha {
    #[inline]
    fn seal(&mut self, nonce: &[u8; 12], buffer: &mut [u8]) -> [u8; 16] {
        let mut tag = [0; 16];
        self.0.encrypt(nonce, &AAD, buffer, &mut tag);
        tag
    }

    #[inline]
    fn open(&mut self, nonce: &[u8; 12], buffer: &mut [u8], tag: &[u8; 16]) -> bool {
        self.0.decrypt(nonce, &AAD, buffer, tag).is_ok()
    }
}
