//! The SCL file of the book: libiec61850 reads what we publish by it, and we read what libiec61850
//! publishes.

use super::super::python;
use super::super::tshark::Capture;
use crate::net;
use crate::place;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::shell::{Background, Run, antedate, program, until};

const STATES: u64 = 4;

/// What belongs to the protected control block.
struct Files {
    key: PathBuf,
    numbers: PathBuf,
    heard: PathBuf,
}

fn scl() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/goose/antedate.scd")
}

/// A verb of ours on the control block.
fn ours(space: &str, verb: &str) -> Command {
    let mut command = net::inside(space, antedate());
    command.args(["goose", verb, "eth0", "--scl"]).arg(scl()).args(["--control-block", "gcbPosition"]);
    command
}

/// libiec61850's end.
fn theirs(interpreter: &Path, space: &str, arguments: &[&str]) -> Command {
    let mut command = net::inside(space, interpreter);
    command.arg(python::script("goose/position.py")).arg("eth0").args(arguments);
    command
}

/// Starts a subscriber and waits until it listens.
fn listening(mut command: Command, log: &str) -> Result<Background, String> {
    let mut subscriber = command.background(&place::run()?.join(log))?;
    until("the subscriber", 20.0, || match subscriber.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => subscriber.output().contains("listening").then_some(Ok(())),
    })??;
    Ok(subscriber)
}

fn lines(output: &str) -> Vec<Value> {
    output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

pub(super) fn run(python: &Path) -> Result<String, String> {
    let directory = place::run()?;
    let at = |name: &str| directory.join(format!("goose-position.{name}"));
    let files = Files { key: at("key"), numbers: at("numbers"), heard: at("heard") };
    for file in [&files.key, &at("key.publishers")] {
        let _ = std::fs::remove_file(file);
    }
    for state in [&files.numbers, &files.heard] {
        let _ = std::fs::remove_dir_all(state);
    }
    super::private(&files.key, "0f0e0d0c0b0a09080706050403020100\n")?;
    let capture = Capture::start("subscriber")?;
    let said = protected(python, &files)?;
    let capture = capture.stop()?;
    let dissected = dissect(&capture)?;
    let replayed = replayed(python, &files, &capture)?;
    let plain = plain(python)?;
    Ok(format!("by an SCL file: {said}, {dissected}, {replayed}, {plain}"))
}

/// `timeAllowedToLive` of a message: twice the time to the next one, which doubles from MinTime to
/// MaxTime.
fn lifetime(sequence: u64) -> u64 {
    let interval = 4u64.checked_shl(sequence.min(30) as u32).unwrap_or(500).min(500);
    (2 * interval).max(10)
}

/// We publish; libiec61850 and we subscribe.
fn protected(python: &Path, files: &Files) -> Result<String, String> {
    let foreign =
        listening(theirs(python, "subscriber", &["subscribe", "1000"]), "goose-position-theirs.log")?;
    let mut own = ours("subscriber", "subscribe");
    own.arg("--key").arg(&files.key).arg("--state").arg(&files.heard).args(["--first", "--wait"]);
    let own = listening(own, "goose-position-ours.log")?;
    let mut publisher = ours("publisher", "publish");
    publisher
        .arg("--key")
        .arg(&files.key)
        .arg("--state")
        .arg(&files.numbers)
        .args(["--first", "--trust-clock"]);
    publisher.arg("--needs-commissioning");
    let (publisher, mut input) = publisher.piped(&place::run()?.join("goose-position-publisher.log"))?;
    for state in 1..=STATES {
        let position = if state % 2 == 1 { "on" } else { "off" };
        let line = json!({
            "XCBR1.Pos.stVal": position, "XCBR1.Pos.q": "good test", "MMXU1.TotW.mag.f": state as f64 / 2.0,
            "XCBR1.Beh.stVal": "on",
        });
        // The second line changes nothing, and is no event.
        writeln!(input, "{line}\n{line}").map_err(|e| e.to_string())?;
        // The first call-back of the other subscriber loads much of Python.
        std::thread::sleep(Duration::from_millis(if state == 1 { 1500 } else { 700 }));
    }
    drop(input);
    publisher.finish(10)?;

    until("the missing publisher", 20.0, || own.output().contains("publisher missing").then_some(()))?;
    let (_, read) = own.stop(5)?;
    let read = lines(&read);
    let messages: Vec<&Value> = read.iter().filter(|line| line["sequence"].is_u64()).collect();
    let mut expected = (0, 0);
    for message in &messages {
        let (state, sequence) =
            (message["state"].as_u64().unwrap_or(0), message["sequence"].as_u64().unwrap_or(0));
        expected = if state == expected.0 { (state, expected.1 + 1) } else { (expected.0 + 1, 0) };
        let values = &message["values"];
        let right = (state, sequence) == expected
            && message["time_allowed_to_live"] == lifetime(sequence)
            && message["needs_commissioning"] == true
            && message["simulation"] == false
            && message["revision"] == 7
            && values["antedateLD0/XCBR1.Pos.stVal"] == if state % 2 == 1 { "on" } else { "off" }
            && values["antedateLD0/XCBR1.Pos.q"] == "good test"
            && values["antedateLD0/MMXU1.TotW.mag.f"] == state as f64 / 2.0
            && values["antedateLD0/XCBR1.Beh.stVal"] == "on";
        if !right {
            return Err(format!("expected state and sequence {expected:?}, came {message}"));
        }
    }
    if expected.0 != STATES {
        return Err(format!("{} of {STATES} states came to ours: {read:?}", expected.0));
    }
    if let Some(event) =
        read.iter().find(|line| line["event"].is_string() && line["event"] != "publisher missing")
    {
        return Err(format!("a publisher without fault, but {event}"));
    }

    let (_, output) = foreign.stop(5)?;
    let foreign = lines(&output);
    for message in &foreign {
        let (state, sequence) =
            (message["state"].as_u64().unwrap_or(0), message["sequence"].as_u64().unwrap_or(0));
        let position = if state % 2 == 1 { "10" } else { "01" };
        let values = &message["values"];
        let right = message["error"] == 0
            && message["revision"] == 7
            && message["go_id"] == "antedate-position"
            && message["data_set"] == "antedateLD0/LLN0$dsPosition"
            && message["needs_commissioning"] == true
            && message["time_allowed_to_live"] == lifetime(sequence)
            && values[0][0] == position
            && values[0][1] == "0000000000010"
            && values[0][2].as_u64().is_some_and(|t| t > 1_700_000_000_000)
            && values[1] == state as f64 / 2.0
            && values[2] == 1;
        if !right {
            return Err(format!("libiec61850 read {message}"));
        }
    }
    // It drops messages during its first call-back, which are of the first state.
    if !(2..=STATES).all(|state| foreign.iter().any(|message| message["state"] == state)) {
        return Err(format!("libiec61850 did not read each state:\n{output}"));
    }
    Ok(format!("{} of our messages read by ours and {} by libiec61850", messages.len(), foreign.len()))
}

/// Wireshark reads the frames without a warning, with their priority and times.
fn dissect(capture: &Path) -> Result<String, String> {
    let mut tshark = program("tshark");
    tshark.args(["-n", "-Y", "goose", "-T", "fields", "-E", "separator=|", "-e", "_ws.expert.severity"]);
    tshark.args(["-e", "_ws.expert.message", "-e", "vlan.priority", "-e", "goose.timeAllowedtoLive"]);
    let text = tshark.args(["-e", "goose.sqNum", "-r"]).arg(capture).read(60)?;
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let [severity, message, priority, life, sequence] = fields[..] else {
            return Err(format!("tshark printed {line}"));
        };
        let expected = sequence.parse().map(lifetime).map_err(|_| format!("no sqNum in {line}"))?;
        if !severity.is_empty() || priority != "6" || life.parse() != Ok(expected) {
            return Err(format!("tshark read {line} ({message})"));
        }
    }
    match text.lines().count() {
        0 => Err("tshark found no GOOSE".into()),
        count => Ok(format!("{count} by tshark without a warning")),
    }
}

