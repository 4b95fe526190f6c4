//! `cargo xtask test`: all checks that CI runs.

use crate::{book, dependencies, firmware, house, nostd};
use serde_json::Value;
use xtask::peers;
use xtask::report::{Report, StepResult, Stop};
use xtask::sandbox;
use xtask::setup::{self, Purpose};
use xtask::shell::{Run, antedate, build_release, cache, cargo, program};

struct Step {
    name: String,
    /// The step builds its own networks, which some machines forbid.
    networks: bool,
    run: Box<dyn FnOnce() -> StepResult>,
}

/// Prints the names of the steps.
pub(crate) fn list() -> bool {
    steps().iter().for_each(|step| println!("{}", step.name));
    true
}

/// Runs the named steps, or all. A name may be the first word of several: `house`, `demo`, `peer`.
pub(crate) fn run(only: &[String]) -> Result<Report, String> {
    let steps = steps();
    if let Some(wrong) = only.iter().find(|o| !steps.iter().any(|s| is_named(&s.name, o))) {
        return Err(format!("no step `{wrong}`; `cargo xtask test --list` names them"));
    }
    let mut report = Report::default();
    let wanted = |step: &&Step| is_wanted(&step.name, only);
    let purpose = if steps.iter().filter(wanted).all(Step::is_light) { Purpose::Demo } else { Purpose::Test };
    report.step("set-up", || {
        setup::ensure(purpose)?;
        Ok(String::new())
    });
    let networks = sandbox::possible();
    for step in steps.into_iter().filter(|s| is_wanted(&s.name, only)) {
        match &networks {
            Err(reason) if step.networks => report.skip(&step.name, reason),
            _ => {
                report.step(&step.name, step.run);
            }
        }
    }
    Ok(report)
}

impl Step {
    /// True if the step needs only the packages of a build.
    fn is_light(&self) -> bool {
        ["format", "clippy", "docs", "book"].contains(&self.name.as_str()) || self.name.starts_with("house ")
    }
}

/// True if a name of `--only` covers a step.
fn is_named(step: &str, only: &str) -> bool {
    step.strip_prefix(only).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// True if a step is selected, or if none is named. Steps that start the product select its build
/// too.
fn is_wanted(name: &str, only: &[String]) -> bool {
    let starts_it = |name: &&str| *name == "firmware" || on_networks(&format!("{name} "));
    let named = || only.iter().map(String::as_str);
    only.is_empty()
        || named().any(|only| is_named(name, only))
        || (name == RELEASE_BUILD && named().any(|o| starts_it(&o)))
}

/// True if a step starts the product's program on its own networks.
fn on_networks(name: &str) -> bool {
    ["demo ", "peer ", "bench "].iter().any(|kind| name.starts_with(kind))
}

const RELEASE_BUILD: &str = "release build";

fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    let mut add = |name: &str, run: Box<dyn FnOnce() -> StepResult>| {
        steps.push(Step { name: name.to_string(), networks: on_networks(name), run });
    };
    add("format", Box::new(|| quiet(cargo().args(["fmt", "--all", "--check"]), 60)));
    add(
        "clippy",
        Box::new(|| {
            quiet(
                cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]),
                600,
            )
        }),
    );
    add(
        "docs",
        Box::new(|| {
            quiet(
                cargo()
                    .args(["doc", "--workspace", "--no-deps", "--locked"])
                    .env("RUSTDOCFLAGS", "-D warnings"),
                300,
            )
        }),
    );
    for (name, check) in house::CHECKS {
        add(name, Box::new(check));
    }
    add("dependencies", Box::new(dependencies::check));
    add("book", Box::new(book::check));
    add(
        "tests",
        Box::new(|| tests(cargo().args(["test", "--workspace", "--locked", "--no-fail-fast"]), 1800)),
    );
    add("fuzz seeds", Box::new(fuzz_seeds));
    add("fuzz targets", Box::new(fuzz_targets));
    add("cipher bench", Box::new(cipher_bench));
    add("each crate alone", Box::new(each_alone));
    add("no_std", Box::new(nostd::check));
    add(
        RELEASE_BUILD,
        Box::new(|| {
            build_release()?;
            Ok(String::new())
        }),
    );
    add("firmware", Box::new(firmware::check));
    add("demo macsec", Box::new(|| demo("macsec", &["--secure", "macsec"])));
    add("demo overlay", Box::new(|| demo("overlay", &["--secure", "overlay"])));
    add("demo none", Box::new(|| demo("none", &["--secure", "none"])));
    add("demo faults", Box::new(|| demo("faults", &["--secure", "macsec", "--faults", "all"])));
    for name in peers::TESTED {
        add(&format!("peer {name}"), Box::new(|| peers::step(name)));
    }
    add("bench gateway", Box::new(bench));
    steps
}

