//! The handshake so far, as both hash functions see it: the cipher suite chooses one, and signatures
//! use SHA-256 in any case (RFC 5246 sections 7.4.8 and 7.4.9).

use alloc::vec::Vec;

use sha2::{Digest, Sha256, Sha384};

use super::super::Hash;

/// The messages so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Transcript {
    sha256: Sha256,
    sha384: Sha384,
}

impl Transcript {
    pub(super) fn update(&mut self, octets: &[u8]) {
        self.sha256.update(octets);
        self.sha384.update(octets);
    }

    /// The hash of the messages.
    pub(super) fn hash(&self, hash: Hash) -> Vec<u8> {
        match hash {
            Hash::Sha256 => self.sha256().to_vec(),
            Hash::Sha384 => self.sha384.clone().finalize().to_vec(),
        }
    }

    /// The hash that a CertificateVerify signs.
    pub(super) fn sha256(&self) -> [u8; 32] {
        self.sha256.clone().finalize().into()
    }
}
