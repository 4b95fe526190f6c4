//! The example sensor of `firmware/sensor`: built for each chip, run where QEMU has the chip, and its
//! packets compared with those of another implementation. And `firmware/io-device`: built, and the cost
//! of its frames measured; the peer `io-device` runs it.

use crate::interface::EMULATOR;
use std::path::Path;
use xtask::mote::{Build, IO_DEVICE};
use xtask::report::StepResult;
use xtask::setup::{self, Purpose};
use xtask::shell::{Run, program, root};

const PACKAGE: &str = "antedate-sensor";
const CORTEX_M4: &str = "thumbv7em-none-eabihf";
const RISC_V: &str = "riscv32imc-unknown-none-elf";

const fn build(triple: &'static str, features: &'static str, programs: &'static [&'static str]) -> Build {
    Build { package: PACKAGE, triple, profile: "release", features, programs }
}

/// QEMU's machine of a chip.
struct Machine {
    qemu: &'static str,
    words: &'static [&'static str],
}

const STM32F405: Machine = Machine { qemu: "qemu-system-arm", words: &["-M", "netduinoplus2"] };
const RV32: Machine = Machine {
    qemu: "qemu-system-riscv32",
    words: &["-M", "virt", "-cpu", "rv32,a=off,d=off,f=off", "-bios", "none"],
};
/// The program's console is standard output.
const CONSOLE: [&str; 10] = [
    "-display",
    "none",
    "-monitor",
    "none",
    "-serial",
    "none",
    "-chardev",
    "stdio,id=console",
    "-semihosting-config",
    "enable=on,target=native,chardev=console",
];

/// Costs that the program of the IO device prints: two suites, three lengths.
const FRAMES: usize = 6;

/// Builds all, and runs what QEMU has a machine for.
pub(crate) fn check() -> StepResult {
    Ok(run()?)
}

/// The same, for `cargo xtask firmware`.
pub(crate) fn run() -> Result<String, String> {
    setup::ensure(Purpose::Firmware)?;
    // Each of the chips has its own memory, and so its own build of the same program.
    build(CORTEX_M4, "embassy,nrf52840", &["bare", "embassy"]).run()?;
    let arm = build(CORTEX_M4, "embassy", &["bare", "embassy"]).run()?;
    let riscv = build(RISC_V, "", &["bare"]).run()?;
    let device = IO_DEVICE.run()?;
    let known = known()?;
    let ccm: Vec<&str> = known.lines().filter(|line| line.starts_with("ccm ")).collect();
    compare(&said(&STM32F405, &arm.join("bare"))?, &known.lines().collect::<Vec<_>>())?;
    compare(&said(&STM32F405, &arm.join("embassy"))?, &ccm)?;
    compare(&said(&RV32, &riscv.join("bare"))?, &known.lines().collect::<Vec<_>>())?;
    let said =
        program("qemu-system-arm").args(EMULATOR).arg("-kernel").arg(device.join("measure")).read(60)?;
    let frames = judge_frames(&said)?;
    Ok(format!(
        "bare and Embassy on a Cortex-M4, bare on a RISC-V, executed; for the nRF52840 built; {frames}"
    ))
}

/// The packets of another implementation.
fn known() -> Result<String, String> {
    let file = root().join("vectors/sensor.txt");
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let packets = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    Ok(packets.collect::<Vec<_>>().join("\n"))
}

/// Runs a program. Returns what it printed.
fn said(machine: &Machine, image: &Path) -> Result<String, String> {
    program(machine.qemu).args(machine.words).args(CONSOLE).arg("-kernel").arg(image).read(60)
}

/// The packets that a program printed are the known ones, in their order.
fn compare(said: &str, known: &[&str]) -> Result<(), String> {
    let packets: Vec<&str> = said
        .lines()
        .filter(|line| ["ccm ", "chacha "].iter().any(|cipher| line.starts_with(cipher)))
        .collect();
    if known.is_empty() || packets != known {
        return Err(format!("other packets than the known ones:\n{said}"));
    }
    Ok(())
}

/// Prints the costs of MACsec frames: suite, octets, then the instructions of protecting without and
/// with a preparation, and those of validating. A prepared frame is cheaper, or it is an error.
fn judge_frames(said: &str) -> Result<String, String> {
    let (mut frames, mut least) = (0, f64::INFINITY);
    for line in said.lines() {
        let numbers: Vec<f64> = line.split(' ').skip(1).filter_map(|word| word.parse().ok()).collect();
        let [_, plain, prepared, validated, expected] = numbers[..] else {
            return Err(format!("no costs of a frame: {line}"));
        };
        println!("{line}");
        least = f64::min(least, f64::min(plain / prepared, validated / expected));
        frames += 1;
    }
    if frames < FRAMES || least <= 1.0 {
        return Err(format!(
            "{frames} costs of frames, at least {least:.2} times as much without preparation"
        ));
    }
    Ok(format!("a frame costs at least {least:.1} times as much without preparation"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_preparation_is_told() {
        let line = "gcm-aes-128 64 48000 18000 47000 18000\n";
        let note = judge_frames(&line.repeat(FRAMES)).expect("it is cheaper");
        assert!(note.contains("2.6 times"), "{note}");
        assert!(judge_frames(line).is_err(), "too few");
        assert!(judge_frames("refused").is_err_and(|why| why.contains("refused")));
        let late = format!("{}gcm-aes-128 64 48000 18000 17000 18000", line.repeat(FRAMES));
        assert!(judge_frames(&late).is_err(), "a preparation costs more than it saves");
    }

    #[test]
    fn other_packets_are_told() {
        let known = ["ccm 1 aa", "chacha 1 bb"];
        assert_eq!(compare("ccm 1 aa\nhello\nchacha 1 bb\n", &known), Ok(()));
        assert!(compare("ccm 1 ab\nchacha 1 bb", &known).is_err_and(|why| why.contains("ccm 1 ab")));
        assert!(compare("ccm 1 aa", &known).is_err(), "one is missing");
        assert!(compare("chacha 1 bb\nccm 1 aa", &known).is_err(), "another order");
        assert!(compare("", &[]).is_err(), "nothing is compared");
    }

    #[test]
    fn file_has_packets_of_both_ciphers() {
        let known = known().expect("the file");
        assert_eq!(known.lines().filter(|line| line.starts_with("ccm ")).count(), 4);
        assert_eq!(known.lines().count(), 8);
    }
}
