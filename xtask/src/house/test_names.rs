//! The length of test names: at most 60 characters.

use super::source::is_word;
use super::{Fault, Source};

const MAX: usize = 60;

pub(super) const REMEDY: &str = "name the test in three to six words (`replayed_fragment_is_dropped`)";

/// Tests with longer names.
pub(super) fn faults(sources: &[Source]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources {
        for at in source.words("fn").filter(|at| is_test(&source.code[..*at])) {
            let rest = source.code[at + 2..].trim_start();
            let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
            let length = name.chars().count();
            if length > MAX {
                let what = format!("test name of {length} characters: {name}");
                faults.push(Fault::new(&source.path, source.line(at), what));
            }
        }
    }
    faults
}

/// True if the attributes before a function contain `test`.
fn is_test(before: &str) -> bool {
    let mut before = before.trim_end();
    for word in ["async", "unsafe"] {
        before = before.strip_suffix(word).map_or(before, str::trim_end);
    }
    while before.ends_with(']') {
        let Some(open) = before.rfind("#[") else { return false };
        let attribute = before[open + 2..before.len() - 1].trim();
        let name = attribute.split('(').next().unwrap_or_default();
        if name == "test" || name.ends_with("::test") {
            return true;
        }
        before = before[..open].trim_end();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_of_tests_are_found() {
        let long = "a_".repeat(31);
        let text = format!(
            "#[test]\nfn {long}() {{}}\n#[test]\n#[ignore = \"slow\"]\nfn {long}() {{}}\nfn {long}() {{}}\n\
             #[tokio::test]\nasync fn {long}() {{}}\n#[test]\nfn short() {{}}\n#[inline]\nfn {long}() {{}}\n"
        );
        let found: Vec<usize> =
            faults(&[Source::new("a.rs", &text)]).into_iter().map(|fault| fault.line).collect();
        assert_eq!(found, [2, 5, 8]);
    }
}
