//! Experiment `aead`: the cost of each suite on this machine, unmodified and antedated.
//!
//! Cases are suite, length and number of new blocks. Rows beside hiller2018's figures 5 and 6
//! compare shares of the time.
//!
//! Three parts of each packet are timed: the unmodified cipher, the preparation, and the work left
//! at the deadline. Calls stand between fences, the cost of an empty call is subtracted, and each
//! figure is a median.

use antedate_aead::research::Morus1280;
use antedate_aead::{
    Aegis128L, Aes128Ccm8, Aes128Gcm, Aes128Ocb3, Aes256Gcm, AsconAead128, ChaCha20Poly1305, Fronted,
    NonceSequence, Sparse, Suite,
};

use crate::{ExperimentError, Options, Report, Row};
use antedate_lab::sys::{sched, ticks};
use packets::{Costs, Counter, Shape};

mod packets;

/// Bytes of payload.
const LENGTHS: [usize; 7] = [16, 64, 112, 256, 600, 1000, 1500];
const QUICK: [usize; 3] = [16, 112, 1000];

/// Packets per median.
const PACKETS: usize = 20_001;
const QUICK_PACKETS: usize = 2_001;

/// New blocks of a packet; 0 means all.
const NEW: [usize; 3] = [1, 4, 0];

struct Bench {
    report: Report,
    lengths: &'static [usize],
    packets: usize,
    tick: f64,
}

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<Report, ExperimentError> {
    let report = Report::new("aead", "hiller2018");
    if let Some(cpu) = sched::allowed_cpus().last() {
        // One core keeps the caches warm. Without the permission the experiment runs unpinned.
        let _ = sched::pin(&[*cpu]);
    }
    let (lengths, packets) =
        if options.quick { (&QUICK[..], QUICK_PACKETS) } else { (&LENGTHS[..], PACKETS) };
    let tick = ticks::nanoseconds_per_tick();
    let mut bench = Bench { report, lengths, packets, tick };
    type Part = fn(&mut Bench);
    let parts: &[(&str, Part)] = &[
        (Aes128Gcm::NAME, Bench::sparse::<Aes128Gcm>),
        (Aes256Gcm::NAME, Bench::sparse::<Aes256Gcm>),
        (ChaCha20Poly1305::NAME, Bench::sparse::<ChaCha20Poly1305>),
        (Aes128Ocb3::NAME, Bench::sparse::<Aes128Ocb3>),
        (Aes128Ccm8::NAME, Bench::fronted::<Aes128Ccm8>),
        (Aegis128L::NAME, Bench::fronted::<Aegis128L>),
        (AsconAead128::NAME, Bench::fronted::<AsconAead128>),
        (Morus1280::NAME, Bench::fronted::<Morus1280>),
        ("figure 5", Bench::figure_5),
        ("figure 6", Bench::figure_6),
    ];
    for (done, (name, part)) in parts.iter().enumerate() {
        options.progress(done, parts.len(), name);
        part(&mut bench);
    }
    options.progress(parts.len(), parts.len(), "");
    Ok(bench.report)
}

impl Bench {
    /// Measures a suite with holes anywhere: whole blocks, spread over the payload.
    fn sparse<S: Sparse>(&mut self)
    where
        Counter: NonceSequence<S::NonceBytes, Error = std::convert::Infallible>,
    {
        for &len in self.lengths {
            for new in NEW.into_iter().filter(|new| new * 16 <= len) {
                let costs = match new {
                    0 => packets::all_new::<S>(len, self.packets),
                    new => packets::template::<S>(&Shape::scattered(len, new), self.packets),
                };
                self.rows(S::NAME, len, new, "anywhere", costs);
            }
        }
    }

