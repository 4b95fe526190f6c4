//! The ciphers of MACsec (Lackorzynski et al. 2020, section V) on this CPU, and with its AES, carry-less multiplication and
//! vector instructions masked, which stands for the paper's CPUs without them.
//!
//! A frame is sealed and opened, unprepared, with 28 octets of associated data as a SecTAG with its addresses has. Times are
//! the least of many short batches, so that what else runs on the machine does not count. The network is not in them.

use antedate_aead::Backend;
use antedate_channel::macsec::CipherSuite;
use antedate_gateway::fastest::{self, Effort, Times};

use super::{Options, Report, Row};

/// The default one first.
const SUITES: [CipherSuite; 5] = [
    CipherSuite::GcmAes128,
    CipherSuite::GcmAes256,
    CipherSuite::ChaCha20Poly1305,
    CipherSuite::Aegis128L,
    CipherSuite::Morus1280,
];
/// Throughput without AES instructions as a multiple of GCM's: what the paper has at best.
const PAPER_CHACHA: f64 = 3.26;
const PAPER_AEGIS: f64 = 1.84;

pub(super) fn run(options: &Options) -> Result<Report, String> {
    let mut report = Report::new("ciphers", "lackorzynski2020");
    let backends: Vec<Backend> = Backend::available().collect();
    for (step, backend) in backends.iter().enumerate() {
        options.progress(step, backends.len(), &format!("{backend:?}"));
        backend_rows(&mut report, *backend, options);
    }
    options.progress(1, 1, "");
    Ok(report)
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
