//! The steps of `cargo xtask test`, in their order.

use crate::{
    backends, book, capi, demos, dependencies, firmware, house, labs, nostd, papers, publish, sensors, timing,
};
use Lane::{Alone, Computing, Waiting};
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::process::Command;
use xtask::cross::{ARMV7, ARMV8};
use xtask::peers;
use xtask::report::{StepResult, Stop};
use xtask::shell::{EMULATED, PROFILE, Run, TESTS, build_product, cache, cargo, program, target};

/// A check with its name.
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) lane: Lane,
    pub(crate) run: Box<dyn FnOnce() -> StepResult>,
}

/// The company in which a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// No other step runs: this one uses all cores, or others need its result.
    Alone,
    /// It uses one core most of the time.
    Computing,
    /// It waits most of the time, for programs on its own networks or in a guest.
    Waiting,
}

/// The step that builds the programs of the steps after it.
pub(crate) const PRODUCT: &str = "product";

/// The step that installs the product's package.
pub(crate) const PACKAGE: &str = "package";

/// All steps. They use the product in the profile of the tests, with which it has nearly all it
/// needs in common, with assertions and overflow checks.
pub(crate) fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    let mut add = |name: &str, lane: Lane, run: Box<dyn FnOnce() -> StepResult>| {
        steps.push(Step { name: name.to_string(), lane, run });
    };
    add("format", Alone, Box::new(|| quiet(cargo().args(["fmt", "--all", "--check"]), 60)));
    add("clippy", Alone, Box::new(clippy));
    add("docs", Alone, Box::new(docs));
    for (name, check) in house::CHECKS {
        add(name, Alone, Box::new(check));
    }
    add("dependencies", Alone, Box::new(dependencies::policy));
    add("advisories", Alone, Box::new(dependencies::advisories));
    add("book", Alone, Box::new(book::check));
    add("tests", Alone, Box::new(all_tests));
    add("backends", Alone, Box::new(backends::check));
    add("backends ARMv8", Alone, Box::new(|| backends::arm(&ARMV8)));
    add("backends ARMv7", Alone, Box::new(|| backends::arm(&ARMV7)));
    add(PRODUCT, Alone, Box::new(product));
    add("timing", Computing, Box::new(timing::check));
    add("fuzz seeds", Computing, Box::new(fuzz_seeds));
    add("fuzz targets", Computing, Box::new(fuzz_targets));
    add("cipher bench", Computing, Box::new(cipher_bench));
    add("each crate alone", Computing, Box::new(each_alone));
    add("no_std", Computing, Box::new(nostd::check));
    add("C library", Computing, Box::new(capi::check));
    add("crates to publish", Computing, Box::new(publish::check));
    add("rustcrypto", Computing, Box::new(rustcrypto));
    add("firmware", Computing, Box::new(|| firmware::check(TESTS)));
    add("report", Computing, Box::new(|| papers::check(TESTS)));
    add("sensors", Computing, Box::new(sensors::check));
    for demo in demos::ALL {
        add(&format!("demo {}", demo.name), Waiting, Box::new(move || demos::run(&demo, TESTS)));
    }
    for name in labs::ALL {
        add(&format!("lab {name}"), Waiting, Box::new(move || labs::run(name, TESTS)));
    }
    for name in peers::TESTED {
        add(&format!("peer {name}"), Waiting, Box::new(|| peers::step(name, TESTS)));
    }
    add(PACKAGE, Waiting, Box::new(|| peers::step(PACKAGE, TESTS)));
    add("bench gateway", Waiting, Box::new(bench));
    steps
}

fn quiet(command: &mut Command, seconds: u64) -> StepResult {
    command.echoed(seconds)?;
    Ok(String::new())
}

/// Builds what the steps after it start, so that they need no lock of cargo's.
fn product() -> StepResult {
    build_product(TESTS)?;
    peers::build()?;
    Ok(String::new())
}

fn clippy() -> StepResult {
    let words = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    quiet(cargo().args(words), 600)
}

fn docs() -> StepResult {
    let words = ["doc", "--workspace", "--no-deps", "--locked"];
    quiet(cargo().args(words).env("RUSTDOCFLAGS", "-D warnings"), 300)
}

