//! Results of experiments in the report's folder: one file each, `results/NAME.json`.
//!
//! A file has the result of `antedate lab NAME --json`, with the digest of the program and the times.
//! A bare result of that command is taken too, if its version and its machine are these. Old,
//! missing and broken ones are set aside, each with its reason.

mod bench;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::run::NEEDED;
use super::{ReportError, Settings, result_file};
use crate::Machine;
pub(super) use bench::Bench;

/// The name of the engine's benchmark among the results.
pub(super) const BENCH: &str = "bench-aead";

/// The command that repeats a result.
pub(super) fn command(experiment: &str) -> String {
    if experiment == BENCH {
        format!("cargo xtask bench aead --json {BENCH}.json")
    } else if is_in_guest(experiment) {
        format!("cargo xtask peers {experiment}")
    } else {
        format!("antedate lab {experiment}")
    }
}

/// The most octets of a result.
const MOST: u64 = 32 << 20;

/// A result as stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    /// The beginning of the digest of the program.
    pub(super) program: String,
    /// The begin of the run in UTC.
    pub(super) began: String,
    /// Its length.
    pub(super) seconds: f64,
    /// A short run.
    pub(super) quick: bool,
    /// The result.
    pub(super) report: Found,
}

/// A result of `antedate lab`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) experiment: String,
    pub(super) machine: Machine,
    pub(super) antedate: String,
    pub(super) rows: Vec<Line>,
    #[serde(default)]
    pub(super) checks: Vec<Goal>,
}

/// A row of a result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) case: String,
    pub(super) metric: String,
    pub(super) unit: String,
    pub(super) baseline: Option<f64>,
    pub(super) antedated: Option<f64>,
    pub(super) note: String,
}

impl Line {
    /// Antedate's number, or else that of the unmodified processing.
    pub(super) fn any(&self) -> Option<f64> {
        self.antedated.or(self.baseline)
    }
}

/// A goal of a result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Goal {
    pub(super) what: String,
    pub(super) met: bool,
}

/// What became of an experiment's result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", tag = "is", content = "why")]
pub enum State {
    /// It is shown.
    Taken,
    /// There is none.
    Missing,
    /// It has another build, machine or length.
    Old(String),
    /// The file cannot be read as a result.
    Broken(String),
    /// The experiment ended without a result.
    Failed(String),
}

impl State {
    /// Whether the result is shown.
    #[must_use]
    pub const fn is_taken(&self) -> bool {
        matches!(self, Self::Taken)
    }

    /// As people read it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Taken => "shown".into(),
            Self::Missing => "missing: it has not run".into(),
            Self::Old(why) => format!("old: {why}"),
            Self::Broken(why) => format!("broken: {why}"),
            Self::Failed(why) => format!("failed: {why}"),
        }
    }
}

/// A result and its origin.
#[derive(Clone, Debug, Serialize)]
pub struct Source {
    /// The experiment.
    pub experiment: String,
    /// Whether it is shown.
    pub state: State,
    /// The begin of its run, if known.
    pub began: String,
    /// The length of its run in seconds.
    pub seconds: f64,
    /// Whether the run was a short one.
    pub quick: bool,
    /// A remark: the origin of a result of another build that is shown all the same.
    pub remark: String,
    /// Goals of the experiment, and the ones that were met.
    pub goals: [usize; 2],
}

/// The results of a report.
#[derive(Debug, Default)]
pub(super) struct Results {
    taken: BTreeMap<String, Stored>,
    bench: Option<Bench>,
    pub(super) sources: Vec<Source>,
}

impl Results {
    /// Reads the results that a report needs, and those of our own experiments if they have run.
    pub(super) fn read(settings: &Settings, program: &str, machine: &Machine) -> Self {
        let mut results = Self::default();
        for needed in NEEDED {
            if settings.only.is_some_and(|only| !needed.serves(only)) {
                continue;
            }
            let (stored, state) = take(settings, needed.name, program, machine);
            // Nobody expects these.
            if (needed.paper.is_empty() || needed.guest) && state == State::Missing {
                continue;
            }
            results.add(needed.name, stored, state, program);
        }
        if settings.only.is_none() {
            results.read_bench(settings, machine);
        }
        results
    }

    /// Adds an experiment's result.
    pub(super) fn add(&mut self, experiment: &str, stored: Option<Stored>, state: State, program: &str) {
        let mut source = Source {
            experiment: experiment.into(),
            state,
            began: String::new(),
            seconds: 0.0,
            quick: false,
            remark: String::new(),
            goals: [0; 2],
        };
        if let Some(stored) = stored {
            let met = stored.report.checks.iter().filter(|goal| goal.met).count();
            source.goals = [stored.report.checks.len(), met];
            (source.began, source.seconds, source.quick) =
                (stored.began.clone(), stored.seconds, stored.quick);
            if stored.program != program {
                source.remark = format!("made by another build, of version {}", stored.report.antedate);
            }
            if source.state.is_taken() {
                self.taken.insert(experiment.into(), stored);
            }
        }
        self.sources.push(source);
    }

    /// Whether a short run is among the results.
    pub(super) fn any_quick(&self) -> bool {
        self.taken.values().any(|stored| stored.quick)
    }

    /// The result of an experiment.
    pub(super) fn get(&self, experiment: &str) -> Option<&Stored> {
        self.taken.get(experiment)
    }

    /// A row of an experiment.
    pub(super) fn line(&self, experiment: &str, case: &str, metric: &str) -> Option<&Line> {
        self.lines(experiment, case, metric).next()
    }

