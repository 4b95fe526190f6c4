//! profinet-py as the IO controller of our IO device, through two gateways: a new device gets its
//! name and address, a configured one is connected; cyclic data survives a gateway's restart.
//!
//! Each policy of the book that names Profinet is a case: it must let a real controller connect.
//! Verdicts are counts and states. The times of a Python program are told, not judged.

use super::{python, tshark};
use crate::daemon::Pair;
use crate::net;
use crate::place;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::time::Duration;
use xtask::report::{StepResult, Stop};
use xtask::shell::{Background, Run, antedate, root, until};

const NAME: &str = "press-7.line-2";
const ADDRESS: &str = "10.83.0.7";
/// Bounds in seconds: the start of a connection, the end of the controller's program.
const CONNECT_LIMIT: f64 = 25.0;
const END_LIMIT: u64 = 15;
/// A policy with which no controller can connect: RPC and alarms are missing.
const FORGETFUL: &str = "[policy]\nallow = [\"profinet-rt\", \"profinet-dcp-read\", \"lldp\"]\n";

pub(crate) fn prepare() -> Result<(), Stop> {
    python()?;
    Ok(())
}

fn python() -> Result<PathBuf, String> {
    python::environment("profinet", &["profinet-py==0.6.6", "construct==2.10.70"])
}

/// Runs all cases.
pub(crate) fn run() -> StepResult {
    let python = python()?;
    net::cell()?;
    net::address("plc", "eth0", "10.83.0.1/24", None)?;
    let policies = policies()?;
    let mut notes = Vec::new();
    for (number, (place, policy)) in policies.iter().enumerate() {
        println!("   {place}");
        let failed = |why| format!("the policy of {place}: {why}");
        let note = match number {
            0 => new_device(&python, policy),
            1 => configured_device(&python, policy),
            _ => connects(&python, policy),
        };
        notes.extend(note.map_err(failed)?);
    }
    if policies.len() < 2 {
        return Err("the book has fewer than two policies for Profinet".into());
    }
    forgotten()?;
    net::remove_cell();
    Ok(format!("{} policies of the book connect; {}", policies.len(), notes.join("; ")))
}

/// A new device at 8 ms. Its data is held for longer than a gateway's restart takes, so that the
/// connection may outlive it. All of its frames are legal for Wireshark's dissector.
fn new_device(python: &Path, policy: &str) -> Result<Option<String>, String> {
    // The kind `profinet` sets no names; the book adds this one while devices are commissioned.
    let policy = policy.replace("\"profinet\"", "\"profinet\", \"profinet-dcp-set-name\"");
    let mut pair = Pair::with_policy(&policy)?;
    let capture = tshark::Capture::start("dev")?;
    let device = device(json!({ "name": "", "alarm_ms": 300 }))?;
    let case = json!({ "new": true, "cycle_ms": 8, "hold": 220 });
    let mut controller = Controller::start(python, case)?;
    controller.wait(1)?;
    pair.b = pair.b.restart(Duration::ZERO)?;
    controller.wait_for_data(100)?;
    let counts = controller.end()?;
    let report = report(device)?;
    let kinds = tshark::dissect(&capture.stop()?, Some("eth.src == 02:00:00:00:00:02"))?;
    for kind in ["DCP", "cyclic PROFINET", "PROFINET alarm", "RPC", "ARP", "LLDP"] {
        if !kinds.contains_key(kind) {
            return Err(format!("the device sent no {kind}: {kinds:?}"));
        }
    }
    expect(&report, "named", 1)?;
    expect(&report, "addressed", 1)?;
    let lost = agree(&counts, &report)?;
    pair.finish()?;
    let held = if lost == 0 { "held" } else { "made anew" };
    Ok(Some(format!("new device at 8 ms, connection {held} over a restart, {}", told(&counts, &report))))
}

/// A configured device at 8 ms. A gateway is gone for longer than its data holds: the device must
/// end the connection, and the controller makes it anew.
fn configured_device(python: &Path, policy: &str) -> Result<Option<String>, String> {
    let mut pair = Pair::with_policy(policy)?;
    let device = device(json!({ "name": NAME, "address": ADDRESS, "alarm_ms": 300 }))?;
    let mut controller = Controller::start(python, json!({ "cycle_ms": 8, "hold": 100 }))?;
    controller.wait(1)?;
    pair.a = pair.a.restart(Duration::from_secs(1))?;
    controller.wait(2)?;
    controller.wait_for_data(100)?;
    let counts = controller.end()?;
    let report = report(device)?;
    expect(&report, "named", 0)?;
    if agree(&counts, &report)? == 0 {
        return Err(format!("a silence of 1 s ended no connection whose data holds 0.8 s: {report}"));
    }
    pair.finish()?;
    Ok(Some(format!("configured device at 8 ms, made anew after 1 s, {}", told(&counts, &report))))
}

