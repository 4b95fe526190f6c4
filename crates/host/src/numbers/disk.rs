//! The steps of replacing a file so that it survives a power cut, and the directory of a state
//! file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(directory.join(NAME)) {
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
        read_in(&self.path)
    }

    fn write_new(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.new = None;
        let path = self.path.join(NEW_NAME);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        file.write_all(bytes)?;
        self.new = Some(file);
        Ok(())
    }

    fn sync_new(&mut self) -> io::Result<()> {
        self.new.take().ok_or(io::ErrorKind::NotFound)?.sync_all()
    }

    fn replace(&mut self) -> io::Result<()> {
        fs::rename(self.path.join(NEW_NAME), self.path.join(NAME))
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        self.handle.sync_all()
    }
}
