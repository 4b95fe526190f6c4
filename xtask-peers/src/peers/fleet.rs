//! A fleet on Debian's `nats-server`: three servers, two gateways with traffic, and a crowd of devices.
//!
//! `ANTEDATE_FLEET` names a part:
//!
//! | part | content |
//! | --- | --- |
//! | none | all with 20 devices, for CI |
//! | `authority` | another authority for TLS, with 20 devices |
//! | `bearers` | an overlay, a DTLS group and an MQTT group alone |
//! | `gateways` | twenty gateways, whose CAKs change under traffic |
//! | `leaf` | a leaf node alone |
//! | `turns` | each server cut off and killed in turn, with 20 devices |
//! | `1000`, `3000` | the crowd with so many devices, and all but `gateways`, `leaf` and `turns` |

mod attack;
mod bearers;
mod cluster;
mod crowd;
mod gateways;
mod groups;
mod leaf;
mod meter;

use crate::net;
use crate::place;
use antedate_fleet::home::Home;
use cluster::{Cluster, document, fleet};
use crowd::Crowd;
use meter::Meter;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use xtask::report::{StepResult, Stop};
use xtask::shell::{Background, Run, antedate, program, tail, until};

/// Pings while the CAK changes, one each 5 ms.
const PINGS: u32 = 3000;
/// How long an event is awaited, in seconds: one that comes ends the wait, also on a busy machine. A report
/// that a lost server took with it is followed by the next one after a minute.
const PATIENCE: f64 = 180.0;
/// As `PATIENCE`, for the end of a process.
const END: u64 = 60;
/// The goals in seconds. The quick form is not a measurement, and has six times as long.
const ENROLLED: f64 = 300.0;
const APPLIED: f64 = 30.0;
const REVOKED: f64 = 10.0;
/// How long the quick form measures the quiet fleet.
const QUIET: Duration = Duration::from_secs(3);
/// The port of the fleet's page.
const PAGE: u16 = 9469;

/// The configuration of the two gateways.
const GATEWAY: &str = "# ${name} of ${cell}\n[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n\
    [macsec]\ncak_file = \"cak\"\n[policy]\nallow = [\"arp\", \"ipv4\"]\n[run]\npoll = \"block\"\n\
    [state]\ndirectory = \"state\"\n[control]\nsocket = \"s\"\n";

/// Does nothing: packages suffice.
pub(crate) fn prepare() -> Result<(), Stop> {
    Ok(())
}

pub(crate) fn run() -> StepResult {
    let part = std::env::var("ANTEDATE_FLEET").unwrap_or_default();
    let count = match part.as_str() {
        "" | "authority" | "bearers" | "gateways" | "leaf" | "turns" => 20,
        "1000" => 1000,
        "3000" => 3000,
        other => {
            return Err(format!(
                "ANTEDATE_FLEET={other}: authority, bearers, gateways, leaf, turns, 1000, 3000, or none"
            )
            .into());
        }
    };
    let dir = place::run()?.join("plant");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    let mut cluster = Cluster::start(&dir, count < 100)?;
    parts(&dir, &mut cluster, &part, count).map_err(|stop| match stop {
        Stop::Failed(why) => Stop::Failed(format!("{why}\n{}", diagnosis(&dir))),
        other => other,
    })
}

