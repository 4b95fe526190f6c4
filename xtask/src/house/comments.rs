//! The length of comment lines: at most 110 columns.

use super::{Fault, Source};

/// The longest comment line.
const MAX: usize = 110;
/// A word of this length (such as an address) cannot be broken.
const UNBREAKABLE: usize = 80;

pub(super) const REMEDY: &str = "break the comment at 100 columns, or say it in fewer words";

/// Lines with a comment that are too long.
pub(super) fn faults(sources: &[Source]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources {
        for (at, (line, code)) in source.text.lines().zip(source.code.lines()).enumerate() {
            let columns = line.chars().count();
            let is_comment = code.trim().is_empty() && !line.trim().is_empty();
            let follows_code = code.trim_end().len() < line.trim_end().len() && line.contains("//");
            let breaks = line.split_whitespace().all(|word| word.chars().count() < UNBREAKABLE);
            if columns > MAX && breaks && (is_comment || follows_code) {
                faults.push(Fault::new(&source.path, at + 1, format!("comment line of {columns} columns")));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        faults(&[Source::new("a.rs", text)]).into_iter().map(|fault| fault.line).collect()
    }

    #[test]
    fn long_comment_lines_are_found() {
        let words = "word ".repeat(22);
        assert_eq!(lines(&format!("// {words}\n/// {}\n", &words[..100])), [1]);
        assert_eq!(lines(&format!("fn a() {{}}\nlet a = 1; // {words}")), [2]);
        assert_eq!(lines(&format!("/*\n {words}x\n*/")), [2]);
    }

    #[test]
    fn code_and_addresses_may_be_long() {
        assert_eq!(lines(&format!("let a = \"{}\";", "word ".repeat(30))), [0; 0]);
        assert_eq!(lines(&format!("let a = \"\n{}\n\";", "word ".repeat(30))), [0; 0]);
        assert_eq!(lines(&format!("// see https://{}", "a".repeat(110))), [0; 0]);
    }
}
