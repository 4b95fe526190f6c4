//! The rate of one TCP connection in each scenario of table I (section IV-B, figure 4b), by iperf3.
//!
//! The payload is the MTU of the machines, so that TCP fills it. Each scenario runs in fragments over
//! an MTU of 1500, and whole over an MTU of 4000: unmodified MACsec.

use super::{MARKED, OFF};
use crate::link::{Link, SLEEPING, Settings, iperf3};
use crate::{ExperimentError, Options, Report, Row};

/// Payloads, and the names of their scenarios.
const SCENARIOS: [(u32, &str); 3] =
    [(1468, "1468 B, one frame"), (1500, "1500 B, two fragments"), (2936, "2936 B, two fragments")];
const METRIC: &str = "throughput by iperf3";
const LOST: &str = "throughput by iperf3, lost";
const GAINED: &str = "throughput by iperf3, gained";
/// Percent that the paper lost to a small second fragment, 50 of about 930 Mbit/s, and gained by two
/// big ones, 60 over 880.
const PAPER_LOST: f64 = 5.4;
const PAPER_GAINED: f64 = 6.8;

pub(super) fn run(report: &mut Report, options: &Options) -> Result<(), ExperimentError> {
    let (rounds, seconds) = if options.quick { (1, 1) } else { (5, 4) };
    let wires: &[u32] = if options.quick { &[100] } else { &[100, 1000] };
    for wire in wires {
        over(report, *wire, rounds, seconds)?;
    }
    Ok(())
}

fn over(report: &mut Report, rate: u32, rounds: usize, seconds: u32) -> Result<(), ExperimentError> {
    let wire = format!("{rate} Mbit/s");
    let between = [
        (format!("1500 B in two fragments against 1468 B whole, {wire}"), LOST),
        (format!("2936 B in two fragments against 1500 B in two fragments, {wire}"), GAINED),
    ];
    if !iperf3::is_here() {
        let cases = SCENARIOS.map(|(_, name)| format!("{name}, {wire}"));
        for case in cases.into_iter().chain(between.map(|(case, _)| case)) {
            report.row(Row::new(case, "left out", "").note(iperf3::INSTALL));
        }
        return Ok(());
    }
    let mut rates = [[0.0; 2]; 3];
    for _ in 0..rounds {
        for ((payload, _), rates) in SCENARIOS.iter().zip(&mut rates) {
            for (rates, (wire_mtu, macsec)) in rates.iter_mut().zip([(4000, OFF), (1500, MARKED)]) {
                let link = Link::build(&Settings {
                    suite: "gcm-aes-128",
                    macsec,
                    field_mtu: 3000,
                    wire_mtu,
                    rekey_seconds: None,
                    rate_mbit: rate,
                    bulk: true,
                    wait: SLEEPING,
                })?;
                *rates += link.iperf3(*payload, seconds)? / rounds as f64;
            }
        }
    }
    for ((_, name), [whole, fragments]) in SCENARIOS.iter().zip(rates) {
        let note =
            "one TCP connection; baseline: the same payload whole over an MTU of 4000, fragmentation off";
        let row = Row::new(format!("{name}, {wire}"), METRIC, "Mbit/s");
        report.row(row.baseline(whole).antedated(fragments).note(note));
    }
    let [[_, fits], [_, split], [_, double]] = rates;
    let note = "two machines, two gateways and the wire share the cores of this machine, where the paper's have their own";
    let [(lost, of_lost), (gained, of_gained)] = between;
    for (case, metric, paper, rate, more) in [
        (lost, of_lost, PAPER_LOST, fits, fits - split),
        (gained, of_gained, PAPER_GAINED, split, double - split),
    ] {
        report.row(Row::new(&case, metric, "Mbit/s").antedated(more).note(note));
        report.row(Row::new(case, metric, "%").paper(paper).antedated(100.0 * more / rate).note(note));
    }
    Ok(())
}
