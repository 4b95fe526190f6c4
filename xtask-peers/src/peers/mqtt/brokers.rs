//! Brokers other than Mosquitto: NATS of Debian, aedes of npm, mochi of Go's module proxy, HiveMQ of Maven.

use crate::peers::{maven, npm};
use std::fs;
use std::path::PathBuf;
use xtask::shell::{Run, cache, program, root};

/// Builds mochi, and installs aedes and HiveMQ. A machine that cannot fetch one goes on without it, and
/// [`missing`] names it.
pub(super) fn prepare() -> Result<(), String> {
    mochi()?;
    if let Err(reason) = aedes() {
        println!("   aedes is left out, its packages cannot be fetched here: {reason}");
    }
    if let Err(reason) = maven::install("hivemq") {
        println!("   HiveMQ is left out, its modules cannot be fetched here: {reason}");
    }
    Ok(())
}

/// `NAME=PROGRAM` of those that are there.
pub(super) fn all() -> Result<Vec<String>, String> {
    let (mochi, aedes) = (mochi_program()?, aedes_folder()?.join("broker.js"));
    let installed = aedes.with_file_name("node_modules").join(".package-lock.json");
    let mut all = vec!["nats=/usr/sbin/nats-server".to_owned()];
    all.extend(mochi.exists().then(|| format!("mochi={}", mochi.display())));
    all.extend(installed.exists().then(|| format!("aedes={}", aedes.display())));
    let hivemq = maven::class_path("hivemq")?;
    all.extend(hivemq.exists().then(|| format!("hivemq={}", hivemq.display())));
    Ok(all)
}

/// The names of those that are not there.
pub(super) fn missing(there: &[String]) -> Vec<&'static str> {
    let is_there = |name: &str| there.iter().any(|one| one.split('=').next() == Some(name));
    ["nats", "mochi", "aedes", "hivemq"].into_iter().filter(|name| !is_there(name)).collect()
}

fn mochi_program() -> Result<PathBuf, String> {
    Ok(cache("peers")?.join("mochi"))
}

fn aedes_folder() -> Result<PathBuf, String> {
    cache("peers/aedes")
}

/// Builds the program with the modules of its go.sum.
fn mochi() -> Result<(), String> {
    let (folder, out) = (root().join("peers/mochi"), mochi_program()?);
    let _ = fs::remove_file(&out);
    let mut fetch = program("go");
    fetch.current_dir(&folder).args(["mod", "download"]).env("GOFLAGS", "");
    if let Err(reason) = fetch.echoed(60) {
        println!("   mochi is left out, its modules cannot be fetched here: {reason}");
        return Ok(());
    }
    let mut go = program("go");
    go.current_dir(&folder).args(["build", "-mod=readonly", "-trimpath", "-o"]).arg(&out).arg(".");
    go.env("GOFLAGS", "").env("CGO_ENABLED", "0").echoed(240)
}

/// Installs the packages of its lock file.
fn aedes() -> Result<(), String> {
    npm::install("aedes", "broker.js")
}
