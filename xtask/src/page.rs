//! `cargo xtask page`: makes the book's copy of the report's page, and says how old it is.
//!
//! The copy has no links to files that the book lacks. Its origin stands in the chapter, between two
//! marks.

use crate::firmware;
use std::fs;
use std::path::{Path, PathBuf};
use xtask::setup::{self, Purpose};
use xtask::shell::{RELEASE, Run, antedate_of, build_product, cache, program, root};

const COPY: &str = "docs/src/figures/report.html";
const CHAPTER: &str = "docs/src/report.md";
const MARKS: [&str; 2] = ["<!-- page: begin -->", "<!-- page: end -->"];
/// The word before the commit in the chapter.
const COMMIT: &str = "commit ";
/// Seconds that a full report may take.
const LONGEST: u64 = 4 * 3600;
/// Folders whose changes make the copy old.
const MEASURED: [&str; 2] = ["crates", "firmware"];

/// Arguments of `cargo xtask page`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A short run, whose times are no measurement
    #[arg(long)]
    quick: bool,
    /// Run nothing: take the page of this report's folder
    #[arg(long, value_name = "DIR", conflicts_with = "quick")]
    from: Option<PathBuf>,
}

/// Runs the report in release, and copies its page into the book.
pub(crate) fn main(arguments: &Arguments) -> Result<bool, String> {
    let folder = match &arguments.from {
        Some(folder) => folder.clone(),
        None => run(arguments.quick)?,
    };
    let read = |file: &Path| fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()));
    let html = read(&folder.join("index.html"))?;
    let document: serde_json::Value = serde_json::from_str(&read(&folder.join("report.json"))?)
        .map_err(|e| format!("{}: {e}", folder.display()))?;
    let (copy, chapter) = (root().join(COPY), root().join(CHAPTER));
    let said = said(&document, commit()?.trim());
    let text = between(&read(&chapter)?, &said)
        .ok_or_else(|| format!("{CHAPTER}: the marks {} and {} are missing", MARKS[0], MARKS[1]))?;
    let write =
        |file: &Path, text: &str| fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()));
    write(&copy, &without_files(&html))?;
    write(&chapter, &text)?;
    println!("{said}\n{COPY}, {CHAPTER}");
    Ok(true)
}

/// Runs what is missing of the report, and returns its folder.
fn run(quick: bool) -> Result<PathBuf, String> {
    setup::ensure(Purpose::Firmware)?;
    firmware::build()?;
    build_product(RELEASE)?;
    let folder = cache(if quick { "page-quick" } else { "page" })?;
    let mut command = program(antedate_of(RELEASE));
    command.arg("report").args(quick.then_some("--quick")).arg("--out").arg(&folder);
    if !command.verdict(LONGEST)? {
        println!("xtask: an experiment has no result; the page names it");
    }
    Ok(folder)
}

fn commit() -> Result<String, String> {
    program("git").args(["rev-parse", "--short=8", "HEAD"]).read(20)
}

/// The origin of a page in words.
fn said(document: &serde_json::Value, commit: &str) -> String {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("unknown").to_owned();
    let made = text(&document["made"]);
    let machine = &document["machine"];
    let (form, times) = match document["quick"].as_bool() {
        Some(false) => ("a full run", ""),
        _ => ("a short run", ", which shows what the page has: its times are no measurement"),
    };
    let load = text(&machine["load"]);
    format!(
        "[The page of {form}](figures/report.html) was made on {} from {COMMIT}{commit}, on {} cores of an {},\n\
         at a load of {}{times}. The links to files beside the page are left out of the copy.",
        made.get(..10).unwrap_or(&made),
        machine["cores"],
        text(&machine["cpu"]),
        load.split(' ').next().unwrap_or_default()
    )
}

/// A text with `said` between the marks.
fn between(text: &str, said: &str) -> Option<String> {
    let (before, rest) = text.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    Some(format!("{before}{}\n{said}\n{}{after}", MARKS[0], MARKS[1]))
}