/// A configured device at 8 ms: it connects, operates and is released.
fn connects(python: &Path, policy: &str) -> Result<Option<String>, String> {
    let pair = Pair::with_policy(policy)?;
    let device = device(json!({ "name": NAME, "address": ADDRESS, "alarm_ms": 300 }))?;
    let mut controller = Controller::start(python, json!({ "cycle_ms": 8, "hold": 220 }))?;
    controller.wait(1)?;
    let counts = controller.end()?;
    agree(&counts, &report(device)?)?;
    pair.finish()?;
    Ok(None)
}

/// A policy without RPC keeps our own controller from connecting: the cases above can fail.
fn forgotten() -> Result<(), String> {
    let pair = Pair::with_policy(FORGETFUL)?;
    let device = device(json!({ "name": "io-device" }))?;
    let mut plc = net::inside("plc", antedate());
    plc.arg("lab-station").arg(json!({ "role": "plc", "patience_seconds": 1.5 }).to_string());
    let said = plc.read(15);
    if !said.as_ref().is_err_and(|why| why.contains("no connection to the station")) {
        return Err(format!("a policy without RPC let a controller connect: {said:?}"));
    }
    expect(&report(device)?, "connected", 0)?;
    pair.a.stop()?;
    pair.b.stop()
}

/// Starts the IO device and waits until it listens.
fn device(options: Value) -> Result<Background, String> {
    let mut command = net::inside("dev", antedate());
    command.arg("lab-io-device").arg(options.to_string());
    let mut device = command.background(&place::run()?.join("io-device.log"))?;
    until("the IO device", 10.0, || match device.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => device.output().contains("\"ready\"").then_some(Ok(())),
    })??;
    Ok(device)
}

/// Stops the device and returns its report.
fn report(device: Background) -> Result<Value, String> {
    let (status, said) = device.stop(5)?;
    let report: Option<Value> = said.lines().last().and_then(|line| serde_json::from_str(line).ok());
    report
        .filter(|line| status.success() && line["line"] == "result")
        .ok_or_else(|| format!("the IO device ended with {status}:\n{said}"))
}

fn count(report: &Value, name: &str) -> Result<u64, String> {
    report[name].as_u64().ok_or_else(|| format!("no count {name} in {report}"))
}

fn expect(report: &Value, name: &str, expected: u64) -> Result<(), String> {
    let found = count(report, name)?;
    if found == expected { Ok(()) } else { Err(format!("{name} is {found}, not {expected}: {report}")) }
}

/// Checks both ends' counters against each other. Returns the connections that were lost.
fn agree(controller: &Value, device: &Value) -> Result<u64, String> {
    let (ours, theirs) = (|name| count(device, name), |name| count(controller, name));
    let both = || format!("controller {controller}, device {device}");
    let connections = theirs("connections")?;
    if ours("operating")? != connections || ours("released")? + ours("aborted")? != ours("connected")? {
        return Err(format!("the ends disagree about their connections: {}", both()));
    }
    if connections != theirs("lost")? + 1 || ours("released")? == 0 {
        return Err(format!("a connection was neither held nor made anew: {}", both()));
    }
    for (name, found) in [
        ("input data", theirs("echoes")?),
        ("valid output data", ours("outputs_valid")?),
        ("alarms at the controller", theirs("alarms")?),
        ("acknowledged alarms", ours("alarms_acknowledged")?),
        ("written records", ours("written")?),
        ("read records", ours("read")?),
    ] {
        if found == 0 {
            return Err(format!("no {name}: {}", both()));
        }
    }
    if theirs("invalid")? + ours("damaged")? + ours("send_errors")? > 0 {
        return Err(format!("damaged data: {}", both()));
    }
    Ok(connections - 1)
}

/// What is told and not judged.
fn told(controller: &Value, device: &Value) -> String {
    format!(
        "{} outputs ({} missing, longest gap {} ms), {} inputs, {} of {} alarms acknowledged",
        device["outputs"],
        device["outputs_missing"],
        device["longest_gap_us"].as_u64().unwrap_or(0) / 1_000,
        controller["received"],
        device["alarms_acknowledged"],
        device["alarms"],
    )
}

