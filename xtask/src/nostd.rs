//! The `no_std` crates and the C library, compiled for CPUs without an operating system.

use std::path::PathBuf;
use std::process::Command;
use xtask::report::StepResult;
use xtask::setup;
use xtask::setup::targets::{fetch_core, has_core};
use xtask::shell::{DEMO, Run, cargo, program, target};

/// A Cortex-M3, and ARM with 64 bits, whose words and pointers have another size.
const TARGETS: [&str; 2] = ["thumbv7m-none-eabi", "aarch64-unknown-none"];
const CRATES: [&str; 3] = ["antedate-wire", "antedate-aead", "antedate-channel"];
/// The C library, and its sets of suites.
const LIBRARY: &str = "antedate-capi";
const SUITES: [&str; 2] = ["ccm", "aegis,ascon,ccm,chacha20-poly1305,gcm,ocb3"];

/// Builds each crate alone, and the C library: with the running toolchain if it has or can fetch
/// the target's `core`, otherwise with Debian's compiler and its packaged sources.
pub(crate) fn check() -> StepResult {
    let mut done = Vec::new();
    for target in TARGETS {
        let own = has_core(target) || fetch_core(target);
        for name in CRATES {
            build(target, own, &["build", "--package", name])?;
        }
        for suites in SUITES {
            let library = ["rustc", "--profile", DEMO, "--package", LIBRARY, "--crate-type", "staticlib"];
            build(target, own, &[&library[..], &["--no-default-features", "--features", suites]].concat())?;
        }
        done.push(format!("{target}{}", if own { "" } else { " (Debian's compiler)" }));
    }
    Ok(format!("{}, {LIBRARY} for {}", CRATES.join(", "), done.join(" and ")))
}

fn build(to: &str, own: bool, arguments: &[&str]) -> Result<(), String> {
    let mut command = if own { cargo() } else { debian_cargo()? };
    if !own {
        command.arg("-Zbuild-std=core,alloc");
    }
    command.args(arguments).args(["--target", to, "--target-dir"]).arg(target().join("nostd"));
    command.env_remove("RUSTFLAGS").echoed(300)
}

/// Debian's `rustc-web`, which is current enough and has the packaged sources for `-Zbuild-std`.
pub(crate) fn debian_cargo() -> Result<Command, String> {
    let bin = debian().join("bin");
    if !bin.join("cargo").exists() || debian_sources().is_none() {
        let why = "compiles `core` for a microcontroller";
        setup::packages(&[("rustc-web", why), ("cargo-web", why), ("rust-web-src", why)]).map_err(|e| {
            format!("no `core` for {0} (`rustup target add {0}` would give it): {e}", TARGETS[0])
        })?;
    }
    let mut command = program(bin.join("cargo"));
    command.env("RUSTC", bin.join("rustc")).env("RUSTC_BOOTSTRAP", "1");
    // Variables of the running cargo would redirect Debian's cargo to another toolchain.
    for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTUP_HOME", "RUSTDOC"] {
        command.env_remove(name);
    }
    Ok(command)
}

/// `/usr`; the tests of the steps set another place.
fn debian() -> PathBuf {
    std::env::var_os("ANTEDATE_XTASK_USR").map_or_else(|| "/usr".into(), PathBuf::from)
}

fn debian_sources() -> Option<PathBuf> {
    let entries = std::fs::read_dir(debian().join("src")).ok()?;
    entries.filter_map(|e| Some(e.ok()?.path())).find(|p| p.join("library/core").is_dir())
}
