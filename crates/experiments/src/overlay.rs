//! Experiment `overlay`: layer 2 between sites (Hohmann et al. 2020).
//!
//! Compares plain bridges, kernel VXLAN, kernel VXLAN over WireGuard daemons, and the overlay of
//! the gateway: round trips (the paper's table I), TCP, then cyclic Profinet (section V). The
//! contenders take turns, so disturbances of the machine affect all.

mod bulk;
mod datagrams;
mod paths;
mod release;

use crate::{ExperimentError, Options, Report, Row};
use antedate_lab::histogram::Times;
use antedate_lab::station::meter::Counts;
pub(crate) use paths::remove_sockets;
use paths::{Contender, Path};

/// Table I of the paper: min, p25, median, p75 and max in microseconds.
const PAPER: [(Contender, [f64; 5]); 3] = [
    (Contender::Bridges, [23.0, 41.0, 47.0, 56.0, 73.0]),
    (Contender::KernelVxlan, [35.0, 52.0, 57.0, 61.0, 84.0]),
    (Contender::KernelOverGo, [47.0, 70.0, 81.0, 87.0, 118.0]),
];
/// Contenders with a row for their shortest cycle without a bus error.
const COMPARED: [Contender; 3] = [Contender::Bridges, Contender::OursPlain, Contender::Ours];
/// Bounds of ours divided by another's round trip: median and p99.9.
const GOALS: [(Contender, f64, Option<f64>); 4] = [
    (Contender::KernelOverGo, 0.25, Some(0.4)),
    (Contender::KernelOverBoringtun, 0.55, Some(0.7)),
    (Contender::OursPlain, 1.25, None),
    (Contender::OursBare, 1.08, None),
];

/// Runs all parts.
pub(crate) fn run(options: &Options) -> Result<Report, ExperimentError> {
    let (mut report, all) = begin("overlay")?;
    on_paths(&mut report, options, &all)?;
    on_cycles(&mut report, options, &all)?;
    release::run(&mut report, options)?;
    Ok(report)
}

/// Runs round trips and TCP.
pub(crate) fn run_paths(options: &Options) -> Result<Report, ExperimentError> {
    let (mut report, all) = begin("overlay-paths")?;
    on_paths(&mut report, options, &all)?;
    Ok(report)
}

/// Runs round trips beside the kernel's WireGuard.
pub(crate) fn run_kernel(options: &Options) -> Result<Report, ExperimentError> {
    super::in_namespaces()?;
    let mut report = Report::new("overlay-kernel", "hohmann2020");
    if let Some(missing) = Contender::KernelOverKernel.missing() {
        return Err(format!("this machine lacks {missing}").into());
    }
    const COMPARED: [Contender; 6] = [
        Contender::Bridges,
        Contender::KernelVxlan,
        Contender::KernelOverKernel,
        Contender::OursPlain,
        Contender::OursBare,
        Contender::Ours,
    ];
    let effort = if options.quick { (1, 500) } else { (4, 5_000) };
    round_trips(&mut report, options, &COMPARED, effort.0, effort.1)?;
    let with_datagrams =
        Contender::WITH_DATAGRAMS.into_iter().filter(|contender| *contender != Contender::KernelOverGo);
    datagrams::run(
        &mut report,
        options,
        &with_datagrams.filter(|contender| *contender != Contender::GoAlone).collect::<Vec<_>>(),
        effort,
    )?;
    Ok(report)
}

/// A note that names the emulated machine of the run, if it is one.
fn noted(report: &Report, note: &str) -> String {
    if report.machine.cpu.contains("QEMU") {
        format!("{note}; in QEMU, whose clock counts instructions")
    } else {
        note.to_owned()
    }
}

/// Runs TCP in more rounds.
pub(crate) fn run_tcp(options: &Options) -> Result<Report, ExperimentError> {
    let (mut report, all) = begin("overlay-tcp")?;
    tcp(&mut report, options, &all, if options.quick { (1, 1.0) } else { (7, 4.0) })?;
    Ok(report)
}

/// Runs cyclic Profinet.
pub(crate) fn run_cycles(options: &Options) -> Result<Report, ExperimentError> {
    let (mut report, all) = begin("overlay-cycles")?;
    on_cycles(&mut report, options, &all)?;
    Ok(report)
}

/// Runs the release clock.
pub(crate) fn run_release(options: &Options) -> Result<Report, ExperimentError> {
    super::in_namespaces()?;
    let mut report = Report::new("overlay-release", "hohmann2020");
    release::run(&mut report, options)?;
    Ok(report)
}

/// Starts a report and lists the contenders that this machine has.
fn begin(name: &'static str) -> Result<(Report, Vec<Contender>), ExperimentError> {
    super::in_namespaces()?;
    let mut report = Report::new(name, "hohmann2020");
    let all = Contender::ALL.into_iter().filter(|contender| contender.missing().is_none()).collect();
    let alone = [Contender::GoAlone, Contender::KernelAlone];
    for contender in Contender::ALL.into_iter().chain(alone) {
        if let Some(missing) = contender.missing() {
            report.row(Row::new(contender.name(), "left out", "").note(missing));
        }
    }
    Ok((report, all))
}

