//! Compares the planner with the counts: its costs of sealing and opening at every counted size, and its
//! schedule with the runtime's. Preparations are not compared.

use crate::ExperimentError;
use antedate_plan::device::{self, Cipher, Costs};
use antedate_plan::schedule::{Job, Outcome, Work, analyse};

use super::table::{Way, sizes};
use super::{Mote, Report};
use crate::Row;

/// Allowed deviation of the planner.
const WITHIN: f64 = 0.10;

/// Points of a comparison: name, counted, predicted.
struct Points {
    cipher: Cipher,
    points: Vec<(String, f64, f64)>,
}

fn predicted(
    costs: &Costs,
    cipher: Cipher,
    way: device::Way,
    size: usize,
    front: usize,
    new: usize,
) -> (f64, f64) {
    device::counts(costs, cipher, way, size, front, new, new.div_ceil(16))
}

fn ccm(mote: &Mote, costs: &Costs) -> Result<Points, ExperimentError> {
    let mut points = Vec::new();
    let cipher = Cipher::Ccm8;
    for size in sizes() {
        for way in Way::ALL {
            let Some(name) = way.count(size) else { continue };
            let (planned, front) = match way {
                Way::Unmodified => (device::Way::Unmodified, 0),
                Way::Antedated => (device::Way::Antedated, 0),
                Way::Template(len) => (device::Way::Template, len),
            };
            let (_, online) = predicted(costs, cipher, planned, size, front, size - front);
            points.push((name.clone(), (mote.counts.ccm)(&name)?, online));
        }
    }
    opened(&mut points, &mote.counts.ccm, costs, "scenario", sizes())?;
    Ok(Points { cipher, points })
}

/// Opening, unprepared and with a prepared cipherstream.
fn opened(
    points: &mut Vec<(String, f64, f64)>,
    counts: &super::motes::Count,
    costs: &Costs,
    what: &str,
    sizes: impl Iterator<Item = usize>,
) -> Result<(), ExperimentError> {
    for size in sizes {
        for (way, part) in [(device::Way::Unmodified, "open"), (device::Way::Antedated, "open-online")] {
            let name = format!("{what}-{size}-{part}");
            let planned = device::opening(costs, way, size).ok_or("the planner does not know opening")?;
            points.push((name.clone(), counts(&name)?, planned));
        }
    }
    Ok(())
}

fn sparse(
    counts: &super::motes::Count,
    costs: &Costs,
    cipher: Cipher,
    what: &str,
) -> Result<Points, ExperimentError> {
    let mut points = Vec::new();
    let sizes = [15, 20, 30, 50, 80, 200, 300, 1000, 1500, 1521];
    // A mote's memory ends a receiver's preparations there.
    opened(&mut points, counts, costs, what, sizes.into_iter().filter(|size| *size <= 512))?;
    for size in sizes {
        let name = format!("{what}-{size}-seal");
        let (_, seal) = predicted(costs, cipher, device::Way::Unmodified, size, 0, size);
        points.push((name.clone(), counts(&name)?, seal));
        for new in [16, 32] {
            let name = format!("{what}-{size}-{new}-template-online");
            let (_, online) = predicted(costs, cipher, device::Way::Template, size, 0, new.min(size));
            points.push((name.clone(), counts(&name)?, online));
        }
    }
    Ok(Points { cipher, points })
}

/// Compares the counted costs at the deadline with the planner's prediction. The costs of
/// preparations are left out.
pub(super) fn points(report: &mut Report, mote: &Mote, quick: bool) -> Result<(), ExperimentError> {
    let device = device::find(mote.device).ok_or("the planner does not know the mote")?;
    let mut all = Vec::new();
    if let Some(costs) = &device.ccm8 {
        all.push(ccm(mote, costs)?);
    }
    for (cipher, what, counts) in
        [(Cipher::Gcm, "gcm", &mote.counts.gcm), (Cipher::ChaCha, "chacha", &mote.counts.chacha)]
    {
        if let (Some(counts), Some(costs)) = (counts, device.costs(cipher)) {
            all.push(sparse(counts, costs, cipher, what)?);
        }
    }
    for Points { cipher, points } in all {
        let off = |(_, counted, planned): &(String, f64, f64)| (planned - counted).abs() / counted.max(1.0);
        for point in points.iter().filter(|point| !quick && off(point) > WITHIN) {
            let row =
                Row::new(format!("planner, {}: {}", mote.name, point.0), "counted, predicted", "counts");
            report.row(
                row.baseline(point.1).antedated(point.2).note("the planner's costs are no longer right here"),
            );
        }
        let worst = points.iter().max_by(|a, b| off(a).total_cmp(&off(b)));
        if let Some(worst) = worst {
            let case = format!("check of the planner, {}, {}", mote.name, cipher.name());
            let row = Row::new(case, "furthest off", "%").antedated(100.0 * off(worst));
            report.row(row.note(format!("of {} points, {}", points.len(), mote.note)));
            report.check(
                format!(
                    "planner, {}, {}: {} points, furthest off by {:.1} % ({}: {:.0} for {:.0}), at most 10 %",
                    mote.name,
                    cipher.name(),
                    points.len(),
                    100.0 * off(worst),
                    worst.0,
                    worst.2,
                    worst.1
                ),
                off(worst) <= WITHIN,
            );
        }
    }
    Ok(())
}

