//! What a side proves itself with, and what it accepts of its peer. Nothing here depends on the
//! version of DTLS: a handshake asks for a signature, or for a verdict on what the peer has shown.
//!
//! - `psk`: a pre-shared key of an identity
//! - `raw_public_key`: a public key alone (RFC 7250)
//! - `certificate`: certificates
//! - `key`: signatures (ECDSA on P-256 with SHA-256), and the public keys that verify them
//! - `distrust`: the reasons for refusing what a peer has shown

mod certificate;
mod distrust;
mod key;
mod psk;
mod raw_public_key;

use alloc::vec::Vec;
use core::fmt;

use antedate_wire::dtls::handshake::certificates::{self, CertificateType, Certificates};

pub use certificate::Certificate;
pub use distrust::Distrust;
pub use key::{PublicKey, SPKI_LEN, SigningKey, UnusableKeyError};
pub use psk::{Client, Psk};
pub use raw_public_key::RawPublicKey;

/// What a side proves itself with.
#[derive(Clone)]
pub enum Credentials {
    /// nothing: a client of a server that asks for nothing
    Anonymous,
    /// a pre-shared key, of a client; a server has a [`Keyring`]
    Psk(Client),
    /// a public key alone
    RawPublicKey(RawPublicKey),
    /// certificates
    Certificate(Certificate),
}

impl Credentials {
    /// The key that signs, and what is shown with it.
    pub(super) fn signed(&self) -> Option<(CertificateType, &SigningKey)> {
        match self {
            Self::Anonymous | Self::Psk(_) => None,
            Self::RawPublicKey(raw) => Some((CertificateType::RawPublicKey, raw.key())),
            Self::Certificate(own) => Some((CertificateType::X509, own.key())),
        }
    }

    /// Whether these are the same: the same identity and key, or what is shown.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Psk(one), Self::Psk(other)) => one.identity == other.identity && one.key == other.key,
            (Self::Psk(_), _) | (_, Self::Psk(_)) => false,
            _ => {
                let kind = |of: &Self| of.signed().map(|(kind, _)| kind);
                kind(self) == kind(other) && self.body() == other.body()
            }
        }
    }

    /// The body of a Certificate message.
    pub(super) fn body(&self) -> Vec<u8> {
        match self {
            Self::Anonymous | Self::Psk(_) => [0; 3].to_vec(),
            Self::RawPublicKey(raw) => raw.body(),
            Self::Certificate(own) => own.body(),
        }
    }
}

impl From<Client> for Credentials {
    fn from(client: Client) -> Self {
        Self::Psk(client)
    }
}

/// Shows no key.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("Anonymous"),
            Self::Psk(client) => client.fmt(f),
            Self::RawPublicKey(raw) => raw.fmt(f),
            Self::Certificate(own) => own.fmt(f),
        }
    }
}

/// What a peer has shown as its proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    kind: CertificateType,
    by_server: bool,
    body: Vec<u8>,
}

impl Shown {
    /// Takes the body of a Certificate message. `None` if it cannot be read.
    #[must_use]
    pub fn new(kind: CertificateType, by_server: bool, body: &[u8]) -> Option<Self> {
        match kind {
            CertificateType::X509 => certificates::Certificates::parse(body).map(drop).ok()?,
            CertificateType::RawPublicKey => certificates::raw_public_key(body).map(drop).ok()?,
            CertificateType::Unknown(_) => return None,
        }
        Some(Self { kind, by_server, body: body.to_vec() })
    }

    /// Certificates, or a raw public key.
    #[must_use]
    pub const fn kind(&self) -> CertificateType {
        self.kind
    }

    /// Whether the peer is the server.
    #[must_use]
    pub const fn by_server(&self) -> bool {
        self.by_server
    }

    /// The certificates in DER, the peer's own first, or its SubjectPublicKeyInfo. Empty if the peer
    /// has shown nothing.
    #[must_use]
    pub fn entries(&self) -> Vec<&[u8]> {
        let raw = || certificates::raw_public_key(&self.body).into_iter().filter(|key| !key.is_empty());
        match self.kind {
            CertificateType::X509 => {
                Certificates::parse(&self.body).into_iter().flat_map(|list| list.iter()).collect()
            }
            _ => raw().collect(),
        }
    }
}

/// A peer that is trusted, if it proves that it has the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusted {
    /// the name under which it is logged
    pub identity: Vec<u8>,
    /// its public key
    pub key: PublicKey,
}

/// A source of pre-shared keys, and of verdicts on peers.
pub trait Keyring {
    /// The pre-shared key of a client's identity.
    fn key(&self, _identity: &[u8]) -> Option<Psk> {
        None
    }

    /// Judges what a peer has shown.
    ///
    /// # Errors
    /// The reason for refusing it.
    fn judge(&self, _shown: &Shown) -> Result<Trusted, Distrust> {
        Err(Distrust::Unlisted)
    }
}

/// No keys, for a client with a pre-shared key, which has its own.
impl Keyring for () {}
