//! The configuration of a gateway: one TOML file.
//!
//! - this file: what a configuration is. Its types hold only what is legal: there is no cipher without a key file, no
//!   share of a CPU for a poll that does not use it.
//! - [`policy`]: what may pass
//! - [`overlay`]: the tunnels of an overlay
//! - `read`: from text to these types, with every fault at once
//! - [`machine`] and [`mod@check`]: does it fit the machine, the key file and the state directory

pub mod agreement;
pub mod cak;
pub mod check;
pub mod express;
pub mod keys;
pub mod machine;
pub mod overlay;
pub mod policy;
mod read;
pub mod sci;
pub mod state;
#[cfg(test)]
mod tests;
pub mod tunnel_keys;
pub mod uplink;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use antedate_channel::fragment::Marks;
use antedate_channel::macsec::{CipherSuite, FlowShape};
use antedate_wire::{EtherType, Sci};

pub use check::{Checked, Keyed, check};
pub use overlay::Overlay;
pub use policy::Policy;
use policy::Traffic;
pub(crate) use read::suite;

use antedate_host::control::Words;
use antedate_host::fault::{Fault, Faults};

/// The words of faults of the control socket.
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

/// Packet numbers prepared ahead when the file does not say.
pub const PREPARE: usize = PREPARE_MAX;
/// The most packet numbers that can be prepared ahead.
pub const PREPARE_MAX: usize = antedate_channel::macsec::SLOTS;
/// Packet numbers reserved on disk at a time when the file does not say.
pub const RESERVE: u64 = 1 << 20;

/// A configuration whose text is right. That it fits the machine is shown by [`check()`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The file it came from.
    pub file: PathBuf,
    /// The side with the machines.
    pub field: FieldPort,
    /// The untrusted side.
    pub uplink: UplinkPort,
    /// How frames are protected on the untrusted side.
    pub protection: Protection,
    /// Which frames do not wait behind others, if any.
    pub express: Option<Express>,
    /// Frames of which only some octets vary, if any are declared.
    pub flows: Option<Flows>,
    /// What may pass.
    pub policy: Policy,
    /// Threads, CPUs and polling.
    pub run: Run,
    /// Where packet numbers are reserved.
    pub state: State,
    /// Where the running daemon answers.
    pub control: Control,
    lines: Lines,
}

/// `[field]`: the port to the machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPort {
    /// Its interface.
    pub interface: InterfaceName,
}

/// `[uplink]`: the port to the untrusted network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UplinkPort {
    /// Its interface.
    pub interface: InterfaceName,
    /// The longest payload that the path carries. `None`: that of the interface.
    pub mtu: Option<u16>,
}

impl UplinkPort {
    /// The longest payload that the path carries behind an interface with this MTU: never more than the interface, whose MTU
    /// may be lowered while the gateway runs.
    #[must_use]
    pub fn carries(&self, interface: usize) -> usize {
        self.mtu.map_or(interface, |path| interface.min(path.into()))
    }
}

/// The name of a network interface, as Linux allows it: 1 to 15 bytes, neither `/` nor white space.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InterfaceName(String);

impl InterfaceName {
    /// The name if it can be one.
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

/// How frames are protected on the uplink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protection {
    /// `[macsec]`: IEEE 802.1AE.
    Macsec(Macsec),
    /// `[overlay]`: VXLAN in WireGuard.
    Overlay(Box<Overlay>),
    /// `[plain]`: not at all. For comparing measurements.
    Plain,
}

/// `[macsec]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Macsec {
    /// The cipher suite.
    pub cipher: Cipher,
    /// Where its keys come from.
    pub keys: Keys,
    /// Which member this gateway is.
    pub identity: Identity,
    /// Whether frames are encrypted, or authenticated only.
    pub confidentiality: bool,
    /// How the receivers learn the SCI of a frame.
    pub sci_mode: SciMode,
    /// Whether frames longer than the uplink carries are sent in fragments, and fragments taken.
    pub fragmentation: Fragmentation,
    /// How many packet numbers may arrive late. 0: only rising numbers. Frames that are not valid are always discarded.
    pub replay_window: u32,
}

/// The cipher suite of MACsec.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Cipher {
    /// That of the key file, or GCM-AES-128 where keys are agreed upon.
    #[default]
    Unsaid,
    /// This one.
    Named(CipherSuite),
    /// One of these, which the key server chooses by how fast the members' CPUs are. With key agreement only: the members
    /// of a key file have no way to agree.
    Auto(Vec<CipherSuite>),
}

/// Whether frames are sent in fragments, and fragments taken. They are not of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fragmentation {
    /// No: a fragment is a frame with an invalid SecTAG, as it is for any other implementation.
    Off,
    /// To and from those who announce in key agreement that they know them.
    #[default]
    Auto,
    /// Yes: all members of the key file know them.
    On(Marks),
}

