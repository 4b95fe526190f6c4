//! The handshake so far, as both hash functions see it: the cipher suite chooses one, and signatures
//! use SHA-256 in any case (RFC 5246 sections 7.4.8 and 7.4.9).

use alloc::boxed::Box;
use alloc::vec::Vec;

use sha2::{Digest, Sha256, Sha384};

use super::super::Hash;

/// The messages so far. Empty, it is small: a connection keeps it for good.
#[derive(Debug, Clone, Default)]
pub(super) struct Transcript(Option<Box<Hashes>>);

#[derive(Debug, Clone, Default)]
struct Hashes {
    sha256: Sha256,
    sha384: Sha384,
}

impl Transcript {
    pub(super) fn update(&mut self, octets: &[u8]) {
        let hashes = self.0.get_or_insert_default();
        hashes.sha256.update(octets);
        hashes.sha384.update(octets);
    }

    /// The hash of the messages.
    pub(super) fn hash(&self, hash: Hash) -> Vec<u8> {
        match hash {
            Hash::Sha256 => self.sha256().to_vec(),
            Hash::Sha384 => self.so_far().sha384.finalize().to_vec(),
        }
    }

    /// The hash that a CertificateVerify signs.
    pub(super) fn sha256(&self) -> [u8; 32] {
        self.so_far().sha256.finalize().into()
    }

    fn so_far(&self) -> Hashes {
        self.0.as_deref().cloned().unwrap_or_default()
    }
}