/// Allowed cost of the fallback over the unmodified cipher: the handling of the slot.
const LATE: f64 = 1.05;
/// Nodes of the program.
const NODES: [&str; 7] = [
    "time to spare",
    "little time",
    "a long message",
    "too little time",
    "early messages",
    "messages in the middle of their preparation",
    "messages before any preparation",
];
/// Index of the first node whose early messages find nothing prepared.
const UNPREPARED: usize = 5;

/// Compares the mote's cooperative runtime with the planner's analysis.
pub(super) fn schedule(report: &mut Report, mote: &Mote) -> Result<(), ExperimentError> {
    let Some(schedule) = &mote.counts.schedule else { return Ok(()) };
    for (index, what) in NODES.iter().enumerate() {
        let get = |name: &str| schedule(&format!("schedule-{index}-{name}"));
        let ms = |name: &str| -> Result<f64, ExperimentError> { Ok(get(name)? / mote.counts_per_ms) };
        let (missed, early) = (get("ram-missed")?, get("ram-early")?);
        let case = format!("runtime, {}: {what}", mote.name);
        report.check(
            format!(
                "{case}: 16 packets under the numbers 1 to 16, each the unmodified cipher's; {:.0} of them wrong",
                get("ram-wrong")?
            ),
            get("ram-wrong")? == 0.0,
        );
        let fallback = ms("fallback")?.max(ms("online")?);
        let job = Job {
            period_ms: ms("ram-period")?,
            // An unfinished preparation has no count; its fallback stands in.
            preparation_ms: if ms("preparation")? > 0.0 { ms("preparation")? } else { fallback },
            step_ms: ms("step")?,
            online_ms: ms("online")?,
            fallback_ms: fallback,
        };
        let work = Work { period_ms: ms("ram-work-period")?, cost_ms: ms("work")? };
        let outcome = analyse(&[work], &[job]).messages[0];
        let note = "the mote's cooperative runtime beside the planner's bound";
        if outcome.in_time {
            let ready = outcome.ready_ms.unwrap_or(f64::INFINITY);
            let row =
                Row::new(&case, "preparation ready after", "ms").baseline(ready).antedated(ms("ready")?);
            report.row(row.note(note));
            let unprepared = if index >= UNPREPARED { 16.0 / early } else { 0.0 };
            report.check(
                format!(
                    "{case}: ready in {:.2} ms, {ready:.2} at most; {missed:.0} of 16 not ready, as planned {unprepared:.0}",
                    ms("ready")?
                ),
                ms("ready")? <= ready + 1e-6 && missed == unprepared,
            );
            let row =
                Row::new(&case, "response", "ms").baseline(outcome.response_ms).antedated(ms("response")?);
            report.row(row.note(note));
            report.check(
                format!("{case}: response {:.3} ms, {:.3} at most", ms("response")?, outcome.response_ms),
                ms("response")? <= outcome.response_ms,
            );
            if missed > 0.0 {
                early_messages(
                    report,
                    &case,
                    [ms("early-response")?, ms("fallback")?, ms("unmodified")?],
                    &outcome,
                );
            }
        } else {
            let row = Row::new(&case, "messages not ready", "of 16").antedated(missed);
            report.row(
                row.note(
                    "the analysis says that there is not always time; the message goes the ordinary way",
                ),
            );
            report.check(
                format!("{case}: the analysis refuses it, and {missed:.0} of 16 were not ready"),
                missed > 0.0,
            );
        }
        let row = Row::new(&case, "idle", "%").antedated(100.0 * get("ram-idle")? / get("ram-horizon")?);
        report.row(row.note(note));
    }
    Ok(())
}

/// Checks early messages: their response, and sealing compared with the unmodified cipher.
fn early_messages(
    report: &mut Report,
    case: &str,
    [response, fallback, unmodified]: [f64; 3],
    bound: &Outcome,
) {
    let row = Row::new(case, "response of an early message", "ms").baseline(bound.early_response_ms);
    report.row(row.antedated(response).note("the planner's bound, and the mote's longest"));
    let row = Row::new(case, "sealing an early message", "ms").baseline(unmodified);
    report.row(row.antedated(fallback).note("the unmodified cipher, and what falls back to it"));
    report.check(
        format!(
            "{case}: response of an early message {response:.3} ms, {:.3} at most",
            bound.early_response_ms
        ),
        response <= bound.early_response_ms,
    );
    report.check(
        format!("{case}: an early message is sealed in {fallback:.3} ms, without any preparation in {unmodified:.3}"),
        fallback <= LATE * unmodified,
    );
}
