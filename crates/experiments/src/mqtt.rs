//! Experiment `mqtt`: the cost of protected payloads over a real Mosquitto broker on loopback
//! (Katsikeas et al. 2017, section IV).
//!
//! As in the paper, a round trip is publish, broker, subscriber, publish on an acknowledgement
//! topic, broker, publisher. The payload is opened before it is acknowledged. Each option takes
//! turns with plaintext, message by message, over the same two connections; TLS has two connections
//! of its own. A run has twenty stretches. Median and 99th percentile are divided by those of
//! plaintext in the same stretch, and the median of these ratios counts.
//!
//! The paper's times come from motes on a radio and serve for orientation only.

mod air;
pub(crate) mod broker;
mod link_layer;
mod motes;
pub(crate) mod proxy;
pub(crate) mod roundtrip;
mod throughput;
mod wind_park;

use antedate_channel::mqtt::Algorithm;

use crate::{ExperimentError, Options, Report, Row};
use roundtrip::Found;

/// The paper's sizes and larger ones.
const SIZES: [usize; 7] = [16, 32, 48, 64, 256, 512, 1024];
const QUICK_SIZES: [usize; 2] = [48, 256];
/// The paper's round trip in plaintext with 32 bytes, in microseconds.
const PAPER_32_US: f64 = 568_440.0;
/// The median of an antedated option over plaintext's: this ratio or these microseconds, whichever is
/// more.
const MEDIAN_GOAL: f64 = 1.02;
const MEDIAN_GOAL_US: f64 = 1.5;
/// Sealed publishes per second, or this share of plaintext's rate.
const RATE_GOAL: f64 = 50_000.0;
const SHARE_GOAL: f64 = 0.95;

/// Protection of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Plaintext.
    Plain,
    /// Plaintext once more: shows the measurement's uncertainty.
    Again,
    /// Plaintext with the length of an envelope: shows the cost of the length alone.
    Longer,
    /// Plaintext over TLS.
    Tls,
    /// Sealed when the payload exists, with the preparation for any payload of its length.
    Sealed(Algorithm),
    /// Prepared before the payload exists, except the value.
    Antedated(Algorithm),
}

impl Way {
    /// All ways. Antedated ones exist for the AEADs.
    fn all() -> Vec<Self> {
        let mut all = vec![Self::Plain, Self::Again, Self::Longer, Self::Tls];
        all.extend(Algorithm::ALL.map(Self::Sealed));
        all.extend(Algorithm::ALL.into_iter().take(5).map(Self::Antedated));
        all
    }

    fn name(self) -> String {
        match self {
            Self::Plain => "plaintext".into(),
            Self::Again => "plaintext, again".into(),
            Self::Longer => "plaintext of an envelope's length".into(),
            Self::Tls => "TLS to the broker".into(),
            Self::Sealed(algorithm) => algorithm.to_string(),
            Self::Antedated(algorithm) => format!("{algorithm}, antedated"),
        }
    }

    /// Whether the goals apply.
    fn is_aead(self) -> bool {
        matches!(self, Self::Antedated(_))
            || matches!(self, Self::Sealed(one) if Algorithm::ALL[..5].contains(&one))
    }
}

/// Runs all parts.
pub(crate) fn run(options: &Options) -> Result<Report, ExperimentError> {
    let mut report = Report::new("mqtt", "katsikeas2017");
    // The motes come first: a missing firmware build is reported at once.
    on_motes(&mut report, options)?;
    on_host(&mut report, options)?;
    Ok(report)
}

/// Runs the part on emulated motes.
pub(crate) fn run_motes(options: &Options) -> Result<Report, ExperimentError> {
    let mut report = Report::new("mqtt-motes", "katsikeas2017");
    on_motes(&mut report, options)?;
    Ok(report)
}

/// Runs the part with the broker.
pub(crate) fn run_host(options: &Options) -> Result<Report, ExperimentError> {
    let mut report = Report::new("mqtt-host", "katsikeas2017");
    on_host(&mut report, options)?;
    Ok(report)
}

