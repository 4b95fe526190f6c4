//! Experiment `fragmentation`: MACsec fragmentation (Lackorzynski et al. 2020, section IV).
//!
//! Measures the three scenarios of table I, throughput, and the delay of a cyclic frame behind bulk
//! with and without the express channel. Frames go through two gateways in network namespaces. The
//! wire between them is a Linux bridge, or emulated with the serialisation delay of 100 or 1000
//! Mbit/s. Compared sizes take turns.
//!
//! - [`express`]: cyclic frames behind bulk
//! - [`throughput`]: the rate of TCP in each scenario
//! - [`rotation`]: cyclic frames while keys change

mod express;
mod rotation;
mod throughput;

use std::time::Duration;

use super::link::{Link, POLLING, Settings};
use crate::{ExperimentError, Options, Report, Row};
use antedate_lab::histogram::{Summary, Times};

/// Payloads of table I, and their frames.
const FITS: usize = 1468 + 14;
const SPLIT: usize = 1500 + 14;
const DOUBLE: usize = 2936 + 14;

const MARKED: &str = "fragmentation = \"marked\"";
const OFF: &str = "fragmentation = false";

/// The paper's increases in percent (section IV-C).
const PAPER_SPLIT: f64 = 7.0;
const PAPER_DOUBLE_OVER_SPLIT: f64 = 3.0;

/// Runs all parts.
pub(crate) fn run(options: &Options) -> Result<Report, ExperimentError> {
    super::in_namespaces()?;
    let mut report = Report::new("fragmentation", "lackorzynski2020");
    on_fragments(&mut report, options)?;
    on_cycles(&mut report, options)?;
    Ok(report)
}

/// Runs the parts with cyclic frames.
pub(crate) fn run_cycles(options: &Options) -> Result<Report, ExperimentError> {
    super::in_namespaces()?;
    let mut report = Report::new("fragmentation-cycles", "lackorzynski2020");
    on_cycles(&mut report, options)?;
    Ok(report)
}

/// Runs the part with changes of keys.
pub(crate) fn run_keys(options: &Options) -> Result<Report, ExperimentError> {
    super::in_namespaces()?;
    let mut report = Report::new("fragmentation-keys", "lackorzynski2020");
    options.progress(0, 1, "cyclic frames while keys change");
    rotation::run(&mut report, options)?;
    options.progress(1, 1, "");
    Ok(report)
}

fn on_fragments(report: &mut Report, options: &Options) -> Result<(), ExperimentError> {
    let wires = [(0, "bridge"), (1000, "1000 Mbit/s"), (100, "100 Mbit/s")];
    for (step, (rate, wire)) in wires.into_iter().enumerate() {
        options.progress(step, 6, &format!("round trips over {wire}"));
        round_trips(report, rate, wire, options)?;
    }
    options.progress(3, 6, "throughput");
    frames_that_arrive(report, options)?;
    throughput::run(report, options)
}

fn on_cycles(report: &mut Report, options: &Options) -> Result<(), ExperimentError> {
    options.progress(4, 6, "cyclic frames behind bulk");
    express::run(report, options)?;
    options.progress(5, 6, "cyclic frames while keys change");
    rotation::run(report, options)?;
    options.progress(6, 6, "");
    Ok(())
}

/// Builds a link with this rate, MTU and fragmentation.
fn link(rate_mbit: u32, bulk: bool, wire_mtu: u32, macsec: &str) -> Result<Link, ExperimentError> {
    Link::build(&Settings {
        suite: "gcm-aes-128",
        macsec,
        field_mtu: 3000,
        wire_mtu,
        rekey_seconds: None,
        rate_mbit,
        bulk,
        wait: POLLING,
    })
}

