//! The keys of one direction of an epoch, and nonces from sequence numbers.

use core::fmt;

use antedate_aead::{Nonce, NonceSequence};
use antedate_wire::dtls::SEQUENCE_END;

use super::Aead;
use crate::secret::Boxed;
use crate::sequence::ExhaustedError;

/// The key and the IV of one direction, from any kind of handshake.
#[derive(Clone)]
pub struct DirectionKeys {
    aead: Aead,
    key: Boxed<32>,
    iv: [u8; 12],
}

impl DirectionKeys {
    /// Takes a key and an IV. `None` if a length does not fit the cipher.
    pub fn new(aead: Aead, key: &[u8], iv: &[u8]) -> Option<Self> {
        if key.len() != aead.key_len() || iv.len() != aead.iv_len() {
            return None;
        }
        let mut this = Self { aead, key: Boxed::default(), iv: [0; 12] };
        this.key[..key.len()].copy_from_slice(key);
        this.iv[..iv.len()].copy_from_slice(iv);
        Some(this)
    }

    /// The cipher.
    pub const fn aead(&self) -> Aead {
        self.aead
    }

    pub(super) fn key(&self) -> &[u8] {
        self.key.get(..self.aead.key_len()).unwrap_or_default()
    }

    pub(super) const fn rule(&self) -> NonceRule {
        NonceRule { iv: self.iv }
    }
}

impl fmt::Debug for DirectionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirectionKeys({:?}, ..)", self.aead)
    }
}

/// Makes nonces: eight octets are combined with the last eight of the IV by XOR (RFC 7905 section
/// 2). With an implicit part of four octets the last eight of the IV are zero, so the XOR equals
/// concatenation (RFC 5288 section 3).
#[derive(Clone, Copy)]
pub(super) struct NonceRule {
    iv: [u8; 12],
}

impl NonceRule {
    #[inline]
    pub(super) fn nonce(&self, number: u64) -> [u8; 12] {
        let [a, b, c, d, low @ ..] = self.iv;
        let [e, f, g, h, i, j, k, l] = (u64::from_be_bytes(low) ^ number).to_be_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }
}

/// The numbers of an epoch, each used once.
pub(super) struct Numbers {
    rule: NonceRule,
    next: u64,
    end: u64,
}

impl Numbers {
    /// The numbers of an epoch from a sequence number.
    pub(super) const fn new(rule: NonceRule, epoch: u16, first: u64) -> Self {
        let base = (epoch as u64) << 48;
        let first = if first > SEQUENCE_END { SEQUENCE_END } else { first };
        // The last epoch has one number less, so that its end is a number too.
        let end = if epoch == u16::MAX { u64::MAX } else { base + SEQUENCE_END };
        Self { rule, next: base.saturating_add(first), end }
    }
}

impl Numbers {
    /// No numbers.
    pub(super) const fn none() -> Self {
        Self { rule: NonceRule { iv: [0; 12] }, next: 0, end: 0 }
    }
}

impl NonceSequence for Numbers {
    type Error = ExhaustedError;

    fn next(&mut self) -> Result<(u64, Nonce), ExhaustedError> {
        let number = self.next;
        if number >= self.end {
            return Err(ExhaustedError);
        }
        self.next = number + 1;
        Ok((number, Nonce::assume_unique(self.rule.nonce(number))))
    }
}