/// The controller's program.
struct Controller {
    process: Background,
    input: ChildStdin,
}

impl Controller {
    fn start(python: &Path, mut case: Value) -> Result<Self, String> {
        let common = [
            ("interface", "eth0".to_owned()),
            ("device", net::mac(0x02)),
            ("name", NAME.to_owned()),
            ("address", ADDRESS.to_owned()),
        ];
        for (key, value) in common {
            case[key] = value.into();
        }
        if case["new"].is_null() {
            case["new"] = false.into();
        }
        let mut command = net::inside("plc", python);
        command.arg("-u").arg(python::script("profinet/controller.py")).arg(case.to_string());
        let (process, input) = command.piped(&place::run()?.join("profinet-py.log"))?;
        Ok(Self { process, input })
    }

    /// Waits until the connection of this number exchanges data and alarms.
    fn wait(&mut self, connection: u64) -> Result<(), String> {
        let said = |line: &str| {
            let line: Option<Value> = serde_json::from_str(line).ok();
            line.is_some_and(|line| {
                line["event"] == "operating" && line["connections"].as_u64() >= Some(connection)
            })
        };
        let what = format!("connection {connection} of profinet-py");
        let process = &mut self.process;
        let waited = until(&what, CONNECT_LIMIT, || match process.alive() {
            Err(e) => Some(Err(e)),
            Ok(()) => process.output().lines().any(said).then_some(Ok(())),
        });
        waited.and_then(|done| done).map_err(|e| format!("{e}\n{}", self.process.output()))
    }

    /// Waits for this many further inputs.
    fn wait_for_data(&self, inputs: u64) -> Result<(), String> {
        let now = self.inputs();
        until("data after the restart", CONNECT_LIMIT, || (self.inputs() >= now + inputs).then_some(()))
            .map_err(|e| format!("{e}\n{}", self.process.output()))
    }

    /// Good inputs so far, as the program tells each second.
    fn inputs(&self) -> u64 {
        let told = |line: &str| serde_json::from_str::<Value>(line).ok()?["echoes"].as_u64();
        self.process.output().lines().filter_map(told).next_back().unwrap_or(0)
    }

    /// Ends it. Returns its counters.
    fn end(self) -> Result<Value, String> {
        drop(self.input);
        let said = self.process.finish(END_LIMIT)?;
        let last = said.lines().last().unwrap_or_default();
        let counts: Value = serde_json::from_str(last).map_err(|e| format!("profinet-py: {e}: {said}"))?;
        if counts["event"] == "end" { Ok(counts) } else { Err(format!("profinet-py: {said}")) }
    }
}

/// The policies of the book that name Profinet: their places and texts, each text once.
fn policies() -> Result<Vec<(String, String)>, String> {
    let book = root().join("docs/src");
    let mut files: Vec<PathBuf> = fs::read_dir(&book)
        .map_err(|e| format!("{}: {e}", book.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    files.sort();
    let mut found: Vec<(String, String)> = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (line, policy) in policies_of(&text) {
            if !found.iter().any(|(_, known)| *known == policy) {
                found.push((format!("{name}:{line}"), policy));
            }
        }
    }
    Ok(found)
}

/// The lines and texts, without comments, of the policies of one chapter that name Profinet.
fn policies_of(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut policy: Option<(usize, String)> = None;
    // A line outside the example ends its policy.
    for (index, line) in text.lines().chain(["```"]).enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let begins = line.starts_with("[policy]");
        let other = line.starts_with('[') && !line.starts_with("[[policy.rule]]");
        if begins || other || line.is_empty() || line.starts_with("```") {
            found.extend(policy.take_if(|(_, text)| text.contains("\"profinet")));
            policy = begins.then(|| (index + 1, String::new()));
        }
        if let Some((_, text)) = &mut policy {
            text.push_str(line);
            text.push('\n');
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_end_with_their_sections() {
        let text = "x\n```toml\n[policy]\nallow = [\"profinet-rt\"]\n[[policy.rule]]\naction = \"deny\"\n[run]\n\
                    threads = 2\n```\n\n    [policy]   # all\n    allow = [\"goose\"]\n\n    [policy]\n    \
                    allow = [\"profinet\"]\n";
        let expected = [
            (3, "[policy]\nallow = [\"profinet-rt\"]\n[[policy.rule]]\naction = \"deny\"\n"),
            (14, "[policy]\nallow = [\"profinet\"]\n"),
        ];
        assert_eq!(policies_of(text), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn book_has_policies_for_profinet() {
        assert!(policies().expect("the book").len() >= 2);
    }
}