fn parts(dir: &Path, cluster: &mut Cluster, part: &str, count: usize) -> StepResult {
    let invitation = dir.join("fleet/invitation.json");
    let mut notes = Vec::new();
    let mut note = |text: String| {
        println!("   {text}");
        notes.push(text);
    };

    if matches!(part, "bearers" | "gateways") {
        let run = if part == "bearers" { bearers::run } else { gateways::run };
        run(dir, &invitation, &mut note)?;
        return Ok(notes.join("; "));
    }

    if part == "leaf" {
        leaf::run(dir, cluster, &mut note)?;
        return Ok(notes.join("; "));
    }

    // A crowd by tokens.
    let tokens = fleet(dir, &["token", "--role", "publisher", "--count", &count.to_string()])?;
    let tokens: Vec<String> = tokens.lines().map(str::to_owned).collect();
    let begin = Instant::now();
    let crowd = Crowd::start(&dir.join("crowd"), &invitation, &tokens)?;
    let enrolled = until("the crowd's enrolment", ENROLLED, || {
        if let Err(error) = fleet(dir, &["enrol", "--tokens"]) {
            return Some(Err(error));
        }
        (crowd.members() == count).then_some(Ok(()))
    });
    enrolled??;
    let took = begin.elapsed().as_secs_f64();
    note(format!("{count} devices enrolled by tokens in {took:.1} s, {:.0} a second", count as f64 / took));

    // Two gateways by their codes.
    net::cell()?;
    net::address("plc", "eth0", "10.7.0.1/24", None)?;
    net::address("dev", "eth0", "10.7.0.2/24", None)?;
    let template = dir.join("gateway.toml");
    fs::write(&template, GATEWAY).map_err(|e| e.to_string())?;
    fleet(dir, &["set", "role", "gateway", &template.display().to_string()])?;
    let places = [dir.join("press"), dir.join("hall")];
    let mut agents = Vec::new();
    for (place, name) in places.iter().zip(["press", "hall"]) {
        enrol(dir, place, name, &invitation)?;
        agents.push(agent(place)?);
    }
    until("the agents' first reports", PATIENCE, || (silent(dir).ok()? == 0).then_some(()))?;
    let policy = dir.join("policy.json");
    fs::write(&policy, "{ \"device\": \"${name}\", \"limit\": 1 }\n").map_err(|e| e.to_string())?;
    fleet(dir, &["set", "role", "publisher", &policy.display().to_string()])?;
    let begin = Instant::now();
    fleet(dir, &["apply", "--canaries", "2", "--wave", "0"])?;
    let took = begin.elapsed().as_secs_f64();
    note(format!("first settings of {} devices after a wave of 2 canaries: {took:.1} s", count + 2));
    let gateways = [gateway("gwa", &places[0])?, gateway("gwb", &places[1])?];
    until("a ping", PATIENCE, || {
        let mut ping = net::inside("plc", "ping");
        ping.args(["-q", "-n", "-W", "1", "-c", "1", "10.7.0.2"]).read(5).is_ok().then_some(())
    })?;

    // A policy for all.
    fs::write(&policy, "{ \"device\": \"${name}\", \"limit\": 2 }\n").map_err(|e| e.to_string())?;
    fleet(dir, &["set", "role", "publisher", &policy.display().to_string()])?;
    let planned = fleet(dir, &["plan"])?;
    if !planned.contains(&format!("{count} of {} device(s) would change", count + 2)) {
        return Err(format!("the plan is another one:\n{}", tail(&planned, 4)).into());
    }
    let begin = Instant::now();
    fleet(dir, &["apply", "--canaries", "0", "--wave", "0"])?;
    let took = begin.elapsed().as_secs_f64();
    // A goal that is missed is told at the end, with all else that was measured.
    let mut missed = Vec::new();
    if took > goal(APPLIED, count) {
        missed.push(format!("a policy for {count} devices took {took:.1} s (goal {APPLIED})"));
    }
    note(format!("a policy for {count} devices in {took:.1} s"));

    // Another CAK under traffic, while a server is away.
    let before = carrier(dir, "press")?;
    cluster.kill(2);
    let pings = traffic(dir)?;
    // NATS may not make consumers for longer than one call waits: the next call goes on.
    let mut calls = 0;
    until("another CAK with a server killed", PATIENCE, || {
        calls += 1;
        match fleet(dir, &["rotate", "line4"]) {
            Err(why) if why.contains("timed out") => None,
            other => Some(other),
        }
    })??;
    let carriers = || Some([carrier(dir, "press").ok()?, carrier(dir, "hall").ok()?]);
    until("the new CAK at both gateways", PATIENCE, || {
        carriers().filter(|[press, hall]| *press != before && press == hall).map(drop)
    })
    .map_err(|e| format!("{e}: before {before}, now {:?}", carriers()))?;
    lossless(pings)?;
    note(format!(
        "another CAK with one of three servers killed, by {calls} call(s): 0 of {PINGS} pings lost"
    ));
    cluster.revive(2)?;

    // Two servers are lost, of which one is only cut off. Nothing is written, and traffic goes on.
    until("three servers", PATIENCE, || fleet(dir, &["setup"]).ok())?;
    cluster.kill(0);
    cluster.cut(1, true)?;
    let pings = traffic(dir)?;
    let refused = program(antedate())
        .args(["fleet", "apply", "--again", "--patience", "5", "--directory"])
        .arg(dir.join("fleet"))
        .read(180);
    cluster.cut(1, false)?;
    let Err(said) = refused else { return Err("settings were stored without a majority".into()) };
    if !said.contains("remedy") {
        return Err(format!("the fault has no remedy: {said}").into());
    }
    lossless(pings)?;
    note(format!("two of three servers lost: nothing is written, and 0 of {PINGS} pings lost"));
    cluster.revive(0)?;
    until("settings after the outage", 120.0, || {
        fleet(dir, &["apply", "--again", "--canaries", "0", "--wave", "0"]).ok()
    })?;

    if part == "authority" {
        note(cluster.change_authority(dir)?);
        until("settings over TLS of another authority", PATIENCE, || {
            fleet(dir, &["apply", "--again", "--canaries", "0", "--wave", "0"]).ok()
        })?;
        return Ok(notes.join("; "));
    }
    if part == "turns" {
        each_in_turn(dir, cluster, &mut note)?;
        return Ok(notes.join("; "));
    }

    note(page(dir, count)?);

    // Attacks.
    attacks(dir, &places, &invitation, &mut note)?;

    // A return.
    fs::write(&template, GATEWAY.replace("[run]", "[run]\nthreads = 2")).map_err(|e| e.to_string())?;
    fleet(dir, &["set", "role", "gateway", &template.display().to_string()])?;
    let pings = traffic(dir)?;
    let Err(said) = fleet(dir, &["apply", "--patience", "90"]) else {
        return Err("settings that need a restart were taken".into());
    };
    if !said.contains("went back") || !said.contains("cannot change while") {
        return Err(format!("the return says: {said}").into());
    }
    fs::write(&template, GATEWAY).map_err(|e| e.to_string())?;
    fleet(dir, &["set", "role", "gateway", &template.display().to_string()])?;
    moves(dir)?;
    lossless(pings)?;
    note("settings that a canary refuses go back by themselves, and 0 pings lost".into());
    note("a cell that a device has left has another CAK, and 0 pings lost".into());

    // The revoked gateway's traffic ends within a minute, in which other bearers are tried.
    let meter = Meter::begin(cluster)?;
    if count > 100 {
        std::thread::sleep(Duration::from_secs(120));
        meter.end(cluster, count, &mut note)?;
    } else {
        std::thread::sleep(QUIET);
        meter.end(cluster, count, &mut note)?;
    }
    let revoked = revoke(dir, &places, goal(REVOKED, count), &mut note)?;
    bearers::run(dir, &invitation, &mut note)?;
    ended(revoked, &gateways, &mut note)?;

    for agent in agents {
        agent.stop(END)?;
    }
    for gateway in gateways {
        gateway.stop(END)?;
    }
    crowd.finish()?;
    if missed.is_empty() { Ok(notes.join("; ")) } else { Err(missed.join("; ").into()) }
}

