//! Experiment `scenarios`: the nine industrial scenarios of hiller2018 (table I, figure 7) on
//! emulated motes.
//!
//! A packet is a DTLS 1.2 record with AES-128-CCM_8. *Unmodified* is the engine's cipher without
//! preparation, *antedated* has the cipherstream prepared, *template* also the MAC over the first
//! 16, 32 or 48 bytes of payload. Sparse templates are those of GCM and ChaCha20-Poly1305 with 16
//! or 32 new bytes anywhere. On the mote each packet's tag is compared with the unmodified
//! cipher's.
//!
//! Sealing at the deadline is compared with the planner's prediction at every counted size;
//! preparations are left out. The motes' cooperative runtime is compared with the planner's
//! analysis.

mod figure;
mod planner;
mod table;
mod verdicts;

use super::motes::{self, ScenarioCounts};
use crate::{ExperimentError, Options, Report};

/// A mote and its counts.
struct Mote {
    name: &'static str,
    /// Name in the planner.
    device: &'static str,
    /// Counts per millisecond.
    counts_per_ms: f64,
    note: &'static str,
    counts: ScenarioCounts,
}

impl Mote {
    /// Converts a count to milliseconds.
    fn ms(&self, name: &str) -> Result<f64, ExperimentError> {
        Ok((self.counts.ccm)(name)? / self.counts_per_ms)
    }
}

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<Report, ExperimentError> {
    let mut done = 0;
    let [software, engine, cortex_m3] = motes::scenarios(|what| {
        options.progress(done, 9, what);
        done += 1;
    })?;
    options.progress(9, 9, "");
    let motes = [
        Mote {
            name: "MSP430",
            device: "msp430-16mhz",
            counts_per_ms: 16_000.0,
            note: "simulated MSP430 at 16 MHz, AES in software",
            counts: software,
        },
        Mote {
            name: "MSP430 with AES engine",
            device: "msp430-16mhz-aes",
            counts_per_ms: 16_000.0,
            note: "simulated MSP430 at 16 MHz, AES engine modelled at the paper's 0.24 ms a block",
            counts: engine,
        },
        Mote {
            name: "Cortex-M3",
            device: "cortex-m3-32mhz",
            counts_per_ms: 32_000.0 / 1.5,
            note: "QEMU's instructions, 1.5 cycles each at 32 MHz: an assumption",
            counts: cortex_m3,
        },
    ];
    let mut report = Report::new("scenarios", "hiller2018");
    for mote in &motes {
        table::largest(&mut report, mote)?;
        table::time_left(&mut report, mote)?;
        table::overhead(&mut report, mote)?;
    }
    table::goals(&mut report, &motes)?;
    verdicts::printed(&mut report, &motes)?;
    for mote in &motes {
        planner::points(&mut report, mote, options.quick)?;
        planner::schedule(&mut report, mote)?;
    }
    report.figure = Some(figure::svg(&motes)?);
    Ok(report)
}
