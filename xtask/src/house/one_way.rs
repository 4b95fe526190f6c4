//! The direction of dependencies: the table of ARCHITECTURE.md against `cargo metadata`.
//!
//! The table has the columns `crate | package | purpose | may use`. The last one holds package
//! names (the prefix `antedate-` may be left out; words in round brackets are notes), or `all`, or
//! `none`.

use super::{Fault, verdict};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use xtask::report::StepResult;
use xtask::shell::{Run, cargo, root};

const FILE: &str = "ARCHITECTURE.md";
const REMEDY: &str = "remove the dependency, or change the table of ARCHITECTURE.md after thinking twice";
/// The packages outside the product, which the table may omit.
const TOOLS: [&str; 2] = ["xtask", "xtask-peers"];

/// A row of the table: its line, and the packages that may be used; `None` for all.
struct Row {
    line: usize,
    may_use: Option<BTreeSet<String>>,
}

/// Compares the table with the workspace's manifests. Normal dependencies count, optional ones too.
pub(super) fn check() -> StepResult {
    let table = std::fs::read_to_string(root().join(FILE)).map_err(|e| format!("{FILE}: {e}"))?;
    let metadata = cargo().args(["metadata", "--format-version=1", "--no-deps", "--locked"]).read(60)?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = packages(&metadata);
    verdict(&faults(&table, &packages), REMEDY, format!("{} packages", packages.len()))
}

/// The workspace's packages, each with the workspace packages that it uses.
fn packages(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_string();
    let all = list(&metadata["packages"]);
    let own: BTreeSet<String> = all.iter().map(name).collect();
    let used = |package: &Value| {
        let dependencies = list(&package["dependencies"]);
        let normal = dependencies.iter().filter(|d| d["kind"].is_null()).map(name);
        normal.filter(|name| own.contains(name)).collect()
    };
    all.iter().map(|package| (name(package), used(package))).collect()
}

fn faults(table: &str, packages: &BTreeMap<String, BTreeSet<String>>) -> Vec<Fault> {
    let (rows, mut faults) = rows(table, packages);
    for (package, used) in packages {
        let Some(row) = rows.get(package) else {
            if !TOOLS.contains(&package.as_str()) {
                faults.push(Fault::new(FILE, 1, format!("`{package}` is not in the table")));
            }
            continue;
        };
        let Some(may_use) = &row.may_use else { continue };
        for other in used.difference(may_use) {
            let what = format!("`{package}` depends on `{other}`, which its row does not allow");
            faults.push(Fault::new(FILE, row.line, what));
        }
    }
    faults
}

/// The rows of the table by package, and its faults.
fn rows(text: &str, packages: &BTreeMap<String, BTreeSet<String>>) -> (BTreeMap<String, Row>, Vec<Fault>) {
    let (mut rows, mut faults) = (BTreeMap::new(), Vec::new());
    let mut inside = false;
    for (at, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [_, package, .., may_use] = cells[..] else {
            inside = false;
            continue;
        };
        if (package, may_use) == ("package", "may use") {
            inside = true;
            continue;
        }
        if !inside || package.starts_with("---") {
            continue;
        }
        let mut fault = |what: String| faults.push(Fault::new(FILE, at + 1, what));
        let Some(package) = known(package, packages) else {
            fault(format!("there is no package {package}"));
            continue;
        };
        let mut allowed = Some(BTreeSet::new());
        for word in without_notes(may_use).split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match (word, known(word, packages), &mut allowed) {
                ("all", ..) => allowed = None,
                ("nothing" | "nothing of ours" | "none", ..) => {}
                (_, Some(other), Some(allowed)) => drop(allowed.insert(other)),
                (_, Some(_), None) => {}
                (_, None, _) => fault(format!("there is no package {word}")),
            }
        }
        rows.insert(package, Row { line: at + 1, may_use: allowed });
    }
    if rows.is_empty() {
        faults.push(Fault::new(
            FILE,
            1,
            "there is no table with the columns `package` and `may use`".to_string(),
        ));
    }
    (rows, faults)
}

/// The package of a name in the table.
fn known(word: &str, packages: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let word = word.trim_matches('`');
    [word.to_string(), format!("antedate-{word}")].into_iter().find(|name| packages.contains_key(name))
}

fn without_notes(text: &str) -> String {
    let mut depth = 0;
    let outside = text.chars().filter(|c| {
        depth += i32::from(*c == '(');
        let keep = depth == 0;
        depth -= i32::from(*c == ')');
        keep
    });
    outside.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workspace() -> BTreeMap<String, BTreeSet<String>> {
        let package = |name: &str, used: &[&str]| {
            let normal = used.iter().map(|name| json!({ "name": name, "kind": null }));
            let other =
                [json!({ "name": "antedate-lab", "kind": "dev" }), json!({ "name": "serde", "kind": null })];
            json!({ "name": name, "dependencies": normal.chain(other).collect::<Vec<_>>() })
        };
        packages(&json!({ "packages": [
            package("antedate", &["antedate-lab", "antedate-wire"]),
            package("antedate-lab", &["antedate-wire"]),
            package("antedate-wire", &[]),
            package("xtask", &[]),
        ] }))
    }

    const HEAD: &str = "| crate | package | purpose | may use |\n| --- | --- | --- | --- |\n";

    fn told(rows: &str) -> Vec<String> {
        faults(&format!("{HEAD}{rows}"), &workspace()).iter().map(Fault::to_string).collect()
    }

    #[test]
    fn allowed_dependencies_pass() {
        let rows = "| `crates/cli` | `antedate` | command | all |\n| `crates/lab` | antedate-lab | lab | `wire` (frames, times) |\n\
                    | `crates/wire` | `antedate-wire` | formats | nothing |\n\nThe end, | with | a | bar.\n";
        assert_eq!(told(rows), [""; 0]);
    }

    #[test]
    fn forbidden_and_missing_packages_are_found() {
        let rows = "| `crates/cli` | `antedate` | command | lab |\n| `crates/lab` | `antedate-lab` | lab | antedate-wire, gateway |\n";
        assert_eq!(
            told(rows),
            [
                "ARCHITECTURE.md:4: there is no package gateway",
                "ARCHITECTURE.md:3: `antedate` depends on `antedate-wire`, which its row does not allow",
                "ARCHITECTURE.md:1: `antedate-wire` is not in the table",
            ]
        );
        assert!(!faults("no table", &workspace()).is_empty());
    }
}
