//! `cargo xtask bench aead`: the engine beside other implementations, in one run.
//!
//! The benchmark is its own workspace (`bench/`); this module sets it up, builds it and runs it.

use std::path::{Path, PathBuf};
use xtask::setup::{self, Purpose};
use xtask::shell::{Run, cache, cargo, program, root};

/// Arguments of `cargo xtask bench aead`, handed to the benchmark.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Fewer rounds
    #[arg(long)]
    quick: bool,
    /// Measure this cipher alone; may be given several times
    #[arg(long, value_name = "CIPHER")]
    only: Vec<String>,
    /// Measure as a CPU of this class would, which lacks instructions of this one: avx512, vaes, avx2, sse,
    /// no-aes
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Measure each class of CPUs, and print a table of each
    #[arg(long, conflicts_with_all = ["class", "tail", "figure"])]
    classes: bool,
    /// Print the tails too
    #[arg(long)]
    tail: bool,
    /// Write all numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the latencies of all ciphers to this file (SVG)
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
}

impl Arguments {
    /// The file of the numbers, unless given.
    fn file(&self) -> String {
        match &self.class {
            Some(class) => format!("aead-{class}.json"),
            None if self.classes => "aead-classes.json".into(),
            None => "aead.json".into(),
        }
    }
}

/// The package of ipsec-mb, and its description.
const IPSEC_MB: (&str, &str) = ("libipsec-mb-dev", "Intel's library for IPsec, a peer");
const IPSEC_MB_HEADER: &str = "/usr/include/intel-ipsec-mb.h";

/// Sets up, builds and measures; false if a goal was missed.
pub(crate) fn main(arguments: &Arguments) -> Result<bool, String> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err("the fences and the clock of this benchmark are those of x86-64".into());
    }
    super::figure::free(arguments.figure.as_deref())?;
    setup::ensure(Purpose::Ciphers)?;
    if !Path::new(IPSEC_MB_HEADER).exists() {
        // Not every system has ipsec-mb; the other implementations run without it.
        if let Err(reason) = setup::packages(&[IPSEC_MB]) {
            println!("xtask: {reason}\nxtask: going on without ipsec-mb");
        }
    }
    let is_masked = arguments.classes || arguments.class.is_some();
    let target = cache(if is_masked { "bench-aead-classes" } else { "bench-aead" })?;
    println!("xtask: building the peers, OpenSSL and AWS-LC among them: some minutes the first time");
    let mut build = cargo();
    // `bench/` has its own Cargo configuration, which selects the native CPU. A class has each
    // implementation choose when it runs, as one for all CPUs does.
    let from = if is_masked { root() } else { root().join("bench") };
    build.current_dir(from).env("CARGO_TARGET_DIR", &target).args([
        "build",
        "--release",
        "--quiet",
        "--locked",
    ]);
    build.arg("--manifest-path").arg(root().join("bench/Cargo.toml")).echoed(3600)?;
    let mut run = program(target.join("release/antedate-bench"));
    run.args(arguments.quick.then_some("--quick")).args(arguments.tail.then_some("--tail"));
    run.args(arguments.classes.then_some("--classes"));
    if let Some(class) = &arguments.class {
        run.args(["--class", class]);
    }
    arguments.only.iter().for_each(|cipher| {
        run.args(["--only", cipher]);
    });
    let json = arguments.json.clone().or_else(|| Some(cache("bench").ok()?.join(arguments.file())));
    if let Some(file) = json {
        println!("xtask: all numbers will be in {}", file.display());
        run.arg("--json").arg(file);
    }
    if let Some(file) = &arguments.figure {
        run.arg("--figure").arg(file);
    }
    match run.status() {
        Ok(status) if status.code().is_some_and(|code| code < 2) => Ok(status.success()),
        Ok(status) => Err(format!("antedate-bench: {status}")),
        Err(error) => Err(format!("antedate-bench: {error}")),
    }
}
