//! Faults of a state file or its directory.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use crate::fault::{Fault, MORE_FILES, ROOM, explain, is_full};

/// A state file cannot be read or written.
#[derive(Debug)]
pub struct NumbersError {
    /// The directory or the file at fault.
    pub path: PathBuf,
    /// The kind of fault.
    pub kind: NumbersErrorKind,
}

/// The kinds of [`NumbersError`].
#[derive(Debug)]
pub enum NumbersErrorKind {
    /// The directory does not exist.
    NoDirectory,
    /// The path names something else.
    NotDirectory,
    /// Other users could replace the file.
    OpenToOthers {
        /// The mode of the directory.
        mode: u32,
    },
    /// The directory lies in memory, and ends with the machine.
    Volatile,
    /// Another process has the directory.
    InUse,
    /// Another process of this machine sends with the same key at the same place.
    KeyInUse,
    /// The path names another directory than the one that was locked.
    Moved,
    /// Someone else changed or removed the file.
    Exchanged,
    /// The file is a copy of the one that was written last, or of an older one.
    Copied,
    /// The file was written on another machine.
    OtherMachine,
    /// The file is older than the one that was written last.
    Older,
    /// The directory has no state file.
    Missing,
    /// The directory already has a state file.
    Exists,
    /// The checksum or the syntax is wrong.
    Corrupt,
    /// Another version wrote the file.
    Version,
    /// The file has the most records that are allowed.
    Full,
    /// The key was used with another salt.
    OtherSalt {
        /// The key's label: an association number, since only keys of MACsec have salts.
        label: u8,
    },
    /// The machine went on from a snapshot of itself.
    Cloned,
    /// All numbers of all keys are used.
    Exhausted,
    /// The operating system refused.
    Io {
        /// The failed step.
        doing: &'static str,
        /// The reason.
        error: io::Error,
    },
}

impl Error for NumbersError {}

impl fmt::Display for NumbersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.kind)
    }
}

impl fmt::Display for NumbersErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoDirectory => "there is no such directory",
            Self::NotDirectory => "is not a directory",
            Self::OpenToOthers { mode } => {
                return write!(f, "others than its owner can write to this directory (mode {mode:04o})");
            }
            Self::Volatile => {
                "the directory lies in memory (tmpfs), so nobody knows after the machine's next start which packet numbers were used"
            }
            Self::InUse => "another process holds this state directory",
            Self::KeyInUse => "another process of this machine sends with this key and as this sender",
            Self::Moved => "the state directory was moved or exchanged while this process used it",
            Self::Exchanged => "the state file was changed or removed while this process used it",
            Self::Copied => {
                "the state file is a copy or was restored, so nobody knows which packet numbers were used"
            }
            Self::OtherMachine => {
                "the state file was written on another machine, so nobody knows which packet numbers were used"
            }
            Self::Older => "the state file is older than the one that was written last on this machine",
            Self::Missing => "there is no state file, so nobody knows which packet numbers were used",
            Self::Exists => "there is a state file already",
            Self::Corrupt => "the state file is damaged, so nobody knows which packet numbers were used",
            Self::Version => "the state file has a format that this version does not know",
            Self::Full => "the state file is full",
            Self::OtherSalt { label } => {
                return write!(
                    f,
                    "the key of AN {label} was used with another salt before, so nonces could meet"
                );
            }
            Self::Cloned => {
                "this virtual machine went on from a snapshot, so nobody knows which packet numbers were used after it"
            }
            Self::Exhausted => "no key has packet numbers left",
            Self::Io { doing, error } => return write!(f, "cannot {doing}: {}", explain(error)),
        })
    }
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
            NumbersErrorKind::Volatile => {
                "name a directory on a disk, and move a state that exists there, with --state-moved once; only if the keys are made \
                 anew at each start of the machine, permit it with --volatile-state"
                    .to_owned()
            }
            NumbersErrorKind::KeyInUse => {
                "stop it: two senders with one key use the same packet numbers, and both lose their secrecy".to_owned()
            }
            NumbersErrorKind::Moved | NumbersErrorKind::Exchanged => {
                "put back what was there; if another process has used it meanwhile, or it is older, make new keys".to_owned()
            }
            NumbersErrorKind::Version => {
                "use the version of antedate that wrote it, or a later one".to_owned()
            }
            NumbersErrorKind::Io { error, .. } => match error {
                _ if is_full(error) => ROOM.to_owned(),
                _ if error.raw_os_error() == Some(libc::EMFILE) => MORE_FILES.to_owned(),
                // In another directory all keys would be unknown, and start at 1.
                _ => "make it writable for the user that runs this; in another directory keys that were used would begin at 1 again"
                    .to_owned(),
            },
            _ => return None,
        })
    }

    /// Whether the operator may know better: the state may be the last one, moved.
    #[must_use]
    pub const fn may_be_settled(&self) -> bool {
        matches!(self.kind, NumbersErrorKind::Copied | NumbersErrorKind::OtherMachine)
    }

    /// Whether the fault may pass by itself: a full medium.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(&self.kind, NumbersErrorKind::Io { error, .. } if is_full(error))
    }

    /// A fault of the path, with the bearer's remedy where [`remedy`](Self::remedy) has none.
    #[must_use]
    pub fn into_fault(self, own: impl FnOnce(&NumbersErrorKind) -> String) -> Fault {
        let remedy = self.remedy().unwrap_or_else(|| own(&self.kind));
        Fault { passing: self.is_passing(), ..Fault::of_file(&self.path, self.kind.to_string(), remedy) }
    }
}
