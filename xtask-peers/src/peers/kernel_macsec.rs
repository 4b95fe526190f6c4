//! The Linux kernel's MACsec, in a QEMU guest, is the far end of a real gateway.
//!
//! The guest's network card is a TAP device, which is the gateway's uplink. A host behind the
//! gateway and the guest ping each other with small and full frames for each cipher suite,
//! encrypted and integrity only, and with each identification of the secure channel. The counters
//! of both sides, by the standard's names (IEEE 802.1AE-2018, 10.7.9 and 10.7.18), must show no
//! invalid frame. With a wrong key no frame may pass, and both sides must count the reason. A gateway
//! with workers sends in a channel of each, and the kernel accepts all.

use crate::daemon::{Gateway, INVALID, Keys, Options, SALT, SUITES};
use crate::guest::{self, Guest};
use crate::net::{self, End};
use std::fs::OpenOptions;
use std::thread::sleep;
use std::time::Duration;
use xtask::report::{StepResult, Stop};
use xtask::shell::Run;

const HOST: &str = "10.9.0.2";
const PEER: &str = "10.9.0.1";
const PEER_MAC: u8 = 0x0f;
/// Workers of a gateway, each with a channel, and flows over UDP, which spread over them.
const WORKERS: usize = 2;
const FLOWS: u16 = 40;
/// Further looks at the counters of both ends, and the time between them.
const TRIES: usize = 3;
const AGAIN: Duration = Duration::from_millis(500);
/// The host's address, the frames' source; the SCI is the gateway's.
const HOST_MAC: u8 = 0x01;
/// ICMP payloads: the smallest, around the short-length bound, usual, and a full frame of 1500
/// octets.
const SIZES: [u32; 6] = [0, 4, 6, 56, 576, 1472];

/// Identification of the secure channel by the SecTAG in each direction.
#[derive(Clone, Copy, PartialEq)]
enum Naming {
    /// The SCI in every frame.
    Explicit,
    /// The guest is an end station: its SCI is its address and port 1, and is absent from the
    /// frame.
    EndStation,
    /// The gateway is an end station too: it acts for the one host behind it, and its SCI is that
    /// host's address and port 1.
    BothEndStations,
}

/// VLAN tags in front of the SecTAG: the gateway's setting, and the guest's interface.
const UNTAGGED: (&str, &str) = ("", "eth0");
const TAGGED: [(&str, &str); 2] =
    [("vlan = \"outside\"", "eth0"), ("vlan = \"outside\"\nvlan_id = 100", "eth0.100")];

pub(crate) fn prepare() -> Result<(), Stop> {
    let tun = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    tun.map_err(|e| {
        Stop::Skipped(format!("/dev/net/tun: {e}; the guest's network card is a TAP device: run as root"))
    })?;
    guest::build()?;
    Ok(())
}

