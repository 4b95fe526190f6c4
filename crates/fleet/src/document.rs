//! What the authority tells a device.
//!
//! ```text
//! a sealed message (antedate_channel::sealed), signed by the authority, for the device alone
//!   purpose "antedate-fleet document", subject the device's identifier
//!   of JSON: { format, kind, device, version, not_before, expires, body }
//! ```
//!
//! A device takes a document whose version is above that of all before it, at a time between
//! `not_before` and `expires`. So neither the engine nor its operators can write one, change one,
//! read one, show one to another device, or bring back an old one.

use std::collections::BTreeMap;

use antedate_channel::sealed::{self, Heading, OpenError, Reader};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::authority::{Authority, Signing};
use crate::identity::{Identity, Public, is_id};
use crate::{random, utc};

/// The most octets of a document.
pub const MAX_LEN: usize = 1 << 18;
/// The format that this version writes and reads.
pub const FORMAT: u32 = 1;
/// How long a document may be taken: an agent may be away for a year.
pub const VALID: u64 = 400 * 86_400;
/// How long before its signature a document is valid: clocks differ.
pub const CLOCKS_DIFFER: u64 = 3600;

/// The content of a document.
#[derive(Clone, PartialEq, Eq)]
pub enum Body {
    /// The device's files.
    Settings(Settings),
    /// The device is a member.
    Welcome(Welcome),
    /// The device is no member any more, and forgets its keys.
    Revocation,
}

impl std::fmt::Debug for Body {
    /// Without the files, which hold keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind())
    }
}

/// The files of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Content by name.
    pub files: BTreeMap<String, String>,
    /// The device's next pass for NATS, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pass: String,
    /// When the device forgets the keys in these files unless a newer document has come, in seconds since
    /// 1970. 0: never.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub until: u64,
    /// The certificates of authorities for TLS to NATS (PEM), where the fleet has other ones than at its
    /// beginning, or empty: those that the device has stay.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub certificates: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// What a new member learns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// The name that the operator gave it.
    pub name: String,
    /// Its role.
    pub role: String,
    /// Its pass for NATS.
    pub pass: String,
}

impl Body {
    /// The name of its kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Settings(_) => "settings",
            Self::Welcome(_) => "welcome",
            Self::Revocation => "revocation",
        }
    }
}

/// A document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The identifier of the device that it is for.
    pub device: String,
    /// Its version, above all before it.
    pub version: u64,
    /// Seconds since 1970 from which on it may be taken.
    pub not_before: u64,
    /// Seconds since 1970 from which on it must not be taken.
    pub expires: u64,
    /// Its content.
    pub body: Body,
}

/// As it is written.
#[derive(Serialize, Deserialize)]
struct Paper {
    format: u32,
    kind: String,
    device: String,
    version: u64,
    not_before: u64,
    expires: u64,
    body: serde_json::Value,
}

/// Why a device does not take a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is cut, or none at all.
    #[error("it is half written, or no document")]
    Format,
    /// Somebody else than the authority wrote or changed it, or wrote it for another device.
    #[error("the fleet's authority has not signed it for this device")]
    Signature,
    /// It is not encrypted to this device's key.
    #[error("it is not encrypted to this device's key")]
    NotForUs,
    /// It is older than one that the device has taken.
    #[error(
        "it has version {version}, and this device has taken version {taken}: somebody brings back an old one, or the engine came back from a backup; `antedate fleet apply` makes a newer one"
    )]
    Old {
        /// Its version.
        version: u64,
        /// The newest that was taken.
        taken: u64,
    },
    /// Another document has this version.
    #[error("it differs from the document with the same version {version} that this device has taken")]
    Differs {
        /// The version of both.
        version: u64,
    },
    /// Its time is over.
    #[error(
        "it has expired at {}, and this device's clock shows {}: apply a newer one, or correct the clock",
        utc(*expires), utc(*now)
    )]
    Expired {
        /// The end of its time.
        expires: u64,
        /// The device's clock.
        now: u64,
    },
    /// Its time has not come.
    #[error(
        "it is valid from {} on, and this device's clock shows {}: correct the clock",
        utc(*not_before), utc(*now)
    )]
    Future {
        /// The begin of its time.
        not_before: u64,
        /// The device's clock.
        now: u64,
    },
    /// This version of Antedate knows another format only.
    #[error("it has format {0}, and this version of Antedate reads format {FORMAT}: upgrade the device")]
    UnknownFormat(u32),
    /// This version of Antedate does not know its kind.
    #[error("its kind \"{0}\" is unknown to this version of Antedate: upgrade the device")]
    UnknownKind(String),
}

impl From<OpenError> for DocumentError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Format => Self::Format,
            OpenError::Signature => Self::Signature,
            OpenError::NotReader | OpenError::NoReader | OpenError::Unauthentic => Self::NotForUs,
        }
    }
}

