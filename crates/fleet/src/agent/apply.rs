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
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::state::{Kept, State};
use super::{Gateway, NotTaken};
use crate::authority::Authority;
use crate::bearer::{dtls, overlay};
use crate::cell;
use crate::document::{Body, Document, DocumentError, Settings};
use crate::enrol::is_name;
use crate::identity::Identity;
use crate::login;
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
    /// The time of the keys in force is over, and they are forgotten.
    ended: bool,
    /// As `ended`, as far as programs that run have other keys.
    is_estranged: bool,
    /// Keys that nobody has, by file.
    strange: BTreeMap<String, String>,
    /// The keys of a revoked device are gone.
    is_cleared: bool,
}

impl Desk {
    /// Opens the records of a device.
    ///
    /// # Errors
    /// When they are damaged.
    pub fn open(state: State, identity: Identity, authority: Authority) -> Result<Self, Fault> {
        let kept = state.kept()?;
        let (ended, is_estranged, is_cleared) = (false, false, false);
        Ok(Self {
            state,
            identity,
            authority,
            kept,
            ended,
            is_estranged,
            strange: BTreeMap::new(),
            is_cleared,
        })
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

    /// Whether the time of the keys in force is over.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// The newest pass for NATS that came with settings, in force or not, or empty.
    #[must_use]
    pub fn pass(&self) -> String {
        let kept = self.state.membership().ok().flatten().map(|member| member.pass).unwrap_or_default();
        let in_force = self.in_force().map(|settings| settings.pass).unwrap_or_default();
        let is_newer = login::validity(&in_force).1 > login::validity(&kept).1;
        // The record may be older, as when the disk was full.
        if kept.is_empty() || is_newer { in_force } else { kept }
    }

    /// Forgets the keys in force when their time is over. The sealed document stays, so that a clock that
    /// was wrong brings them back at the next start. True if they went now.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn expire(&mut self, now: u64, gateway: &mut dyn Gateway) -> Result<bool, Fault> {
        let until = self.in_force().map_or(0, |settings| settings.until);
        if until == 0 || now < until || self.ended {
            return Ok(false);
        }
        if !self.is_estranged {
            self.estrange(gateway)?;
            self.is_estranged = true;
        }
        self.clear()?;
        (self.ended, self.is_estranged) = (true, false);
        Ok(true)
    }

    /// Sets the files right after a start, as after a crash or a change by hand. True if they were
    /// not.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn restore(&self) -> Result<bool, Fault> {
        let Some(settings) = self.in_force() else { return Ok(false) };
        if settings.until != 0 && crate::now() >= settings.until {
            // Forgotten, and not brought back.
            return Ok(false);
        }
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
                if version == self.kept.failed || self.kept.revoked || self.kept.revoking {
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
                (self.ended, self.is_estranged) = (false, false);
                self.strange.clear();
                let said = said + &self.renew_access(settings);
                let kept = Kept { settings: version, failed: 0, ..self.kept.clone() };
                if let Err(fault) = self.take(kept.with_message(message)) {
                    // What no record names would be gone after the next start.
                    put_back(&self.state, before.as_ref(), settings, gateway)?;
                    return Err(fault);
                }
                Ok(Outcome::Applied { version, said })
            }
            Err(NotTaken(why)) => {
                // The pass is good, whatever the files are.
                let why = why + &self.renew_access(settings);
                put_back(&self.state, before.as_ref(), settings, gateway)?;
                Ok(Outcome::Failed { version, why })
            }
        }
    }

    /// Keeps the pass and the certificates that came with settings. Without the pass the present one
    /// counts until its end, and the next document brings another. Says what went wrong.
    fn renew_access(&self, settings: &Settings) -> String {
        match self.state.renew(&settings.pass, &settings.certificates) {
            Ok(()) => String::new(),
            Err(fault) => format!("; the newer pass or the certificates for NATS are not kept: {fault:#}"),
        }
    }

    /// First the record, so that no start brings the keys back; and then they go. What could not be
    /// forgotten is tried again by [`Desk::finish`].
    fn revoke(&mut self, version: u64, gateway: &mut dyn Gateway) -> Result<Outcome, Fault> {
        self.take(Kept { taken: version, revoking: true, ..Kept::default() })?;
        self.finish(gateway)?;
        Ok(Outcome::Revoked)
    }

    /// Forgets the keys of a revoked device as far as that is not done yet: other keys for what runs,
    /// the record, and then what a program reads at its start alone. Called at each look, so that neither
    /// a full disk, a gateway that refuses, nor a power cut ends it half-way. True if it is done now.
    ///
    /// # Errors
    /// When a file cannot be written, or the gateway refuses its new ones.
    pub fn finish(&mut self, gateway: &mut dyn Gateway) -> Result<bool, Fault> {
        if self.kept.revoking {
            self.estrange(gateway)?;
            self.take(Kept { revoked: true, revoking: false, ..self.kept.clone() })?;
        }
        if !self.kept.revoked || self.is_cleared {
            return Ok(false);
        }
        self.clear()?;
        self.is_cleared = true;
        Ok(true)
    }

    /// Whether the device was revoked, and all its keys are gone.
    #[must_use]
    pub const fn is_revoked(&self) -> bool {
        self.kept.revoked && self.is_cleared
    }

    /// The names of the files in force, of whichever document.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.state.files()).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Programs that run go on with keys that nobody else has, so that they neither pass traffic in the
    /// clear nor speak to their old partners.
    fn estrange(&mut self, gateway: &mut dyn Gateway) -> Result<(), Fault> {
        for name in self.names() {
            // One key for each, however often this is tried.
            if !self.strange.contains_key(&name)
                && let Some(text) = stranger(&name)
            {
                self.strange.insert(name, text);
            }
        }
        write(&self.state, &Settings { files: self.strange.clone(), ..Settings::default() }, None)?;
        let directory = self.state.files();
        gateway.reload(&directory).map(drop).map_err(|NotTaken(why)| {
            let what = format!("the gateway refuses its new files, and goes on with its keys: {why}");
            Fault::of_file(&directory, what, "it is asked again by itself; or stop the gateway")
        })
    }

    /// Removes what a program reads at its start alone. A gateway that runs would refuse to be without it,
    /// so this comes last.
    fn clear(&self) -> Result<(), Fault> {
        for name in self.names() {
            if name.ends_with(".toml") || is_strangers(&name) {
                continue;
            }
            let file = self.state.files().join(name);
            // A gateway of the same user may have its state and its socket here.
            if !fs::symlink_metadata(&file).is_ok_and(|about| about.is_file()) {
                continue;
            }
            fs::remove_file(&file).map_err(|error| {
                Fault::of_io(&file, "remove the file", &error, "run as the owner of the agent's directory")
            })?;
        }
        Ok(())
    }
}

/// Whether a program that runs reads a file of this name again.
fn is_strangers(name: &str) -> bool {
    name == cell::FILE || name == dtls::FILE || name.starts_with(overlay::PRESHARED)
}

/// The content of a key file with a key that nobody has. `None` for files of other names.
fn stranger(name: &str) -> Option<String> {
    let mut key = [0; 48];
    random(&mut key).ok()?;
    let (key, ckn) = key.split_at(32);
    if name == cell::FILE {
        Some(format!("mka_cak={}\nmka_ckn={}\n", hex(key), hex(ckn)))
    } else if name == dtls::FILE {
        Some(format!("revoked:{}\n", hex(key)))
    } else if name.starts_with(overlay::PRESHARED) {
        Some(format!("{}\n", STANDARD.encode(key)))
    } else {
        None
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
