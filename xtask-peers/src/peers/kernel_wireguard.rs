//! The Linux kernel's WireGuard, in a QEMU guest, with kernel VXLAN and a bridge, is the far end of
//! an overlay.
//!
//! The guest has two network cards: one on the wire to the gateway, one on the far field, so the
//! lab's machines are on both sides. Each end starts a handshake, with and without a preshared key.
//! Frames of EtherType 0x8892 of all lengths, pings of all lengths, TCP, PROFINET and DCP cross the
//! tunnel, also while sessions change.

use super::wireguard_go::{Gateway, keygen, stations};
use crate::guest::{self, Guest};
use crate::net;
use crate::place;
use crate::traffic::transfer;
use serde_json::Value;
use std::fs;
use std::fs::OpenOptions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use xtask::report::{StepResult, Stop};
use xtask::shell::{Background, Run, program, root, until};

/// The guest's cards: on the wire, and on the far field.
const CARDS: [(&str, u8); 2] = [("wire", 0x0e), ("site", 0x0f)];
/// The overlay's MTU without IP fragmentation: full frames are fragmented inside the tunnel.
const MTU: &str = "1500";

pub(crate) fn prepare() -> Result<(), Stop> {
    let tun = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    tun.map_err(|e| {
        Stop::Skipped(format!("/dev/net/tun: {e}; the guest's network cards are TAP devices: run as root"))
    })?;
    guest::build()?;
    Ok(())
}

/// Boots the guest, and runs all tests without and with a preshared key.
pub(crate) fn run() -> StepResult {
    let image = guest::build()?;
    let dir = place::run()?.join("kernel-wireguard");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).map_err(|e| e.to_string())?;
    net::cell()?;
    net::ip(&["-n", "gwa", "link", "set", "uplink", "mtu", MTU])?;
    net::address("gwa", "uplink", "192.0.2.1/24", None)?;
    net::address("plc", "eth0", "10.7.0.1/24", None)?;
    net::address("dev", "eth0", "10.7.0.2/24", None)?;
    // The guest replaces the far gateway: each of its cards is bridged to one of that gateway's
    // ports.
    for ((tap, _), port) in CARDS.iter().zip(["uplink", "field"]) {
        let bridge = format!("br-{tap}");
        net::ip(&["-n", "gwb", "tuntap", "add", "dev", tap, "mode", "tap"])?;
        let kind = "type bridge stp_state 0 forward_delay 0 mcast_snooping 0 group_fwd_mask 0x4000";
        let add = format!("-n gwb link add {bridge} {kind}");
        net::ip(&add.split(' ').collect::<Vec<_>>())?;
        for name in [tap, port] {
            net::ip(&["-n", "gwb", "link", "set", name, "master", &bridge, "up"])?;
        }
        net::ip(&["-n", "gwb", "link", "set", &bridge, "up"])?;
    }
    let cards = CARDS.map(|(tap, octet)| (tap, net::mac(octet)));
    let mut guest = Guest::boot_between(&image, net::inside("gwb", "qemu-system-x86_64"), &cards)?;
    guest.load_tunnels()?;
    let ours = keygen(&dir, "ours")?;
    let theirs = keygen(&dir, "theirs")?;
    let mut said = Vec::new();
    for preshared in [false, true] {
        let psk = if preshared { Some(preshared_key(&dir)?) } else { None };
        configure(&mut guest, &dir, &ours, psk.as_deref())?;
        let text = if preshared { "preshared_key_file = \"psk\"\n" } else { "" };
        let gateway = Gateway::start(&dir, &theirs, text)?;
        let outcome = judge(&mut guest, &gateway, &dir, preshared);
        let shown = guest.run("wg show wg0; ip -s link show wg0; ip -s link show vx0")?;
        let context = |e: String| format!("{e}\n{shown}\n{:#}", gateway.status().unwrap_or_default());
        said.push(outcome.map_err(context)?);
        gateway.process.stop(10)?;
        guest.run("ip link del vx0; ip link del br0; ip link del wg0")?;
    }
    net::remove_cell();
    Ok(said.join("; "))
}

/// Configures the far end by the manual's recipe.
fn configure(guest: &mut Guest, dir: &Path, ours: &str, psk: Option<&str>) -> Result<(), String> {
    let key = fs::read_to_string(dir.join("theirs")).map_err(|e| e.to_string())?;
    let preshared = psk.map_or(String::new(), |_| "preshared-key /tmp/psk".into());
    for command in [
        format!("umask 077; echo {} >/tmp/key; echo {} >/tmp/psk", key.trim(), psk.unwrap_or_default()),
        format!("ip link set eth0 mtu {MTU} up; ip addr replace 192.0.2.2/24 dev eth0"),
        "ip link set eth1 mtu 1500 up".into(),
        "ip link add wg0 type wireguard".into(),
        format!(
            "wg set wg0 listen-port 51820 private-key /tmp/key peer {ours} {preshared} \
             endpoint 192.0.2.1:51820 allowed-ips 10.66.0.1/32"
        ),
        "ip addr add 10.66.0.2/24 dev wg0".into(),
        "ip link set wg0 mtu 1420 up".into(),
        "ip link add vx0 type vxlan id 42 local 10.66.0.2 remote 10.66.0.1 dstport 4789".into(),
        "ip link set vx0 mtu 1500".into(),
        "ip link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0 group_fwd_mask 0x4000"
            .into(),
        "ip link set vx0 master br0; ip link set eth1 master br0".into(),
        "ip link set vx0 up; ip link set br0 up".into(),
    ] {
        guest.run(&command)?;
    }
    Ok(())
}