/// Why a document cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It is longer than [`MAX_LEN`].
    #[error("a document of {0} octets is longer than {MAX_LEN}: give the device fewer or shorter files")]
    TooLong(usize),
    /// The system gives no random numbers, or the device's key is none.
    #[error("{0}")]
    Cannot(String),
}

fn heading(device: &str) -> Heading<'_> {
    Heading { purpose: "antedate-fleet document", subject: device }
}

impl Document {
    /// Encrypts it to the device, and signs it.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal(&self, signing: &Signing, keys: &Public) -> Result<Vec<u8>, SealError> {
        let body = match &self.body {
            Body::Settings(settings) => serde_json::to_value(settings),
            Body::Welcome(welcome) => serde_json::to_value(welcome),
            Body::Revocation => Ok(serde_json::Value::Null),
        };
        let cannot = |error: serde_json::Error| SealError::Cannot(error.to_string());
        let paper = Paper {
            format: FORMAT,
            kind: self.body.kind().to_owned(),
            device: self.device.clone(),
            version: self.version,
            not_before: self.not_before,
            expires: self.expires,
            body: body.map_err(cannot)?,
        };
        seal_paper(&paper, signing, keys)
    }

    /// Opens a document that the device has taken before. Its time does not matter any more.
    ///
    /// # Errors
    /// [`DocumentError`].
    pub fn open_kept(
        message: &[u8],
        authority: &Authority,
        identity: &Identity,
    ) -> Result<Self, DocumentError> {
        if message.len() > MAX_LEN {
            return Err(DocumentError::Format);
        }
        let device = identity.public().id();
        let plain = sealed::open(
            heading(&device),
            message,
            &authority.documents,
            device.as_bytes(),
            &identity.reading(),
        )?;
        let paper: Paper = serde_json::from_slice(&plain).map_err(|_| DocumentError::Format)?;
        if paper.format != FORMAT {
            return Err(DocumentError::UnknownFormat(paper.format));
        }
        if paper.device != device {
            return Err(DocumentError::Signature);
        }
        let form = |_| DocumentError::Format;
        let body = match paper.kind.as_str() {
            "settings" => Body::Settings(serde_json::from_value(paper.body).map_err(form)?),
            "welcome" => Body::Welcome(serde_json::from_value(paper.body).map_err(form)?),
            "revocation" => Body::Revocation,
            _ => return Err(DocumentError::UnknownKind(paper.kind)),
        };
        let Paper { version, not_before, expires, .. } = paper;
        Ok(Self { device, version, not_before, expires, body })
    }

    /// Opens a new document at the time `now`. `taken` is the newest version that the device has
    /// taken, or 0.
    ///
    /// # Errors
    /// [`DocumentError`].
    pub fn open(
        message: &[u8],
        authority: &Authority,
        identity: &Identity,
        now: u64,
        taken: u64,
    ) -> Result<Self, DocumentError> {
        let document = Self::open_kept(message, authority, identity)?;
        let Self { version, not_before, expires, .. } = document;
        if version <= taken {
            return Err(DocumentError::Old { version, taken });
        }
        if now < not_before {
            return Err(DocumentError::Future { not_before, now });
        }
        if now >= expires {
            return Err(DocumentError::Expired { expires, now });
        }
        Ok(document)
    }
}

