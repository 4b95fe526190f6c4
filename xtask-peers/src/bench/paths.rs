//! The contenders, each as a path PLC - gateway - gateway - device, and the placement of their
//! processes.

use super::placement::{Cores, Placement};
use super::{openvpn, vxlan};
use crate::daemon::{Gateway, Options, SUITES, cell_keys};
use crate::net;
use std::fmt;
use xtask::shell::{Background, Run, cache, until};

/// The pre-shared key of gateways that agree on keys. It is public and protects nothing.
const CAK: &str = "mka_cak=000102030405060708090a0b0c0d0e0f\nmka_ckn=0011\n";

/// The box between the machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contender {
    /// A Linux bridge in place of each gateway: the cost of any box in the path.
    Bridges,
    /// Our daemon without protection.
    Plain,
    /// Our daemon with GCM-AES-128. Frames leave by AF_XDP, which it chooses on veth pairs.
    Macsec,
    /// The same; frames leave by packet sockets.
    MacsecRing,
    /// OpenVPN in tap mode with AES-128-GCM, each end bridged to its field port.
    OpenVpn,
    /// VXLAN of the kernel, without protection.
    Vxlan,
    /// The same through wireguard-go.
    WireguardGo,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Contender::Bridges => "bridges",
            Contender::Plain => "antedate none",
            Contender::Macsec => "antedate macsec",
            Contender::MacsecRing => "antedate macsec, ring",
            Contender::OpenVpn => "OpenVPN tap AES-128-GCM",
            Contender::Vxlan => "kernel VXLAN",
            Contender::WireguardGo => "VXLAN over wireguard-go",
        })
    }
}

/// All contenders, in the order of a round.
pub(crate) const ALL: [Contender; 4] =
    [Contender::Bridges, Contender::Plain, Contender::Macsec, Contender::OpenVpn];

/// Those whose TCP is measured: by either way to the driver too.
pub(crate) const FOR_TCP: [Contender; 5] =
    [Contender::Bridges, Contender::Plain, Contender::Macsec, Contender::MacsecRing, Contender::OpenVpn];

/// Those whose frames a second are counted: other tunnels too.
pub(crate) const FOR_RATES: [Contender; 7] = [
    Contender::Bridges,
    Contender::Plain,
    Contender::Macsec,
    Contender::MacsecRing,
    Contender::Vxlan,
    Contender::OpenVpn,
    Contender::WireguardGo,
];

/// A path that is up; taken down when dropped.
pub(crate) struct Path {
    gateways: Vec<Gateway>,
    _others: Vec<Background>,
}

/// Our daemon, where it is not that of this tree with its defaults.
#[derive(Clone, Copy, Default)]
pub(crate) struct Daemon<'a> {
    /// Another build of it.
    pub(crate) program: Option<&'a std::path::Path>,
    /// Further sections of its configuration.
    pub(crate) sections: &'static str,
}

/// The real-time priority of the gateways (OpenVPN's too) under cyclic traffic: below that of the
/// ends.
const PRIORITY: u8 = 20;

/// How our daemon waits for frames, as lines of its `[run]` section.
#[derive(Clone, Copy)]
pub(crate) enum Waiting {
    /// For the shortest round trip: busy polling if each side has its own core, else blocking.
    Fastest,
    /// The daemon's default.
    Default,
    /// Polls for at most this percentage of a core.
    Share(u8),
    /// For cyclic traffic: priority above all ordinary processes but below the ends; the daemon
    /// sleeps between the cycles and polls around the times when frames are due.
    Cyclic,
    /// For deadlines beside other load: priority above all ordinary processes; the daemon sleeps
    /// until a frame comes.
    Deadline,
}

impl Path {
    /// Builds the namespaces and starts the contender's processes.
    pub(crate) fn build(
        contender: Contender,
        placement: Placement,
        waiting: Waiting,
    ) -> Result<Path, String> {
        Path::build_with(Daemon::default(), contender, placement, waiting)
    }

