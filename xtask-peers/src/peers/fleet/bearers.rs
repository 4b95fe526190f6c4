//! Groups of other bearers: an overlay of three sites and a DTLS group, with a gateway and a proxy at each,
//! and an MQTT group.

use super::cluster::fleet;
use super::{END, PATIENCE, REVOKED, attack, enrolled, groups};
use crate::net::{self, End};
use antedate_fleet::home::Home;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use xtask::shell::{Background, Run, antedate, program, tail, until};

/// The hub, and two spokes of which the second is lost.
const SITES: [&str; 3] = ["centre", "north", "south"];
/// The configuration of each.
const GATEWAY: &str = "# ${name}\n[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n[overlay]\n\
    private_key_file = \"wg.key\"\naddress = \"${tunnel}\"\nvni = 42\nrelay = ${relay}\n${peers}[policy]\n\
    allow = [\"arp\", \"ipv4\"]\n[run]\npoll = \"block\"\n[control]\nsocket = \"s\"\n";
/// Pings, one each 5 ms.
const PINGS: u32 = 1500;
/// The port of the echo server, that of the listener, and the first of the connectors.
const ECHO: u16 = 4790;

/// A site with its processes.
struct Site {
    name: &'static str,
    place: PathBuf,
    agent: Background,
    gateway: Background,
    proxy: Background,
}

/// Three sites on one network. Each has a machine behind its gateway.
fn network() -> Result<(), String> {
    net::namespace("wan")?;
    for (at, site) in SITES.iter().enumerate() {
        let (octet, machine) = (0x20 + 8 * at as u8, format!("m-{site}"));
        net::namespace(site)?;
        net::namespace(&machine)?;
        let end = |space, name, octet| End { space, name, octet };
        net::link(end(&machine, "eth0", octet), end(site, "field", octet + 1), net::FIELD_MTU)?;
        let port = format!("p{at}");
        net::link(end(site, "uplink", octet + 2), end("wan", &port, octet + 3), net::FIELD_MTU)?;
        net::address(&machine, "eth0", &format!("10.8.0.{}/24", at + 1), None)?;
        net::address(site, "uplink", &format!("192.0.2.{}/24", at + 1), None)?;
    }
    net::bridge("wan", &["p0", "p1", "p2"])
}

/// Datagrams through a connector and back, one each 5 ms.
struct Flow {
    stop: Arc<AtomicBool>,
    back: Arc<AtomicU64>,
    thread: JoinHandle<Result<(u64, u64), String>>,
}

impl Flow {
    fn start(port: u16) -> Self {
        let (stop, back) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ended, count) = (Arc::clone(&stop), Arc::clone(&back));
        let thread = thread::spawn(move || {
            let text = |error: std::io::Error| error.to_string();
            let socket = UdpSocket::bind("127.0.0.1:0").map_err(text)?;
            socket.connect(("127.0.0.1", port)).map_err(text)?;
            socket.set_nonblocking(true).map_err(text)?;
            let (mut sent, mut buffer, mut late) = (0_u64, [0; 64], 0);
            // Two seconds for the last answers.
            while late < 400 {
                if ended.load(Ordering::Acquire) {
                    late += 1;
                } else if socket.send(&sent.to_be_bytes()).is_ok() {
                    sent += 1;
                }
                while socket.recv(&mut buffer).is_ok() {
                    count.fetch_add(1, Ordering::AcqRel);
                }
                if late > 0 && count.load(Ordering::Acquire) >= sent {
                    break;
                }
                thread::sleep(Duration::from_millis(5));
            }
            Ok((sent, count.load(Ordering::Acquire)))
        });
        Self { stop, back, thread }
    }

    /// Datagrams that came back so far.
    fn back(&self) -> u64 {
        self.back.load(Ordering::Acquire)
    }

    /// How many were sent, and how many came back.
    fn end(self) -> Result<(u64, u64), String> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().map_err(|_| "the flow panicked".to_owned())?
    }
}

/// The devices' server, which answers each datagram with itself.
fn echo(stop: &Arc<AtomicBool>) -> Result<JoinHandle<()>, String> {
    let socket = UdpSocket::bind(("127.0.0.1", ECHO)).map_err(|e| e.to_string())?;
    socket.set_read_timeout(Some(Duration::from_millis(100))).map_err(|e| e.to_string())?;
    let stop = Arc::clone(stop);
    Ok(thread::spawn(move || {
        let mut buffer = [0; 64];
        while !stop.load(Ordering::Acquire) {
            if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(&buffer[..len], from);
            }
        }
    }))
}

