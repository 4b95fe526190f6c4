//! The request to read the configuration again, from SIGHUP and the control socket, to the main
//! thread.
//!
//! The main thread reads the files, for it has the rights and knows the running configuration.
//! Either all of a file is taken over or nothing.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use antedate_host::fault::Faults;
use antedate_host::hangup::Hangup;

use crate::run::control::CommandError;

/// The longest wait for the main thread. A client of the control socket waits a second longer.
const PATIENCE: Duration = Duration::from_secs(4);
/// The longest wait for a forwarding thread that takes over settings.
pub(crate) const TAKEN_OVER: Duration = Duration::from_secs(2);

type Answer = Sender<Result<String, CommandError>>;

/// The requesting side.
#[derive(Debug, Clone)]
pub struct Door(Sender<Answer>);

/// The main thread's side.
#[derive(Debug)]
pub struct Reloads<'a> {
    hangup: &'a Hangup,
    asked: Receiver<Answer>,
}

impl Door {
    /// Has the configuration read again, and waits for the result.
    ///
    /// # Errors
    /// When it has faults, or changes what needs a restart. Everything stays as it was.
    pub fn reload(&self) -> Result<String, CommandError> {
        let (answer, answers) = mpsc::channel();
        let silent = || CommandError {
            what: "the main thread does not answer".into(),
            remedy: "see the log: the result of the reload will be there".into(),
        };
        self.0.send(answer).map_err(|_| silent())?;
        answers.recv_timeout(PATIENCE).map_err(|_| silent())?
    }
}

impl<'a> Reloads<'a> {
    /// Both sides. SIGHUP is a request from now on.
    #[must_use]
    pub fn new(hangup: &'a Hangup) -> (Door, Self) {
        hangup.watch();
        let (door, asked) = mpsc::channel();
        (Door(door), Self { hangup, asked })
    }

    /// Serves the requests since the last call by one call of `reload`, whose sentence it logs.
    pub fn serve(&self, reload: impl FnOnce() -> Result<String, Faults>) {
        let (by_signal, asked) = (self.hangup.take(), self.asked.try_iter().collect::<Vec<_>>());
        if !by_signal && asked.is_empty() {
            return;
        }
        let result = reload().map_err(|faults| {
            for fault in faults.iter() {
                tracing::error!("nothing is taken over: {fault:#}");
            }
            let all: Vec<String> = faults.iter().map(|fault| format!("{fault:#}")).collect();
            let remedy = "mend the file and reload again; all stays as it was".into();
            CommandError { what: all.join("; "), remedy }
        });
        if let Ok(what) = &result {
            tracing::info!("read again: {what}");
        }
        for answer in asked {
            // Who asked may have given up.
            let _ = answer.send(result.clone());
        }
    }
}

/// The sentence about settings that were taken over, and about `more`.
pub(crate) fn told(file: &Path, changed: &[&str], more: Option<String>) -> String {
    let settings = match (changed, &more) {
        ([], None) => Some("nothing has changed".to_owned()),
        ([], Some(_)) => None,
        (changed, _) => Some(format!("{} taken over", changed.join(", "))),
    };
    let settings = settings.map(|settings| format!("{}: {settings}", file.display()));
    [settings, more].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::thread;

    use antedate_host::fault::Fault;

    use super::*;

    #[test]
    fn one_reading_serves_all_requests() {
        let hangup = Hangup::default();
        let (door, reloads) = Reloads::new(&hangup);
        let calls = Cell::new(0);
        let count = || calls.set(calls.get() + 1);
        reloads.serve(|| Ok("nobody asked".into()).inspect(|_| count()));
        assert_eq!(calls.get(), 0);
        assert!(hangup.raise());
        let asking: Vec<_> =
            (0..3).map(|_| door.clone()).map(|door| thread::spawn(move || door.reload())).collect();
        while asking.iter().any(|asking| !asking.is_finished()) {
            reloads.serve(|| Ok("all is new".into()).inspect(|_| count()));
        }
        let answers: Vec<_> = asking.into_iter().map(|asking| asking.join().unwrap()).collect();
        assert_eq!(answers, vec![Ok("all is new".to_owned()); 3]);
        assert!((1..=4).contains(&calls.get()) && !hangup.take(), "{}", calls.get());
    }

    #[test]
    fn faults_are_told_with_remedies() {
        let hangup = Hangup::default();
        let (door, reloads) = Reloads::new(&hangup);
        let asking = thread::spawn(move || door.reload());
        while !asking.is_finished() {
            let fault = Fault::of_file(Path::new("gateway.toml"), "is no configuration", "write one");
            reloads.serve(|| Err(fault.into()));
        }
        let refused = asking.join().unwrap().unwrap_err();
        assert_eq!(refused.what, "gateway.toml: is no configuration (remedy: write one)");
        drop(reloads);
        let (door, reloads) = Reloads::new(&hangup);
        drop(reloads);
        assert!(door.reload().is_err(), "nobody serves");
    }
}
