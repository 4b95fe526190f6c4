//! Atomic replacement of files, and files that one process at a time may change.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use crate::fault::Fault;
use crate::hex::hex;
use crate::private_file::{open_new, sync_directory_of};

/// Replaces a file atomically: even after a crash there is either the old one or the new one. Owner
/// and mode are kept. A new file is readable by its owner only, and the result is true.
///
/// # Errors
/// When it cannot be written. The old file is unchanged, unless only the directory could not be
/// synchronized.
pub fn replace(file: &Path, content: &[u8]) -> Result<bool, Fault> {
    replace_with(file, content, None)
}

/// As [`replace`], and the file has this mode from the moment at which it has its name, so that a reader
/// of the group never finds one that it may not read.
///
/// # Errors
/// As [`replace`].
pub fn replace_with_mode(file: &Path, content: &[u8], mode: u32) -> Result<bool, Fault> {
    replace_with(file, content, Some(mode))
}

fn replace_with(file: &Path, content: &[u8], mode: Option<u32>) -> Result<bool, Fault> {
    // The target of a link, so that the link remains.
    let place = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let old = match fs::metadata(&place) {
        Ok(about) if about.is_file() => Some(about),
        Ok(_) => {
            return Err(Fault::of_file(file, "is not a regular file", "give the path of a file to write"));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(cannot_write(file, &error)),
    };
    let written = write_over(&place, content, old.as_ref(), |new| match mode {
        Some(mode) => new.set_permissions(Permissions::from_mode(mode)),
        None => Ok(()),
    });
    written.map(|_| old.is_none()).map_err(|error| cannot_write(file, &error))
}

/// A file that no other process changes during this value's lifetime (`flock(2)`: the lock ends
/// with the process, even if killed).
#[derive(Debug)]
pub struct Held {
    /// The path of the user.
    file: PathBuf,
    /// The path without links.
    place: PathBuf,
    /// The lock, on the file that has the name now.
    lock: File,
}

impl Held {
    /// Takes the lock.
    ///
    /// # Errors
    /// When another process has it, or there is no such file.
    pub fn take(file: &Path) -> Result<Self, Fault> {
        let cannot = |error| Fault::of_io(file, "open the file", &error, "run as its owner");
        let place = fs::canonicalize(file).map_err(cannot)?;
        loop {
            // Opening a FIFO would wait for a writer.
            let named = fs::metadata(&place).map_err(cannot)?;
            if !named.is_file() {
                return Err(Fault::of_file(file, "is not a regular file", "give the path of a group file"));
            }
            let lock = File::open(&place).map_err(cannot)?;
            lock.try_lock().map_err(|error| match error {
                TryLockError::WouldBlock => Fault::of_file(
                    file,
                    "another antedate mqtt rotate or revoke is changing this file",
                    "call again when it has ended",
                ),
                TryLockError::Error(error) => {
                    Fault::of_io(file, "lock the file", &error, "put it on a local file system")
                }
            })?;
            // Another process may have replaced the file before the lock was taken. Then the lock
            // is on the old one.
            let (ours, named) = (lock.metadata().map_err(cannot)?, fs::metadata(&place).map_err(cannot)?);
            if (ours.dev(), ours.ino()) == (named.dev(), named.ino()) {
                return Ok(Self { file: file.to_owned(), place, lock });
            }
        }
    }

    /// Replaces the file atomically. The lock passes to the new one.
    ///
    /// # Errors
    /// When it cannot be written. The old file is unchanged, unless only the directory could not be
    /// synchronized.
    pub fn replace(&mut self, text: &str) -> Result<(), Fault> {
        let written = self.lock.metadata().and_then(|old| {
            // Locked before it gets the name, so that no process takes the lock in between.
            write_over(&self.place, text.as_bytes(), Some(&old), |new| {
                new.try_lock().map_err(io::Error::from)
            })
        });
        self.lock = written.map_err(|error| cannot_write(&self.file, &error))?;
        Ok(())
    }
}

/// Writes a file beside the old one, with its owner and mode, and renames it. Returns the new file.
fn write_over(
    file: &Path,
    content: &[u8],
    old: Option<&fs::Metadata>,
    before: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<File> {
    // A random name: other files of the directory are not touched.
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let beside = file.with_file_name(format!(".antedate-{}.new", hex(&random)));
    let mut open = open_new(&beside)?;
    let write = || {
        open.write_all(content)?;
        if let Some(old) = old {
            let now = open.metadata()?;
            if (now.uid(), now.gid()) != (old.uid(), old.gid()) {
                fchown(&open, Some(old.uid()), Some(old.gid()))?;
            }
            open.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
        }
        before(&open)?;
        open.sync_all()?;
        fs::rename(&beside, file)?;
        sync_directory_of(file)?;
        Ok(open)
    };
    // After the rename this name no longer exists.
    write().inspect_err(|_| drop(fs::remove_file(&beside)))
}

fn cannot_write(file: &Path, error: &io::Error) -> Fault {
    Fault::of_io(file, "write the file", error, "give a file in a directory that you can write to")
}

#[cfg(test)]
mod tests {
    use crate::private_file::create;

    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().expect("a directory")
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("a directory");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn replacing_touches_no_other_file() {
        let directory = directory();
        for name in ["a.toml", "a.new", "b.new"] {
            create(&directory.path().join(name), name).expect("written");
        }
        for name in ["a.toml", "b.new"] {
            assert!(!replace(&directory.path().join(name), b"new").expect("written"), "was there");
        }
        Held::take(&directory.path().join("a.toml")).expect("held").replace("held").expect("written");
        assert_eq!(names(directory.path()), ["a.new", "a.toml", "b.new"]);
        let read = |name| fs::read_to_string(directory.path().join(name)).expect("a file");
        assert_eq!([read("a.new"), read("a.toml"), read("b.new")], ["a.new", "held", "new"]);
    }

    #[test]
    fn owner_and_mode_are_kept() {
        let directory = directory();
        let file = directory.path().join("acl");
        assert!(replace(&file, b"first").expect("written"), "is new");
        let about = || fs::metadata(&file).expect("a file");
        assert_eq!(about().mode() & 0o7777, 0o600);
        fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("mode");
        // Only root can give files away.
        let root = std::os::unix::fs::chown(&file, Some(1234), Some(2345)).is_ok();
        let (uid, gid) = (about().uid(), about().gid());
        assert!(!root || (uid, gid) == (1234, 2345));
        assert!(!replace(&file, b"second").expect("written"));
        assert_eq!((about().mode() & 0o7777, about().uid(), about().gid()), (0o640, uid, gid));
    }

    #[test]
    fn file_never_has_its_name_with_another_mode() {
        let directory = directory();
        let file = directory.path().join("cak");
        let open = || fs::metadata(&file).is_ok_and(|about| about.mode() & 0o777 != 0o640);
        // A reader that looks as often as it can.
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| (0..20_000).filter(|_| open()).count());
            while !reader.is_finished() {
                replace_with_mode(&file, b"key", 0o640).expect("written");
                fs::remove_file(&file).expect("removed");
            }
            assert_eq!(reader.join().expect("a count"), 0);
        });
    }

    #[test]
    fn links_stay_and_non_files_are_refused() {
        let directory = directory();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        create(&file, "old").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        assert!(!replace(&link, b"new").expect("written"));
        Held::take(&link).expect("held").replace("newest").expect("written");
        assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("a file"), "newest");
        assert!(replace(directory.path(), b"x").is_err() && Held::take(directory.path()).is_err());
    }

    #[test]
    fn lock_survives_replacement() {
        let directory = directory();
        let file = directory.path().join("a.toml");
        create(&file, "old").expect("written");
        let mut held = Held::take(&file).expect("held");
        for text in ["new", "newest"] {
            let said = Held::take(&file).expect_err("held by another").to_string();
            assert!(said.contains("another antedate mqtt rotate") && said.contains("call again"), "{said}");
            held.replace(text).expect("written");
        }
        assert!(Held::take(&file).is_err());
        drop(held);
        assert!(Held::take(&file).is_ok());
    }
}