    /// As [`Path::build`], with another daemon.
    pub(crate) fn build_with(
        daemon: Daemon<'_>,
        contender: Contender,
        placement: Placement,
        waiting: Waiting,
    ) -> Result<Path, String> {
        net::remove_cell();
        net::cell()?;
        let mut path = Path { gateways: Vec::new(), _others: Vec::new() };
        match contender {
            Contender::Bridges => {
                for space in ["gwa", "gwb"] {
                    net::bridge(space, &["field", "uplink"])?;
                }
            }
            Contender::OpenVpn => {
                let priority = matches!(waiting, Waiting::Cyclic).then_some(PRIORITY);
                path._others.extend(openvpn::start(placement, priority)?);
            }
            Contender::Vxlan => vxlan::plain()?,
            Contender::WireguardGo => path._others.extend(vxlan::protected(placement)?),
            Contender::Plain | Contender::Macsec | Contender::MacsecRing => {
                for (side, space) in ["gwa", "gwb"].into_iter().enumerate() {
                    let core = placement.core(side);
                    let mut run =
                        core.map_or(String::new(), |core| format!("threads = 1\ncpus = [{core}]\n"));
                    run.push_str(&match waiting {
                        Waiting::Fastest if placement.cores == Cores::Split => "poll = \"busy\"".to_string(),
                        Waiting::Fastest => "poll = \"block\"".to_string(),
                        Waiting::Default => String::new(),
                        Waiting::Cyclic => {
                            format!("poll = \"adaptive\"\npoll_cpu_percent = 80\npriority = {PRIORITY}")
                        }
                        Waiting::Deadline => "poll = \"block\"\npriority = 30".to_string(),
                        Waiting::Share(percent) => {
                            format!("poll = \"adaptive\"\npoll_cpu_percent = {percent}")
                        }
                    });
                    let options = Options {
                        keys: (contender != Contender::Plain).then(|| cell_keys(SUITES[0])),
                        io: if contender == Contender::MacsecRing { "io = \"ring\"" } else { "" },
                        allow: vec!["all"],
                        run,
                        core,
                        program: daemon.program.map(Into::into),
                        sections: daemon.sections,
                        ..Options::default()
                    };
                    path.gateways.push(Gateway::start(space, &options)?);
                }
            }
        }
        if placement.awake {
            for core in if placement.cores == Cores::One { 0..1 } else { 0..2 } {
                let mut spinner = xtask::shell::program("taskset");
                spinner.args([
                    "-c",
                    &core.to_string(),
                    "chrt",
                    "--idle",
                    "0",
                    "sh",
                    "-c",
                    "while :; do :; done",
                ]);
                path._others.push(spinner.background(&cache("bench")?.join("spinner.log"))?);
            }
        }
        Ok(path)
    }

    /// Two gateways with MACsec and so many workers each, on any core, with static or agreed keys.
    pub(crate) fn with_workers(workers: usize, agreed: bool) -> Result<Path, String> {
        net::remove_cell();
        net::cell()?;
        let mut path = Path { gateways: Vec::new(), _others: Vec::new() };
        let mut keys = cell_keys(SUITES[0]);
        keys.channels = workers;
        for space in ["gwa", "gwb"] {
            let run = if workers > 1 { format!("workers = {workers}") } else { "threads = 1".to_owned() };
            // As workers send: without AF_XDP.
            let (io, allow) = ("io = \"ring\"", vec!["all"]);
            let (keys, cak) = match agreed {
                false => (Some(keys.clone()), None),
                true => (None, Some(CAK.to_owned())),
            };
            let options = Options { keys, cak, io, allow, run, ..Options::default() };
            path.gateways.push(Gateway::start(space, &options)?);
        }
        if agreed {
            until("all channels", 20.0, || {
                let has = |gateway: &Gateway| {
                    let macsec = gateway.status().ok()?["macsec"].take();
                    let in_use = macsec["agreement"]["channels_in_use"].as_u64()? == workers as u64;
                    Some(in_use && macsec["transmit"].as_array()?.len() == workers)
                };
                path.gateways.iter().all(|gateway| has(gateway) == Some(true)).then_some(())
            })?;
        }
        Ok(path)
    }

    /// The processes of our gateways; empty for other contenders.
    pub(crate) fn gateways(&self) -> &[Gateway] {
        &self.gateways
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.gateways.clear();
        self._others.clear();
        net::remove_cell();
    }
}