/// The bound for a goal. The quick form runs beside other work, and on slow machines.
fn goal(seconds: f64, count: usize) -> f64 {
    if count < 100 { 6.0 * seconds } else { seconds }
}

/// What an operator would look at: devices that are not well, and the last lines of all logs.
fn diagnosis(dir: &Path) -> String {
    let mut text = String::from("fleet status:\n");
    match status(dir) {
        Ok(rows) => {
            let (named, crowd): (Vec<_>, Vec<_>) =
                rows.into_iter().partition(|row| row["role"] != "publisher");
            let ill = crowd.into_iter().filter(|row| row["state"] != "ok").take(5);
            for row in named.into_iter().chain(ill) {
                text += &format!("  {row}\n");
            }
        }
        Err(why) => text += &format!("  none: {}\n", tail(&why, 4)),
    }
    let mut logs = Vec::new();
    for place in [dir.to_owned()].into_iter().chain(entries(dir).into_iter().filter(|path| path.is_dir())) {
        logs.extend(entries(&place).into_iter().filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            path.is_file() && (name == "log" || name.ends_with(".log") || name.ends_with(".enrol"))
        }));
    }
    logs.sort();
    for log in logs {
        let said = fs::read(&log).unwrap_or_default();
        let said = tail(&String::from_utf8_lossy(&said), 6);
        text += &format!("{}:\n{said}\n", log.strip_prefix(dir).unwrap_or(&log).display());
    }
    text
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

