//! Nonce numbers that survive a restart, a crash and a power cut.
//!
//! A nonce is used once (IEEE 802.1AE-2018, 10.5 and 14.5; RFC 5116, 3.1). For each key the state
//! file holds a number such that it and all higher ones were never used. A [`Reservation`] raises
//! it in advance; the numbers below it are used only when the raised number is durable. A clean
//! stop writes the exact next number. After a crash the rest of the reservation is lost, never used
//! again.
//!
//! A [`KeyId`] is a digest of kind and key only, so another label (an association number) or place
//! (an SCI) does not restart a key at 1. Another salt with a known key could repeat a nonce by
//! chance, and is refused.
//!
//! A missing or damaged file is an error. Only [`NumberFile::create`] makes one, and only where
//! there is none.
//!
//! The file also holds lower bounds, which only rise: for a key and a [`Place`], the lowest number
//! that is still acceptable (10.6.2), so that a recording from before a restart is refused.
//!
//! The directory and the file are compared with those last seen before each write, so that a
//! directory that was moved, or a file that was exchanged, is noticed before the next reservation.
//! A [`KeyLock`] keeps a second process of this machine from sending with the same key, whatever
//! its directory.
//!
//! A file names itself and its machine, so that a copy, or what came back from a backup,
//! is refused at opening. A directory in memory is [refused too](permit_volatile). A snapshot of
//! the whole machine must never be restored: numbers would be used again. Where the hypervisor tells,
//! [`NumberFile::check_machine`] refuses to go on from one.

mod disk;
mod error;
mod home;
mod lock;
#[cfg(any(test, feature = "power-cuts"))]
pub mod medium;
#[cfg(any(test, feature = "power-cuts"))]
pub mod model;
mod record;
mod reservation;
mod volatile;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

pub use disk::{Directory, Disk, NAME, Stored};
pub use error::{NumbersError, NumbersErrorKind};
use home::Home;
pub use home::Origin;
pub use lock::KeyLock;
use record::{Fingerprint, Received, Records, RecordsError, Transmitted};
pub use reservation::Reservation;
pub use volatile::{VOLATILE, permit as permit_volatile};

use crate::hex::parse_hex;

/// The state file of a directory, locked against other processes.
#[derive(Debug)]
pub struct NumberFile<D: Disk = Directory> {
    path: PathBuf,
    disk: D,
    records: Records,
    /// The records at opening. No stop writes a lower number.
    opened: Records,
    /// The contents that the file may have: the last one read or written, and one whose renaming
    /// failed. `None`: no file.
    contents: Vec<Option<Fingerprint>>,
    /// The machine went on from a snapshot: no number is used any more.
    cloned: bool,
}

/// What a file is believed of where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// It must be the file that was written last.
    Last,
    /// The operator says that it is the last one, moved.
    Moved,
}

/// The identity of a key in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId {
    key: Fingerprint,
    salt: Option<Fingerprint>,
    label: u8,
}

impl KeyId {
    /// The identity of a key. The kind separates keys of different uses.
    #[must_use]
    pub fn new(kind: &str, key: &[u8]) -> Self {
        Self { key: Fingerprint::of(kind, key), salt: None, label: 0 }
    }

    /// The digest that stands for the key.
    #[must_use]
    pub const fn digest(&self) -> [u8; 16] {
        self.key.0
    }

    /// The same key with a salt in its nonces.
    #[must_use]
    pub fn with_salt(self, kind: &str, salt: &[u8]) -> Self {
        Self { salt: Some(Fingerprint::of(kind, salt)), ..self }
    }

    /// The same key with a label for people, 0 to 3: an association number.
    #[must_use]
    pub fn with_label(self, label: u8) -> Self {
        Self { label, ..self }
    }
}

/// A source of numbers with a key: an SCI, or eight octets of the digest of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub [u8; 8]);

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let mut octets = [0; 8];
        parse_hex(text, &mut octets).then_some(Self(octets))
    }
}

