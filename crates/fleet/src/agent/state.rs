//! The agent's directory.
//!
//! | file | content |
//! | --- | --- |
//! | `identity.key` | the secret of all its keys |
//! | `member.json` | fleet, servers, the authority's public keys, name, role, pass for NATS |
//! | `kept.json` | the newest version that was taken, and the sealed document in force |
//! | `starts` | how often it started |
//! | `files/` | the files of the document in force, for the gateway |
//!
//! The document in force is kept as it came: signed, and encrypted to the device. It is verified again
//! at each start.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use antedate_host::fault::Fault;
use antedate_host::replace::{replace, replace_with_mode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::authority::{self, Authority};
use crate::home::make_directory;
use crate::identity::{Identity, Seed};
use crate::login::Access;

/// What a member knows of its fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Membership {
    /// The fleet's name.
    pub fleet: String,
    /// Addresses of NATS servers.
    pub servers: Vec<String>,
    /// The fleet's keys.
    pub authority: authority::Written,
    /// Certificates of authorities for TLS (PEM), or empty.
    #[serde(default)]
    pub certificates: String,
    /// The device's name.
    pub name: String,
    /// Its role.
    pub role: String,
    /// Its pass for NATS.
    pub pass: String,
}

/// The newest version taken, and the document in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The newest version that was taken, applied or not. It never falls.
    pub taken: u64,
    /// The version in force, or 0.
    pub settings: u64,
    /// A version that could not be applied and is newer than that in force, or 0.
    #[serde(default)]
    pub failed: u64,
    /// Whether the device was revoked, and what runs has other keys.
    #[serde(default)]
    pub revoked: bool,
    /// Whether the revocation came, and what runs may still have the keys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoking: bool,
    pub(super) message: String,
}

impl Kept {
    /// The sealed document in force.
    #[must_use]
    pub fn message(&self) -> Option<Vec<u8>> {
        STANDARD.decode(&self.message).ok().filter(|message| !message.is_empty())
    }

    /// With another document in force.
    #[must_use]
    pub fn with_message(mut self, message: &[u8]) -> Self {
        self.message = STANDARD.encode(message);
        self
    }
}

/// The directory.
#[derive(Debug, Clone)]
pub struct State {
    directory: PathBuf,
    is_shared: bool,
}

fn write<T: Serialize>(file: &Path, value: &T) -> Result<(), Fault> {
    replace(file, (serde_json::to_string_pretty(value).unwrap_or_default() + "\n").as_bytes()).map(drop)
}

fn read<T: DeserializeOwned>(file: &Path, remedy: &str) -> Result<T, Fault> {
    let text = fs::read(file).map_err(|error| Fault::of_io(file, "read the file", &error, remedy))?;
    serde_json::from_slice(&text)
        .map_err(|error| Fault::of_file(file, format!("has another form: {error}"), remedy))
}

