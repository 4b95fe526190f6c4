//! The CPUs of a guest: their names in Debian, the linker and QEMU, and their machines.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use xtask::shell::{Run, cache, has_program, program};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cpu {
    /// Debian's name.
    pub(super) debian: &'static str,
    /// Debian's package of its default kernel.
    pub(super) kernel: &'static str,
    /// Debian's name of its compiler and of its library folder.
    pub(super) tools: &'static str,
    /// The dynamic loader, and its path in programs.
    pub(super) loader: (&'static str, &'static str),
    /// QEMU's program, and its machine options.
    pub(super) qemu: &'static str,
    pub(super) machine: &'static [&'static str],
    /// The serial port of the commands, as named by the guest and by QEMU.
    pub(super) port: (&'static str, &'static str),
    /// Kernel parameters beside those of all CPUs.
    pub(super) append: &'static str,
    /// The kernel's image unpacks itself; QEMU starts the image inside it.
    pub(super) packed: bool,
}

/// This machine's CPU, emulated all the same: a virtual machine offers nothing else.
pub(crate) const X86_64: Cpu = Cpu {
    debian: "amd64",
    kernel: "linux-image-amd64",
    tools: "x86_64-linux-gnu",
    loader: ("ld-linux-x86-64.so.2", "lib64"),
    qemu: "qemu-system-x86_64",
    machine: &["-machine", "q35,accel=tcg", "-cpu", "max"],
    port: ("/dev/ttyS1", "isa-serial"),
    append: "console=ttyS0 mitigations=off tsc=reliable no_timer_check",
    packed: true,
};

/// ARM with 64 bits and its AES instructions, as in a usual industrial box.
pub(crate) const AARCH64: Cpu = Cpu {
    debian: "arm64",
    kernel: "linux-image-arm64",
    tools: "aarch64-linux-gnu",
    loader: ("ld-linux-aarch64.so.1", "lib"),
    qemu: "qemu-system-aarch64",
    machine: &["-machine", "virt,accel=tcg", "-cpu", "cortex-a72"],
    port: ("/dev/ttyS0", "pci-serial"),
    append: "console=ttyAMA0",
    packed: false,
};

/// ARM with 32 bits, without AES instructions.
pub(crate) const ARMV7: Cpu = Cpu {
    debian: "armhf",
    kernel: "linux-image-armmp",
    tools: "arm-linux-gnueabihf",
    loader: ("ld-linux-armhf.so.3", "lib"),
    qemu: "qemu-system-arm",
    // Its kernel reaches no device above 4 GiB.
    machine: &["-machine", "virt,accel=tcg,highmem=off", "-cpu", "cortex-a15"],
    port: ("/dev/ttyS0", "pci-serial"),
    append: "console=ttyAMA0",
    packed: false,
};

impl Cpu {
    /// The folder of its guests.
    pub(super) fn folder(&self) -> Result<PathBuf, String> {
        cache(&format!("peers/guest-{}", self.debian))
    }

    /// True if QEMU for it is installed.
    pub(crate) fn is_emulated(&self) -> bool {
        has_program(self.qemu)
    }

    pub(crate) fn qemu(&self) -> Command {
        program(self.qemu)
    }

    /// Debian's package programs for this CPU.
    ///
    /// A CPU other than the machine's has its own package index, so that the machine's own index
    /// stays unchanged.
    pub(super) fn apt(&self, name: &str) -> Result<Command, String> {
        let mut command = program(name);
        if self.is_own()? {
            return Ok(command);
        }
        let place = self.folder()?.join("apt");
        let make = |name: &str| fs::create_dir_all(place.join(name)).map_err(|e| e.to_string());
        make("state/lists/partial")?;
        make("cache/archives/partial")?;
        let status = place.join("status");
        fs::write(&status, "").map_err(|e| format!("{}: {e}", status.display()))?;
        for option in [
            format!("APT::Architecture={}", self.debian),
            format!("APT::Architectures::={}", self.debian),
            format!("Dir::State={}", place.join("state").display()),
            format!("Dir::State::status={}", status.display()),
            format!("Dir::Cache={}", place.join("cache").display()),
        ] {
            command.args(["-o", &option]);
        }
        Ok(command)
    }

    /// True if it is this machine's CPU.
    fn is_own(&self) -> Result<bool, String> {
        Ok(program("dpkg").arg("--print-architecture").read(10)?.trim() == self.debian)
    }

    /// A program of binutils or the compiler for it.
    pub(super) fn tool(&self, name: &str) -> Command {
        program(format!("{}-{name}", self.tools))
    }
}
