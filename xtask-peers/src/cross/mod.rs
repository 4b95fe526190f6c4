//! `cargo xtask cross`: the workspace compiled for other CPUs of Linux, its crates without I/O
//! tested there under emulation, and the gateway on an emulated machine.
//!
//! Not part of `test`, whose machine may have no access to these targets (`rustup target add`).

use crate::guest;
use clap::builder::PossibleValuesParser;
use std::path::Path;
use std::process::Command;
use xtask::cross::{ARMV7, ARMV8, Cross};
use xtask::report::{Report, StepResult, Stop};
use xtask::setup::packages;
use xtask::setup::targets::{fetch_core, has_core};
use xtask::shell::{Run, has_program, target};

mod gateway;

/// A CPU, a note, and Debian's name of its C library.
struct Cpu {
    cross: Cross,
    what: &'static str,
    library: &'static str,
    /// The machine that runs the gateway, if there is one.
    machine: Option<&'static guest::Cpu>,
}

const CPUS: [Cpu; 3] = [
    Cpu {
        cross: ARMV8,
        what: "ARM with 64 bits",
        library: "libc6-dev-arm64-cross",
        machine: Some(&guest::AARCH64),
    },
    Cpu {
        cross: ARMV7,
        what: "ARM with 32 bits",
        library: "libc6-dev-armhf-cross",
        machine: Some(&guest::ARMV7),
    },
    Cpu {
        cross: Cross { target: "s390x-unknown-linux-gnu", tools: "s390x-linux-gnu", emulator: "s390x" },
        what: "the highest byte first",
        library: "libc6-dev-s390x-cross",
        machine: None,
    },
];

/// The crates that need no kernel of their own CPU.
const TESTED: [&str; 4] = ["antedate-wire", "antedate-aead", "antedate-channel", "antedate-plan"];

/// The steps for each CPU; the last one only for those with a machine.
const PARTS: [&str; 3] = ["compile", "tests", "gateway"];

/// Arguments of `cargo xtask cross`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print the CPUs
    #[arg(long)]
    list: bool,
    /// Do this part alone; may be given several times
    #[arg(long, value_name = "PART", value_parser = PossibleValuesParser::new(PARTS))]
    only: Vec<String>,
    /// CPUs; without any all of them
    #[arg(value_name = "TARGET", value_parser = PossibleValuesParser::new(CPUS.map(|cpu| cpu.cross.target)))]
    targets: Vec<String>,
}

/// Compiles, tests and runs for the named CPUs, or for all.
pub(crate) fn main(arguments: &Arguments) -> Result<bool, String> {
    let Arguments { list, only, targets } = arguments;
    if *list {
        CPUS.iter().for_each(|cpu| println!("{:32} {}", cpu.cross.target, cpu.what));
        return Ok(true);
    }
    let mut report = Report::default();
    for cpu in
        CPUS.iter().filter(|cpu| targets.is_empty() || targets.iter().any(|name| name == cpu.cross.target))
    {
        let wanted = |part: &str| only.is_empty() || only.iter().any(|name| name == part);
        cpu.set_up(wanted("gateway"))?;
        for part in PARTS.into_iter().filter(|part| wanted(part)) {
            let name = format!("{} {part}", cpu.cross.target);
            match (part, cpu.machine) {
                ("compile", _) => drop(report.step(&name, || cpu.compile())),
                ("tests", _) => drop(report.step(&name, || cpu.test())),
                (_, Some(machine)) => drop(report.step(&name, || cpu.gateway(machine))),
                (_, None) => report.skip(&name, "there is no emulated machine with it"),
            }
        }
    }
    Ok(report.finish())
}

impl Cpu {
    /// Installs the tools to compile and run programs for this CPU, and for its machine if
    /// `wanted`.
    fn set_up(&self, wanted: bool) -> Result<(), String> {
        let machine = self.machine.filter(|_| wanted);
        let compiler = format!("gcc-{}", self.cross.tools);
        let headers = format!("/usr/{}/include/stdio.h", self.cross.tools);
        let needs = [
            (
                compiler.as_str(),
                "links programs of another CPU",
                has_program(&format!("{}-gcc", self.cross.tools)),
            ),
            (self.library, "what they are linked with", Path::new(&headers).exists()),
            ("qemu-user", "runs them", has_program(&format!("qemu-{}", self.cross.emulator))),
            ("qemu-system-arm", "a machine with that CPU", machine.is_none_or(guest::Cpu::is_emulated)),
            ("xz-utils", "its kernel's modules", machine.is_none() || has_program("xz")),
        ];
        let missing: Vec<_> =
            needs.iter().filter(|(.., there)| !there).map(|(name, why, _)| (*name, *why)).collect();
        if !missing.is_empty() {
            packages(&missing)?;
        }
        if has_core(self.cross.target) || fetch_core(self.cross.target) {
            return Ok(());
        }
        Err(format!("no standard library for {0}: `rustup target add {0}` would give it", self.cross.target))
    }

    fn cargo(&self, what: &str) -> Command {
        self.cross.cargo(what)
    }

    /// Checks the product's crates.
    fn compile(&self) -> StepResult {
        let mut command = self.cargo("check");
        command.args(["--workspace", "--exclude", "xtask", "--exclude", "xtask-peers"]).echoed(900)?;
        Ok(self.what.into())
    }

    /// Runs the product on a machine of that kind.
    fn gateway(&self, machine: &'static guest::Cpu) -> StepResult {
        let mut command = self.cargo("build");
        command.args(["--release", "--package", "antedate"]).echoed(1800)?;
        let program = target().join("cross").join(self.cross.target).join("release/antedate");
        gateway::run(machine, &program).map_err(Stop::Failed)
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