/// Each server is cut off, and then killed. Settings get through, and traffic goes on.
fn each_in_turn(dir: &Path, cluster: &mut Cluster, note: &mut dyn FnMut(String)) -> Result<(), String> {
    for index in 0..3 {
        for is_cut in [true, false] {
            let pings = traffic(dir)?;
            if is_cut {
                cluster.cut(index, true)?
            } else {
                cluster.kill(index)
            }
            let begin = Instant::now();
            let what = if is_cut { "cut off" } else { "killed" };
            until(&format!("settings with server {index} {what}"), 120.0, || {
                fleet(dir, &["rotate", "line4"]).ok()
            })?;
            note(format!("server {index} {what}: another CAK after {:.1} s", begin.elapsed().as_secs_f64()));
            lossless(pings)?;
            if is_cut {
                cluster.cut(index, false)?
            } else {
                cluster.revive(index)?
            }
            until("three servers", PATIENCE, || fleet(dir, &["setup"]).ok())?;
        }
    }
    note(format!("each server cut off and killed in turn: 0 of {} pings lost", 6 * PINGS));
    Ok(())
}

/// A device of the crowd comes into the gateways' cell, and leaves it.
fn moves(dir: &Path) -> Result<(), String> {
    let rows = status(dir)?;
    let row = rows.iter().find(|row| row["role"] == "publisher").ok_or("no device of the crowd")?;
    let name = row["name"].as_str().ok_or("no name")?;
    let crowd = || -> Vec<String> {
        let places = entries(&dir.join("crowd"));
        places.iter().filter_map(|place| fs::read_to_string(place.join("files/cak")).ok()).collect()
    };
    let key = || fs::read_to_string(dir.join("press/files/cak")).map_err(|e| e.to_string());
    fleet(dir, &["set", "device", name, "cell=line4"])?;
    fleet(dir, &["apply"])?;
    let before = key()?;
    if crowd() != [before.clone()] {
        return Err(format!("{name} has not the CAK of its cell"));
    }
    fleet(dir, &["set", "device", name, "cell=line5"])?;
    let planned = fleet(dir, &["plan"])?;
    if !planned.contains(&format!("line4: another CAK at `apply`, since {name} left it")) {
        return Err(format!("the plan is silent about the cell:\n{planned}"));
    }
    let said = fleet(dir, &["apply"])?;
    let after = key()?;
    let first = |text: &str| text.lines().find(|line| line.starts_with("mka_cak=")).unwrap_or("-").to_owned();
    if after.contains(&first(&before)) || crowd().iter().any(|own| *own == before || *own == after) {
        return Err(format!("the device that moved knows the CAK of its old cell:\n{said}"));
    }
    if !fleet(dir, &["plan"])?.starts_with("0 of ") {
        return Err("the cell would change again".into());
    }
    Ok(())
}

/// What somebody with a stolen pass or an old copy tries.
fn attacks(
    dir: &Path,
    places: &[PathBuf; 2],
    invitation: &Path,
    note: &mut dyn FnMut(String),
) -> Result<(), String> {
    let text = |error: antedate_host::fault::Fault| error.to_string();
    let home = Home::open(&dir.join("fleet")).map_err(text)?;
    let [press, hall] = ["press", "hall"].map(|name| home.find(name));
    let (press, hall) = (press.map_err(text)?, hall.map_err(text)?);
    let old = attack::copy(&home, &press)?;
    let cak = fs::read_to_string(places[0].join("files/cak")).map_err(|e| e.to_string())?;
    let digits = cak.lines().find_map(|line| line.strip_prefix("mka_cak=")).ok_or("no CAK")?.to_owned();
    let messages = attack::read_all(&home, &["mka_cak", &digits, "interface", "press", "hall", "line4"])?;
    note(format!("the operator's pass reads no key and no name in {messages} messages"));
    let tried = attack::permissions(&home, &places[0], &hall, invitation)?;
    note(format!(
        "{tried} tries of a stolen device, an invitation and the operator's pass are forbidden by NATS"
    ));
    let forged = attack::forged(&home, &press, u64::MAX)?;
    attack::put(&home, &press, forged)?;
    drop(home);
    refused(dir, "has not signed it")?;
    // A newer one, then the one before: as of a restored backup of NATS.
    fleet(dir, &["apply", "--again", "--canaries", "0", "--wave", "0"])?;
    let home = Home::open(&dir.join("fleet")).map_err(text)?;
    let present = attack::copy(&home, &press)?;
    attack::put(&home, &press, old)?;
    drop(home);
    refused(dir, "brings back an old one")?;
    let home = Home::open(&dir.join("fleet")).map_err(text)?;
    attack::put(&home, &press, present[..present.len() / 2].to_vec())?;
    drop(home);
    refused(dir, "half written")?;
    let config = fs::read_to_string(places[0].join("files/gateway.toml")).map_err(|e| e.to_string())?;
    if config.contains("forged") {
        return Err("a forged document was applied".into());
    }
    note("a forged, an old and a half document are refused and told".into());
    // A backup of the operator's directory that is older than the devices.
    let backup = dir.join("backup.json");
    fleet(dir, &["backup", &backup.display().to_string(), "--with-signing-key"])?;
    for _ in 0..2 {
        fleet(dir, &["apply", "--again", "--canaries", "0", "--wave", "0"])?;
    }
    fs::rename(dir.join("fleet"), dir.join("lost")).map_err(|e| e.to_string())?;
    fleet(dir, &["restore", &backup.display().to_string()])?;
    fs::rename(dir.join("lost/nats"), dir.join("fleet/nats")).ok();
    fleet(dir, &["apply", "--again", "--canaries", "0", "--wave", "0"])?;
    note("a restored backup of the operator's directory goes on above the devices' versions".into());
    Ok(())
}

