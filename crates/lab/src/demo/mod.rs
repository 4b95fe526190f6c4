//! The demonstration: does a machine keep its cycle behind these gateways?
//!
//! A virtual PLC and IO device exchange Profinet frames through two real gateway processes over an untrusted wire
//! with a tap on it; then a verdict. In the order of events:
//!
//! - [`scenario`]: what `--faults` names,
//! - [`placement`]: which process runs on which core,
//! - `plant`, `gateway`: building and stopping it all,
//! - `phases`: the undisturbed time, then one fault after the other,
//! - `view`: the live view on a terminal,
//! - [`verdict`]: what was found, as text and as JSON,
//! - `ports`: one gateway on real interfaces instead.

mod gateway;
mod phases;
pub mod placement;
mod plant;
mod ports;
pub mod scenario;
pub mod verdict;
mod view;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ns::{self, Privilege};
use crate::station::{self, cyclic};
use crate::sys::signal;
use phases::Session;
use plant::Plant;
pub use ports::Ports;
use scenario::{Incident, Scenario};
use verdict::Report;

/// How frames cross the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Secure {
    /// Protected by MACsec.
    #[default]
    Macsec,
    /// In VXLAN through WireGuard: the gateways' overlay.
    Overlay,
    /// Forwarded by the same gateways as they are, for comparison.
    None,
    /// Forwarded by plain Linux bridges in the gateways' places, for comparison.
    Bridge,
}

impl FromStr for Secure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "macsec" => Ok(Self::Macsec),
            "overlay" => Ok(Self::Overlay),
            "none" => Ok(Self::None),
            "bridge" => Ok(Self::Bridge),
            _ => Err(format!("`{text}` is none of macsec, overlay, none, bridge")),
        }
    }
}

impl Secure {
    /// Whether nobody on the wire may be able to read a frame.
    #[must_use]
    pub const fn protects(self) -> bool {
        matches!(self, Self::Macsec | Self::Overlay)
    }
}

/// What is demonstrated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Options {
    /// How frames cross the wire.
    pub secure: Secure,
    /// The update time in microseconds.
    pub cycle_us: u32,
    /// Milliseconds of undisturbed operation that the verdict is about.
    pub milliseconds: u64,
    /// Octets of a cyclic frame without frame check sequence.
    pub frame_bytes: usize,
    /// The MTU of the wire, where it is not long enough for all frames; longer ones cross it in fragments.
    pub mtu: Option<u16>,
    /// Cyclic frames have a secure channel of their own, and go between the fragments of others.
    pub express: bool,
    /// What happens afterwards, one by one.
    pub faults: Vec<Scenario>,
    /// Decides which frames faults strike.
    pub seed: u64,
    /// A recording of all that the gateways put on the wire.
    pub pcap: Option<PathBuf>,
    /// One gateway on real interfaces instead of the plant.
    pub ports: Option<Ports>,
    /// With real interfaces: no gateway ever used these keys, so their packet numbers begin at 1.
    pub first: bool,
    /// Draw a live view on standard output.
    pub live: bool,
}

impl Default for Options {
    /// The figures of hohmann2020 for ten seconds.
    fn default() -> Self {
        Self {
            secure: Secure::Macsec,
            cycle_us: 4_000,
            milliseconds: 10_000,
            frame_bytes: 64,
            mtu: None,
            express: false,
            faults: Vec::new(),
            seed: 1,
            pcap: None,
            ports: None,
            first: false,
            live: false,
        }
    }
}

/// Why there is no verdict. Exit status 2.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plant could not be built.
    #[error(transparent)]
    Namespaces(#[from] ns::Error),
    /// An option is impossible.
    #[error("{0}")]
    Usage(String),
    /// Something could not be started.
    #[error("cannot start {0}")]
    Start(String),
    /// A process ended that should run.
    #[error("{name} ended: {}", if said.is_empty() { "it said nothing" } else { said })]
    Process {
        /// Which.
        name: String,
        /// What it wrote to standard error.
        said: String,
    },
}

impl Error {
    fn process(name: &str, said: impl Into<String>) -> Self {
        Self::Process { name: name.to_owned(), said: said.into() }
    }
}

/// The end of a demonstration.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// All checks passed: exit status 0, otherwise 1.
    pub passed: bool,
    /// The verdict for people.
    pub text: String,
    /// The verdict for programs: what `--json` writes.
    pub report: Report,
}

