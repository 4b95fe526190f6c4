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
/// The same with a C library in the program.
pub const ARMV8_STATIC: Cross =
    Cross { target: "aarch64-unknown-linux-musl", tools: "aarch64-linux-gnu", emulator: "aarch64" };
/// x86-64 with a C library in the program, by Debian's `musl-tools`.
pub const X86_STATIC: Cross =
    Cross { target: "x86_64-unknown-linux-musl", tools: "musl", emulator: "x86_64" };

impl Cross {
    /// The C compiler, which links too.
    pub fn compiler(&self) -> String {
        format!("{}-gcc", self.tools)
    }

    /// The linker. A program with musl's start files of Rust that `musl-gcc` links crashes.
    fn linker(&self) -> String {
        if self.tools == X86_STATIC.tools { "cc".into() } else { self.compiler() }
    }

    /// The reason why this machine cannot compile or run programs for the CPU.
    pub fn missing(&self) -> Option<String> {
        let compiler = self.compiler();
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
            .env(format!("CC_{c}"), self.compiler())
            .env(format!("CARGO_TARGET_{rust}_LINKER"), self.linker())
            .env(
                format!("CARGO_TARGET_{rust}_RUNNER"),
                format!("qemu-{} -L /usr/{}", self.emulator, self.tools),
            )
            .env_remove("RUSTFLAGS");
        command
    }
}