/// Waits until the press reports such a refusal.
fn refused(dir: &Path, what: &str) -> Result<(), String> {
    let press = || status(dir).map(|rows| rows.into_iter().find(|row| row["name"] == "press"));
    until("a refusal", PATIENCE, || press().ok()??["what"].as_str()?.contains(what).then_some(()))
        .map_err(|e| format!("{e} with \"{what}\": {:?}", press()))
}

/// The page and its metrics.
fn page(dir: &Path, count: usize) -> Result<String, String> {
    let mut command = program(antedate());
    command.args(["fleet", "page", "--every", "1", "--listen", &format!("127.0.0.1:{PAGE}"), "--directory"]);
    command.arg(dir.join("fleet"));
    let page = command.background(&dir.join("page.log"))?;
    let ask = |path: &str| document("127.0.0.1", PAGE, path);
    let line = format!("antedate_fleet_devices{{state=\"ok\"}} {}", count + 2);
    until("metrics of a healthy fleet", PATIENCE, || {
        let text = ask("/metrics").ok()?;
        (text.contains("antedate_fleet_up 1\n") && text.lines().any(|found| found == line)).then_some(())
    })
    .map_err(|e| format!("{e}: {:?}\n{}", ask("/metrics"), page.output()))?;
    let html = ask("/")?;
    if !html.contains("line4") || !html.contains("press") || html.contains("What follows is old") {
        return Err(format!("the page is another one:\n{}", tail(&html, 5)));
    }
    page.stop(END)?;
    Ok(format!("the page and its metrics show {} devices", count + 2))
}

fn revoke(
    dir: &Path,
    places: &[PathBuf; 2],
    goal: f64,
    note: &mut dyn FnMut(String),
) -> Result<Instant, String> {
    let key = |place: &Path| fs::read_to_string(place.join("files/cak")).map_err(|e| e.to_string());
    let before = key(&places[1])?;
    let begin = Instant::now();
    fleet(dir, &["revoke", "press"])?;
    let took = begin.elapsed().as_secs_f64();
    // The lost gateway obeys, though nobody waits for it.
    until("other keys at both gateways, of which one is revoked", PATIENCE, || {
        let [press, hall] = [key(&places[0]).ok()?, key(&places[1]).ok()?];
        (hall != before && press != hall && press != before).then_some(())
    })?;
    attack::not_admitted(&places[0])?;
    if took > goal {
        return Err(format!("the revocation took {took:.1} s (goal {REVOKED}, bound here {goal})"));
    }
    note(format!("a revoked gateway is out of its cell and of NATS in {took:.1} s"));
    Ok(begin)
}

/// Waits for the end of a revoked gateway's traffic. The old CAK goes on for a minute at most where it
/// carried.
fn ended(begin: Instant, gateways: &[Background; 2], note: &mut dyn FnMut(String)) -> Result<(), String> {
    until("the end of the revoked gateway's traffic", PATIENCE, || {
        let mut ping = net::inside("plc", "ping");
        ping.args(["-q", "-n", "-W", "1", "-c", "1", "10.7.0.2"]).read(5).is_err().then_some(())
    })?;
    if gateways.iter().any(|gateway| gateway.output().contains("panicked")) {
        return Err("a gateway panicked".into());
    }
    note(format!("its traffic has ended {:.1} s later at the latest", begin.elapsed().as_secs_f64()));
    Ok(())
}

