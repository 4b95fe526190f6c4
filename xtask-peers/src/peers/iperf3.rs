//! TCP and UDP through two gateways with veth's offloads on: partial checksums, super-frames, VLAN
//! tags, tunnels of the machines.

use super::python::script;
use crate::daemon::Pair;
use crate::net;
use crate::place;
use crate::traffic::transfer;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use xtask::report::{StepResult, Stop};
use xtask::sandbox;
use xtask::shell::{Run, until};

const FILE_OCTETS: usize = 64 << 20;
/// Bits of datagrams a second: a socket's receive buffer in Linux holds 50 ms of them, for which a
/// core may be withheld.
const RATE: &str = "20M";
/// Percentage of datagrams that may be lost, and the tries to stay below it.
const LOST_PERCENT: f64 = 1.0;
const TRIES: u32 = 3;

/// Tunnels of the machines in the words of `ip link add`, whose segmentation Linux leaves to the
/// hardware. `LOCAL` and `REMOTE` stand for the ends.
const TUNNELS: [(&str, bool); 9] = [
    ("type vxlan id 9 dstport 4789 local LOCAL remote REMOTE noudpcsum", false),
    ("type vxlan id 9 dstport 4789 local LOCAL remote REMOTE udpcsum", false),
    ("type vxlan id 9 dstport 4789 local LOCAL remote REMOTE", true),
    ("type geneve id 9 remote REMOTE", false),
    ("type geneve id 9 remote REMOTE udp6zerocsumtx udp6zerocsumrx", true),
    ("type gre local LOCAL remote REMOTE ttl 64 key 7 csum", false),
    ("type gretap local LOCAL remote REMOTE ttl 64", false),
    ("type ipip local LOCAL remote REMOTE ttl 64", false),
    ("type ip6tnl mode any local LOCAL remote REMOTE", true),
];

/// Does nothing: packages suffice.
pub(crate) fn prepare() -> Result<(), Stop> {
    Ok(())
}

/// Checks IPv4 and IPv6, untagged and in a VLAN: a file arrives whole, both directions carry TCP,
/// no UDP datagram is damaged.
pub(crate) fn run() -> StepResult {
    let dir = place::run()?;
    let sent = dir.join("sent");
    make_file(&sent)?;
    let mut notes = Vec::new();
    for tagged in [false, true] {
        net::cell()?;
        net::address("plc", "eth0", "10.7.0.1/24", Some("fd07::1/64"))?;
        net::address("dev", "eth0", "10.7.0.2/24", Some("fd07::2/64"))?;
        offloads_are_on("plc")?;
        if tagged && sandbox::is_mapped_user() {
            return Err(Stop::Skipped(format!(
                "{} transfers whole; VLAN tags need root, to load a classifier program",
                notes.len()
            )));
        }
        if tagged {
            for space in ["plc", "dev"] {
                vlan(space)?;
            }
        }
        let pair = Pair::start(&["arp", "ipv4", "ipv6"])?;
        for address in ["10.7.0.2", "fd07::2"] {
            let kind = if tagged { "in a VLAN" } else { "untagged" };
            let received = dir.join("received");
            let _ = std::fs::remove_file(&received);
            carry(&sent, &received, address)?;
            same(&sent, &received)?;
            let there = transfer(address, &["-t", "2"])?;
            let back = transfer(address, &["-R", "-t", "2"])?;
            let lost = datagrams(address, kind)?;
            let rate = |v: &Value, key: &str| v["end"][key]["bits_per_second"].as_f64().unwrap_or(0.0) / 1e9;
            let note = format!(
                "{address} {kind}: file whole, there {:.2} Gbit/s, back {:.2} Gbit/s, UDP lost {lost:.2} %",
                rate(&there, "sum_received"),
                rate(&back, "sum_received")
            );
            println!("   {note}");
            notes.push(note);
        }
        if !tagged {
            notes.extend(tunnels(&sent, &dir.join("received"))?);
        }
        for space in ["plc", "dev"] {
            checksums_were_right(space)?;
        }
        pair.finish()?;
        net::remove_cell();
    }
    Ok(format!("{} transfers whole, no checksum error", notes.len()))
}

