//! The program `xtask-peers`, which links the engine and is built only for its own commands.

use crate::report::{self, StepResult};
use crate::shell::{PROFILE, Run, cache, cargo, line, program, target};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

/// The peers that `cargo xtask test` runs, quick ones first.
pub const TESTED: [&str; 22] = [
    "scapy",
    "scapy-wpan",
    "ppmp",
    "dtls",
    "dtls-partners",
    "goose",
    "fleet",
    "iperf3",
    "mqtt",
    "prometheus",
    "page",
    "tshark",
    "profinet",
    "linuxptp",
    "eap-tls",
    "wireguard-go",
    "kernel-wireguard",
    "kernel-macsec",
    "kernel-wpan",
    "release-clock",
    "wpa-supplicant",
    "io-device",
];

/// The command of `xtask-peers` that runs one peer and writes its outcome to a file.
pub const STEP: &str = "peer-step";

/// Time limit of a peer's step in seconds, including its preparation.
const STEP_LIMIT: u64 = 2400;

/// Replaces this process with `xtask-peers COMMAND ARGS...`, which so receives signals and sets the
/// exit status.
pub fn replace_with(command: &str, args: &[OsString]) -> String {
    let mut peers = cargo();
    peers.args(["run", "--quiet", "--package", "xtask-peers", "--", command]).args(args);
    let error = peers.exec();
    format!("{}: {error}", line(&peers))
}

/// Builds `xtask-peers`.
pub fn build() -> Result<(), String> {
    cargo().args(["build", "--quiet", "--locked", "--package", "xtask-peers"]).bounded(900)
}

/// The path of what [`build`] built.
pub fn built() -> PathBuf {
    target().join("debug/xtask-peers")
}

/// Runs one peer as a step of `cargo xtask test`, with the product of this profile.
pub fn step(name: &str, profile: &str) -> StepResult {
    let outcome = cache("peers/run")?.join(format!("{name}.step"));
    let _ = std::fs::remove_file(&outcome);
    program(built()).args([STEP, name]).arg(&outcome).env(PROFILE, profile).bounded(STEP_LIMIT)?;
    let text = std::fs::read_to_string(&outcome).map_err(|e| format!("the peer wrote no outcome: {e}"))?;
    report::read(&text)
}
