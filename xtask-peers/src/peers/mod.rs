//! `cargo xtask peers`: independent implementations judge the gateway and the channels on real
//! frames.
//!
//! Each peer is one file here, and a folder in `peers/` with the partner's program. All of them run
//! in a sandbox.

use crate::{experiment, place};
use clap::builder::PossibleValuesParser;
use std::fs;
use std::path::PathBuf;
use xtask::report::{self, Report, StepResult, Stop};
use xtask::sandbox;
use xtask::setup::{self, Purpose};
use xtask::shell::{Run, build_antedate, cache, program};

mod dot15d4;
mod dtls;
mod eap_tls;
mod fleet;
mod goose;
mod io_device;
mod iperf3;
mod kernel_macsec;
pub(crate) use kernel_macsec::kernel_counter;
mod kernel_wireguard;
mod kernel_wpan;
mod key_rotation;
mod l2tp;
mod linuxptp;
mod maven;
mod mqtt;
mod npm;
mod overlay_kernel;
mod package;
mod page;
mod ppmp;
mod profinet;
mod prometheus;
mod python;
mod release_clock;
mod scapy;
mod scapy_dot15d4;
mod tshark;
pub(crate) mod wireguard_go;
mod wpa_supplicant;

/// An independent implementation.
pub(crate) struct Peer {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// A description of the test.
    pub(crate) about: &'static str,
    /// Time limit in seconds.
    pub(crate) limit: u64,
    /// Fetches and builds the partner; runs outside the sandbox, which has no access to a mirror.
    prepare: fn() -> Result<(), Stop>,
    run: fn() -> StepResult,
}

/// All peers, quick ones first.
pub(crate) const PEERS: [Peer; 27] = [
    Peer {
        name: "scapy",
        about: "scapy's MACsecSA opens our frames, and we open its",
        limit: 240,
        prepare: scapy::prepare,
        run: scapy::run,
    },
    Peer {
        name: "scapy-wpan",
        about: "scapy takes our secured IEEE 802.15.4 frames apart, and we read its",
        limit: 120,
        prepare: scapy::prepare,
        run: scapy_dot15d4::run,
    },
    Peer {
        name: "ppmp",
        about: "our PPMP messages against their schema",
        limit: 240,
        prepare: ppmp::prepare,
        run: ppmp::run,
    },
    Peer {
        name: "dtls",
        about: "OpenSSL's and pion's DTLS as server and client of ours; Wireshark decrypts it",
        limit: 240,
        prepare: dtls::prepare,
        run: dtls::run,
    },
    Peer {
        name: "dtls-partners",
        about: "GnuTLS, Mbed TLS, wolfSSL, Scandium and libcoap as DTLS server and client of ours",
        limit: 240,
        prepare: dtls::partners::prepare,
        run: dtls::partners::run,
    },
    Peer {
        name: "goose",
        about: "libiec61850's GOOSE through two gateways, and libiec61850 with our publisher and subscriber",
        limit: 240,
        prepare: goose::prepare,
        run: goose::run,
    },
    Peer {
        name: "fleet",
        about: "three servers of Debian's NATS: a crowd of agents, two gateways re-keyed under traffic, servers lost, attacks",
        limit: 1500,
        prepare: fleet::prepare,
        run: fleet::run,
    },
    Peer {
        name: "iperf3",
        about: "TCP and UDP through two gateways with veth's offloads on",
        limit: 240,
        prepare: iperf3::prepare,
        run: iperf3::run,
    },
    Peer {
        name: "mqtt",
        about: "Mosquitto, paho-mqtt, aiomqtt and pycose with our MQTT payloads and Python package, through kills",
        limit: 600,
        prepare: mqtt::prepare,
        run: mqtt::run,
    },
    Peer {
        name: "prometheus",
        about: "Prometheus scrapes a gateway, and promtool checks its metrics and the alerts",
        limit: 180,
        prepare: prometheus::prepare,
        run: prometheus::run,
    },
    Peer {
        name: "page",
        about: "Chromium looks at a gateway's page through a fault, and 500 hostile clients are at it",
        limit: 240,
        prepare: page::prepare,
        run: page::run,
    },
    Peer {
        name: "tshark",
        about: "Wireshark's dissector reads the lab's frames as PROFINET",
        limit: 180,
        prepare: tshark::prepare,
        run: tshark::run,
    },
    Peer {
        name: "package",
        about: "Debian's dpkg installs, upgrades under traffic, removes and purges our package in a fresh root",
        limit: 120,
        prepare: package::prepare,
        run: package::run,
    },
    Peer {
        name: "profinet",
        about: "profinet-py sets up our IO device through two gateways, with each policy of the book for Profinet",
        limit: 240,
        prepare: profinet::prepare,
        run: profinet::run,
    },
    Peer {
        name: "linuxptp",
        about: "linuxptp keeps time through two loaded gateways, beside bridges and gateways without correction",
        limit: 300,
        prepare: linuxptp::prepare,
        run: linuxptp::run,
    },
    Peer {
        name: "eap-tls",
        about: "hostapd and wpa_supplicant authenticate two gateways by certificates, which get the CAK of it",
        limit: 180,
        prepare: eap_tls::prepare,
        run: eap_tls::run,
    },
    Peer {
        name: "wireguard-go",
        about: "kernel VXLAN over wireguard-go as the far end of an overlay, read by Wireshark's dissector",
        limit: 240,
        prepare: wireguard_go::prepare,
        run: wireguard_go::run,
    },
    Peer {
        name: "kernel-wireguard",
        about: "the Linux kernel's WireGuard and VXLAN in a QEMU guest as the far end of an overlay",
        limit: 240,
        prepare: kernel_wireguard::prepare,
        run: kernel_wireguard::run,
    },
    Peer {
        name: "kernel-macsec",
        about: "the Linux kernel's MACsec in a QEMU guest",
        limit: 480,
        prepare: kernel_macsec::prepare,
        run: kernel_macsec::run,
    },
    Peer {
        name: "kernel-wpan",
        about: "the Linux kernel's IEEE 802.15.4 link-layer security, in the same guest",
        limit: 180,
        prepare: kernel_wpan::prepare,
        run: kernel_wpan::run,
    },
    Peer {
        name: "release-clock",
        about: "the overlay's release clock between two gateways, in a guest that counts instructions",
        limit: 480,
        prepare: experiment::prepare,
        run: release_clock::run,
    },
    Peer {
        name: "key-rotation",
        about: "how late a change of keys makes a frame, between two gateways in a guest that counts instructions",
        limit: 1500,
        prepare: experiment::prepare,
        run: key_rotation::run,
    },
    Peer {
        name: "overlay-kernel",
        about: "the Linux kernel's WireGuard and VXLAN beside our overlay, in a guest that counts instructions",
        limit: 900,
        prepare: experiment::prepare,
        run: overlay_kernel::run,
    },
    Peer {
        name: "l2tp",
        about: "L2TPv3 over the kernel's MACsec between two bridges, and our fragments beside it, in one guest that counts instructions",
        limit: 900,
        prepare: l2tp::prepare,
        run: l2tp::run,
    },
    Peer {
        name: "wpa-supplicant",
        about: "wpa_supplicant's key agreement over the kernel's MACsec, in the same guest",
        limit: 480,
        prepare: wpa_supplicant::prepare,
        run: wpa_supplicant::run,
    },
    Peer {
        name: "io-device",
        about: "a bare IO device on an emulated Cortex-M3, by MACsec to our gateway and to wpa_supplicant",
        limit: 480,
        prepare: io_device::prepare,
        run: io_device::run,
    },
    Peer {
        name: "mqtt-backlog",
        about: "100,000 messages that Mosquitto has queued, through kills of both sides, and at NATS, mochi, aedes and HiveMQ; a million pairs of publisher and topic",
        limit: mqtt::LONG,
        prepare: mqtt::prepare,
        run: mqtt::run_long,
    },
];

