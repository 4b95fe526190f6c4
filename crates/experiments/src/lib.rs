//! The experiments: one file each. An experiment reproduces a paper's measurement and compares
//! Antedate with it.
//!
//! `antedate lab NAME` runs one by its entry in [`ALL`]. A new experiment is a file and an entry.
//!
//! - [`Report`]: rows and checks of a run, as table and JSON
//! - [`figure`]: the same as a figure
//! - [`planned`]: points of the laboratory beside the planner's predictions
//! - [`papers`]: every number of the papers beside ours, in one page
//! - [`msp430`]: the emulated mote

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use antedate_lab::ns;
use antedate_lab::process::sweep_directories;
use antedate_lab::sys::signal;

mod aead;
mod attack;
mod ciphers;
mod dtls;
mod error;
pub mod figure;
mod formulas;
mod fragmentation;
mod goose;
mod link;
mod motes;
mod mqtt;
pub mod msp430;
mod nonces;
mod overlay;
pub mod papers;
pub mod planned;
mod report;
mod scenarios;
mod soak;
mod timeslot;

pub use error::ExperimentError;
pub(crate) use error::failed;
pub use report::{Check, Machine, Report, Row};

/// An experiment of `antedate lab`.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// Short name of the paper, or empty.
    pub paper: &'static str,
    /// Description in one line.
    pub shows: &'static str,
    /// Runs it.
    pub run: fn(&Options) -> Result<Report, ExperimentError>,
}

/// Options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Shorter series and fewer cases: a smoke test, not a measurement.
    pub quick: bool,
    /// `nonces`: SIGKILLs.
    pub kills: Option<u32>,
    /// `attack`: the only one to run.
    pub only: Option<&'static str>,
    /// `soak`: minutes.
    pub minutes: Option<u32>,
}

/// Every experiment.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "aead",
        paper: "hiller2018",
        shows: "what antedating saves on this machine, per suite, length and new blocks",
        run: aead::run,
    },
    Experiment {
        name: "motes",
        paper: "hiller2018",
        shows: "what antedating saves on emulated motes, beside the paper's figures, and what our code needs there",
        run: motes::run,
    },
    Experiment {
        name: "scenarios",
        paper: "hiller2018",
        shows: "which industrial scenarios meet their deadlines on motes, as they are, antedated, and with sparse templates",
        run: scenarios::run,
    },
    Experiment {
        name: "dtls",
        paper: "hiller2018",
        shows: "what the DTLS proxy adds to a device's round trip, antedated, not prepared, and beside plain relays",
        run: dtls::run,
    },
    Experiment {
        name: "mqtt",
        paper: "katsikeas2017",
        shows: "what protecting MQTT payloads costs, per cipher and size: mqtt-host and mqtt-motes together",
        run: mqtt::run,
    },
    Experiment {
        name: "mqtt-host",
        paper: "katsikeas2017",
        shows: "what it adds to the way over a real broker and back on this machine, and publishes in a second",
        run: mqtt::run_host,
    },
    Experiment {
        name: "mqtt-motes",
        paper: "katsikeas2017",
        shows: "what it takes of emulated motes: cycles, memory, CPU, power, round trip; and the wind park",
        run: mqtt::run_motes,
    },
    Experiment {
        name: "mqtt-proxy",
        paper: "katsikeas2017",
        shows: "what the MQTT proxy adds to the round trip of unchanged applications, beside plain TCP relays",
        run: mqtt::proxy::run,
    },
    Experiment {
        name: "timeslot",
        paper: "sciancalepore2016",
        shows: "how short security lets a TSCH timeslot be, on two motes, at all levels, as it is and antedated",
        run: timeslot::run,
    },
    Experiment {
        name: "fragmentation",
        paper: "lackorzynski2020",
        shows: "full frames in MACsec fragments: round trips, throughput, cyclic frames behind bulk",
        run: fragmentation::run,
    },
    Experiment {
        name: "fragmentation-cycles",
        paper: "lackorzynski2020",
        shows: "of it what cyclic frames wait for behind bulk, and while keys change",
        run: fragmentation::run_cycles,
    },
    Experiment {
        name: "fragmentation-keys",
        paper: "lackorzynski2020",
        shows: "of that how late a change of keys makes a cyclic frame, three minutes",
        run: fragmentation::run_keys,
    },
    Experiment {
        name: "overlay",
        paper: "hohmann2020",
        shows: "layer 2 between sites through bridges, kernel tunnels and ours: overlay-paths, overlay-cycles and overlay-release together",
        run: overlay::run,
    },
    Experiment {
        name: "overlay-paths",
        paper: "hohmann2020",
        shows: "round trips and TCP on each path, five minutes",
        run: overlay::run_paths,
    },
    Experiment {
        name: "overlay-kernel",
        paper: "hohmann2020",
        shows: "of it round trips beside the kernel's WireGuard, on a kernel that has it",
        run: overlay::run_kernel,
    },
    Experiment {
        name: "overlay-tcp",
        paper: "hohmann2020",
        shows: "of it what one TCP connection carries on each path, in more rounds, four minutes",
        run: overlay::run_tcp,
    },
    Experiment {
        name: "overlay-release",
        paper: "hohmann2020",
        shows: "the release clock: cyclic frames that are late by up to 300 us each, and how evenly they leave, three minutes",
        run: overlay::run_release,
    },
    Experiment {
        name: "overlay-cycles",
        paper: "hohmann2020",
        shows: "cyclic Profinet on each path, bus errors and the shortest cycle without one, 25 minutes",
        run: overlay::run_cycles,
    },
    Experiment {
        name: "ciphers",
        paper: "lackorzynski2020",
        shows: "the ciphers of MACsec on this CPU, and without its AES and vector instructions",
        run: ciphers::run,
    },
    Experiment {
        name: "formulas",
        paper: "",
        shows: "what follows from formats and keys alone: times on the air, lengths, numbers of AES operations",
        run: formulas::run,
    },
    Experiment {
        name: "nonces",
        paper: "",
        shows: "senders killed under traffic, with damaged, exchanged and moved state: no nonce leaves twice",
        run: nonces::run,
    },
    Experiment {
        name: "attack",
        paper: "",
        shows: "attacks on the wire, at a machine's port and at the control socket: refused, counted, nothing comes out",
        run: attack::run,
    },
    Experiment {
        name: "goose",
        paper: "",
        shows: "sampled values at 4,800 frames a second and trips: protected against plain, and against one block",
        run: goose::run,
    },
    Experiment {
        name: "soak",
        paper: "",
        shows: "half an hour of key changes, link flaps, stalls and attacks: memory, descriptors and round trips over time",
        run: soak::run,
    },
];

