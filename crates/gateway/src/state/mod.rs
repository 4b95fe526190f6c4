//! Packet numbers that survive a restart, a crash and a power cut.
//!
//! A nonce is spent once (IEEE 802.1AE-2018, 10.5 and 14.5): the file says, for each key, the first packet number that
//! was certainly never used. It is raised ahead of use, and numbers below it are used only once the raised number is on
//! the medium. A clean stop writes the exact next number; after a crash the rest of the reservation is lost, never used
//! again.
//!
//! A key is known by a digest of the SAK alone. Thus another AN, SCI or SSCI does not begin a key again at 1; another
//! salt under a known key would, by chance, meet a used nonce, and is refused.
//!
//! A missing or damaged file is not a new beginning: only [`StateFile::create`] makes one, and only where none is.
//!
//! For receiving, the file says the lowest acceptable packet number (10.6.2), so that a recording of what was received
//! before a restart is refused after it. It is written about every second: what was received in the last second before a
//! crash could be replayed after it.
//!
//! The file must not come back from a backup or a snapshot of the machine: numbers would be used again.

mod disk;
mod record;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use antedate_wire::Sci;
use antedate_wire::macsec::An;

pub use disk::{Directory, Disk};
use record::{Fingerprint, Received, Records, Transmitted, Unreadable};

use crate::fault::{Fault, MORE_FILES, explain};
use crate::keys::Association;

/// The state file of a directory, which no other process can open meanwhile.
#[derive(Debug)]
pub struct StateFile<D: Disk = Directory> {
    path: PathBuf,
    disk: D,
    records: Records,
    /// The records as they were opened: no stop writes a number below them.
    opened: Records,
}

/// A key as far as packet numbers are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId {
    sak: Fingerprint,
    salt: Option<Fingerprint>,
    an: An,
}

impl KeyId {
    /// What the state file knows this association's key by.
    #[must_use]
    pub fn of(association: &Association) -> Self {
        Self {
            sak: Fingerprint::of("antedate SAK", association.key.as_bytes()),
            salt: association.salt.map(|salt| Fingerprint::of("antedate salt", &salt)),
            an: association.an,
        }
    }

    /// What the state file knows a key of another channel by. The kind keeps the keys of channels apart.
    #[must_use]
    pub fn of_key(kind: &str, key: &[u8]) -> Self {
        Self { sak: Fingerprint::of(kind, key), salt: None, an: An::default() }
    }
}

/// Why packet numbers cannot be reserved.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct StateError {
    /// The directory or the file that is at fault.
    pub path: PathBuf,
    /// What is wrong with it.
    pub kind: StateFault,
}

/// What is wrong with a state directory or file.
#[derive(Debug, thiserror::Error)]
pub enum StateFault {
    /// There is no directory.
    #[error("there is no such directory")]
    NoDirectory,
    /// It is something else.
    #[error("is not a directory")]
    NotDirectory,
    /// Others could put another state file there.
    #[error("others than its owner can write to this directory (mode {mode:04o})")]
    OpenToOthers {
        /// The directory's mode.
        mode: u32,
    },
    /// Another daemon uses it.
    #[error("another process holds this state directory")]
    InUse,
    /// There is no file.
    #[error("there is no state file, so nobody knows which packet numbers were used")]
    Missing,
    /// There is one already.
    #[error("there is a state file already")]
    Exists,
    /// It is not as it was written.
    #[error("the state file is damaged, so nobody knows which packet numbers were used")]
    Corrupt,
    /// Another version wrote it.
    #[error("the state file has a format that this version does not know")]
    Version,
    /// It has more records than it may.
    #[error("the state file is full")]
    Full,
    /// A key was used with another salt.
    #[error("the key of AN {an} was used with another salt before, so nonces could meet")]
    OtherSalt {
        /// The association.
        an: An,
    },
    /// Every number was used.
    #[error("no association has packet numbers left")]
    Exhausted,
    /// The system refused.
    #[error("cannot {doing}: {}", explain(error))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl StateError {
    fn new(path: &Path, kind: StateFault) -> Self {
        Self { path: path.to_owned(), kind }
    }

    fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::new(path, StateFault::Io { doing, error })
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        let path = self.path.display();
        let renew = "make new keys with `antedate keygen macsec`, give them to all members";
        match &self.kind {
            StateFault::NoDirectory | StateFault::Missing => {
                "antedate gateway init FILE creates it, only for keys that were never used before".to_owned()
            }
            StateFault::NotDirectory => "name a directory".to_owned(),
            StateFault::OpenToOthers { .. } => format!("chmod 700 {path}"),
            StateFault::InUse => {
                "stop the other gateway; only one with another SCI (macsec.sci) may have a directory of its own".to_owned()
            }
            StateFault::Exists => {
                "nothing to do: the gateway goes on where it stopped, and unknown keys begin at 1".to_owned()
            }
            StateFault::Corrupt => format!("{renew}, then remove {path} and call antedate gateway init FILE"),
            StateFault::Version => "use the version of antedate that wrote it, or a later one".to_owned(),
            StateFault::Full => format!("{renew}, then remove {path} and call antedate gateway init FILE"),
            StateFault::OtherSalt { .. } | StateFault::Exhausted => renew.to_owned(),
            StateFault::Io { error, .. } => match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "make room on its medium".to_owned()
                }
                _ if error.raw_os_error() == Some(libc::EMFILE) => MORE_FILES.to_owned(),
                // Who took another directory would call init there.
                _ => "make it writable for the user that runs this; in another directory keys that were used would begin at 1 again"
                    .to_owned(),
            },
        }
    }

    /// The same as a fault of the place `at`, whose file and line name the directory.
    #[must_use]
    pub fn into_fault(self, at: Fault) -> Fault {
        let what = if at.file == self.path { self.kind.to_string() } else { self.to_string() };
        Fault { what, remedy: self.remedy(), ..at }
    }
}

/// Whether a daemon could use this directory. Changes nothing, and does not mind that a daemon is using it.
///
/// # Errors
/// What [`StateFile::open`] would give, apart from the lock.
pub fn inspect(directory: &Path) -> Result<(), StateError> {
    usable(directory)?;
    let file = directory.join(disk::NAME);
    let bytes = disk::read_in(directory).map_err(StateError::io(&file, "read the state file"))?;
    believed(&file, bytes)?;
    let probe = directory.join(format!(".probe-{}", std::process::id()));
    let written = fs::OpenOptions::new().write(true).create_new(true).open(&probe);
    // A probe that cannot be removed again is as harmless as one that could not be written.
    let removed = fs::remove_file(&probe);
    written.and(removed).map_err(StateError::io(directory, "write to the directory"))
}

impl StateFile<Directory> {
    /// Takes the state file of a directory and keeps other processes from it.
    ///
    /// # Errors
    /// When there is none, it is damaged, or another process has it.
    pub fn open(directory: &Path) -> Result<Self, StateError> {
        usable(directory)?;
        Self::on(&directory.join(disk::NAME), lock(directory)?)
    }

    /// Makes an empty state file, and its directory if that is missing. Every key is unknown to it, so it is right only
    /// for keys that were never used.
    ///
    /// # Errors
    /// When there is a state file already, or it cannot be written.
    pub fn create(directory: &Path) -> Result<Self, StateError> {
        if !directory.exists() {
            let create = || {
                if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                    fs::create_dir_all(parent)?;
                }
                DirBuilder::new().mode(0o700).create(directory)
            };
            create().map_err(StateError::io(directory, "make the directory"))?;
        }
        usable(directory)?;
        let path = directory.join(disk::NAME);
        let disk = lock(directory)?;
        if disk.read().map_err(StateError::io(&path, "read the state file"))?.is_some() {
            return Err(StateError::new(&path, StateFault::Exists));
        }
        let mut state = Self { path, disk, records: Records::default(), opened: Records::default() };
        state.save(Records::default())?;
        Ok(state)
    }
}