impl State {
    /// That of a directory.
    #[must_use]
    pub fn of(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), is_shared: false }
    }

    /// Lets this process's group read the files in force: a gateway of another user is in it.
    #[must_use]
    pub const fn shared(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// Writes a file in force.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write_file(&self, name: &str, text: &str) -> Result<(), Fault> {
        let files = self.files();
        let remedy = "run as the owner of the agent's directory";
        let allow = |path: &Path, mode: u32| {
            fs::set_permissions(path, Permissions::from_mode(mode))
                .map_err(|error| Fault::of_io(path, "let the group read", &error, remedy))
        };
        make_directory(&files)?;
        let file = files.join(name);
        if self.is_shared {
            for directory in [&self.directory, &files] {
                allow(directory, 0o710)?;
            }
        }
        // A file that is right keeps its time: a gateway looks at it.
        if !fs::read(&file).is_ok_and(|found| found == text.as_bytes()) {
            // Its name and its rights come together: who looks at the name alone reads it once.
            if self.is_shared {
                replace_with_mode(&file, text.as_bytes(), 0o640)?;
            } else {
                replace(&file, text.as_bytes())?;
            }
        }
        if self.is_shared { allow(&file, 0o640) } else { Ok(()) }
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory of the files in force.
    #[must_use]
    pub fn files(&self) -> PathBuf {
        self.directory.join("files")
    }

    /// The identity. Made if there is none and `make` is true.
    ///
    /// # Errors
    /// When there is none, or its file is not sound.
    pub fn identity(&self, make: bool) -> Result<Identity, Fault> {
        let file = self.directory.join("identity.key");
        if make && !file.exists() {
            make_directory(&self.directory)?;
            let seed = Seed::generate().map_err(|error| {
                Fault::of_file(&file, error.to_string(), "no keys can be made on this system")
            })?;
            seed.write_new(&file)?;
        }
        if !file.exists() {
            let remedy = "enrol it with `antedate agent enrol`, or name its directory with --state";
            return Err(Fault::of_file(&self.directory, "this device is no member of a fleet", remedy));
        }
        Seed::load(&file).map(Identity::of)
    }

    /// What the device knows of its fleet, if it is a member.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn membership(&self) -> Result<Option<Membership>, Fault> {
        let file = self.directory.join("member.json");
        if !file.exists() {
            return Ok(None);
        }
        read(&file, "remove it, and enrol again with `antedate agent enrol`").map(Some)
    }

    /// Writes what the device knows of its fleet.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_membership(&self, membership: &Membership) -> Result<(), Fault> {
        write(&self.directory.join("member.json"), membership)
    }

    /// Keeps a newer pass for NATS and other certificates of its authorities, for the next connection.
    /// What is empty stays as it is.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(super) fn renew(&self, pass: &str, certificates: &str) -> Result<(), Fault> {
        let Some(before) = self.membership()? else { return Ok(()) };
        let newer = |new: &str, old: &str| if new.is_empty() { old.to_owned() } else { new.to_owned() };
        let pass = newer(pass, &before.pass);
        let certificates = newer(certificates, &before.certificates);
        if certificates != before.certificates {
            self.certificates(&certificates)?;
        }
        if pass != before.pass || certificates != before.certificates {
            self.set_membership(&Membership { pass, certificates, ..before })?;
        }
        Ok(())
    }

    /// What was taken. A damaged file is no new beginning: old documents would count again.
    ///
    /// # Errors
    /// When the file is damaged, or missing although the agent has run before.
    pub fn kept(&self) -> Result<Kept, Fault> {
        let file = self.directory.join("kept.json");
        let remedy = "remove the directory and enrol the device again, or old documents would count";
        if !file.exists() && !self.directory.join("starts").exists() {
            return Ok(Kept::default());
        }
        read(&file, remedy)
    }

    /// Writes what was taken.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_kept(&self, kept: &Kept) -> Result<(), Fault> {
        write(&self.directory.join("kept.json"), kept)
    }

    /// Counts a start. Reports of a later start have larger numbers.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn start(&self) -> Result<u64, Fault> {
        let file = self.directory.join("starts");
        let last: u64 = fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        if last == 0 && !self.directory.join("kept.json").exists() {
            self.set_kept(&Kept::default())?;
        }
        let start = last.saturating_add(1);
        replace(&file, format!("{start}\n").as_bytes())?;
        Ok(start)
    }

    /// The connection of a member.
    ///
    /// # Errors
    /// When the certificates cannot be written.
    pub fn access(&self, membership: &Membership, identity: &Identity) -> Result<Access, Fault> {
        Ok(Access {
            servers: membership.servers.clone(),
            user: identity.public().id(),
            pass: membership.pass.clone(),
            newer: Default::default(),
            secret: identity.login(),
            certificates: self.certificates(&membership.certificates)?,
        })
    }

    /// The file of certificates, if there are any.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn certificates(&self, pem: &str) -> Result<Option<PathBuf>, Fault> {
        if pem.is_empty() {
            return Ok(None);
        }
        let file = self.directory.join("certificates.pem");
        replace(&file, pem.as_bytes())?;
        Ok(Some(file))
    }

    /// The fleet's keys.
    ///
    /// # Errors
    /// When the file holds none.
    pub fn authority(&self, membership: &Membership) -> Result<Authority, Fault> {
        membership.authority.read().ok_or_else(|| {
            let file = self.directory.join("member.json");
            Fault::of_file(&file, "its authority has no sound keys", "remove it, and enrol again")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_record_is_no_new_beginning() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::of(directory.path());
        assert_eq!(state.kept().unwrap(), Kept::default());
        assert_eq!((state.start().unwrap(), state.start().unwrap()), (1, 2));
        let kept = Kept { taken: 7, ..Kept::default() }.with_message(b"sealed");
        state.set_kept(&kept).unwrap();
        assert_eq!(state.kept().unwrap(), kept);
        assert_eq!(kept.message().unwrap(), b"sealed");
        for damage in ["", "{", "{\"taken\": 1}"] {
            fs::write(directory.path().join("kept.json"), damage).unwrap();
            assert!(state.kept().unwrap_err().remedy.contains("old documents would count"));
        }
        fs::remove_file(directory.path().join("kept.json")).unwrap();
        assert!(state.kept().is_err());
    }

    #[test]
    fn stranger_is_told_to_enrol() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::of(&directory.path().join("agent"));
        assert!(state.identity(false).unwrap_err().remedy.contains("antedate agent enrol"));
        let keys = state.identity(true).unwrap().public();
        assert_eq!(state.identity(true).unwrap().public(), keys);
        assert_eq!(state.membership().unwrap(), None);
    }
}
