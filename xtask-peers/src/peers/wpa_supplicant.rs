//! Debian's wpa_supplicant, over the Linux kernel's MACsec in a QEMU guest, agrees on keys with our
//! gateways (IEEE 802.1X-2020 clause 9), as key server and as client, with CAKs of 128 and 256
//! bits.
//!
//! The guest and two gateways are on one bridge. A host behind the first gateway floods the guest
//! with pings while keys change. A gateway as key server changes them by its timer, and no ping may
//! be lost; wpa_supplicant changes them when the second gateway joins. At the end all three are
//! members and reach each other. With the longer keys the gateways have two workers, of which one
//! sends, as wpa_supplicant takes one channel of a member. Wireshark's dissector reads all MKPDUs
//! without an expert warning.
//! [`change`] has it as one end of a change of the CAK, [`eap`] with one of EAP-TLS.

mod change;
mod eap;

use crate::daemon::{Gateway, Options};
use crate::guest::{self, Guest};
use crate::net::{self, End};
use crate::place;
use serde_json::Value;
use std::path::Path;
use xtask::report::{StepResult, Stop};
use xtask::shell::{Run, program, until};

const HOST: &str = "10.9.0.2";
const OTHER: &str = "10.9.0.3";
pub(super) const PEER: &str = "10.9.0.1";
pub(super) const PEER_MAC: u8 = 0x0f;
/// Sixteen octets, and sixteen more for the longer key.
pub(super) const CAK: [&str; 2] = ["000102030405060708090a0b0c0d0e0f", "101112131415161718191a1b1c1d1e1f"];
pub(super) const CKN: &str = "6162636465666768696a6b6c6d6e6f707172737475767778797a303132333435";
/// Pings of the flood: some twelve seconds, so that the shortest timer expires once.
const PINGS: u32 = 2400;

pub(crate) fn prepare() -> Result<(), Stop> {
    super::kernel_macsec::prepare()
}

/// Boots the guest once and tests both roles with both key lengths.
pub(crate) fn run() -> StepResult {
    let image = guest::build()?;
    for space in ["wire", "gwa", "host", "gwb", "other"] {
        net::namespace(space)?;
    }
    let end = |space, name, octet| End { space, name, octet };
    net::link(end("host", "eth0", 0x01), end("gwa", "field", 0xa1), net::FIELD_MTU)?;
    net::link(end("other", "eth0", 0x02), end("gwb", "field", 0xb1), net::FIELD_MTU)?;
    net::link(end("gwa", "uplink", 0xa2), end("wire", "pa", 0xc1), net::WIRE_MTU)?;
    net::link(end("gwb", "uplink", 0xb2), end("wire", "pb", 0xc2), net::WIRE_MTU)?;
    net::ip(&["-n", "wire", "tuntap", "add", "dev", "guest", "mode", "tap"])?;
    net::ip(&["-n", "wire", "link", "set", "guest", "mtu", &net::WIRE_MTU.to_string(), "up"])?;
    net::bridge("wire", &["pa", "pb", "guest"])?;
    // Bit 3 forwards MKA's group address, which is fixed in wpa_supplicant.
    net::ip(&["-n", "wire", "link", "set", "br0", "type", "bridge", "group_fwd_mask", "0x8"])?;
    net::address("host", "eth0", &format!("{HOST}/24"), None)?;
    net::address("other", "eth0", &format!("{OTHER}/24"), None)?;
    let mut guest =
        Guest::boot(&image, net::inside("wire", "qemu-system-x86_64"), "guest", &net::mac(PEER_MAC))?;
    guest.run(&format!("ip link set eth0 mtu {} up", net::WIRE_MTU))?;
    let mut notes = Vec::new();
    for bits in [128, 256] {
        for ours in [true, false] {
            let case = Case { bits, ours };
            let note = case.run(&mut guest).map_err(|e| format!("{}: {e}", case.name()))?;
            println!("   {}: {note}", case.name());
            notes.push(note);
        }
    }
    for ours in [true, false] {
        let note = change::run(&mut guest, ours).map_err(|e| format!("a change of the CAK: {e}"))?;
        println!("   {note}");
        notes.push(note);
    }
    let note = eap::run(&mut guest).map_err(|e| format!("a CAK of EAP-TLS: {e}"))?;
    println!("   {note}");
    notes.push(note);
    Ok(format!("key lengths, key servers, changes of the CAK: {}", notes.join("; ")))
}

struct Case {
    bits: usize,
    /// The key server is one of our gateways.
    ours: bool,
}

impl Case {
    fn name(&self) -> String {
        let server = if self.ours { "a gateway" } else { "wpa_supplicant" };
        format!("{}-bit CAK, {server} is the key server", self.bits)
    }

    /// Workers of each gateway.
    fn workers(&self) -> usize {
        if self.bits == 128 { 1 } else { 2 }
    }

    fn cak(&self) -> String {
        if self.bits == 128 { CAK[0].to_string() } else { CAK.concat() }
    }

