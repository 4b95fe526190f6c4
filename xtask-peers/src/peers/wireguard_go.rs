//! Stock Linux as the far end of an overlay: kernel VXLAN over wireguard-go, bridged to the field.
//!
//! The lab's PLC and IO device exchange PROFINET through it, DCP finds the device, pings of all
//! lengths and TCP cross, also while sessions change. With the gateway's key log, Wireshark's
//! dissector must read each datagram on the wire, down to the PROFINET frames in VXLAN.

use crate::net;
use crate::place;
use crate::traffic::{station_report, transfer};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::report::{StepResult, Stop};
use xtask::shell::{Background, Run, antedate, program, until};

/// The overlay's MTU: full frames on a path of 1500 are fragmented.
const MTU: &str = "1500";
/// The far end's interface, which also names a socket in the file system.
const TUNNEL: &str = "antedate-wg";

/// Checks for a TUN device; packages suffice otherwise.
pub(crate) fn prepare() -> Result<(), Stop> {
    let tun = Path::new("/dev/net/tun").exists();
    if tun {
        Ok(())
    } else {
        Err(Stop::Skipped("no /dev/net/tun, which wireguard-go needs: run as root".into()))
    }
}

/// Builds the path and runs all tests.
pub(crate) fn run() -> StepResult {
    let dir = place::run()?.join("overlay");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).map_err(|e| e.to_string())?;
    net::cell()?;
    for (space, last) in [("gwa", 1), ("gwb", 2)] {
        net::ip(&["-n", space, "link", "set", "uplink", "mtu", MTU])?;
        net::address(space, "uplink", &format!("192.0.2.{last}/24"), None)?;
    }
    // Datagrams that wait on a busy machine leave as one super-frame, which the dissector cannot read.
    net::inside("gwa", "ethtool").args(["-K", "uplink", "tx-udp-segmentation", "off"]).read(10)?;
    net::address("plc", "eth0", "10.7.0.1/24", None)?;
    net::address("dev", "eth0", "10.7.0.2/24", None)?;
    let ours = keygen(&dir, "ours")?;
    let theirs = keygen(&dir, "theirs")?;
    let _stock = stock(&dir, &ours)?;
    let capture_file = dir.join("uplink.pcap");
    // The far end captures: our gateway's frames bypass the taps of its own interface.
    let mut capture = net::inside("gwb", "dumpcap");
    capture.args(["-q", "-i", "uplink", "-w"]).arg(&capture_file);
    let mut capture = capture.background(&dir.join("dumpcap.log"))?;
    until("dumpcap", 10.0, || match capture.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => capture.output().contains("File: ").then_some(Ok(())),
    })??;
    let gateway = Gateway::start(&dir, &theirs, "")?;

    for size in ["0", "56", "1344", "1364", "1365", "1400", "1472"] {
        let mut ping = net::inside("plc", "ping");
        ping.args(["-q", "-n", "-c", "3", "-i", "0.05", "-W", "2", "-M", "do", "-s", size, "10.7.0.2"]);
        ping.read(15)?;
    }
    // The protocol allows one initiation in five seconds: the new session starts during the
    // stations' traffic, or soon after if its answer is lost once on a slow machine.
    gateway.command("rekey")?;
    stations(&dir, 4000)?;
    until("a second session", 30.0, || match gateway.peer() {
        Ok(peer) if peer["handshakes"].as_u64() < Some(2) => None,
        other => Some(other.map(drop)),
    })??;
    net::inside("plc", "ping").args(["-q", "-n", "-c", "3", "-i", "0.05", "-W", "2", "10.7.0.2"]).read(15)?;
    // The dissector cannot handle the traffic that follows.
    capture.stop(5)?;
    let rate = |v: &Value| v["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0) / 1e6;
    let there = rate(&transfer("10.7.0.2", &["-t", "1"])?);
    let back = rate(&transfer("10.7.0.2", &["-R", "-t", "1"])?);
    if there < 1.0 || back < 1.0 {
        return Err(format!("TCP: {there:.1} Mbit/s there, {back:.1} back").into());
    }
    let status = gateway.status()?;
    let peer = &status["overlay"]["peers"][0];
    let number = |key: &str| peer[key].as_u64().unwrap_or(0);
    if number("frames_in_fragments") < 3 || number("frames_reassembled") < 3 {
        return Err(format!("too little happened: {peer:#}").into());
    }
    if let Some(refused) = status["overlay"]["refused"].as_object().filter(|refused| !refused.is_empty()) {
        return Err(format!("good packets were refused: {refused:?}").into());
    }
    gateway.process.stop(10)?;
    let read = dissect(&capture_file, &dir.join("keys.log"))?;
    net::remove_cell();
    Ok(format!(
        "pings of all lengths, TCP {there:.0} and {back:.0} Mbit/s, PROFINET across a new session; {read}"
    ))
}

