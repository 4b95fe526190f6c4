//! Errors are types: no `Result<_, String>` outside `xtask`, `xtask-peers`, `bench` and tests.

use super::{Fault, Source};

pub(super) const REMEDY: &str = "give the crate's error type a variant for it";

/// `Result`s whose error is a string.
pub(super) fn faults(sources: &[Source]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| !may_have_strings(&source.path)) {
        for at in source.words("Result") {
            let rest = source.code[at + "Result".len()..].trim_start();
            if rest.strip_prefix('<').and_then(last_argument) == Some("String") {
                let what = "a `Result` whose error is a string".to_string();
                faults.push(Fault::new(&source.path, source.line(at), what));
            }
        }
    }
    faults
}

/// True for tests, and for programs that print their errors and end.
fn may_have_strings(path: &str) -> bool {
    let tools = ["xtask", "bench/"];
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    is_test || tools.iter().any(|tool| path.starts_with(tool))
}

/// The second of the type arguments after `<`.
fn last_argument(arguments: &str) -> Option<&str> {
    let (mut depth, mut from) = (0_i32, None);
    for (at, c) in arguments.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            // The arrow of a function type closes no bracket.
            '>' if arguments[..at].ends_with('-') => {}
            '>' if depth == 0 => {
                return from.map(|from: usize| arguments[from..at].trim().trim_end_matches(','));
            }
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 && from.is_none() => from = Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        faults(&[Source::new(path, text)]).into_iter().map(|fault| fault.line).collect()
    }

    #[test]
    fn string_errors_are_found() {
        let text = "fn a() -> Result<(), String>;\nfn b() -> Result<Vec<(u8, u16)>, String>;\n\
                    fn c() -> Result<String, Fault>;\nfn d() -> Result<fn(u8) -> u8, String>;\n\
                    // Result<(), String>\nfn e() -> Result<\n    u8,\n    String,\n>;";
        assert_eq!(lines("crates/a/src/lib.rs", text), [1, 2, 4, 6]);
        for path in ["xtask/src/main.rs", "bench/src/main.rs", "crates/a/tests/b.rs"] {
            assert_eq!(lines(path, text), [0; 0], "{path}");
        }
    }
}
