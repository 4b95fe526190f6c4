//! A file that is replaced as a whole and survives a power cut: the steps, and the directory they are done in.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The name of the state file in its directory.
pub const NAME: &str = "packet-numbers";
const NEW_NAME: &str = "packet-numbers.new";
/// The longest state file that is read: some 30,000 records.
const LONGEST: u64 = 4 << 20;

/// The steps by which one file takes the place of another. What is not yet synchronized may be lost by a power cut, in
/// whole or in part; tests cut the power between and within all of them.
pub trait Disk {
    /// The file, or `None` when there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self) -> io::Result<Option<Vec<u8>>>;
    /// Writes the new file beside the old one.
    ///
    /// # Errors
    /// When it cannot be written.
    fn write_new(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes the new file's content durable.
    ///
    /// # Errors
    /// When the medium refuses.
    fn sync_new(&mut self) -> io::Result<()>;
    /// Gives the new file the name of the old one, which is gone then.
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

/// A directory of this machine, locked for as long as it is held (`flock(2)`: the lock ends with the process, however
/// that ends).
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

/// The state file of a directory.
pub(super) fn read_in(directory: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(directory.join(NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?;
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
