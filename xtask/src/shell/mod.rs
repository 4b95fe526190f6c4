//! Runs programs: printed, bounded in time, stopped with their whole process group.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

mod group;
mod run;

pub use group::end_with_signals;
pub use run::{Background, Run};

/// The workspace's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Cargo's target directory; `CARGO_TARGET_DIR` applies.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The profile of packages and benches: fat LTO.
pub const RELEASE: &str = "release";
/// The profile of the first demo: optimised, with a short build.
pub const DEMO: &str = "demo";
/// The profile of the tests.
pub const TESTS: &str = "dev";
/// The package of the emulated kernels, which has a step of its own.
pub const EMULATED: &str = "antedate-aead-emulated";
/// A test of the product's package that starts its program.
const PRODUCT_TEST: &str = "processes";

/// The product's program of a profile.
pub fn antedate_of(profile: &str) -> PathBuf {
    // Cargo's folder of the profile `dev` has another name.
    target().join(if profile == TESTS { "debug" } else { profile }).join("antedate")
}

/// The variable that names the profile of the product's program; without it, [`RELEASE`].
pub const PROFILE: &str = "ANTEDATE_XTASK_PROFILE";

/// The profile of the product's program.
pub fn profile() -> String {
    std::env::var(PROFILE).unwrap_or_else(|_| RELEASE.to_string())
}

/// The product's program of this process's profile.
pub fn antedate() -> PathBuf {
    antedate_of(&profile())
}

/// A folder below the target directory for downloads, caches and results.
pub fn cache(name: &str) -> Result<PathBuf, String> {
    let dir = target().join(name);
    std::fs::create_dir_all(&dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
    Ok(dir)
}

/// Builds the program of [`antedate`]; each command that starts it calls this first.
pub fn build_antedate() -> Result<(), String> {
    build_product(&profile())
}

/// Builds the product in a profile.
pub fn build_product(profile: &str) -> Result<(), String> {
    if profile == TESTS { build_tested() } else { build(profile, &[]) }
}

/// Builds the product as the tests of the workspace do, so that nothing is compiled twice: with
/// `cargo build`, the tests' dependencies enable fewer features in the libraries below it.
fn build_tested() -> Result<(), String> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--exclude", EMULATED, "--locked", "--no-run"]);
    command.args(["--test", PRODUCT_TEST]).bounded(900)
}

/// Builds the product for [`DEMO`], without the commands that the demo does not use.
pub fn build_demo() -> Result<(), String> {
    build(DEMO, &["--no-default-features"])
}

fn build(profile: &str, features: &[&str]) -> Result<(), String> {
    let mut command = cargo();
    command.args(["build", "--locked", "--profile", profile, "--package", "antedate"]);
    command.args(features).bounded(900)
}

/// The cargo that runs this program.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // Tests make states, which must not lie in memory.
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    if std::env::var_os("TMPDIR").is_none() && mounts.lines().any(|line| line.contains(" /tmp tmpfs ")) {
        command.env("TMPDIR", "/var/tmp");
    }
    command
}

/// A command by name, in the workspace's root.
pub fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// True for the administrator.
pub fn is_root() -> bool {
    program("id").arg("-u").read(5).is_ok_and(|uid| uid.trim() == "0")
}

/// The command as typed in a shell.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// True if `PATH` or the administrator's directories contain a program of that name.
pub fn has_program(name: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').chain(["/usr/sbin", "/sbin"]).any(|dir| Path::new(dir).join(name).is_file())
}

/// The last `n` lines.
pub fn tail(text: &str, n: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(n)..].iter().map(|l| format!("  | {l}\n")).collect()
}

/// Waits until `ready` returns a value; the error names `what`.
pub fn until<T>(what: &str, seconds: f64, mut ready: impl FnMut() -> Option<T>) -> Result<T, String> {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    loop {
        if let Some(value) = ready() {
            return Ok(value);
        }
        if Instant::now() > end {
            return Err(format!("{what}: not after {seconds} s"));
        }
        sleep(Duration::from_millis(20));
    }
}
