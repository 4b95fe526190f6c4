//! Programs for CPUs without an operating system: Debian's compiler, and the workspace `firmware`.

use crate::setup;
use crate::shell::{Run, cache, program, root};
use std::path::PathBuf;
use std::process::Command;

/// A build of the workspace `firmware`, whose `Cargo.toml` has the profiles.
pub struct Build {
    /// The package.
    pub package: &'static str,
    /// The CPU.
    pub triple: &'static str,
    /// The profile.
    pub profile: &'static str,
    /// The features, separated by commas.
    pub features: &'static str,
    /// The programs.
    pub programs: &'static [&'static str],
}

/// The IO device that protects itself, and what its frames cost, for QEMU's mps2-an385.
pub const IO_DEVICE: Build = Build {
    package: "antedate-io-device",
    triple: "thumbv7m-none-eabi",
    profile: "release",
    features: "",
    programs: &["antedate-io-device", "measure"],
};

impl Build {
    /// Builds the programs with Debian's compiler, `core` included. Returns their folder.
    pub fn run(&self) -> Result<PathBuf, String> {
        let target = cache("firmware")?;
        let mut command = debian_cargo()?;
        // The workspace's `.cargo/config.toml` configures compiler and linker of its targets.
        command.current_dir(root().join("firmware")).env("CARGO_TARGET_DIR", &target).env_remove("RUSTFLAGS");
        command.args(["build", "--locked", "--profile", self.profile, "--package", self.package]);
        command.args(["--target", self.triple, "--features", self.features]);
        self.programs.iter().for_each(|program| {
            command.args(["--bin", program]);
        });
        command.echoed(600)?;
        Ok(target.join(self.triple).join(self.profile))
    }
}

/// Debian's `rustc-web`, which is current enough and has the packaged sources for `-Zbuild-std`.
pub fn debian_cargo() -> Result<Command, String> {
    let bin = debian().join("bin");
    if !bin.join("cargo").exists() || debian_sources().is_none() {
        let why = "compiles `core` for a microcontroller";
        let packages = [("rustc-web", why), ("cargo-web", why), ("rust-web-src", why)];
        setup::packages(&packages).map_err(|e| {
            format!("no `core` for a microcontroller (`rustup target add` would give it): {e}")
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
