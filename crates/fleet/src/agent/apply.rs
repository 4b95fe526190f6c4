//! From a document to files in force.
//!
//! 1. The document is opened: signature, version, time ([`Document::open`]).
//! 2. Its version is recorded as taken. From now on no older one counts, whatever happens.
//! 3. Its files replace the old ones, each as a whole. The gateway reads them when it is told to.
//! 4. The gateway takes them over between two frames, or refuses all. If it refuses, the old files come
//!    back.
//! 5. The document is recorded as in force.
//!
//! After a crash in between, the next start finds the files of the document in force and sets them
//! right.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use antedate_host::fault::Fault;
use antedate_host::hex::hex;

use super::state::{Kept, State};
use super::{Gateway, NotTaken};
use crate::authority::Authority;
use crate::cell;
use crate::document::{Body, Document, DocumentError, Settings};
use crate::enrol::is_name;
use crate::identity::Identity;
use crate::random;

/// What became of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is the one in force.
    Unchanged,
    /// It is in force now. The sentence is the gateway's.
    Applied {
        /// Its version.
        version: u64,
        /// What the gateway says.
        said: String,
    },
    /// It was taken, and the gateway refused its files.
    Failed {
        /// Its version.
        version: u64,
        /// Why.
        why: String,
    },
    /// It was not taken.
    Refused(DocumentError),
    /// The device was revoked.
    Revoked,
}

/// The documents of a device.
#[derive(Debug)]
pub struct Desk {
    state: State,
    identity: Identity,
    authority: Authority,
    kept: Kept,
}

impl Desk {
    /// Opens the records of a device.
    ///
    /// # Errors
    /// When they are damaged.
    pub fn open(state: State, identity: Identity, authority: Authority) -> Result<Self, Fault> {
        let kept = state.kept()?;
        Ok(Self { state, identity, authority, kept })
    }

    /// The newest version taken, and the document in force.
    #[must_use]
    pub const fn kept(&self) -> &Kept {
        &self.kept
    }

    /// The agent's directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.state.directory()
    }

    /// The device's keys.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The fleet's keys.
    #[must_use]
    pub const fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The settings in force.
    fn in_force(&self) -> Option<Settings> {
        let message = self.kept.message()?;
        match Document::open_kept(&message, &self.authority, &self.identity).ok()?.body {
            Body::Settings(settings) => Some(settings),
            Body::Welcome(_) | Body::Revocation => None,
        }
    }

    /// Sets the files right after a start, as after a crash or a change by hand. True if they were
    /// not.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn restore(&self) -> Result<bool, Fault> {
        let Some(settings) = self.in_force() else { return Ok(false) };
        let directory = self.state.files();
        let is_right = |(name, text): (&String, &String)| {
            fs::read(directory.join(name)).is_ok_and(|found| found == text.as_bytes())
        };
        let was_right = settings.files.iter().all(is_right);
        // Rights too, which may be others since.
        write(&self.state, &settings, None)?;
        Ok(!was_right)
    }

    /// Considers a document at the time `now`.
    ///
    /// # Errors
    /// When records or files cannot be written. Then nothing is in force that was not before.
    pub fn consider(
        &mut self,
        message: &[u8],
        now: u64,
        gateway: &mut dyn Gateway,
    ) -> Result<Outcome, Fault> {
        if self.kept.message().as_deref() == Some(message) {
            return Ok(Outcome::Unchanged);
        }
        let document = match Document::open(message, &self.authority, &self.identity, now, self.kept.taken) {
            Ok(document) => document,
            // The one that could not be applied stays at NATS until there is a newer one.
            Err(DocumentError::Old { version, taken }) if version == taken => {
                if version == self.kept.failed || self.kept.revoked {
                    return Ok(Outcome::Unchanged);
                }
                return Ok(Outcome::Refused(DocumentError::Differs { version }));
            }
            Err(error) => return Ok(Outcome::Refused(error)),
        };
        let version = document.version;
        match document.body {
            Body::Settings(settings) => self.apply(version, &settings, message, gateway),
            Body::Revocation => self.revoke(version, gateway),
            // A welcome has its own subject.
            Body::Welcome(_) => Ok(Outcome::Refused(DocumentError::UnknownKind("welcome".into()))),
        }
    }

    fn take(&mut self, kept: Kept) -> Result<(), Fault> {
        self.state.set_kept(&kept)?;
        self.kept = kept;
        Ok(())
    }

    fn apply(
        &mut self,
        version: u64,
        settings: &Settings,
        message: &[u8],
        gateway: &mut dyn Gateway,
    ) -> Result<Outcome, Fault> {
        self.take(Kept { taken: version, failed: version, ..self.kept.clone() })?;
        if let Some(name) = settings.files.keys().find(|name| !is_name(name)) {
            return Ok(Outcome::Failed { version, why: format!("\"{name}\" is not the name of a file") });
        }
        let directory = self.state.files();
        let before = self.in_force();
        let written = write(&self.state, settings, before.as_ref());
        let taken = match written {
            Ok(()) => gateway.reload(&directory),
            Err(fault) => Err(NotTaken(format!("{fault:#}"))),
        };
        match taken {
            Ok(said) => {
                let kept = Kept { settings: version, failed: 0, ..self.kept.clone() };
                if let Err(fault) = self.take(kept.with_message(message)) {
                    // What no record names would be gone after the next start.
                    put_back(&self.state, before.as_ref(), settings, gateway)?;
                    return Err(fault);
                }
                Ok(Outcome::Applied { version, said })
            }
            Err(NotTaken(why)) => {
                put_back(&self.state, before.as_ref(), settings, gateway)?;
                Ok(Outcome::Failed { version, why })
            }
        }
    }

    /// Forgets the keys of the cell. A gateway goes on with a key that nobody else has, so that it
    /// neither passes frames in the clear nor speaks to its old partners.
    fn revoke(&mut self, version: u64, gateway: &mut dyn Gateway) -> Result<Outcome, Fault> {
        self.take(Kept { taken: version, revoked: true, ..Kept::default() })?;
        let directory = self.state.files();
        let mut files = BTreeMap::new();
        if let Ok(entries) = fs::read_dir(&directory) {
            for entry in entries.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let mut key = [0; 48];
                if name == cell::FILE && random(&mut key).is_ok() {
                    let (cak, ckn) = key.split_at(32);
                    files.insert(name, format!("mka_cak={}\nmka_ckn={}\n", hex(cak), hex(ckn)));
                } else if !name.ends_with(".toml") {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
        write(&self.state, &Settings { files }, None)?;
        let _ = gateway.reload(&directory);
        Ok(Outcome::Revoked)
    }
}

/// Brings the files of `before` back in place of `settings`.
fn put_back(
    state: &State,
    before: Option<&Settings>,
    settings: &Settings,
    gateway: &mut dyn Gateway,
) -> Result<(), Fault> {
    if let Some(before) = before {
        write(state, before, Some(settings))?;
        // The gateway goes on with what it has. This makes its files those again.
        let _ = gateway.reload(&state.files());
    }
    Ok(())
}

/// Writes files, and removes those of `before` that are gone.
fn write(state: &State, settings: &Settings, before: Option<&Settings>) -> Result<(), Fault> {
    for (name, text) in &settings.files {
        state.write_file(name, text)?;
    }
    for name in before.iter().flat_map(|before| before.files.keys()) {
        if !settings.files.contains_key(name) && is_name(name) {
            let file = state.files().join(name);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Fault::of_io(&file, "remove the file", &error, "run as its owner"));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
