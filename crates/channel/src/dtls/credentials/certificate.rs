//! Certificates (RFC 5280), shown as they are: they are read by the peer alone.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use antedate_wire::dtls::handshake::Writer;

use super::SigningKey;

/// Octets of the longest chain, with the lengths: the peer's limit may be lower.
const MAX_CHAIN: usize = 15_000;

/// A chain of certificates, and the private key of the first one.
#[derive(Clone)]
pub struct Certificate {
    key: SigningKey,
    /// The body of a Certificate message.
    body: Arc<Vec<u8>>,
}

impl Certificate {
    /// Takes certificates in DER, that of the key first. `None` if there is none, or too much. The
    /// caller has compared the first one's key.
    #[must_use]
    pub fn new(key: SigningKey, chain: &[Vec<u8>]) -> Option<Self> {
        let len = chain.iter().map(|one| 3 + one.len()).sum::<usize>();
        if chain.is_empty() || chain.iter().any(Vec::is_empty) || len > MAX_CHAIN {
            return None;
        }
        let mut list = alloc::vec![0; len];
        let mut writer = Writer::new(&mut list);
        for certificate in chain {
            writer.vector24(certificate);
        }
        let mut body = alloc::vec![0; 3 + len];
        let mut outer = Writer::new(&mut body);
        outer.vector24(writer.finish().ok()?);
        outer.finish().ok()?;
        Some(Self { key, body: Arc::new(body) })
    }

    pub(super) const fn key(&self) -> &SigningKey {
        &self.key
    }

    pub(super) fn body(&self) -> Vec<u8> {
        self.body.to_vec()
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({} octets of chain, ..)", self.body.len())
    }
}
