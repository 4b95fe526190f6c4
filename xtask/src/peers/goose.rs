//! libiec61850's GOOSE publisher and subscriber talk through two gateways (IEC 61850-8-1, clause 18).

use super::python;
use crate::daemon::Pair;
use crate::net;
use crate::report::{StepResult, Stop};
use crate::shell::{Run, cache, until};
use serde_json::{Value, json};
use std::path::PathBuf;

const EVENTS: u64 = 12;
const REPEATS: u64 = 5;

/// Makes the Python environment.
pub(crate) fn prepare() -> Result<(), Stop> {
    python()?;
    Ok(())
}

fn python() -> Result<PathBuf, String> {
    python::environment("goose", &["pyiec61850-ng==1.6.1.10"])
}

/// Every message arrives, in order, with its values, state and sequence numbers.
pub(crate) fn run() -> StepResult {
    let python = python()?;
    net::cell()?;
    let pair = Pair::start(&["goose"])?;
    // One message of state 1 comes before the others.
    let count = 1 + EVENTS * REPEATS;
    let mut subscriber = net::inside("dev", &python);
    subscriber.arg(python::script("goose/subscriber.py")).args(["eth0", &count.to_string()]);
    let mut subscriber = subscriber.background(&cache("peers/run")?.join("goose.log"))?;
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
    // GOOSE is one-way, so only the subscriber's gateway has validated anything.
    pair.finish_one_way()?;
    net::remove_cell();
    Ok(format!("{count} messages, {EVENTS} state changes: values, stNum and sqNum right"))
}
