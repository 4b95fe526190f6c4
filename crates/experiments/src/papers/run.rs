//! Runs the experiments whose results are missing: one process of this program each, so that none
//! disturbs the next, and a result that is done stays.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use antedate_lab::sys::process::{Signal, arrange, signal as send};
use antedate_lab::sys::signal;

use super::results::{State, Stored, digest, now, one_line, take};
use super::{ReportError, Settings, result_file};
use crate::Machine;

/// An experiment of the report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needed {
    pub(super) name: &'static str,
    /// Its paper; empty for an experiment of our own, which is shown if it has run.
    pub(super) paper: &'static str,
    /// It needs a kernel that few machines have, so that a guest runs it; shown if it has run.
    pub(super) guest: bool,
    /// Seconds that it takes on two cores: the short form, the full one. They serve the estimate of
    /// the time left.
    seconds: [u32; 2],
}

impl Needed {
    /// Whether a report on this paper needs it.
    pub(super) fn serves(&self, paper: &str) -> bool {
        self.paper == paper || self.paper == "all"
    }
}

const fn needed(name: &'static str, paper: &'static str, seconds: [u32; 2]) -> Needed {
    Needed { name, paper, guest: false, seconds }
}

/// The experiments of a report in their order: those first that say early what the machine lacks.
pub(super) const NEEDED: &[Needed] = &[
    needed("formulas", "all", [1, 1]),
    needed("motes", "hiller2018", [5, 5]),
    needed("scenarios", "hiller2018", [25, 25]),
    needed("aead", "hiller2018", [5, 30]),
    needed("timeslot", "sciancalepore2016", [5, 5]),
    needed("mqtt-motes", "katsikeas2017", [10, 10]),
    needed("mqtt-host", "katsikeas2017", [20, 900]),
    needed("fragmentation", "lackorzynski2020", [60, 900]),
    Needed { guest: true, ..needed("l2tp", "lackorzynski2020", [0, 0]) },
    needed("ciphers", "lackorzynski2020", [60, 600]),
    needed("overlay-paths", "hohmann2020", [60, 300]),
    needed("overlay-cycles", "hohmann2020", [60, 1500]),
    Needed { guest: true, ..needed("overlay-kernel", "hohmann2020", [0, 0]) },
    needed("nonces", "", [0, 0]),
    needed("attack", "", [0, 0]),
    needed("soak", "", [0, 0]),
];

/// What happens in a run.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The experiment.
    pub experiment: &'a str,
    /// Its number among those that run, from 1, and how many these are.
    pub at: [usize; 2],
    /// Results that were there at the begin.
    pub kept: usize,
    /// Seconds that it has run.
    pub seconds: u64,
    /// Estimated seconds until all have run.
    pub left: u64,
    /// Whether it has ended, and how.
    pub ended: Option<Result<(), &'a str>>,
}

/// Times an experiment may take as long as estimated, and seconds that each may take anyway.
const PATIENCE: (u32, u32) = (6, 600);
/// Time for an interrupted experiment to remove its namespaces.
const FAREWELL: Duration = Duration::from_secs(20);

