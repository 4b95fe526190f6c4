//! A publisher's key, expanded, for the side that opens; and CBC and single blocks, which no sealer of the engine knows.

use alloc::{boxed::Box, vec::Vec};

use antedate_aead::research::SingleBlockAes128;
use antedate_aead::unauthenticated::{Aes128Cbc, Iv};
use antedate_aead::{
    Aes128Gcm, Aes128Ocb3, Aes256Gcm, ChaCha20Poly1305, CoseCcm16_64_128, InvalidKeyLength, Key,
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::derive::{Material, nonce};
use super::{Algorithm, envelope};

/// The key of one publisher.
pub(super) struct Cipher {
    base: Zeroizing<Vec<u8>>,
    key: Expanded,
}

enum Expanded {
    Ccm(Box<Key<CoseCcm16_64_128>>),
    Gcm128(Box<Key<Aes128Gcm>>),
    Gcm256(Box<Key<Aes256Gcm>>),
    ChaCha(Box<Key<ChaCha20Poly1305>>),
    Ocb3(Box<Key<Aes128Ocb3>>),
    Blocks(Box<Blocks>),
}

/// Opens with an AEAD: the tag stands at the end.
macro_rules! open {
    ($key:expr, $nonce:expr, $aad:expr, $src:expr, $out:expr, $tag:literal) => {{
        let (body, tag) = $src.split_last_chunk::<$tag>()?;
        $out.resize(body.len(), 0);
        $key.open($nonce, $aad, body, $out, tag).ok()
    }};
}

impl Cipher {
    pub(super) fn new(material: &Material) -> Result<Self, InvalidKeyLength> {
        let key = &material.key;
        let key = match material.head.algorithm {
            Algorithm::AesCcm16_64_128 => Expanded::Ccm(Box::new(Key::new(key)?)),
            Algorithm::A128Gcm => Expanded::Gcm128(Box::new(Key::new(key)?)),
            Algorithm::A256Gcm => Expanded::Gcm256(Box::new(Key::new(key)?)),
            Algorithm::ChaCha20Poly1305 => Expanded::ChaCha(Box::new(Key::new(key)?)),
            Algorithm::Aes128Ocb3 => Expanded::Ocb3(Box::new(Key::new(key)?)),
            _ => Expanded::Blocks(Box::new(Blocks::new(material)?)),
        };
        Ok(Self { base: material.base.clone(), key })
    }

    /// Opens an envelope's ciphertext into `out`. On refusal nothing of it comes out.
    pub(super) fn open(&self, envelope: &envelope::Envelope<'_>, aad: &[u8], out: &mut Vec<u8>) -> bool {
        out.clear();
        let opened = self.try_open(envelope, aad, out).is_some();
        if !opened {
            out.clear();
        }
        opened
    }

    fn try_open(&self, envelope: &envelope::Envelope<'_>, aad: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let (src, number) = (envelope.ciphertext, envelope.sequence);
        match &self.key {
            Expanded::Ccm(key) => open!(key, nonce::<13>(&self.base, number), aad, src, out, 8),
            Expanded::Gcm128(key) => open!(key, nonce::<12>(&self.base, number), aad, src, out, 16),
            Expanded::Gcm256(key) => open!(key, nonce::<12>(&self.base, number), aad, src, out, 16),
            Expanded::ChaCha(key) => open!(key, nonce::<12>(&self.base, number), aad, src, out, 16),
            Expanded::Ocb3(key) => open!(key, nonce::<12>(&self.base, number), aad, src, out, 16),
            Expanded::Blocks(blocks) => blocks.open(number, aad, src, out),
        }
    }
}

/// What works on whole blocks: CBC with and without HMAC, and single blocks.
pub(super) struct Blocks {
    algorithm: Algorithm,
    /// Makes initialisation vectors of numbers.
    base: SingleBlockAes128,
    cbc: Aes128Cbc,
    single: SingleBlockAes128,
    /// The HMAC key's state, for the variant that has one.
    mac: Option<Hmac<Sha256>>,
}

impl Blocks {
    pub(super) fn new(material: &Material) -> Result<Self, InvalidKeyLength> {
        let wrong = InvalidKeyLength {
            suite: material.head.algorithm.name(),
            expected: 16,
            given: material.key.len(),
        };
        let base = material.base.as_slice().try_into().map_err(|_| wrong)?;
        // RFC 7518 section 5.2.2.1: the first half is the MAC's key, the second one the cipher's.
        let (mac, key) = match material.head.algorithm {
            Algorithm::Aes128CbcHmacSha256 => {
                let (mac, key) = material.key.split_at_checked(16).ok_or(wrong)?;
                (Some(Hmac::new_from_slice(mac).map_err(|_| wrong)?), key)
            }
            _ => (None, material.key.as_slice()),
        };
        let key = key.try_into().map_err(|_| wrong)?;
        Ok(Self {
            algorithm: material.head.algorithm,
            base: SingleBlockAes128::new(base),
            cbc: Aes128Cbc::new(key),
            single: SingleBlockAes128::new(key),
            mac,
        })
    }

    /// The initialisation vector: the number, encrypted (SP 800-38A appendix C, the first method).
    fn iv(&self, number: u64) -> [u8; 16] {
        let mut block = [0; 16];
        block[8..].copy_from_slice(&number.to_be_bytes());
        self.base.encrypt(&mut block);
        block
    }

    /// The MAC of RFC 7518 section 5.2.2.1, whole.
    fn tag(&self, mac: &Hmac<Sha256>, aad: &[u8], iv: &[u8; 16], body: &[u8]) -> [u8; 16] {
        let mut mac = mac.clone();
        mac.update(aad);
        mac.update(iv);
        mac.update(body);
        mac.update(&(8 * aad.len() as u64).to_be_bytes());
        let whole: [u8; 32] = mac.finalize().into_bytes().into();
        let mut tag = [0; 16];
        tag.copy_from_slice(&whole[..16]);
        tag
    }

    /// Appends the ciphertext, [`Algorithm::sealed_len`] bytes.
    pub(super) fn seal(&self, number: u64, aad: &[u8], payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let body = payload.len() - payload.len() % 16 + 16;
        out.resize(start + body, 0);
        let Some(place) = out.get_mut(start..) else { return };
        if self.algorithm == Algorithm::Aes128BlocksUnauthenticated {
            place[..payload.len()].copy_from_slice(payload);
            // The padding of PKCS#7, as with CBC.
            place[payload.len()..].fill((body - payload.len()) as u8);
            place.as_chunks_mut().0.iter_mut().for_each(|block| self.single.encrypt(block));
            return;
        }
        let iv = self.iv(number);
        // The destination has the right length, so this cannot fail.
        let _ = self.cbc.encrypt(Iv::assume_unpredictable(iv), payload, place);
        if let Some(mac) = &self.mac {
            let tag = self.tag(mac, aad, &iv, place);
            out.extend_from_slice(&tag);
        }
    }

    fn open(&self, number: u64, aad: &[u8], src: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let iv = self.iv(number);
        let body = match &self.mac {
            Some(mac) => {
                let (body, tag) = src.split_last_chunk::<16>()?;
                if !bool::from(self.tag(mac, aad, &iv, body).ct_eq(tag)) {
                    return None;
                }
                body
            }
            None => src,
        };
        out.resize(body.len(), 0);
        let len = if self.algorithm == Algorithm::Aes128BlocksUnauthenticated {
            out.copy_from_slice(body);
            let (blocks, []) = out.as_chunks_mut::<16>() else { return None };
            blocks.iter_mut().for_each(|block| self.single.decrypt(block));
            let padding = usize::from(*out.last()?);
            (1..=16).contains(&padding).then(|| out.len() - padding)?
        } else {
            self.cbc.decrypt(&iv, body, out).ok()?.assume_authentic().len()
        };
        out.truncate(len);
        Some(())
    }
}