/// Runs the tests of all packages but that of the step *backends*.
fn all_tests() -> StepResult {
    let words = ["test", "--workspace", "--locked", "--no-fail-fast", "--exclude", EMULATED];
    tests(cargo().args(words), 1800)
}

/// Runs tests. Those that this machine cannot run append their reasons to the file of
/// `ANTEDATE_SKIPPED` and pass; the step is then a skipped one.
fn tests(command: &mut Command, seconds: u64) -> StepResult {
    let list = cache("tests")?.join("skipped");
    let fault = |e: std::io::Error| Stop::Failed(format!("{}: {e}", list.display()));
    match fs::remove_file(&list) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(fault(e)),
        _ => {}
    }
    command.env("ANTEDATE_SKIPPED", &list).tests(seconds)?;
    match fs::read_to_string(&list) {
        Ok(reasons) => {
            let reasons: Vec<&str> = reasons.lines().collect();
            Err(Stop::Skipped(format!("the other tests passed; not run: {}", reasons.join("; "))))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(e) => Err(fault(e)),
    }
}

/// Tests the feature of RustCrypto's traits, which no crate here enables.
fn rustcrypto() -> StepResult {
    let words = [
        "test",
        "--locked",
        "--package",
        "antedate-aead",
        "--features",
        "rustcrypto",
        "--test",
        "rustcrypto",
    ];
    tests(cargo().args(words), 300)
}

/// Runs each fuzz body on its seeds, as unit tests: the fuzz targets are their own workspace, with
/// the same profile and the same target directory.
fn fuzz_seeds() -> StepResult {
    let mut command = cargo();
    command.args(["test", "--locked", "--manifest-path", "fuzz/Cargo.toml"]);
    tests(command.env("CARGO_TARGET_DIR", target()), 600)
}

/// Compiles the programs for libFuzzer, which needs no libFuzzer runtime.
fn fuzz_targets() -> StepResult {
    let mut command = cargo();
    command.args(["check", "--locked", "--manifest-path", "fuzz/Cargo.toml"]);
    command.args(["--features", "libfuzzer", "--bins"]);
    command.env("CUSTOM_LIBFUZZER_PATH", "/usr/lib/libFuzzer.a");
    quiet(command.env("CARGO_TARGET_DIR", target()), 600)
}

/// Compiles the benchmark of ciphers, which is its own workspace, with the system's OpenSSL instead
/// of a bundled build.
fn cipher_bench() -> StepResult {
    let mut command = cargo();
    command.args(["check", "--locked", "--all-targets", "--manifest-path", "bench/Cargo.toml"]);
    command.env("OPENSSL_NO_VENDOR", "1").env("CARGO_TARGET_DIR", cache("bench-aead")?);
    quiet(&mut command, 900)
}

/// Packages that other steps build alone, or that belong to the program and no other.
const NEVER_ALONE: [&str; 5] = [EMULATED, "antedate-experiments", "antedate-lab", "xtask", "xtask-peers"];

/// Checks each package without the features that other packages enable in it.
fn each_alone() -> StepResult {
    let metadata = cargo().args(["metadata", "--format-version=1", "--no-deps"]).read(60)?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata: no packages")?;
    let mut names = Vec::new();
    let alone = packages.iter().filter_map(|p| p["name"].as_str()).filter(|name| !NEVER_ALONE.contains(name));
    for name in alone {
        cargo().args(["check", "--quiet", "--locked", "--package", name]).echoed(300)?;
        names.push(name);
    }
    // The build of `cargo xtask demo`.
    let demo = ["check", "--quiet", "--locked", "--package", "antedate", "--no-default-features"];
    cargo().args(demo).echoed(300)?;
    Ok(names.join(", "))
}

/// Checks that the gateway's short benchmark completes, as far as no other step starts the same
/// programs. Other load here makes its measurements meaningless.
fn bench() -> StepResult {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err(Stop::Skipped("it needs two cores".into()));
    }
    let mut command = program(peers::built());
    command.args(["bench", "gateway", "--quick", "--no-verdict", "--only", "roundtrips", "--only", "cpu"]);
    command.env(PROFILE, TESTS);
    command.echoed(900)?;
    Ok("its goals are not judged here".into())
}
