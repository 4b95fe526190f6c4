//! Faults of files: position, reason and remedy.
//!
//! Reading a configuration or a key file continues after a fault, so that one call reports all of
//! them. A fault never contains key material: faults are logged.

use std::fmt;
use std::path::{Path, PathBuf};

/// A fault of a file, or of the machine that the file describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file at fault, or the file whose setting is at fault.
    pub file: PathBuf,
    /// The line, counted from 1. `None` for the file as a whole.
    pub line: Option<usize>,
    /// The key with dots, as in `field.interface`. Empty for no key.
    pub key: String,
    /// The fault.
    pub what: String,
    /// The remedy.
    pub remedy: String,
    /// Whether the fault may pass by itself, as when an interface appears late. Then a retry may
    /// succeed.
    pub passing: bool,
}

impl Fault {
    /// A fault of a whole file.
    pub fn of_file(file: &Path, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            key: String::new(),
            what: what.into(),
            remedy: remedy.into(),
            passing: false,
        }
    }

    /// A thread, or a resource that it needs, cannot be created.
    #[must_use]
    pub fn of_thread(file: &Path, error: &std::io::Error) -> Self {
        Self::of_file(file, format!("cannot start a thread: {error}"), "see ulimit -n and ulimit -u")
    }

    /// The file cannot be read or written. A full medium has its own remedy, and may pass.
    pub fn of_io(file: &Path, doing: &str, error: &std::io::Error, remedy: impl Into<String>) -> Self {
        let passing = is_full(error);
        let remedy = if passing { ROOM.into() } else { remedy.into() };
        Self { passing, ..Self::of_file(file, format!("cannot {doing}: {}", explain(error)), remedy) }
    }
}

/// The remedy for `EMFILE`.
pub const MORE_FILES: &str = "allow more open files: ulimit -n";

/// The remedy for a full medium.
pub const ROOM: &str = "make room on its medium";

/// Whether a medium is full, or the user's part of it.
#[must_use]
pub fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

/// The operating system's error text without its number.
#[must_use]
pub fn explain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}

/// Two lines, `file:line: key: what` and the remedy; one line with `{:#}`, for logs.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.what)?;
        match (self.remedy.is_empty(), f.alternate()) {
            (true, _) => Ok(()),
            (false, false) => write!(f, "\n    remedy: {}", self.remedy),
            (false, true) => write!(f, " (remedy: {})", self.remedy),
        }
    }
}

/// All faults, in the order of files and lines. Never empty as an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl std::error::Error for Faults {}

impl Faults {
    /// Sorts the faults by file and line.
    #[must_use]
    pub fn new(mut faults: Vec<Fault>) -> Self {
        let mut files: Vec<PathBuf> = Vec::new();
        for fault in &faults {
            if !files.contains(&fault.file) {
                files.push(fault.file.clone());
            }
        }
        faults.sort_by_key(|fault| (files.iter().position(|file| *file == fault.file), fault.line));
        faults.dedup();
        Self(faults)
    }

    /// Number of faults.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether all faults may pass by themselves.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        self.0.iter().all(|fault| fault.passing)
    }

    /// Whether there are no faults.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the faults.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.0.iter()
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl IntoIterator for Faults {
    type Item = Fault;
    type IntoIter = std::vec::IntoIter<Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Faults {
    type Item = &'a Fault;
    type IntoIter = std::slice::Iter<'a, Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

/// The name in `known` that is nearest to `wrong`, if near enough: a typing error, or the only one
/// with this prefix.
#[must_use]
pub fn nearest<'k>(wrong: &str, known: impl IntoIterator<Item = &'k str> + Clone) -> Option<&'k str> {
    let wrong = wrong.to_lowercase();
    let mistyped = known
        .clone()
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wrong, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= (name.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name);
    let mut longer =
        known.into_iter().filter(|name| wrong.len() > 2 && name.to_lowercase().starts_with(&wrong));
    mistyped.or_else(|| longer.next().filter(|_| longer.next().is_none()))
}

/// A remedy that suggests the nearest known name, or all names.
#[must_use]
pub fn suggest<'k>(wrong: &str, known: impl IntoIterator<Item = &'k str> + Clone) -> String {
    match nearest(wrong, known.clone()) {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => format!("known: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_in_file_order() {
        let at = |line| Fault { line: Some(line), ..Fault::of_file(Path::new("a.toml"), "wrong", "") };
        let faults = Faults::new(vec![at(9), at(2), at(9)]);
        assert_eq!(faults.to_string(), "a.toml:2: wrong\na.toml:9: wrong");
    }

    #[test]
    fn log_form_is_one_line() {
        let fault = Fault::of_file(Path::new("a.toml"), "wrong", "do right");
        assert_eq!(fault.to_string(), "a.toml: wrong\n    remedy: do right");
        assert_eq!(format!("{fault:#}"), "a.toml: wrong (remedy: do right)");
    }

    #[test]
    fn full_medium_has_its_own_remedy() {
        let told = |errno| {
            let error = std::io::Error::from_raw_os_error(errno);
            let fault = Fault::of_io(Path::new("a"), "write it", &error, "give another");
            (fault.remedy.clone(), fault.passing)
        };
        assert_eq!(told(libc::ENOSPC), (ROOM.into(), true));
        assert_eq!(told(libc::EROFS), ("give another".into(), false));
    }

    #[test]
    fn only_near_names_are_suggested() {
        assert_eq!(nearest("intreface", ["interface", "mtu"]), Some("interface"));
        assert_eq!(nearest("Field", ["field", "uplink"]), Some("field"));
        assert_eq!(nearest("colour", ["interface", "mtu"]), None);
    }
}
