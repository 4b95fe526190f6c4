//! The keys of a group: of AES-GCM, with GMAC as its form without encryption, or of HMAC-SHA256.
//!
//! A key belongs to one algorithm. Nothing in a message names it, so no message can choose another one.

use antedate_aead::{Key, Suite};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::counter::Counter;
use super::extension::MAC_LEN;

/// Octets of a key of HMAC-SHA256: as many as its hash has (RFC 2104, section 3).
pub const HMAC_KEY_LEN: usize = 32;

/// A key of HMAC-SHA256-128: the first 16 octets of the MAC are sent.
#[derive(Clone)]
pub struct HmacKey(Hmac<Sha256>);

impl HmacKey {
    /// A key of these octets.
    #[must_use]
    pub fn new(octets: &[u8; HMAC_KEY_LEN]) -> Self {
        let mut block = [0; 64];
        block[..HMAC_KEY_LEN].copy_from_slice(octets);
        let this = Self(<Hmac<Sha256> as KeyInit>::new(&block.into()));
        zeroize::Zeroize::zeroize(&mut block);
        this
    }

    /// Whether a MAC is that of the covered octets and the IV.
    pub(super) fn verify(&self, covered: &[u8], iv: &[u8; 12], mac: &[u8; MAC_LEN]) -> bool {
        self.0.clone().chain_update(covered).chain_update(iv).verify_truncated_left(mac).is_ok()
    }
}

impl core::fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HmacKey")
    }
}

/// A key of a group.
pub enum GroupKey<S: Suite> {
    /// AES-GMAC and AES-GCM
    Gcm(Key<S>),
    /// HMAC-SHA256-128, which does not encrypt
    Hmac(HmacKey),
}

impl<S: Suite> From<Key<S>> for GroupKey<S> {
    fn from(key: Key<S>) -> Self {
        Self::Gcm(key)
    }
}

impl<S: Suite> From<HmacKey> for GroupKey<S> {
    fn from(key: HmacKey) -> Self {
        Self::Hmac(key)
    }
}

/// Signs the messages of a layout. The key and the octets before the first late one are hashed once.
pub(super) struct Signer {
    pub(super) counter: Counter,
    known: HmacKey,
}

impl Signer {
    /// `known` are the first octets that are covered in each message.
    pub(super) fn new(key: HmacKey, counter: Counter, known: &[u8]) -> Self {
        let HmacKey(state) = key;
        Self { counter, known: HmacKey(state.chain_update(known)) }
    }

    /// The MAC of the known octets, the rest, and the IV.
    pub(super) fn sign(&self, rest: &[u8], iv: &[u8; 12]) -> [u8; MAC_LEN] {
        let mac = self.known.0.clone().chain_update(rest).chain_update(iv).finalize().into_bytes();
        let mut out = [0; MAC_LEN];
        out.copy_from_slice(&mac[..MAC_LEN]);
        out
    }
}