/// The lowest acceptable number of a place with a key. It never falls.
pub type Bound = (KeyId, Place, u64);

/// Checks whether a daemon could use this directory. Changes nothing; another process may hold the
/// lock.
///
/// # Errors
/// Those of [`NumberFile::open`], apart from the lock.
pub fn inspect(directory: &Path) -> Result<(), NumbersError> {
    usable(directory)?;
    let file = directory.join(NAME);
    let read = || disk::read_in(directory).map_err(NumbersError::io(&file, "read the state file"));
    let records = believed(&file, read()?.as_ref())?;
    if let Some(home) = records.home {
        // Before the file, which a running process may replace meanwhile.
        let witnessed = home::Witness::of(&home.state).writes();
        let stored = read()?;
        let records = believed(&file, stored.as_ref())?;
        let found = stored.map(|stored| stored.origin).unwrap_or_default();
        let home = records.home.unwrap_or(home);
        home.check(&found, witnessed, Trust::Last).map_err(|kind| NumbersError::new(&file, kind))?;
    }
    let len = records.to_bytes().len();
    let probe = directory.join(format!(".probe-{}", std::process::id()));
    // A full medium still makes an empty file.
    let write = || {
        let mut open = fs::OpenOptions::new().write(true).create_new(true).open(&probe)?;
        open.write_all(&vec![0; PROBE.max(len)])?;
        open.sync_all()
    };
    let written = write();
    // A probe that cannot be removed is a fault like one that cannot be written.
    let removed = fs::remove_file(&probe);
    written.and(removed).map(drop).map_err(NumbersError::io(directory, "write to the directory"))
}

impl NumberFile<Directory> {
    /// Locks a directory and opens its file.
    ///
    /// # Errors
    /// When the file is missing or damaged, or another process has the directory.
    pub fn open(directory: &Path) -> Result<Self, NumbersError> {
        usable(directory)?;
        Self::on(&directory.join(NAME), lock(directory)?)
    }

    /// Makes a file at home in its directory and machine that was moved there. Safe only if it is the
    /// last one of its state, and no copy of it was used since.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), or when this machine has written a later one.
    pub fn settle(directory: &Path) -> Result<Self, NumbersError> {
        usable(directory)?;
        let mut state = Self::trusted(&directory.join(NAME), lock(directory)?, Trust::Moved)?;
        state.save(state.records.clone())?;
        Ok(state)
    }

    /// Creates an empty file, and its directory if missing. It knows no key, so it is safe only
    /// with keys that were never used.
    ///
    /// # Errors
    /// When the directory already has a file, or cannot be written.
    pub fn create(directory: &Path) -> Result<Self, NumbersError> {
        volatile::make(directory)?;
        usable(directory)?;
        let path = directory.join(NAME);
        let disk = lock(directory)?;
        if disk.read().map_err(NumbersError::io(&path, "read the state file"))?.is_some() {
            return Err(NumbersError::new(&path, NumbersErrorKind::Exists));
        }
        let contents = vec![None];
        let mut state = Self {
            path,
            disk,
            records: Records::default(),
            opened: Records::default(),
            contents,
            cloned: false,
        };
        state.save(Records::default())?;
        Ok(state)
    }
}

impl<D: Disk> NumberFile<D> {
    /// Reads the file of a disk. `path` is for errors.
    ///
    /// # Errors
    /// When the file is missing or damaged.
    pub fn on(path: &Path, disk: D) -> Result<Self, NumbersError> {
        Self::trusted(path, disk, Trust::Last)
    }

    fn trusted(path: &Path, mut disk: D, trust: Trust) -> Result<Self, NumbersError> {
        let stored = disk.read().map_err(NumbersError::io(path, "read the state file"))?;
        let records = believed(path, stored.as_ref())?;
        if let (Some(home), Some(stored)) = (&records.home, &stored) {
            let witnessed = disk.witnessed(&home.state);
            home.check(&stored.origin, witnessed, trust).map_err(|kind| NumbersError::new(path, kind))?;
        }
        let contents = vec![stored.as_ref().map(content)];
        Ok(Self { path: path.to_owned(), disk, opened: records.clone(), records, contents, cloned: false })
    }

