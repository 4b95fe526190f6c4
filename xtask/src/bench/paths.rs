//! The contenders, each as a path PLC - gateway - gateway - device, and where their processes run.

use super::openvpn;
use crate::daemon::{Gateway, Options, SUITES, cell_keys};
use crate::net;
use crate::shell::{Background, Run, cache};
use std::fmt;

/// What stands between the machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contender {
    /// A Linux bridge in each gateway's place: what any box in the path costs.
    Bridges,
    /// Our daemon without protection.
    Plain,
    /// Our daemon with GCM-AES-128.
    Macsec,
    /// OpenVPN in tap mode with AES-128-GCM, each end bridged to its field port.
    OpenVpn,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Contender::Bridges => "bridges",
            Contender::Plain => "antedate none",
            Contender::Macsec => "antedate macsec",
            Contender::OpenVpn => "OpenVPN tap AES-128-GCM",
        })
    }
}

/// Everything, in the order of a round.
pub(crate) const ALL: [Contender; 4] =
    [Contender::Bridges, Contender::Plain, Contender::Macsec, Contender::OpenVpn];

/// Where the processes of a path run, and how the cores and the ends of the path wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Placement {
    /// PLC and its gateway on core 0, device and its gateway on core 1; else everything on core 0.
    pub(crate) split: bool,
    /// A spinner of the lowest priority keeps the cores from sleeping, which a virtual machine pays dearly for.
    pub(crate) awake: bool,
    /// The ends poll and yield instead of sleeping on their sockets.
    pub(crate) ends_poll: bool,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.split { "split" } else { "one core" })?;
        f.write_str(if self.awake { ", kept awake" } else { "" })?;
        f.write_str(if self.ends_poll { ", ends poll" } else { "" })
    }
}

/// The placements that are tried.
pub(crate) const PLACEMENTS: [Placement; 5] = [
    Placement { split: false, awake: false, ends_poll: false },
    Placement { split: false, awake: true, ends_poll: false },
    Placement { split: true, awake: false, ends_poll: false },
    Placement { split: true, awake: true, ends_poll: false },
    Placement { split: true, awake: false, ends_poll: true },
];

impl Placement {
    /// The core of the controller's side (0) or the device's (1).
    pub(crate) fn core(self, side: usize) -> usize {
        if self.split { side } else { 0 }
    }
}

/// A path that is up; taken down when dropped.
pub(crate) struct Path {
    gateways: Vec<Gateway>,
    _others: Vec<Background>,
}

/// How our daemon waits for frames, in lines of its `[run]`.
pub(crate) enum Waiting {
    /// What gives the best round trip in the placement: it never sleeps where it has a core for itself and its end.
    Fastest,
    /// At most this share of a core.
    Share(u8),
}

impl Path {
    /// Builds the namespaces and starts what the contender needs.
    pub(crate) fn build(
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
            Contender::OpenVpn => path._others.extend(openvpn::start(placement)?),
            Contender::Plain | Contender::Macsec => {
                for (side, space) in ["gwa", "gwb"].into_iter().enumerate() {
                    let core = placement.core(side);
                    let poll = match waiting {
                        Waiting::Fastest if placement.split => "poll = \"busy\"".to_string(),
                        Waiting::Fastest => "poll = \"block\"".to_string(),
                        Waiting::Share(percent) => {
                            format!("poll = \"adaptive\"\npoll_cpu_percent = {percent}")
                        }
                    };
                    let options = Options {
                        keys: (contender == Contender::Macsec).then(|| cell_keys(SUITES[0])),
                        allow: vec!["all"],
                        run: format!("threads = 1\ncpus = [{core}]\n{poll}"),
                        core: Some(core),
                        ..Options::default()
                    };
                    path.gateways.push(Gateway::start(space, &options)?);
                }
            }
        }
        if placement.awake {
            for core in if placement.split { 0..2 } else { 0..1 } {
                let mut spinner = crate::shell::program("taskset");
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

    /// The gateways' processes, where they are ours.
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