impl<D: Disk> StateFile<D> {
    /// Takes the state file of a disk. `path` names it in errors.
    ///
    /// # Errors
    /// When there is none or it is damaged.
    pub fn on(path: &Path, disk: D) -> Result<Self, StateError> {
        let bytes = disk.read().map_err(StateError::io(path, "read the state file"))?;
        let records = believed(path, bytes)?;
        Ok(Self { path: path.to_owned(), disk, opened: records.clone(), records })
    }

    /// The first packet number of a key that was certainly never used: 1 for an unknown key.
    ///
    /// # Errors
    /// When the key was used with another salt.
    pub fn next(&self, key: &KeyId) -> Result<u64, StateError> {
        match self.records.transmitted.get(&key.sak) {
            None => Ok(1),
            Some(known) if known.salt == key.salt => Ok(known.next),
            Some(_) => Err(StateError::new(&self.path, StateFault::OtherSalt { an: key.an })),
        }
    }

    /// The lowest acceptable packet number of a channel: 1 for an unknown one.
    #[must_use]
    pub fn lowest(&self, key: &KeyId, sci: Sci) -> u64 {
        self.records.received.get(&(key.sak, sci)).map_or(1, |known| known.lowest)
    }

    /// Makes durable that all packet numbers below these limits may have been used. A limit below the known one
    /// changes nothing.
    ///
    /// # Errors
    /// When it did not become durable: then only what was reserved before may be used.
    pub fn reserve(&mut self, limits: &[(KeyId, u64)]) -> Result<(), StateError> {
        let mut records = self.records.clone();
        for (key, limit) in limits {
            let next = self.next(key)?.max(*limit);
            if !records.transmitted.contains_key(&key.sak) {
                self.room(&records)?;
            }
            records.transmitted.insert(key.sak, Transmitted { salt: key.salt, an: key.an, next });
        }
        self.save(records)
    }

    /// Makes durable what was received. A number below the known one changes nothing.
    ///
    /// # Errors
    /// When it did not become durable.
    pub fn received(&mut self, lowest: &[(KeyId, Sci, u64)]) -> Result<(), StateError> {
        let mut records = self.records.clone();
        self.note(&mut records, lowest)?;
        self.save(records)
    }

    /// As [`received`](Self::received), with `act` at the last moment before it counts: the new state is on the medium then, and
    /// only gets its name afterwards. A process that is killed has thus done both or neither, but for the time between the two.
    ///
    /// # Errors
    /// When it did not become durable, or `act` failed: then nothing counts as received.
    pub fn received_with(
        &mut self,
        lowest: &[(KeyId, Sci, u64)],
        act: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), StateError> {
        let mut records = self.records.clone();
        self.note(&mut records, lowest)?;
        self.save_around(records, act)
    }

    /// Forgets what was received under these keys, which nobody has any more.
    ///
    /// # Errors
    /// When it did not become durable.
    pub fn forget_received(&mut self, keys: &[KeyId]) -> Result<(), StateError> {
        let mut records = self.records.clone();
        records.received.retain(|(sak, _), _| !keys.iter().any(|key| key.sak == *sak));
        if records == self.records { Ok(()) } else { self.save(records) }
    }

    /// Forgets what was transmitted with these keys, and in the same write remembers a bound, kept as one of
    /// [`received`](Self::received), by which the caller knows that nobody may transmit with them again. Of keys that are not known
    /// nothing is written.
    ///
    /// # Errors
    /// When it did not become durable: then the keys are still known.
    pub fn forget_transmitted(
        &mut self,
        keys: &[KeyId],
        (bound, sci, lowest): (KeyId, Sci, u64),
    ) -> Result<(), StateError> {
        let mut records = self.records.clone();
        records.transmitted.retain(|sak, _| !keys.iter().any(|key| key.sak == *sak));
        if records.transmitted.len() == self.records.transmitted.len() {
            return Ok(());
        }
        // It takes the place of one that goes: a full file has room for it.
        let lowest = self.lowest(&bound, sci).max(lowest);
        records.received.insert((bound.sak, sci), Received { an: bound.an, lowest });
        self.save(records)
    }

