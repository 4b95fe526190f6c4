//! Experiment `ciphers`: MACsec's ciphers on this CPU (Lackorzynski et al. 2020, section V).
//!
//! Each backend is measured, down to the portable one without AES, carry-less multiplication and
//! vector instructions, which represents the paper's CPUs.
//!
//! - The cipher alone: a frame is sealed and opened unprepared, with 28 octets of associated data
//!   (addresses and SecTAG). Each time is the minimum of many short batches, to exclude other load.
//! - Round trips through two gateways in network namespaces over a Linux bridge, with preparation, and
//!   without encryption. Sizes and suites take turns.
//! - The rate of one TCP connection through the gateways, by iperf3.
//!
//! The ciphers alone are unmodified processing (`baseline`); the round trips are antedated.

use antedate_aead::Backend;
use antedate_channel::macsec::CipherSuite;
use antedate_gateway::link::fastest::{self, Effort, Times, WEIGHTS};

use super::link::{Link, POLLING, SLEEPING, Settings, UNPROTECTED, iperf3};
use crate::{ExperimentError, Options, Report, Row};
use antedate_lab::histogram;

/// The first one is MACsec's default. The paper has no Ascon-AEAD128 and no AES-128-OCB3.
const SUITES: [CipherSuite; 7] = [
    CipherSuite::GcmAes128,
    CipherSuite::GcmAes256,
    CipherSuite::ChaCha20Poly1305,
    CipherSuite::Aegis128L,
    CipherSuite::Morus1280,
    CipherSuite::AsconAead128,
    CipherSuite::Aes128Ocb3,
];
/// The paper's other ciphers.
const OTHERS: [CipherSuite; 3] =
    [CipherSuite::ChaCha20Poly1305, CipherSuite::Aegis128L, CipherSuite::Morus1280];
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
        backend_rows(&mut report, *backend, step + 1 == backends.len(), options);
        // For round trips the best and the least backend suffice.
        if *backend == Backend::Portable || step + 1 == backends.len() {
            options.progress(2 * step + 1, 2 * backends.len(), &format!("{backend:?}, round trips"));
            round_trips(&mut report, *backend, options)?;
            let what = format!("{backend:?}, TCP");
            options.progress(2 * step + 1, 2 * backends.len(), &what);
            throughput(&mut report, *backend, options)?;
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

/// Unencrypted first, then the suites.
fn ways() -> Vec<&'static str> {
    [UNPROTECTED].into_iter().chain(SUITES.iter().map(|suite| suite.name())).collect()
}

fn case_of(suite: &str, backend: Backend) -> String {
    format!("{}, {backend:?}", if suite == UNPROTECTED { "no encryption" } else { suite })
}

