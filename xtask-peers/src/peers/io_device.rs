//! A bare IO device that protects itself (`firmware/io-device`): smoltcp over MACsec with key
//! agreement, on an emulated Cortex-M3 with a network card, without an operating system.
//!
//! Its card is a TAP device on a bridge with the uplink of our gateway. A host behind the gateway
//! pings it while keys change, sends datagrams and TCP through it, and reads its counters. Then
//! the gateway stops, and Debian's wpa_supplicant over the Linux kernel's MACsec in a guest on the
//! same bridge agrees with the device on keys, as key server.

use super::wpa_supplicant::{self, CAK, CKN, PEER, PEER_MAC};
use crate::daemon::{Gateway, Options};
use crate::guest::{self, Guest};
use crate::net::{self, End};
use crate::place;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use xtask::mote::IO_DEVICE;
use xtask::report::{StepResult, Stop};
use xtask::shell::{Background, Run, cache, until};

const HOST: &str = "10.9.0.2";
const DEVICE: &str = "10.9.0.9";
/// Pings of a flood, twelve seconds, so that the shortest timer of keys expires once.
const PINGS: u32 = 300;
/// Series of pings of the guest at most.
const TRIES: usize = 3;
/// Octets by TCP, there and back.
const OCTETS: usize = 100_000;

pub(crate) fn prepare() -> Result<(), Stop> {
    super::kernel_macsec::prepare()?;
    IO_DEVICE.run()?;
    Ok(())
}

fn image() -> Result<PathBuf, String> {
    Ok(cache("firmware")?.join(IO_DEVICE.triple).join(IO_DEVICE.profile).join(IO_DEVICE.programs[0]))
}

pub(crate) fn run() -> StepResult {
    for space in ["wire", "gwa", "host"] {
        net::namespace(space)?;
    }
    let end = |space, name, octet| End { space, name, octet };
    net::link(end("host", "eth0", 0x01), end("gwa", "field", 0xa1), net::FIELD_MTU)?;
    net::link(end("gwa", "uplink", 0xa2), end("wire", "pa", 0xc1), net::WIRE_MTU)?;
    for tap in ["guest", "device"] {
        net::ip(&["-n", "wire", "tuntap", "add", "dev", tap, "mode", "tap"])?;
        net::ip(&["-n", "wire", "link", "set", tap, "mtu", &net::WIRE_MTU.to_string(), "up"])?;
    }
    net::bridge("wire", &["pa", "guest", "device"])?;
    // Bit 3 forwards MKA's group address, as a cable does.
    net::ip(&["-n", "wire", "link", "set", "br0", "type", "bridge", "group_fwd_mask", "0x8"])?;
    net::address("host", "eth0", &format!("{HOST}/24"), None)?;
    let mut device = boot(&image()?)?;
    let outcome = behind_a_gateway().and_then(|first| Ok((first, beside_linux()?)));
    let (first, second) = outcome.map_err(|e| format!("{e}\nthe device said:\n{}", device.output()))?;
    device.alive().map_err(|e| format!("{e}\n{}", device.output()))?;
    device.stop(5)?;
    Ok(format!("{first}; {second}"))
}

/// Starts the board.
fn boot(image: &Path) -> Result<Background, String> {
    let mut qemu = net::inside("wire", "qemu-system-arm");
    qemu.args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "none"]);
    qemu.args(["-chardev", "stdio,id=console"]);
    qemu.args(["-semihosting-config", "enable=on,target=native,chardev=console"]);
    qemu.args(["-nic", "tap,ifname=device,script=no,downscript=no,model=lan9118"]);
    qemu.arg("-kernel").arg(image).background(&place::run()?.join("io-device.log"))
}

/// The device and our gateway.
fn behind_a_gateway() -> Result<String, String> {
    let options = Options {
        cak: Some(format!("mka_cak={}\nmka_ckn={CKN}\n", CAK[0])),
        macsec: "mka_priority = 16\nmka_rekey_seconds = 10".into(),
        allow: vec!["arp", "ipv4"],
        // A busy machine may stop the gateway for longer than usual.
        run: "max_age_ms = 10000".into(),
        ..Options::default()
    };
    let gateway = Gateway::start("gwa", &options)?;
    until("a ping of the device", 30.0, || ping("1", "0.2").is_ok().then_some(()))?;
    let before = keys(&gateway)?;
    let lost = wpa_supplicant::losses(&flood()?)?;
    let changed = keys(&gateway)? - before;
    if lost > 0 || changed == 0 {
        let status = gateway.status()?;
        return Err(format!(
            "{lost} of {PINGS} pings are lost over {changed} changes of the key: {} {} {:?}",
            status["out"],
            status["in"],
            counters("host")?
        ));
    }
    let echoed = net::inside("host", "python3").args(["-c", ECHO, DEVICE, &OCTETS.to_string()]).read(60)?;
    let counters = counters("host")?;
    for name in ["KeysRefused", "InPktsNotValid", "InPktsLate", "InPktsBadTag", "CardRefused"] {
        if counters.get(name).is_some_and(|count| *count > 0) {
            return Err(format!("the device's {name}: {counters:?}"));
        }
    }
    let of = |name: &str| counters.get(name).copied().unwrap_or(0);
    let (sent, prepared) = (of("OutPktsEncrypted"), of("OutPrepared"));
    // How many of the echo's burst are prepared depends on the machine's load: not judged.
    if sent < u64::from(PINGS) || prepared < u64::from(PINGS) / 2 {
        return Err(format!("{prepared} of {sent} frames were prepared: {counters:?}"));
    }
    for name in ["InPktsNotValid", "InPktsLate", "InPktsBadTag"] {
        if gateway.counter(name)? != 0 {
            return Err(format!("the gateway's {name} is not 0"));
        }
    }
    gateway.stop()?;
    Ok(format!(
        "through a gateway {PINGS} pings over {changed} changes of the key without loss, {}, {prepared} of {sent} frames \
         prepared, {} octets of heap",
        echoed.trim(),
        of("Heap")
    ))
}