impl Site {
    /// Starts gateway and proxy with the files of the first settings.
    fn start(name: &'static str, at: u16, place: PathBuf, agent: Background) -> Result<Self, String> {
        let files = place.join("files");
        let mut gateway = net::inside(name, antedate());
        gateway.args(["gateway", "run"]).arg(files.join("gateway.toml"));
        let mut gateway = gateway.background(&place.join("gateway.log"))?;
        until("the gateway's answer", PATIENCE, || match gateway.alive() {
            Err(e) => Some(Err(e)),
            Ok(()) => files.join("s").exists().then_some(Ok(())),
        })??;
        let mut proxy = program(antedate());
        let (verb, listen, to) =
            if at == 0 { ("listen", ECHO + 1, ECHO) } else { ("connect", ECHO + 1 + at, ECHO + 1) };
        proxy.args(["dtls", verb, "--agent", "--listen", &format!("127.0.0.1:{listen}")]);
        proxy.args(["--to", &format!("127.0.0.1:{to}"), "--psk"]).arg(files.join("dtls.psk"));
        let proxy = proxy.background(&place.join("dtls.log"))?;
        Ok(Self { name, place, agent, gateway, proxy })
    }

    fn file(&self, name: &str) -> Result<String, String> {
        fs::read_to_string(self.place.join("files").join(name)).map_err(|e| format!("{name}: {e}"))
    }

    fn stop(self) -> Result<(), String> {
        for process in [&self.gateway, &self.proxy, &self.agent] {
            let said = process.output();
            if said.contains("panicked") {
                return Err(format!("{}: {}", self.name, tail(&said, 5)));
            }
        }
        self.gateway.stop(END)?;
        self.proxy.stop(END)?;
        self.agent.stop(END)?;
        Ok(())
    }
}

fn ping(from: &str, to: &str) -> bool {
    let mut ping = net::inside(&format!("m-{from}"), "ping");
    ping.args(["-q", "-n", "-W", "1", "-c", "1", to]).read(5).is_ok()
}

/// Pings from the north to the centre, which go on while something else is done.
fn pings(dir: &Path) -> Result<Background, String> {
    let mut flood = net::inside("m-north", "ping");
    flood.args(["-q", "-n", "-i", "0.005", "-W", "2", "-c", &PINGS.to_string(), "10.8.0.1"]);
    flood.background(&dir.join("flood-overlay"))
}

fn lossless(pings: Background) -> Result<(), String> {
    let said = pings.finish(120)?;
    if said.contains(&format!("{PINGS} packets transmitted, {PINGS} received")) {
        return Ok(());
    }
    Err(format!("pings through the overlay were lost\n{}", tail(&said, 4)))
}

/// Passes end, and are renewed before.
fn passes(dir: &Path, place: &Path) -> Result<(), String> {
    let home = Home::open(&dir.join("fleet")).map_err(|fault| fault.to_string())?;
    if attack::end_of_a_pass(&home, place)? != (true, false) {
        return Err("NATS does not heed the end of a pass".into());
    }
    drop(home);
    let pass = || fs::read_to_string(place.join("member.json")).map_err(|e| e.to_string());
    let before = pass()?;
    if !fleet(dir, &["renew", "--within", "1"])?.contains("no pass ends") {
        return Err("a pass of 400 days is renewed in its last day only".into());
    }
    fleet(dir, &["renew", "--within", "401"])?;
    if pass()? == before || !attack::is_admitted(place)? {
        return Err("the device has no newer pass".into());
    }
    Ok(())
}