impl Options {
    fn check(&self) -> Result<(), Error> {
        let usage = |text: String| Err(Error::Usage(text));
        if !(station::MIN_CYCLE_US..=512_000).contains(&self.cycle_us) {
            return usage(format!(
                "--cycle-us {}: {} to 512000 are possible",
                self.cycle_us,
                station::MIN_CYCLE_US
            ));
        }
        if !(cyclic::MIN_FRAME_LEN..=cyclic::MAX_FRAME_LEN).contains(&self.frame_bytes) {
            return usage(format!(
                "--frame-bytes {}: {} to {} are possible (Profinet allows 1440 bytes of IO data)",
                self.frame_bytes,
                cyclic::MIN_FRAME_LEN,
                cyclic::MAX_FRAME_LEN
            ));
        }
        if self.mtu.is_some_and(|mtu| mtu < 128) {
            return usage("--mtu: at least 128".into());
        }
        if (self.mtu.is_some() || self.express) && (self.secure != Secure::Macsec || self.ports.is_some()) {
            return usage("--mtu and --express are for --secure macsec on the virtual plant".into());
        }
        if self.milliseconds < 100 {
            return usage("--seconds: at least 0.1".into());
        }
        if let Some(file) = &self.pcap
            && let Err(error) = writable(file)
        {
            return usage(format!("--pcap {}: {error}", file.display()));
        }
        let kills =
            |scenario: &Scenario| matches!(scenario, Scenario::Plant(Incident::KillA | Incident::KillB));
        if self.secure == Secure::Bridge && self.faults.iter().any(kills) {
            return usage("--faults kill: plain bridges are no processes that could be killed".into());
        }
        let of_frames = |scenario: &Scenario| matches!(scenario, Scenario::Wire(_));
        if self.secure == Secure::Overlay && self.faults.iter().any(of_frames) {
            return usage(
                "--faults: with an overlay kill-a, kill-b, cut and unplug; faults of single frames are judged by MACsec's counters"
                    .into(),
            );
        }
        Ok(())
    }
}

impl Options {
    /// What the gateways' `[macsec]` needs for it, and the section behind.
    fn macsec(&self) -> String {
        let mut lines = String::new();
        if self.mtu.is_some() || self.express {
            lines.push_str("\nfragmentation = \"marked\"");
        }
        if self.express {
            lines.push_str("\n\n[express]\ntraffic = [\"profinet-rt\"]\nrate_mbit = 100");
        }
        lines
    }
}

/// Runs the demonstration. Call it while the process has one thread, from the thread that stays.
///
/// SIGINT and SIGTERM end it early. What was seen so far is told then, and the verdict is bad, for the rest was not seen. Every
/// process is ended and every namespace removed on all ways out.
pub fn run(options: &Options) -> Result<Outcome, Error> {
    options.check()?;
    signal::install();
    if let Some(ports) = &options.ports {
        return ports::run(options, ports);
    }
    let privilege = ns::acquire()?;
    if privilege == Privilege::UserNamespace && options.live {
        println!("Without root: in a user namespace, where the kernel refuses real-time scheduling.");
    }
    ns::sweep();
    let plant = Plant::build(options, privilege)?;
    let mut session = Session::new(plant, options, privilege);
    session.undisturbed(Duration::from_millis(options.milliseconds))?;
    for &scenario in &options.faults {
        if signal::stopping() {
            session.cut_short();
            break;
        }
        session.provoke(scenario)?;
    }
    session.end()
}

/// Whether a result can be written to a file. One that is there stays as it is, and none is left behind.
///
/// # Errors
/// What the system says.
pub fn writable(file: &Path) -> io::Result<()> {
    let there = fs::metadata(file);
    // A pipe may wait for whoever reads it.
    if there.as_ref().is_ok_and(|about| !about.is_file() && !about.is_dir()) {
        return Ok(());
    }
    fs::OpenOptions::new().append(true).create(true).open(file)?;
    if there.is_err() { fs::remove_file(file) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_tried_and_neither_changed_nor_left_behind() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("out");
        writable(&file).expect("can be made");
        assert!(!file.exists());
        fs::write(&file, "kept").expect("a file");
        writable(&file).expect("can be written");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "kept");
        assert!(writable(directory.path()).is_err());
        let nowhere = Options { pcap: Some(directory.path().join("no/x")), ..Options::default() };
        assert!(matches!(nowhere.check(), Err(Error::Usage(what)) if what.starts_with("--pcap ")));
    }
}
