//! Virtual environments for the peers that are Python packages.

use crate::place;
use std::fs;
use std::path::{Path, PathBuf};
use xtask::shell::{Run, cache, program, root};

/// The Python of an environment with these packages, made if it is missing. The interpreter is
/// Debian's: another may not find the system libraries of the wheels.
pub(crate) fn environment(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let _lock = place::lock(&format!("venv-{name}"))?;
    let dir = cache("peers")?.join(format!("venv-{name}"));
    let python = dir.join("bin/python");
    let stamp = dir.join("packages");
    if python.exists() && fs::read_to_string(&stamp).is_ok_and(|s| s == packages.join("\n")) {
        return Ok(python);
    }
    program("/usr/bin/python3").args(["-m", "venv", "--clear"]).arg(&dir).read(120)?;
    let mut pip = program(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(packages)
        .echoed(240)?;
    fs::write(&stamp, packages.join("\n")).map_err(|e| e.to_string())?;
    Ok(python)
}

/// A script of `peers/`.
pub(crate) fn script(path: &str) -> PathBuf {
    root().join(Path::new("peers").join(path))
}
