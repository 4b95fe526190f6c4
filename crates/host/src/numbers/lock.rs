//! One sender per key and place on a machine, wherever its state directory is.
//!
//! Two locks, each of which ends with the process, even if killed: an abstract Unix socket
//! (`unix(7)`), which all processes of a network namespace share, and a locked file in `/run/lock`
//! (`flock(2)`), which all processes share that see this directory. Two containers that share
//! neither are not told apart from two machines.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::thread;

use super::record::Fingerprint;
use super::{KeyId, NumbersError, NumbersErrorKind, PAUSE, Place, TRIES};
use crate::hex::hex;
use crate::process;

/// Directories for lock files; the first that takes the file is used.
const DIRECTORIES: [&str; 3] = ["/run/lock", "/var/lock", "/dev/shm"];

/// The right to send with a key at a place.
#[derive(Debug)]
pub struct KeyLock {
    _socket: Option<UnixDatagram>,
    _file: Option<File>,
}

impl KeyLock {
    /// Takes the right. Waits for a killed process that is still exiting.
    ///
    /// # Errors
    /// When another process of this machine has it.
    pub fn take(key: &KeyId, place: Place) -> Result<Self, NumbersError> {
        let name = name(key, place);
        for _ in 0..TRIES {
            if let Ok(lock) = Self::attempt(&name) {
                return Ok(lock);
            }
            thread::sleep(PAUSE);
        }
        Self::attempt(&name).map_err(|path| NumbersError::new(&path, NumbersErrorKind::KeyInUse))
    }

    /// The directories of the lock files.
    pub fn directories() -> impl Iterator<Item = PathBuf> {
        DIRECTORIES.into_iter().map(PathBuf::from)
    }

    /// Whether another process of this machine has the right now.
    #[must_use]
    pub fn is_taken(key: &KeyId, place: Place) -> bool {
        Self::attempt(&name(key, place)).is_err()
    }

    /// Takes both locks, or returns the name of the one that is taken.
    fn attempt(name: &str) -> Result<Self, PathBuf> {
        let bound = SocketAddr::from_abstract_name(name).and_then(|at| UnixDatagram::bind_addr(&at));
        let socket = match bound {
            Ok(socket) => Some(socket),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(format!("@{name}").into()),
            // Without sockets the file has to do, and the other way round.
            Err(_) => None,
        };
        let file = match open_shared(name) {
            Some((path, file)) => match file.try_lock() {
                Err(fs::TryLockError::WouldBlock) => return Err(path),
                _ => Some(file),
            },
            None => None,
        };
        Ok(Self { _socket: socket, _file: file })
    }
}

/// Opens a file of this name where all processes of this machine see it until its next start.
pub(super) fn open_shared(name: &str) -> Option<(PathBuf, File)> {
    DIRECTORIES.iter().find_map(|directory| {
        let path = Path::new(directory).join(name);
        open(&path).ok().map(|file| (path, file))
    })
}

/// Opens the lock file. Others than this user and root cannot make one that counts, since they
/// could keep its lock for ever.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let about = file.metadata()?;
    if about.is_file() && counts(about.uid(), process::user()) {
        Ok(file)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Whether a lock file of this owner counts for this user.
fn counts(owner: u32, user: u32) -> bool {
    owner == user || owner == 0
}

/// The name of a lock. It shows neither key nor place.
fn name(key: &KeyId, place: Place) -> String {
    let Fingerprint(octets) = Fingerprint::of("antedate lock", &[&key.key.0[..], &place.0].concat());
    format!("antedate-{}", hex(&octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_has_one_sender_per_place() {
        let key = KeyId::new("kind", &std::process::id().to_be_bytes());
        let [here, there] = [Place([1; 8]), Place([2; 8])];
        let held = KeyLock::take(&key, here).unwrap();
        let refused = KeyLock::take(&key.with_label(3), here).unwrap_err().to_string();
        assert!(refused.contains("another process of this machine"), "{refused}");
        assert!(KeyLock::is_taken(&key, here) && !KeyLock::is_taken(&key, there));
        drop(held);
        assert!(!KeyLock::is_taken(&key, here));
        assert!(KeyLock::take(&key, here).is_ok());
        for directory in DIRECTORIES {
            let _ = fs::remove_file(Path::new(directory).join(name(&key, here)));
            let _ = fs::remove_file(Path::new(directory).join(name(&key, there)));
        }
    }

    /// A name that no key has.
    fn unused(what: &str) -> String {
        format!("antedate-test-{what}-{}", std::process::id())
    }

    fn path(name: &str) -> PathBuf {
        let directory = DIRECTORIES.iter().find(|directory| Path::new(directory).is_dir());
        Path::new(directory.expect("a directory for locks")).join(name)
    }

    #[test]
    fn either_lock_alone_refuses() {
        let name = unused("either");
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        assert_eq!(KeyLock::attempt(&name).unwrap_err(), PathBuf::from(format!("@{name}")));
        drop(socket);
        let file = open(&path(&name)).unwrap();
        file.try_lock().unwrap();
        assert_eq!(KeyLock::attempt(&name).unwrap_err(), path(&name));
        drop(file);
        assert!(KeyLock::attempt(&name).is_ok());
        fs::remove_file(path(&name)).unwrap();
    }

    #[test]
    fn file_alone_locks_without_a_socket() {
        // Too long for the name of a socket, and not for one of a file.
        let name = format!("{}-{}", unused("file"), "x".repeat(120));
        let held = KeyLock::attempt(&name).unwrap();
        assert_eq!(KeyLock::attempt(&name).unwrap_err(), path(&name));
        drop(held);
        fs::remove_file(path(&name)).unwrap();
    }

    #[test]
    fn strangers_file_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let (link, target) = (directory.path().join("link"), directory.path().join("target"));
        fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(open(&link).is_err());
        assert!(open(&target).is_ok());
        let pipe = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(open(&pipe).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(
            [(1000, 1000), (0, 1000), (1001, 1000), (1000, 0), (0, 0)]
                .map(|(owner, user)| counts(owner, user)),
            [true, true, false, false, true]
        );
    }
}
