//! The `no_std` crates, compiled for a microcontroller that has no operating system.

use crate::report::StepResult;
use crate::shell::{Run, cargo, has_program, program, target};
use std::path::Path;

const TARGET: &str = "thumbv7m-none-eabi";
const CRATES: [&str; 3] = ["antedate-wire", "antedate-aead", "antedate-channel"];

/// Builds each crate alone for a Cortex-M3: with the running toolchain where it has or can fetch the target's `core`,
/// else with Debian's compiler and its packaged sources.
pub(crate) fn check() -> StepResult {
    let own = has_core() || fetch_core();
    for name in CRATES {
        let mut command = if own { cargo() } else { debian_cargo()? };
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

/// Debian's `rustc-web` is current enough and its sources allow `-Zbuild-std`.
fn debian_cargo() -> Result<std::process::Command, String> {
    for file in ["/usr/bin/cargo", "/usr/bin/rustc", "/usr/src"] {
        if !Path::new(file).exists() {
            return Err(format!(
                "no `core` for {TARGET}: `rustup target add {TARGET}`, or `apt-get install rustc-web cargo-web rust-web-src`"
            ));
        }
    }
    let mut command = program("/usr/bin/cargo");
    command
        .env("RUSTC", "/usr/bin/rustc")
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN");
    command.arg("-Zbuild-std=core");
    Ok(command)
}
