//! What hiller2018 prints outside of its figures: sections II-C and IV-B1, the abstract, and the
//! receiver's side, which the paper leaves to the future.

use super::run::Numbers;
use super::{Counted, Report};
use crate::ExperimentError;
use crate::Row;

/// Section II-C: payload, milliseconds of tinydtls, AES operations.
const PROTECTION: [(usize, f64, u32); 2] = [(50, 2.6, 8), (1000, 32.3, 126)];
/// The smallest payload of section II-C in bytes, and its AES operations.
const LEAST: (usize, u32) = (4, 2);
/// The abstract: the largest saving in percent, of small and of larger packets, which section VI-C has
/// with templates of 48 bytes.
const SAVED: [(usize, f64); 2] = [(50, 75.97), (200, 56.55)];
/// Section VI-B: milliseconds that each further block of a template saves.
const BLOCK: f64 = 0.24;
/// Sizes of received packets.
const RECEIVED: [usize; 4] = [16, 50, 112, 1000];

/// AES operations of CCM over a payload with the associated data of DTLS (13 bytes): key stream, mask,
/// B0, associated data, payload.
const fn operations(payload: usize) -> u32 {
    2 * payload.div_ceil(16) as u32 + 3
}

fn milliseconds(cycles: f64) -> f64 {
    cycles / 16_000.0
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

pub(super) fn add(report: &mut Report, counted: &Counted) -> Result<(), ExperimentError> {
    for payload in [LEAST, (PROTECTION[0].0, PROTECTION[0].2), (PROTECTION[1].0, PROTECTION[1].2)] {
        let (size, printed) = payload;
        let row =
            Row::new(format!("section II-C: {size} B"), "AES operations", "blocks").paper(f64::from(printed));
        let note = "by construction: with B0, associated data and mask, which the paper does not count";
        report.row(row.baseline(f64::from(operations(size))).note(note));
    }
    let motes = [
        (
            "software AES",
            &counted.msp430,
            "simulated MSP430 at 16 MHz, cycles by TI's table, AES in software",
        ),
        (
            "AES engine",
            &counted.engine,
            "simulated MSP430 at 16 MHz, AES engine modelled at the paper's 0.24 ms a block",
        ),
    ];
    for (aes, numbers, note) in motes {
        for (size, printed, _) in PROTECTION {
            let (seal, online) = (
                numbers.get(&format!("ccm8-{size}-seal"))?,
                numbers.get(&format!("ccm8-{size}-0-front-online"))?,
            );
            let row = Row::new(format!("section II-C: {size} B, {aes}"), "protection", "ms").paper(printed);
            let note =
                format!("{note}; the paper's is unmodified tinydtls, with associated data and all calls");
            report.row(row.baseline(milliseconds(seal)).antedated(milliseconds(online)).note(note));
        }
        for (size, printed) in SAVED {
            let (seal, online) = (
                numbers.get(&format!("ccm8-{size}-seal"))?,
                numbers.get(&format!("ccm8-{size}-48-front-online"))?,
            );
            let row =
                Row::new(format!("abstract: {size} B, template of 48 B, {aes}"), "saved", "%").paper(printed);
            report.row(row.antedated(percent(seal - online, seal)).note(note));
        }
        let online = |template: usize| numbers.get(&format!("ccm8-112-{template}-front-online"));
        let block = milliseconds((online(16)? - online(96)?) / 5.0);
        let row = Row::new(format!("section VI-B: each further block of a template, {aes}"), "saved", "ms");
        report.row(row.paper(BLOCK).antedated(block).note(note));
        sorted(report, numbers, aes, note)?;
        received(report, numbers, aes, "ms", milliseconds, note)?;
    }
    received(
        report,
        &counted.cortex_m3,
        "Cortex-M3",
        "instructions",
        |count| count,
        "QEMU's Cortex-M3, AES in software",
    )
}

/// Types and lengths sorted in front (figure 4): of eight readings of 12 bytes each, with a type and a
/// length of one byte, 2 bytes are known in front as encoded, and 16 sorted.
fn sorted(report: &mut Report, numbers: &Numbers, aes: &str, note: &str) -> Result<(), ExperimentError> {
    let online = |template: usize| numbers.get(&format!("ccm8-112-{template}-front-online"));
    let (mixed, sorted) = (online(0)?, online(16)?);
    let case = format!("figure 4: 8 readings, 112 B, {aes}");
    let note = format!("{note}; known in front: 2 B, no block, as encoded, and 16 B sorted");
    let row = Row::new(&case, "CCM_8 at the deadline", "ms").note(&note);
    report.row(row.baseline(milliseconds(mixed)).antedated(milliseconds(sorted)));
    report
        .row(Row::new(&case, "saved by sorting", "%").antedated(percent(mixed - sorted, mixed)).note(&note));
    Ok(())
}

/// Opening without preparation, and with prepared key stream.
fn received(
    report: &mut Report,
    numbers: &Numbers,
    on: &str,
    unit: &str,
    of: fn(f64) -> f64,
    note: &str,
) -> Result<(), ExperimentError> {
    for size in RECEIVED {
        let get = |part: &str| numbers.get(&format!("ccm8-{size}-{part}")).map(of);
        let row = Row::new(format!("receiving {size} B, {on}"), "opening at the deadline", unit).note(note);
        report.row(row.baseline(get("open")?).antedated(get("open-online")?));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_ccm() {
        // 4 bytes: B0, associated data, payload; key stream and mask.
        assert_eq!([4, 16, 17, 50, 1000].map(operations), [5, 5, 7, 11, 129]);
    }
}
