//! Scandium, the DTLS of Eclipse Californium, as client and server of ours: on a good and a bad
//! wire, with P-256, and with connection IDs (RFC 9146) while our address changes.

use super::moves;
use super::relay::Faults;
use super::talk::{client_asks, device_speaks, serve};
use super::{BAD_WIRE, IDENTITY, KEY, MESSAGES, Place, free};
use crate::peers::maven;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use xtask::shell::{Run, cache, program, root};

const CCM8: &str = "TLS_PSK_WITH_AES_128_CCM_8";
const ECDHE: &str = "TLS_ECDHE_PSK_WITH_AES_128_GCM_SHA256";
/// Its words for no connection IDs, and for own ones of six octets.
const WITHOUT: &str = "-1";
const WITH: &str = "6";

fn folder() -> Result<PathBuf, String> {
    cache("peers/scandium")
}

fn class_path() -> Result<String, String> {
    let file = maven::class_path("scandium")?;
    fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))
}

/// Fetches the modules and compiles the program.
pub(super) fn build() -> Result<(), String> {
    let _ = fs::remove_file(folder()?.join("Scandium.class"));
    maven::install("scandium")?;
    // Debian's Java without javac has the compiler too.
    let mut javac = program("java");
    javac.args(["-m", "jdk.compiler/com.sun.tools.javac.Main"]);
    javac.args(["-Xlint:all,-classfile,-path", "-Werror", "-cp", class_path()?.trim(), "-d"]).arg(folder()?);
    javac.arg(root().join("peers/scandium/Scandium.java")).echoed(120)
}

/// True if the program is compiled.
pub(super) fn is_there() -> Result<bool, String> {
    Ok(folder()?.join("Scandium.class").exists())
}

fn scandium(words: &[&str]) -> Result<Command, String> {
    let mut java = program("java");
    // The compiler of hot code would only compete with what is judged.
    java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]);
    java.arg(format!("{}:{}", folder()?.display(), class_path()?.trim())).arg("Scandium").args(words);
    Ok(java)
}

/// Runs all cases.
pub(super) fn run(place: &Place) -> Result<String, String> {
    let good = Faults::default();
    let mut notes = Vec::new();
    for (suite, ids, faults) in [(CCM8, WITHOUT, good), (ECDHE, WITH, good), (CCM8, WITH, BAD_WIRE)] {
        let count = MESSAGES.to_string();
        let client = client_asks(place, "Scandium's client", &[], faults, |port| {
            scandium(&["client", port, IDENTITY, KEY, suite, ids, &count])
        })?;
        let at = free()?;
        let command = scandium(&["server", &at.port().to_string(), IDENTITY, KEY, suite, ids])?;
        let server = serve(place, "scandium", command)?;
        let came = device_speaks(place, "Scandium's server", at, faults)
            .map_err(|e| format!("{e}\n{}", server.output()))?;
        let _ = server.stop(5);
        notes.push(format!("client {client} and server {came}"));
    }
    let at = free()?;
    let command = scandium(&["server", &at.port().to_string(), IDENTITY, KEY, CCM8, WITH])?;
    let server = serve(place, "scandium", command)?;
    moves::ours(place, "Scandium's server", at, CCM8).map_err(|e| format!("{e}\n{}", server.output()))?;
    let _ = server.stop(5);
    Ok(format!("Scandium with two suites and on a bad wire: {}, and our address changed", notes.join(", ")))
}