    /// The clean stop: writes the exact next packet numbers, so that no number is lost. Nothing can be reserved any
    /// more, so nothing can be sent.
    ///
    /// # Errors
    /// When it did not become durable. The reservations hold then, and numbers are lost, not used twice.
    pub fn close(mut self, next: &[(KeyId, u64)], lowest: &[(KeyId, Sci, u64)]) -> Result<(), StateError> {
        let mut records = self.records.clone();
        for (key, one) in next {
            // Whoever used a key twice has used what the one that is further on has.
            let same = next.iter().filter(|(other, _)| other.sak == key.sak);
            let next = same.map(|(_, next)| next).max().unwrap_or(one);
            // Never more than was reserved, for it was never given out; never less than at the start, for those are used.
            let opened = self.opened.transmitted.get(&key.sak).map_or(1, |known| known.next);
            let next = self.next(key)?.min(*next).max(opened);
            records.transmitted.insert(key.sak, Transmitted { salt: key.salt, an: key.an, next });
        }
        self.note(&mut records, lowest)?;
        self.save(records)
    }

    pub(crate) fn error(&self, kind: StateFault) -> StateError {
        StateError::new(&self.path, kind)
    }

    fn note(&self, records: &mut Records, lowest: &[(KeyId, Sci, u64)]) -> Result<(), StateError> {
        for (key, sci, lowest) in lowest {
            let lowest = self.lowest(key, *sci).max(*lowest);
            if !records.received.contains_key(&(key.sak, *sci)) && records.is_full_of_received() {
                return Err(self.error(StateFault::Full));
            }
            records.received.insert((key.sak, *sci), Received { an: key.an, lowest });
        }
        Ok(())
    }

    fn room(&self, records: &Records) -> Result<(), StateError> {
        if records.is_full() { Err(StateError::new(&self.path, StateFault::Full)) } else { Ok(()) }
    }

    fn save(&mut self, records: Records) -> Result<(), StateError> {
        self.save_around(records, || Ok(()))
    }

    fn save_around(
        &mut self,
        records: Records,
        act: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), StateError> {
        let path = &self.path;
        self.disk.write_new(&records.to_bytes()).map_err(StateError::io(path, "write the state file"))?;
        self.disk.sync_new().map_err(StateError::io(path, "make the state file durable"))?;
        act().map_err(StateError::io(path, "pass on what was received"))?;
        self.disk.replace().map_err(StateError::io(path, "replace the state file"))?;
        self.disk.sync_directory().map_err(StateError::io(path, "make the state file durable"))?;
        self.records = records;
        Ok(())
    }
}

fn usable(directory: &Path) -> Result<(), StateError> {
    let about = fs::metadata(directory).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => StateError::new(directory, StateFault::NoDirectory),
        _ => StateError::new(directory, StateFault::Io { doing: "look at the directory", error }),
    })?;
    if !about.is_dir() {
        return Err(StateError::new(directory, StateFault::NotDirectory));
    }
    if about.mode() & 0o022 != 0 {
        return Err(StateError::new(directory, StateFault::OpenToOthers { mode: about.mode() & 0o7777 }));
    }
    Ok(())
}

/// How often, and how long apart, a directory is asked for that another process has: one that was killed just now still ends.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

fn lock(directory: &Path) -> Result<Directory, StateError> {
    let mut left = TRIES;
    loop {
        match Directory::lock(directory) {
            Ok(locked) => return Ok(locked),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                return Err(StateError::new(
                    directory,
                    StateFault::Io { doing: "lock the directory", error },
                ));
            }
            Err(_) if left == 0 => return Err(StateError::new(directory, StateFault::InUse)),
            Err(_) => {
                left -= 1;
                thread::sleep(PAUSE);
            }
        }
    }
}

fn believed(path: &Path, bytes: Option<Vec<u8>>) -> Result<Records, StateError> {
    let bytes = bytes.ok_or_else(|| StateError::new(path, StateFault::Missing))?;
    Records::parse(&bytes).map_err(|unreadable| {
        StateError::new(
            path,
            match unreadable {
                Unreadable::Corrupt => StateFault::Corrupt,
                Unreadable::Version => StateFault::Version,
            },
        )
    })
}

#[cfg(test)]
mod tests;
