//! The keys of a device: one secret of 32 octets, from which all are derived.
//!
//! ```text
//! HKDF-SHA-256(secret, info "antedate-fleet sign")    an Ed25519 key: signs requests and reports
//!                           "antedate-fleet read"     an X25519 key: opens documents
//!                           "antedate-fleet login"    an Ed25519 key: signs the nonces of NATS
//! ```
//!
//! A NATS server chooses what a login signs. So that key signs nothing else.

use std::fmt;
use std::path::Path;

use antedate_channel::sealed::{author_public, device_public, is_device_public};
use antedate_host::fault::Fault;
use antedate_host::hex::{hex, parse_hex};
use antedate_host::{private_file, process};
use ed25519_dalek::{Signer, SigningKey};
use hkdf::Hkdf;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::nkey::{self, Kind};
use crate::{NoRandom, random};

/// A secret from which keys are derived.
pub struct Seed(Zeroizing<[u8; 32]>);

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

impl Seed {
    /// A new one.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn generate() -> Result<Self, NoRandom> {
        let mut secret = Zeroizing::new([0; 32]);
        random(&mut *secret)?;
        Ok(Self(secret))
    }

    /// One with these octets.
    #[must_use]
    pub fn of(secret: [u8; 32]) -> Self {
        Self(Zeroizing::new(secret))
    }

    /// Reads a file of 64 hexadecimal digits that only its owner can read.
    ///
    /// # Errors
    /// When it cannot be read, others have rights on it, or it has another form.
    pub fn load(file: &Path) -> Result<Self, Fault> {
        let mut text = Zeroizing::new([0; 129]);
        let length = private_file::read(file, process::user(), &mut *text)?;
        let digits = text.get(..length).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
        let mut secret = Zeroizing::new([0; 32]);
        if !parse_hex(digits.trim(), &mut *secret) {
            return Err(Fault::of_file(
                file,
                "does not hold a secret of 64 hexadecimal digits",
                "restore it from its backup",
            ));
        }
        Ok(Self(secret))
    }

    /// Writes it to a new file that only its owner can read.
    ///
    /// # Errors
    /// When the file exists or cannot be written.
    pub fn write_new(&self, file: &Path) -> Result<(), Fault> {
        private_file::create(file, &Zeroizing::new(hex(&*self.0) + "\n"))
    }

    /// The key for a use.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        let mut key = Zeroizing::new([0; 32]);
        // So short an expansion cannot fail.
        let _ = Hkdf::<Sha256>::new(None, &*self.0)
            .expand(format!("antedate-fleet {purpose}").as_bytes(), &mut *key);
        key
    }
}

/// Signs with an Ed25519 secret.
pub(crate) fn sign(secret: &[u8; 32], message: &[u8]) -> [u8; 64] {
    SigningKey::from_bytes(secret).sign(message).to_bytes()
}

/// A device's secret keys.
#[derive(Debug)]
pub struct Identity(Seed);

impl Identity {
    /// The identity of a secret.
    #[must_use]
    pub const fn of(seed: Seed) -> Self {
        Self(seed)
    }

    /// The key that signs requests and reports.
    #[must_use]
    pub fn signing(&self) -> Zeroizing<[u8; 32]> {
        self.0.derive("sign")
    }

    /// The key that opens documents.
    #[must_use]
    pub fn reading(&self) -> Zeroizing<[u8; 32]> {
        self.0.derive("read")
    }

    /// The key that logs in at NATS.
    #[must_use]
    pub fn login(&self) -> Zeroizing<[u8; 32]> {
        self.0.derive("login")
    }

    /// The public keys.
    #[must_use]
    pub fn public(&self) -> Public {
        Public {
            sign: author_public(&self.signing()),
            read: device_public(&self.reading()),
            login: author_public(&self.login()),
        }
    }
}

/// A device's public keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Public {
    /// Ed25519: verifies requests and reports.
    pub sign: [u8; 32],
    /// X25519: encrypts documents.
    pub read: [u8; 32],
    /// Ed25519: its user at NATS.
    pub login: [u8; 32],
}

impl Public {
    fn digest(&self) -> [u8; 32] {
        let hash = Sha256::new().chain_update(b"antedate-fleet device\0");
        hash.chain_update(self.sign).chain_update(self.read).chain_update(self.login).finalize().into()
    }

    /// The device's identifier: 16 lower-case letters and digits of the fingerprint, 80 bits.
    #[must_use]
    pub fn id(&self) -> String {
        let digest = self.digest();
        nkey::base32(digest.get(..10).unwrap_or_default()).to_ascii_lowercase()
    }

