//! The imported paths of a file, by a scan of its words: `use` trees, and paths that begin with
//! `crate`, `super`, `self`.

use super::super::source::is_word;

/// A path, word by word.
pub(super) type Path = Vec<String>;

#[derive(Default)]
pub(super) struct Imports {
    /// Line and path of each.
    pub(super) uses: Vec<(usize, Path)>,
    /// The names that `pub use` exports (`*` for all), and their paths.
    pub(super) exports: Vec<(String, Path)>,
    /// Test-only modules in their own files.
    pub(super) test_modules: Vec<String>,
}

/// A word or a sign, and its line.
#[derive(Clone, Copy)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

impl Imports {
    /// Reads code without comments and literals.
    pub(super) fn of(code: &str) -> Self {
        let tokens = tokens(code);
        let mut imports = Self::default();
        let mut at = 0;
        while at < tokens.len() {
            at = imports.item(&tokens, at);
        }
        imports
    }

    /// Reads the item at a token, and returns the position of the next.
    fn item(&mut self, tokens: &[Token<'_>], at: usize) -> usize {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
        if is_test_attribute(tokens, at) {
            if let Some(end) = self.test_module(tokens, at) {
                return end;
            }
        } else if text(at) == "use" && text(at + 1) != "<" {
            let end = (at..tokens.len()).find(|at| text(*at) == ";").unwrap_or(tokens.len());
            let mut tree = &tokens[at + 1..end];
            let mut leaves = Vec::new();
            leaves_of(&mut tree, &[], &mut leaves);
            let is_public = is_public(tokens, at);
            for (path, name) in leaves {
                if is_public {
                    self.exports.push((name, path.clone()));
                }
                self.uses.push((tokens[at].line, path));
            }
            return end + 1;
        } else if ["crate", "super", "self"].contains(&text(at)) && text(at + 1) == "::" {
            let mut path = vec![text(at).to_string()];
            let mut end = at + 1;
            while text(end) == "::" && text(end + 1).starts_with(is_word) {
                path.push(text(end + 1).to_string());
                end += 2;
            }
            if path.len() > 1 {
                self.uses.push((tokens[at].line, path));
            }
            return end;
        }
        at + 1
    }

    /// Skips the module after the attribute, if there is one, and returns its end.
    fn test_module(&mut self, tokens: &[Token<'_>], at: usize) -> Option<usize> {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
        let mut at = at;
        while text(at) == "#" {
            at = after(tokens, at + 1, "[", "]");
        }
        if text(at) == "pub" {
            at = if text(at + 1) == "(" { after(tokens, at + 1, "(", ")") } else { at + 1 };
        }
        match (text(at), text(at + 2)) {
            ("mod", "{") => Some(after(tokens, at + 2, "{", "}")),
            ("mod", ";") => {
                self.test_modules.push(text(at + 1).to_string());
                Some(at + 3)
            }
            _ => None,
        }
    }
}

/// True at `#[cfg(test...` and `#[cfg(all(test...`.
fn is_test_attribute(tokens: &[Token<'_>], at: usize) -> bool {
    let begins = |words: &[&str]| {
        words.iter().enumerate().all(|(i, word)| tokens.get(at + i).is_some_and(|token| token.text == *word))
    };
    begins(&["#", "[", "cfg", "(", "test"]) || begins(&["#", "[", "cfg", "(", "all", "(", "test"])
}

/// The position after the bracket that closes the one at `at`.
fn after(tokens: &[Token<'_>], at: usize, open: &str, close: &str) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        depth += i32::from(token.text == open) - i32::from(token.text == close);
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// True if `pub` or `pub(...)` precedes.
fn is_public(tokens: &[Token<'_>], at: usize) -> bool {
    let before = &tokens[..at];
    let open = before.iter().rposition(|token| token.text == "(");
    match before.last().map(|token| token.text) {
        Some("pub") => true,
        Some(")") => open.is_some_and(|open| open > 0 && tokens[open - 1].text == "pub"),
        _ => false,
    }
}

/// The paths of a `use` tree, each with its imported name.
fn leaves_of(tree: &mut &[Token<'_>], prefix: &[String], leaves: &mut Vec<(Path, String)>) {
    let mut path = prefix.to_vec();
    while let [token, rest @ ..] = *tree {
        match token.text {
            "{" => {
                *tree = rest;
                while !matches!(tree.first().map(|t| t.text), None | Some("}")) {
                    leaves_of(tree, &path, leaves);
                }
                *tree = tree.get(1..).unwrap_or_default();
                if tree.first().map(|t| t.text) == Some(",") {
                    *tree = &tree[1..];
                }
                return;
            }
            "}" => break,
            "," => {
                *tree = rest;
                break;
            }
            "as" => {
                let name = rest.first().map_or("", |token| token.text).to_string();
                *tree = rest.get(1..).unwrap_or_default();
                if tree.first().map(|t| t.text) == Some(",") {
                    *tree = &tree[1..];
                }
                leaves.push((path, name));
                return;
            }
            "::" => *tree = rest,
            "self" if !path.is_empty() => *tree = rest,
            word => {
                path.push(word.to_string());
                *tree = rest;
            }
        }
    }
    if let Some(name) = path.last().cloned() {
        leaves.push((path, name));
    }
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut line, mut rest) = (Vec::new(), 1, code);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        let (text, next) = rest.split_at(length);
        if !first.is_whitespace() {
            tokens.push(Token { text, line });
        }
        line += usize::from(first == '\n');
        rest = next;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(code: &str) -> Vec<String> {
        Imports::of(code).uses.iter().map(|(line, path)| format!("{line} {}", path.join("::"))).collect()
    }

    #[test]
    fn use_trees_are_taken_apart() {
        let code = "use a::{b, c::{self, d as e}, f::*};\nuse crate::{\n  x,\n};";
        assert_eq!(paths(code), ["1 a::b", "1 a::c", "1 a::c::d", "1 a::f::*", "2 crate::x"]);
    }

    #[test]
    fn paths_in_code_are_found() {
        assert_eq!(paths("fn a() { super::b::c::<u8>(self.x, crate::D) }"), ["1 super::b::c", "1 crate::D"]);
        assert_eq!(paths("fn a() -> impl Fn() + use<'a> {}"), [""; 0]);
    }

    #[test]
    fn exports_have_their_names() {
        let code = "pub use a::{b as c};\npub(crate) use d::*;\nfn f(x: u8)\n{}\nuse g::h;";
        let exports = Imports::of(code).exports;
        let told: Vec<String> =
            exports.iter().map(|(name, path)| format!("{name}={}", path.join("::"))).collect();
        assert_eq!(told, ["c=a::b", "*=d::*"]);
    }
}