/// Writes a private key to a file, and returns its public key.
pub(crate) fn keygen(dir: &Path, name: &str) -> Result<String, String> {
    let mut command = program(antedate());
    let text = command.args(["keygen", "wireguard", "--out"]).arg(dir.join(name)).read(10)?;
    Ok(text.trim().to_string())
}

/// Starts the far end by the manual's recipe.
fn stock(dir: &Path, ours: &str) -> Result<Background, String> {
    let mut command = net::inside("gwb", "wireguard-go");
    command.args(["--foreground", TUNNEL]).env("LOG_LEVEL", "error");
    let mut process = command.background(&dir.join("wireguard-go.log"))?;
    until("wireguard-go", 10.0, || match process.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => net::ip(&["-n", "gwb", "link", "show", TUNNEL]).is_ok().then_some(Ok(())),
    })??;
    let mut wg = net::inside("gwb", "wg");
    wg.args(["set", TUNNEL, "listen-port", "51820", "private-key"]).arg(dir.join("theirs"));
    wg.args(["peer", ours, "endpoint", "192.0.2.1:51820", "allowed-ips", "10.66.0.1/32"]).read(10)?;
    net::address("gwb", TUNNEL, "10.66.0.2/24", None)?;
    net::ip(&["-n", "gwb", "link", "set", TUNNEL, "mtu", "1420", "up"])?;
    let vxlan = "link add vx0 type vxlan id 42 local 10.66.0.2 remote 10.66.0.1 dstport 4789";
    let words: Vec<&str> = ["-n", "gwb"].into_iter().chain(vxlan.split(' ')).collect();
    net::ip(&words)?;
    net::ip(&["-n", "gwb", "link", "set", "vx0", "mtu", "1500", "up"])?;
    net::bridge("gwb", &["field", "vx0"])?;
    // Forwards LLDP's nearest-bridge address, which a bridge drops by default.
    net::ip(&["-n", "gwb", "link", "set", "br0", "type", "bridge", "group_fwd_mask", "0x4000"])?;
    Ok(process)
}

pub(super) struct Gateway {
    pub(super) process: Background,
    socket: PathBuf,
}

impl Gateway {
    /// Starts our end, with further lines about its peer.
    pub(super) fn start(dir: &Path, theirs: &str, peer: &str) -> Result<Gateway, String> {
        let (file, socket) = (dir.join("gateway.toml"), dir.join("s"));
        let text = format!(
            "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n\
             [overlay]\nprivate_key_file = \"ours\"\naddress = \"10.66.0.1\"\nvni = 42\n\
             [[overlay.peer]]\nname = \"stock\"\npublic_key = \"{theirs}\"\nendpoint = \"192.0.2.2:51820\"\n\
             address = \"10.66.0.2\"\n{peer}[policy]\nallow = [\"all\"]\n[control]\nsocket = \"s\"\n"
        );
        fs::write(&file, text).map_err(|e| e.to_string())?;
        let mut command = net::inside("gwa", antedate());
        command.args(["gateway", "run"]).arg(&file).arg("--keylog").arg(dir.join("keys.log"));
        let mut process = command.background(&dir.join("gateway.log"))?;
        let ready = until("the gateway's answer", 10.0, || match process.alive() {
            Err(e) => Some(Err(e)),
            Ok(()) => socket.exists().then_some(Ok(())),
        });
        ready.and_then(|ready| ready)?;
        Ok(Gateway { process, socket })
    }

