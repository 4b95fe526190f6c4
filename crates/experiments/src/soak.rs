//! Experiment `soak`: two gateways with a cyclic flow that live long. Keys change, the wire is
//! unplugged, a gateway stands still, strangers flood and repeat, at random and in quick succession.
//! Between two such events the flow must have no bus error, and memory and descriptors must not
//! grow.

use std::fs;
use std::time::{Duration, Instant};

use antedate_gateway::run::control::{self, Request};
use antedate_lab::emulator::schedule::Random;

use crate::attack::forge;
use crate::attack::plant::Plant;
use crate::{ExperimentError, Options, Report, Row, failed};

/// Length of a run without `--minutes`.
const MINUTES: u32 = 30;
const QUICK: Duration = Duration::from_secs(15);
/// Length of an event, and of the flow's recovery after it, in which bus errors do not count.
const EVENT: Duration = Duration::from_millis(500);
const RECOVERY: Duration = Duration::from_millis(1_500);
/// Time without an event.
const CALM: Duration = Duration::from_secs(3);
const QUICK_CALM: Duration = Duration::from_millis(500);
/// Lifetime of the keys.
const KEYS: &str = "mka_rekey_seconds = 20\n";
/// Bound of the growth of a gateway's memory in KiB.
const DRIFT_KIB: f64 = 1024.0;
/// The least number of samples with a verdict on memory: the first half minute fills caches.
const ENOUGH: usize = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Unplugged,
    StandsStill,
    Replay,
    Forgeries,
    Mkpdus,
    Reload,
}

const EVENTS: [Event; 6] =
    [Event::Unplugged, Event::StandsStill, Event::Replay, Event::Forgeries, Event::Mkpdus, Event::Reload];

/// A gateway's memory in KiB, and its open files.
#[derive(Clone, Copy, Debug)]
struct Held {
    resident: f64,
    files: f64,
}

/// A moment without an event.
#[derive(Clone, Copy, Debug)]
struct Sample {
    held: [Held; 2],
    round_trip_us: f64,
}

pub(crate) fn run(options: &Options) -> Result<Report, ExperimentError> {
    crate::in_namespaces()?;
    let whole = match options.minutes {
        _ if options.quick => QUICK,
        minutes => Duration::from_secs(60) * minutes.unwrap_or(MINUTES),
    };
    let mut report = Report::new("soak", "");
    let mut random = Random::new(1);
    let mut plant = Plant::build(KEYS)?;
    plant.rest(RECOVERY)?;
    let begin = Instant::now();
    let (mut samples, mut happened) = (Vec::new(), [0_u64; EVENTS.len()]);
    let (mut calm_errors, mut all_errors, mut came_out) = (0, 0, 0);
    // Each turn begins where the last one ended, so that no wrong frame is missed.
    let mut before = plant.moment()?;
    while begin.elapsed() < whole {
        plant.take_round_trip_us();
        plant.rest(if options.quick { QUICK_CALM } else { CALM })?;
        let after = plant.moment()?;
        calm_errors += after.bus_errors - before.bus_errors;
        samples.push(Sample {
            held: [held(plant.gateways()[0])?, held(plant.gateways()[1])?],
            round_trip_us: plant.take_round_trip_us(),
        });
        let at = random.below(EVENTS.len());
        happened[at] += 1;
        options.progress(
            begin.elapsed().as_secs() as usize,
            whole.as_secs() as usize,
            &format!("seconds; {:?}; {calm_errors} bus errors in calm", EVENTS[at]),
        );
        EVENTS[at].happen(&mut plant, &mut random)?;
        plant.rest(RECOVERY)?;
        let end = plant.moment()?;
        all_errors += end.bus_errors - before.bus_errors;
        // A repeated or foreign frame at a station.
        came_out += end.came_out - before.came_out;
        before = end;
    }
    options.progress(1, 1, "");
    judge(&mut report, &samples, options.quick, calm_errors);
    for (event, count) in EVENTS.iter().zip(happened) {
        report.row(Row::new("events", format!("{event:?}"), "").antedated(count as f64));
    }
    report.row(Row::new("flow", "bus errors in calm", "").antedated(calm_errors as f64));
    report.row(Row::new("flow", "bus errors in all", "").antedated(all_errors as f64));
    report.row(Row::new("flow", "came out", "").antedated(came_out as f64));
    report.check(format!("frames that came out wrongly: {came_out}"), came_out == 0);
    let warnings = plant.warnings().len() as f64;
    report.row(Row::new("log", "warnings", "").antedated(warnings));
    Ok(report)
}

