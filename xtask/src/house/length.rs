//! The line length of `docs/capabilities.md`: at most 200 characters.

use super::{Fault, verdict};
use xtask::report::StepResult;
use xtask::shell::root;

const FILE: &str = "docs/capabilities.md";
const MAX: usize = 200;

const REMEDY: &str = "say it in fewer words, or move the numbers into the book";

/// The table of capabilities.
pub(super) fn check() -> StepResult {
    let text = std::fs::read_to_string(root().join(FILE)).map_err(|e| format!("{FILE}: {e}"))?;
    verdict(&faults(&text), REMEDY, format!("{} lines", text.lines().count()))
}

fn faults(text: &str) -> Vec<Fault> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.chars().count()));
    let long = lines.filter(|(_, length)| *length > MAX);
    long.map(|(line, length)| Fault::new(FILE, line, format!("line of {length} characters"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_found() {
        let text = format!("{}\n{}\n", "é".repeat(200), "é".repeat(201));
        assert_eq!(faults(&text), [Fault::new(FILE, 2, "line of 201 characters".to_string())]);
    }
}
