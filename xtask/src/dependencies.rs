//! The dependency policy of `deny.toml`, checked with what `cargo metadata` tells.
//!
//! Licences, sources and forbidden crates are checked here, so that a fresh machine need not build cargo-deny first.
//! Where cargo-deny is installed it runs as well, with its advisory database, which only it has.

use serde_json::Value;
use std::collections::BTreeSet;
use xtask::report::StepResult;
use xtask::shell::{Run, cargo, has_program, root};

/// Checks every package that the lock file names.
pub(crate) fn check() -> StepResult {
    let path = root().join("deny.toml");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let policy: toml::Table = text.parse().map_err(|e| format!("deny.toml: {e}"))?;
    let allowed = strings(&policy, "licenses", "allow");
    let banned = strings(&policy, "bans", "deny");
    let sources = strings(&policy, "sources", "allow-registry");
    let metadata = cargo().args(["metadata", "--format-version=1", "--locked"]).read(120)?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata: no packages")?;
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let version = package["version"].as_str().unwrap_or_default();
        match package["license"].as_str() {
            Some(expression) if permits(expression, &allowed) => {
                seen.insert(expression.to_string());
            }
            Some(expression) => {
                faults.push(format!("{name} {version}: licence `{expression}` is not allowed"))
            }
            None => faults.push(format!("{name} {version}: no licence given")),
        }
        if banned.contains(name) {
            faults.push(format!("{name} {version}: banned"));
        }
        // Our own packages have no source.
        if let Some(source) = package["source"].as_str() {
            let source = source.trim_start_matches("registry+");
            if !sources.contains(source) {
                faults.push(format!("{name} {version}: from `{source}`, which is not allowed"));
            }
        }
    }
    if !faults.is_empty() {
        return Err(faults.join("\n").into());
    }
    let advisories = if has_program("cargo-deny") {
        cargo().args(["deny", "check"]).echoed(180)?;
        "cargo-deny's own check as well"
    } else {
        "advisories not checked, cargo-deny is not installed"
    };
    Ok(format!("{} packages, licences and sources as deny.toml allows; {advisories}", packages.len()))
}

fn strings(table: &toml::Table, section: &str, key: &str) -> BTreeSet<String> {
    let list = table.get(section).and_then(|s| s.get(key)).and_then(toml::Value::as_array);
    let name = |v: &toml::Value| {
        v.as_str().or_else(|| v.get("crate").and_then(toml::Value::as_str)).map(str::to_string)
    };
    list.map(|l| l.iter().filter_map(name).collect()).unwrap_or_default()
}

/// An SPDX expression of `AND`, `OR`, `WITH` and brackets against the allowed identifiers; `/` is the old form of `OR`.
fn permits(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let verdict = any(&words, &mut at, allowed);
    verdict && at == words.len()
}

fn any(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut verdict = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        verdict |= all(words, at, allowed);
    }
    verdict
}

fn all(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut verdict = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        verdict &= one(words, at, allowed);
    }
    verdict
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let verdict = any(words, at, allowed);
        *at += 1;
        return verdict;
    }
    if words.get(*at) == Some(&"WITH") {
        let whole = format!("{word} WITH {}", words.get(*at + 1).unwrap_or(&""));
        *at += 2;
        return allowed.contains(&whole);
    }
    allowed.contains(*word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_expressions_follow_spdx() {
        let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(String::from).into();
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "MIT/GPL-2.0",
            "(MIT OR GPL-3.0) AND Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(permits(good, &allowed), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "", "(MIT OR Apache-2.0) AND BSD-3-Clause"] {
            assert!(!permits(bad, &allowed), "{bad}");
        }
    }
}
