//! What happens to a sender's state directory between two runs, or during one. The right files are
//! moved aside and back, never rewritten.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use antedate_host::numbers::NAME;

/// A change of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    /// The file is gone.
    Missing,
    /// The file has no octet.
    Empty,
    /// The file ends in its middle.
    Truncated,
    /// The front of the file, and the rest of an older one.
    Torn,
    /// The directory was moved away.
    NoDirectory,
    /// An older file is in the place of the last one.
    OlderFile,
    /// A copy of the directory that was made earlier is in its place.
    OlderDirectory,
    /// A copy of the last file is in its place.
    Copy,
}

impl Change {
    /// Changes that a start must refuse, and the words of the refusal.
    pub(super) const REFUSED: [(Self, &'static str); 8] = [
        (Self::OlderDirectory, "the state file is older than the one that was written last"),
        (Self::Copy, "the state file is a copy or was restored"),
        (Self::OlderFile, "the state file is older than the one that was written last"),
        (Self::Missing, "there is no state file"),
        (Self::Empty, "the state file is damaged"),
        (Self::Truncated, "the state file is damaged"),
        (Self::Torn, "the state file is damaged"),
        (Self::NoDirectory, "there is no such directory"),
    ];
    /// Changes that a running process must notice before its next reservation, and its words.
    pub(super) const NOTICED: [(Self, &'static str); 3] = [
        (Self::Missing, "changed or removed while this process used it"),
        (Self::OlderFile, "changed or removed while this process used it"),
        (Self::OlderDirectory, "moved or exchanged while this process used it"),
    ];
}

/// A state directory, and an early copy of its file.
#[derive(Debug)]
pub(super) struct State {
    directory: PathBuf,
    older: Vec<u8>,
}

impl State {
    /// Takes an early copy of a state.
    pub(super) fn of(directory: &Path) -> io::Result<Self> {
        let older = fs::read(directory.join(NAME))?;
        Ok(Self { directory: directory.to_owned(), older })
    }

    fn file(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// The place of what is moved aside.
    fn aside(&self) -> PathBuf {
        self.directory.with_extension("aside")
    }

    /// Makes a change.
    pub(super) fn change(&self, change: Change) -> io::Result<()> {
        let right = fs::read(self.file())?;
        if matches!(change, Change::NoDirectory | Change::OlderDirectory) {
            fs::rename(&self.directory, self.aside())?;
            if change == Change::OlderDirectory {
                DirBuilder::new().mode(0o700).create(&self.directory)?;
                self.write(&self.older)?;
            }
            return Ok(());
        }
        fs::rename(self.file(), self.aside())?;
        match change {
            Change::Empty => self.write(&[]),
            Change::Truncated => self.write(&right[..right.len() / 2]),
            Change::Torn => {
                let front = right.iter().zip(&self.older).take_while(|(now, then)| now == then).count();
                let whole =
                    [&right[..=front.min(right.len() - 1)], self.older.get(front + 1..).unwrap_or(b"")];
                self.write(&whole.concat())
            }
            Change::OlderFile => self.write(&self.older),
            Change::Copy => self.write(&right),
            _ => Ok(()),
        }
    }

    fn is_overwritten(&self, change: Change) -> io::Result<bool> {
        match fs::read(self.file()) {
            Ok(found) => Ok(change == Change::Missing || found != self.older),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn write(&self, content: &[u8]) -> io::Result<()> {
        let mut open = fs::OpenOptions::new();
        let mut file = open.write(true).create(true).truncate(true).mode(0o600).open(self.file())?;
        io::Write::write_all(&mut file, content)
    }

    /// Undoes a change. A file that the process put there afterwards stays: it had begun to write
    /// before the change, and what was moved aside is older.
    pub(super) fn restore(&self, change: Change) -> io::Result<()> {
        match change {
            Change::Missing | Change::OlderFile if self.is_overwritten(change)? => {
                fs::remove_file(self.aside())
            }
            Change::NoDirectory | Change::OlderDirectory => {
                if self.directory.exists() {
                    fs::remove_dir_all(&self.directory)?;
                }
                fs::rename(self.aside(), &self.directory)
            }
            _ => fs::rename(self.aside(), self.file()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_host::numbers::{KeyId, NumberFile, Place, Reservation};

    #[test]
    fn each_change_is_refused_and_undone() {
        let desk = tempfile::tempdir().expect("a directory");
        let place = desk.path().join("state");
        let key = KeyId::new("kind", &[1]);
        let mut file = NumberFile::create(&place).expect("made");
        let mut numbers = Reservation::open(&file, key, 1 << 40).expect("known");
        numbers.extend(&mut file, 100).expect("written");
        let state = State::of(&place).expect("copied");
        numbers.extend(&mut file, 100_000).expect("written");
        drop(file);
        for (change, words) in Change::REFUSED {
            state.change(change).expect("changed");
            let error = NumberFile::open(&place).expect_err("refused").to_string();
            assert!(error.contains(words), "{change:?}: {error}");
            state.restore(change).expect("undone");
            let next = NumberFile::open(&place).expect("opened").next(&key).expect("known");
            assert_eq!(next, 100_001, "{change:?}");
        }
        for (change, words) in Change::NOTICED {
            let mut file = NumberFile::open(&place).expect("opened");
            state.change(change).expect("changed");
            let error = numbers.extend(&mut file, 200_000).expect_err("noticed").to_string();
            assert!(error.contains(words), "{change:?}: {error}");
            state.restore(change).expect("undone");
        }
    }

    #[test]
    fn write_that_was_under_way_stays() {
        let desk = tempfile::tempdir().expect("a directory");
        let place = desk.path().join("state");
        let key = KeyId::new("kind", &[1]);
        let mut file = NumberFile::create(&place).expect("made");
        file.reserve(&[(key, 10)]).expect("written");
        let state = State::of(&place).expect("copied");
        for (round, change) in [Change::Missing, Change::OlderFile].into_iter().enumerate() {
            let limit = 1_000 * (round as u64 + 1);
            let during = || state.change(change);
            file.raise_with(&[(key, Place([0; 8]), limit)], during).expect("written over it");
            drop(file);
            state.restore(change).expect("undone");
            file = NumberFile::open(&place).expect("the last write is there");
            assert_eq!(file.bound(&key, Place([0; 8])), limit);
        }
    }
}