fn on_paths(report: &mut Report, options: &Options, all: &[Contender]) -> Result<(), ExperimentError> {
    let (rounds, count) = if options.quick { (2, 500) } else { (12, 10_000) };
    round_trips(report, options, all, rounds, count)?;
    let effort = if options.quick { (1, 300) } else { (6, 5_000) };
    datagrams::run(report, options, &Contender::WITH_DATAGRAMS, effort)?;
    tcp(report, options, all, if options.quick { (1, 1.0) } else { (3, 5.0) })
}

fn on_cycles(report: &mut Report, options: &Options, all: &[Contender]) -> Result<(), ExperimentError> {
    let cycles: &[u32] = if options.quick { &[4000, 1000] } else { &[4000, 2000, 1000, 500, 250] };
    profinet(report, options, all, cycles)
}

fn round_trips(
    report: &mut Report,
    options: &Options,
    all: &[Contender],
    rounds: usize,
    count: u64,
) -> Result<(), ExperimentError> {
    let mut times = vec![Times::default(); all.len()];
    let mut lost = vec![0; all.len()];
    for round in 0..rounds {
        for turn in 0..all.len() {
            // Every second round goes backwards, so the order favours no contender.
            let at = if round % 2 == 0 { turn } else { all.len() - 1 - turn };
            options.progress(round * all.len() + turn, rounds * all.len(), all[at].name());
            let path = Path::build(all[at])?;
            lost[at] += path.round_trips(count, &mut times[at])?;
        }
    }
    options.progress(1, 1, "");
    for ((contender, times), lost) in all.iter().zip(&times).zip(&lost) {
        let paper = PAPER.iter().find(|(of, _)| of == contender).map(|(_, values)| values);
        let values = [
            ("min", Some(0), times.percentile_us(0.0)),
            ("p25", Some(1), times.percentile_us(25.0)),
            ("median", Some(2), times.percentile_us(50.0)),
            ("p75", Some(3), times.percentile_us(75.0)),
            ("p99", None, times.percentile_us(99.0)),
            ("p99.9", None, times.percentile_us(99.9)),
            ("max", Some(4), times.max_us()),
        ];
        for (name, place, value) in values {
            let row = Row::new(contender.name(), format!("round trip {name}"), "µs");
            let row = row.paper(place.and_then(|place| paper.map(|values| values[place])));
            let row = if contender.is_ours() { row.antedated(value) } else { row.baseline(value) };
            report.row(row.note(noted(report, contender.note())));
        }
        report
            .check(format!("{}: no round trip of 64 octets was lost ({lost})", contender.name()), *lost == 0);
    }
    let of = |contender| all.iter().position(|other| *other == contender).map(|at| &times[at]);
    let Some(ours) = of(Contender::Ours) else { return Ok(()) };
    for (contender, median, tail) in GOALS {
        let Some(other) = of(contender) else { continue };
        for (percent, goal) in [(50.0, Some(median)), (99.9, tail)] {
            let Some(goal) = goal else { continue };
            let ratio = ours.percentile_us(percent) / other.percentile_us(percent);
            let case = format!("ours to ours / {}", contender.name());
            report.row(Row::new(&case, format!("round trip p{percent}"), "1").antedated(ratio));
            report.check(format!("{case}, p{percent}: {ratio:.3}, goal {goal}"), ratio <= goal);
        }
    }
    Ok(())
}

/// Measures the rate of one TCP connection.
fn tcp(
    report: &mut Report,
    options: &Options,
    all: &[Contender],
    (rounds, seconds): (usize, f64),
) -> Result<(), ExperimentError> {
    let mut rates = vec![Vec::new(); all.len()];
    let mut failed: Vec<Vec<String>> = vec![Vec::new(); all.len()];
    for round in 0..rounds {
        for turn in 0..all.len() {
            let at = if round % 2 == 0 { turn } else { all.len() - 1 - turn };
            options.progress(
                round * all.len() + turn,
                rounds * all.len(),
                &format!("TCP, {}", all[at].name()),
            );
            match Path::build(all[at])?.tcp(seconds) {
                Ok(rate) => rates[at].push(rate),
                Err(error) => failed[at].push(error.to_string()),
            }
        }
    }
    options.progress(1, 1, "");
    let median = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or(0.0)
    };
    let medians: Vec<f64> = rates.iter_mut().map(median).collect();
    for ((contender, rate), failed) in all.iter().zip(&medians).zip(&failed) {
        let mut row = Row::new(contender.name(), "TCP, one connection", "Mbit/s");
        if let Some(error) = failed.last() {
            row = row
                .note(format!("{} of {rounds} connections failed and are left out: {error}", failed.len()));
        }
        report.row(if contender.is_ours() { row.antedated(*rate) } else { row.baseline(*rate) });
        if contender.is_ours() {
            report.check(
                format!("{}: no connection failed ({})", contender.name(), failed.len()),
                failed.is_empty(),
            );
        }
    }
    let of = |wanted| all.iter().position(|contender| *contender == wanted).and_then(|at| medians.get(at));
    if let (Some(ours), Some(go)) = (of(Contender::Ours), of(Contender::KernelOverGo)) {
        let ratio = ours / go;
        let case = "ours to ours / kernel VXLAN over wireguard-go";
        report.row(Row::new(case, "TCP, one connection", "1").antedated(ratio));
        report.check(format!("{case}, TCP: {ratio:.2}, goal 2"), *go > 0.0 && ratio >= 2.0);
    }
    Ok(())
}

