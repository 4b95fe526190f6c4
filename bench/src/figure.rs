//! The figure of a run (`--figure`).

use crate::results::Results;
use antedate_figure::race::{self, Latency};

/// Draws the latencies of sealing, with a chart for each cipher.
pub fn svg(results: &Results) -> Result<String, String> {
    let names: Vec<String> = results.0.iter().map(|measured| measured.what.name()).collect();
    let latencies: Vec<Latency<'_>> = results
        .0
        .iter()
        .zip(&names)
        .map(|(measured, what)| Latency {
            cipher: measured.cipher,
            len: measured.len,
            who: measured.who,
            what,
            ns: measured.latency.median,
        })
        .collect();
    race::figure("The engine beside other implementations", &latencies)
        .ok_or_else(|| "nothing was measured".into())
}
