//! The `no_std` crates and the C library, compiled for CPUs without an operating system.

use xtask::mote::debian_cargo;
use xtask::report::StepResult;
use xtask::setup::targets::{fetch_core, has_core};
use xtask::shell::{DEMO, Run, cargo, target};

/// A Cortex-M3, and ARM with 64 bits, whose words and pointers have another size.
const TARGETS: [&str; 2] = ["thumbv7m-none-eabi", "aarch64-unknown-none"];
const CRATES: [&str; 4] = ["antedate-wire", "antedate-aead", "antedate-channel", "antedate-smoltcp"];
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