/// Reports bus errors of controller and device, their intervals, and the shortest cycle without an
/// error.
fn profinet(
    report: &mut Report,
    options: &Options,
    all: &[Contender],
    cycles: &[u32],
) -> Result<(), ExperimentError> {
    // The shortest cycle without a bus error so far, and whether all longer ones had none.
    let mut shortest = vec![(0, true); all.len()];
    for cycle_us in cycles {
        for (turn, contender) in all.iter().enumerate() {
            // Compared contenders run for a minute at each cycle, and only they run the shortest.
            let compared = COMPARED.contains(contender);
            if *cycle_us < 500 && !compared {
                continue;
            }
            let minute = if compared { 60_000_000 / u64::from(*cycle_us) } else { 0 };
            let frames = if options.quick { 500 } else { minute.max(10_000) };
            let seconds = frames as f64 * f64::from(*cycle_us) / 1e6;
            options.progress(turn, all.len(), &format!("{cycle_us} µs, {}", contender.name()));
            let path = Path::build(*contender)?;
            let [plc, device] = path.stations(*cycle_us, seconds)?;
            let sum = |count: fn(&Counts) -> u64| count(&plc.counts) + count(&device.counts);
            let (all_errors, stalled) = (sum(|c| c.bus_errors), sum(|c| c.bus_errors_stalled));
            let case = format!("{}, cycle {cycle_us} µs", contender.name());
            let value = |row: Row, value: f64| {
                if contender.is_ours() { row.antedated(value) } else { row.baseline(value) }
            };
            let paper = (*cycle_us == 4000 && PAPER.iter().any(|(of, _)| of == contender)).then_some(0.0);
            let note = format!(
                "{} frames; {stalled} bus errors while the machine withheld a core",
                sum(|c| c.received)
            );
            report.row(value(Row::new(&case, "bus errors", "1"), all_errors as f64).paper(paper).note(note));
            for (key, found) in [("p99", device.interval_us.p99), ("max", device.interval_us.max)] {
                report.row(value(Row::new(&case, format!("interval {key}"), "µs"), found));
            }
            if *cycle_us == 4000 {
                let ends = [("controller", &plc), ("device", &device)];
                for (end, measured) in ends {
                    for (call, of) in
                        [("sending", &measured.sending_us), ("receiving", &measured.receiving_us)]
                    {
                        for (key, found) in [("mean", of.mean), ("max", of.max)] {
                            let metric = format!("{end}, {call} a frame, {key}");
                            let note = format!("{} calls of the system", of.count);
                            report.row(value(Row::new(&case, metric, "µs"), found).note(note));
                        }
                    }
                }
                let diverged = ends.iter().filter(|(_, measured)| !measured.edges.agree).count();
                let row = Row::new(&case, "edge counters that diverged", "1");
                report.row(value(row, diverged as f64));
            }
            let errors = all_errors - stalled.min(all_errors);
            let heard = plc.counts.heard(frames) && device.counts.heard(frames);
            if let Some((cycle, unbroken)) = shortest.get_mut(turn) {
                *unbroken &= errors == 0 && heard;
                *cycle = if *unbroken { *cycle_us } else { *cycle };
            }
            if *contender == Contender::Ours && *cycle_us >= 500 {
                report.check(
                    format!("{case}: {errors} bus errors that no stall explains, goal 0"),
                    errors == 0,
                );
                let came = [&plc, &device].map(|station| station.counts.received);
                report.check(
                    format!("{case}: {} and {} of {frames} frames came to the stations", came[0], came[1]),
                    heard,
                );
            }
        }
    }
    options.progress(1, 1, "");
    let of = |wanted| all.iter().position(|contender| *contender == wanted).and_then(|at| shortest.get(at));
    for contender in COMPARED {
        let Some((cycle, _)) = of(contender) else { continue };
        let row = Row::new(contender.name(), "shortest cycle without a bus error", "µs");
        let row = if contender.is_ours() {
            row.antedated(f64::from(*cycle))
        } else {
            row.baseline(f64::from(*cycle))
        };
        report
            .row(row.note("of those tried; 0: none. Errors while the machine withheld a core do not count"));
    }
    if let (Some((ours, _)), Some((bridges, _))) = (of(Contender::Ours), of(Contender::Bridges)) {
        let text = format!("shortest cycle without a bus error: ours {ours} µs, plain bridges {bridges} µs");
        report.check(text, *ours > 0 && ours <= bridges);
    }
    Ok(())
}