    fn start(&self, space: &str, priority: u8) -> Result<Gateway, String> {
        let options = Options {
            cak: Some(format!("mka_cak={}\nmka_ckn={CKN}\n", self.cak())),
            macsec: format!("mka_priority = {priority}\nmka_rekey_seconds = 10"),
            allow: vec!["arp", "ipv4"],
            run: if self.workers() > 1 { format!("workers = {}", self.workers()) } else { String::new() },
            ..Options::default()
        };
        Gateway::start(space, &options)
    }

    fn run(&self, guest: &mut Guest) -> Result<String, String> {
        let capture_file = place::run()?.join(format!("mka-{}-{}.pcap", self.bits, self.ours));
        let mut dumpcap = net::inside("wire", "dumpcap");
        dumpcap.args(["-q", "-i", "br0", "-p", "-f", "ether proto 0x888e", "-w"]).arg(&capture_file);
        let mut capture = dumpcap.background(&place::run()?.join("dumpcap-mka.log"))?;
        until("dumpcap", 10.0, || match capture.alive() {
            Err(e) => Some(Err(e)),
            Ok(()) => capture.output().contains("File: ").then_some(Ok(())),
        })??;
        let gateway = self.start("gwa", if self.ours { 16 } else { 64 })?;
        let outcome = self.agree(guest, &gateway);
        let note = outcome.map_err(|e| context(e, guest, &gateway))?;
        stop(guest)?;
        gateway.stop()?;
        capture.stop(5)?;
        Ok(format!("{note}, {}", dissect(&capture_file)?))
    }

    fn agree(&self, guest: &mut Guest, gateway: &Gateway) -> Result<String, String> {
        start(guest, &self.cak(), CKN, if self.ours { 64 } else { 16 })?;
        until("a ping", 30.0, || ping("host", 1, "0.2").is_ok().then_some(()))?;
        // Earlier packets waited for addresses; from now on none may be lost.
        let first = key(&gateway.status()?)?;
        let log = place::run()?.join("flood.log");
        let mut flood = net::inside("host", "ping");
        flood.args(["-q", "-n", "-i", "0.005", "-W", "2", "-c", &PINGS.to_string(), PEER]);
        let flood = flood.background(&log)?;
        // A gateway changes keys by its timer, wpa_supplicant when a member joins. A third member
        // makes wpa_supplicant choose a new member identifier, which interrupts it for a moment;
        // the test allows for these losses.
        let (second, lost) = if self.ours {
            let lost = losses(&flood.finish(60)?)?;
            if key(&gateway.status()?)? == first || lost > 0 {
                return Err(format!(
                    "{lost} of {PINGS} pings were lost, or the timer did not change the key"
                ));
            }
            (self.start("gwb", 128)?, lost)
        } else {
            std::thread::sleep(std::time::Duration::from_secs(2));
            let second = self.start("gwb", 128)?;
            let lost = losses(&flood.finish(60)?)?;
            if lost > PINGS / 10 {
                return Err(format!("{lost} of {PINGS} pings were lost while a member came"));
            }
            (second, lost)
        };
        let joined = until("the second gateway's key", 20.0, || {
            let key = key(&second.status().ok()?).ok()?;
            (key != first).then_some(key)
        })?;
        until("a ping from the first host", 10.0, || ping("host", 3, "0.05").is_ok().then_some(()))?;
        // wpa_supplicant has a new member identifier, and may consider the second gateway live only
        // after the distribution of the key. It then receives from that gateway with the next key,
        // which the timer brings.
        until("a ping from the second gateway's host", 25.0, || {
            ping("other", 1, "0.2").is_ok().then_some(())
        })?;
        guest.run(&format!("ping -q -n -c 3 -i 0.05 -W 2 {HOST}"))?;
        guest.run(&format!("ping -q -n -c 3 -i 0.05 -W 2 {OTHER}"))?;
        let status = gateway.status()?;
        let agreement = &status["macsec"]["agreement"];
        let live =
            agreement["members"].as_array().map_or(0, |all| all.iter().filter(|m| m["live"] == true).count());
        if live != 2 || agreement["is_key_server"] != self.ours {
            return Err(format!("{live} live members, and {}", agreement["is_key_server"]));
        }
        if (agreement["channels"].as_u64(), agreement["channels_in_use"].as_u64())
            != (Some(self.workers() as u64), Some(1))
        {
            return Err(format!("not one channel of {} is in use: {agreement:#}", self.workers()));
        }
        for name in ["InPktsNotValid", "InPktsLate", "InPktsBadTag"] {
            if gateway.counter(name)? != 0 {
                return Err(format!("the gateway's {name} is not 0"));
            }
        }
        let keys = agreement["fresh_keys"].as_u64().unwrap_or(0);
        let wanted = if self.ours { 3 } else { 2 };
        if keys < wanted || joined == first {
            return Err(format!("{keys} keys, where at least {wanted} were to come"));
        }
        second.stop()?;
        Ok(format!("{keys} keys, {lost} of {PINGS} pings lost while they changed"))
    }
}