fn judge(report: &mut Report, samples: &[Sample], quick: bool, calm_errors: u64) {
    // The first fifth is left out, the second compared with the last.
    let fifth = samples.len() / 5;
    let early = samples.get(fifth..2 * fifth).unwrap_or_default();
    let late = samples.get(samples.len() - fifth..).unwrap_or_default();
    let is_judged = !quick && samples.len() >= ENOUGH;
    let unjudged = if is_judged { "" } else { ", not judged" };
    for (at, name) in ["gateway a", "gateway b"].into_iter().enumerate() {
        let value =
            |part: &[Sample], of: fn(&Held) -> f64| middle(part.iter().map(|sample| of(&sample.held[at])));
        let memory = [early, late].map(|part| value(part, |held| held.resident));
        let files = [early, late].map(|part| value(part, |held| held.files));
        let most = samples.iter().map(|sample| sample.held[at].resident).fold(0.0, f64::max);
        report.row(Row::new(name, "memory early, late", "KiB").baseline(memory[0]).antedated(memory[1]));
        report.row(Row::new(name, "memory at most", "KiB").antedated(most));
        report.row(Row::new(name, "open files early, late", "").baseline(files[0]).antedated(files[1]));
        let drift = memory[1] - memory[0];
        let what = format!("{name}: memory grew by {drift:.0} KiB (goal below {DRIFT_KIB:.0}){unjudged}");
        report.check(what, !is_judged || drift < DRIFT_KIB);
        report.check(
            format!("{name}: open files {:.0}, then {:.0}{unjudged}", files[0], files[1]),
            !is_judged || files[1] <= files[0],
        );
    }
    let times = [early, late].map(|part| middle(part.iter().map(|sample| sample.round_trip_us)));
    let row = Row::new("flow", "longest round trip of a calm, early, late", "µs")
        .baseline(times[0])
        .antedated(times[1]);
    report.row(row.note("medians over the calms"));
    // A smoke test judges no time: another load of the machine would decide.
    let text =
        format!("bus errors without an event: {calm_errors}{}", if quick { ", not judged" } else { "" });
    report.check(text, quick || calm_errors == 0);
}

impl Event {
    fn happen(self, plant: &mut Plant, random: &mut Random) -> Result<(), ExperimentError> {
        let frames = match self {
            Self::Unplugged => {
                plant.plug(false)?;
                plant.rest(EVENT)?;
                return plant.plug(true);
            }
            Self::StandsStill => {
                let gateway = random.below(2);
                plant.hold(gateway, true)?;
                let rested = plant.rest(EVENT);
                plant.hold(gateway, false)?;
                return rested;
            }
            Self::Reload => {
                let reply = control::ask(&plant.socket(), Request::Reload {}).map_err(failed)?;
                return if reply.ok { Ok(()) } else { Err(reply.message.into()) };
            }
            Self::Replay => forge::replay(&plant.recorded, random),
            Self::Forgeries => forge::spliced(&plant.recorded, random),
            Self::Mkpdus => forge::forged_mkpdus(&plant.recorded, random),
        };
        let mut next = frames.iter().cycle();
        plant.run(EVENT, |plant| {
            // The line's queue may be full.
            next.by_ref().take(64).for_each(|frame| drop(plant.uplink.send(frame)));
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        })
    }
}

/// Reads a process's memory and open files.
fn held(pid: u32) -> Result<Held, ExperimentError> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let resident =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    let files = fs::read_dir(format!("/proc/{pid}/fd"))?.count() as f64;
    Ok(Held { resident: resident.ok_or("the kernel names no resident memory")?, files })
}

/// The median; 0 of nothing.
fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(growth: f64, files: f64, calm_errors: u64, quick: bool) -> bool {
        let sample = |at: usize| {
            let held =
                Held { resident: 9_000.0 + growth * at as f64 / 100.0, files: 20.0 + files * at as f64 };
            Sample { held: [Held { resident: 9_000.0, files: 20.0 }, held], round_trip_us: 100.0 }
        };
        let samples: Vec<Sample> = (0..100).map(sample).collect();
        let mut report = Report::new("soak", "");
        judge(&mut report, &samples, quick, calm_errors);
        report.passed()
    }

    #[test]
    fn growth_and_calm_errors_fail() {
        assert!(verdict(0.0, 0.0, 0, false) && verdict(1_000.0, 0.0, 0, false));
        assert!(!verdict(2_000.0, 0.0, 0, false), "of some 60 % of it between the medians");
        assert!(!verdict(0.0, 1.0, 0, false));
        assert!(!verdict(0.0, 0.0, 1, false));
        assert!(verdict(2_000.0, 1.0, 1, true), "a smoke test");
    }

    #[test]
    fn own_memory_is_read() {
        let held = held(std::process::id()).expect("read");
        assert!(held.resident > 1_000.0 && held.files >= 3.0, "{held:?}");
    }
}