fn on_motes(report: &mut Report, options: &Options) -> Result<(), ExperimentError> {
    let motes = motes::Mote::both(options)?;
    motes::report(report, &motes, options)?;
    air::report(report)?;
    wind_park::report(report, &motes)
}

fn on_host(report: &mut Report, options: &Options) -> Result<(), ExperimentError> {
    super::ends_with_signals();
    let broker = broker::Broker::start()?;
    let (sizes, rounds) = if options.quick { (&QUICK_SIZES[..], 200) } else { (&SIZES[..], 10_000) };
    for (step, size) in sizes.iter().enumerate() {
        options.progress(step, sizes.len() + 1, &format!("round trips with {size} bytes"));
        rows(report, *size, &roundtrip::measure(&broker, *size, rounds)?, options);
    }
    options.progress(sizes.len(), sizes.len() + 1, "publishes in a second");
    let (count, turns) = if options.quick { (5_000, 2) } else { (50_000, 5) };
    rates(report, &throughput::measure(&broker, count, turns)?, options);
    options.progress(1, 1, "");
    Ok(())
}

fn rows(report: &mut Report, size: usize, found: &[Found], options: &Options) {
    if let Some(Found { plain, .. }) = found.first() {
        let case = format!("plaintext, {size} B");
        let paper = (size == 32).then_some(PAPER_32_US);
        let row = Row::new(&case, "median RTT", "us").paper(paper).baseline(plain.p50);
        report.row(row.note(if paper.is_some() { "paper: a mote on a radio" } else { "" }));
        report.row(Row::new(&case, "p99 RTT", "us").baseline(plain.p99));
    }
    for Found { way, times, plain, median, p99, sealing, opening } in found {
        let case = format!("{}, {size} B", way.name());
        for (metric, base, ours) in [("median RTT", plain.p50, times.p50), ("p99 RTT", plain.p99, times.p99)]
        {
            report.row(Row::new(&case, metric, "us").baseline(base).antedated(ours));
        }
        report.row(Row::new(&case, "median RTT against plaintext", "times").antedated(*median));
        report.row(Row::new(&case, "p99 RTT against plaintext", "times").antedated(*p99));
        if let Way::Sealed(_) | Way::Antedated(_) = way {
            report.row(Row::new(&case, "of the median RTT, sealing", "us").antedated(sealing.p50));
            report.row(Row::new(&case, "of the median RTT, opening", "us").antedated(opening.p50));
        }
        // A short series cannot show a difference of two percent.
        if matches!(way, Way::Antedated(_)) && !options.quick {
            let more = times.p50 - plain.p50;
            report.check(
                format!(
                    "{case}: median {median:.3} of plaintext's, {more:+.2} us, goal {MEDIAN_GOAL} or {MEDIAN_GOAL_US} us"
                ),
                *median <= MEDIAN_GOAL || more <= MEDIAN_GOAL_US,
            );
        }
    }
}

fn rates(report: &mut Report, found: &[(Way, throughput::Rate)], options: &Options) {
    let Some((_, plain)) = found.iter().find(|(way, _)| *way == Way::Plain) else { return };
    for (way, rate) in found {
        let case = format!("{}, 64 B, QoS 0", way.name());
        report.row(Row::new(&case, "publishes", "1/s").baseline(plain.per_second).antedated(rate.per_second));
        report.check(format!("{case}: {} lost", rate.lost), rate.lost == 0);
        if way.is_aead() && !options.quick {
            let share = rate.per_second / plain.per_second;
            let what = format!(
                "{case}: {:.0} in a second, {share:.3} of plaintext's, goal {RATE_GOAL} or {SHARE_GOAL}",
                rate.per_second
            );
            report.check(what, rate.per_second >= RATE_GOAL || share >= SHARE_GOAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn way_names_are_unique() {
        let all = Way::all();
        assert_eq!(all.len(), 17);
        for (i, way) in all.iter().enumerate() {
            assert!(all.iter().skip(i + 1).all(|other| other.name() != way.name()));
        }
        assert_eq!(all.iter().filter(|way| way.is_aead()).count(), 10);
    }
}
