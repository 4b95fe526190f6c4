//! The oracles of suites and bearers: the table of `docs/capabilities.md` against the tests.
//!
//! The table has the columns `suite or bearer | oracle | tests`. An oracle is a crate in backticks,
//! a file of `vectors/` in backticks, `peer` with the name of one, or the name of a publication.
//! Crates, vectors and publications must occur in the files of the row's tests.

use super::{Fault, verdict};
use std::collections::BTreeSet;
use xtask::peers::TESTED;
use xtask::report::StepResult;
use xtask::shell::root;

const FILE: &str = "docs/capabilities.md";
const COLUMNS: [&str; 3] = ["suite or bearer", "oracle", "tests"];
const SUITES: &str = "crates/aead/src/suites";
const BEARERS: &str = "crates/channel/src";
const REMEDY: &str = "name an independent implementation and the test that compares with it";

pub(super) fn check() -> StepResult {
    let text = std::fs::read_to_string(root().join(FILE)).map_err(|e| format!("{FILE}: {e}"))?;
    let read = |path: &str| std::fs::read_to_string(root().join(path)).ok();
    let wanted = wanted()?;
    let mut faults = faults(&text, &wanted, &read);
    faults.extend(missing_paths(&text, &|path| root().join("crates").join(path).exists()));
    verdict(&faults, REMEDY, format!("{} suites and bearers", wanted.len()))
}

/// The names of the engine's suites and of the folders of bearers.
fn wanted() -> Result<BTreeSet<String>, String> {
    let list = |folder: &str| {
        let entries = std::fs::read_dir(root().join(folder)).map_err(|e| format!("{folder}: {e}"))?;
        Ok::<_, String>(entries.filter_map(|entry| Some(entry.ok()?.path())).collect::<Vec<_>>())
    };
    let mut names = BTreeSet::new();
    for path in list(SUITES)?.iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        names.extend(suites(&text));
    }
    for path in list(BEARERS)?.iter().filter(|path| path.is_dir()) {
        names.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    Ok(names)
}

/// The names that a suite's file gives to its ciphers. CCM's tag lengths share a name.
fn suites(text: &str) -> impl Iterator<Item = String> {
    let marks = ["const NAME: &'static str = \"", "=> \"aes-"];
    text.lines().filter(move |line| marks.iter().any(|mark| line.contains(mark))).filter_map(|line| {
        let name = line.split('"').nth(1)?.split(' ').next()?;
        Some(name.find("-ccm").map_or(name, |at| &name[..at + 4]).to_owned())
    })
}

fn faults(text: &str, wanted: &BTreeSet<String>, read: &dyn Fn(&str) -> Option<String>) -> Vec<Fault> {
    let (mut faults, mut named) = (Vec::new(), BTreeSet::new());
    for (line, [what, oracle, tests]) in rows(text) {
        named.extend(quoted(what).map(str::to_owned));
        let mut fault = |what: String| faults.push(Fault::new(FILE, line, what));
        let mut files = Vec::new();
        for test in quoted(tests) {
            let Some((path, name)) = test.split_once("::") else {
                fault(format!("`{test}` is not `path::test`"));
                continue;
            };
            let path = format!("crates/{path}");
            match read(&path) {
                Some(text) if text.contains(&format!("fn {name}(")) => files.push((path, text)),
                Some(_) => fault(format!("{path} has no test `{name}`")),
                None => fault(format!("there is no {path}")),
            }
        }
        if files.is_empty() {
            fault(format!("{what} has no test"));
        }
        for one in oracle.split(',').map(str::trim) {
            if let Some(why) = objection(one, &files, read) {
                fault(why);
            }
        }
    }
    for name in wanted.difference(&named) {
        faults.push(Fault::new(FILE, 1, format!("no oracle is named for `{name}`")));
    }
    faults
}

