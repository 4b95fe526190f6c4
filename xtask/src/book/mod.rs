//! The book, built by mdBook, and the relative links of all documents.

use std::fs;
use std::path::{Path, PathBuf};
use xtask::report::{StepResult, Stop};
use xtask::setup::tools;
use xtask::shell::{Run, program, root, target};

mod links;

/// Documents beside the chapters of the book; missing ones are left out.
const DOCUMENTS: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "docs/capabilities.md",
    "peers/README.md",
];

/// Checks links and anchors, then builds the book.
pub(crate) fn check() -> StepResult {
    let root = root();
    let documents = DOCUMENTS.iter().map(|name| root.join(name)).filter(|file| file.exists());
    let files: Vec<PathBuf> = documents.chain(chapters(&root.join("docs/src"))?).collect();
    let (mut faults, mut links) = (Vec::new(), 0);
    for file in &files {
        let text = read(file)?;
        for link in links::links(&text) {
            links += 1;
            if let Some(what) = links::fault(file, &text, &link.target) {
                let name = file.strip_prefix(&root).unwrap_or(file).display();
                faults.push(format!("{name}:{}: {what}", link.line));
            }
        }
    }
    if !faults.is_empty() {
        let remedy = "correct the link, or give the heading that it names";
        return Err(Stop::Failed(format!("{} broken links; {remedy}\n{}", faults.len(), faults.join("\n"))));
    }
    let mut build = program(tools::mdbook()?);
    build.args(["build", "docs", "--dest-dir"]).arg(target().join("book")).echoed(120)?;
    Ok(format!("{links} links in {} documents", files.len()))
}

fn chapters(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut files = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            files.extend(chapters(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}
