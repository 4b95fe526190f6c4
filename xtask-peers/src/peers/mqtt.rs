//! Mosquitto between our client and paho-mqtt, and our envelopes read by pycose: in both
//! directions, forged, repeated, after kills. Then the Python package, in the programs of the book.

mod brokers;
mod node;

use super::python;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use xtask::report::{StepResult, Stop};
use xtask::shell::{Run, antedate, cache, cargo, profile, program, root};

/// The number of kills of the publisher.
const KILLS: &str = "200";

/// Seconds for the long queue.
pub(crate) const LONG: u64 = 1800;
const PLUGIN: &str = "antedate-mosquitto-plugin";

/// Makes the Python environment and the broker's plugin.
pub(crate) fn prepare() -> Result<(), Stop> {
    let python = python()?;
    // In the product's profile, so that the two share what they compile.
    cargo().args(["build", "--locked", "--profile", &profile(), "--package", PLUGIN]).bounded(600)?;
    install_wheel(&python)?;
    sparkplug()?;
    brokers::prepare()?;
    node::prepare()?;
    // Checks the layouts that the plugin assumes against Mosquitto's own headers.
    program("cc")
        .args(["-std=c11", "-Wall", "-Werror", "-fsyntax-only"])
        .arg(python::script("mqtt/layout.c"))
        .bounded(60)?;
    Ok(())
}

fn python() -> Result<PathBuf, String> {
    python::environment(
        "mqtt",
        &[
            "aiomqtt==2.5.1",
            "cbor2==6.2.1",
            "cryptography==50.0.2",
            "gmqtt==0.8.0",
            "maturin==1.16.0",
            "mypy==2.4.1",
            "paho-mqtt==2.2.0",
            "pycose==1.1.0",
        ],
    )
}

/// The environment of the Sparkplug library, which needs paho-mqtt 1.
fn sparkplug() -> Result<PathBuf, String> {
    python::environment("sparkplug", &["paho-mqtt==1.6.1", "pysparkplug==0.6.1"])
}

/// Builds the wheel of the Python package, as its users do, and installs it.
fn install_wheel(python: &Path) -> Result<(), String> {
    let wheels = cache("peers")?.join("wheels");
    let _ = fs::remove_dir_all(&wheels);
    let mut maturin = program(python.with_file_name("maturin"));
    maturin.args(["build", "--quiet", "--locked", "--profile", &profile(), "--interpreter"]).arg(python);
    maturin.args(["--manifest-path", "crates/python/Cargo.toml", "--out"]).arg(&wheels).bounded(600)?;
    let built = fs::read_dir(&wheels).map_err(|e| e.to_string())?.find_map(|entry| Some(entry.ok()?.path()));
    let mut pip = program(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"]);
    pip.arg(built.ok_or("maturin made no wheel")?).bounded(60)
}

/// Runs all parts of the scripts, each with its own broker.
pub(crate) fn run() -> StepResult {
    let plugin = antedate().with_file_name("libantedate_mosquitto_plugin.so");
    judge("peer", &[KILLS.as_ref(), plugin.as_ref()], 400)?;
    let chapter = root().join("docs/src/mqtt-applications.md");
    judge("applications", &[chapter.as_ref()], 120)?;
    judge("options", &[], 60)?;
    judge("troubles", &[], 120)?;
    judge("transport", &[], 90)?;
    judge("keys", &[], 300)?;
    judge("asynchronous", &[], 60)?;
    judge("cluster", &["/usr/sbin/nats-server".as_ref()], 180)?;
    judge("proxy", &[], 120)?;
    judge_in(&sparkplug()?, "sparkplug", &[], 60)?;
    judge("backlog", &["2000".as_ref()], 120)?;
    judge("pairs", &["10000".as_ref(), "100".as_ref()], 60)?;
    let others = queues("300", 120)?;
    let done = format!(
        "Mosquitto and {} other brokers, a NATS cluster, paho-mqtt and gmqtt over 3.1.1 and 5, pycose both ways; kills of all three; the Python package; the proxy with paho-mqtt and pysparkplug",
        others.len()
    );
    let mut missing = brokers::missing(&others);
    if !node::run()? {
        missing.push("mqtt.js and Node-RED");
    }
    match missing[..] {
        [] => Ok(format!("{done}; the Node package with mqtt.js and in Node-RED")),
        ref missing => Err(Stop::Skipped(format!(
            "partners that cannot be fetched here: {}; all else passed: {done}",
            missing.join(", ")
        ))),
    }
}

/// Long queues: each message is read once, through kills under load, and at the other brokers. Then a
/// subscriber of very many topics.
pub(crate) fn run_long() -> StepResult {
    judge("backlog", &["100000".as_ref()], LONG)?;
    let others = queues("100000", LONG)?;
    judge("pairs", &["1000000".as_ref(), "200".as_ref()], LONG)?;
    Ok(format!(
        "100,000 queued messages for each QoS and version at Mosquitto and {} other brokers: each was read once; a million pairs of publisher and topic",
        others.len()
    ))
}

/// Queues of so many messages at the brokers that are there.
fn queues(count: &str, seconds: u64) -> Result<Vec<String>, String> {
    let others = brokers::all()?;
    let words: Vec<&OsStr> =
        [count].into_iter().chain(others.iter().map(String::as_str)).map(OsStr::new).collect();
    judge("brokers", &words, seconds)?;
    Ok(others)
}

/// Runs a script with a directory of its own. Its last line is the verdict.
fn judge(name: &str, words: &[&OsStr], seconds: u64) -> Result<(), String> {
    judge_in(&python()?, name, words, seconds)
}

fn judge_in(python: &Path, name: &str, words: &[&OsStr], seconds: u64) -> Result<(), String> {
    let work = cache("peers")?.join(format!("mqtt-{name}"));
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).map_err(|e| e.to_string())?;
    let mut script = program(python);
    script.arg(python::script(&format!("mqtt/{name}.py"))).arg(antedate()).arg(&work).args(words);
    let said = script.read(seconds)?;
    print!("{said}");
    match said.lines().last() {
        Some(r#"{"passed": true}"#) => Ok(()),
        _ => Err(format!("{name}: no verdict:\n{said}")),
    }
}
