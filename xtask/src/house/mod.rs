//! House rules as steps of `cargo xtask test`: each fault comes with file, line and remedy.

use std::fmt;
use xtask::report::{StepResult, Stop};
use xtask::shell::root;

mod circles;
mod comments;
mod errors;
mod length;
mod one_way;
mod oracles;
mod reasons;
mod results;
mod source;
mod subjects;
mod test_names;
mod unsafe_places;

use source::Source;

/// A broken rule.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    file: String,
    line: usize,
    what: String,
}

impl Fault {
    fn new(file: &str, line: usize, what: String) -> Self {
        Self { file: file.to_string(), line, what }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// The most faults that a check prints.
const SHOWN: usize = 60;

/// A step's name and its check.
type Check = (&'static str, fn() -> StepResult);

pub(crate) const CHECKS: [Check; 11] = [
    ("house comments", || over_sources(comments::faults, comments::REMEDY)),
    ("house test names", || over_sources(test_names::faults, test_names::REMEDY)),
    ("house circles", || over_sources(circles::faults, circles::REMEDY)),
    ("house crates", one_way::check),
    ("house oracles", oracles::check),
    ("house results", || over_sources(results::faults, results::REMEDY)),
    ("house errors", || over_sources(errors::faults, errors::REMEDY)),
    ("house reasons", || over_sources(reasons::faults, reasons::REMEDY)),
    ("house unsafe", || over_sources(unsafe_places::faults, unsafe_places::REMEDY)),
    ("house subjects", subjects::check),
    ("house line length", length::check),
];

fn over_sources(faults: fn(&[Source]) -> Vec<Fault>, remedy: &str) -> StepResult {
    let sources = source::all(&root())?;
    verdict(&faults(&sources), remedy, format!("{} files", sources.len()))
}

/// Passes without faults; otherwise lists them and the remedy.
fn verdict(faults: &[Fault], remedy: &str, note: String) -> StepResult {
    if faults.is_empty() {
        return Ok(note);
    }
    let mut lines: Vec<String> = faults.iter().take(SHOWN).map(Fault::to_string).collect();
    if faults.len() > SHOWN {
        lines.push(format!("and {} more", faults.len() - SHOWN));
    }
    Err(Stop::Failed(format!("{} faults; {remedy}\n{}", faults.len(), lines.join("\n"))))
}
