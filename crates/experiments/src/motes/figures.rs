//! Figures 5 and 6 of hiller2018, the cost of preparing, and both of its approaches together.

use super::run::Numbers;
use super::{Counted, Report};
use crate::ExperimentError;
use crate::Row;
use crate::report::Printed;

/// Figure 5 (section VI-A): payload, saving in percent and milliseconds, overhead of preparing in
/// percent.
const FIGURE_5: [(usize, Printed, Printed, Printed); 5] = [
    (16, Some(78.93), Some(0.21), Some(27.59)),
    (48, None, None, Some(11.28)),
    (80, Some(88.13), Some(1.15), Some(8.20)),
    (200, None, None, Some(5.36)),
    (1000, Some(89.90), Some(14.74), Some(4.14)),
];

/// Figure 6 (section VI-B): payload, template, saving in percent and milliseconds.
const FIGURE_6: [(usize, usize, Printed, Printed); 9] = [
    (64, 48, Some(64.45), Some(1.0)),
    (112, 16, Some(21.99), Some(0.50)),
    (112, 32, None, None),
    (112, 48, None, Some(1.0)),
    (112, 64, None, None),
    (112, 80, None, None),
    (112, 96, Some(75.85), Some(1.71)),
    (1000, 48, Some(5.95), Some(1.0)),
    (1000, 96, None, None),
];

