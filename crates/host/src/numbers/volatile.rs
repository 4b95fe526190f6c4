//! States on a file system in memory (tmpfs, ramfs), which end with the machine.
//!
//! After its next start the state is missing, and a script that makes a new one lets the numbers of
//! its keys begin at 1 again. So such a directory is refused until an operator permits it, who
//! makes new keys at each start of the machine. The permission is a file beside the state: it ends
//! with it.
//!
//! Not told: memory below another file system (an overlay whose upper directory is a tmpfs, a disk
//! in memory, a virtual machine that forgets its disk).

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::{NumbersError, NumbersErrorKind};

/// The name of the permission in its directory.
const PERMISSION: &str = "volatile";
/// The warning of such a state that is permitted.
pub const VOLATILE: &str = "lies in memory and ends with the machine; keys that are used again after its next start \
                            repeat their numbers: make new ones then";
/// tmpfs and ramfs (`statfs(2)`).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Makes a directory for a state that may end with the machine.
///
/// # Errors
/// When it cannot be written.
pub fn permit(directory: &Path) -> Result<(), NumbersError> {
    make(directory)?;
    fs::write(directory.join(PERMISSION), "The keys are new at each start of the machine.\n")
        .map_err(NumbersError::io(directory, "write to the directory"))
}

/// Makes a directory that is missing, for its owner only.
pub(super) fn make(directory: &Path) -> Result<(), NumbersError> {
    let create = || {
        if directory.exists() {
            return Ok(());
        }
        if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent)?;
        }
        DirBuilder::new().mode(0o700).create(directory)
    };
    create().map_err(NumbersError::io(directory, "make the directory"))
}

/// Whether the directory lies in memory.
pub(super) fn is_volatile(directory: &Path) -> io::Result<bool> {
    Ok(IN_MEMORY.contains(&(rustix::fs::statfs(directory)?.f_type as u64 & 0xffff_ffff)))
}

/// Refuses a directory in memory without permission.
pub(super) fn check(directory: &Path) -> Result<(), NumbersError> {
    let volatile = is_volatile(directory).map_err(NumbersError::io(directory, "look at the directory"))?;
    if volatile && !directory.join(PERMISSION).exists() {
        return Err(NumbersError::new(directory, NumbersErrorKind::Volatile));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{NumberFile, inspect};
    use super::*;

    /// A file system in memory that Linux systems have.
    const MEMORY: &str = "/dev/shm";

    #[test]
    fn state_in_memory_needs_a_permission() {
        let parent = tempfile::tempdir_in(MEMORY).expect("shared memory (POSIX)");
        let [refused, permitted] = ["refused", "permitted"].map(|name| parent.path().join(name));
        let error = NumberFile::create(&refused).unwrap_err();
        assert!(matches!(error.kind, NumbersErrorKind::Volatile), "{error}");
        assert!(error.to_string().contains("tmpfs"), "{error}");
        assert!(!refused.join(super::super::NAME).exists(), "no state is left");

        permit(&permitted).unwrap();
        assert!(NumberFile::create(&permitted).unwrap().is_volatile());
        assert!(inspect(&permitted).is_ok());
        assert!(NumberFile::open(&permitted).unwrap().is_volatile());
        assert!(NumberFile::settle(&permitted).is_ok());
        fs::remove_file(permitted.join(PERMISSION)).unwrap();
        for opened in [NumberFile::open, NumberFile::settle] {
            assert!(matches!(opened(&permitted).unwrap_err().kind, NumbersErrorKind::Volatile));
        }
        assert!(matches!(inspect(&permitted).unwrap_err().kind, NumbersErrorKind::Volatile));
    }

    #[test]
    fn permission_changes_nothing_on_a_disk() {
        let disk = tempfile::tempdir().unwrap();
        let directory = disk.path().join("state");
        assert!(!NumberFile::create(&directory).unwrap().is_volatile());
        permit(&directory).unwrap();
        assert!(!NumberFile::open(&directory).unwrap().is_volatile());
    }
}
