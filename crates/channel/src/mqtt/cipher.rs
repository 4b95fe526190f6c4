//! A publisher's expanded key for the opening side, with the preparation for the next message.
//! Includes CBC and single blocks, which the engine does not seal.

use alloc::{boxed::Box, vec::Vec};

use antedate_aead::research::SingleBlockAes128;
use antedate_aead::unauthenticated::{Aes128Cbc, Iv};
use antedate_aead::{
    Aes128Gcm, Aes128Ocb3, Aes256Gcm, ChaCha20Poly1305, CoseCcm16_64_128, Key, KeyLengthError, OpenPool,
    OpenStandby,
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::Algorithm;
use super::derive::{Material, nonce};

/// The most prepared bytes of payload.
pub(super) const CAP: usize = 1024;
/// Bytes of associated data for which CCM's MAC is started in advance.
const AAD: usize = 256;

type NonceOf<const LEN: usize> = Box<dyn Fn(u64) -> [u8; LEN] + Send + Sync>;
/// A key with the preparation of one message.
type Pool<S, const LEN: usize> = Box<OpenPool<S, NonceOf<LEN>, 1, CAP>>;

/// The key of one publisher.
pub(super) enum Cipher {
    Ccm(Box<OpenStandby<CoseCcm16_64_128, NonceOf<13>, AAD, CAP>>),
    Gcm128(Pool<Aes128Gcm, 12>),
    Gcm256(Pool<Aes256Gcm, 12>),
    ChaCha(Pool<ChaCha20Poly1305, 12>),
    Ocb3(Pool<Aes128Ocb3, 12>),
    Blocks(Box<Blocks>),
}

/// Opens with an AEAD, with the tag at the end.
macro_rules! open {
    ($pool:expr, $number:expr, $aad:expr, $src:expr, $out:expr, $tag:literal) => {{
        let (body, tag) = $src.split_last_chunk::<$tag>()?;
        $out.resize(body.len(), 0);
        $pool.open($number, $aad, body, $out, tag).ok()
    }};
}

fn nonce_of<const LEN: usize>(material: &Material) -> NonceOf<LEN> {
    let base = material.base.clone();
    Box::new(move |number| nonce(&base, number))
}

impl Cipher {
    pub(super) fn new(material: &Material) -> Result<Self, KeyLengthError> {
        macro_rules! pool {
            ($name:ident) => {
                Self::$name(Box::new(OpenPool::new(Key::new(&material.key)?, nonce_of(material))))
            };
        }
        Ok(match material.head.algorithm {
            Algorithm::AesCcm16_64_128 => {
                Self::Ccm(Box::new(OpenStandby::new(Key::new(&material.key)?, nonce_of(material))))
            }
            Algorithm::A128Gcm => pool!(Gcm128),
            Algorithm::A256Gcm => pool!(Gcm256),
            Algorithm::ChaCha20Poly1305 => pool!(ChaCha),
            Algorithm::Aes128Ocb3 => pool!(Ocb3),
            _ => Self::Blocks(Box::new(Blocks::new(material)?)),
        })
    }

    /// Prepares for the message of a number with a ciphertext of `len` bytes, tag included. With
    /// CCM, `aad` is its expected associated data. Does at most `budget` steps and returns the
    /// number done.
    pub(super) fn idle(&mut self, number: u64, aad: &[u8], len: usize, budget: u32) -> u32 {
        macro_rules! idle {
            ($pool:expr) => {{
                $pool.set_reach(len);
                $pool.expect_from(number);
                $pool.idle(budget)
            }};
        }
        match self {
            Self::Ccm(standby) => {
                standby.expect(number, aad, len.saturating_sub(8));
                standby.idle(budget)
            }
            Self::Gcm128(pool) => idle!(pool),
            Self::Gcm256(pool) => idle!(pool),
            Self::ChaCha(pool) => idle!(pool),
            Self::Ocb3(pool) => idle!(pool),
            Self::Blocks(_) => 0,
        }
    }

    /// Opens a ciphertext into `out`. A refusal outputs nothing.
    #[inline]
    pub(super) fn open(&mut self, number: u64, ciphertext: &[u8], aad: &[u8], out: &mut Vec<u8>) -> bool {
        out.clear();
        let opened = self.try_open(number, ciphertext, aad, out).is_some();
        if !opened {
            out.clear();
        }
        opened
    }

    #[inline]
    fn try_open(&mut self, number: u64, src: &[u8], aad: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Ccm(pool) => open!(pool, number, aad, src, out, 8),
            Self::Gcm128(pool) => open!(pool, number, aad, src, out, 16),
            Self::Gcm256(pool) => open!(pool, number, aad, src, out, 16),
            Self::ChaCha(pool) => open!(pool, number, aad, src, out, 16),
            Self::Ocb3(pool) => open!(pool, number, aad, src, out, 16),
            Self::Blocks(blocks) => blocks.open(number, aad, src, out),
        }
    }
}

/// Ciphers over whole blocks: CBC with and without HMAC, and single blocks.
pub(super) struct Blocks {
    algorithm: Algorithm,
    /// Turns numbers into initialisation vectors.
    base: SingleBlockAes128,
    cbc: Aes128Cbc,
    single: SingleBlockAes128,
    /// The HMAC key's state, for the variant with HMAC.
    mac: Option<Hmac<Sha256>>,
}

impl Blocks {
    pub(super) fn new(material: &Material) -> Result<Self, KeyLengthError> {
        let wrong =
            KeyLengthError { suite: material.head.algorithm.name(), expected: 16, given: material.key.len() };
        let base = material.base.as_slice().try_into().map_err(|_| wrong)?;
        // RFC 7518 section 5.2.2.1: the first half is the MAC's key, the second the cipher's.
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

    /// The initialisation vector: the encrypted number (SP 800-38A appendix C, the first method).
    fn iv(&self, number: u64) -> [u8; 16] {
        let mut block = [0; 16];
        block[8..].copy_from_slice(&number.to_be_bytes());
        self.base.encrypt(&mut block);
        block
    }

    /// The MAC of RFC 7518 section 5.2.2.1, untruncated.
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
