//! Twenty gateways in ten cells, each cell with traffic while all CAKs change.

use super::cluster::fleet;
use super::{END, GATEWAY, PATIENCE, enrolled};
use crate::net::{self, End};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;
use xtask::shell::{Background, Run, tail, until};

/// Cells of two gateways each.
const CELLS: usize = 10;
/// Pings through each cell, one each 10 ms. They must last longer than the changes.
const PINGS: u32 = 9000;

struct Gateway {
    space: String,
    place: PathBuf,
    agent: Background,
    gateway: Option<Background>,
}

/// The path of a cell: machine, two gateways, machine.
fn path(cell: usize) -> Result<(), String> {
    let space = |part: &str| format!("{part}{cell}");
    for part in ["plc", "gwa", "gwb", "dev"] {
        net::namespace(&space(part))?;
    }
    let spaces = ["plc", "gwa", "gwb", "dev"].map(space);
    let end = |at: usize, name, octet| End { space: &spaces[at], name, octet };
    net::link(end(0, "eth0", 0x01), end(1, "field", 0xa1), net::FIELD_MTU)?;
    net::link(end(1, "uplink", 0xa2), end(2, "uplink", 0xb2), net::WIRE_MTU)?;
    net::link(end(2, "field", 0xb1), end(3, "eth0", 0x02), net::FIELD_MTU)?;
    net::address(&spaces[0], "eth0", "10.7.0.1/24", None)?;
    net::address(&spaces[3], "eth0", "10.7.0.2/24", None)
}

/// Brings all cells up, and changes all CAKs under traffic.
pub(super) fn run(dir: &Path, invitation: &Path, note: &mut dyn FnMut(String)) -> Result<(), String> {
    let template = dir.join("gateway.toml");
    fs::write(&template, GATEWAY).map_err(|e| e.to_string())?;
    fleet(dir, &["set", "role", "gateway", &template.display().to_string()])?;
    let mut gateways = Vec::new();
    for cell in 0..CELLS {
        path(cell)?;
        let name = format!("line{cell}");
        let tokens = fleet(dir, &["token", "--role", "gateway", "--cell", &name, "--count", "2"])?;
        for (part, token) in ["gwa", "gwb"].iter().zip(tokens.lines()) {
            let space = format!("{part}{cell}");
            let (place, agent) = enrolled(dir, &space, invitation, token)?;
            gateways.push(Gateway { space, place, agent, gateway: None });
        }
    }
    until("the agents' first reports", PATIENCE, || (super::silent(dir).ok()? == 0).then_some(()))?;
    fleet(dir, &["apply", "--canaries", "0", "--wave", "0"])?;
    for one in &mut gateways {
        one.gateway = Some(super::gateway(&one.space, &one.place)?);
    }
    for cell in 0..CELLS {
        until("a ping", PATIENCE, || {
            let mut ping = net::inside(&format!("plc{cell}"), "ping");
            ping.args(["-q", "-n", "-W", "1", "-c", "1", "10.7.0.2"]).read(5).is_ok().then_some(())
        })?;
    }
    let mut floods = Vec::new();
    for cell in 0..CELLS {
        let mut flood = net::inside(&format!("plc{cell}"), "ping");
        flood.args(["-q", "-n", "-i", "0.01", "-W", "2", "-c", &PINGS.to_string(), "10.7.0.2"]);
        floods.push(flood.background(&dir.join(format!("flood{cell}")))?);
    }
    let begin = Instant::now();
    for cell in 0..CELLS {
        fleet(dir, &["rotate", &format!("line{cell}")])?;
    }
    let took = begin.elapsed().as_secs_f64();
    if took > f64::from(PINGS) / 100.0 {
        return Err(format!("the changes took {took:.1} s, longer than the pings"));
    }
    let mut lost = Vec::new();
    for (cell, flood) in floods.into_iter().enumerate() {
        let said = flood.finish(180)?;
        if !said.contains(&format!("{PINGS} packets transmitted, {PINGS} received")) {
            lost.push(format!("line{cell}: {}", tail(&said, 3)));
        }
    }
    if !lost.is_empty() {
        return Err(format!("frames were lost:\n{}", lost.join("\n")));
    }
    note(format!(
        "{} gateways: the CAKs of {CELLS} cells changed in {took:.1} s, 0 of {} pings lost",
        gateways.len(),
        CELLS * PINGS as usize
    ));
    for one in gateways {
        one.agent.stop(END)?;
        one.gateway.map_or(Ok(()), |gateway| gateway.stop(END).map(drop))?;
    }
    Ok(())
}
