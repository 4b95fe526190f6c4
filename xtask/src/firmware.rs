//! `cargo xtask firmware`: builds the programs of the motes and measures them.

use crate::nostd;
use serde_json::Value;
use std::path::Path;
use xtask::report::StepResult;
use xtask::setup::{self, Purpose};
use xtask::shell::{Run, antedate, build_release, cache, line, program, root};

/// The builds: package, target, profile, programs. The workspace's `Cargo.toml` has the profiles.
const BUILDS: [(&str, &str, &str, &[&str]); 4] = [
    (
        "antedate-mote-cortex-m3",
        "thumbv7m-none-eabi",
        "release",
        &[
            "ccm",
            "scenarios",
            "schedule",
            "dtls",
            "slots",
            "smallest",
            "nothing",
            "node-plain",
            "node-secured",
            "node-antedated",
            "mqtt_ccm",
            "mqtt_bare",
            "mqtt_ocb3",
            "link",
            "client-plain",
            "client-blocks",
            "client-cbc",
            "client-ocb3",
            "client-ccm",
            "client-ccm-antedated",
            "client-ccm-sensor",
            "client-gcm",
            "client-chacha",
        ],
    ),
    (
        "antedate-mote-cortex-m3",
        "thumbv7m-none-eabi",
        "fast",
        &["chacha", "chacha_holes", "gcm_holes", "mqtt_chacha", "mqtt_gcm"],
    ),
    (
        "antedate-mote-msp430",
        "msp430-none-elf",
        "small",
        &[
            "ccm",
            "engine",
            "scenarios",
            "scenarios_engine",
            "schedule",
            "smallest",
            "nothing",
            "mqtt_ccm",
            "mqtt_bare",
            "mqtt_ocb3",
            "mqtt_gcm",
            "mqtt_chacha",
            "link",
            "client-plain",
            "client-blocks",
            "client-cbc",
            "client-ocb3",
            "client-ccm",
            "client-ccm-antedated",
            "client-ccm-sensor",
            "client-gcm",
            "client-chacha",
        ],
    ),
    (
        "antedate-mote-msp430",
        "msp430-none-elf",
        "release",
        &[
            "chacha",
            "chacha_holes",
            "gcm_holes",
            "dtls",
            "slots",
            "node-plain",
            "node-secured",
            "node-antedated",
            "node-hybrid",
            "node-hybrid-antedated",
        ],
    ),
];

/// The experiments over the programs.
const EXPERIMENTS: [&str; 4] = ["motes", "scenarios", "timeslot", "mqtt-motes"];

/// Builds, runs and measures; false if a goal was missed.
pub(crate) fn main() -> Result<bool, String> {
    setup::ensure(Purpose::Firmware)?;
    build()?;
    build_release()?;
    let mut met = true;
    for experiment in EXPERIMENTS {
        let json = cache("firmware")?.join(format!("{experiment}.json"));
        met &= measure(experiment, &json)?;
        println!("the result: {}", json.display());
    }
    Ok(met)
}

/// The step of `cargo xtask test`, after the release build: builds everything, and checks the known
/// answers of all programs.
pub(crate) fn check() -> StepResult {
    setup::ensure(Purpose::Firmware)?;
    build()?;
    let mut said = Vec::new();
    for experiment in EXPERIMENTS {
        let json = cache("firmware")?.join(format!("{experiment}.json"));
        measure(experiment, &json)?;
        let text = std::fs::read_to_string(&json).map_err(|e| format!("{}: {e}", json.display()))?;
        let result: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", json.display()))?;
        let goals = result["checks"].as_array().ok_or("no goals in the result of an experiment")?;
        let met = goals.iter().filter(|goal| goal["met"] == true).count();
        said.push(format!("{experiment}: {met} of {} goals met", goals.len()));
    }
    Ok(said.join(", "))
}

/// Runs the programs; true if all goals were met. Statuses 0 and 1 are verdicts; all others mean
/// that there is no result.
fn measure(experiment: &str, json: &Path) -> Result<bool, String> {
    let mut command = program(antedate());
    command.args(["lab", experiment, "--json"]).arg(json);
    println!("$ {}", line(&command));
    let status = command.status().map_err(|e| format!("{}: {e}", line(&command)))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(format!("{}: {status}", line(&command))),
    }
}

/// Builds all programs of both CPUs with Debian's compiler, `core` included.
fn build() -> Result<(), String> {
    let target = cache("firmware")?;
    for (package, triple, profile, programs) in BUILDS {
        let mut command = nostd::debian_cargo()?;
        // The workspace's `.cargo/config.toml` configures compiler and linker of its targets.
        command.current_dir(root().join("firmware")).env("CARGO_TARGET_DIR", &target).env_remove("RUSTFLAGS");
        command.args(["build", "--locked", "--profile", profile, "--package", package, "--target", triple]);
        programs.iter().for_each(|program| {
            command.args(["--bin", program]);
        });
        command.echoed(600)?;
    }
    Ok(())
}
