//! `cargo xtask bench aead`: the engine beside other implementations, in one run.
//!
//! The benchmark is a workspace of its own (`bench/`); this sets it up, builds it and runs it.

use crate::setup::{self, Purpose};
use crate::shell::{Run, cache, cargo, program, root};
use std::path::Path;

const USAGE: &str = "bench aead [--quick] [--only CIPHER]... [--tail] [--json FILE]";

/// The package of ipsec-mb, and what it brings.
const IPSEC_MB: (&str, &str) = ("libipsec-mb-dev", "Intel's library for IPsec, a peer");
const IPSEC_MB_HEADER: &str = "/usr/include/intel-ipsec-mb.h";

/// Parses the arguments, sets up, builds and measures; false if a goal was missed.
pub(crate) fn main(args: &[String]) -> Result<bool, String> {
    let mut words = args.iter();
    let mut json = false;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" | "--tail" => {}
            "--only" => drop(words.next().ok_or(USAGE)?),
            "--json" => (json, _) = (true, words.next().ok_or(USAGE)?),
            _ => return Err(USAGE.into()),
        }
    }
    if cfg!(not(target_arch = "x86_64")) {
        return Err("the fences and the clock of this benchmark are those of x86-64".into());
    }
    setup::ensure(Purpose::Ciphers)?;
    if !Path::new(IPSEC_MB_HEADER).exists() {
        // Not every system has it, and the others can be measured without.
        if let Err(reason) = setup::packages(&[IPSEC_MB]) {
            println!("xtask: {reason}\nxtask: going on without ipsec-mb");
        }
    }
    let target = cache("bench-aead")?;
    println!("xtask: building the peers, OpenSSL and AWS-LC among them: some minutes the first time");
    let mut build = cargo();
    // Its own configuration, which asks for this very CPU, lies in its directory.
    build.current_dir(root().join("bench")).env("CARGO_TARGET_DIR", &target);
    build.args(["build", "--release", "--quiet", "--locked"]).echoed(3600)?;
    let mut run = program(target.join("release/antedate-bench"));
    run.args(args);
    if let (false, Ok(dir)) = (json, cache("bench")) {
        let file = dir.join("aead.json");
        println!("xtask: all numbers will be in {}", file.display());
        run.arg("--json").arg(file);
    }
    match run.status() {
        Ok(status) if status.code().is_some_and(|code| code < 2) => Ok(status.success()),
        Ok(status) => Err(format!("antedate-bench: {status}")),
        Err(error) => Err(format!("antedate-bench: {error}")),
    }
}
