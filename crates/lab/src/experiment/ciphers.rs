//! The ciphers of MACsec (Lackorzynski et al. 2020, section V) on this CPU, and with its AES, carry-less multiplication and
//! vector instructions masked, which stands for the paper's CPUs without them.
//!
//! A frame is sealed and opened, unprepared, with 28 octets of associated data as a SecTAG with its addresses has. Times are
//! the least of many short batches, so that what else runs on the machine does not count. The network is not in them.

use antedate_aead::research::Morus1280;
use antedate_aead::{Aegis128L, Aes128Gcm, Aes256Gcm, Backend, ChaCha20Poly1305, Key, Nonce, Suite};

use super::{Options, Report, Row};
use crate::sys::clock::monotonic_ns;

/// Frame sizes and their weights (table IV).
const WEIGHTS: [(usize, f64); 6] =
    [(128, 0.5), (256, 0.2), (512, 0.1), (1024, 0.1), (1400, 0.05), (1518, 0.05)];
/// Addresses and SecTAG.
const HEADER: usize = 28;
/// Throughput without AES instructions as a multiple of GCM's: what the paper has at best.
const PAPER_CHACHA: f64 = 3.26;
const PAPER_AEGIS: f64 = 1.84;

pub(super) fn run(options: &Options) -> Result<Report, String> {
    let mut report = Report::new("ciphers", "lackorzynski2020");
    let backends: Vec<Backend> = Backend::available().collect();
    for (step, backend) in backends.iter().enumerate() {
        options.progress(step, backends.len(), &format!("{backend:?}"));
        backend_rows(&mut report, *backend, options)?;
    }
    options.progress(1, 1, "");
    Ok(report)
}

fn backend_rows(report: &mut Report, backend: Backend, options: &Options) -> Result<(), String> {
    let measured = [
        ("gcm-aes-128", times::<Aes128Gcm>(backend, options)?),
        ("gcm-aes-256", times::<Aes256Gcm>(backend, options)?),
        ("chacha20-poly1305", times::<ChaCha20Poly1305>(backend, options)?),
        ("aegis-128l", times::<Aegis128L>(backend, options)?),
        ("morus-1280-128", times::<Morus1280>(backend, options)?),
    ];
    let (_, default) = measured[0];
    let masked = backend == Backend::Portable;
    for (name, Times { weighted, longest }) in measured {
        let case = format!("{name}, {backend:?}");
        let row = Row::new(&case, "seal and open, weighted by table IV", "ns");
        report.row(row.baseline(default.weighted).antedated(weighted).note("baseline: GCM-AES-128"));
        let paper = match name {
            "chacha20-poly1305" if masked => Some(PAPER_CHACHA),
            "aegis-128l" if masked => Some(PAPER_AEGIS),
            _ => None,
        };
        let ratio = default.longest / longest;
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
    let standard = measured.iter().filter(|(name, _)| !name.starts_with("morus"));
    let fastest = standard.min_by(|(_, a), (_, b)| a.weighted.total_cmp(&b.weighted));
    if let Some((name, times)) = fastest {
        let case = format!("fastest: {name}, {backend:?}");
        report.row(Row::new(case, "seal and open, weighted by table IV", "ns").antedated(times.weighted));
    }
    Ok(())
}

/// Nanoseconds for one frame.
#[derive(Clone, Copy)]
struct Times {
    weighted: f64,
    longest: f64,
}

fn times<S: Suite<TagBytes = [u8; 16]>>(backend: Backend, options: &Options) -> Result<Times, String>
where
    S::NonceBytes: Default + Copy,
{
    let octets: Vec<u8> = (0..S::KEY_LEN as u8).collect();
    let key = Key::<S>::with_backend(&octets, backend).map_err(|error| error.to_string())?;
    let (batches, length) = if options.quick { (40, 20) } else { (400, 50) };
    let header = [0x5a; HEADER];
    let (mut weighted, mut longest) = (0.0, 0.0);
    for (len, weight) in WEIGHTS {
        // What is encrypted is the frame without its addresses.
        let data = vec![0xa5; len - 12];
        let (mut sealed, mut opened) = (data.clone(), data.clone());
        let mut least = u64::MAX;
        for _ in 0..batches {
            let begin = monotonic_ns();
            for _ in 0..length {
                // The same nonce each time, for nothing here is sent or secret.
                let tag =
                    key.seal(Nonce::assume_unique(S::NonceBytes::default()), &header, &data, &mut sealed);
                let nonce = S::NonceBytes::default();
                key.open(nonce, &header, &sealed, &mut opened, tag.as_bytes())
                    .map_err(|error| error.to_string())?;
            }
            least = least.min(monotonic_ns() - begin);
        }
        if opened != data {
            return Err(format!("{} does not open what it sealed", S::NAME));
        }
        longest = least as f64 / f64::from(length);
        weighted += weight * longest;
    }
    Ok(Times { weighted, longest })
}