impl Options {
    /// Shows the progress on a terminal, in one line that the next one replaces. Prints nothing to
    /// a pipe.
    pub fn progress(&self, done: usize, of: usize, what: &str) {
        let mut out = std::io::stderr();
        if out.is_terminal() {
            let line: String = format!("{done}/{of} {what}").chars().take(78).collect();
            let end = if done >= of { "\r\x1b[K" } else { "" };
            let _ = write!(out, "\r\x1b[K{line}{end}").and_then(|()| out.flush());
        }
    }
}

/// Prefixes of an experiment's directories; the process ID follows.
const FILES: [&str; 2] = ["antedate-lab-", "antedate-lab-overlay-"];

/// Acquires the right to build topologies and removes the remains of killed runs. A signal ends
/// this run and removes its topology.
fn in_namespaces() -> Result<(), ExperimentError> {
    ns::acquire()?;
    ns::sweep();
    ends_with_signals();
    Ok(())
}

/// Lets a signal end this run and remove its files and namespaces. Removes the files of killed
/// runs.
fn ends_with_signals() {
    sweep_directories(&std::env::temp_dir(), &FILES);
    signal::install();
    // The experiment may block anywhere, so a thread watches for the signal.
    std::thread::spawn(|| {
        while !signal::stopping() {
            std::thread::sleep(Duration::from_millis(50));
        }
        ns::remove_own();
        for begin in FILES {
            let _ = std::fs::remove_dir_all(files(begin));
        }
        overlay::remove_sockets();
        // Exits even if the message cannot be written.
        let _ = writeln!(std::io::stderr(), "antedate: interrupted, which is no result");
        std::process::exit(1);
    });
}

/// The directory of this process's files.
fn files(begin: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{begin}{}", std::process::id()))
}

/// Finds an attack's name.
#[must_use]
pub fn attack_named(name: &str) -> Option<&'static str> {
    attack::names().find(|known| *known == name)
}

/// The names of all attacks.
#[must_use]
pub fn attack_names() -> Vec<&'static str> {
    attack::names().collect()
}

/// Finds an experiment by name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (i, experiment) in ALL.iter().enumerate() {
            assert_eq!(ALL.iter().position(|other| other.name == experiment.name), Some(i));
            assert!(find(experiment.name).is_some());
        }
        assert!(find("no such experiment").is_none());
    }

    #[test]
    fn sweep_keeps_live_runs_and_evidence() {
        let directory = tempfile::tempdir().expect("a directory");
        // No process has this ID.
        let (dead, lives) = (u32::MAX, std::process::id());
        let names = [format!("antedate-lab-{dead}"), format!("antedate-lab-overlay-{dead}")];
        let kept =
            [format!("antedate-lab-{lives}"), "antedate-lab-overlay-failed-7.txt".into(), "else".into()];
        for name in names.iter().chain(&kept) {
            std::fs::create_dir(directory.path().join(name)).expect("made");
        }
        sweep_directories(directory.path(), &FILES);
        assert!(names.iter().all(|name| !directory.path().join(name).exists()));
        assert!(kept.iter().all(|name| directory.path().join(name).exists()));
    }
}
