//! `cargo xtask peers`: independent implementations judge the gateway on real frames.
//!
//! Each peer is one file here, and a folder in `peers/` with what runs as the partner. All of them run in a sandbox.

use crate::report::{Report, StepResult};
use crate::sandbox;
use crate::setup::{self, Purpose};
use crate::shell::build_release;

mod goose;
mod guest;
mod iperf3;
pub(crate) use iperf3::transfer;
mod kernel_macsec;
mod python;
mod scapy;
mod tshark;

/// An independent implementation.
pub(crate) struct Peer {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What it shows.
    pub(crate) about: &'static str,
    /// How long it may take, in seconds.
    pub(crate) limit: u64,
    /// Fetches and builds what it needs; runs outside the sandbox, which has no way to a mirror.
    prepare: fn() -> Result<(), String>,
    run: fn() -> StepResult,
}

/// All of them, quick ones first.
pub(crate) const PEERS: [Peer; 5] = [
    Peer {
        name: "scapy",
        about: "scapy's MACsecSA opens our frames, and we open its",
        limit: 240,
        prepare: scapy::prepare,
        run: scapy::run,
    },
    Peer {
        name: "goose",
        about: "libiec61850's GOOSE through two gateways",
        limit: 240,
        prepare: goose::prepare,
        run: goose::run,
    },
    Peer {
        name: "iperf3",
        about: "TCP and UDP through two gateways with veth's offloads on",
        limit: 240,
        prepare: iperf3::prepare,
        run: iperf3::run,
    },
    Peer {
        name: "tshark",
        about: "Wireshark's dissector reads the lab's frames as PROFINET",
        limit: 180,
        prepare: tshark::prepare,
        run: tshark::run,
    },
    Peer {
        name: "kernel-macsec",
        about: "the Linux kernel's MACsec in a QEMU guest",
        limit: 480,
        prepare: kernel_macsec::prepare,
        run: kernel_macsec::run,
    },
];

/// Runs all peers or those named. `--inner` leaves set-up, build and table to the caller.
pub(crate) fn main(args: &[String]) -> Result<bool, String> {
    if args.iter().any(|a| a == "--list") {
        for peer in &PEERS {
            println!("{:14} {}", peer.name, peer.about);
        }
        return Ok(true);
    }
    let inner = args.iter().any(|a| a == "--inner");
    let names: Vec<&str> = args.iter().map(String::as_str).filter(|a| *a != "--inner").collect();
    if let Some(wrong) = names.iter().find(|n| !PEERS.iter().any(|p| p.name == **n)) {
        let known: Vec<&str> = PEERS.iter().map(|p| p.name).collect();
        return Err(format!("no peer `{wrong}`; there are {}", known.join(", ")));
    }
    if !sandbox::inside() {
        if !inner {
            setup::ensure(Purpose::Peers)?;
            build_release()?;
        }
        for peer in chosen(&names) {
            (peer.prepare)()?;
        }
    }
    if let Some(verdict) = sandbox::enter()? {
        return Ok(verdict);
    }
    let mut report = Report::default();
    for peer in chosen(&names) {
        if inner {
            let outcome = (peer.run)();
            match &outcome {
                Ok(note) => println!("   {note}"),
                Err(reason) => println!("   {reason}"),
            }
            return Ok(outcome.is_ok());
        }
        report.step(&format!("peer {}", peer.name), peer.run);
    }
    Ok(report.finish())
}

fn chosen(names: &[&str]) -> impl Iterator<Item = &'static Peer> {
    PEERS.iter().filter(|p| names.is_empty() || names.contains(&p.name))
}