/// The device and Linux alone.
fn beside_linux() -> Result<String, String> {
    let image = guest::build()?;
    let mut guest =
        Guest::boot(&image, net::inside("wire", "qemu-system-x86_64"), "guest", &net::mac(PEER_MAC))?;
    guest.run(&format!("ip link set eth0 mtu {} up", net::WIRE_MTU))?;
    wpa_supplicant::start(&mut guest, CAK[0], CKN, 16)?;
    let words = format!("ping -q -n -c 1 -W 1 {DEVICE}");
    until("a ping of the guest", 30.0, || {
        guest.attempt(&words).is_ok_and(|(status, _)| status == 0).then_some(())
    })?;
    // The second series has frames of full length.
    series(&mut guest, "-c 100")?;
    series(&mut guest, "-c 20 -s 1472 -M do")?;
    wpa_supplicant::stop(&mut guest)?;
    Ok("120 pings from the kernel's MACsec with keys of wpa_supplicant, none lost".into())
}

/// A series of pings of the guest, none of which may be lost. On a busy machine wpa_supplicant may miss
/// its own timer and make its interface anew, without an address: then the series begins again.
fn series(guest: &mut Guest, words: &str) -> Result<(), String> {
    let ready =
        format!("ip link set macsec0 mtu {} up; ip addr replace {PEER}/24 dev macsec0", net::FIELD_MTU);
    let mut said = String::new();
    for _ in 0..TRIES {
        let (status, output) = guest.attempt(&format!("ping -q -n -i 0.05 -W 2 {words} {DEVICE}"))?;
        if status == 0 && wpa_supplicant::losses(&output)? == 0 {
            return Ok(());
        }
        said = output;
        guest.attempt(&ready)?;
        std::thread::sleep(std::time::Duration::from_secs(3));
    }
    Err(format!("pings of {PEER} are lost: {said}"))
}

/// Datagrams and TCP, echoed.
const ECHO: &str = "
import os, socket, sys, threading
host, octets = sys.argv[1], os.urandom(int(sys.argv[2]))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.settimeout(5)
for size in range(0, 1473, 32):
    udp.sendto(octets[:size], (host, 7))
    assert udp.recv(2048) == octets[:size], size
tcp = socket.create_connection((host, 7), 10)
threading.Thread(target=tcp.sendall, args=(octets,)).start()
came = b''
while len(came) < len(octets):
    piece = tcp.recv(65536)
    assert piece, len(came)
    came += piece
assert came == octets
print('datagrams up to 1472 octets and', len(came), 'octets by TCP echoed')
";

/// The device's counters, by name.
fn counters(space: &str) -> Result<BTreeMap<String, u64>, String> {
    const ASK: &str = "
import socket, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.settimeout(5)
udp.sendto(b'', (sys.argv[1], 8))
print(udp.recv(2048).decode())
";
    let said = net::inside(space, "python3").args(["-c", ASK, DEVICE]).read(20)?;
    let line = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_string(), count.parse().ok()?))
    };
    Ok(said.lines().filter_map(line).collect())
}

fn keys(gateway: &Gateway) -> Result<u64, String> {
    let status = gateway.status()?;
    let keys = status["macsec"]["agreement"]["fresh_keys"].as_u64();
    keys.ok_or_else(|| format!("no key agreement: {status:#}"))
}

fn ping(count: &str, interval: &str) -> Result<String, String> {
    let mut ping = net::inside("host", "ping");
    ping.args(["-q", "-n", "-W", "1", "-i", interval, "-c", count, DEVICE]).read(15)
}

fn flood() -> Result<String, String> {
    let mut ping = net::inside("host", "ping");
    ping.args(["-q", "-n", "-W", "2", "-i", "0.04", "-c", &PINGS.to_string(), DEVICE]).read(60)
}