fn preshared_key(dir: &Path) -> Result<String, String> {
    let file = dir.join("psk");
    let mut command = program(xtask::shell::antedate());
    command.args(["keygen", "wireguard", "--preshared", "--out"]).arg(&file).read(10)?;
    Ok(fs::read_to_string(file).map_err(|e| e.to_string())?.trim().to_owned())
}

/// Runs all traffic with one kind of key.
fn judge(guest: &mut Guest, gateway: &Gateway, dir: &Path, preshared: bool) -> Result<String, String> {
    let count = |gateway: &Gateway| -> Result<u64, String> {
        Ok(gateway.status()?["overlay"]["peers"][0]["handshakes"].as_u64().unwrap_or(0))
    };
    // Our side starts the handshake: the far end has sent nothing yet.
    ping("plc", "10.7.0.2", "56")?;
    let by_us = count(gateway)?;
    let latest = guest.run("wg show wg0 latest-handshakes")?;
    if by_us < 1 || latest.split_whitespace().last().is_none_or(|seconds| seconds == "0") {
        return Err("no handshake was begun by us".into());
    }
    frames("plc", "dev", dir)?;
    frames("dev", "plc", dir)?;
    for size in ["0", "1344", "1364", "1365", "1472"] {
        ping("plc", "10.7.0.2", size)?;
    }
    // The kernel starts this handshake; it forgets its session when the interface goes down.
    guest.run("ip link set wg0 down; ip link set wg0 up")?;
    ping("dev", "10.7.0.1", "56")?;
    let by_both = count(gateway)?;
    if by_both <= by_us {
        return Err(format!("no handshake was begun by the kernel: {by_us} before, {by_both} after"));
    }
    if preshared {
        return Ok("with a preshared key handshakes from both sides, all frames".into());
    }
    // New sessions during traffic lose no packet. Our initiations are at least five seconds apart
    // (WireGuard paper, section 6.4).
    let mut flow = net::inside("plc", "ping");
    flow.args(["-q", "-n", "-c", "350", "-i", "0.02", "-W", "2", "10.7.0.2"]);
    let flow = flow.background(&dir.join("flow.log"))?;
    gateway.command("rekey")?;
    let said = flow.finish(30)?;
    if !said.contains(" 0% packet loss") {
        return Err(format!("packets were lost while sessions changed:\n{said}"));
    }
    let renewed = count(gateway)?;
    if renewed <= by_both {
        return Err(format!("no new session under traffic: {by_both} before, {renewed} after"));
    }
    stations(dir, 32_000)?;
    let rate = |v: &Value| v["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0) / 1e6;
    let there = rate(&transfer("10.7.0.2", &["-t", "1"])?);
    let back = rate(&transfer("10.7.0.2", &["-R", "-t", "1"])?);
    if there < 1.0 || back < 1.0 {
        return Err(format!("TCP: {there:.1} Mbit/s there, {back:.1} back"));
    }
    let status = gateway.status()?;
    if let Some(refused) = status["overlay"]["refused"].as_object().filter(|refused| !refused.is_empty()) {
        return Err(format!("good packets were refused: {refused:?}"));
    }
    Ok(format!(
        "handshakes from both sides, {renewed} sessions, frames of 60 to 1514 octets, PROFINET and DCP, \
         TCP {there:.0} and {back:.0} Mbit/s"
    ))
}

fn ping(space: &str, to: &str, size: &str) -> Result<(), String> {
    let mut ping = net::inside(space, "ping");
    ping.args(["-q", "-n", "-c", "3", "-i", "0.05", "-W", "3", "-M", "do", "-s", size, to]);
    ping.read(20).map(drop)
}

/// Sends frames of EtherType 0x8892, from the shortest to the longest, from one machine to the
/// other.
fn frames(from: &str, to: &str, dir: &Path) -> Result<(), String> {
    let script = root().join("peers/kernel-wireguard/frames.py");
    // Each machine has its own address: a source that was heard on one side moves to the other only
    // after a silence.
    let source = if from == "plc" { "c1" } else { "c2" };
    let run = |space: &str, verb: &str| {
        let mut command = net::inside(space, "python3");
        command.arg(&script).args([verb, "eth0", source]);
        command
    };
    let mut receiver: Background = run(to, "receive").background(&dir.join(format!("frames-{to}.log")))?;
    until("the receiver of frames", 10.0, || match receiver.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => receiver.output().contains("ready").then_some(Ok(())),
    })??;
    run(from, "send").read(20)?;
    receiver.finish(20).map(drop).map_err(|e| format!("from {from} to {to}: {e}"))
}
