//! A sender that is killed and started again, and what its starts and ends say.

use std::path::Path;
use std::time::{Duration, Instant};

use antedate_lab::ns::Namespace;
use antedate_lab::process::{Place, Process, executable};

use super::heard::{Ear, Heard};
use super::state::State;
use crate::{ExperimentError, failed};

/// Bound of a start until the first packet, and of a refusal.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_micros(500);

/// Runs this program to its end.
pub(crate) fn antedate(arguments: &[&str], namespace: Option<&Namespace>) -> Result<(), ExperimentError> {
    let place = Place { namespace: namespace.map(Namespace::file), cpus: &[] };
    let mut process = Process::start("antedate", &executable()?, arguments, &place)?;
    if process.finish(PATIENCE) {
        return Ok(());
    }
    process.end();
    Err(format!("antedate {}: {}", arguments.join(" "), process.errors().join("; ")).into())
}

/// A sending process, and the place where its packets are heard.
pub(super) struct Victim {
    pub(super) name: &'static str,
    /// The command line.
    arguments: Vec<String>,
    namespace: Option<std::fs::File>,
    /// Kept numbers; `None` with fresh keys at each start.
    pub(super) state: Option<State>,
    ear: Box<dyn Ear>,
    /// Its payloads come by standard input.
    fed: bool,
    process: Option<Process>,
}

/// The end of a start.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Started {
    /// A packet left.
    Sends,
    /// It ended with this status and these last words.
    Refused(Option<i32>, String),
}

impl Victim {
    /// A sender that was never started.
    pub(super) fn new(
        name: &'static str,
        arguments: &[&str],
        namespace: Option<&Namespace>,
        ear: impl Ear + 'static,
    ) -> Result<Self, ExperimentError> {
        let namespace = namespace.map(|space| space.file().try_clone()).transpose()?;
        let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
        Ok(Self { name, arguments, namespace, state: None, ear: Box::new(ear), fed: false, process: None })
    }

    /// Payloads come by standard input.
    pub(super) fn fed(self) -> Self {
        Self { fed: true, ..self }
    }

    /// Takes the early copy of its state directory.
    pub(super) fn keeps(&mut self, directory: &Path) -> Result<(), ExperimentError> {
        self.state = Some(State::of(directory)?);
        Ok(())
    }

    /// Starts the process. Must be called from the main thread.
    pub(super) fn launch(&mut self) -> Result<(), ExperimentError> {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let place = Place { namespace: self.namespace.as_ref(), cpus: &[] };
        self.process = Some(Process::start(self.name, &executable()?, &arguments, &place).map_err(failed)?);
        Ok(())
    }

    /// Feeds and hears it. Returns the number of packets.
    pub(super) fn look(&mut self, heard: &mut Heard) -> Result<u64, ExperimentError> {
        if let Some(process) = self.process.as_mut().filter(|_| self.fed) {
            // One that ends takes no more.
            let _ = process.tell(&heard.packets);
        }
        let before = heard.packets;
        self.ear.hear(heard)?;
        Ok(heard.packets - before)
    }

    /// Waits until it sends or ends.
    pub(super) fn outcome(&mut self, heard: &mut Heard) -> Result<Started, ExperimentError> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if self.look(heard)? > 0 {
                return Ok(Started::Sends);
            }
            if !self.runs() {
                return Ok(self.last_words());
            }
            std::thread::sleep(PAUSE);
        }
        let said = self.process.as_mut().map(|process| process.errors().join("; ")).unwrap_or_default();
        Err(format!("{} sends nothing after its start: {said}", self.name).into())
    }

    /// Whether it runs.
    pub(super) fn runs(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::is_running)
    }

    /// The exit status and the standard error of one that has ended.
    fn last_words(&mut self) -> Started {
        let Some(process) = &mut self.process else { return Started::Refused(None, String::new()) };
        process.end();
        Started::Refused(process.exit_code(), process.errors().join("; "))
    }

    /// Kills it. Returns its standard error, and hears its last packets.
    pub(super) fn kill(&mut self, heard: &mut Heard) -> Result<String, ExperimentError> {
        let Some(mut process) = self.process.take() else { return Ok(String::new()) };
        process.kill()?;
        process.end();
        // Packets in the kernel's queues are under way.
        std::thread::sleep(4 * PAUSE);
        self.ear.hear(heard)?;
        Ok(process.errors().join("; "))
    }
}
