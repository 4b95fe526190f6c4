//! Paths of network namespaces: ends, gateways and the wires between them, inside the sandbox.

use std::process::Command;
use xtask::shell::{Run, program};

/// The MTU of the field and that of the wire between gateways, which fits a full frame and MACsec's
/// overhead (32 bytes, and a VLAN tag).
pub(crate) const FIELD_MTU: u32 = 1500;
/// See [`FIELD_MTU`].
pub(crate) const WIRE_MTU: u32 = 1550;

/// Makes a namespace. Interfaces get no automatic IPv6 address, so that only tests send traffic.
pub(crate) fn namespace(name: &str) -> Result<(), String> {
    ip(&["netns", "add", name])?;
    for scope in ["all", "default"] {
        let key = format!("net.ipv6.conf.{scope}.disable_ipv6=1");
        inside(name, "sysctl").args(["-q", "-w", &key]).read(10)?;
    }
    ip(&["-n", name, "link", "set", "lo", "up"])
}

/// One end of a link.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    pub(crate) space: &'a str,
    /// The interface's name there.
    pub(crate) name: &'a str,
    /// The last octet of its locally administered address.
    pub(crate) octet: u8,
}

/// The address of an end with this last octet.
pub(crate) fn mac(octet: u8) -> String {
    format!("02:00:00:00:00:{octet:02x}")
}

/// Makes a veth pair between two namespaces, both ends up.
pub(crate) fn link(a: End<'_>, b: End<'_>, mtu: u32) -> Result<(), String> {
    let (mac_a, mac_b) = (mac(a.octet), mac(b.octet));
    let words = [
        "link", "add", "name", a.name, "netns", a.space, "address", &mac_a, "type", "veth", "peer", "name",
        b.name, "netns", b.space, "address", &mac_b,
    ];
    ip(&words)?;
    for end in [a, b] {
        ip(&["-n", end.space, "link", "set", end.name, "mtu", &mtu.to_string(), "up"])?;
    }
    Ok(())
}

/// Builds the path of a machine cell:
/// `plc` (eth0) - `gwa` (field, uplink) - `gwb` (uplink, field) - `dev` (eth0).
pub(crate) fn cell() -> Result<(), String> {
    for space in ["plc", "gwa", "gwb", "dev"] {
        namespace(space)?;
    }
    let end = |space, name, octet| End { space, name, octet };
    link(end("plc", "eth0", 0x01), end("gwa", "field", 0xa1), FIELD_MTU)?;
    link(end("gwa", "uplink", 0xa2), end("gwb", "uplink", 0xb2), WIRE_MTU)?;
    link(end("gwb", "field", 0xb1), end("dev", "eth0", 0x02), FIELD_MTU)
}

/// Removes the path of [`cell`].
pub(crate) fn remove_cell() {
    for space in ["plc", "gwa", "gwb", "dev"] {
        let _ = ip(&["netns", "del", space]);
    }
}

pub(crate) fn ip(words: &[&str]) -> Result<(), String> {
    program("ip").args(words).read(10).map(drop)
}

/// A command that runs inside a namespace.
pub(crate) fn inside(space: &str, name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = program("ip");
    command.args(["netns", "exec", space]).arg(name);
    command
}

/// Gives an end an IPv4 address and, if given, an IPv6 address that is usable at once.
pub(crate) fn address(space: &str, name: &str, v4: &str, v6: Option<&str>) -> Result<(), String> {
    ip(&["-n", space, "addr", "add", v4, "dev", name])?;
    if let Some(v6) = v6 {
        // The interface's name may contain a dot, which sysctl would read as a separator.
        let key = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
        inside(space, "sh").args(["-c", &format!("echo 0 > {key}")]).read(10)?;
        ip(&["-n", space, "-6", "addr", "add", v6, "dev", name, "nodad"])?;
    }
    Ok(())
}

/// Joins ports by a Linux bridge that forwards at once, without snooping and blocking.
pub(crate) fn bridge(space: &str, ports: &[&str]) -> Result<(), String> {
    ip(&[
        "-n",
        space,
        "link",
        "add",
        "br0",
        "type",
        "bridge",
        "stp_state",
        "0",
        "forward_delay",
        "0",
        "mcast_snooping",
        "0",
    ])?;
    for port in ports {
        ip(&["-n", space, "link", "set", port, "master", "br0"])?;
    }
    ip(&["-n", space, "link", "set", "br0", "up"])
}