/// Boots the guest once and tests all combinations.
pub(crate) fn run() -> StepResult {
    let image = guest::build()?;
    net::namespace("gw")?;
    net::namespace("host")?;
    let end = |space, name, octet| End { space, name, octet };
    net::link(end("host", "eth0", HOST_MAC), end("gw", "field", 0xa1), net::FIELD_MTU)?;
    net::ip(&["-n", "gw", "tuntap", "add", "dev", "uplink", "mode", "tap"])?;
    net::ip(&[
        "-n",
        "gw",
        "link",
        "set",
        "uplink",
        "address",
        &net::mac(0xa2),
        "mtu",
        &net::WIRE_MTU.to_string(),
        "up",
    ])?;
    net::address("host", "eth0", &format!("{HOST}/24"), None)?;
    let mut guest =
        Guest::boot(&image, net::inside("gw", "qemu-system-x86_64"), "uplink", &net::mac(PEER_MAC))?;
    guest.run(&format!("ip link set eth0 mtu {} up", net::WIRE_MTU))?;
    let mut cases = 0;
    for suite in SUITES {
        for encrypt in [true, false] {
            for naming in [Naming::Explicit, Naming::EndStation, Naming::BothEndStations] {
                let case = Case { keys: keys(suite, naming), encrypt, naming, tags: UNTAGGED };
                case.run(&mut guest).map_err(|e| format!("{}: {e}", case.name()))?;
                println!("   {}: pings of {SIZES:?} octets both ways, counters clean", case.name());
                cases += 1;
            }
        }
        foreign_key(&mut guest, suite)?;
        println!("   {}: a foreign key gets nothing through, and both sides count InPktsNotValid", suite.0);
    }
    // The kernel strips the tags, as a switch does at the port of a far end without VLANs.
    guest.run("ip link add link eth0 name eth0.100 type vlan id 100")?;
    guest.run(&format!("ip link set eth0.100 mtu {} up", net::WIRE_MTU - 4))?;
    for tags in TAGGED {
        let naming = Naming::Explicit;
        let case = Case { keys: keys(SUITES[0], naming), encrypt: true, naming, tags };
        case.run(&mut guest).map_err(|e| format!("a tag outside to {}: {e}", tags.1))?;
        println!(
            "   a VLAN tag in front of the SecTAG, to the kernel's {}: pings both ways, counters clean",
            tags.1
        );
    }
    let spread = workers(&mut guest).map_err(|e| format!("a gateway with workers: {e}"))?;
    println!("   a gateway with {WORKERS} workers: {spread:?} frames in the kernel's receive channels");
    Ok(format!(
        "{cases} combinations of suite, encryption and naming both ways, tags outside, and {WORKERS} channels; foreign keys refused by both"
    ))
}

