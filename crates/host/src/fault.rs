//! What is wrong with a file: where, what, and what would be right.
//!
//! Reading a configuration or a key file goes on after a fault, so that one call shows all of them. A fault never
//! carries key material: faults end up in logs.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is wrong with a file, or with the machine it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file that says it, or that is itself at fault.
    pub file: PathBuf,
    /// The line, counted from 1. `None` when the file as a whole is meant.
    pub line: Option<usize>,
    /// The key as it would be written with dots, `field.interface`. Empty when no key is meant.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
    /// The machine may become ready by itself, as when an interface is found late: trying again may help.
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

    /// A thread cannot be started, or what it needs.
    #[must_use]
    pub fn of_thread(file: &Path, error: &std::io::Error) -> Self {
        Self::of_file(file, format!("cannot start a thread: {error}"), "see ulimit -n and ulimit -u")
    }

    /// The file cannot be read or written at all.
    pub fn of_io(file: &Path, doing: &str, error: &std::io::Error, remedy: impl Into<String>) -> Self {
        Self::of_file(file, format!("cannot {doing}: {}", explain(error)), remedy)
    }
}

/// The remedy for `EMFILE`.
pub const MORE_FILES: &str = "allow more open files: ulimit -n";

/// The operating system's words without its number.
#[must_use]
pub fn explain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}

/// In two lines, `file:line: key: what` and the remedy; with `{:#}` in one, for logs.
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

/// Everything that is wrong, in the order of files and lines. Never empty when it is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl std::error::Error for Faults {}

impl Faults {
    /// The faults in the order in which a reader of the files meets them.
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

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is wrong but what may pass by itself.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        self.0.iter().all(|fault| fault.passing)
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One by one.
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

/// The name of `known` that is nearest to `wrong`, if one is near enough to be meant: mistyped, or the only one that begins so.
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

/// A remedy that offers the nearest known name, or all of them.
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
    fn faults_come_in_the_order_of_the_file() {
        let at = |line| Fault { line: Some(line), ..Fault::of_file(Path::new("a.toml"), "wrong", "") };
        let faults = Faults::new(vec![at(9), at(2), at(9)]);
        assert_eq!(faults.to_string(), "a.toml:2: wrong\na.toml:9: wrong");
    }

    #[test]
    fn a_log_has_a_fault_in_one_line() {
        let fault = Fault::of_file(Path::new("a.toml"), "wrong", "do right");
        assert_eq!(fault.to_string(), "a.toml: wrong\n    remedy: do right");
        assert_eq!(format!("{fault:#}"), "a.toml: wrong (remedy: do right)");
    }

    #[test]
    fn the_nearest_name_is_offered_and_a_far_one_is_not() {
        assert_eq!(nearest("intreface", ["interface", "mtu"]), Some("interface"));
        assert_eq!(nearest("Field", ["field", "uplink"]), Some("field"));
        assert_eq!(nearest("colour", ["interface", "mtu"]), None);
    }
}