    /// The code that people compare: the identifier in groups.
    #[must_use]
    pub fn code(&self) -> String {
        code(&self.id())
    }

    /// The whole fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", hex(&self.digest()))
    }

    /// The name of its user at NATS.
    #[must_use]
    pub fn user(&self) -> String {
        nkey::public(Kind::User, &self.login)
    }

    /// Whether these are keys at all, in contrast to points of small order.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let verifies = |key| ed25519_dalek::VerifyingKey::from_bytes(key).is_ok_and(|key| !key.is_weak());
        is_device_public(&self.read) && verifies(&self.sign) && verifies(&self.login)
    }
}

/// An identifier in groups of four, in capitals.
#[must_use]
pub fn code(id: &str) -> String {
    let letters: Vec<char> = id.to_ascii_uppercase().chars().collect();
    letters.chunks(4).map(|group| group.iter().collect::<String>()).collect::<Vec<_>>().join("-")
}

/// The identifier of a code, as people type it.
#[must_use]
pub fn id_of_code(code: &str) -> Option<String> {
    let id: String =
        code.chars().filter(|c| !matches!(c, '-' | ' ')).collect::<String>().to_ascii_lowercase();
    is_id(&id).then_some(id)
}

/// Whether a text has the form of an identifier. Others must not become part of a subject.
#[must_use]
pub fn is_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|octet| matches!(octet, b'a'..=b'z' | b'2'..=b'7'))
}

/// Public keys in hexadecimal digits, as documents have them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    sign: String,
    read: String,
    login: String,
}

impl From<Public> for Written {
    fn from(keys: Public) -> Self {
        Self { sign: hex(&keys.sign), read: hex(&keys.read), login: hex(&keys.login) }
    }
}

impl Written {
    /// The keys. `None` if they have another form, or are none.
    #[must_use]
    pub fn read(&self) -> Option<Public> {
        let mut keys = Public { sign: [0; 32], read: [0; 32], login: [0; 32] };
        let read = parse_hex(&self.sign, &mut keys.sign)
            && parse_hex(&self.read, &mut keys.read)
            && parse_hex(&self.login, &mut keys.login);
        (read && keys.is_sound()).then_some(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(octet: u8) -> Identity {
        Identity::of(Seed::of([octet; 32]))
    }

    #[test]
    fn keys_differ_by_their_use() {
        let one = identity(1);
        let keys = [one.signing(), one.reading(), one.login(), identity(2).signing()];
        for (index, key) in keys.iter().enumerate() {
            assert!(keys.iter().skip(index + 1).all(|other| **other != **key));
        }
        assert_eq!(one.public(), identity(1).public());
    }

    #[test]
    fn code_is_typed_in_any_form() {
        let keys = identity(1).public();
        assert!(is_id(&keys.id()) && keys.code().len() == 19, "{}", keys.code());
        for typed in [keys.code(), keys.code().to_lowercase(), keys.code().replace('-', " "), keys.id()] {
            assert_eq!(id_of_code(&typed), Some(keys.id()));
        }
        for wrong in ["", "abcd", "ABCD-EFGH-IJKL-MNO1", "abcdefghijklmnop>", "abcdefghijklmno."] {
            assert_eq!(id_of_code(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_key_is_part_of_the_fingerprint() {
        let keys = identity(1).public();
        let other = identity(2).public();
        for changed in [
            Public { sign: other.sign, ..keys },
            Public { read: other.read, ..keys },
            Public { login: other.login, ..keys },
        ] {
            assert_ne!(changed.fingerprint(), keys.fingerprint());
            assert_ne!(changed.id(), keys.id());
        }
    }

    #[test]
    fn weak_keys_are_refused() {
        let keys = identity(1).public();
        assert_eq!(Written::from(keys).read(), Some(keys));
        let mut one = [0; 32];
        one[0] = 1;
        for weak in
            [Public { read: [0; 32], ..keys }, Public { sign: one, ..keys }, Public { login: one, ..keys }]
        {
            assert_eq!(Written::from(weak).read(), None);
        }
    }

    #[test]
    fn seed_survives_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("identity.key");
        identity(7).0.write_new(&file).unwrap();
        assert_eq!(Identity::of(Seed::load(&file).unwrap()).public(), identity(7).public());
        std::fs::write(&file, "00").unwrap();
        assert!(Seed::load(&file).unwrap_err().what.contains("64 hexadecimal digits"));
    }
}
