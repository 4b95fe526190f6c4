//! The step *backends*: the engine's kernels that the tests execute, and how.
//!
//! Each x86-64 kernel runs on an emulated CPU (`crates/aead-emulated`), whatever this machine has.
//! A kernel that no test reaches is a failure. ARM runs in QEMU, in steps of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use xtask::cross::Cross;
use xtask::report::{StepResult, Stop};
use xtask::shell::{EMULATED, Run, cache, cargo};

/// The emulated CPUs (`aead-emulated/src/emulated/cpu.rs`), and the tests that run on them: all on
/// the first, and on the others those of the choice between kernels.
const CPUS: [(&str, &[&str]); 7] = [
    ("avx512", &[]),
    ("avx512-amd", CHOICE),
    ("avx512-without-vaes", CHOICE),
    ("vaes", CHOICE),
    ("aes-ni", CHOICE),
    ("ssse3", CHOICE),
    ("sse2", CHOICE),
];
const CHOICE: &[&str] = &["--", "backend::x86", "backend::ssse3", "templates"];

/// Kernels by instruction set; a kernel belongs to the first set of which it uses a feature.
const SETS: [(&str, &[&str]); 7] = [
    ("AVX-512", &["avx512", "gfni"]),
    ("VAES-256", &["vaes", "vpclmulqdq"]),
    ("AVX2", &["avx"]),
    ("AES-NI", &["aes", "pclmulqdq", "sse4.1"]),
    ("SSSE3", &["ssse3"]),
    ("BMI", &["bmi"]),
    ("SSE2", &["sse2"]),
];

/// Executes and lists the backends of x86-64 and of this CPU.
pub(crate) fn check() -> StepResult {
    let native = native()?;
    let mut note = native.clone();
    println!("{native}");
    if cfg!(target_arch = "x86_64") {
        let (table, uncompared) = emulated()?;
        println!("{table}");
        note += &format!("; all x86-64 kernels emulated, {uncompared} intrinsics not compared with this CPU");
    }
    println!("table: unit tests of the engine on this CPU; step firmware runs it on emulated motes");
    Ok(note)
}

/// Runs the engine's tests in QEMU.
pub(crate) fn arm(cpu: &Cross) -> StepResult {
    if let Some(why) = cpu.missing() {
        return Err(Stop::Skipped(format!(
            "{why}; `cargo xtask cross {}` installs what it needs",
            cpu.target
        )));
    }
    cpu.cargo("test").args(["--release", "--no-fail-fast", "--package", "antedate-aead"]).tests(1800)?;
    Ok(format!("qemu-{}", cpu.emulator))
}

/// The backends of this CPU, which the step *tests* executes.
fn native() -> Result<String, Stop> {
    let file = cache("backends")?.join("native");
    let _ = std::fs::remove_file(&file);
    let mut command = cargo();
    command.args(["test", "--locked", "--package", "antedate-aead", "--test", "all"]);
    command.arg("executed_backends_are_recorded").env("ANTEDATE_BACKENDS", &file).tests(900)?;
    let names = read(&file)?;
    Ok(format!("this CPU: {}", names.lines().collect::<Vec<_>>().join(", ")))
}

/// Runs the engine's tests on the emulated CPUs. Returns a table of kernels, and the number of
/// intrinsics that this machine cannot compare with its own instructions.
fn emulated() -> Result<(String, usize), Stop> {
    let file = cache("backends")?.join("kernels");
    let _ = std::fs::remove_file(&file);
    for (cpu, tests) in CPUS {
        let mut command = cargo();
        command.args(["test", "--locked", "--no-fail-fast", "--package", EMULATED]).args(tests);
        command.env("ANTEDATE_EMULATED_CPU", cpu).env("ANTEDATE_KERNELS", &file).tests(1200)?;
    }
    let record = Record::of(&read(&file)?);
    let missed: Vec<&str> = record.kernels.difference(&record.ran).map(String::as_str).collect();
    if !missed.is_empty() {
        return Err(format!("no test executes {} kernels:\n{}", missed.len(), missed.join("\n")).into());
    }
    Ok((record.table(), record.uncompared.len()))
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|e| format!("the tests wrote no {}: {e}", file.display()))
}

/// What the tests on emulated CPUs wrote: lines of a kind, and a name.
#[derive(Default)]
struct Record {
    /// Place and features of each kernel.
    kernels: BTreeSet<String>,
    ran: BTreeSet<String>,
    /// Intrinsics whose instructions this machine lacks.
    uncompared: BTreeSet<String>,
}

impl Record {
    fn of(text: &str) -> Self {
        let mut record = Self::default();
        for (kind, name) in text.lines().filter_map(|line| line.split_once('\t')) {
            let set = match kind {
                "kernel" => &mut record.kernels,
                "ran" => &mut record.ran,
                "uncompared" => &mut record.uncompared,
                _ => continue,
            };
            set.insert(name.to_owned());
        }
        record
    }

    fn table(&self) -> String {
        let mut counts = BTreeMap::<&str, usize>::new();
        for kernel in &self.kernels {
            *counts.entry(set(kernel)).or_default() += 1;
        }
        let lines = SETS.iter().map(|(name, _)| {
            format!("{name}: {} kernels emulated", counts.get(name).copied().unwrap_or_default())
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// The instruction set of a kernel.
fn set(kernel: &str) -> &'static str {
    let features = kernel.rsplit('\t').next().unwrap_or_default();
    let uses = |starts: &[&str]| features.split(',').any(|f| starts.iter().any(|start| f.starts_with(start)));
    SETS.iter().find(|(_, starts)| uses(starts)).map_or("other", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreached_kernels_are_named() {
        let record =
            Record::of("kernel\ta.rs:1\tavx2\nkernel\ta.rs:9\tsse2\nran\ta.rs:9\tsse2\nuncompared\tx\n");
        assert_eq!(record.kernels.difference(&record.ran).collect::<Vec<_>>(), ["a.rs:1\tavx2"]);
        assert!(record.table().contains("AVX2: 1 kernels emulated"));
        assert_eq!(record.uncompared.len(), 1);
    }

    #[test]
    fn kernels_have_an_instruction_set() {
        for (features, wanted) in [
            ("avx512f,avx512vl,vaes", "AVX-512"),
            ("avx2,vaes", "VAES-256"),
            ("avx,pclmulqdq", "AVX2"),
            ("sse4.1,ssse3,aes", "AES-NI"),
            ("ssse3", "SSSE3"),
            ("bmi1,bmi2", "BMI"),
            ("sse2", "SSE2"),
        ] {
            assert_eq!(set(&format!("a.rs:1\t{features}")), wanted);
        }
    }
}