/// The recorded frames come once more. With its state, a subscriber that was restarted refuses them;
/// without, it cannot.
fn replayed(python: &Path, files: &Files, capture: &Path) -> Result<String, String> {
    let subscriber = |with_state: bool, log: &str| {
        let mut command = ours("subscriber", "subscribe");
        command.arg("--key").arg(&files.key).arg("--wait");
        if with_state {
            command.arg("--state").arg(&files.heard);
        }
        listening(command, log)
    };
    let with = subscriber(true, "goose-replayed-with.log")?;
    let without = subscriber(false, "goose-replayed-without.log")?;
    let count = theirs(python, "publisher", &["replay", &capture.display().to_string()]).read(20)?;
    until("the replayed messages", 10.0, || without.output().contains("\"sequence\"").then_some(()))?;
    until("the refusal", 10.0, || with.output().contains("received before").then_some(()))?;
    without.stop(5)?;
    let (_, output) = with.stop(5)?;
    match lines(&output).iter().any(|line| line["sequence"].is_u64()) {
        true => Err(format!("a recorded message was delivered after a restart:\n{output}")),
        false => Ok(format!("{} recorded ones refused after a restart", count.trim())),
    }
}

/// libiec61850 publishes; we subscribe without a key, by the names of the file. Another revision is
/// told, and not delivered.
fn plain(python: &Path) -> Result<String, String> {
    let mut subscriber = ours("subscriber", "subscribe");
    subscriber.args(["--plain", "--wait"]);
    let subscriber = listening(subscriber, "goose-position-plain.log")?;
    for revision in ["7", "8"] {
        theirs(python, "publisher", &["publish", &STATES.to_string(), revision]).read(30)?;
    }
    until("the other revision", 10.0, || subscriber.output().contains("other revision").then_some(()))?;
    let (_, output) = subscriber.stop(5)?;
    let read = lines(&output);
    let messages: Vec<&Value> = read.iter().filter(|line| line["sequence"].is_u64()).collect();
    for (message, state) in messages.iter().zip(1u64..) {
        let values = &message["values"];
        let right = message["state"] == state
            && message["revision"] == 7
            && values["antedateLD0/XCBR1.Pos.stVal"] == if state % 2 == 1 { "on" } else { "off" }
            && values["antedateLD0/XCBR1.Pos.q"] == "good test"
            && values["antedateLD0/XCBR1.Pos.t"]["time"] == "2026-09-21T14:13:20Z"
            && values["antedateLD0/MMXU1.TotW.mag.f"] == state as f64 / 2.0
            && values["antedateLD0/XCBR1.Beh.stVal"] == "on";
        if !right {
            return Err(format!("expected state {state}, came {message}"));
        }
    }
    if messages.len() as u64 != STATES {
        return Err(format!("of libiec61850's messages came:\n{output}"));
    }
    Ok(format!("{STATES} of libiec61850's read by their names, and its other revision told"))
}
