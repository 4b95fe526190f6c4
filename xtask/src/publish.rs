//! The crates for crates.io: packed, built from their packages, and tried against the registry.

use std::path::{Path, PathBuf};
use std::{env, fs};
use xtask::report::StepResult;
use xtask::shell::{Run, cache, cargo};

/// In the order of their dependencies.
const CRATES: [&str; 4] = ["antedate-aead", "antedate-wire", "antedate-channel", "antedate-smoltcp"];
/// Files that each package has.
const FILES: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Packs the crates and builds each from its package, without the network. Then `cargo publish
/// --dry-run` asks the registry, where it can be reached.
pub(crate) fn check() -> StepResult {
    let target = cache("publish")?;
    // To cargo these packages are of a registry, where a version never changes: it would build on what an
    // earlier run made of them, and read what an earlier run unpacked.
    forget(&target.join("debug/.fingerprint"))?;
    for registry in fs::read_dir(cargo_home()?.join("registry/src")).into_iter().flatten().flatten() {
        // The name of a registry in a directory begins so: it has no host.
        if registry.file_name().to_string_lossy().starts_with('-') {
            forget(&registry.path())?;
        }
    }
    let words = |verb: &str| {
        let mut command = cargo();
        command.args([verb, "--allow-dirty", "--locked", "--target-dir"]).arg(&target);
        command.args(CRATES.iter().flat_map(|name| ["--package", name]));
        command
    };
    words("package").arg("--offline").echoed(300)?;
    for name in CRATES {
        let listed =
            cargo().args(["package", "--list", "--allow-dirty", "--offline", "--package", name]).read(60)?;
        if let Some(lacking) = FILES.iter().find(|file| !listed.lines().any(|line| line == **file)) {
            return Err(format!("the package of {name} has no {lacking}").into());
        }
        let packed = target.join("package").join(format!("{name}-{}", env!("CARGO_PKG_VERSION")));
        let manifest = packed.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(|e| format!("{}: {e}", manifest.display()))?;
        if text.contains("path = \"../") {
            return Err(format!("{}: a dependency is a path", manifest.display()).into());
        }
    }
    let asked = match words("publish").args(["--dry-run", "--no-verify"]).read(120) {
        Ok(_) => "the registry would take them",
        Err(said) if is_unreachable(&said) => "packed and built; the registry cannot be reached here",
        Err(said) => return Err(said.into()),
    };
    Ok(format!("{}: {asked}", CRATES.join(", ")))
}

/// Removes what cargo keeps of these crates in a directory.
fn forget(directory: &Path) -> Result<(), String> {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("antedate-") {
            fs::remove_dir_all(entry.path()).map_err(|e| format!("{}: {e}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// Cargo's directory of registries (the Cargo Book, "Cargo Home").
fn cargo_home() -> Result<PathBuf, String> {
    let named = env::var_os("CARGO_HOME").map(PathBuf::from);
    let usual = || env::home_dir().map(|home| home.join(".cargo"));
    named.or_else(usual).ok_or_else(|| "neither CARGO_HOME nor HOME is set".to_owned())
}

/// Whether cargo could not reach the registry.
fn is_unreachable(said: &str) -> bool {
    [
        "Could not resolve host",
        "Could not connect",
        "spurious network error",
        "Timeout was reached",
        "not done after",
    ]
    .iter()
    .any(|sign| said.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_network_is_excused() {
        assert!(is_unreachable(
            "warning: spurious network error (3 tries remaining): [6] Could not resolve host"
        ));
        assert!(!is_unreachable("error: all dependencies must have a version specified when publishing"));
    }
}
