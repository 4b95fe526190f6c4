//! Steps that run two at a time: one that computes beside one that waits, each in a process of its
//! own. Its output is printed when it ends.

use crate::steps::{Lane, Step, steps};
use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::{available_parallelism, scope};
use std::time::Instant;
use xtask::report::{self, Report, StepResult};
use xtask::shell::{Run, cache, program};

/// Time limit of a step in seconds. The programs that it starts have shorter ones.
const LIMIT: u64 = 3600;

/// Arguments of the command for one step.
#[derive(clap::Args)]
pub(crate) struct Single {
    name: String,
    /// The file for its outcome
    outcome: PathBuf,
}

/// Runs one step and writes its outcome.
pub(crate) fn inside(single: &Single) -> Result<bool, String> {
    let step = steps().into_iter().find(|step| step.name == single.name);
    let step = step.ok_or_else(|| format!("no step `{}`", single.name))?;
    let outcome = report::write(&(step.run)());
    fs::write(&single.outcome, outcome).map_err(|e| format!("{}: {e}", single.outcome.display()))?;
    Ok(true)
}

/// Runs the steps, two at a time on a machine with two cores; a single one in this process.
pub(crate) fn run(report: &mut Report, mut steps: Vec<Step>) {
    if steps.len() == 1 {
        let step = steps.remove(0);
        report.step(&step.name, step.run);
        return;
    }
    let names: Vec<(String, Lane)> = steps.into_iter().map(|step| (step.name, step.lane)).collect();
    let queue = Mutex::new(VecDeque::from(names));
    let (ended, end) = mpsc::channel();
    let workers = available_parallelism().map_or(1, usize::from).min(2);
    scope(|threads| {
        for lane in [Lane::Computing, Lane::Waiting].into_iter().take(workers) {
            let (queue, ended) = (&queue, ended.clone());
            threads.spawn(move || {
                let taken = || next(&mut queue.lock().unwrap_or_else(PoisonError::into_inner), lane);
                while let Some(name) = taken() {
                    println!("\n.. {name}");
                    let began = Instant::now();
                    let (output, outcome) = apart(&name);
                    let _ = ended.send((name, began.elapsed().as_secs_f64(), output, outcome));
                }
            });
        }
        drop(ended);
        for (name, seconds, output, outcome) in end {
            report.add(&name, seconds, &output, outcome);
        }
    });
}

/// The first step of the lane; when there is none, the last of the other.
fn next(queue: &mut VecDeque<(String, Lane)>, lane: Lane) -> Option<String> {
    let found = queue.iter().position(|(_, of)| *of == lane).or_else(|| queue.len().checked_sub(1))?;
    queue.remove(found).map(|(name, _)| name)
}

/// Runs a step in a process of its own. Returns its output and its outcome.
fn apart(name: &str) -> (String, StepResult) {
    let run = || -> Result<(PathBuf, PathBuf), String> {
        let place = cache("steps")?.join(name.replace(' ', "-"));
        let (log, outcome) = (place.with_extension("log"), place.with_extension("outcome"));
        let _ = fs::remove_file(&outcome);
        let me = std::env::current_exe().map_err(|e| e.to_string())?;
        program(me).args(["step", name]).arg(&outcome).background(&log)?.finish(LIMIT)?;
        Ok((log, outcome))
    };
    match run() {
        Ok((log, outcome)) => {
            let output = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
            let outcome = fs::read_to_string(&outcome).map_err(|e| format!("{}: {e}", outcome.display()));
            (output, outcome.map_err(Into::into).and_then(|text| report::read(&text)))
        }
        Err(why) => (String::new(), Err(why.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Lane::{Computing, Waiting};

    #[test]
    fn each_lane_helps_the_other_at_its_end() {
        let steps = [("a", Computing), ("b", Computing), ("c", Waiting), ("d", Waiting)];
        let mut queue: VecDeque<_> = steps.map(|(name, lane)| (name.to_string(), lane)).into();
        let mut take = |lane| next(&mut queue, lane);
        assert_eq!(take(Waiting).as_deref(), Some("c"));
        assert_eq!(take(Computing).as_deref(), Some("a"));
        assert_eq!(take(Computing).as_deref(), Some("b"));
        assert_eq!(take(Computing).as_deref(), Some("d"));
        assert_eq!(take(Waiting), None);
    }
}