fn round_trips(report: &mut Report, rate: u32, wire: &str, options: &Options) -> Result<(), ExperimentError> {
    let (rounds, block) = if options.quick { (2, 100) } else { (4, 2_500) };
    let mut fragmented: [Times; 3] = Default::default();
    let mut whole: [Times; 3] = Default::default();
    let mut lost = 0;
    for _ in 0..rounds {
        for (mtu, macsec, times) in [(1500, MARKED, &mut fragmented), (4000, OFF, &mut whole)] {
            let link = link(rate, false, mtu, macsec)?;
            link.round_trips(FITS, block / 10, &mut Times::default())?;
            for _ in 0..10 {
                for (times, len) in times.iter_mut().zip([FITS, SPLIT, DOUBLE]) {
                    lost += link.round_trips(len, block / 10, times)?;
                }
            }
            let reassembled =
                link.status(1).and_then(|s| s.macsec?.counters.get("InFramesReassembled").copied());
            let expected = mtu == 1500;
            if (reassembled > Some(0)) != expected {
                return Err(format!("over an MTU of {mtu} {reassembled:?} frames were put together").into());
            }
        }
    }
    let names = ["1468 B, one frame", "1500 B, two fragments", "2936 B, two fragments"];
    for ((name, ours), without) in names.into_iter().zip(&fragmented).zip(&whole) {
        // What figure 4a draws: mean, minimum, maximum and quartiles.
        let (without, ours) = (without.summary(), ours.summary());
        for (metric, of) in STATISTICS {
            report.row(
                Row::new(format!("{name}, {wire}"), format!("round trip {metric}"), "µs")
                    .baseline(of(&without))
                    .antedated(of(&ours))
                    .note("baseline: the same payload whole over an MTU of 4000, fragmentation off"),
            );
        }
    }
    means(report, wire, &fragmented);
    let median = |times: &Times| times.percentile_us(50.0);
    let percent = |a: f64, b: f64| (a / b - 1.0) * 100.0;
    let split = percent(median(&fragmented[1]), median(&fragmented[0]));
    let double = percent(median(&fragmented[2]), median(&whole[2]));
    let off = percent(median(&fragmented[0]), median(&whole[0]));
    let case = |what: &str| Row::new(format!("{what}, {wire}"), "median round trip, more by", "%");
    report.row(case("1500 B in two fragments against 1468 B whole").paper(PAPER_SPLIT).antedated(split));
    let note = "the paper compares with its own 1500 B in two fragments";
    let paper = PAPER_DOUBLE_OVER_SPLIT;
    report
        .row(case("2936 B in two fragments against 2936 B whole").paper(paper).antedated(double).note(note));
    report.row(case("1468 B whole, fragmentation on against off").paper(0.0).antedated(off));
    report.check(format!("{wire}: no round trip was lost ({lost})"), lost == 0);
    if rate == 1000 {
        report.check(format!("{wire}: 1500 B in two fragments cost {split:.1} %, goal 5 %"), split <= 5.0);
        report.check(format!("{wire}: 2936 B in two fragments cost {double:.1} %, goal 6 %"), double <= 6.0);
    }
    Ok(())
}

/// The statistics of a row.
type Statistic = (&'static str, fn(&Summary) -> f64);
const STATISTICS: [Statistic; 7] = [
    ("mean", |of| of.mean),
    ("min", |of| of.min),
    ("p25", |of| of.p25),
    ("p50", |of| of.p50),
    ("p75", |of| of.p75),
    ("p99.9", |of| of.p99_9),
    ("max", |of| of.max),
];

/// The paper's increases of means, both between its own scenarios.
fn means(report: &mut Report, wire: &str, fragmented: &[Times; 3]) {
    let [fits, split, double] = [0, 1, 2].map(|at| fragmented[at].summary().mean);
    let percent = |a: f64, b: f64| (a / b - 1.0) * 100.0;
    for (what, paper, found) in [
        ("1500 B in two fragments against 1468 B whole", PAPER_SPLIT, percent(split, fits)),
        (
            "2936 B in two fragments against 1500 B in two fragments",
            PAPER_DOUBLE_OVER_SPLIT,
            percent(double, split),
        ),
    ] {
        let row = Row::new(format!("{what}, {wire}"), "mean round trip, more by", "%");
        report.row(row.paper(paper).antedated(found));
    }
}

/// Octets that the medium adds to a frame, and those of MACsec.
const MEDIUM: usize = 24;
const MACSEC: usize = 32;

/// The share of frames that arrive on a full wire.
fn frames_that_arrive(report: &mut Report, options: &Options) -> Result<(), ExperimentError> {
    let time = Duration::from_millis(if options.quick { 500 } else { 4_000 });
    // The time of a frame at 100 Mbit/s in nanoseconds: whole, and in two fragments that repeat the
    // header.
    let wire = |frames: usize, octets: usize| ((octets + frames * (MEDIUM + MACSEC)) * 80) as f64;
    let (whole_ns, split_ns) = (wire(1, SPLIT), wire(2, SPLIT + 14));
    let whole = link(100, true, 1550, OFF)?.delivered(SPLIT, whole_ns * 1.01, time)? / 1.01;
    let split = link(100, true, 1500, MARKED)?.delivered(SPLIT, split_ns * 1.01, time)? / 1.01;
    let mbit = |share: f64, ns: f64| share * (SPLIT - 14) as f64 * 8_000.0 / ns;
    let (before, after) = (mbit(whole, whole_ns), mbit(split, split_ns));
    report.row(
        Row::new("1500 B payloads, 100 Mbit/s", "throughput", "Mbit/s")
            .baseline(before)
            .antedated(after)
            .note("baseline: whole over an MTU of 1550; the paper lost 50 of about 930 Mbit/s at 1 Gbit/s"),
    );
    let lost =
        Row::new("1500 B payloads, 100 Mbit/s", "throughput, lost", "Mbit/s").antedated(before - after);
    report.row(lost.note("whole over an MTU of 1550, less in two fragments; the paper's wire has 1 Gbit/s"));
    let ratio = (after / before) / (whole_ns / split_ns);
    let what = format!("throughput in fragments is {ratio:.3} of what the headers allow, goal 0.97");
    report.row(
        Row::new("1500 B payloads, 100 Mbit/s", "throughput, share of what the headers allow", "1")
            .antedated(ratio),
    );
    report.check(what, ratio >= 0.97);
    Ok(())
}
