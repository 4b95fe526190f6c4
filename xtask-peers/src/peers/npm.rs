//! Packages of npm, beside the script that uses them.

use std::fs;
use std::path::Path;
use xtask::shell::{Run, cache, has_program, program, root};

/// Installs the packages of a peer's lock file, unless they are, beside its script.
pub(super) fn install(name: &str, script: &str) -> Result<(), String> {
    if !has_program("npm") {
        return Err("there is no npm".into());
    }
    let (from, to) = (root().join("peers").join(name), cache(&format!("peers/{name}"))?);
    let lock = "package-lock.json";
    let read = |folder: &Path| fs::read(folder.join(lock)).ok();
    let same = read(&from).is_some() && read(&from) == read(&to);
    for file in [script, "package.json", lock] {
        fs::copy(from.join(file), to.join(file)).map_err(|e| format!("{file}: {e}"))?;
    }
    if same && to.join("node_modules/.package-lock.json").exists() {
        return Ok(());
    }
    let mut npm = program("npm");
    npm.current_dir(&to).args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).echoed(120)
}