/// Arguments of `cargo xtask peers`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print the peers
    #[arg(long)]
    list: bool,
    /// Peers to run; without any all of them
    #[arg(value_name = "NAME", value_parser = names())]
    names: Vec<String>,
}

/// One peer, and the file for its outcome.
#[derive(clap::Args)]
pub(crate) struct Single {
    #[arg(value_parser = names())]
    name: String,
    outcome: PathBuf,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(PEERS.iter().map(|peer| peer.name))
}

impl Single {
    fn peer(&self) -> Result<&'static Peer, String> {
        PEERS.iter().find(|peer| peer.name == self.name).ok_or_else(|| format!("no peer `{}`", self.name))
    }

    fn write(&self, outcome: &StepResult) -> Result<bool, String> {
        let file = &self.outcome;
        fs::write(file, report::write(outcome)).map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(true)
    }
}

/// Runs all peers or the named ones.
pub(crate) fn main(arguments: &Arguments) -> Result<bool, String> {
    if arguments.list {
        for peer in &PEERS {
            println!("{:14} {}", peer.name, peer.about);
        }
        return Ok(true);
    }
    let is_chosen =
        |peer: &&Peer| arguments.names.is_empty() || arguments.names.iter().any(|n| n == peer.name);
    setup::ensure(Purpose::Peers)?;
    build_antedate()?;
    let mut report = Report::default();
    for peer in PEERS.iter().filter(is_chosen) {
        report.step(&format!("peer {}", peer.name), || run(peer));
    }
    Ok(report.finish())
}

/// Prepares and runs one peer for a step of `cargo xtask test`.
pub(crate) fn step(single: &Single) -> Result<bool, String> {
    single.write(&run(single.peer()?))
}

/// The command that runs one prepared peer in a sandbox.
pub(crate) const INNER: &str = "peer-inside";

/// Prepares the peer, then runs it in its own process and sandbox.
fn run(peer: &Peer) -> StepResult {
    sandbox::possible().map_err(Stop::Skipped)?;
    (peer.prepare)()?;
    let outcome = cache("peers/run")?.join(format!("{}.outcome", peer.name));
    let _ = fs::remove_file(&outcome);
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    program(me).args([INNER, peer.name]).arg(&outcome).bounded(peer.limit)?;
    let text = fs::read_to_string(&outcome).map_err(|e| format!("the peer said nothing: {e}"))?;
    report::read(&text)
}

/// Runs one peer in a sandbox.
pub(crate) fn inside(single: &Single) -> Result<bool, String> {
    let peer = single.peer()?;
    if let Some(verdict) = sandbox::enter()? {
        return Ok(verdict);
    }
    place::belongs_to(peer.name);
    single.write(&(peer.run)())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Peers that measure for minutes without a verdict, which `cargo xtask test` leaves out, and one
    /// that is a step of another name.
    const ALONE: [&str; 5] = ["overlay-kernel", "l2tp", "key-rotation", "mqtt-backlog", "package"];

    #[test]
    fn tests_run_all_other_peers() {
        let mut tested: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
        tested.retain(|name| !ALONE.contains(name));
        assert_eq!(tested, xtask::peers::TESTED);
    }
}