    /// Refuses a machine that went on from a snapshot since the file was opened: what was sent after
    /// the snapshot is unknown here. All numbers of all keys are recorded as used, so that the next
    /// start refuses the keys too.
    ///
    /// # Errors
    /// [`NumbersErrorKind::Cloned`], or when the record did not become durable.
    pub fn check_machine(&mut self) -> Result<(), NumbersError> {
        if self.disk.is_cloned() && !self.cloned {
            let mut records = self.records.clone();
            records.transmitted.values_mut().for_each(|known| known.next = u64::MAX);
            self.save(records)?;
            self.cloned = true;
        }
        if self.cloned { Err(self.error(NumbersErrorKind::Cloned)) } else { Ok(()) }
    }

    /// The first number of a key that was never used: 1 for an unknown key.
    ///
    /// # Errors
    /// When the key was used with another salt.
    pub fn next(&self, key: &KeyId) -> Result<u64, NumbersError> {
        match self.records.transmitted.get(&key.key) {
            None => Ok(1),
            Some(known) if known.salt == key.salt => Ok(known.next),
            Some(_) => Err(NumbersError::new(&self.path, NumbersErrorKind::OtherSalt { label: key.label })),
        }
    }

    /// The bound of a place with a key: 1 if unknown.
    #[must_use]
    pub fn bound(&self, key: &KeyId, place: Place) -> u64 {
        self.records.received.get(&(key.key, place)).map_or(1, |known| known.lowest)
    }

    /// Records durably that all numbers below these limits may have been used. A limit never falls.
    ///
    /// # Errors
    /// When the write did not become durable. The old reservations remain in force.
    pub fn reserve(&mut self, limits: &[(KeyId, u64)]) -> Result<(), NumbersError> {
        let mut records = self.records.clone();
        for (key, limit) in limits {
            // Of two limits of one key, the higher one counts.
            let known = records.transmitted.get(&key.key).map_or(1, |known| known.next);
            let next = self.next(key)?.max(known).max(*limit);
            if !records.transmitted.contains_key(&key.key) {
                self.room(&records)?;
            }
            records.transmitted.insert(key.key, Transmitted { salt: key.salt, label: key.label, next });
        }
        self.save(records)
    }

    /// Raises bounds durably. A bound never falls.
    ///
    /// # Errors
    /// When the write did not become durable.
    pub fn raise(&mut self, bounds: &[Bound]) -> Result<(), NumbersError> {
        let mut records = self.records.clone();
        self.note(&mut records, bounds)?;
        self.save(records)
    }

    /// As [`raise`](Self::raise), with `act` between writing the new file and renaming it. A killed
    /// process has done both or neither, unless killed between the two.
    ///
    /// # Errors
    /// When the write did not become durable, or `act` failed. The old bounds remain in force.
    pub fn raise_with(
        &mut self,
        bounds: &[Bound],
        act: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), NumbersError> {
        let mut records = self.records.clone();
        self.note(&mut records, bounds)?;
        self.save_around(records, act)
    }

    /// The bounds: the key's digest, the place, the lowest acceptable number.
    pub fn bounds(&self) -> impl Iterator<Item = ([u8; 16], Place, u64)> {
        self.records.received.iter().map(|((key, place), known)| (key.0, *place, known.lowest))
    }

    /// Removes bounds that are kept elsewhere from now on, and in the same write raises the one that
    /// says so.
    ///
    /// # Errors
    /// When the write did not become durable. The bounds are still here then.
    pub fn move_bounds(&mut self, moved: impl Fn(Place) -> bool, mark: Bound) -> Result<(), NumbersError> {
        let mut records = self.records.clone();
        records.received.retain(|(_, place), _| !moved(*place));
        self.note(&mut records, &[mark])?;
        self.save(records)
    }

