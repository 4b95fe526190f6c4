//! A leaf node: the server of a site, whose devices reach the cluster over it alone.

use super::attack;
use super::cluster::{Cluster, certificate, fleet};
use super::{END, PATIENCE, enrolled};
use antedate_fleet::home::Home;
use std::fs;
use std::path::Path;
use std::time::Instant;
use xtask::shell::{Background, Run, program, tail, until};

/// Where the leaf node is for its devices, and its port.
const HOST: &str = "127.0.0.1";
const PORT: u16 = 4240;

fn start(dir: &Path) -> Result<Background, String> {
    let mut server = program("/usr/sbin/nats-server");
    server.arg("--config").arg(dir.join("fleet/nats/leaf-hall.conf"));
    server.background(&dir.join("leaf.log"))
}

/// Makes a leaf node, enrols a device over it, and gives it settings while each server is killed in turn.
pub(super) fn run(dir: &Path, cluster: &mut Cluster, note: &mut dyn FnMut(String)) -> Result<(), String> {
    let tls = dir.join("tls");
    certificate(&tls, "ca", "leaf-hall", HOST)?;
    let listen = format!("{HOST}:{PORT}");
    let (nats, data) = (dir.join("fleet/nats"), dir.join("leaf-data"));
    let [nats, data, tls] = [&nats, &data, &tls].map(|path| path.display().to_string());
    let words = ["leaf", "hall", "--listen", &listen, "--credentials", &nats, "--data", &data, "--tls", &tls];
    let said = fleet(dir, &words)?;
    if !said.contains("n1.conf, n2.conf, n3.conf let leaf nodes in") {
        return Err(format!("the servers let no leaf nodes in:\n{said}"));
    }
    cluster.restart(dir)?;
    let server = start(dir)?;
    let tried = attack::leaf(&Home::open(&dir.join("fleet")).map_err(|e| e.to_string())?, "hall")?;
    note(format!("{tried} tries with the pass of a stolen leaf node are forbidden by NATS"));

    let policy = dir.join("policy.json");
    let set = |limit: u32| -> Result<(), String> {
        fs::write(&policy, format!("{{ \"limit\": {limit} }}\n")).map_err(|e| e.to_string())?;
        fleet(dir, &["set", "role", "publisher", &policy.display().to_string()]).map(drop)
    };
    set(0)?;
    let token = fleet(dir, &["token", "--role", "publisher"])?;
    let (place, agent) = enrolled(dir, "site", &dir.join("fleet/invitation-hall.json"), token.trim())?;
    until("the device's first report", PATIENCE, || (super::silent(dir).ok()? == 0).then_some(()))?;
    fleet(dir, &["apply"])?;
    let mut times = Vec::new();
    for index in 0..3 {
        cluster.kill(index);
        let limit = 1 + u32::try_from(index).unwrap_or_default();
        set(limit)?;
        let begin = Instant::now();
        let mut why = String::new();
        until("settings over the leaf node with a server killed", PATIENCE, || {
            fleet(dir, &["apply"]).map_err(|said| why = said).ok()?;
            let text = fs::read_to_string(place.join("files/policy.json")).ok()?;
            text.contains(&format!("\"limit\": {limit}")).then_some(())
        })
        .map_err(|e| format!("{e}: {why}\n{}", tail(&server.output(), 6)))?;
        times.push(format!("{:.1} s", begin.elapsed().as_secs_f64()));
        cluster.revive(index)?;
        until("three servers", PATIENCE, || fleet(dir, &["setup"]).ok())?;
    }
    note(format!("settings over a leaf node, each server killed in turn: {}", times.join(", ")));
    let begin = Instant::now();
    fleet(dir, &["revoke", "site"])?;
    attack::not_admitted(&place)?;
    note(format!("a device behind it is revoked there after {:.1} s", begin.elapsed().as_secs_f64()));
    agent.stop(END)?;
    server.stop(END).map(drop)
}
