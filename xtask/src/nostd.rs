//! The `no_std` crates, compiled for a microcontroller that has no operating system.

use crate::report::StepResult;
use crate::setup;
use crate::shell::{Run, cargo, has_program, program, target};
use std::path::Path;
use std::process::Command;

const TARGET: &str = "thumbv7m-none-eabi";
const CRATES: [&str; 3] = ["antedate-wire", "antedate-aead", "antedate-channel"];

/// Builds each crate alone for a Cortex-M3: with the running toolchain where it has or can fetch the target's `core`,
/// else with Debian's compiler and its packaged sources.
pub(crate) fn check() -> StepResult {
    let own = has_core() || fetch_core();
    for name in CRATES {
        let mut command = if own { cargo() } else { debian_cargo()? };
        if !own {
            command.arg("-Zbuild-std=core,alloc");
        }
        command
            .args(["build", "--package", name, "--target", TARGET, "--target-dir"])
            .arg(target().join("nostd"));
        command.env_remove("RUSTFLAGS").echoed(300)?;
    }
    Ok(format!("{} for {TARGET}{}", CRATES.join(", "), if own { "" } else { " (Debian's compiler)" }))
}

fn has_core() -> bool {
    let sysroot = program("rustc").args(["--print", "sysroot"]).read(10).unwrap_or_default();
    Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).join("lib").is_dir()
}

fn fetch_core() -> bool {
    has_program("rustup")
        && program("rustup").args(["target", "add", TARGET]).echoed(120).is_ok()
        && has_core()
}

/// Debian's `rustc-web` is current enough, and its packaged sources are what `-Zbuild-std` needs.
pub(crate) fn debian_cargo() -> Result<Command, String> {
    if !Path::new("/usr/bin/cargo").exists() || debian_sources().is_none() {
        let why = "compiles `core` for a microcontroller";
        setup::packages(&[("rustc-web", why), ("cargo-web", why), ("rust-web-src", why)]).map_err(|e| {
            format!("no `core` for {TARGET} (`rustup target add {TARGET}` would give it): {e}")
        })?;
    }
    let mut command = program("/usr/bin/cargo");
    command.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1");
    // What the running cargo set for its own children would lead Debian's to another toolchain.
    for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTUP_HOME", "RUSTDOC"] {
        command.env_remove(name);
    }
    Ok(command)
}

fn debian_sources() -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir("/usr/src").ok()?;
    entries.filter_map(|e| Some(e.ok()?.path())).find(|p| p.join("library/core").is_dir())
}
