//! Experiment `formulas`: numbers of the papers that follow from formats and keys alone. The code
//! of the product gives them: levels of IEEE 802.15.4, overhead of MACsec, lengths of keys, the
//! weights of its measurements.

use antedate_channel::macsec::CipherSuite;
use antedate_gateway::link::fastest::WEIGHTS;
use antedate_wire::dot15d4::SecurityLevel;
use antedate_wire::macsec::MAX_OVERHEAD;

use crate::{ExperimentError, Options, Report, Row};

/// Octets of the longest frame of IEEE 802.15.4 with its FCS, and of preamble, delimiter and length in
/// front of it.
const FRAME: f64 = 127.0;
const BEFORE: f64 = 6.0;
/// Milliseconds of an octet at 250 kbit/s.
const OCTET_MS: f64 = 0.032;
/// The longest payload of Ethernet.
const ETHERNET: f64 = 1500.0;
/// Octets of an AES block.
const BLOCK: usize = 16;

/// Runs the experiment.
pub(crate) fn run(_options: &Options) -> Result<Report, ExperimentError> {
    let mut report = Report::new("formulas", "");
    let mut add = |case: String, metric: &str, unit: &str, value: f64| {
        report.row(Row::new(case, metric, unit).antedated(value));
    };
    let case = "a frame of 127 octets with its preamble at 250 kbit/s";
    add(case.into(), "time on the air", "ms", (BEFORE + FRAME) * OCTET_MS);
    for level in SecurityLevel::ALL {
        let number = level.number();
        add(format!("MIC of level {number}"), "length of the MIC", "octets", level.mic_len() as f64);
        let encrypts = f64::from(u8::from(level.is_encrypted()));
        add(format!("encryption of level {number}"), "encrypts", "yes = 1", encrypts);
    }
    add("MACsec on an MTU of 1500".into(), "effective payload", "bytes", ETHERNET - MAX_OVERHEAD as f64);
    for suite in CipherSuite::ALL {
        add(format!("key of {suite}"), "length", "bits", 8.0 * suite.key_len() as f64);
    }
    for (len, weight) in WEIGHTS {
        add(format!("weight of {len} B"), "weight", "1", weight);
    }
    for len in [4, 50, 200, 1000] {
        // A block of key stream and a block of the MAC for each block of payload.
        let blocks = 2 * usize::div_ceil(len, BLOCK);
        add(format!("AES of a payload of {len} B"), "blocks", "blocks", blocks as f64);
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_give_the_printed_facts() {
        let report = run(&Options::default()).expect("arithmetic");
        let value = |case: &str| {
            let row = report.rows.iter().find(|row| row.case.starts_with(case)).expect("a row");
            row.antedated.expect("a number")
        };
        assert!((value("a frame of 127 octets") - 4.256).abs() < 1e-9);
        assert!((value("MACsec on an MTU") - 1468.0).abs() < 1e-9);
        assert!((value("MIC of level 5") - 4.0).abs() < 1e-9);
        assert!((value("AES of a payload of 1000 B") - 126.0).abs() < 1e-9);
        let sum: f64 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }
}