fn seal_paper(paper: &Paper, signing: &Signing, keys: &Public) -> Result<Vec<u8>, SealError> {
    debug_assert!(is_id(&paper.device), "{}", paper.device);
    let plain = serde_json::to_vec(paper).map_err(|error| SealError::Cannot(error.to_string()))?;
    let plain = Zeroizing::new(plain);
    let readers = [Reader { name: paper.device.as_bytes(), public: keys.read }];
    let message = sealed::seal(heading(&paper.device), &plain, &signing.documents(), &readers, random)
        .map_err(|error| SealError::Cannot(error.to_string()))?;
    if message.len() > MAX_LEN { Err(SealError::TooLong(message.len())) } else { Ok(message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::Reading;
    use crate::identity::Seed;

    const NOW: u64 = 1_800_000_000;

    fn signing(octet: u8) -> Signing {
        Signing::of(Seed::of([octet; 32]))
    }

    fn authority(octet: u8) -> Authority {
        Authority::of(&signing(octet), &Reading::of(Seed::of([octet; 32])))
    }

    fn device(octet: u8) -> Identity {
        Identity::of(Seed::of([octet; 32]))
    }

    fn document(version: u64) -> Document {
        let files = BTreeMap::from([("cak".to_owned(), "mka_cak=0123\n".to_owned())]);
        Document {
            device: device(1).public().id(),
            version,
            not_before: NOW - CLOCKS_DIFFER,
            expires: NOW + 1000,
            body: Body::Settings(Settings { files, ..Settings::default() }),
        }
    }

    fn sealed(document: &Document) -> Vec<u8> {
        document.seal(&signing(9), &device(1).public()).unwrap()
    }

    fn open(message: &[u8], now: u64, taken: u64) -> Result<Document, DocumentError> {
        Document::open(message, &authority(9), &device(1), now, taken)
    }

    #[test]
    fn device_reads_what_was_written() {
        for body in [
            document(1).body,
            Body::Revocation,
            Body::Welcome(Welcome { name: "press".into(), role: "gateway".into(), pass: "ey".into() }),
        ] {
            let document = Document { body, ..document(7) };
            assert_eq!(open(&sealed(&document), NOW, 6), Ok(document));
        }
    }

    #[test]
    fn keys_are_not_visible() {
        let message = sealed(&document(1));
        assert!(!message.windows(7).any(|window| window == b"mka_cak"));
        assert!(!format!("{:?}", document(1)).contains("0123"));
    }

    #[test]
    fn forged_signature_is_refused() {
        // Another authority, as of somebody with the engine's password.
        let forged = document(8).seal(&signing(8), &device(1).public()).unwrap();
        assert_eq!(open(&forged, NOW, 0), Err(DocumentError::Signature));
        // Each octet counts, and each cut is noticed.
        let right = sealed(&document(1));
        for at in 0..right.len() {
            let mut changed = right.clone();
            changed[at] ^= 1;
            assert!(open(&changed, NOW, 0).is_err(), "octet {at}");
            assert!(matches!(
                open(&right[..at], NOW, 0),
                Err(DocumentError::Format | DocumentError::Signature)
            ));
        }
        assert_eq!(open(&[], NOW, 0), Err(DocumentError::Format));
        assert_eq!(open(&vec![0; MAX_LEN + 1], NOW, 0), Err(DocumentError::Format));
    }

    #[test]
    fn document_of_another_device_is_refused() {
        let other = Document { device: device(2).public().id(), ..document(1) };
        let message = other.seal(&signing(9), &device(2).public()).unwrap();
        assert_eq!(open(&message, NOW, 0), Err(DocumentError::Signature));
        // Signed for this device, and encrypted to the key of another.
        let message = document(1).seal(&signing(9), &device(2).public()).unwrap();
        assert_eq!(open(&message, NOW, 0), Err(DocumentError::NotForUs));
    }

    #[test]
    fn old_versions_are_refused() {
        for (version, taken) in [(1, 1), (1, 2), (0, 0), (7, u64::MAX)] {
            let refused = open(&sealed(&document(version)), NOW, taken);
            assert_eq!(refused, Err(DocumentError::Old { version, taken }));
        }
        assert!(open(&sealed(&document(u64::MAX)), NOW, u64::MAX - 1).is_ok());
    }

    #[test]
    fn time_is_a_half_open_interval() {
        let message = sealed(&document(1));
        let (not_before, expires) = (NOW - CLOCKS_DIFFER, NOW + 1000);
        assert!(open(&message, not_before, 0).is_ok() && open(&message, expires - 1, 0).is_ok());
        assert_eq!(open(&message, expires, 0), Err(DocumentError::Expired { expires, now: expires }));
        // A clock in 1970.
        assert_eq!(open(&message, 12, 0), Err(DocumentError::Future { not_before, now: 12 }));
        // What was taken once is read at any time.
        assert!(Document::open_kept(&message, &authority(9), &device(1)).is_ok());
    }

    #[test]
    fn unknown_documents_ask_for_an_upgrade() {
        let paper = |format, kind: &str| {
            let body = serde_json::json!({ "files": {} });
            let device = device(1).public().id();
            let paper = Paper {
                format,
                kind: kind.into(),
                device,
                version: 1,
                not_before: 0,
                expires: u64::MAX,
                body,
            };
            seal_paper(&paper, &signing(9), &self::device(1).public()).unwrap()
        };
        assert_eq!(open(&paper(2, "settings"), NOW, 0), Err(DocumentError::UnknownFormat(2)));
        assert_eq!(open(&paper(1, "dance"), NOW, 0), Err(DocumentError::UnknownKind("dance".into())));
        assert_eq!(open(&paper(1, "welcome"), NOW, 0), Err(DocumentError::Format));
        for error in [DocumentError::UnknownFormat(2), DocumentError::UnknownKind("dance".into())] {
            assert!(error.to_string().contains("upgrade"));
        }
    }

    #[test]
    fn unsealable_document_is_told() {
        let files = BTreeMap::from([("a".to_owned(), "x".repeat(MAX_LEN))]);
        let long =
            Document { body: Body::Settings(Settings { files, ..Settings::default() }), ..document(1) };
        assert!(matches!(long.seal(&signing(9), &device(1).public()), Err(SealError::TooLong(_))));
        let weak = Public { read: [0; 32], ..device(1).public() };
        assert!(matches!(document(1).seal(&signing(9), &weak), Err(SealError::Cannot(_))));
    }
}