/// Sends the file in each tunnel that this kernel has. An incomplete segment would be lost, and the
/// file would not arrive in time.
fn tunnels(sent: &Path, received: &Path) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    for (words, v6) in TUNNELS {
        let ends = if v6 { ["fd07::1", "fd07::2"] } else { ["10.7.0.1", "10.7.0.2"] };
        let name = words.split(' ').nth(1).unwrap_or_default();
        let mut missing = None;
        for (space, local, remote, inner) in
            [("plc", ends[0], ends[1], "10.8.0.1/24"), ("dev", ends[1], ends[0], "10.8.0.2/24")]
        {
            let words = words.replace("LOCAL", local).replace("REMOTE", remote);
            let link =
                net::inside(space, "ip").args(["link", "add", "tunnel"]).args(words.split(' ')).read(10);
            match link {
                // The kind of tunnel is a module of the kernel.
                Err(error) if error.contains("Unknown device type") => missing = Some(error),
                other => {
                    other?;
                    net::inside(space, "ip").args(["link", "set", "tunnel", "up"]).read(10)?;
                    net::inside(space, "ip").args(["address", "add", inner, "dev", "tunnel"]).read(10)?;
                }
            }
        }
        if missing.is_some() {
            println!("   {name}: this kernel has no such tunnels");
            continue;
        }
        let _ = std::fs::remove_file(received);
        carry(sent, received, "10.8.0.2").map_err(|error| format!("{words}: {error}"))?;
        same(sent, received)?;
        for space in ["plc", "dev"] {
            net::inside(space, "ip").args(["link", "delete", "tunnel"]).read(10)?;
        }
        println!("   in {name}{}: file whole", if v6 { " over IPv6" } else { "" });
        notes.push(format!("in {name}: file whole"));
    }
    if notes.is_empty() { Err("this kernel has none of the tunnels".to_owned()) } else { Ok(notes) }
}

fn make_file(path: &Path) -> Result<(), String> {
    // A xorshift generator: all blocks differ, and all machines produce the same ones.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(FILE_OCTETS);
    while bytes.len() < FILE_OCTETS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    std::fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}

fn carry(sent: &Path, received: &Path, address: &str) -> Result<(), String> {
    let at = |space, verb, file: &Path| {
        let mut command = net::inside(space, "/usr/bin/python3");
        command.arg(script("iperf3/file.py")).arg(verb).arg(file).arg(address);
        command
    };
    let mut receiver = at("dev", "receive", received).background(&place::run()?.join("file.log"))?;
    until("the receiver of the file", 10.0, || match receiver.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => receiver.output().contains("listening").then_some(Ok(())),
    })??;
    at("plc", "send", sent).read(60)?;
    receiver.finish(20).map(drop)
}

fn same(sent: &Path, received: &Path) -> Result<(), String> {
    let hash = |path: &Path| {
        Command::new("sha256sum")
            .arg(path)
            .read(30)
            .map(|s| s.split(' ').next().unwrap_or_default().to_string())
    };
    let (a, b) = (hash(sent)?, hash(received)?);
    if a == b { Ok(()) } else { Err(format!("the file sent has SHA-256 {a}, the one received {b}")) }
}

fn offloads_are_on(space: &str) -> Result<(), String> {
    let features = net::inside(space, "ethtool").args(["-k", "eth0"]).read(10)?;
    for feature in ["tx-checksumming: on", "tcp-segmentation-offload: on"] {
        if !features.contains(feature) {
            return Err(format!("veth has not `{feature}`, so this would show nothing"));
        }
    }
    Ok(())
}

/// Puts all traffic that the namespace sends into VLAN 7, and takes received traffic out of it.
fn vlan(space: &str) -> Result<(), String> {
    net::inside(space, "/usr/bin/python3")
        .arg(script("iperf3/vlan.py"))
        .args(["eth0", "7"])
        .read(20)
        .map(drop)
}

/// The percentage of lost datagrams. A machine that withholds its cores loses some without a
/// gateway's fault, so a bad series is reported and repeated.
fn datagrams(address: &str, kind: &str) -> Result<f64, String> {
    let mut lost = 100.0;
    for _ in 0..TRIES {
        let udp = transfer(address, &["-u", "-b", RATE, "-l", "1400", "-t", "2"])?;
        lost = udp["end"]["sum"]["lost_percent"].as_f64().unwrap_or(100.0);
        if lost <= LOST_PERCENT {
            return Ok(lost);
        }
        println!("   {address} {kind}: {lost:.2} % of the datagrams lost, again");
    }
    Err(format!("{address} {kind}: {lost} % of the datagrams lost in each of {TRIES} series"))
}

fn checksums_were_right(space: &str) -> Result<(), String> {
    let netstat = net::inside(space, "cat").arg("/proc/net/snmp").read(5)?;
    for protocol in ["Tcp:", "Udp:"] {
        let mut lines = netstat.lines().filter(|l| l.starts_with(protocol));
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else { continue };
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            if name == "InCsumErrors" && value != "0" {
                return Err(format!("{protocol} {value} checksum errors in {space}"));
            }
        }
    }
    let six = net::inside(space, "cat").arg("/proc/net/snmp6").read(5)?;
    match six.lines().find(|l| {
        l.starts_with("Udp6InCsumErrors") && !l.trim_end().ends_with("\t0") && !l.trim_end().ends_with(" 0")
    }) {
        Some(line) => Err(format!("{line} in {space}")),
        None => Ok(()),
    }
}
