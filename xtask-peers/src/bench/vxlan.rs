//! Stock tunnels for layer 2: the kernel's VXLAN alone, and through wireguard-go.

use super::placement::Placement;
use crate::net;
use crate::peers::wireguard_go::keygen;
use std::fs;
use xtask::shell::{Background, Run, cache, until};

/// Datagrams of full frames fit.
const WIRE_MTU: &str = "1700";
/// The interface of wireguard-go, which also names a socket in the file system.
const TUNNELS: [&str; 2] = ["antedate-ba", "antedate-bb"];
const SPACES: [&str; 2] = ["gwa", "gwb"];

/// Carries the field's frames in VXLAN, without protection.
pub(super) fn plain() -> Result<(), String> {
    for (side, space) in SPACES.into_iter().enumerate() {
        addressed(side)?;
        tunnel(space, &format!("192.0.2.{}", side + 1), &format!("192.0.2.{}", 2 - side), "uplink")?;
    }
    Ok(())
}

/// The same through WireGuard. Returns the processes.
pub(super) fn protected(placement: Placement) -> Result<Vec<Background>, String> {
    let dir = cache("bench/wireguard")?;
    let mut keys = Vec::new();
    for space in SPACES {
        let _ = fs::remove_file(dir.join(space));
        keys.push(keygen(&dir, space)?);
    }
    let mut ends = Vec::new();
    for (side, space) in SPACES.into_iter().enumerate() {
        addressed(side)?;
        let tunnel = TUNNELS[side];
        let mut command = placement.program(space, side, "wireguard-go");
        command.args(["--foreground", tunnel]).env("LOG_LEVEL", "error");
        let mut process = command.background(&dir.join(format!("{space}.log")))?;
        until("wireguard-go", 10.0, || match process.alive() {
            Err(e) => Some(Err(e)),
            Ok(()) => net::ip(&["-n", space, "link", "show", tunnel]).is_ok().then_some(Ok(())),
        })??;
        ends.push(process);
        let (own, other) = (side + 1, 2 - side);
        let mut wg = net::inside(space, "wg");
        wg.args(["set", tunnel, "listen-port", "51820", "private-key"]).arg(dir.join(space));
        wg.args(["peer", &keys[1 - side], "endpoint", &format!("192.0.2.{other}:51820")]);
        wg.args(["allowed-ips", &format!("10.66.0.{other}/32")]).read(10)?;
        net::address(space, tunnel, &format!("10.66.0.{own}/24"), None)?;
        net::ip(&["-n", space, "link", "set", tunnel, "mtu", "1600", "up"])?;
        self::tunnel(space, &format!("10.66.0.{own}"), &format!("10.66.0.{other}"), tunnel)?;
    }
    // The first packet makes the session.
    net::inside("gwa", "ping").args(["-q", "-n", "-c", "1", "-W", "5", "10.66.0.2"]).read(15)?;
    Ok(ends)
}

fn addressed(side: usize) -> Result<(), String> {
    net::ip(&["-n", SPACES[side], "link", "set", "uplink", "mtu", WIRE_MTU])?;
    net::address(SPACES[side], "uplink", &format!("192.0.2.{}/24", side + 1), None)
}

fn tunnel(space: &str, local: &str, remote: &str, by: &str) -> Result<(), String> {
    let words = ["-n", space, "link", "add", "vx0", "type", "vxlan", "id", "42", "dstport", "4789"];
    let ends = ["local", local, "remote", remote, "dev", by];
    net::ip(&[&words[..], &ends[..]].concat())?;
    net::ip(&["-n", space, "link", "set", "vx0", "mtu", &net::FIELD_MTU.to_string(), "up"])?;
    net::bridge(space, &["field", "vx0"])
}
