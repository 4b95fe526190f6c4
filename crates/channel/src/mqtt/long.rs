//! Payloads that are too long for their group's algorithm.
//!
//! CCM with a nonce of 13 bytes counts at most 65,535 bytes. A longer payload is sealed by AES-GCM,
//! whose key and nonce base are derived with its own algorithm number ([`derive`](super::derive)).
//! The sequence number is the publisher's next one, so it is used once, under one of the two keys.

use alloc::{boxed::Box, vec::Vec};

use antedate_aead::{Aes128Gcm, Key, KeyLengthError, Nonce};
use zeroize::Zeroizing;

use super::Algorithm;
use super::derive::{Material, nonce};
use super::envelope::Head;
use super::layout::Layout;

/// A publisher's key for long payloads.
pub(super) struct LongKey {
    head: Head,
    key: Box<Key<Aes128Gcm>>,
    base: Zeroizing<Vec<u8>>,
}

impl LongKey {
    /// The key of a material for long payloads ([`Algorithm::for_long`]).
    pub(super) fn new(long: &Material) -> Result<Self, KeyLengthError> {
        let key = Box::new(Key::new(&long.key)?);
        Ok(Self { head: long.head.clone(), key, base: long.base.clone() })
    }

    /// The longest payload.
    pub(super) const fn max_payload(&self) -> usize {
        self.head.algorithm.max_payload()
    }

    /// Seals with a number that the publisher has taken for this payload, and appends the envelope.
    pub(super) fn seal(
        &self,
        number: u64,
        time: Option<u32>,
        topic: &str,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) {
        let protected = time.map_or_else(|| self.head.protected(), |time| self.head.timed(time));
        let mut layout = Layout::default();
        layout.renew(&self.head, &protected, topic, number);
        layout.put(number, self.head.algorithm.sealed_len(payload.len()), out);
        let start = out.len();
        out.extend_from_slice(payload);
        let nonce = Nonce::assume_unique(nonce(&self.base, number));
        let tag = self.key.seal_in_place(nonce, layout.associated_data(number), &mut out[start..]);
        out.extend_from_slice(tag.as_bytes());
    }

    /// Opens a ciphertext into `out`. A refusal outputs nothing.
    pub(super) fn open(&self, number: u64, ciphertext: &[u8], aad: &[u8], out: &mut Vec<u8>) -> bool {
        out.clear();
        let Some((body, tag)) = ciphertext.split_last_chunk::<16>() else { return false };
        out.resize(body.len(), 0);
        let opened = self.key.open(nonce(&self.base, number), aad, body, out, tag).is_ok();
        if !opened {
            out.clear();
        }
        opened
    }
}

/// Whether a group of this algorithm may have a message of another one, with so long a ciphertext.
/// Shorter ones have one form.
pub(super) fn is_long(group: Algorithm, given: i64, ciphertext: usize) -> bool {
    group
        .for_long()
        .is_some_and(|long| long.number() == given && ciphertext > long.sealed_len(group.max_payload()))
}