/// Round trips of each suite and size, and their mean with the weights of table IV (the paper's
/// weighted latency).
fn round_trips(report: &mut Report, backend: Backend, options: &Options) -> Result<(), ExperimentError> {
    let (rounds, count) = if options.quick { (1, 60) } else { (4, 2_000) };
    let ways = ways();
    let mut times: Vec<[histogram::Times; WEIGHTS.len()]> = vec![Default::default(); ways.len()];
    let mut lost = 0;
    Backend::mask_beyond(backend);
    let unmask = Unmask;
    for _ in 0..rounds {
        for (suite, times) in ways.iter().zip(&mut times) {
            let link = Link::build(&Settings {
                suite,
                macsec: "",
                field_mtu: 1504,
                wire_mtu: 1600,
                rekey_seconds: None,
                rate_mbit: 0,
                bulk: false,
                wait: POLLING,
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
    for (suite, of) in ways.iter().zip(&times) {
        let plain = *suite == UNPROTECTED;
        let case = case_of(suite, backend);
        for ((len, _), times) in WEIGHTS.iter().zip(of) {
            for (metric, percent) in [("p50", 50.0), ("p99.9", 99.9)] {
                let row = Row::new(&case, format!("round trip of {len} B, {metric}"), "µs");
                report.row(row.antedated(times.percentile_us(percent)));
            }
        }
        let row = Row::new(&case, "weighted latency (table IV), round trip p50", "µs");
        report.row(row.antedated(mean(of)));
        if plain {
            continue;
        }
        let less = (1.0 - mean(of) / mean(&times[1])) * 100.0;
        let chacha = *suite == CipherSuite::ChaCha20Poly1305.name();
        let paper = (masked && chacha).then_some(PAPER_CHACHA_RTT);
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

/// The rate of one TCP connection through the gateways with each suite (figure 5b).
fn throughput(report: &mut Report, backend: Backend, options: &Options) -> Result<(), ExperimentError> {
    let ways = ways();
    if !iperf3::is_here() {
        let cases = ways.iter().map(|suite| case_of(suite, backend));
        for case in cases.chain((backend != Backend::Portable).then(|| BEST.to_owned())) {
            report.row(Row::new(case, "left out", "").note(iperf3::INSTALL));
        }
        return Ok(());
    }
    let (rounds, seconds) = if options.quick { (1, 1) } else { (5, 4) };
    let mut rates = vec![0.0; ways.len()];
    Backend::mask_beyond(backend);
    let unmask = Unmask;
    for _ in 0..rounds {
        for (suite, rate) in ways.iter().zip(&mut rates) {
            let link = Link::build(&Settings {
                suite,
                macsec: "",
                field_mtu: 1500,
                wire_mtu: 1600,
                rekey_seconds: None,
                rate_mbit: 0,
                bulk: true,
                wait: SLEEPING,
            })?;
            *rate += link.iperf3(1500, seconds)? / f64::from(rounds);
        }
    }
    drop(unmask);
    let note =
        "two machines and two gateways share the cores of this machine; the paper's have a machine each";
    for (suite, rate) in ways.iter().zip(&rates) {
        let row = Row::new(case_of(suite, backend), "throughput by iperf3", "Mbit/s");
        report.row(row.antedated(*rate).note(note));
    }
    let default = rates[1];
    for (suite, rate) in ways.iter().zip(&rates).filter(|(suite, _)| **suite != UNPROTECTED) {
        let row = Row::new(case_of(suite, backend), "throughput by iperf3 against GCM-AES-128", "times");
        report.row(row.antedated(rate / default).note(note));
    }
    if backend != Backend::Portable {
        let others =
            ways.iter().zip(&rates).filter(|(way, _)| OTHERS.iter().any(|suite| suite.name() == **way));
        let best = others.map(|(_, rate)| *rate).fold(0.0, f64::max);
        let row = Row::new(BEST, "throughput by iperf3 against GCM-AES-128", "times");
        report.row(row.antedated(best / default).note(note));
    }
    Ok(())
}

/// The case of the best suite but AES-GCM on this CPU.
const BEST: &str = "best of the others, this CPU";

fn backend_rows(report: &mut Report, backend: Backend, best: bool, options: &Options) {
    let (batches, frames) = if options.quick { (40, 20) } else { (400, 50) };
    let measured = SUITES.map(|suite| (suite, fastest::of(suite, backend, Effort { batches, frames })));
    let longest = |times: &Times| times.each.last().copied().unwrap_or(f64::MAX);
    let (_, default) = measured[0];
    let masked = backend == Backend::Portable;
    for (suite, times) in measured {
        let case = format!("{suite}, {backend:?}");
        let row = Row::new(&case, "seal and open, weighted by table IV", "ns");
        report.row(row.baseline(times.weighted));
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
                .baseline(ratio)
                .note(note),
        );
        if let Some(paper) = paper {
            report.check(
                format!("{case}: {ratio:.2} times GCM-AES-128's throughput, goal {paper}"),
                ratio >= paper,
            );
        }
    }
    if best {
        // The paper's first platform has AES instructions: there, no other cipher gained.
        let others = measured.iter().filter(|(suite, _)| OTHERS.contains(suite));
        let ratios = others.map(|(_, times)| longest(&default) / longest(times));
        let row = Row::new(BEST, "throughput at 1518 B against GCM-AES-128", "times");
        report.row(row.baseline(ratios.fold(0.0, f64::max)).note("of the cipher alone"));
    }
    let protecting = measured.iter().filter(|(suite, _)| !suite.is_research());
    let first = protecting.min_by(|(_, a), (_, b)| a.weighted.total_cmp(&b.weighted));
    if let Some((suite, times)) = first {
        let case = format!("fastest: {suite}, {backend:?}");
        report.row(Row::new(case, "seal and open, weighted by table IV", "ns").baseline(times.weighted));
    }
}
