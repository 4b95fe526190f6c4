//! Faults of a state file or its directory.

use std::io;
use std::path::{Path, PathBuf};

use crate::fault::{Fault, MORE_FILES, explain};

/// A state file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct NumbersError {
    /// The directory or the file at fault.
    pub path: PathBuf,
    /// The kind of fault.
    pub kind: NumbersErrorKind,
}

/// The kinds of [`NumbersError`].
#[derive(Debug, thiserror::Error)]
pub enum NumbersErrorKind {
    /// The directory does not exist.
    #[error("there is no such directory")]
    NoDirectory,
    /// The path names something else.
    #[error("is not a directory")]
    NotDirectory,
    /// Other users could replace the file.
    #[error("others than its owner can write to this directory (mode {mode:04o})")]
    OpenToOthers {
        /// The mode of the directory.
        mode: u32,
    },
    /// Another process has the directory.
    #[error("another process holds this state directory")]
    InUse,
    /// The directory has no state file.
    #[error("there is no state file, so nobody knows which packet numbers were used")]
    Missing,
    /// The directory already has a state file.
    #[error("there is a state file already")]
    Exists,
    /// The checksum or the syntax is wrong.
    #[error("the state file is damaged, so nobody knows which packet numbers were used")]
    Corrupt,
    /// Another version wrote the file.
    #[error("the state file has a format that this version does not know")]
    Version,
    /// The file has the most records that are allowed.
    #[error("the state file is full")]
    Full,
    /// The key was used with another salt.
    #[error("the key of AN {label} was used with another salt before, so nonces could meet")]
    OtherSalt {
        /// The key's label: an association number, since only keys of MACsec have salts.
        label: u8,
    },
    /// All numbers of all keys are used.
    #[error("no association has packet numbers left")]
    Exhausted,
    /// The operating system refused.
    #[error("cannot {doing}: {}", explain(error))]
    Io {
        /// The failed step.
        doing: &'static str,
        /// The reason.
        error: io::Error,
    },
}

impl NumbersError {
    /// A fault of a path.
    #[must_use]
    pub fn new(path: &Path, kind: NumbersErrorKind) -> Self {
        Self { path: path.to_owned(), kind }
    }

    pub(super) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::new(path, NumbersErrorKind::Io { doing, error })
    }

    /// The remedy, if it is the same for all bearers. The others name a bearer's own commands.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        Some(match &self.kind {
            NumbersErrorKind::NotDirectory => "name a directory".to_owned(),
            NumbersErrorKind::OpenToOthers { .. } => format!("chmod 700 {}", self.path.display()),
            NumbersErrorKind::Version => {
                "use the version of antedate that wrote it, or a later one".to_owned()
            }
            NumbersErrorKind::Io { error, .. } => match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "make room on its medium".to_owned()
                }
                _ if error.raw_os_error() == Some(libc::EMFILE) => MORE_FILES.to_owned(),
                // In another directory all keys would be unknown, and start at 1.
                _ => "make it writable for the user that runs this; in another directory keys that were used would begin at 1 again"
                    .to_owned(),
            },
            _ => return None,
        })
    }

    /// A fault of the path, with the bearer's remedy where [`remedy`](Self::remedy) has none.
    #[must_use]
    pub fn into_fault(self, own: impl FnOnce(&NumbersErrorKind) -> String) -> Fault {
        let remedy = self.remedy().unwrap_or_else(|| own(&self.kind));
        Fault::of_file(&self.path, self.kind.to_string(), remedy)
    }
}
