//! The demonstration: does a machine keep its cycle behind these gateways?
//!
//! A virtual PLC and IO device exchange Profinet frames through two real gateway processes over an
//! untrusted wire with a tap; then follows a verdict.
//!
//! - [`scenario`]: the names of `--faults`,
//! - [`placement`]: cores of the processes,
//! - `plant`, `gateway`: building and stopping,
//! - `phases`: undisturbed operation, then one fault after the other,
//! - `view`: the live view on a terminal,
//! - `pages`: the gateways' pages in a browser,
//! - [`verdict`]: the result as text and as JSON,
//! - [`redundant`]: two gateways a side and two uplinks instead,
//! - `ports`: one gateway on real interfaces instead.

mod gateway;
mod pages;
mod phases;
pub mod placement;
mod plant;
mod ports;
pub mod redundant;
pub mod scenario;
pub mod verdict;
mod view;

use std::fs;
use std::io;
use std::net::SocketAddr;
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

/// Protection of the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Secure {
    /// Protected by MACsec.
    #[default]
    Macsec,
    /// In VXLAN through WireGuard, by the gateways' overlay.
    Overlay,
    /// Forwarded in clear by the same gateways, for comparison.
    None,
    /// Forwarded by plain Linux bridges instead of gateways, for comparison.
    Bridge,
}

impl FromStr for Secure {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "macsec" => Ok(Self::Macsec),
            "overlay" => Ok(Self::Overlay),
            "none" => Ok(Self::None),
            "bridge" => Ok(Self::Bridge),
            _ => Err(OptionError(format!("`{text}` is none of macsec, overlay, none, bridge"))),
        }
    }
}

impl Secure {
    /// Whether frames must be unreadable on the wire.
    #[must_use]
    pub const fn protects(self) -> bool {
        matches!(self, Self::Macsec | Self::Overlay)
    }
}

/// Options of a demonstration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Options {
    /// Protection of the wire.
    pub secure: Secure,
    /// The update time in microseconds.
    pub cycle_us: u32,
    /// Milliseconds of undisturbed operation, the basis of the verdict.
    pub milliseconds: u64,
    /// Octets of a cyclic frame without frame check sequence.
    pub frame_bytes: usize,
    /// MTU of the wire, if below the longest frames; longer ones are fragmented.
    pub mtu: Option<u16>,
    /// Cyclic frames have an express channel and pass between the fragments of others.
    pub express: bool,
    /// Faults afterwards, one by one.
    pub faults: Vec<Scenario>,
    /// Seed of the faults' schedule.
    pub seed: u64,
    /// File for a recording of the wire.
    pub pcap: Option<PathBuf>,
    /// One gateway on real interfaces instead of the plant.
    pub ports: Option<Ports>,
    /// With real interfaces: the keys are unused, so packet numbers begin at 1.
    pub first: bool,
    /// Draws a live view on standard output.
    pub live: bool,
    /// Shows the page of gateway A here, and that of B at the next port.
    #[serde(skip)]
    pub page: Option<SocketAddr>,
}

impl Default for Options {
    /// The values of hohmann2020, for ten seconds.
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
            page: None,
        }
    }
}

/// Why the value of an option was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionError(pub(crate) String);

/// Why there is no verdict. Exit status 2.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The plant could not be built.
    #[error(transparent)]
    Namespaces(#[from] ns::NamespaceError),
    /// An option is impossible.
    #[error("{0}")]
    Usage(String),
    /// Something could not be started.
    #[error("cannot start {0}")]
    Start(String),
    /// A process ended early.
    #[error("{name} ended: {}", if said.is_empty() { "it said nothing" } else { said })]
    Process {
        /// Its name.
        name: String,
        /// Its standard error.
        said: String,
    },
}

impl DemoError {
    fn process(name: &str, said: impl Into<String>) -> Self {
        Self::Process { name: name.to_owned(), said: said.into() }
    }
}

/// The result of a demonstration.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// All checks passed: exit status 0, otherwise 1.
    pub passed: bool,
    /// The verdict as text.
    pub text: String,
    /// The verdict as JSON, for `--json`.
    pub report: Report,
}

impl Options {
    fn check(&self) -> Result<(), DemoError> {
        let usage = |text: String| Err(DemoError::Usage(text));
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
        if self.page.is_some() && (self.secure == Secure::Bridge || self.ports.is_some()) {
            return usage("--page: only the gateways of the virtual plant have one".into());
        }
        let kills =
            |scenario: &Scenario| matches!(scenario, Scenario::Plant(Incident::KillA | Incident::KillB));
        if self.secure == Secure::Bridge && self.faults.iter().any(kills) {
            return usage("--faults kill: plain bridges are no processes that could be killed".into());
        }
        Ok(())
    }
}

impl Options {
    /// More lines of the gateways' `[macsec]`, and further sections.
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

/// Runs the demonstration. Must be called with one thread in the process, from the thread that
/// stays.
///
/// SIGINT and SIGTERM end it early. The outcome then has the results so far and a failed verdict.
/// On every return all processes and namespaces are removed.
pub fn run(options: &Options) -> Result<Outcome, DemoError> {
    options.check()?;
    signal::install();
    if let Some(ports) = &options.ports {
        return ports::run(options, ports);
    }
    // The sockets stay in this network; a user namespace has one of its own.
    let pages = options.page.map(pages::open).transpose()?;
    let privilege = ns::acquire()?;
    if privilege == Privilege::UserNamespace && options.live {
        println!("Without root: in a user namespace, where the kernel refuses real-time scheduling.");
    }
    ns::sweep();
    let plant = Plant::build(options, privilege)?;
    let _pages = pages.map(|pages| pages::serve(pages, &plant.gateways)).transpose()?;
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

/// Checks that a result can be written to a file, without changing or leaving one.
///
/// # Errors
/// Opening the file failed.
pub fn writable(file: &Path) -> io::Result<()> {
    let there = fs::metadata(file);
    // Opening a pipe would wait for its reader.
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
    fn writable_check_leaves_file_unchanged() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("out");
        writable(&file).expect("can be made");
        assert!(!file.exists());
        fs::write(&file, "kept").expect("a file");
        writable(&file).expect("can be written");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "kept");
        assert!(writable(directory.path()).is_err());
        let nowhere = Options { pcap: Some(directory.path().join("no/x")), ..Options::default() };
        assert!(matches!(nowhere.check(), Err(DemoError::Usage(what)) if what.starts_with("--pcap ")));
    }
}