impl Fragmentation {
    /// What holds without key agreement.
    #[must_use]
    pub fn agreed(self) -> Option<Marks> {
        match self {
            Self::On(marks) => Some(marks),
            Self::Off | Self::Auto => None,
        }
    }
}

/// `[express]`: frames that are sent before the next fragment of others, in a secure channel of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Express {
    /// Kinds of traffic that are express.
    pub traffic: Vec<Traffic>,
    /// Frames with a VLAN tag of this priority or a higher one are.
    pub vlan_priority: Option<u8>,
    /// Frames of these EtherTypes are.
    pub ethertypes: Vec<EtherType>,
    /// Profinet frames with these frame IDs are.
    pub frame_ids: Option<RangeInclusive<u16>>,
    /// Octets of the longest fragment of any other frame.
    pub fragment: usize,
    /// The rate of the uplink, at which others are sent.
    pub rate: Rate,
}

impl Express {
    fn picks_nothing(&self) -> bool {
        let Self { traffic, vlan_priority, ethertypes, frame_ids, .. } = self;
        traffic.is_empty() && vlan_priority.is_none() && ethertypes.is_empty() && frame_ids.is_none()
    }
}

/// `[flows]`: frames of which only some octets vary, and whether tables are made for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flows {
    /// When tables are used.
    pub tables: FlowTables,
    /// The frames.
    pub shapes: Vec<FlowShape>,
}

/// When flow tables are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowTables {
    /// Where a measurement at the start finds them faster.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// The rate of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// What the interface has agreed with its partner.
    OfLink,
    /// So many Mbit/s.
    Mbit(u32),
}

/// Where MACsec's keys come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    /// `key_file`: static keys and their members.
    Static(PathBuf),
    /// `cak_file`: they are agreed upon.
    Agreed(agreement::Settings),
}

/// The secure channel identifier that this gateway sends under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// As the file says.
    Explicit(Sci),
    /// The address of the uplink's interface with this port number.
    OfUplink {
        /// 1 unless the file says otherwise.
        port: u16,
    },
}

/// How the SecTAG names the secure channel (IEEE 802.1AE-2018, 9.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SciMode {
    /// The SCI is in every frame (SC set).
    Explicit,
    /// The SCI is the frame's source address and port 1 (ES set): for a single machine whose address the SCI has.
    EndStation,
    /// The SCI is known because there is one peer only (ES and SC clear).
    PointToPoint,
}

/// `[run]`: how the forwarding threads run.
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
    /// Whether frames go past the queueing discipline of the port.
    pub qdisc_bypass: bool,
}

/// The forwarding threads and the CPU that each is pinned to, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// One thread for both directions.
    One(Option<usize>),
    /// One thread a direction: field to uplink first.
    Two([Option<usize>; 2]),
}

/// How a forwarding thread waits for the next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poll {
    /// It polls within a share of its CPU and sleeps otherwise.
    Adaptive {
        /// The bound on polling, 1 to 100 percent of one CPU.
        cpu_percent: u8,
    },
    /// It never sleeps.
    Busy,
    /// It sleeps until a frame comes.
    Block,
}

/// `[state]`: what must survive a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The directory of the state file. One daemon a directory.
    pub directory: PathBuf,
    /// Packet numbers reserved at a time: so many are lost by a crash.
    pub reserve: u64,
}

/// `[control]`: where the running daemon answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// The Unix socket.
    pub socket: PathBuf,
}

/// Where each key of the file stands, so that a fault found later still has its line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lines(BTreeMap<&'static str, usize>);

impl Config {
    /// Reads a configuration from its text. `file` names it in faults, and relative paths start at its directory.
    ///
    /// # Errors
    /// Every fault of the text at once.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Faults> {
        let (draft, faults) = read::read(file, text);
        match draft.finish() {
            Some(config) if faults.is_empty() => Ok(config),
            _ => Err(Faults::new(faults)),
        }
    }

    /// Reads a configuration from its file.
    ///
    /// # Errors
    /// Every fault of the file at once.
    pub fn load(file: &Path) -> Result<Self, Faults> {
        Self::parse(file, &read::text(file)?)
    }

    /// A fault of the file that a key names, at the line of the key.
    pub(crate) fn at(&self, key: &'static str, of: Fault) -> Fault {
        self.lines.at(&self.file, key, of)
    }

    /// What the file asks for that is legal and still deserves a word.
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
        // A key that is not written takes its default; the fault then points at its section, or at the file.
        let section = key.split('.').next().unwrap_or(key);
        let line = self.0.get(key).or_else(|| self.0.get(section)).copied();
        Fault { line, key: key.to_owned(), ..Fault::of_file(file, what, remedy) }
    }

    /// A fault of the file that a key names, at the line of the key.
    pub(crate) fn at(&self, file: &Path, key: &'static str, of: Fault) -> Fault {
        let what = format!("{}: {}", of.file.display(), of.what);
        Fault { passing: of.passing, ..self.fault(file, key, what, of.remedy) }
    }
}