    /// Removes the bounds of these keys.
    ///
    /// # Errors
    /// When the write did not become durable.
    pub fn forget_bounds(&mut self, keys: &[KeyId]) -> Result<(), NumbersError> {
        let mut records = self.records.clone();
        records.received.retain(|(known, _), _| !keys.iter().any(|key| key.key == *known));
        if records == self.records { Ok(()) } else { self.save(records) }
    }

    /// Removes the numbers of these keys, and in the same write raises the bound by which the
    /// caller refuses the keys from then on. Writes nothing if none of the keys is known.
    ///
    /// # Errors
    /// When the write did not become durable. The keys are still known then.
    pub fn forget_numbers(
        &mut self,
        keys: &[KeyId],
        (bound, place, lowest): Bound,
    ) -> Result<(), NumbersError> {
        let mut records = self.records.clone();
        records.transmitted.retain(|known, _| !keys.iter().any(|key| key.key == *known));
        if records.transmitted.len() == self.records.transmitted.len() {
            return Ok(());
        }
        // The bound replaces a removed key, so it fits into a full file.
        let lowest = self.bound(&bound, place).max(lowest);
        records.received.insert((bound.key, place), Received { label: bound.label, lowest });
        self.save(records)
    }

    /// Stops cleanly: writes the exact next numbers, so that none is lost. Consumes the file, so
    /// nothing can be reserved afterwards.
    ///
    /// # Errors
    /// When the write did not become durable. The reservations remain in force: numbers are lost,
    /// none is used twice.
    pub fn close(mut self, next: &[(KeyId, u64)], bounds: &[Bound]) -> Result<(), NumbersError> {
        self.check_machine()?;
        let mut records = self.records.clone();
        for (key, one) in next {
            // Of two users of one key, the higher number counts.
            let same = next.iter().filter(|(other, _)| other.key == key.key);
            let next = same.map(|(_, next)| next).max().unwrap_or(one);
            // At most the reservation's limit, at least the number at opening.
            let opened = self.opened.transmitted.get(&key.key).map_or(1, |known| known.next);
            let next = self.next(key)?.min(*next).max(opened);
            records.transmitted.insert(key.key, Transmitted { salt: key.salt, label: key.label, next });
        }
        self.note(&mut records, bounds)?;
        self.save(records)
    }

    /// Whether an earlier version wrote the file, which does not tell copies. The next write does.
    #[must_use]
    pub const fn is_homeless(&self) -> bool {
        self.opened.home.is_none()
    }

