//! Cargo for other CPUs of Linux, whose programs QEMU runs.

use crate::setup::targets::has_core;
use crate::shell::{cargo, has_program, target};
use std::process::Command;

/// A CPU, by its names.
#[derive(Clone, Copy)]
pub struct Cross {
    /// Rust's target.
    pub target: &'static str,
    /// The prefix of Debian's tools.
    pub tools: &'static str,
    /// QEMU's name of the architecture.
    pub emulator: &'static str,
}

/// ARM with 64 bits.
pub const ARMV8: Cross =
    Cross { target: "aarch64-unknown-linux-gnu", tools: "aarch64-linux-gnu", emulator: "aarch64" };
/// ARM with 32 bits.
pub const ARMV7: Cross =
    Cross { target: "armv7-unknown-linux-gnueabihf", tools: "arm-linux-gnueabihf", emulator: "arm" };

impl Cross {
    /// The reason why this machine cannot compile or run programs for the CPU.
    pub fn missing(&self) -> Option<String> {
        let compiler = format!("{}-gcc", self.tools);
        let emulator = format!("qemu-{}", self.emulator);
        if let Some(name) = [compiler, emulator].into_iter().find(|name| !has_program(name)) {
            return Some(format!("no program {name}"));
        }
        (!has_core(self.target)).then(|| format!("no standard library: rustup target add {}", self.target))
    }

    /// `cargo WHAT` for the CPU; tests run in QEMU.
    pub fn cargo(&self, what: &str) -> Command {
        let (c, rust) = (self.target.replace('-', "_"), self.target.replace('-', "_").to_uppercase());
        let mut command = cargo();
        command.args([what, "--locked", "--target", self.target, "--target-dir"]).arg(target().join("cross"));
        command
            .env(format!("CC_{c}"), format!("{}-gcc", self.tools))
            .env(format!("CARGO_TARGET_{rust}_LINKER"), format!("{}-gcc", self.tools))
            .env(
                format!("CARGO_TARGET_{rust}_RUNNER"),
                format!("qemu-{} -L /usr/{}", self.emulator, self.tools),
            )
            .env_remove("RUSTFLAGS");
        command
    }
}
