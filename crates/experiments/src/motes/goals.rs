//! Goals of the engine on the motes, compared with recorded figures of tinydtls and Mbed TLS.

use super::run::Numbers;
use super::{Counted, Report};
use crate::ExperimentError;
use crate::Row;

/// Recorded figures of tinydtls's AES-CCM-8 with 13 bytes of associated data: payload, instructions
/// of the Cortex-M3, cycles of the MSP430.
const TINYDTLS: [(usize, Option<f64>, Option<f64>); 5] = [
    (16, Some(3907.0), Some(15849.0)),
    (48, Some(6695.0), Some(27729.0)),
    (64, None, Some(33669.0)),
    (112, Some(12271.0), Some(51489.0)),
    (240, Some(23423.0), Some(99009.0)),
];

/// Recorded figure of a block of tinydtls's AES: Cortex-M3, MSP430.
const TINYDTLS_BLOCK: [f64; 2] = [658.0, 2811.0];

/// Recorded figures of Mbed TLS 3.6.6, AES-CCM-8, on the Cortex-M3: payload, instructions.
const MBEDTLS: [(usize, f64); 4] = [(16, 4508.0), (48, 7768.0), (112, 14288.0), (240, 27328.0)];

const NOTES: [&str; 2] =
    ["QEMU's Cortex-M3, instructions by SysTick", "simulated MSP430, cycles by TI's table"];
const UNITS: [&str; 2] = ["instructions", "cycles"];
const MOTES: [&str; 2] = ["Cortex-M3", "MSP430"];

/// A number and its bound.
struct Goal<'a> {
    mote: usize,
    what: &'a str,
    unit: &'a str,
    peer: Option<f64>,
    found: f64,
    bound: f64,
}

fn goal(report: &mut Report, goal: &Goal<'_>) {
    let Goal { mote, what, unit, peer, found, bound } = goal;
    let row = Row::new(format!("{}: {what}", MOTES[*mote]), "at most", *unit);
    let note = format!(
        "{}; goal {bound:.0}{}",
        NOTES[*mote],
        if peer.is_some() { ", baseline: a recorded figure of tinydtls, not measured here" } else { "" }
    );
    report.row(row.baseline(*peer).antedated(*found).note(note));
    report.check(format!("{}: {what}: {found:.0} {unit}, at most {bound:.0}", MOTES[*mote]), found <= bound);
}

pub(super) fn add(report: &mut Report, counted: &Counted) -> Result<(), ExperimentError> {
    let motes: [&Numbers; 2] = [&counted.cortex_m3, &counted.msp430];
    for (mote, numbers) in motes.into_iter().enumerate() {
        let unit = UNITS[mote];
        goal(
            report,
            &Goal {
                mote,
                what: "AES-128 block",
                unit,
                peer: Some(TINYDTLS_BLOCK[mote]),
                found: numbers.get("aes-128-block")?,
                bound: [624.0, 2200.0][mote],
            },
        );
        for (size, cortex, msp430) in TINYDTLS {
            if let Some(peer) = [cortex, msp430][mote] {
                let what = format!("CCM_8 one-shot, {size} B");
                let found = numbers.get(&format!("ccm8-{size}-seal"))?;
                goal(report, &Goal { mote, what: &what, unit, peer: Some(peer), found, bound: peer - 1.0 });
            }
        }
        for (size, front) in [(16, 0), (64, 48), (112, 96), (240, 224)] {
            let what = format!("CCM_8 at the deadline, last block of {size} B new");
            let found = numbers.get(&format!("ccm8-{size}-{front}-front-online"))?;
            goal(report, &Goal { mote, what: &what, unit, peer: None, found, bound: [650.0, 2200.0][mote] });
        }
        goal(
            report,
            &Goal {
                mote,
                what: "RAM of a prepared packet of 127 B, CCM_8",
                unit: "bytes",
                peer: None,
                found: numbers.get("ccm8-ram-127")?,
                bound: 224.0,
            },
        );
        goal(
            report,
            &Goal {
                mote,
                what: "code of the CCM path with its AES",
                unit: "bytes",
                peer: None,
                found: counted.code[mote] as f64,
                bound: [6144.0, 8192.0][mote],
            },
        );
    }
    mbedtls(report, &counted.cortex_m3)?;
    chacha(report, counted)?;
    savings(report, counted)
}

fn mbedtls(report: &mut Report, numbers: &Numbers) -> Result<(), ExperimentError> {
    for (size, peer) in MBEDTLS {
        let row = Row::new(format!("Cortex-M3: CCM_8 one-shot, {size} B"), "against mbedTLS", UNITS[0]);
        let found = numbers.get(&format!("ccm8-{size}-seal"))?;
        report.row(
            row.baseline(peer).antedated(found).note(format!(
                "{}, baseline: a recorded figure of mbedTLS 3.6.6, not measured here",
                NOTES[0]
            )),
        );
    }
    Ok(())
}

fn chacha(report: &mut Report, counted: &Counted) -> Result<(), ExperimentError> {
    for (mote, numbers) in [&counted.cortex_m3, &counted.msp430].into_iter().enumerate() {
        for size in [64, 112, 240, 1000] {
            let found = numbers.get(&format!("chacha-{size}-template-online"))?;
            let what = format!("ChaCha20-Poly1305 at the deadline, 1 block of {size} B new");
            if mote == 0 {
                goal(report, &Goal { mote, what: &what, unit: UNITS[0], peer: None, found, bound: 275.0 });
            } else {
                let row = Row::new(format!("MSP430: {what}"), "at the deadline", UNITS[1]);
                let unmodified = numbers.get(&format!("chacha-{size}-seal")).ok();
                report.row(row.baseline(unmodified).antedated(found).note(NOTES[1]));
            }
        }
        let row = Row::new(
            format!("{}: RAM of a prepared packet of 127 B, ChaCha20-Poly1305", MOTES[mote]),
            "size",
            "bytes",
        );
        report.row(row.antedated(numbers.get("chacha-ram-127")?).note("one block may be new"));
    }
    Ok(())
}

fn savings(report: &mut Report, counted: &Counted) -> Result<(), ExperimentError> {
    let saved = |unmodified: f64, online: f64| 100.0 * (unmodified - online) / unmodified;
    for (mote, numbers) in [&counted.msp430, &counted.engine].into_iter().enumerate() {
        let part = saved(numbers.get("ccm8-112-stream-online")?, numbers.get("ccm8-112-96-front-online")?);
        let aes = ["AES in software", "AES engine"][mote];
        report.check(
            format!("MSP430, {aes}: 112 B with a template of 96 B: {part:.1} % of the authentication saved, at least 80 %"),
            part >= 80.0,
        );
    }
    let numbers = &counted.cortex_m3;
    let (unmodified, online) =
        (numbers.get("chacha-1000-seal")?, numbers.get("chacha-1000-template-online")?);
    let part = saved(unmodified, online);
    let row = Row::new("Cortex-M3: ChaCha20-Poly1305, 1000 B, 16 of them new", "saved", "%");
    report.row(row.antedated(part).note(NOTES[0]));
    report.check(
        format!("Cortex-M3: ChaCha20-Poly1305, 1000 B, 16 of them new: {part:.1} % saved, at least 98 %"),
        part >= 98.0,
    );
    Ok(())
}