    /// Whether the file ends with the machine, by the operator's permission.
    #[must_use]
    pub fn is_volatile(&self) -> bool {
        self.path.parent().is_some_and(|directory| volatile::is_volatile(directory).unwrap_or(false))
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn error(&self, kind: NumbersErrorKind) -> NumbersError {
        NumbersError::new(&self.path, kind)
    }

    /// Raises bounds in `records`. Of two bounds of one place, the higher one counts.
    fn note(&self, records: &mut Records, bounds: &[Bound]) -> Result<(), NumbersError> {
        for (key, place, lowest) in bounds {
            let known = records.received.get(&(key.key, *place)).map_or(1, |known| known.lowest);
            let lowest = known.max(*lowest);
            if !records.received.contains_key(&(key.key, *place)) && records.is_full_of_received() {
                return Err(self.error(NumbersErrorKind::Full));
            }
            records.received.insert((key.key, *place), Received { label: key.label, lowest });
        }
        Ok(())
    }

    fn room(&self, records: &Records) -> Result<(), NumbersError> {
        if records.is_full() { Err(NumbersError::new(&self.path, NumbersErrorKind::Full)) } else { Ok(()) }
    }

    fn save(&mut self, records: Records) -> Result<(), NumbersError> {
        self.save_around(records, || Ok(()))
    }

    fn save_around(
        &mut self,
        mut records: Records,
        act: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), NumbersError> {
        self.in_place()?;
        let path = &self.path;
        let origin = self.disk.create_new();
        let home = origin.and_then(|origin| Home::after(self.records.home, origin));
        let home = home.map_err(NumbersError::io(path, "write the state file"))?;
        records.home = Some(home);
        let bytes = records.to_bytes();
        self.disk.write_new(&bytes).map_err(NumbersError::io(path, "write the state file"))?;
        self.disk.sync_new().map_err(NumbersError::io(path, "make the state file durable"))?;
        act().map_err(NumbersError::io(path, "pass on what was received"))?;
        // A renaming that fails may have happened, and one that is not durable may be undone.
        self.contents.push(Some(Fingerprint::of(CONTENT, &bytes)));
        self.disk.replace().map_err(NumbersError::io(path, "replace the state file"))?;
        self.disk.sync_directory().map_err(NumbersError::io(path, "make the state file durable"))?;
        self.disk.witness(&home.state, home.writes);
        self.contents.remove(0);
        self.records = records;
        Ok(())
    }

    /// Checks that nobody else moved the directory or changed the file.
    fn in_place(&mut self) -> Result<(), NumbersError> {
        let look = |error| NumbersError::io(&self.path, "look at the state file")(error);
        if !self.disk.is_in_place().map_err(look)? {
            return Err(self.error(NumbersErrorKind::Moved));
        }
        let now = self.disk.read().map_err(look)?.as_ref().map(content);
        if !self.contents.contains(&now) {
            return Err(self.error(NumbersErrorKind::Exchanged));
        }
        self.contents = vec![now];
        Ok(())
    }
}

/// The domain of the digests of whole files.
const CONTENT: &str = "content";

/// The digest of a file's content.
fn content(stored: &Stored) -> Fingerprint {
    Fingerprint::of(CONTENT, &stored.bytes)
}

fn usable(directory: &Path) -> Result<(), NumbersError> {
    let about = fs::metadata(directory).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => NumbersError::new(directory, NumbersErrorKind::NoDirectory),
        _ => NumbersError::new(directory, NumbersErrorKind::Io { doing: "look at the directory", error }),
    })?;
    if !about.is_dir() {
        return Err(NumbersError::new(directory, NumbersErrorKind::NotDirectory));
    }
    if about.mode() & 0o022 != 0 {
        return Err(NumbersError::new(
            directory,
            NumbersErrorKind::OpenToOthers { mode: about.mode() & 0o7777 },
        ));
    }
    volatile::check(directory)
}

/// Octets of the least file that tells a full medium.
const PROBE: usize = 4096;

/// Attempts to lock a directory, and the pause between them: a killed process may still be exiting.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

fn lock(directory: &Path) -> Result<Directory, NumbersError> {
    let mut left = TRIES;
    loop {
        match Directory::lock(directory) {
            Ok(locked) => return Ok(locked),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                return Err(NumbersError::new(
                    directory,
                    NumbersErrorKind::Io { doing: "lock the directory", error },
                ));
            }
            Err(_) if left == 0 => return Err(NumbersError::new(directory, NumbersErrorKind::InUse)),
            Err(_) => {
                left -= 1;
                thread::sleep(PAUSE);
            }
        }
    }
}

fn believed(path: &Path, stored: Option<&Stored>) -> Result<Records, NumbersError> {
    let stored = stored.ok_or_else(|| NumbersError::new(path, NumbersErrorKind::Missing))?;
    Records::parse(&stored.bytes).map_err(|unreadable| {
        NumbersError::new(
            path,
            match unreadable {
                RecordsError::Corrupt => NumbersErrorKind::Corrupt,
                RecordsError::Version => NumbersErrorKind::Version,
            },
        )
    })
}

#[cfg(test)]
mod tests;