/// The page without links to files beside it: the figures' SVG and CSV, and `report.json`.
fn without_files(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    let mut rest = html;
    while let Some((before, link)) = rest.split_once("<a href=\"") {
        let target = link.split('"').next().unwrap_or_default();
        let end = link.find("</a>");
        let (Some(end), false) = (end, target.starts_with('#')) else {
            text.push_str(before);
            text.push_str("<a href=\"");
            rest = link;
            continue;
        };
        let shown = link[..end].rsplit('>').next().unwrap_or_default();
        let is_figure = target.ends_with(".svg") || target.ends_with(".csv");
        text.push_str(
            before
                .strip_suffix(" (")
                .or_else(|| before.strip_suffix(", "))
                .filter(|_| is_figure)
                .unwrap_or(before),
        );
        rest = &link[end + "</a>".len()..];
        if is_figure {
            rest = rest.strip_prefix(')').unwrap_or(rest);
        } else {
            text.push_str(shown);
        }
    }
    text + rest
}

/// How old the book's page is, for the step *report*, which an old one does not fail.
///
/// # Errors
/// When git fails.
pub(crate) fn age() -> Result<String, String> {
    let chapter = fs::read_to_string(root().join(CHAPTER)).unwrap_or_default();
    let Some(commit) = commit_of(&chapter) else {
        return Ok(format!("{CHAPTER} names no commit of its page: `cargo xtask page` makes it"));
    };
    let history = program("git").args(["rev-list", "HEAD"]).read(20)?;
    if !history.lines().any(|line| line.starts_with(commit)) {
        return Ok(format!("the book's page is of commit {commit}, which is not in this history"));
    }
    let range = format!("{commit}..HEAD");
    let count = program("git").args(["rev-list", "--count", &range, "--"]).args(MEASURED).read(20)?;
    Ok(match count.trim() {
        "0" => format!("the book's page is of this state ({commit})"),
        count => {
            format!("the book's page is {count} commits old ({commit}): `cargo xtask page` makes it anew")
        }
    })
}

/// The commit that the chapter names for its page.
fn commit_of(chapter: &str) -> Option<&str> {
    let (_, rest) = chapter.split_once(MARKS[0])?;
    let (said, _) = rest.split_once(MARKS[1])?;
    let (_, commit) = said.split_once(COMMIT)?;
    let end = commit.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(commit.len());
    Some(&commit[..end]).filter(|commit| !commit.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn copy_has_no_links_to_files() {
        let page = "<a class=\"skip\" href=\"#main\">Skip</a><a href=\"#all\">All</a>\
            <figcaption>A (<a href=\"a.svg\" aria-label=\"SVG: A\">SVG</a>, <a href=\"a.csv\">CSV</a>)</figcaption>\
            <a href=\"report.json\">report.json</a>.";
        let copy = "<a class=\"skip\" href=\"#main\">Skip</a><a href=\"#all\">All</a>\
            <figcaption>A</figcaption>report.json.";
        assert_eq!(without_files(page), copy);
    }

    #[test]
    fn origin_is_written_and_read() {
        let document = json!({ "made": "2026-11-28T15:00:00Z", "quick": true,
            "machine": { "cpu": "AMD EPYC", "cores": 2, "load": "0.10 0.20 0.30 1/200 7" } });
        let said = said(&document, "18183ce0");
        assert!(
            said.contains("2026-11-28")
                && said.contains("a load of 0.10,")
                && said.contains("no measurement")
        );
        let chapter = format!("# A\n\n{}\nold\n{}\n\nB\n", MARKS[0], MARKS[1]);
        let text = between(&chapter, &said).expect("marks");
        assert_eq!(commit_of(&text), Some("18183ce0"));
        assert!(text.starts_with("# A\n") && text.ends_with("\n\nB\n") && !text.contains("old"));
        assert_eq!(between("no marks", ""), None);
        assert_eq!(commit_of("no marks"), None);
    }

    #[test]
    fn the_chapter_names_the_commit_of_its_page() {
        let chapter = fs::read_to_string(root().join(CHAPTER)).expect("the chapter");
        assert!(commit_of(&chapter).is_some_and(|commit| commit.len() == 8));
        let copy = fs::read_to_string(root().join(COPY)).expect("the copy");
        assert_eq!(without_files(&copy), copy, "the copy links to files that the book lacks");
    }
}