fn keys(suite: (&'static str, usize), naming: Naming) -> Keys {
    let gateway = if naming == Naming::BothEndStations { HOST_MAC } else { 0xa2 };
    Keys::new(suite, 0x80, [("gateway", net::mac(gateway)), ("kernel", net::mac(PEER_MAC))])
}

struct Case {
    keys: Keys,
    encrypt: bool,
    naming: Naming,
    tags: (&'static str, &'static str),
}

impl Case {
    fn name(&self) -> String {
        let content = if self.encrypt { "encrypted" } else { "integrity only" };
        let naming = match self.naming {
            Naming::Explicit => "explicit SCI",
            Naming::EndStation => "end station",
            Naming::BothEndStations => "end stations on both sides",
        };
        format!("{} {content} {naming}", self.keys.suite)
    }

    fn run(&self, guest: &mut Guest) -> Result<(), String> {
        self.configure(guest, &self.keys.key)?;
        let gateway = self.start()?;
        connect(guest)?;
        let outcome = SIZES.iter().try_for_each(|size| {
            ping_from_host(*size)?;
            guest.run(&format!("ping -q -n -c 3 -i 0.02 -W 2 -s {size} {HOST}")).map(drop)
        });
        let mut shown = guest.run("ip -s macsec show macsec0")?;
        let lost = |e: String| format!("{e}\n{shown}\n{:#}", gateway.status().unwrap_or_default());
        outcome.map_err(lost)?;
        let mut checked = self.check(&shown, &gateway);
        for _ in 0..TRIES {
            if checked.is_ok() {
                break;
            }
            // ARP repeats itself; a frame between the looks at both counters is counted once.
            sleep(AGAIN);
            shown = guest.run("ip -s macsec show macsec0")?;
            checked = self.check(&shown, &gateway);
        }
        checked.map_err(|e| format!("{e}\n{shown}\n{:#}", gateway.status().unwrap_or_default()))?;
        guest.run("ip link del macsec0")?;
        gateway.stop()
    }

    fn start(&self) -> Result<Gateway, String> {
        let mut macsec = format!("confidentiality = {}\n", self.encrypt);
        if self.naming == Naming::BothEndStations {
            macsec.push_str(&format!("sci = \"{}\"\nend_station = true\n", self.keys.sci(0)));
        }
        let options = Options {
            keys: Some(self.keys.clone()),
            uplink: self.tags.0,
            macsec,
            allow: vec!["arp", "ipv4"],
            run: if self.keys.channels > 1 { format!("workers = {WORKERS}") } else { String::new() },
            ..Options::default()
        };
        Gateway::start("gw", &options)
    }

    /// Configures the kernel's end with the same key for both directions: the SCI is in the nonce.
    /// It sends nothing yet.
    fn configure(&self, guest: &mut Guest, key: &str) -> Result<(), String> {
        let encrypt = if self.encrypt { "on" } else { "off" };
        let naming = match self.naming {
            Naming::Explicit => "send_sci on",
            Naming::EndStation | Naming::BothEndStations => "send_sci off end_station on",
        };
        let suite = self.keys.suite;
        let (gateway, interface) = (self.keys.sci(0), self.tags.1);
        let numbers = |ssci: u32| {
            if self.keys.is_xpn() { format!("xpn 1 salt {SALT} ssci {ssci}") } else { "pn 1".to_string() }
        };
        for command in [
            format!(
                "ip link add link {interface} macsec0 type macsec port 1 cipher {suite} encrypt {encrypt} {naming} protect on replay on window 0 validate strict"
            ),
            format!("ip macsec add macsec0 tx sa 0 {} on key 01 {key}", numbers(2)),
            format!("ip macsec add macsec0 rx sci {gateway}"),
            format!("ip macsec add macsec0 rx sci {gateway} sa 0 {} on key 02 {key}", numbers(1)),
        ] {
            guest.run(&command)?;
        }
        Ok(())
    }

    /// Checks that no side counts invalid frames, and that each accepted the frames that the other
    /// protected.
    fn check(&self, shown: &str, gateway: &Gateway) -> Result<(), String> {
        for name in INVALID {
            if let Some(count @ 1..) = kernel_counter(shown, name) {
                return Err(format!("the kernel's {name} is {count}"));
            }
            match gateway.counter(name)? {
                0 => {}
                count => return Err(format!("the gateway's {name} is {count}")),
            }
        }
        let sent = if self.encrypt { "OutPktsEncrypted" } else { "OutPktsProtected" };
        let kernel = |name: &str| kernel_counter(shown, name).ok_or(format!("the kernel shows no {name}"));
        for (what, out, ok) in [
            ("gateway to kernel", gateway.counter(sent)?, kernel("InPktsOK")?),
            ("kernel to gateway", kernel(sent)?, gateway.counter("InPktsOK")?),
        ] {
            // Six sizes, three echoes each way, a request and a reply each, and ARP.
            if out != ok || ok < 36 {
                return Err(format!("{what}: {out} {sent}, {ok} InPktsOK"));
            }
        }
        Ok(())
    }
}

/// Lets the kernel's end send.
fn connect(guest: &mut Guest) -> Result<(), String> {
    guest.run(&format!("ip link set macsec0 mtu {} up", net::FIELD_MTU))?;
    guest.run(&format!("ip addr add {PEER}/24 dev macsec0")).map(drop)
}

/// The kernel has a receive channel for each worker. Returns the frames that it accepted in each.
fn workers(guest: &mut Guest) -> Result<Vec<u64>, String> {
    let naming = Naming::Explicit;
    let keys = Keys { channels: WORKERS, ..keys(SUITES[0], naming) };
    let case = Case { keys, encrypt: true, naming, tags: UNTAGGED };
    case.configure(guest, &case.keys.key)?;
    for port in 2..=WORKERS {
        let sci = format!("{}{port:04x}", &case.keys.sci(0)[..12]);
        guest.run(&format!("ip macsec add macsec0 rx sci {sci}"))?;
        guest.run(&format!("ip macsec add macsec0 rx sci {sci} sa 0 pn 1 on key 02 {}", case.keys.key))?;
    }
    let gateway = case.start()?;
    connect(guest)?;
    ping_from_host(56)?;
    let send = format!("for port in $(seq 5000 {}); do echo x > /dev/udp/{PEER}/$port; done", 5000 + FLOWS);
    net::inside("host", "bash").args(["-c", &send]).read(15)?;
    let look = |guest: &mut Guest| -> Result<Vec<u64>, String> {
        let shown = guest.run("ip -s macsec show macsec0")?;
        let channels: Vec<&str> = shown.split("RXSC:").skip(1).collect();
        let count = |name: &str| channels.iter().map(|channel| kernel_counter(channel, name)).collect();
        for name in INVALID {
            let counts: Vec<Option<u64>> = count(name);
            if counts.iter().flatten().any(|count| *count > 0) || gateway.counter(name)? > 0 {
                return Err(format!("{name} is not 0\n{shown}\n{:#}", gateway.status()?));
            }
        }
        let accepted: Vec<u64> = count("InPktsOK").into_iter().flatten().collect();
        let sent = gateway.counter("OutPktsEncrypted")?;
        if accepted.len() != WORKERS || accepted.contains(&0) || accepted.iter().sum::<u64>() != sent {
            return Err(format!("{accepted:?} of {sent} frames were accepted\n{shown}"));
        }
        Ok(accepted)
    };
    let mut found = look(guest);
    for _ in 0..TRIES {
        if found.is_ok() {
            break;
        }
        sleep(AGAIN);
        found = look(guest);
    }
    guest.run("ip link del macsec0")?;
    gateway.stop()?;
    found
}

/// Gives the guest another key than the gateway.
fn foreign_key(guest: &mut Guest, suite: (&'static str, usize)) -> Result<(), String> {
    let naming = Naming::Explicit;
    let case = Case { keys: keys(suite, naming), encrypt: true, naming, tags: UNTAGGED };
    let foreign = Keys::new(suite, 0x33, case.keys.members.clone());
    let gateway = case.start()?;
    case.configure(guest, &foreign.key)?;
    connect(guest)?;
    // Both sides know the other's address, so that they send more than ARP.
    guest.run(&format!("ip neigh replace {HOST} lladdr {} dev macsec0 nud permanent", net::mac(HOST_MAC)))?;
    net::ip(&[
        "-n",
        "host",
        "neigh",
        "replace",
        PEER,
        "lladdr",
        &net::mac(PEER_MAC),
        "dev",
        "eth0",
        "nud",
        "permanent",
    ])?;
    let outcome = (|| {
        if ping_from_host(56).is_ok()
            || guest.attempt(&format!("ping -q -n -c 3 -i 0.02 -W 1 {HOST}"))?.0 == 0
        {
            return Err("a ping passed with a foreign key".to_string());
        }
        let shown = guest.run("ip -s macsec show macsec0")?;
        if kernel_counter(&shown, "InPktsNotValid").unwrap_or(0) < 3 {
            return Err(format!("the kernel counted no InPktsNotValid\n{shown}"));
        }
        if gateway.counter("InPktsNotValid")? < 3 {
            return Err(format!("the gateway counted no InPktsNotValid\n{:#}", gateway.status()?));
        }
        Ok(())
    })();
    net::ip(&["-n", "host", "neigh", "del", PEER, "dev", "eth0"])?;
    guest.run("ip link del macsec0")?;
    gateway.stop()?;
    outcome.map_err(|e| format!("{}, foreign key: {e}", suite.0))
}

fn ping_from_host(size: u32) -> Result<(), String> {
    let mut ping = net::inside("host", "ping");
    ping.args(["-q", "-n", "-c", "3", "-i", "0.02", "-W", "1", "-s", &size.to_string(), PEER])
        .read(15)
        .map(drop)
}

/// A counter in the output of `ip -s macsec show`: a line of names above a line of values. The
/// first match is the secure channel's, which includes its associations.
pub(crate) fn kernel_counter(shown: &str, name: &str) -> Option<u64> {
    let lines: Vec<&str> = shown.lines().collect();
    lines.windows(2).find_map(|pair| {
        let names = pair[0].trim_start().strip_prefix("stats:")?;
        let at = names.split_whitespace().position(|n| n == name)?;
        pair[1].split_whitespace().nth(at)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_the_secure_channel_are_read_by_their_column() {
        let shown = "\
    TXSC: 02000000000f0001 on SA 0
    stats: OutPktsProtected OutPktsEncrypted
                          1               22
    RXSC: 0200000000a20001, state on
    stats: InPktsOK InPktsInvalid InPktsNotValid
                 20             0              3
        0: PN 1, state on, key 02
        stats: InPktsOK InPktsNotValid
                     20              3";
        assert_eq!(kernel_counter(shown, "OutPktsEncrypted"), Some(22));
        assert_eq!(kernel_counter(shown, "InPktsLate"), None);
        assert_eq!(kernel_counter(shown, "InPktsNotValid"), Some(3));
    }
}