/// The reason why an oracle of a row is none.
fn objection(
    oracle: &str,
    files: &[(String, String)],
    read: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    let occurs = |word: &str| files.iter().any(|(_, text)| text.contains(word));
    if let Some(peer) = oracle.strip_prefix("peer ") {
        return (!TESTED.contains(&peer)).then(|| format!("`cargo xtask test` runs no peer {peer}"));
    }
    let Some(name) = oracle.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) else {
        return (oracle.is_empty() || !occurs(oracle)).then(|| format!("no test names \"{oracle}\""));
    };
    if name.starts_with("vectors/") {
        return (!occurs(name) || read(name).is_none()).then(|| format!("no test reads {name}"));
    }
    if name.starts_with("antedate") {
        return Some(format!("{name} is no oracle of itself"));
    }
    let used = files.iter().any(|(path, text)| {
        let package = path.split('/').take(2).collect::<Vec<_>>().join("/");
        let manifest = read(&format!("{package}/Cargo.toml")).unwrap_or_default();
        let tools = manifest.split("[dev-dependencies]").nth(1).unwrap_or_default();
        let listed = tools
            .lines()
            .any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '.', '='])));
        listed && text.contains(&format!("{}::", name.replace('-', "_")))
    });
    (!used).then(|| format!("no test of the row uses the development dependency {name}"))
}

/// The rows of the table, with their lines.
fn rows(text: &str) -> Vec<(usize, [&str; 3])> {
    let (mut rows, mut inside) = (Vec::new(), false);
    for (at, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        match <[&str; 3]>::try_from(cells) {
            Ok(cells) if cells == COLUMNS => inside = true,
            Ok(cells) if inside && !cells[0].starts_with("---") => rows.push((at + 1, cells)),
            Ok(_) => {}
            Err(_) => inside = false,
        }
    }
    rows
}

/// The words in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Files of the tables that are not there: words in backticks such as `aead/src/suites`.
fn missing_paths(text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
        for word in quoted(line) {
            let path = word.split("::").next().unwrap_or_default();
            let inside = path.split_once('/').is_some_and(|(_, rest)| {
                ["src", "tests", "include"].iter().any(|folder| rest.starts_with(folder))
            });
            let elsewhere = ["firmware/", "xtask"].iter().any(|folder| path.starts_with(folder));
            if inside && !elsewhere && !path.contains(' ') && !exists(path) {
                faults.push(Fault::new(FILE, at + 1, format!("there is no crates/{path}")));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = "use aes_gcm::Aes128Gcm; // RFC 1 vectors/a.txt\nfn same() {}";

    fn read(path: &str) -> Option<String> {
        match path {
            "crates/aead/tests/a.rs" => Some(TEST.into()),
            "crates/aead/Cargo.toml" => {
                Some("[dependencies]\nccm = \"1\"\n[dev-dependencies]\naes-gcm = \"1\"".into())
            }
            "vectors/a.txt" => Some(String::new()),
            _ => None,
        }
    }

    fn of(row: &str) -> Vec<String> {
        let text = format!("| suite or bearer | oracle | tests |\n| --- | --- | --- |\n{row}\n\nend");
        let wanted = BTreeSet::from(["aes".to_owned()]);
        faults(&text, &wanted, &read).into_iter().map(|fault| fault.what).collect()
    }

    #[test]
    fn wrong_oracles_are_found() {
        let good = "| AES `aes` | `aes-gcm`, RFC 1, `vectors/a.txt`, peer scapy | `aead/tests/a.rs::same` |";
        assert_eq!(of(good), [""; 0]);
        for (from, to, fault) in [
            ("`aes`", "", "no oracle is named for `aes`"),
            ("::same", "::other", "crates/aead/tests/a.rs has no test `other`"),
            ("a.rs", "b.rs", "there is no crates/aead/tests/b.rs"),
            ("`aes-gcm`", "`ccm`", "no test of the row uses the development dependency ccm"),
            ("`aes-gcm`", "`antedate-aead`", "antedate-aead is no oracle of itself"),
            ("RFC 1", "RFC 2", "no test names \"RFC 2\""),
            ("vectors/a", "vectors/b", "no test reads vectors/b.txt"),
            ("scapy", "nobody", "`cargo xtask test` runs no peer nobody"),
        ] {
            let found = of(&good.replace(from, to));
            assert!(found.iter().any(|what| what == fault), "{fault}: {found:?}");
        }
    }

    #[test]
    fn suites_are_read_from_their_files() {
        let text =
            "const NAME: &'static str = \"morus (research)\";\n (16, 4) => \"aes-128-ccm-4\",\n \"no\"";
        assert_eq!(suites(text).collect::<Vec<_>>(), ["morus", "aes-128-ccm"]);
    }

    #[test]
    fn missing_files_of_tables_are_found() {
        let text = "| `aead/src/gone` | `aead/src/here` | `cargo xtask` |\n`aead/src/gone`";
        let found = missing_paths(text, &|path| path == "aead/src/here");
        assert_eq!(found, [Fault::new(FILE, 1, "there is no crates/aead/src/gone".into())]);
    }
}