    /// The rows of an experiment with these names; they differ in their units.
    pub(super) fn lines(&self, experiment: &str, case: &str, metric: &str) -> impl Iterator<Item = &Line> {
        let rows = self.get(experiment).into_iter().flat_map(|stored| &stored.report.rows);
        rows.filter(move |line| line.case == case && line.metric == metric)
    }

    /// Why a row of an experiment is not there.
    pub(super) fn why(&self, experiment: &str, case: &str, metric: &str) -> String {
        let Some(stored) = self.get(experiment) else {
            let source = self.sources.iter().find(|source| source.experiment == experiment);
            let state = source.map_or_else(|| State::Missing.text(), |source| source.state.text());
            let guest = is_in_guest(experiment);
            let how = if guest {
                format!(
                    "; `cargo xtask peers {experiment}` runs it in a guest, and names the file for the folder results"
                )
            } else {
                String::new()
            };
            return format!("the result of {experiment} is {state}{how}");
        };
        // Experiments name what this machine lacks.
        let left_out = |line: &&Line| line.metric == "left out" && line.case == case;
        if let Some(line) = stored.report.rows.iter().find(left_out) {
            return format!("{case} is not on this machine: {}", line.note);
        }
        let short = if stored.quick { ", and its short form leaves cases out" } else { "" };
        format!("{experiment} has no row \"{case}\", \"{metric}\"{short}")
    }
}

/// Reads an experiment's result and decides whether it is shown.
pub(super) fn take(
    settings: &Settings,
    experiment: &str,
    program: &str,
    machine: &Machine,
) -> (Option<Stored>, State) {
    let file = result_file(&settings.folder, experiment);
    // The words of a failed run.
    let failed = text_of(&file.with_extension("failed")).ok().flatten().map(|why| one_line(&why));
    let text = match text_of(&file) {
        Ok(Some(text)) => text,
        Ok(None) => return (None, failed.map_or(State::Missing, State::Failed)),
        Err(error) => return (None, State::Broken(error.to_string())),
    };
    let stored = match parse(&text) {
        Ok(stored) => stored,
        Err(error) => return (None, State::Broken(error.to_string())),
    };
    if stored.report.experiment != experiment {
        let why = format!("it is a result of {}", stored.report.experiment);
        return (None, State::Broken(why));
    }
    let state = match age(&stored, settings, program, machine) {
        Some(why) if !settings.old => State::Old(match failed {
            Some(failed) => format!("{why}; the run that was to replace it failed: {failed}"),
            None => why,
        }),
        _ => State::Taken,
    };
    (Some(stored), state)
}

/// Parses a stored result, or a bare one of `antedate lab`, whose program is unknown.
fn parse(text: &str) -> Result<Stored, serde_json::Error> {
    serde_json::from_str::<Stored>(text).or_else(|error| {
        let bare: Result<Bare, _> = serde_json::from_str(text);
        // The error of the usual form tells more.
        let bare = bare.map_err(|_| error)?;
        Ok(Stored {
            program: String::new(),
            began: String::new(),
            seconds: 0.0,
            quick: bare.quick,
            report: bare.report,
        })
    })
}

/// A result of `antedate lab NAME --json`.
#[derive(Deserialize)]
struct Bare {
    #[serde(default)]
    quick: bool,
    #[serde(flatten)]
    report: Found,
}

/// Why a result does not belong into this report, if so.
fn age(stored: &Stored, settings: &Settings, program: &str, machine: &Machine) -> Option<String> {
    let report = &stored.report;
    if report.antedate != env!("CARGO_PKG_VERSION") {
        return Some(format!("made by version {}", report.antedate));
    }
    if !stored.program.is_empty() && stored.program != program {
        return Some("made by another build of this version".into());
    }
    let of =
        |machine: &Machine| format!("{}, {} cores, Linux {}", machine.cpu, machine.cores, machine.kernel);
    // A guest is another machine, and another build has made its program.
    if is_in_guest(&report.experiment) {
        return None;
    }
    if of(&report.machine) != of(machine) {
        return Some(format!("made on another machine: {}", of(&report.machine)));
    }
    (stored.quick && !settings.quick).then(|| "a short run, in a report of full ones".into())
}

/// Whether a guest runs this experiment.
pub(super) fn is_in_guest(experiment: &str) -> bool {
    NEEDED.iter().any(|needed| needed.guest && needed.name == experiment)
}

/// The content of a file, if it is there.
fn text_of(file: &Path) -> std::io::Result<Option<String>> {
    let mut text = String::new();
    let open = match File::open(file) {
        Ok(open) => open,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    open.take(MOST).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// The lines of a text as one, in a length that a table bears.
pub(super) fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = if lines.is_empty() { "it said nothing".to_owned() } else { lines.join(" ") };
    line.chars().take(400).collect()
}

/// The beginning of the SHA-256 of a file, in hex.
pub(super) fn digest(file: &Path) -> Result<String, ReportError> {
    let fault = |source| ReportError::Folder { path: file.into(), source };
    let mut file_of = File::open(file).map_err(fault)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file_of.read(&mut buffer).map_err(fault)? {
            0 => break,
            len => hash.update(&buffer[..len]),
        }
    }
    Ok(hash.finalize().iter().take(8).map(|octet| format!("{octet:02x}")).collect())
}

/// The time in UTC.
pub(super) fn now() -> String {
    let now = OffsetDateTime::now_utc();
    let whole = now.replace_nanosecond(0).unwrap_or(now);
    whole.format(&Rfc3339).unwrap_or_default()
}
