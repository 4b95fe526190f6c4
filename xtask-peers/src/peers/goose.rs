//! libiec61850's GOOSE publisher and subscriber communicate through two gateways (IEC 61850-8-1,
//! clause 18).

mod configured;
mod routed;
mod samples;

use super::python;
use crate::daemon::Pair;
use crate::net;
use crate::place;
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use xtask::report::{StepResult, Stop};
use xtask::shell::{Run, antedate, until};

const EVENTS: u64 = 12;
const REPEATS: u64 = 5;

pub(crate) fn prepare() -> Result<(), Stop> {
    python()?;
    Ok(())
}

fn python() -> Result<PathBuf, String> {
    python::environment("goose", &["pyiec61850-ng==1.6.1.10"])
}

/// Checks that all messages arrive, in order, with their values, state and sequence numbers.
pub(crate) fn run() -> StepResult {
    let python = python()?;
    net::cell()?;
    let pair = Pair::start(&["goose"])?;
    // One message of state 1 comes before the others.
    let count = 1 + EVENTS * REPEATS;
    let mut subscriber = net::inside("dev", &python);
    subscriber.arg(python::script("goose/subscriber.py")).args(["eth0", &count.to_string()]);
    let mut subscriber = subscriber.background(&place::run()?.join("goose.log"))?;
    until("the subscriber", 20.0, || match subscriber.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => subscriber.output().contains("listening").then_some(Ok(())),
    })??;
    let mut publisher = net::inside("plc", &python);
    publisher.arg(python::script("goose/publisher.py")).args([
        "eth0",
        &EVENTS.to_string(),
        &REPEATS.to_string(),
    ]);
    publisher.read(30)?;
    let output = subscriber.finish(20)?;
    let messages: Vec<Value> = output.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    if messages.len() as u64 != count {
        return Err(format!("{} of {count} messages came:\n{output}", messages.len()).into());
    }
    for (index, message) in (0..count).zip(&messages) {
        let (state, sequence) = match index {
            0 => (1, 0),
            _ => ((index - 1) / REPEATS + 2, (index - 1) % REPEATS),
        };
        let values = json!([state % 2 == 1, state * 1000 - 7, format!("event {state}")]);
        let expected = json!({ "state": state, "sequence": sequence, "revision": 3, "valid": true, "error": 0, "values": values });
        if *message != expected {
            return Err(format!("expected {expected}, came {message}").into());
        }
    }
    // GOOSE is one-way, so only the subscriber's gateway has validated frames.
    pair.finish_one_way()?;
    net::remove_cell();
    let ours = with_ours(&python)?;
    Ok(format!("{count} messages, {EVENTS} state changes: values, stNum and sqNum right; {ours}"))
}

/// The book's merging unit.
fn scl() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/goose/merging-unit.scd")
}

/// Writes a file that only its owner may read.
fn private(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|e| e.to_string())?;
    std::fs::set_permissions(file, Permissions::from_mode(0o600)).map_err(|e| e.to_string())
}

/// libiec61850 subscribes to our authenticated messages, and our subscriber reads its messages.
fn with_ours(python: &Path) -> Result<String, String> {
    for space in ["publisher", "subscriber"] {
        net::namespace(space)?;
    }
    let end = |space, octet| net::End { space, name: "eth0", octet };
    net::link(end("publisher", 1), end("subscriber", 2), net::FIELD_MTU)?;
    let directory = place::run()?;
    let (key, state) = (directory.join("goose.key"), directory.join("goose.state"));
    let _ = std::fs::remove_file(&key);
    let _ = std::fs::remove_dir_all(&state);
    // The mark of an earlier run, with the same key and addresses.
    let _ = std::fs::remove_file(directory.join("goose.key.publishers"));
    private(&key, "000102030405060708090a0b0c0d0e0f\n")?;

    let (events, repeats) = (8u64, 2u64);
    let mut subscriber = net::inside("subscriber", python);
    let count = 1 + events * (1 + repeats);
    subscriber.arg(python::script("goose/subscriber.py")).args(["eth0", &count.to_string()]);
    let mut subscriber = subscriber.background(&directory.join("goose-ours.log"))?;
    until("the subscriber", 20.0, || match subscriber.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => subscriber.output().contains("listening").then_some(Ok(())),
    })??;
    // A single message comes first: the subscriber's first call-back loads much of Python.
    for (events, repeats) in [(1, 0), (events, repeats)] {
        let mut publisher = net::inside("publisher", antedate());
        publisher.args(["goose", "publish", "eth0", "--key"]).arg(&key).arg("--state").arg(&state);
        publisher.args(["--events", &events.to_string(), "--repeats", &repeats.to_string()]);
        if repeats == 0 {
            publisher.arg("--first");
        }
        publisher.read(30)?;
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    let output = subscriber.finish(20)?;
    let messages: Vec<Value> = output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for (index, message) in messages.iter().enumerate().skip(1) {
        let (event, again) = ((index as u64 - 1) / (repeats + 1) + 1, (index as u64 - 1) % (repeats + 1));
        let right = message["state"] == event
            && message["sequence"] == again
            && message["error"] == 0
            && message["values"][0] == (event % 2 == 1)
            && message["values"][1] == event * 1000 - 7;
        if !right {
            return Err(format!("message {index} of ours came as {message}"));
        }
    }
    if messages.len() as u64 != count {
        return Err(format!("{} of {count} messages of ours came:\n{output}", messages.len()));
    }

    let mut subscriber = net::inside("subscriber", antedate());
    subscriber.args([
        "goose",
        "subscribe",
        "eth0",
        "--plain",
        "--count",
        &(1 + EVENTS * REPEATS).to_string(),
    ]);
    let mut subscriber = subscriber.background(&directory.join("goose-theirs.log"))?;
    until("our subscriber", 20.0, || match subscriber.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => subscriber.output().contains("listening").then_some(Ok(())),
    })??;
    let mut publisher = net::inside("publisher", python);
    publisher.arg(python::script("goose/publisher.py")).args([
        "eth0",
        &EVENTS.to_string(),
        &REPEATS.to_string(),
    ]);
    publisher.read(30)?;
    let output = subscriber.finish(20)?;
    let theirs: Vec<Value> =
        output.lines().filter_map(|line| serde_json::from_str(line).ok()).skip(1).collect();
    let last = theirs.last().map(|message| message["values"].clone());
    let state = EVENTS + 1;
    if theirs.len() as u64 != 1 + EVENTS * REPEATS
        || last != Some(json!([state % 2 == 1, state * 1000 - 7, format!("event {state}")]))
    {
        return Err(format!("of libiec61850's messages came:\n{output}"));
    }
    let configured = configured::run(python)?;
    let samples = samples::run(python)?;
    let routed = routed::run(python)?;
    for space in ["publisher", "subscriber"] {
        net::ip(&["netns", "del", space])?;
    }
    let (ours, theirs) = (messages.len(), theirs.len());
    Ok(format!(
        "{ours} protected ones read by libiec61850, {theirs} of its read by ours; {configured}; {samples}; {routed}"
    ))
}
