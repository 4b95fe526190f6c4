//! Measurements, and a cipher's table.

use crate::field::{IPSEC_MB, IPSEC_MB_JOB, What};
use crate::meter::Latency;
use crate::ours::WHO;
use serde_json::{Value, json};
use std::fmt::Write;

/// One series.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The suite's name.
    pub cipher: &'static str,
    /// Bytes of payload.
    pub len: usize,
    /// The implementation.
    pub who: &'static str,
    /// The operation.
    pub what: What,
    /// Its latency.
    pub latency: Latency,
}

impl Measured {
    /// For the JSON result.
    pub fn json(&self) -> Value {
        let Latency { min, median, p99 } = self.latency;
        let rounded = |value: f64| (value * 10.0).round() / 10.0;
        json!({ "cipher": self.cipher, "payload": self.len, "who": self.who, "what": self.what.name(),
            "min_ns": rounded(min), "median_ns": rounded(median), "p99_ns": rounded(p99) })
    }
}

/// All series of a run.
#[derive(Default)]
pub struct Results(pub Vec<Measured>);

impl Results {
    fn of(&self, cipher: &str, len: usize, what: What) -> impl Iterator<Item = &Measured> {
        self.0.iter().filter(move |m| m.cipher == cipher && m.len == len && m.what == what)
    }

    /// Our median.
    pub fn ours(&self, cipher: &str, len: usize, what: What) -> Option<f64> {
        self.of(cipher, len, what).find(|m| m.who == WHO).map(|m| m.latency.median)
    }

    /// The median of the fastest crate, and its name.
    pub fn crates(&self, cipher: &str, len: usize, what: What) -> Option<(f64, &'static str)> {
        let peers = self.of(cipher, len, what).filter(|m| ![WHO, IPSEC_MB, IPSEC_MB_JOB].contains(&m.who));
        peers.map(|m| (m.latency.median, m.who)).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The median of the fastest peer of all, and its name.
    pub fn peers(&self, cipher: &str, len: usize, what: What) -> Option<(f64, &'static str)> {
        let peers = self.of(cipher, len, what).filter(|m| m.who != WHO);
        peers.map(|m| (m.latency.median, m.who)).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The median of ipsec-mb's faster interface.
    pub fn ipsec_mb(&self, cipher: &str, len: usize, what: What) -> Option<f64> {
        let ways = self.of(cipher, len, what).filter(|m| [IPSEC_MB, IPSEC_MB_JOB].contains(&m.who));
        ways.map(|m| m.latency.median).min_by(f64::total_cmp)
    }

    /// The lengths measured with this cipher.
    pub fn lens(&self, cipher: &str) -> Vec<usize> {
        let mut lens: Vec<usize> = self.0.iter().filter(|m| m.cipher == cipher).map(|m| m.len).collect();
        lens.sort_unstable();
        lens.dedup();
        lens
    }

    /// A table: nanoseconds of each contender, then the fastest peers' times divided by ours.
    pub fn table(&self, cipher: &str, part: fn(&Latency) -> f64) -> String {
        let lens = self.lens(cipher);
        let mut text = format!("{cipher:<42}");
        for len in &lens {
            let _ = write!(text, "{len:>8}");
        }
        text.push('\n');
        let mut rows: Vec<(What, &str)> = Vec::new();
        for m in self.0.iter().filter(|m| m.cipher == cipher) {
            if !rows.contains(&(m.what, m.who)) {
                rows.push((m.what, m.who));
            }
        }
        rows.sort_by_key(|(what, _)| *what);
        for (what, who) in &rows {
            let cells = lens
                .iter()
                .map(|&len| self.of(cipher, len, *what).find(|m| m.who == *who).map(|m| part(&m.latency)));
            line(&mut text, &what.name(), who, cells, "");
        }
        let disciplines = [What::Seal, What::Open]
            .into_iter()
            .flat_map(|plain| rows.iter().filter(move |row| row.1 == WHO && row.0.replaces() == plain));
        for (what, _) in disciplines.filter(|(what, _)| !what.prepares()) {
            let against = |peer: fn(&Self, &str, usize, What) -> Option<f64>| {
                let ratio = move |&len: &usize| {
                    Some(peer(self, cipher, len, what.replaces())? / self.ours(cipher, len, *what)?)
                };
                lens.iter().map(ratio).collect::<Vec<_>>()
            };
            let crates = against(|all, cipher, len, what| Some(all.crates(cipher, len, what)?.0));
            let ipsec = against(Self::ipsec_mb);
            for (who, ratios) in [("fastest crate", crates), (IPSEC_MB, ipsec)] {
                if ratios.iter().any(Option::is_some) {
                    line(&mut text, &what.name(), who, ratios.into_iter(), "x");
                }
            }
        }
        text
    }
}

fn line(text: &mut String, what: &str, who: &str, cells: impl Iterator<Item = Option<f64>>, unit: &str) {
    let _ = write!(text, "  {what:<24}{who:<16}");
    for cell in cells {
        let cell = cell.map_or_else(|| "-".into(), |value| format!("{value:.1}{unit}"));
        let _ = write!(text, "{cell:>8}");
    }
    text.push('\n');
}