    pub(super) fn command(&self, verb: &str) -> Result<(), String> {
        Command::new(antedate()).args(["gateway", verb, "--socket"]).arg(&self.socket).read(10).map(drop)
    }

    /// The status of the far end.
    fn peer(&self) -> Result<Value, String> {
        Ok(self.status()?["overlay"]["peers"][0].take())
    }

    pub(super) fn status(&self) -> Result<Value, String> {
        let mut command = Command::new(antedate());
        let text = command.args(["gateway", "status", "--json", "--socket"]).arg(&self.socket).read(10)?;
        serde_json::from_str(&text).map_err(|e| format!("gateway status: {e}\n{text}"))
    }
}

/// Runs PROFINET with this update time (the paper's is 4 ms), found by DCP.
pub(super) fn stations(dir: &Path, cycle_us: u32) -> Result<(), String> {
    let station = |space, options: Value| {
        let mut command = net::inside(space, antedate());
        command.arg("lab-station").arg(options.to_string());
        command
    };
    let device = json!({ "role": "device", "cycle_us": cycle_us, "seconds": 7.0 });
    let device = station("dev", device).background(&dir.join("device.log"))?;
    let plc = station("plc", json!({ "role": "plc", "cycle_us": cycle_us, "seconds": 5.0 })).read(30)?;
    for said in [plc, device.finish(20)?] {
        station_report(&said, cycle_us, 5.0)?;
    }
    Ok(())
}

/// Checks that the key log opens all transport data on the wire, and that PROFINET and DCP occur in
/// it.
fn dissect(file: &Path, keys: &Path) -> Result<String, String> {
    let mut tshark = program("tshark");
    tshark.args(["-n", "-o", &format!("wg.keylog_file:{}", keys.display())]);
    tshark.args(["-T", "fields", "-E", "separator=|", "-e", "wg.type", "-e", "frame.protocols", "-r"]);
    let text = tshark.arg(file).read(120)?;
    let mut all = 0;
    // The first matching name counts: DCP is inside PROFINET's real-time frames.
    let mut found =
        [("DCP", ":pn_dcp", 0), ("PROFINET", ":pn_rt", 0), ("ICMP", ":icmp", 0), ("fragments", "", 0)];
    for line in text.lines() {
        let Some(("4", protocols)) = line.split_once('|') else { continue };
        all += 1;
        let Some((_, inside)) = protocols.split_once(":wg:ip") else { continue };
        // The first fragment of a packet contains nothing that could be dissected.
        let kind = found.iter_mut().find(|(_, name, _)| name.is_empty() || inside.contains(name));
        if let Some((.., count)) = kind {
            *count += 1;
        }
    }
    let read: u64 = found.iter().map(|(.., count)| count).sum();
    // Keepalives and our announcement of capabilities are no IP packets.
    if read + 20 < all || all < 1000 {
        return Err(format!("{read} of {all} transport messages were read with the key log: {found:?}"));
    }
    if let Some((name, ..)) = found.iter().find(|(.., count)| *count == 0) {
        return Err(format!("tshark found no {name} in the tunnel: {found:?}"));
    }
    let kinds: Vec<String> = found.iter().map(|(name, _, count)| format!("{count} {name}")).collect();
    Ok(format!("tshark read {read} of {all} messages: {}", kinds.join(", ")))
}
