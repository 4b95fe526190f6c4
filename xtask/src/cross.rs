//! `cargo xtask cross`: the workspace compiled for other CPUs of Linux, and the crates without I/O tested there, emulated.
//!
//! Not part of `test`: what compiles for these CPUs (`rustup target add`) need not be to be had where `test` runs.

use crate::nostd::{fetch_core, has_core};
use crate::report::{Report, StepResult, Stop};
use crate::setup::packages;
use crate::shell::{Run, cargo, has_program, target};
use std::path::Path;
use std::process::Command;

/// A CPU: Rust's name of it, what is special, Debian's name of its tools and of its C library, QEMU's name of it.
struct Cpu {
    target: &'static str,
    what: &'static str,
    tools: &'static str,
    library: &'static str,
    emulator: &'static str,
}

const CPUS: [Cpu; 3] = [
    Cpu {
        target: "aarch64-unknown-linux-gnu",
        what: "ARM with 64 bits",
        tools: "aarch64-linux-gnu",
        library: "libc6-dev-arm64-cross",
        emulator: "aarch64",
    },
    Cpu {
        target: "armv7-unknown-linux-gnueabihf",
        what: "ARM with 32 bits",
        tools: "arm-linux-gnueabihf",
        library: "libc6-dev-armhf-cross",
        emulator: "arm",
    },
    Cpu {
        target: "s390x-unknown-linux-gnu",
        what: "the highest byte first",
        tools: "s390x-linux-gnu",
        library: "libc6-dev-s390x-cross",
        emulator: "s390x",
    },
];

/// The crates that need no kernel of their own CPU.
const TESTED: [&str; 4] = ["antedate-wire", "antedate-aead", "antedate-channel", "antedate-plan"];

pub(crate) fn main(args: &[String]) -> Result<bool, String> {
    if args == ["--list"] {
        CPUS.iter().for_each(|cpu| println!("{:32} {}", cpu.target, cpu.what));
        return Ok(true);
    }
    if let Some(other) = args.iter().find(|name| CPUS.iter().all(|cpu| cpu.target != **name)) {
        return Err(format!("no CPU `{other}`; `cargo xtask cross --list` names them"));
    }
    let mut report = Report::default();
    for cpu in CPUS.iter().filter(|cpu| args.is_empty() || args.iter().any(|name| name == cpu.target)) {
        cpu.set_up()?;
        report.step(&format!("{} compiles", cpu.target), || cpu.compile());
        report.step(&format!("{} tests", cpu.target), || cpu.test());
    }
    Ok(report.finish())
}

impl Cpu {
    fn set_up(&self) -> Result<(), String> {
        let compiler = format!("gcc-{}", self.tools);
        let headers = format!("/usr/{}/include/stdio.h", self.tools);
        let needs = [
            (compiler.as_str(), "links programs of another CPU", has_program(&format!("{}-gcc", self.tools))),
            (self.library, "what they are linked with", Path::new(&headers).exists()),
            ("qemu-user", "runs them", has_program(&format!("qemu-{}", self.emulator))),
        ];
        let missing: Vec<_> =
            needs.iter().filter(|(.., there)| !there).map(|(name, why, _)| (*name, *why)).collect();
        if !missing.is_empty() {
            packages(&missing)?;
        }
        if has_core(self.target) || fetch_core(self.target) {
            return Ok(());
        }
        Err(format!("no standard library for {0}: `rustup target add {0}` would give it", self.target))
    }

    /// Cargo, for this CPU.
    fn cargo(&self, what: &str) -> Command {
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

    /// All that the product is of.
    fn compile(&self) -> StepResult {
        let mut command = self.cargo("check");
        command.args(["--workspace", "--exclude", "xtask"]).echoed(900)?;
        Ok(self.what.into())
    }

    fn test(&self) -> StepResult {
        let mut command = self.cargo("test");
        command.args(["--release", "--no-fail-fast"]);
        TESTED.iter().for_each(|name| {
            command.args(["--package", name]);
        });
        command.echoed(2400).map_err(Stop::Failed)?;
        Ok(format!("{} (emulated)", TESTED.join(", ")))
    }
}
