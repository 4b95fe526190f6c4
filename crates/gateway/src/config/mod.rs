//! The files of a gateway: its configuration and its keys.
//!
//! - this file: the types of a configuration. They hold legal settings only.
//! - [`policy`]: the types of `[policy]`
//! - [`macsec`], [`overlay`]: the types of `[macsec]` and `[overlay]`
//! - [`agreement`], [`express`], [`link_loss`], [`loops`], [`standby`], [`uplink`], [`sci`], [`state`]:
//!   settings and names that other folders use
//! - [`io`]: how frames leave by the ports
//! - [`keys`], [`cak`], [`tunnel_keys`]: key files
//! - `read`: parses the text, and reports all faults together
//! - [`host`]: the host around a gateway
//! - [`machine`] and [`mod@check`]: check a configuration against the machine, the key files and
//!   the state directory
//! - [`reload`]: a changed configuration for a running gateway

pub mod agreement;
pub mod cak;
pub mod check;
pub mod express;
pub mod host;
pub mod http;
pub mod io;
pub mod keys;
pub mod link_loss;
pub mod loops;
pub mod machine;
pub mod macsec;
pub mod overlay;
pub mod policy;
mod read;
pub mod reload;
pub mod sci;
pub mod standby;
pub mod state;
#[cfg(test)]
mod tests;
pub mod tunnel_keys;
pub mod uplink;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use antedate_channel::macsec::FlowShape;
use antedate_wire::EtherType;

pub use check::{Checked, Keyed, check};
use http::Http;
use io::Io;
use link_loss::{LinkLoss, usual_hello};
use loops::LoopSettings;
pub use macsec::{Cipher, Fragmentation, Identity, Keys, Macsec, SciMode};
pub use overlay::Overlay;
pub use policy::Policy;
use policy::Traffic;
pub(crate) use read::suite;
use standby::StandbySettings;
use uplink::{OuterTag, Waiting};

use crate::sys::age::Bounds;
use antedate_host::control::Words;
use antedate_host::fault::{Fault, Faults};

/// The texts of control-socket faults.
pub const CONTROL_WORDS: Words = Words {
    taken: (
        "another gateway answers on this control socket",
        "stop it, or give each gateway a control.socket of its own",
    ),
    no_socket: ("exists and is no socket", "give control.socket another path, or move this away"),
    cannot: (
        "make the control socket",
        "give control.socket a path in a directory that exists and that you can write to",
    ),
};

/// Default number of prepared packet numbers.
pub const PREPARE: usize = PREPARE_MAX;
/// Largest number of prepared packet numbers.
pub const PREPARE_MAX: usize = antedate_channel::macsec::SLOTS;
/// Default number of packet numbers in a reservation on disk.
pub const RESERVE: u64 = 1 << 20;

/// A configuration without faults of its text. [`check()`] checks it against the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The file of the configuration.
    pub file: PathBuf,
    /// The port to the machines.
    pub field: FieldPort,
    /// The port to the untrusted network.
    pub uplink: UplinkPort,
    /// The second port to the untrusted network, if any.
    pub second_uplink: Option<SecondUplink>,
    /// The protection of frames on the uplink.
    pub protection: Protection,
    /// The gateways that stand by for one another, if this is one of them.
    pub standby: Option<StandbySettings>,
    /// The search for loops of gateways, if any.
    pub loops: Option<LoopSettings>,
    /// Link loss forwarding, if any.
    pub link_loss: Option<LinkLoss>,
    /// The express channel, if any.
    pub express: Option<Express>,
    /// Flows with a fixed shape, if any.
    pub flows: Option<Flows>,
    /// Cycles without a frame that a consumer tolerates, for the watch of flows. 0: none are
    /// watched.
    pub watchdog_cycles: u64,
    /// The frames that may pass.
    pub policy: Policy,
    /// Threads, CPUs and polling.
    pub run: Run,
    /// The state directory.
    pub state: State,
    /// The control socket.
    pub control: Control,
    /// `ptp.transparent_clock`: whether PTP messages get the time that they spend in this gateway.
    pub transparent_clock: bool,
    /// `[metrics]`: the endpoint of the metrics, if they are shown.
    pub metrics: Option<Http>,
    /// `[page]`: the endpoint of the page, if it is shown.
    pub page: Option<Http>,
    lines: Lines,
}

/// `[field]`: the port to the machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPort {
    /// Its interface.
    pub interface: InterfaceName,
    /// How frames leave.
    pub io: Io,
}

/// `[uplink]`: the port to the untrusted network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UplinkPort {
    /// Its interface.
    pub interface: InterfaceName,
    /// The longest payload of the path. `None`: the interface's MTU.
    pub mtu: Option<u16>,
    /// The VLAN tag in front of the SecTAG, if any.
    pub outer: Option<OuterTag>,
    /// Whether frames to link-local groups pass the switches between gateways.
    pub carries_link_local: bool,
    /// How frames leave.
    pub io: Io,
}

