//! Experiment `ciphers`: MACsec's ciphers on this CPU (Lackorzynski et al. 2020, section V).
//!
//! Each backend is measured, down to the portable one without AES, carry-less multiplication and
//! vector instructions, which represents the paper's CPUs.
//!
//! - The cipher alone: a frame is sealed and opened unprepared, with 28 octets of associated data
//!   (addresses and SecTAG). Each time is the minimum of many short batches, to exclude other load.
//! - Round trips through two gateways in network namespaces over a Linux bridge, with preparation.
//!   Sizes and suites take turns.

use antedate_aead::Backend;
use antedate_channel::macsec::CipherSuite;
use antedate_gateway::link::fastest::{self, Effort, Times, WEIGHTS};

use super::link::{Link, Settings};
use crate::{ExperimentError, Options, Report, Row};
use antedate_lab::histogram;

/// The first one is MACsec's default.
const SUITES: [CipherSuite; 5] = [
    CipherSuite::GcmAes128,
    CipherSuite::GcmAes256,
    CipherSuite::ChaCha20Poly1305,
    CipherSuite::Aegis128L,
    CipherSuite::Morus1280,
];
/// The paper's best throughput without AES instructions, as a multiple of GCM's.
const PAPER_CHACHA: f64 = 3.26;
const PAPER_AEGIS: f64 = 1.84;
/// The paper's reduction of the round trip by ChaCha20-Poly1305, in percent.
const PAPER_CHACHA_RTT: f64 = 40.0;

pub(crate) fn run(options: &Options) -> Result<Report, ExperimentError> {
    let mut report = Report::new("ciphers", "lackorzynski2020");
    let backends: Vec<Backend> = Backend::available().collect();
    super::in_namespaces()?;
    for (step, backend) in backends.iter().enumerate() {
        options.progress(2 * step, 2 * backends.len(), &format!("{backend:?}, the ciphers alone"));
        backend_rows(&mut report, *backend, options);
        // For round trips the best and the least backend suffice.
        if *backend == Backend::Portable || step + 1 == backends.len() {
            options.progress(2 * step + 1, 2 * backends.len(), &format!("{backend:?}, round trips"));
            round_trips(&mut report, *backend, options)?;
        }
    }
    options.progress(1, 1, "");
    Ok(report)
}

/// Removes the mask on drop.
struct Unmask;

impl Drop for Unmask {
    fn drop(&mut self) {
        Backend::mask_beyond(Backend::Avx512);
    }
}

/// Round trips of each suite and size, and their mean with the weights of table IV (the paper's
/// weighted latency).
fn round_trips(report: &mut Report, backend: Backend, options: &Options) -> Result<(), ExperimentError> {
    let (rounds, count) = if options.quick { (1, 60) } else { (4, 2_000) };
    let mut times: [[histogram::Times; WEIGHTS.len()]; SUITES.len()] = Default::default();
    let mut lost = 0;
    Backend::mask_beyond(backend);
    let unmask = Unmask;
    for _ in 0..rounds {
        for (suite, times) in SUITES.iter().zip(&mut times) {
            let link = Link::build(&Settings {
                suite: suite.name(),
                macsec: "",
                field_mtu: 1504,
                wire_mtu: 1600,
                rekey_seconds: None,
                rate_mbit: 0,
                bulk: false,
            })?;
            link.round_trips(128, count / 10, &mut histogram::Times::default())?;
            for ((len, _), times) in WEIGHTS.iter().zip(times) {
                lost += link.round_trips(*len, count, times)?;
            }
        }
    }
    drop(unmask);
    let masked = backend == Backend::Portable;
    let mean = |times: &[histogram::Times; WEIGHTS.len()]| -> f64 {
        WEIGHTS.iter().zip(times).map(|((_, weight), times)| weight * times.percentile_us(50.0)).sum()
    };
    for (suite, of) in SUITES.iter().zip(&times) {
        let case = format!("{suite}, {backend:?}");
        for (((len, _), times), default) in WEIGHTS.iter().zip(of).zip(&times[0]) {
            for (metric, percent) in [("p50", 50.0), ("p99.9", 99.9)] {
                report.row(
                    Row::new(&case, format!("round trip of {len} B, {metric}"), "µs")
                        .baseline(default.percentile_us(percent))
                        .antedated(times.percentile_us(percent))
                        .note("baseline: GCM-AES-128"),
                );
            }
        }
        let less = (1.0 - mean(of) / mean(&times[0])) * 100.0;
        let paper = (masked && *suite == CipherSuite::ChaCha20Poly1305).then_some(PAPER_CHACHA_RTT);
        report.row(
            Row::new(&case, "weighted latency (table IV), round trip p50", "µs")
                .baseline(mean(&times[0]))
                .antedated(mean(of))
                .note("baseline: GCM-AES-128"),
        );
        report.row(
            Row::new(&case, "weighted latency against GCM-AES-128, less by", "%")
                .paper(paper)
                .antedated(less)
                .note("the paper's on a Raspberry Pi 4, which prepares nothing"),
        );
    }
    report.check(format!("{backend:?}: no round trip was lost ({lost})"), lost == 0);
    Ok(())
}

fn backend_rows(report: &mut Report, backend: Backend, options: &Options) {
    let (batches, frames) = if options.quick { (40, 20) } else { (400, 50) };
    let measured = SUITES.map(|suite| (suite, fastest::of(suite, backend, Effort { batches, frames })));
    let longest = |times: &Times| times.each.last().copied().unwrap_or(f64::MAX);
    let (_, default) = measured[0];
    let masked = backend == Backend::Portable;
    for (suite, times) in measured {
        let case = format!("{suite}, {backend:?}");
        let row = Row::new(&case, "seal and open, weighted by table IV", "ns");
        report.row(row.baseline(default.weighted).antedated(times.weighted).note("baseline: GCM-AES-128"));
        let paper = match suite {
            CipherSuite::ChaCha20Poly1305 if masked => Some(PAPER_CHACHA),
            CipherSuite::Aegis128L if masked => Some(PAPER_AEGIS),
            _ => None,
        };
        let ratio = longest(&default) / longest(&times);
        let note =
            "of the cipher alone; the paper's ratios hold the network too, on CPUs without AES instructions";
        report.row(
            Row::new(&case, "throughput at 1518 B against GCM-AES-128", "times")
                .paper(paper)
                .antedated(ratio)
                .note(note),
        );
        if let Some(paper) = paper {
            report.check(
                format!("{case}: {ratio:.2} times GCM-AES-128's throughput, goal {paper}"),
                ratio >= paper,
            );
        }
    }
    let protecting = measured.iter().filter(|(suite, _)| !suite.is_research());
    let first = protecting.min_by(|(_, a), (_, b)| a.weighted.total_cmp(&b.weighted));
    if let Some((suite, times)) = first {
        let case = format!("fastest: {suite}, {backend:?}");
        report.row(Row::new(case, "seal and open, weighted by table IV", "ns").antedated(times.weighted));
    }
}
