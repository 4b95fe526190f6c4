//! End-to-end protection of MQTT payloads: the broker can neither read, change, move to another
//! topic nor replay them.
//!
//! A payload travels in an [`envelope`]: a COSE_Encrypt0 (RFC 9052 section 5.2) whose protected
//! header names the [`Algorithm`], whose `kid` is the key's epoch and the publisher, and whose
//! Partial IV is the publisher's sequence number. Topic, publisher, epoch and sequence number are
//! external associated data. Each publisher has a key and a nonce base of its own, derived from the
//! secret of the group's epoch ([`mod@derive`], HKDF), so the nonces of two publishers never
//! collide. The sequence number determines the nonce, so everything but the reading can be
//! prepared.
//!
//! - [`Publisher`] seals payloads under consecutive numbers. [`Publisher::antedate`] prepares a
//!   publish of a [`PayloadTemplate`].
//! - [`Group`] opens messages of a group's members, once each, and gives a reason for each refusal
//!   ([`Dropped`]).
//! - [`rotation`]: the next epoch's secret, signed by the group's manager and sealed for each
//!   member (COSE_Sign1 around a COSE_Encrypt with ephemeral-static X25519).
//! - [`topic`]: names and filters.
//!
//! ```
//! use antedate_channel::mqtt::{Algorithm, Group, Publisher, Reserved};
//!
//! let mut group = Group::new("line 4", Algorithm::AesCcm16_64_128);
//! group.install(1, &[7; 32]);
//! let mut publisher = Publisher::new(&group.material(1, b"press 7").unwrap(), Reserved::new(1, 1000));
//!
//! let mut message = Vec::new();
//! publisher.seal("plant/press7/force", br#"{"kN":81.5}"#, &mut message)?;
//!
//! let mut payload = Vec::new();
//! let opened = group.open("plant/press7/force", &message, &mut payload)?;
//! assert_eq!(payload, br#"{"kN":81.5}"#);
//! assert_eq!((&*opened.publisher, opened.sequence), (&b"press 7"[..], 1));
//!
//! // The broker sends it again, or elsewhere.
//! let again = group.open("plant/press7/force", &message, &mut payload).unwrap_err();
//! assert_eq!(again.to_string(), "sequence number 1 was received before");
//! assert!(group.open("plant/press8/force", &message, &mut payload).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod algorithm;
mod antedated;
mod cipher;
pub mod derive;
pub mod enrol;
pub mod envelope;
mod group;
mod lane;
mod layout;
mod long;
mod numbers;
mod publisher;
mod refusal;
pub mod rotation;
pub mod signed;
mod template;
pub mod topic;

pub use algorithm::{Algorithm, UnknownAlgorithmError};
pub use derive::Material;
pub use group::{Group, Opened};
pub use numbers::{NoNumberError, Numbers, Reserved};
pub use publisher::{PublishError, Publisher};
pub use refusal::Dropped;
pub use template::{PayloadTemplate, PayloadTemplateError};

/// Bytes of a group's secret, from which every key is derived.
pub const SECRET_LEN: usize = 32;
pub use antedate_wire::mqtt::PUBLISHER_MAX;

#[cfg(test)]
mod tests;