impl UplinkPort {
    /// The longest payload of the path behind an interface with this MTU. Never more than the
    /// interface's MTU, which may be lowered at run time.
    #[must_use]
    pub fn carries(&self, interface: usize) -> usize {
        self.mtu.map_or(interface, |path| interface.min(path.into()))
    }
}

/// `[second_uplink]`: the second port to the untrusted network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondUplink {
    /// Its interface.
    pub interface: InterfaceName,
    /// How one of both waits. `None`: each frame leaves by both.
    pub waiting: Option<Waiting>,
}

/// The name of a Linux network interface: 1 to 15 bytes without `/`, `:`, white space or control
/// characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InterfaceName(String);

impl InterfaceName {
    /// `name`, if it is legal.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let legal = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '/' | ':');
        let fits = (1..=15).contains(&name.len()) && name.chars().all(legal) && name != "." && name != "..";
        fits.then(|| Self(name.to_owned()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The protection of frames on the uplink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protection {
    /// `[macsec]`: IEEE 802.1AE.
    Macsec(Macsec),
    /// `[overlay]`: VXLAN in WireGuard.
    Overlay(Box<Overlay>),
    /// `[plain]`: none. For measurements.
    Plain,
}

/// `[express]`: frames that pass between the fragments of others, in a secure channel of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Express {
    /// Express by kind of traffic.
    pub traffic: Vec<Traffic>,
    /// Express by VLAN priority: this one or higher.
    pub vlan_priority: Option<u8>,
    /// Express by EtherType.
    pub ethertypes: Vec<EtherType>,
    /// Express by Profinet frame ID.
    pub frame_ids: Option<RangeInclusive<u16>>,
    /// Octets of the longest fragment of another frame.
    pub fragment: usize,
    /// The rate at which other frames are sent.
    pub rate: Rate,
}

impl Express {
    fn picks_nothing(&self) -> bool {
        let Self { traffic, vlan_priority, ethertypes, frame_ids, .. } = self;
        traffic.is_empty() && vlan_priority.is_none() && ethertypes.is_empty() && frame_ids.is_none()
    }
}

/// `[flows]`: frames with a fixed shape, and whether they have tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flows {
    /// When tables are used.
    pub tables: FlowTables,
    /// The shapes.
    pub shapes: Vec<FlowShape>,
}

/// When flow tables are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowTables {
    /// If a measurement at the start finds them faster.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// The rate of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// The rate that the interface has negotiated.
    OfLink,
    /// A rate in Mbit/s.
    Mbit(u32),
}

/// `[run]`: settings of the forwarding threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The forwarding threads.
    pub threads: Threads,
    /// How they wait for the next frame.
    pub poll: Poll,
    /// `SCHED_FIFO` priority, 1 to 99. `None`: ordinary scheduling.
    pub priority: Option<u8>,
    /// Packet numbers prepared ahead for each direction.
    pub prepare: usize,
    /// Whether frames bypass the queueing discipline of the port.
    pub qdisc_bypass: bool,
    /// Whether all memory is brought in at the start, code too, or each page by its first use.
    pub preload: bool,
    /// The ages from which on frames are dropped.
    pub max_age: Bounds,
}

/// The forwarding threads, each with the CPU that it is pinned to, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Threads {
    /// One thread for both directions.
    One(Option<usize>),
    /// One thread per direction: field to uplink, then uplink to field.
    Two([Option<usize>; 2]),
    /// Several threads for both directions, each with a transmit channel of its own, or with the
    /// sessions of a part of the peers.
    Workers(Vec<Option<usize>>),
}

impl Threads {
    /// The CPU of each thread.
    #[must_use]
    pub fn cpus(&self) -> Vec<Option<usize>> {
        match self {
            Self::One(cpu) => vec![*cpu],
            Self::Two(cpus) => cpus.to_vec(),
            Self::Workers(cpus) => cpus.clone(),
        }
    }

    /// The number of transmit channels, express ones apart.
    #[must_use]
    pub const fn channels(&self) -> usize {
        match self {
            Self::One(_) | Self::Two(_) => 1,
            Self::Workers(cpus) => cpus.len(),
        }
    }
}

/// How a forwarding thread waits for the next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poll {
    /// Polls within a share of its CPU, and sleeps otherwise.
    Adaptive {
        /// The limit on polling, 1 to 100 percent of one CPU.
        cpu_percent: u8,
    },
    /// Polls always.
    Busy,
    /// Sleeps until a frame arrives.
    Block,
}

/// `[state]`: the state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The directory of the state file. One daemon per directory.
    pub directory: PathBuf,
    /// Packet numbers in a reservation. A crash loses at most this many.
    pub reserve: u64,
}

/// `[control]`: the control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// The path of the Unix socket.
    pub socket: PathBuf,
}

/// The line of each key of the file, for faults that are found after parsing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lines(BTreeMap<&'static str, usize>);