/// Enrols a gateway by its code.
fn enrol(dir: &Path, place: &Path, name: &str, invitation: &Path) -> Result<(), String> {
    let mut command = program(antedate());
    command
        .args(["agent", "enrol", "--name", name, "--state"])
        .arg(place)
        .arg("--invitation")
        .arg(invitation);
    let device = command.background(&dir.join(format!("{name}.enrol")))?;
    let code = until("a code", PATIENCE, || {
        let text = device.output();
        text.lines().find_map(|line| line.strip_prefix("code ")).map(|code| code.trim().to_owned())
    })?;
    let listed =
        until("the request", PATIENCE, || fleet(dir, &["enrol"]).ok().filter(|text| text.contains(&code)))?;
    if !listed.contains(&format!("proposes \"{name}\"")) {
        return Err(format!("the request has another name:\n{listed}"));
    }
    fleet(dir, &["enrol", &code, "--role", "gateway", "--cell", "line4"])?;
    device.finish(END).map(drop)
}

fn agent(place: &Path) -> Result<Background, String> {
    let mut command = program(antedate());
    command.args(["agent", "run", "--report", "5", "--state"]).arg(place);
    command.arg("--socket").arg(place.join("files/s"));
    command.background(&place.join("log"))
}

fn gateway(space: &str, place: &Path) -> Result<Background, String> {
    let files = place.join("files");
    fs::create_dir_all(files.join("state")).map_err(|e| e.to_string())?;
    let mut command = net::inside(space, antedate());
    command.args(["gateway", "run"]).arg(files.join("gateway.toml"));
    let mut process = command.background(&place.join("gateway.log"))?;
    until("the gateway's answer", PATIENCE, || match process.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => files.join("s").exists().then_some(Ok(())),
    })??;
    Ok(process)
}

/// Enrols a device by a token, and starts its agent. Returns its directory.
fn enrolled(dir: &Path, name: &str, invitation: &Path, token: &str) -> Result<(PathBuf, Background), String> {
    let place = dir.join(name);
    let mut enrol = program(antedate());
    enrol.args(["agent", "enrol", "--name", name, "--token", token, "--state"]).arg(&place);
    enrol.arg("--invitation").arg(invitation);
    let enrol = enrol.background(&dir.join(format!("{name}.enrol")))?;
    until("the device's request", PATIENCE, || {
        fleet(dir, &["enrol", "--tokens"]).ok()?;
        place.join("member.json").exists().then_some(())
    })?;
    enrol.finish(END)?;
    let agent = agent(&place)?;
    Ok((place, agent))
}

/// Pings through both gateways, which go on while something else is done.
fn traffic(dir: &Path) -> Result<Background, String> {
    let mut flood = net::inside("plc", "ping");
    flood.args(["-q", "-n", "-i", "0.005", "-W", "2", "-c", &PINGS.to_string(), "10.7.0.2"]);
    flood.background(&dir.join("flood"))
}

fn lossless(pings: Background) -> Result<(), String> {
    let said = pings.finish(120)?;
    if said.contains(&format!("{PINGS} packets transmitted, {PINGS} received")) {
        return Ok(());
    }
    Err(format!("pings were lost\n{}", tail(&said, 4)))
}

fn status(dir: &Path) -> Result<Vec<Value>, String> {
    let text = fleet(dir, &["status", "--json"])?;
    serde_json::from_str(&text).map_err(|e| format!("fleet status: {e}\n{text}"))
}

/// How many devices have not reported.
fn silent(dir: &Path) -> Result<usize, String> {
    let rows = status(dir)?;
    Ok(rows.iter().filter(|row| row["state"] == "never" || row["state"] == "silent").count())
}

/// The name of the CAK that carries at a gateway, as its agent reports.
fn carrier(dir: &Path, name: &str) -> Result<String, String> {
    until("a report with a CAK", PATIENCE, || {
        let rows = status(dir).ok()?;
        let row = rows.iter().find(|row| row["name"] == name)?;
        row["ckn"].as_str().filter(|ckn| !ckn.is_empty()).map(str::to_owned)
    })
}