fn quiet(command: &mut std::process::Command, seconds: u64) -> StepResult {
    command.echoed(seconds)?;
    Ok(String::new())
}

fn tests(command: &mut std::process::Command, seconds: u64) -> StepResult {
    command.tests(seconds)?;
    Ok(String::new())
}

/// Runs each fuzz body on its seeds, as unit tests: the fuzz targets are their own workspace.
fn fuzz_seeds() -> StepResult {
    let mut command = cargo();
    command.args(["test", "--locked", "--manifest-path", "fuzz/Cargo.toml"]);
    tests(command.env("CARGO_TARGET_DIR", cache("fuzz")?), 600)
}

/// Compiles the programs for libFuzzer, which needs no libFuzzer runtime.
fn fuzz_targets() -> StepResult {
    let mut command = cargo();
    command.args([
        "check",
        "--locked",
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--features",
        "libfuzzer",
        "--bins",
    ]);
    command.env("CUSTOM_LIBFUZZER_PATH", "/usr/lib/libFuzzer.a");
    quiet(command.env("CARGO_TARGET_DIR", cache("fuzz")?), 600)
}

/// Compiles the benchmark of ciphers, which is its own workspace, with the system's OpenSSL instead
/// of a bundled build.
fn cipher_bench() -> StepResult {
    let mut command = cargo();
    command.args(["check", "--locked", "--manifest-path", "bench/Cargo.toml"]).env("OPENSSL_NO_VENDOR", "1");
    quiet(command.env("CARGO_TARGET_DIR", cache("bench-aead")?), 900)
}

/// Checks each package without the features that other packages enable in it.
fn each_alone() -> StepResult {
    let metadata = cargo().args(["metadata", "--format-version=1", "--no-deps"]).read(60)?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata: no packages")?;
    let mut names = Vec::new();
    for name in packages.iter().filter_map(|p| p["name"].as_str()) {
        cargo().args(["check", "--quiet", "--locked", "--package", name]).echoed(300)?;
        names.push(name);
    }
    // The build of `cargo xtask demo`.
    let demo = ["check", "--quiet", "--locked", "--package", "antedate", "--no-default-features"];
    cargo().args(demo).echoed(300)?;
    Ok(names.join(", "))
}

/// Runs the short demo, at the cycle of hohmann2020, which any machine keeps; shorter ones belong
/// to the bench. Its JSON verdict stays in the target directory.
fn demo(name: &str, args: &[&str]) -> StepResult {
    let json = cache("demo")?.join(format!("{name}.json"));
    let mut command = program(antedate());
    command.arg("demo").args(["--cycle-us", "4000", "--seconds", "10"]).args(args).arg("--json").arg(&json);
    command.echoed(180)?;
    let text = std::fs::read_to_string(&json).map_err(|e| format!("{}: {e}", json.display()))?;
    let result: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", json.display()))?;
    let show = |key: &str| result.get(key).map_or(String::new(), |v| format!("{key} {v}"));
    let facts: Vec<String> =
        ["bus_errors", "bus_errors_stalled", "missed", "plaintext_frames_on_wire", "nonce_reuse"]
            .map(show)
            .into();
    Ok(facts.into_iter().filter(|f| !f.is_empty()).collect::<Vec<_>>().join(", "))
}

/// Checks that the gateway's short benchmark completes. Other load here makes its measurements
/// meaningless.
fn bench() -> StepResult {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err(Stop::Skipped("it needs two cores".into()));
    }
    program(peers::built()?).args(["bench", "gateway", "--quick", "--no-verdict"]).echoed(900)?;
    Ok("its goals are not judged here".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_start_it_build_it() {
        let chosen = |only: &[&str]| -> Vec<String> {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            steps().into_iter().map(|s| s.name).filter(|name| is_wanted(name, &only)).collect()
        };
        assert_eq!(chosen(&["demo faults"]), ["release build", "demo faults"]);
        assert_eq!(chosen(&["peer scapy", "firmware"]), ["release build", "firmware", "peer scapy"]);
        assert_eq!(chosen(&["bench gateway"]), ["release build", "bench gateway"]);
        assert_eq!(chosen(&["format"]), ["format"]);
        assert_eq!(chosen(&["house"]).len(), house::CHECKS.len());
        assert_eq!(chosen(&["peer"])[..2], ["release build", "peer scapy"]);
        assert_eq!(chosen(&[]).len(), steps().len());
    }
}
