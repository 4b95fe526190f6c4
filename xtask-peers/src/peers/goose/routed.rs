//! Routed GOOSE between ours and libiec61850, both ways, and tshark's view of ours.

use super::super::python;
use super::super::tshark::Capture;
use crate::net;
use crate::place;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use xtask::shell::{Background, Run, antedate, program, until};

const EVENTS: u64 = 5;
const REPEATS: u64 = 3;
const SPACE: &str = "publisher";
const PORT: &str = "10200";

fn listening(mut command: Command, log: &str) -> Result<Background, String> {
    let mut subscriber = command.background(&place::run()?.join(log))?;
    until("the subscriber", 20.0, || match subscriber.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => subscriber.output().contains("listening").then_some(Ok(())),
    })??;
    Ok(subscriber)
}

/// The messages among a subscriber's lines.
fn messages(output: &str) -> Vec<Value> {
    let lines = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line.get("state").is_some()).collect()
}

/// Compares all messages with the events that were published, each `each` times.
fn compare(whose: &str, output: &str, each: u64) -> Result<usize, String> {
    let messages = messages(output);
    for (index, message) in (0..).zip(&messages) {
        let (event, again) = (index / each + 1, index % each);
        let values = json!([event % 2 == 1, event * 1000 - 7]);
        let right = message["state"] == event && message["sequence"] == again;
        let given = [&message["values"][0], &message["values"][1]];
        if !right || given != [&values[0], &values[1]] {
            return Err(format!("routed message {index} of {whose} came as {message}"));
        }
    }
    if messages.len() as u64 != EVENTS * each {
        return Err(format!(
            "{} of {} routed messages of {whose} came:\n{output}",
            messages.len(),
            EVENTS * each
        ));
    }
    Ok(messages.len())
}

pub(super) fn run(interpreter: &Path) -> Result<String, String> {
    let directory = place::run()?;
    let (key, state) = (directory.join("goose-routed.key"), directory.join("goose-routed.state"));
    for file in [&key, &directory.join("goose-routed.key.publishers")] {
        let _ = std::fs::remove_file(file);
    }
    let _ = std::fs::remove_dir_all(&state);
    super::private(&key, "000102030405060708090a0b0c0d0e0f\n")?;
    let theirs = |arguments: &[String]| {
        let mut command = net::inside(SPACE, interpreter);
        command.arg(python::script("goose/routed.py")).args(arguments);
        command
    };

    let each = REPEATS + 1;
    let subscriber = listening(
        theirs(&["subscribe".into(), PORT.into(), (EVENTS * each).to_string()]),
        "goose-routed-1.log",
    )?;
    let capture = Capture::on(SPACE, "lo")?;
    let mut publisher = net::inside(SPACE, antedate());
    publisher
        .args(["goose", "publish", "eth0", "--to", &format!("127.0.0.1:{PORT}"), "--first", "--key"])
        .arg(&key);
    publisher.arg("--state").arg(&state);
    publisher.args(["--events", &EVENTS.to_string(), "--repeats", &REPEATS.to_string()]);
    publisher.read(30)?;
    let read = compare("ours", &subscriber.finish(20)?, each)?;
    let mut dissector = program("tshark");
    dissector.arg("-r").arg(capture.stop()?);
    // Its heuristics tell routed GOOSE at any port.
    dissector.args([
        "-Y",
        "rgoose.spdu_num",
        "-T",
        "fields",
        "-e",
        "rgoose.spdu_num",
        "-e",
        "rgoose.init_v_len",
    ]);
    let dissected = dissector.read(30)?;
    let numbers: Vec<String> = (1..=EVENTS * each).map(|number| format!("{number}\t12")).collect();
    if dissected.lines().map(str::to_owned).collect::<Vec<_>>() != numbers {
        return Err(format!("tshark reads of our routed messages:\n{dissected}"));
    }

    let mut subscriber = net::inside(SPACE, antedate());
    let count = (EVENTS * REPEATS).to_string();
    subscriber.args(["goose", "subscribe", "--routed", &format!("127.0.0.1:{PORT}"), "--random-iv", "--key"]);
    subscriber.arg(&key).args(["--count", &count]);
    let subscriber = listening(subscriber, "goose-routed-2.log")?;
    theirs(&["publish".into(), PORT.into(), EVENTS.to_string(), REPEATS.to_string()]).read(30)?;
    let heard = compare("libiec61850", &subscriber.finish(20)?, REPEATS)?;
    let stream = stream(interpreter, &key, &state)?;
    Ok(format!("routed: {read} of ours read by libiec61850 and tshark, {heard} of its by ours; {stream}"))
}

/// ASDUs of our routed stream that libiec61850 reads. Its call-back is slower than the stream.
const ASDUS: u64 = 200;

/// libiec61850 reads our routed sampled values, of the book's SCL file.
fn stream(interpreter: &Path, key: &Path, state: &Path) -> Result<String, String> {
    let mut subscriber = net::inside(SPACE, interpreter);
    subscriber.arg(python::script("goose/stream.py")).args([PORT, &ASDUS.to_string()]);
    let subscriber = listening(subscriber, "sampled-routed.log")?;
    let mut publisher = net::inside(SPACE, antedate());
    publisher.args(["sampled", "publish", "eth0", "--to", &format!("127.0.0.1:{PORT}"), "--seconds", "1"]);
    publisher.arg("--scl").arg(super::scl()).args(["--control-block", "MSVCB02", "--key"]).arg(key);
    publisher.arg("--state").arg(state).read(30)?;
    let output = subscriber.finish(20)?;
    let asdus: Vec<Value> = output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for asdu in &asdus {
        if asdu["sv_id"] != "antedateMU0102" || asdu["revision"] != 2 || asdu["octets"] != 64 {
            return Err(format!("libiec61850 read of our routed stream {asdu}"));
        }
    }
    if (asdus.len() as u64) < ASDUS {
        return Err(format!("libiec61850 read {} of {ASDUS} ASDUs of our routed stream", asdus.len()));
    }
    Ok(format!("{} ASDUs of our routed stream read by libiec61850", asdus.len()))
}