    /// Measures a suite with a static front: the new blocks are the last ones.
    fn fronted<S: Fronted>(&mut self)
    where
        Counter: NonceSequence<S::NonceBytes, Error = std::convert::Infallible>,
    {
        for &len in self.lengths {
            for new in NEW.into_iter().filter(|new| new * 16 <= len) {
                let costs = match new {
                    0 => packets::all_new::<S>(len, self.packets),
                    new => packets::front::<S>(len, len - 16 * new, self.packets),
                };
                self.rows(S::NAME, len, new, "at the end", costs);
            }
        }
    }

    fn rows(&mut self, suite: &str, len: usize, new: usize, place: &str, costs: Costs) {
        let blocks = len.div_ceil(16);
        let case = match new {
            0 => format!("{suite}, {len} bytes, all {blocks} blocks new"),
            _ => format!("{suite}, {len} bytes, {new} of {blocks} blocks new, {place}"),
        };
        let [unmodified, prepare, online] = costs.map(|ticks| ticks * self.tick);
        let row = |metric: &str, unit: &str| Row::new(case.as_str(), metric, unit);
        let rows = [
            row("latency", "ns").baseline(unmodified).antedated(online),
            row("work in all", "ns").baseline(unmodified).antedated(prepare + online),
            row("saved", "%").antedated(saved(unmodified, online)),
        ];
        rows.into_iter().for_each(|row| self.report.row(row));
    }

    /// hiller2018, figure 5 and section VI-A: the share of AES-CTR that a prepared cipherstream
    /// saves, and the additional work in all.
    fn figure_5(&mut self) {
        let note = "of AES-CTR; paper: Zolertia Z1 with the CC2420's AES, here: this CPU";
        let printed = [
            (16, Some(78.93), Some(27.59)),
            (48, None, Some(11.28)),
            (80, Some(88.13), Some(8.20)),
            (200, None, Some(5.36)),
            (1000, Some(89.90), Some(4.14)),
        ];
        for (len, paper_saved, paper_more) in printed {
            let [unmodified, prepare, online] = packets::counter_mode(len, self.packets);
            let row =
                |metric: &str| Row::new(format!("figure 5: AES-CTR, {len} bytes"), metric, "%").note(note);
            self.report.row(row("saved").paper(paper_saved).antedated(saved(unmodified, online)));
            let more = -saved(unmodified, prepare + online);
            self.report.row(row("more work in all").paper(paper_more).antedated(more));
        }
    }

    /// hiller2018, figure 6: the share of CCM's MAC that a static front saves.
    ///
    /// The cipherstream is prepared in both cases, so the comparison covers the MAC and the XOR.
    fn figure_6(&mut self) {
        for (len, front, paper) in [(112, 16, 21.99), (112, 96, 75.85), (64, 48, 64.45), (1000, 48, 5.95)] {
            let [_, _, without] = packets::all_new::<Aes128Ccm8>(len, self.packets);
            let [_, _, with] = packets::front::<Aes128Ccm8>(len, front, self.packets);
            let row = Row::new(format!("figure 6: AES-CCM, {len} bytes, front of {front}"), "saved", "%");
            let note = "of the MAC; paper: Zolertia Z1 with the CC2420's AES, here: this CPU, XOR included";
            self.report.row(row.paper(paper).antedated(saved(without, with)).note(note));
        }
    }
}

fn saved(unmodified: f64, online: f64) -> f64 {
    (1.0 - online / unmodified) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_three_rows_and_paper_values() {
        let cores = crate::Machine::here().cores;
        let report = run(&Options { quick: true, ..Options::default() }).expect("runs everywhere");
        assert_eq!(report.machine.cores, cores, "those of the machine, not the one that it stays on");
        let latencies = report.rows.iter().filter(|row| row.metric == "latency");
        assert!(latencies.clone().count() >= 8 * (QUICK.len() * 2));
        assert!(latencies.clone().all(|row| row.baseline > Some(0.0) && row.antedated.is_some()));
        let figure: Vec<_> = report.rows.iter().filter(|row| row.paper.is_some()).collect();
        assert_eq!(figure.len(), 4 + 8);
        assert!(figure.iter().all(|row| row.unit == "%" && row.antedated.is_some()));
    }
}
