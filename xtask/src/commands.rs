//! Commands in the documents: the lines of code blocks, and code within sentences. Each program
//! holds those of its own command line against it; `crates/cli` includes this file.

use std::fs;
use std::path::{Path, PathBuf};

/// A command that a document shows.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    /// The document and its line.
    pub place: String,
    /// The words behind the program's name.
    pub words: Vec<String>,
    /// Whether arguments are left out: the command stands within a sentence, or has `...`.
    pub is_open: bool,
}

/// The Markdown documents of the project: path and text.
pub fn documents(root: &Path) -> Vec<(String, String)> {
    let files = |folder: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    let mut paths: Vec<PathBuf> = ["", "docs", "docs/src", "peers"].into_iter().flat_map(files).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    paths.iter().filter_map(|path| Some((name(path), fs::read_to_string(path).ok()?))).collect()
}

/// Languages of programs in blocks.
const PROGRAMS: [&str; 5] = ["c", "cmake", "js", "python", "rust"];

/// The commands of a document that begin with the words `program`.
pub fn commands(name: &str, text: &str, program: &[&str]) -> Vec<Shown> {
    let mut found = Vec::new();
    let mut add = |line: usize, text: &str, is_open: bool| {
        for words in alternatives(text) {
            let words: Vec<String> = words.into_iter().skip_while(|word| is_before(word)).collect();
            let is_it = words.len() >= program.len() && words.iter().zip(program).all(|(a, b)| a == b);
            if let Some(rest) = words.get(program.len()..).filter(|_| is_it) {
                // Options in brackets are left out, and the words behind them.
                let left_out = |word: &String| word.ends_with("..") || word.starts_with('[');
                let is_open = is_open || rest.iter().any(left_out);
                let words = rest.iter().take_while(|word| !left_out(word)).cloned().collect();
                found.push(Shown { place: format!("{name}:{line}"), words, is_open });
            }
        }
    };
    let (mut is_fenced, mut is_program) = (false, false);
    let (mut begun, mut paragraph) = (None, String::new());
    for (at, line) in text.lines().chain([""]).enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_fenced = !is_fenced;
            is_program = is_fenced && PROGRAMS.contains(&language);
        } else if is_program {
            // Its words are no commands.
        } else if is_fenced || line.starts_with("    ") {
            let (first, whole) = begun.take().unwrap_or((at + 1, String::new()));
            match line.strip_suffix('\\') {
                Some(part) => begun = Some((first, whole + part)),
                None => add(first, &(whole + line), false),
            }
        } else if line.is_empty() {
            let mut begun = at - paragraph.lines().count();
            for (index, code) in paragraph.split('`').enumerate() {
                if index % 2 == 1 {
                    // A bar in a table has a backslash.
                    add(begun + 1, &code.replace('\n', " ").replace("\\|", "|"), true);
                }
                begun += code.matches('\n').count();
            }
            paragraph.clear();
        } else {
            paragraph = paragraph + line + "\n";
        }
    }
    found
}

/// True for words before a program: a prompt, `sudo`, a variable.
fn is_before(word: &str) -> bool {
    let is_variable = |name: &str| name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    ["$", "sudo"].contains(&word) || word.split_once('=').is_some_and(|(name, _)| is_variable(name))
}

/// The simple commands of a shell's line. `a|b` within a word stands for two commands.
fn alternatives(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words) = (Vec::new(), Vec::new());
    let (mut word, mut quote): (Option<String>, Option<char>) = (None, None);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        let ends = rest.peek().is_none_or(|next| next.is_whitespace());
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => (quote, word) = (Some(c), Some(word.unwrap_or_default())),
            (None, '#') if word.is_none() => break,
            (None, '|') if word.is_some() && !ends => word.get_or_insert_default().push(c),
            (None, '&' | '|' | ';' | '>' | '<' | '(' | ')') => {
                words.extend(word.take());
                commands.push(std::mem::take(&mut words));
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    commands.push(words);
    commands.iter().flat_map(|words| either(words)).collect()
}

fn either(words: &[String]) -> Vec<Vec<String>> {
    let Some(at) = words.iter().position(|word| word.contains('|')) else { return vec![words.to_vec()] };
    let with = |one: &str| [&words[..at], &[one.to_string()], &words[at + 1..]].concat();
    words[at].split('|').flat_map(|one| either(&with(one))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let found = commands("a.md", text, &["antedate"]);
        let say =
            |s: &Shown| format!("{} {}{}", s.place, s.words.join(","), if s.is_open { " .." } else { "" });
        found.iter().map(say).collect()
    }

    #[test]
    fn commands_of_blocks_are_found() {
        let text = "See\n\n    sudo antedate a 'b #' -c   # antedate d\n    x; antedate e --f \\\n      g &\n\n```text\n\
                    $ antedate h|i ...\n```\n";
        assert_eq!(shown(text), ["a.md:3 a,b #,-c", "a.md:4 e,--f,g", "a.md:8 h ..", "a.md:8 i .."]);
    }

    #[test]
    fn programs_have_no_commands() {
        let text = "```js\nrequire(\"antedate\");\n```\n\n```\nantedate a\n```\n";
        assert_eq!(shown(text), ["a.md:6 a"]);
    }

    #[test]
    fn commands_within_sentences_are_open() {
        let text = "Call `antedate\na b` or `A=c antedate d\\|e [--f G]`, not `antedated` or antedate.\n";
        assert_eq!(shown(text), ["a.md:1 a,b ..", "a.md:2 d ..", "a.md:2 e .."]);
    }
}
