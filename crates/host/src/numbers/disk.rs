//! The steps of replacing a file so that it survives a power cut, and the directory of a state
//! file.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};

use super::home::{self, Origin, Witness};
use crate::generation::Generation;

/// The name of the state file in its directory.
pub const NAME: &str = "packet-numbers";
const NEW_NAME: &str = "packet-numbers.new";
/// The largest state file: some 30,000 records.
const MAX_STATE_FILE_LEN: u64 = 4 << 20;

/// A file as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its content.
    pub bytes: Vec<u8>,
    /// Its identity.
    pub origin: Origin,
}

/// The steps of replacing a file. A power cut may lose unsynchronized content in whole or in part;
/// tests cut the power between and within all steps.
pub trait Disk {
    /// The file. `None` when there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self) -> io::Result<Option<Stored>>;
    /// Whether the file's directory is still where it was.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn is_in_place(&self) -> io::Result<bool> {
        Ok(true)
    }
    /// Whether the machine went on from a snapshot since the disk was opened.
    fn is_cloned(&mut self) -> bool {
        false
    }
    /// The number of the last write of a state that was noted since the machine's start, and 0 if
    /// none was.
    fn witnessed(&mut self, state: &[u8; 16]) -> u64;
    /// Notes a durable write of a state.
    fn witness(&mut self, state: &[u8; 16], writes: u64);
    /// Makes a new, empty file beside the old one.
    ///
    /// # Errors
    /// When it cannot be made.
    fn create_new(&mut self) -> io::Result<Origin>;
    /// Writes the content of the new file.
    ///
    /// # Errors
    /// When it cannot be written.
    fn write_new(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes the new file's content durable.
    ///
    /// # Errors
    /// When the medium refuses.
    fn sync_new(&mut self) -> io::Result<()>;
    /// Renames the new file to the old one's name.
    ///
    /// # Errors
    /// When the file system refuses.
    fn replace(&mut self) -> io::Result<()>;
    /// Makes the new name durable.
    ///
    /// # Errors
    /// When the medium refuses.
    fn sync_directory(&mut self) -> io::Result<()>;
}

/// A locked directory of this machine (`flock(2)`: the lock ends with the process, even if killed).
/// Files are opened in the locked directory, not by path.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    handle: File,
    new: Option<File>,
    machine: Option<[u8; 16]>,
    witness: Option<Witness>,
    /// `None` where the news cannot be heard.
    generation: Option<Generation>,
}

impl Directory {
    /// Locks the directory. `WouldBlock`: another process holds it.
    pub(super) fn lock(path: &Path) -> io::Result<Self> {
        let handle = File::open(path)?;
        handle.try_lock().map_err(io::Error::from)?;
        let (machine, generation) = (home::machine(), Generation::watch().ok());
        Ok(Self { path: path.to_owned(), handle, new: None, machine, witness: None, generation })
    }
}

/// Reads the state file of a directory.
pub(super) fn read_in(directory: &Path) -> io::Result<Option<Stored>> {
    read_at(&File::open(directory)?, home::machine())
}

/// Opens a file in a directory.
fn open_at(directory: impl AsFd, name: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?.into())
}

fn read_at(directory: &File, machine: Option<[u8; 16]>) -> io::Result<Option<Stored>> {
    let file = match open_at(directory, NAME, OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let (mut bytes, origin) = (Vec::new(), Origin::of(&file, machine)?);
    file.take(MAX_STATE_FILE_LEN).read_to_end(&mut bytes)?;
    Ok(Some(Stored { bytes, origin }))
}

impl Disk for Directory {
    fn read(&self) -> io::Result<Option<Stored>> {
        read_at(&self.handle, self.machine)
    }

    fn is_in_place(&self) -> io::Result<bool> {
        let identity = |about: fs::Metadata| (about.dev(), about.ino());
        match fs::metadata(&self.path) {
            Ok(there) => Ok(identity(there) == identity(self.handle.metadata()?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn is_cloned(&mut self) -> bool {
        self.generation.as_mut().is_some_and(Generation::is_changed)
    }

    fn witnessed(&mut self, state: &[u8; 16]) -> u64 {
        self.witness.get_or_insert_with(|| Witness::of(state)).writes()
    }

    fn witness(&mut self, state: &[u8; 16], writes: u64) {
        self.witness.get_or_insert_with(|| Witness::of(state)).note(writes);
    }

    fn create_new(&mut self) -> io::Result<Origin> {
        self.new = None;
        // A file that a killed process left has an earlier birth time.
        match unlinkat(&self.handle, NEW_NAME, AtFlags::empty()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let file = open_at(&self.handle, NEW_NAME, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        let origin = Origin::of(&file, self.machine)?;
        self.new = Some(file);
        Ok(origin)
    }

    fn write_new(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.new.as_mut().ok_or(io::ErrorKind::NotFound)?.write_all(bytes)
    }

    fn sync_new(&mut self) -> io::Result<()> {
        self.new.take().ok_or(io::ErrorKind::NotFound)?.sync_all()
    }

    fn replace(&mut self) -> io::Result<()> {
        Ok(renameat(&self.handle, NEW_NAME, &self.handle, NAME)?)
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        self.handle.sync_all()
    }
}
