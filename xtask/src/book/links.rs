//! Links of Markdown (inline links, images and definitions): their target files and headings.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A link and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

/// The links of a document, without those in code.
pub(super) fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, prose) in prose(text) {
        let mut rest = prose.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            if let Some(target) = target(rest) {
                links.push(Link { line, target });
            }
        }
        let definition = prose.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]:"));
        if let Some((_, target)) = definition {
            let target = target.split_whitespace().next().unwrap_or_default();
            links.push(Link { line, target: target.trim_matches(['<', '>']).to_string() });
        }
    }
    links
}

/// The destination after `](`: up to its closing bracket, without a title.
fn target(rest: &str) -> Option<String> {
    if let Some(rest) = rest.strip_prefix('<') {
        return rest.split_once('>').map(|(target, _)| target.to_string());
    }
    let mut depth = 0;
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return rest[..at].split_whitespace().next().map(str::to_string),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The lines outside fenced code, with inline code removed.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => lines.push((at + 1, without_code(line))),
        }
    }
    lines
}

fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    // A backtick without its partner is text.
    let whole = parts.len() % 2 == 1;
    let kept = parts.iter().enumerate().filter(|(at, _)| !whole || at % 2 == 0);
    kept.map(|(_, part)| *part).collect::<Vec<_>>().join("``")
}

/// The fault of a link in a document; `None` for links to other hosts.
pub(super) fn fault(file: &Path, text: &str, target: &str) -> Option<String> {
    let is_elsewhere = ["http:", "https:", "mailto:"].iter().any(|scheme| target.starts_with(scheme));
    if is_elsewhere {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let other = file.parent()?.join(path);
    if !path.is_empty() && (path.starts_with('/') || !other.exists()) {
        return Some(format!("`{target}`: there is no such file"));
    }
    let anchor = anchor?;
    let known = if path.is_empty() {
        anchors(text)
    } else if path.ends_with(".md") {
        anchors(&fs::read_to_string(other).ok()?)
    } else {
        return None;
    };
    (!known.iter().any(|name| name == anchor)).then(|| format!("`{target}`: there is no heading `{anchor}`"))
}

/// The anchors of a document: its headings as mdBook and GitHub name them, and its HTML anchors.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    let inside = prose(text);
    for (at, raw) in text.lines().enumerate() {
        if !inside.iter().any(|(line, _)| *line == at + 1) {
            continue;
        }
        let title = raw.trim_start_matches('#');
        if raw.starts_with('#') && title.starts_with(' ') {
            if let Some((_, id)) = title.trim().strip_suffix('}').and_then(|title| title.split_once("{#")) {
                anchors.push(id.to_string());
                continue;
            }
            let name = slug(title.trim());
            let count = seen.entry(name.clone()).or_insert(0);
            anchors.push(if *count == 0 { name } else { format!("{name}-{count}") });
            *count += 1;
        }
        for mark in ["id=\"", "name=\""] {
            anchors
                .extend(raw.split(mark).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_string())));
        }
    }
    anchors
}

fn slug(title: &str) -> String {
    // A link in a heading counts as its text.
    let mut text = String::new();
    let mut rest = title;
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    let kept = text.chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_lowercase().next().unwrap_or(c)),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code() {
        let text = "see [a](b.md), ![c](d.svg \"e\") and [f](g_(h).md#i)\n```\n[no](no.md)\n```\n`[no](no.md)` [x]\n[x]: y.md\n";
        let found: Vec<String> = links(text).iter().map(|l| format!("{} {}", l.line, l.target)).collect();
        assert_eq!(found, ["1 b.md", "1 d.svg", "1 g_(h).md#i", "6 y.md"]);
    }

    #[test]
    fn headings_give_anchors() {
        let text = "# The `aead` crate, or: why\n## Same\n## Same\n```\n# not\n```\n## [Link](x.md) to\n## Own {#id}\n<a name=\"old\">\n";
        assert_eq!(anchors(text), ["the-aead-crate-or-why", "same", "same-1", "link-to", "id", "old"]);
    }

    #[test]
    fn broken_links_are_told() {
        let dir = std::env::temp_dir().join(format!("antedate-links-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder");
        let (file, text) = (dir.join("a.md"), "# Here\n");
        fs::write(dir.join("b.md"), "# There\n").expect("written");
        let told = |target: &str| fault(&file, text, target);
        for good in ["b.md", "b.md#there", "#here", "https://a.example/x", "."] {
            assert_eq!(told(good), None, "{good}");
        }
        for bad in ["c.md", "b.md#here", "#there", "/b.md"] {
            assert!(told(bad).is_some(), "{bad}");
        }
        fs::remove_dir_all(dir).expect("removed");
    }
}