impl Config {
    /// Parses a configuration. `file` is the path for faults; relative paths start at its
    /// directory.
    ///
    /// # Errors
    /// All faults of the text.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Faults> {
        let (draft, faults) = read::read(file, text);
        match draft.finish() {
            Some(config) if faults.is_empty() => Ok(config),
            _ => Err(Faults::new(faults)),
        }
    }

    /// Reads and parses a configuration file.
    ///
    /// # Errors
    /// All faults of the file.
    pub fn load(file: &Path) -> Result<Self, Faults> {
        Self::parse(file, &read::text(file)?)
    }

    /// Time between two hellos to the other gateways, if this one says hello.
    #[must_use]
    pub fn hello(&self) -> Option<Duration> {
        // A network between sites delays some of them.
        let priority = self.run.priority.filter(|_| !matches!(self.protection, Protection::Overlay(_)));
        let waiting = self.second_uplink.as_ref().and_then(|second| second.waiting);
        let waiting = waiting.map(|waiting| waiting.hello.unwrap_or_else(|| usual_hello(priority)));
        let link_loss = self.link_loss.map(|settings| settings.hello(priority));
        [waiting, link_loss].into_iter().flatten().min()
    }

    /// The files that a reload reads: the configuration and its keys.
    #[must_use]
    pub fn files(&self) -> Vec<&Path> {
        let mut files = vec![&*self.file];
        match &self.protection {
            Protection::Macsec(Macsec { keys: Keys::Static(file), .. }) => files.push(file),
            Protection::Macsec(Macsec { keys: Keys::Agreed(settings), .. }) => files.push(&settings.cak_file),
            Protection::Overlay(overlay) => {
                let preshared = overlay.peers.iter().filter_map(|peer| peer.preshared_key_file.as_ref());
                files.extend(overlay.private_key_file.iter().chain(preshared).map(|file| &**file));
            }
            Protection::Plain => {}
        }
        files.extend(
            [&self.metrics, &self.page].into_iter().flatten().filter_map(|http| http.token_file.as_deref()),
        );
        files
    }

    /// Turns a fault of a file that `key` names into a fault at the line of `key`.
    pub(crate) fn at(&self, key: &'static str, of: Fault) -> Fault {
        self.lines.at(&self.file, key, of)
    }

    /// Settings that are legal and probably not intended.
    #[must_use]
    pub fn warnings(&self) -> Vec<Fault> {
        let mut warnings = Vec::new();
        let mut warn = |key: &'static str, what: &str, remedy: &str| {
            warnings.push(self.lines.fault(&self.file, key, what, remedy));
        };
        match &self.protection {
            Protection::Plain => warn(
                "plain",
                "NOTHING IS PROTECTED: frames cross the uplink as they are, and whoever can send there reaches the machines",
                "use [plain] for measurements only; write [macsec] with a key_file otherwise",
            ),
            Protection::Overlay(overlay) if overlay.private_key_file.is_none() => warn(
                "overlay",
                "NOTHING IS PROTECTED: frames cross the uplink in VXLAN as they are, and whoever can send there reaches the machines",
                "use wireguard = false for measurements only; remove the line otherwise",
            ),
            Protection::Overlay(_) => {}
            Protection::Macsec(macsec) => {
                if !macsec.confidentiality {
                    warn(
                        "macsec.confidentiality",
                        "frames are authenticated but not encrypted: the uplink can read them",
                        "remove the line to encrypt",
                    );
                }
            }
        }
        if self.express.as_ref().is_some_and(Express::picks_nothing) {
            warn(
                "express",
                "picks no frame, so all wait for the uplink's rate",
                "name what is express, e.g. traffic = [\"profinet-rt\"]",
            );
        }
        if self.policy.passes_nothing() {
            warn(
                "policy",
                "nothing is named, so nothing passes",
                "name what may pass, e.g. allow = [\"profinet-rt\", \"lldp\"]",
            );
        }
        warnings
    }
}

impl Lines {
    pub(crate) fn note(&mut self, key: &'static str, line: Option<usize>) {
        if let Some(line) = line {
            self.0.insert(key, line);
        }
    }

    pub(crate) fn fault(
        &self,
        file: &Path,
        key: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Fault {
        // A key that is not in the file has its default; then the line is that of its section, if
        // any.
        let section = key.split('.').next().unwrap_or(key);
        let line = self.0.get(key).or_else(|| self.0.get(section)).copied();
        Fault { line, key: key.to_owned(), ..Fault::of_file(file, what, remedy) }
    }

    /// Turns a fault of a file that `key` names into a fault at the line of `key`.
    pub(crate) fn at(&self, file: &Path, key: &'static str, of: Fault) -> Fault {
        let what = format!("{}: {}", of.file.display(), of.what);
        Fault { passing: of.passing, ..self.fault(file, key, what, of.remedy) }
    }
}
