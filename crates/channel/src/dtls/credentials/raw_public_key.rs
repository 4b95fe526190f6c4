//! Raw public keys (RFC 7250): a SubjectPublicKeyInfo alone, which the peer knows.

use alloc::vec::Vec;
use core::fmt;

use super::{SPKI_LEN, SigningKey};

/// A raw public key and its private key.
#[derive(Clone)]
pub struct RawPublicKey(SigningKey);

impl RawPublicKey {
    /// The public key of a private key.
    #[must_use]
    pub const fn new(key: SigningKey) -> Self {
        Self(key)
    }

    pub(super) const fn key(&self) -> &SigningKey {
        &self.0
    }

    /// The body of a Certificate message (RFC 7250 section 3).
    pub(super) fn body(&self) -> Vec<u8> {
        [&[0, 0, SPKI_LEN as u8][..], &self.0.public().spki()].concat()
    }
}

impl fmt::Debug for RawPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawPublicKey(..)")
    }
}
