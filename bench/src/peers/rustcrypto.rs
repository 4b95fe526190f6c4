//! RustCrypto's crates, built for this CPU.

use crate::packet::{AAD, Cipher, key};
use aes_gcm::aead::{AeadInOut, KeyInit, array::Array, consts, inout::InOutBuf};

/// Ciphers of the current generation of crates, which share a trait.
pub struct Peer<C>(C);

macro_rules! peers {
    ($($(#[$doc:meta])* $name:ident: $cipher:ty, key of $key:literal, nonce of $nonce:literal, tag of $tag:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name() -> Peer<$cipher> {
            Peer(<$cipher>::new(&Array::from(key::<$key>())))
        }

        impl Cipher<$nonce, $tag> for Peer<$cipher> {
            #[inline]
            fn seal(&mut self, nonce: &[u8; $nonce], buffer: &mut [u8]) -> [u8; $tag] {
                let nonce = Array::from(*nonce);
                self.0.encrypt_inout_detached(&nonce, &AAD, InOutBuf::from(buffer)).expect("it is short enough").into()
            }

            #[inline]
            fn open(&mut self, nonce: &[u8; $nonce], buffer: &mut [u8], tag: &[u8; $tag]) -> bool {
                let (nonce, tag) = (Array::from(*nonce), Array::from(*tag));
                self.0.decrypt_inout_detached(&nonce, &AAD, InOutBuf::from(buffer), &tag).is_ok()
            }
        }
    )*};
}

peers! {
    /// The crate aes-gcm.
    aes_128_gcm: aes_gcm::Aes128Gcm, key of 16, nonce of 12, tag of 16;
    /// The crate aes-gcm.
    aes_256_gcm: aes_gcm::Aes256Gcm, key of 32, nonce of 12, tag of 16;
    /// The crate chacha20poly1305.
    chacha20_poly1305: chacha20poly1305::ChaCha20Poly1305, key of 32, nonce of 12, tag of 16;
    /// The crate ccm with its current AES.
    aes_128_ccm_8: ccm::Ccm<aes::Aes128, consts::U8, consts::U12>, key of 16, nonce of 12, tag of 8;
    /// The crate ocb3.
    aes_128_ocb3: ocb3::Ocb3<aes::Aes128, consts::U12>, key of 16, nonce of 12, tag of 16;
    /// The crate ascon-aead.
    ascon_aead128: ascon_aead::AsconAead128, key of 16, nonce of 16, tag of 16;
}

/// The crate ccm 0.5, with an AES that is faster for dependent blocks.
pub struct Ccm05(ccm05::Ccm<aes08::Aes128, ccm05::consts::U8, ccm05::consts::U12>);

/// The crate ccm 0.5.
pub fn aes_128_ccm_8_before() -> Ccm05 {
    use ccm05::KeyInit;
    Ccm05(ccm05::Ccm::new(&key::<16>().into()))
}

impl Cipher<12, 8> for Ccm05 {
    #[inline]
    fn seal(&mut self, nonce: &[u8; 12], buffer: &mut [u8]) -> [u8; 8] {
        use ccm05::aead::AeadInPlace;
        self.0.encrypt_in_place_detached(&(*nonce).into(), &AAD, buffer).expect("it is short enough").into()
    }

    #[inline]
    fn open(&mut self, nonce: &[u8; 12], buffer: &mut [u8], tag: &[u8; 8]) -> bool {
        use ccm05::aead::AeadInPlace;
        self.0.decrypt_in_place_detached(&(*nonce).into(), &AAD, buffer, &(*tag).into()).is_ok()
    }
}