/// Starts wpa_supplicant with this CAK, and waits for its interface.
pub(super) fn start(guest: &mut Guest, cak: &str, ckn: &str, priority: u8) -> Result<(), String> {
    let config = format!(
        "eapol_version=3\\nap_scan=0\\nnetwork={{\\nkey_mgmt=NONE\\neapol_flags=0\\nmacsec_policy=1\\nmacsec_integ_only=0\\n\
         macsec_replay_protect=1\\nmacsec_replay_window=0\\nmacsec_port=1\\nmka_cak={cak}\\nmka_ckn={ckn}\\nmka_priority={priority}\\n}}\\n",
    );
    guest.run(&format!("printf '{config}' > /tmp/wpa.conf"))?;
    guest.run(
        "wpa_supplicant -B -i eth0 -D macsec_linux -c /tmp/wpa.conf -P /tmp/wpa.pid -f /tmp/wpa.log -d -t",
    )?;
    up(guest)
}

/// Waits for wpa_supplicant's interface, and gives it the address.
pub(super) fn up(guest: &mut Guest) -> Result<(), String> {
    until("wpa_supplicant's macsec0", 30.0, || {
        guest.attempt("ip link show macsec0").is_ok_and(|(status, _)| status == 0).then_some(())
    })?;
    let up = format!("ip link set macsec0 mtu {} up; ip addr add {PEER}/24 dev macsec0", net::FIELD_MTU);
    guest.run(&up).map(drop)
}

/// Stops it, and removes its interface.
pub(super) fn stop(guest: &mut Guest) -> Result<(), String> {
    guest.run("kill $(cat /tmp/wpa.pid); sleep 1; ip link del macsec0 2>/dev/null; true").map(drop)
}

/// An error with the end of wpa_supplicant's log and the gateway's status.
fn context(error: String, guest: &mut Guest, gateway: &Gateway) -> String {
    let log = guest.run("tail -n 40 /tmp/wpa.log").unwrap_or_default();
    format!("{error}\n{log}\n{:#}", gateway.status().unwrap_or_default())
}

/// The key that protects transmitted frames.
fn key(status: &Value) -> Result<String, String> {
    let keys = status["macsec"]["agreement"]["keys"].as_array().cloned().unwrap_or_default();
    let used = keys.iter().find(|key| key["transmits"] == true);
    used.and_then(|key| key["key"].as_str()).map(str::to_string).ok_or_else(|| format!("no key: {status:#}"))
}

fn ping(space: &str, count: u32, interval: &str) -> Result<(), String> {
    let mut ping = net::inside(space, "ping");
    ping.args(["-q", "-n", "-W", "1", "-i", interval, "-c", &count.to_string(), PEER]).read(15).map(drop)
}

/// Sent pings without an answer, from ping's last lines.
pub(super) fn losses(output: &str) -> Result<u32, String> {
    let line = output.lines().find(|line| line.contains("packets transmitted"));
    let mut numbers =
        line.into_iter().flat_map(|l| l.split_whitespace()).filter_map(|word| word.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(sent), Some(received)) => Ok(sent - received.min(sent)),
        _ => Err(format!("ping said:\n{output}")),
    }
}

/// Checks that each frame is an MKPDU without a warning or an error.
fn dissect(file: &Path) -> Result<String, String> {
    let mut tshark = program("tshark");
    tshark.args([
        "-n",
        "-T",
        "fields",
        "-E",
        "separator=|",
        "-e",
        "mka.version_id",
        "-e",
        "_ws.expert.severity",
    ]);
    let text = tshark.args(["-e", "_ws.expert.message", "-e", "eth.src", "-r"]).arg(file).read(60)?;
    let (mut ours, mut theirs) = (0, 0);
    for (number, line) in text.lines().enumerate() {
        let fields: Vec<&str> = line.split('|').collect();
        let [version, severities, message, source] = fields[..] else {
            return Err(format!("tshark said: {line}"));
        };
        // Wireshark's PI_WARN.
        const WARNING: u64 = 0x0060_0000;
        let warns = severities.split(',').filter_map(|s| s.parse::<u64>().ok()).any(|s| s >= WARNING);
        if warns || version.is_empty() {
            return Err(format!("MKPDU {} of {source}, version {version}: {message}", number + 1));
        }
        *if source == net::mac(PEER_MAC) { &mut theirs } else { &mut ours } += 1;
    }
    if ours < 5 || theirs < 3 {
        return Err(format!("too little was said: {ours} and {theirs} MKPDUs"));
    }
    Ok(format!("{ours} MKPDUs of ours and {theirs} of its without an expert warning"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_read_from_pings_last_lines() {
        let said = "--- 10.9.0.1 ping statistics ---\n2400 packets transmitted, 2397 received, 0.125% packet loss, time 11995ms\n";
        assert_eq!(losses(said), Ok(3));
        assert!(losses("ping: unknown").is_err());
    }
}