/// Brings the groups up, changes their keys under traffic, and takes a member out.
pub(super) fn run(dir: &Path, invitation: &Path, note: &mut dyn FnMut(String)) -> Result<(), String> {
    network()?;
    let template = dir.join("site/gateway.toml");
    fs::create_dir_all(dir.join("site"))
        .and_then(|()| fs::write(&template, GATEWAY))
        .map_err(|e| e.to_string())?;
    fleet(dir, &["set", "role", "site", &template.display().to_string()])?;
    let tokens = fleet(dir, &["token", "--role", "site", "--count", "3"])?;
    let mut agents = Vec::new();
    for (name, token) in SITES.iter().zip(tokens.lines()) {
        agents.push(enrolled(dir, name, invitation, token)?);
    }
    let values = [
        ["relay=true", "hub=yes", "endpoint=192.0.2.1:51820", "listener=yes"].as_slice(),
        ["relay=false"].as_slice(),
        ["relay=false"].as_slice(),
    ];
    for (name, values) in SITES.iter().zip(values) {
        fleet(dir, &[&["set", "device", name, "overlay=wan", "dtls=sensors"], values].concat())?;
    }
    until("the agents' first reports", PATIENCE, || (super::silent(dir).ok()? == 0).then_some(()))?;
    let broker = groups::start(dir)?;
    let stop = Arc::new(AtomicBool::new(false));
    let server = echo(&stop)?;
    let mut sites = Vec::new();
    for (at, (place, agent)) in agents.into_iter().enumerate() {
        sites.push(Site::start(SITES[at], at as u16, place, agent)?);
    }
    for from in ["north", "south"] {
        until("a ping through the overlay", PATIENCE, || ping(from, "10.8.0.1").then_some(()))?;
    }
    note("an overlay of a hub and two spokes comes up from one template".to_owned());

    passes(dir, &sites[1].place)?;
    note("NATS ends a pass at its time, and devices take newer ones".to_owned());

    // Other keys under traffic.
    let before = [sites[0].file("dtls.psk")?, sites[1].file("dtls.psk")?];
    let keys = || -> Result<Vec<String>, String> {
        let files = fs::read_dir(sites[1].place.join("files")).map_err(|e| e.to_string())?;
        let files = files.flatten().filter(|file| file.file_name().to_string_lossy().starts_with("psk-"));
        files.map(|file| fs::read_to_string(file.path()).map_err(|e| e.to_string())).collect()
    };
    let first = keys()?;
    let (traffic, flow) = (pings(dir)?, Flow::start(ECHO + 2));
    until("datagrams through DTLS", PATIENCE, || (flow.back() > 50).then_some(()))?;
    fleet(dir, &["rotate", "--overlay", "wan"])?;
    let second = keys()?;
    if first.len() != 1 || first == second {
        return Err("the preshared key of the overlay has not changed".into());
    }
    fleet(dir, &["rotate", "--dtls", "sensors"])?;
    let after = [sites[0].file("dtls.psk")?, sites[1].file("dtls.psk")?];
    if after[1] == before[1] || !after[0].contains(&after[1]) || after[0].contains(&before[1]) {
        return Err("the DTLS keys have not changed on both sides".into());
    }
    lossless(traffic)?;
    let (sent, back) = flow.end()?;
    if back != sent {
        return Err(format!("{} of {sent} datagrams through DTLS were lost", sent - back));
    }
    note(format!(
        "other keys of WireGuard and DTLS under traffic: 0 of {PINGS} pings and 0 of {sent} datagrams lost"
    ));

    let numbers = groups::Flow::start([&sites[0].place, &sites[1].place, &sites[2].place])?;
    numbers.rotate(dir, note)?;

    // A stolen site that obeys nobody: its agent is held, its gateway and its proxy go on.
    let south = Flow::start(ECHO + 3);
    until("datagrams of the south", PATIENCE, || (south.back() > 20).then_some(()))?;
    let held = |signal: &str| program("kill").args([signal, &sites[2].agent.pid().to_string()]).read(5);
    held("-STOP")?;
    let begin = Instant::now();
    fleet(dir, &["revoke", "south"])?;
    let told = begin.elapsed().as_secs_f64();
    until("the end of the south's overlay", PATIENCE, || (!ping("south", "10.8.0.1")).then_some(()))?;
    let mut last = (south.back(), Instant::now());
    until("the end of the south's datagrams", PATIENCE, || {
        let now = south.back();
        if now != last.0 {
            last = (now, Instant::now());
        }
        (last.1.elapsed() > Duration::from_secs(1)).then_some(())
    })?;
    let took = last.1.duration_since(begin).as_secs_f64().max(told);
    let bound = super::goal(REVOKED, 20);
    if took > bound {
        return Err(format!("the revocation took {took:.1} s (goal {REVOKED}, bound here {bound})"));
    }
    until("the north's overlay after the south's revocation", PATIENCE, || {
        ping("north", "10.8.0.1").then_some(())
    })?;
    attack::not_admitted(&sites[2].place)?;
    south.end()?;
    note(format!("a stolen site that obeys nobody is out of overlay, DTLS and NATS in {took:.1} s"));
    numbers.lost(dir, note)?;
    broker.stop(END)?;
    held("-CONT")?;
    stop.store(true, Ordering::Release);
    server.join().map_err(|_| "the echo server panicked".to_owned())?;
    for site in sites {
        site.stop()?;
    }
    Ok(())
}