/// Runs what has no usable result.
pub(super) fn missing(
    settings: &Settings,
    program: &str,
    machine: &Machine,
    tell: &mut dyn FnMut(&Step<'_>),
) -> Result<(), ReportError> {
    let wanted: Vec<&Needed> = NEEDED
        .iter()
        .filter(|needed| !needed.paper.is_empty() && !needed.guest)
        .filter(|needed| settings.only.is_none_or(|only| needed.serves(only)))
        .collect();
    let missing: Vec<&Needed> = wanted
        .iter()
        .copied()
        .filter(|needed| !take(settings, needed.name, program, machine).1.is_taken())
        .collect();
    signal::install();
    let estimate = |needed: &Needed| needed.seconds[usize::from(!settings.quick)];
    for (at, needed) in missing.iter().enumerate() {
        set_aside(settings, needed.name, program, machine)?;
        let rest: u32 = missing[at..].iter().map(|needed| estimate(needed)).sum();
        let mut step = Step {
            experiment: needed.name,
            at: [at + 1, missing.len()],
            kept: wanted.len() - missing.len(),
            seconds: 0,
            left: rest.into(),
            ended: None,
        };
        let began = Instant::now();
        let patience = Duration::from_secs((PATIENCE.0 * estimate(needed) + PATIENCE.1).into());
        let outcome = one(settings, needed.name, program, patience, || {
            step.seconds = began.elapsed().as_secs();
            let done = step.seconds.min(estimate(needed).into());
            tell(&Step { left: u64::from(rest) - done, ..step });
        })?;
        if signal::stopping() {
            let kept = wanted.len() - missing.len() + at;
            return Err(ReportError::Interrupted { kept });
        }
        step.seconds = began.elapsed().as_secs();
        step.left = u64::from(rest - estimate(needed));
        let ended = match &outcome {
            Outcome::Ended => Ok(()),
            Outcome::Failed(why) => Err(why.as_str()),
        };
        tell(&Step { ended: Some(ended), ..step });
    }
    Ok(())
}

/// Keeps a file that the run would replace, and that is no result or one of a longer run: as
/// `NAME.json.broken` or `NAME.json.old`, with a number if there is one already.
fn set_aside(settings: &Settings, name: &str, program: &str, machine: &Machine) -> Result<(), ReportError> {
    let file = result_file(&settings.folder, name);
    let word = match take(settings, name, program, machine) {
        (_, State::Broken(_)) => "broken",
        (Some(stored), State::Old(_)) if settings.quick && !stored.quick => "old",
        _ => return Ok(()),
    };
    let aside = (1..)
        .map(|number| match number {
            1 => file.with_extension(format!("json.{word}")),
            _ => file.with_extension(format!("json.{word}-{number}")),
        })
        .find(|aside| !aside.exists());
    let fault = |source| ReportError::Folder { path: file.clone(), source };
    aside.map_or(Ok(()), |aside| fs::rename(&file, aside)).map_err(fault)
}

/// What a run of an experiment left.
enum Outcome {
    /// A result, or nothing after a signal.
    Ended,
    /// The words of the failed experiment.
    Failed(String),
}

/// Runs an experiment.
fn one(
    settings: &Settings,
    name: &str,
    program: &str,
    patience: Duration,
    mut tick: impl FnMut(),
) -> Result<Outcome, ReportError> {
    let file = result_file(&settings.folder, name);
    let fault = |path: &Path| {
        let path = path.to_path_buf();
        move |source| ReportError::Folder { path, source }
    };
    // A result that was set aside may be another's, so it is kept until there is a new one.
    let part = file.with_extension("part");
    let failed = file.with_extension("failed");
    for old in [&part, &failed] {
        match fs::remove_file(old) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fault(old)(error)),
            _ => {}
        }
    }
    let mut command = Command::new(&settings.program);
    command.args(["lab", name, "--json"]).arg(&part);
    if settings.quick {
        command.arg("--quick");
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    arrange(&mut command, None, &[]);
    let (began, clock) = (now(), Instant::now());
    let mut child = command.spawn().map_err(fault(&settings.program))?;
    // A child that says much must not wait for a reader.
    let said = child.stderr.take().map(|pipe| std::thread::spawn(move || words(pipe)));
    let late = wait(&mut child, patience, &mut tick).map_err(fault(&settings.program))?;
    let said = said.and_then(|thread| thread.join().ok()).unwrap_or_default();
    if signal::stopping() {
        let _ = fs::remove_file(&part);
        return Ok(Outcome::Ended);
    }
    let result = fs::read_to_string(&part).ok().and_then(|text| serde_json::from_str(&text).ok());
    let Some(report) = result.filter(|_| !late) else {
        let why = if late {
            format!("it did not end within {} s", patience.as_secs())
        } else {
            reason(name, &said)
        };
        let _ = fs::remove_file(&part);
        fs::write(&failed, &why).map_err(fault(&failed))?;
        return Ok(Outcome::Failed(why));
    };
    // The program may have been replaced while the experiment ran.
    let program = if digest(&settings.program)? == program { program.into() } else { String::new() };
    let seconds = (clock.elapsed().as_secs_f64() * 10.0).round() / 10.0;
    let stored = Stored { program, began, seconds, quick: settings.quick, report };
    let text = serde_json::to_string(&stored).map_err(|error| fault(&part)(error.into()))?;
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &file));
    if written.is_err() {
        // What remains of it takes space.
        let _ = fs::remove_file(&part);
    }
    written.map_err(fault(&file))?;
    Ok(Outcome::Ended)
}

/// The reason in the last words of an experiment, without its own name.
fn reason(name: &str, said: &str) -> String {
    let line = one_line(said);
    line.strip_prefix(&format!("antedate: lab {name}: ")).map_or(line.clone(), str::to_owned)
}

/// The end of the words of a child.
fn words(mut pipe: impl Read) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(len @ 1..) = pipe.read(&mut buffer) {
        all.extend_from_slice(&buffer[..len]);
        if all.len() > 1 << 16 {
            all.drain(..1 << 15);
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Waits for a child. Ends it if it takes too long, which returns true, or if this process is to
/// end.
fn wait(child: &mut Child, patience: Duration, tick: &mut impl FnMut()) -> std::io::Result<bool> {
    let clock = Instant::now();
    let mut told: Option<Instant> = None;
    let mut late = false;
    loop {
        if child.try_wait()?.is_some() {
            return Ok(late);
        }
        match told {
            None if signal::stopping() || clock.elapsed() > patience => {
                late = !signal::stopping();
                // It may have ended just now.
                let _ = send(child.id(), Signal::Terminate);
                told = Some(Instant::now());
            }
            Some(since) if since.elapsed() > FAREWELL => child.kill()?,
            _ => {}
        }
        tick();
        std::thread::sleep(Duration::from_millis(200));
    }
}
