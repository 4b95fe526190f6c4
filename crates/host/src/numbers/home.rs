//! The home of a state file, recorded in the file itself: its machine, its inode and birth time, and
//! the number of its write.
//!
//! Each write makes a new file, with an inode and a birth time of its own. So a copy is told from
//! the file that was written last, also one that was copied over it or restored from a backup. Not
//! told is an image of the whole file system, with the machine's identity (`machine-id(5)`) in it.
//!
//! A [`Witness`] outside the directory counts the writes of a state. It lies in memory, so until the
//! machine's next start an older file is refused that came back as it was: by a snapshot of its file
//! system, or by another name.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use super::lock::open_shared;
use super::record::Fingerprint;
use super::{NumbersErrorKind, Trust};
use crate::hex::hex;

/// The identity of a file. Unknown parts are not compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Origin {
    /// A digest of the machine's identity.
    pub machine: Option<[u8; 16]>,
    /// The inode number.
    pub inode: Option<u64>,
    /// The birth time, in nanoseconds since 1970.
    pub birth: Option<u64>,
}

/// File systems that number their inodes anew at each mount: FAT, exFAT, FUSE (`statfs(2)`).
const FLEETING_INODES: [u64; 3] = [0x4d44, 0x2011_bab0, 0x6573_5546];

impl Origin {
    /// The origin of an open file. The device number is no part of it: it may change at each start
    /// of a machine with several disks.
    pub(super) fn of(file: &File, machine: Option<[u8; 16]>) -> io::Result<Self> {
        let about = file.metadata()?;
        let fleeting = rustix::fs::fstatfs(file)
            .is_ok_and(|system| FLEETING_INODES.contains(&(system.f_type as u64 & 0xffff_ffff)));
        let born = about.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Ok(Self {
            machine,
            inode: (!fleeting).then(|| about.ino()),
            birth: born.and_then(|since| u64::try_from(since.as_nanos()).ok()),
        })
    }
}

/// The line of a state file about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Home {
    /// A random name of the state, the same in all its files.
    pub(super) state: [u8; 16],
    /// The number of this write.
    pub(super) writes: u64,
    pub(super) origin: Origin,
}

impl Home {
    /// The home of the file that follows `last`.
    pub(super) fn after(last: Option<Self>, origin: Origin) -> io::Result<Self> {
        let Some(last) = last else {
            let mut state = [0; 16];
            getrandom::fill(&mut state).map_err(|error| io::Error::other(error.to_string()))?;
            return Ok(Self { state, writes: 1, origin });
        };
        // A machine's identity may be out of sight for a while.
        let machine = origin.machine.or(last.origin.machine);
        Ok(Self { writes: last.writes + 1, origin: Origin { machine, ..origin }, ..last })
    }

    /// Whether the file that was found is the one that was written last.
    pub(super) fn check(&self, found: &Origin, witnessed: u64, trust: Trust) -> Result<(), NumbersErrorKind> {
        fn differ<T: PartialEq>(written: Option<T>, found: Option<T>) -> bool {
            written.zip(found).is_some_and(|(written, found)| written != found)
        }
        let own = &self.origin;
        if witnessed > self.writes {
            Err(NumbersErrorKind::Older)
        } else if trust == Trust::Moved {
            Ok(())
        } else if differ(own.inode, found.inode) || differ(own.birth, found.birth) {
            Err(NumbersErrorKind::Copied)
        } else if differ(own.machine, found.machine) {
            Err(NumbersErrorKind::OtherMachine)
        } else {
            Ok(())
        }
    }
}

/// A digest of this machine's identity. `None` where it has none, or one that does not outlive its
/// next start.
pub(super) fn machine() -> Option<[u8; 16]> {
    lasting(fs::read("/etc/machine-id").ok()?, fs::read("/run/machine-id").ok())
}

/// systemd keeps an identity that it could not write to `/etc` in `/run`.
fn lasting(id: Vec<u8>, of_this_start: Option<Vec<u8>>) -> Option<[u8; 16]> {
    let id = id.trim_ascii();
    let whole = id.len() == 32 && id.iter().all(u8::is_ascii_hexdigit);
    let fleeting = of_this_start.is_some_and(|other| other.trim_ascii() == id);
    (whole && !fleeting).then(|| Fingerprint::of("antedate machine", id).0)
}

/// The number of writes of a state that this machine has seen since its start: the length of an
/// empty file, which needs no memory and cannot be torn. Without a place for it nothing is witnessed.
#[derive(Debug)]
pub(super) struct Witness(Option<File>);

impl Witness {
    /// The witness of a state.
    pub(super) fn of(state: &[u8; 16]) -> Self {
        Self(open_shared(&format!("antedate-state-{}", hex(state))).map(|(_, file)| file))
    }

    /// The number of the last write seen; 0 if there was none.
    pub(super) fn writes(&self) -> u64 {
        self.0.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |about| about.len())
    }

    /// Notes a durable write. Never falls.
    pub(super) fn note(&self, writes: u64) {
        if let Some(file) = &self.0
            && self.writes() < writes
        {
            // Without it the origin of the file still counts.
            let _ = file.set_len(writes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lasting_machine_id_counts() {
        let id = b"0123456789abcdef0123456789abcdef\n".to_vec();
        let known = lasting(id.clone(), None).expect("an identity");
        assert_eq!(lasting(id.clone(), Some(b"f".repeat(32))), Some(known));
        assert_eq!(lasting(id.clone(), Some(id)), None, "made at this start");
        for other in [&b""[..], b"uninitialized\n", b"0123456789abcdef0123456789abcdeg"] {
            assert_eq!(lasting(other.to_vec(), None), None);
        }
        assert_ne!(lasting(b"f".repeat(32), None), Some(known));
    }

    #[test]
    fn unknown_parts_are_not_compared() {
        let origin = Origin { machine: Some([1; 16]), inode: Some(2), birth: Some(3) };
        let home = Home { state: [0; 16], writes: 5, origin };
        let check = |origin, witnessed, trust| {
            home.check(&origin, witnessed, trust).map_err(|kind| format!("{kind:?}"))
        };
        let last = |origin| check(origin, 0, Trust::Last);
        assert_eq!(last(origin), Ok(()));
        assert_eq!(last(Origin::default()), Ok(()));
        assert_eq!(last(Origin { inode: Some(9), ..origin }), Err("Copied".into()));
        assert_eq!(last(Origin { birth: Some(9), ..origin }), Err("Copied".into()));
        assert_eq!(last(Origin { machine: Some([9; 16]), ..origin }), Err("OtherMachine".into()));
        assert_eq!(check(origin, 5, Trust::Last), Ok(()));
        assert_eq!(check(origin, 6, Trust::Last), Err("Older".into()));
        let moved = Origin { machine: Some([9; 16]), inode: Some(9), birth: Some(9) };
        assert_eq!(check(moved, 5, Trust::Moved), Ok(()));
        assert_eq!(check(moved, 6, Trust::Moved), Err("Older".into()), "used since, whatever is said");
    }

    #[test]
    fn next_file_keeps_what_is_out_of_sight() {
        let first =
            Home::after(None, Origin { machine: Some([1; 16]), inode: Some(2), birth: None }).unwrap();
        let second =
            Home::after(Some(first), Origin { machine: None, inode: Some(3), birth: Some(4) }).unwrap();
        assert_eq!((second.state, first.writes, second.writes), (first.state, 1, 2));
        assert_eq!(second.origin, Origin { machine: Some([1; 16]), inode: Some(3), birth: Some(4) });
        assert_ne!(Home::after(None, Origin::default()).unwrap().state, first.state);
    }
}
