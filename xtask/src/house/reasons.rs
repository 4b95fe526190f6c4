//! Each `#[allow]` and `#[expect]` has a reason: `reason = "..."`, or a comment above or behind it.

use super::{Fault, Source};

pub(super) const REMEDY: &str = "add `reason = \"...\"`, or remove the attribute";

/// Attributes without a reason.
pub(super) fn faults(sources: &[Source]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources {
        let lines: Vec<&str> = source.text.lines().collect();
        for word in ["allow", "expect"] {
            for at in source.words(word).filter(|at| is_attribute(&source.code[..*at])) {
                let line = source.line(at);
                let end = source.code[at..].find(']').map_or(source.code.len(), |end| at + end);
                let has_reason = source.code[at..end].contains("reason");
                let above = line.checked_sub(2).map_or("", |above| lines[above]).trim_start();
                let has_comment = above.starts_with("// ") || lines[line - 1].contains("] //");
                if source.code[at + word.len()..].starts_with('(') && !has_reason && !has_comment {
                    faults.push(Fault::new(&source.path, line, format!("`#[{word}]` without a reason")));
                }
            }
        }
    }
    faults.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    faults
}

/// True inside the brackets of an attribute.
fn is_attribute(before: &str) -> bool {
    let open = before.rfind("#[").max(before.rfind("#!["));
    open.is_some_and(|open| !before[open..].contains(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_without_reason_are_found() {
        let text = "#[allow(unsafe_code)]\nfn a() {}\n#[allow(unsafe_code, reason = \"C\")]\nfn b() {}\n\
                    // The caller checks.\n#[expect(dead_code)]\nfn c() {}\n\
                    #![allow(x)]\nresult.expect(\"x\");\n\
                    #[cfg_attr(test, allow(y))]\n#[allow(z)] // C\n";
        let found: Vec<usize> =
            faults(&[Source::new("a.rs", text)]).into_iter().map(|fault| fault.line).collect();
        assert_eq!(found, [1, 8, 10]);
    }
}
