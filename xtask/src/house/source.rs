//! The Rust files of the workspace, with comments and literals separated from code.

use std::fs;
use std::path::Path;

/// The folders with Rust code.
const FOLDERS: [&str; 8] = ["crates", "xtask", "xtask-peers", "bench", "fuzz", "firmware", "python", "node"];

pub(super) struct Source {
    /// Its path below the workspace's root.
    pub(super) path: String,
    pub(super) text: String,
    /// The text with spaces for comments and dots for the contents of literals; lines and columns
    /// are unchanged.
    pub(super) code: String,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_string(), text: text.to_string(), code: code(text) }
    }

    /// The line of an offset, counted from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        1 + self.code[..offset].matches('\n').count()
    }

    /// The offsets of a whole word in the code.
    pub(super) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.code.match_indices(word).map(|(at, _)| at).filter(move |at| {
            let before = self.code[..*at].chars().next_back();
            let after = self.code[at + word.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    }
}

/// True for the characters of identifiers.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// All Rust files, in the order of their paths, without build products and hidden folders.
pub(super) fn all(root: &Path) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    let mut folders: Vec<_> = FOLDERS.iter().map(|name| root.join(name)).filter(|dir| dir.is_dir()).collect();
    while let Some(dir) = folders.pop() {
        let entries = fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && name != "node_modules" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
                let short = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                sources.push(Source::new(&short, &text));
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

/// Replaces comments by spaces and the contents of literals by dots.
fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut fill = |from: usize, to: usize, with: u8| {
        out[from..to.min(bytes.len())]
            .iter_mut()
            .filter(|byte| **byte != b'\n')
            .for_each(|byte| *byte = with);
    };
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let in_word = at > 0 && is_word(bytes[at - 1] as char);
        let end = match rest[0] {
            b'/' if rest.starts_with(b"//") => {
                let end = at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                fill(at, end, b' ');
                end
            }
            b'/' if rest.starts_with(b"/*") => {
                let end = at + block_comment(rest);
                fill(at, end, b' ');
                end
            }
            b'"' => {
                let end = at + string(rest);
                fill(at + 1, end - 1, b'.');
                end
            }
            b'r' if !in_word || matches!(bytes[at - 1], b'b' | b'c') => match raw_string(rest) {
                Some((open, length)) => {
                    fill(at + open, at + length, b'.');
                    at + length
                }
                None => at + 1,
            },
            b'\'' => match character(rest) {
                Some(length) => {
                    fill(at + 1, at + length - 1, b'.');
                    at + length
                }
                None => at + 1,
            },
            _ => at + 1,
        };
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// The lengths of a raw string's opening and of the whole raw string.
fn raw_string(rest: &[u8]) -> Option<(usize, usize)> {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    let open = hashes + 2;
    if rest.get(open - 1) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let end = rest[open..].windows(close.len()).position(|window| window == close);
    Some((open, end.map_or(rest.len(), |end| open + end + close.len())))
}

/// The length of a character literal; `None` for a lifetime.
fn character(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        let end = rest[3..].iter().position(|byte| *byte == b'\'')?;
        return Some(end + 4);
    }
    let text = std::str::from_utf8(&rest[1..rest.len().min(6)]);
    let first = match text {
        Ok(text) => text.chars().next()?,
        Err(e) => std::str::from_utf8(&rest[1..1 + e.valid_up_to()]).ok()?.chars().next()?,
    };
    (rest.get(1 + first.len_utf8()) == Some(&b'\'')).then_some(first.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_filled() {
        for (text, wanted) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("unsafe \" x", 1)"#, r#"f("...........", 1)"#),
            ("r#\"a \" b\"# c", "r#\"....... c"),
            ("br\"a\\\" c", "br\"... c"),
            ("'a' 'b: '\\'' '\\u{1}' c", "'.' 'b: '..' '.....' c"),
            ("'é' x", "'..' x"),
            ("attr\"x\"", "attr\".\""),
        ] {
            assert_eq!(code(text), wanted, "{text}");
            assert_eq!(code(text).len(), text.len());
        }
    }

    #[test]
    fn words_are_whole() {
        let source = Source::new("a.rs", "unsafe_code\n unsafe { } // unsafe\n not_unsafe");
        let found: Vec<usize> = source.words("unsafe").map(|at| source.line(at)).collect();
        assert_eq!(found, [2]);
    }
}
