//! The steps of replacing a file so that it survives a power cut, and the directory of a state
//! file.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat, renameat};

/// The name of the state file in its directory.
pub const NAME: &str = "packet-numbers";
const NEW_NAME: &str = "packet-numbers.new";
/// The largest state file: some 30,000 records.
const MAX_STATE_FILE_LEN: u64 = 4 << 20;

/// The steps of replacing a file. A power cut may lose unsynchronized content in whole or in part;
/// tests cut the power between and within all steps.
pub trait Disk {
    /// The content of the file. `None` when there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self) -> io::Result<Option<Vec<u8>>>;
    /// Whether the file's directory is still where it was.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn is_in_place(&self) -> io::Result<bool> {
        Ok(true)
    }
    /// Writes a new file beside the old one.
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
}

impl Directory {
    /// Locks the directory. `WouldBlock`: another process holds it.
    pub(super) fn lock(path: &Path) -> io::Result<Self> {
        let handle = File::open(path)?;
        handle.try_lock().map_err(io::Error::from)?;
        Ok(Self { path: path.to_owned(), handle, new: None })
    }
}

/// Reads the state file of a directory.
pub(super) fn read_in(directory: &Path) -> io::Result<Option<Vec<u8>>> {
    read_at(&File::open(directory)?)
}

/// Opens a file in a directory.
fn open_at(directory: impl AsFd, name: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?.into())
}

fn read_at(directory: &File) -> io::Result<Option<Vec<u8>>> {
    let file = match open_at(directory, NAME, OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(MAX_STATE_FILE_LEN).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

impl Disk for Directory {
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        read_at(&self.handle)
    }

    fn is_in_place(&self) -> io::Result<bool> {
        let identity = |about: fs::Metadata| (about.dev(), about.ino());
        match fs::metadata(&self.path) {
            Ok(there) => Ok(identity(there) == identity(self.handle.metadata()?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn write_new(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.new = None;
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        let mut file = open_at(&self.handle, NEW_NAME, new)?;
        file.write_all(bytes)?;
        self.new = Some(file);
        Ok(())
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
