//! The keys of the fleet.
//!
//! The *signing key* makes policy: it signs documents and passes of NATS. It is needed to enrol, to
//! change and to revoke, and may stay on a machine without a network at other times. The *reading
//! key* opens reports.

use std::path::Path;

use antedate_channel::sealed::{author_public, device_public, is_device_public};
use antedate_host::fault::Fault;
use antedate_host::hex::{hex, parse_hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::NoRandom;
use crate::identity::Seed;

/// The key that makes policy.
#[derive(Debug)]
pub struct Signing(Seed);

impl Signing {
    /// A new one.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn generate() -> Result<Self, NoRandom> {
        Seed::generate().map(Self)
    }

    /// That of a secret.
    #[must_use]
    pub const fn of(seed: Seed) -> Self {
        Self(seed)
    }

    /// Reads its file.
    ///
    /// # Errors
    /// When it is not here, which is not a fault of a machine that only watches.
    pub fn load(file: &Path) -> Result<Self, Fault> {
        if !file.exists() {
            return Err(Fault::of_file(
                file,
                "the signing key is not on this machine",
                "bring the file here for this command, or give the command where it is",
            ));
        }
        Seed::load(file).map(Self)
    }

    /// Writes its file.
    ///
    /// # Errors
    /// When it exists or cannot be written.
    pub fn write_new(&self, file: &Path) -> Result<(), Fault> {
        self.0.write_new(file)
    }

    /// The Ed25519 key of documents.
    #[must_use]
    pub fn documents(&self) -> Zeroizing<[u8; 32]> {
        self.0.derive("documents")
    }

    /// The Ed25519 key of NATS's operator.
    #[must_use]
    pub fn operator(&self) -> Zeroizing<[u8; 32]> {
        self.0.derive("nats operator")
    }

    /// The Ed25519 key of the fleet's account at NATS.
    #[must_use]
    pub fn account(&self) -> Zeroizing<[u8; 32]> {
        self.0.derive("nats account")
    }

    /// The Ed25519 key of NATS's system account.
    #[must_use]
    pub fn system(&self) -> Zeroizing<[u8; 32]> {
        self.0.derive("nats system account")
    }

    /// The Ed25519 key of a leaf node in the fleet's account.
    #[must_use]
    pub fn leaf(&self, name: &str) -> Zeroizing<[u8; 32]> {
        self.0.derive(&format!("nats leaf {name}"))
    }

    /// The Ed25519 key of a leaf node in the system account.
    #[must_use]
    pub fn leaf_system(&self, name: &str) -> Zeroizing<[u8; 32]> {
        self.0.derive(&format!("nats system leaf {name}"))
    }

    /// The Ed25519 key of the user who changes accounts.
    #[must_use]
    pub fn system_user(&self) -> Zeroizing<[u8; 32]> {
        self.0.derive("nats system user")
    }
}

/// The key that opens reports.
#[derive(Debug)]
pub struct Reading(Seed);

impl Reading {
    /// A new one.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn generate() -> Result<Self, NoRandom> {
        Seed::generate().map(Self)
    }

    /// That of a secret.
    #[must_use]
    pub const fn of(seed: Seed) -> Self {
        Self(seed)
    }

    /// Reads its file.
    ///
    /// # Errors
    /// As [`Seed::load`].
    pub fn load(file: &Path) -> Result<Self, Fault> {
        Seed::load(file).map(Self)
    }

    /// Writes its file.
    ///
    /// # Errors
    /// When it exists or cannot be written.
    pub fn write_new(&self, file: &Path) -> Result<(), Fault> {
        self.0.write_new(file)
    }

    /// The X25519 key.
    #[must_use]
    pub fn secret(&self) -> Zeroizing<[u8; 32]> {
        self.0.derive("read reports")
    }
}

/// The authority as devices know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority {
    /// Ed25519: verifies documents.
    pub documents: [u8; 32],
    /// X25519: encrypts reports.
    pub reports: [u8; 32],
}

impl Authority {
    /// The public keys of the two secrets.
    #[must_use]
    pub fn of(signing: &Signing, reading: &Reading) -> Self {
        Self { documents: author_public(&signing.documents()), reports: device_public(&reading.secret()) }
    }

    /// The fingerprint that people compare.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = Sha256::new().chain_update(b"antedate-fleet authority\0");
        let digest: [u8; 32] = hash.chain_update(self.documents).chain_update(self.reports).finalize().into();
        format!("SHA256:{}", hex(&digest))
    }
}

/// Its keys in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    documents: String,
    reports: String,
}

impl From<Authority> for Written {
    fn from(keys: Authority) -> Self {
        Self { documents: hex(&keys.documents), reports: hex(&keys.reports) }
    }
}

impl Written {
    /// The keys. `None` if they have another form, or are none.
    #[must_use]
    pub fn read(&self) -> Option<Authority> {
        let mut keys = Authority { documents: [0; 32], reports: [0; 32] };
        let read =
            parse_hex(&self.documents, &mut keys.documents) && parse_hex(&self.reports, &mut keys.reports);
        let verifies =
            ed25519_dalek::VerifyingKey::from_bytes(&keys.documents).is_ok_and(|key| !key.is_weak());
        (read && verifies && is_device_public(&keys.reports)).then_some(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_has_its_key() {
        let signing = Signing::of(Seed::of([1; 32]));
        let keys = [
            signing.documents(),
            signing.operator(),
            signing.account(),
            signing.system(),
            signing.system_user(),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(keys.iter().skip(index + 1).all(|other| **other != **key));
        }
    }

    #[test]
    fn missing_signing_key_has_a_remedy() {
        let fault = Signing::load(Path::new("/nowhere/signing.key")).unwrap_err();
        assert!(fault.what.contains("not on this machine") && !fault.remedy.is_empty());
    }

    #[test]
    fn weak_authority_is_refused() {
        let good = Authority::of(&Signing::of(Seed::of([1; 32])), &Reading::of(Seed::of([2; 32])));
        assert_eq!(Written::from(good).read(), Some(good));
        assert_eq!(Written::from(Authority { reports: [0; 32], ..good }).read(), None);
        let mut one = [0; 32];
        one[0] = 1;
        assert_eq!(Written::from(Authority { documents: one, ..good }).read(), None);
    }
}
