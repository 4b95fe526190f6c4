//! `antedate gateway events`: conditions as they begin and end.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use antedate_gateway::run::control::{Reply, Request, ask};
use antedate_gateway::run::status::{Status, Warning};
use antedate_host::fault::Fault;
use clap::Args;
use serde::Serialize;

use super::Running;
use crate::failure::Done;
use crate::output;

/// Time for a program that takes an event.
const PATIENCE: Duration = Duration::from_secs(10);
/// The condition of a gateway that does not answer.
const SILENT: &str = "no-answer";

#[derive(Args)]
pub(crate) struct Events {
    #[command(flatten)]
    running: Running,
    /// Seconds between two looks at the gateway.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    /// Start this program for each event, with its line on standard input.
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// A look at a gateway.
enum Seen {
    Status(Box<Status>),
    /// It does not answer, with the reason.
    Silence(String),
}

/// A condition's name and subject.
type Key = (String, String);

#[derive(Debug, Serialize)]
struct Event<'a> {
    /// Seconds since 1970.
    time: f64,
    /// `begin`, `end` or `restart`.
    event: &'a str,
    name: &'a str,
    about: &'a str,
    /// The condition has lasted so long.
    seconds: f64,
    notice: bool,
    what: &'a str,
    remedy: &'a str,
}

impl Events {
    pub(crate) fn run(self) -> Done {
        let mut known = Known::default();
        loop {
            let seen = self.look();
            for line in known.take(&seen, unix_time()) {
                output::print(&line)?;
                self.hand_over(&line)?;
            }
            sleep(Duration::from_secs(self.every));
        }
    }

    fn look(&self) -> Seen {
        match ask(&self.running.socket, Request::Status {}) {
            Ok(Reply { status: Some(status), .. }) => Seen::Status(status),
            Ok(reply) => Seen::Silence(reply.message),
            Err(fault) => Seen::Silence(format!("{}: {}", fault.file.display(), fault.what)),
        }
    }

    /// Starts the program, and waits for it. A program that fails is told, and the next event is
    /// handed over all the same. One that cannot be started ends the command.
    fn hand_over(&self, line: &str) -> Done {
        let Some((program, arguments)) = self.program.split_first() else { return Ok(()) };
        let started = Command::new(program).args(arguments).stdin(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| {
            Fault::of_file(
                program.as_ref(),
                format!("cannot be started: {error}"),
                "name a program behind `--`, with its arguments",
            )
        })?;
        if let Some(mut input) = child.stdin.take() {
            // A program that reads nothing may have ended.
            let _ = input.write_all(line.as_bytes());
        }
        if let Some(why) = failure(&mut child) {
            output::tell(format!("antedate: {program}: {why}"));
        }
        Ok(())
    }
}

/// Waits for a program's end. Returns the reason if it failed.
fn failure(child: &mut Child) -> Option<String> {
    let end = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return (!status.success()).then(|| status.to_string()),
            Ok(None) if Instant::now() < end => sleep(Duration::from_millis(10)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Some(format!("did not end within {} s, and was killed", PATIENCE.as_secs()));
            }
            Err(error) => return Some(error.to_string()),
        }
    }
}

fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// The conditions that last.
#[derive(Default)]
struct Known {
    lasting: BTreeMap<Key, (Warning, f64)>,
    pid: Option<u32>,
}

impl Known {
    /// Compares with the last look, and returns a line for each difference: ends before begins.
    fn take(&mut self, seen: &Seen, now: f64) -> Vec<String> {
        let mut lines = Vec::new();
        let warnings = match seen {
            Seen::Status(status) => {
                if self.pid.replace(status.pid).is_some_and(|before| before != status.pid) {
                    let what = format!("the gateway was started again, as process {}", status.pid);
                    let restart =
                        Warning { name: "restart".into(), what, notice: true, ..Warning::default() };
                    lines.push(line("restart", &restart, 0.0, now));
                }
                status.warnings.clone()
            }
            Seen::Silence(why) => {
                let remedy = "look for its reason: journalctl -u antedate-gateway";
                let warning = Warning {
                    name: SILENT.into(),
                    what: why.clone(),
                    remedy: remedy.into(),
                    ..Warning::default()
                };
                // Nothing is known of the others.
                let others = self.lasting.values().map(|(warning, _)| warning.clone());
                let others = others.filter(|warning| warning.name != SILENT);
                others.chain([warning]).collect()
            }
        };
        let now_lasting: BTreeMap<Key, Warning> = warnings
            .into_iter()
            .map(|warning| ((warning.name.clone(), warning.about.clone()), warning))
            .collect();
        self.lasting.retain(|key, (warning, since)| {
            let lasts = now_lasting.contains_key(key);
            if !lasts {
                lines.push(line("end", warning, now - *since, now));
            }
            lasts
        });
        for (key, warning) in now_lasting {
            self.lasting.entry(key).or_insert_with(|| {
                lines.push(line("begin", &warning, warning.seconds, now));
                let since = now - warning.seconds;
                (warning, since)
            });
        }
        lines
    }
}

fn line(event: &str, warning: &Warning, seconds: f64, time: f64) -> String {
    let Warning { name, about, what, remedy, notice, .. } = warning;
    let event = Event { time, event, name, about, seconds, notice: *notice, what, remedy };
    // Texts and numbers only, which JSON can write.
    let mut line = serde_json::to_string(&event).unwrap_or_default();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pid: u32, names: &[(&str, &str)]) -> Seen {
        let warning = |(name, about): &(&str, &str)| Warning {
            name: (*name).into(),
            about: (*about).into(),
            seconds: 2.0,
            ..Warning::default()
        };
        let warnings = names.iter().map(warning).collect();
        Seen::Status(Box::new(Status { pid, warnings, ..Status::default() }))
    }

    fn told(known: &mut Known, seen: &Seen, now: f64) -> Vec<String> {
        let read = |line: String| {
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            let text = |key: &str| value[key].as_str().unwrap().to_owned();
            format!("{} {} {} {}", text("event"), text("name"), text("about"), value["seconds"])
        };
        known.take(seen, now).into_iter().map(read).collect()
    }

    #[test]
    fn conditions_begin_and_end_once() {
        let mut known = Known::default();
        assert!(told(&mut known, &status(7, &[]), 100.0).is_empty());
        let two = status(7, &[("peer-lost", "hall"), ("peer-lost", "yard")]);
        assert_eq!(told(&mut known, &two, 110.0), ["begin peer-lost hall 2.0", "begin peer-lost yard 2.0"]);
        assert!(told(&mut known, &two, 111.0).is_empty());
        assert_eq!(
            told(&mut known, &status(7, &[("peer-lost", "yard")]), 120.0),
            ["end peer-lost hall 12.0"]
        );
        assert_eq!(told(&mut known, &status(7, &[]), 130.0), ["end peer-lost yard 22.0"]);
    }

    #[test]
    fn silence_is_a_condition_and_ends_no_other() {
        let mut known = Known::default();
        told(&mut known, &status(7, &[("no-key", "")]), 100.0);
        assert_eq!(told(&mut known, &Seen::Silence("gone".into()), 101.0), ["begin no-answer  0.0"]);
        assert!(told(&mut known, &Seen::Silence("still gone".into()), 102.0).is_empty());
        assert_eq!(
            told(&mut known, &status(8, &[]), 103.0),
            ["restart restart  0.0", "end no-answer  2.0", "end no-key  5.0"]
        );
    }
}