/// The paper's mote runs at 16 MHz.
fn milliseconds(cycles: f64) -> f64 {
    cycles / 16_000.0
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

pub(super) fn add(report: &mut Report, counted: &Counted) -> Result<(), ExperimentError> {
    let software = "simulated MSP430 at 16 MHz, cycles by TI's table, AES in software";
    let engine = "simulated MSP430 at 16 MHz, AES engine modelled at the paper's 0.24 ms a block";
    for (aes, numbers, note) in
        [("software AES", &counted.msp430, software), ("AES engine", &counted.engine, engine)]
    {
        antedated_encryption(report, numbers, aes, note)?;
        templates(report, numbers, aes, note)?;
        both(report, numbers, aes, note)?;
    }
    records(report, counted)?;
    ascon(report, counted)
}

/// Ascon-AEAD128, unprepared and with all but the last block prepared.
fn ascon(report: &mut Report, counted: &Counted) -> Result<(), ExperimentError> {
    let motes = [
        ("MSP430", "cycles", &counted.msp430, "simulated MSP430, cycles by TI's table"),
        ("Cortex-M3", "instructions", &counted.cortex_m3, "QEMU's Cortex-M3, permutation in assembly"),
    ];
    for (mote, unit, numbers, note) in motes {
        for (size, front) in [(112, 96), (1008, 992)] {
            let online = numbers.get(&format!("ascon-{size}-{front}-front-online"))?;
            let case = format!("Ascon-AEAD128: {size} B, front of {front} B, {mote}");
            let row = Row::new(&case, "sealing at the deadline", unit).note(note);
            report.row(row.baseline(numbers.get(&format!("ascon-{size}-seal"))?).antedated(online));
        }
        // What a byte more costs, without start and end.
        let (long, short) = (numbers.get("ascon-1008-seal")?, numbers.get("ascon-112-seal")?);
        let row = Row::new(format!("Ascon-AEAD128: long packets, {mote}"), "for each byte", unit);
        report.row(row.antedated((long - short) / 896.0).note(note));
    }
    Ok(())
}

/// A whole DTLS record with header: online, and prepared with a front.
fn records(report: &mut Report, counted: &Counted) -> Result<(), ExperimentError> {
    let motes = [
        ("MSP430", "cycles", &counted.msp430, "simulated MSP430, cycles by TI's table, AES in software"),
        ("Cortex-M3", "instructions", &counted.cortex_m3, "QEMU's Cortex-M3, AES in software"),
    ];
    for (mote, unit, numbers, note) in motes {
        for (size, front) in [(16, 12), (112, 96)] {
            let get = |part: &str| numbers.get(&format!("dtls-{size}-{front}-{part}"));
            let case = format!("DTLS record of {size} B, front of {front} B, {mote}");
            let row = Row::new(&case, "sealing at the deadline", unit).note(note);
            report.row(row.baseline(get("seal")?).antedated(get("online")?));
            let row = Row::new(&case, "preparing", unit).note(note);
            report.row(row.antedated(get("prepare")?));
        }
    }
    Ok(())
}

/// Counter mode alone.
fn antedated_encryption(
    report: &mut Report,
    numbers: &Numbers,
    aes: &str,
    note: &str,
) -> Result<(), ExperimentError> {
    for (size, saving, saved, overhead) in FIGURE_5 {
        let get = |part: &str| numbers.get(&format!("ctr-{size}-{part}"));
        let (unmodified, preparing, online) = (get("seal")?, get("prepare")?, get("online")?);
        let case = format!("figure 5: {size} B, {aes}");
        let time = Row::new(&case, "encryption at the deadline", "ms").note(note);
        report.row(time.baseline(milliseconds(unmodified)).antedated(milliseconds(online)));
        let row = Row::new(&case, "saved", "%").paper(saving).note(note);
        report.row(row.antedated(percent(unmodified - online, unmodified)));
        let row = Row::new(&case, "saved", "ms").paper(saved).note(note);
        report.row(row.antedated(milliseconds(unmodified - online)));
        let row = Row::new(&case, "overhead of preparing", "%").paper(overhead).note(note);
        report.row(row.antedated(percent(preparing + online - unmodified, unmodified)));
    }
    Ok(())
}

/// The MAC alone; the cipherstream is prepared in both cases.
fn templates(report: &mut Report, numbers: &Numbers, aes: &str, note: &str) -> Result<(), ExperimentError> {
    for (size, template, saving, saved) in FIGURE_6 {
        let stream = |part: &str| numbers.get(&format!("ccm8-{size}-stream-{part}"));
        let front = |part: &str| numbers.get(&format!("ccm8-{size}-{template}-front-{part}"));
        let (without, with) = (stream("online")?, front("online")?);
        let case = format!("figure 6: {size} B, template of {template} B, {aes}");
        let note = format!("{note}; MAC and XOR, the cipherstream is prepared in both");
        let row = Row::new(&case, "authentication at the deadline", "ms").note(&note);
        report.row(row.baseline(milliseconds(without)).antedated(milliseconds(with)));
        let row = Row::new(&case, "saved", "%").paper(saving).note(&note);
        report.row(row.antedated(percent(without - with, without)));
        let row = Row::new(&case, "saved", "ms").paper(saved).note(&note);
        report.row(row.antedated(milliseconds(without - with)));
        let more = front("prepare")? + with - stream("prepare")? - without;
        let note = format!("{note}; the paper has 0.02 to 0.1 ms");
        report.row(Row::new(&case, "overhead of preparing", "ms").antedated(milliseconds(more)).note(&note));
    }
    Ok(())
}

/// CCM_8 as a whole, compared with the unprepared cipher.
fn both(report: &mut Report, numbers: &Numbers, aes: &str, note: &str) -> Result<(), ExperimentError> {
    for (size, template) in
        [(16, 0), (64, 48), (112, 0), (112, 96), (240, 224), (1000, 0), (1000, 96), (1000, 984)]
    {
        let unmodified = numbers.get(&format!("ccm8-{size}-seal"))?;
        let front = |part: &str| numbers.get(&format!("ccm8-{size}-{template}-front-{part}"));
        let (preparing, online, wiping) = (front("prepare")?, front("online")?, front("wipe")?);
        let case = format!("CCM_8: {size} B, template of {template} B, {aes}");
        let row = Row::new(&case, "cost at the deadline", "ms").note(note);
        report.row(row.baseline(milliseconds(unmodified)).antedated(milliseconds(online)));
        let row = Row::new(&case, "saved", "%").note(note);
        report.row(row.antedated(percent(unmodified - online, unmodified)));
        let note = format!("{note}; preparing, sealing and wiping together");
        let row = Row::new(&case, "total", "ms").note(&note);
        report
            .row(row.baseline(milliseconds(unmodified)).antedated(milliseconds(preparing + online + wiping)));
    }
    Ok(())
}
