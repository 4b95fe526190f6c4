//! Experiment `timeslot`: the shortest TSCH slot with link-layer security on an emulated CC2538 and
//! TelosB (sciancalepore2016).
//!
//! Software is executed. On QEMU's Cortex-M3 (instructions, at 1.5 cycles each) the program `tsch` of
//! `firmware/` runs the node of `antedate-channel`: frames of 127 octets and their acknowledgments at
//! each level, unmodified and antedated. The node exceeds an MSP430's flash, so the simulated MSP430
//! (cycles) runs the ciphers with the frames' headers, without key lookup, device table, policy and
//! replay check (`slots`). Engines are modelled from the paper's times
//! ([`antedate_plan::strategy`]). The times without security are the paper's; equation 1 adds the
//! difference to frames without security.

mod node;
mod paper;
mod verdicts;

use antedate_plan::platform::{self, Platform};
use antedate_plan::strategy::{Costs, LEVELS, Strategy, before, blocks, operations};
use antedate_plan::timeslot::{APPLICATION_BITS, Operations, largest_rate, least_duration, shortest};
use antedate_plan::{counts, energy};

use super::motes::{Count, Footprint, footprints, slots};
use crate::{ExperimentError, Options, Report, Row};
use node::{Counts, Node};

/// The main level of the paper and the goals: ENC-MIC-32.
const USUAL: usize = 5;

/// A platform, its figure in the paper, and the counts of its emulation.
struct Mote {
    platform: Platform,
    paper: &'static [[[f64; 3]; 3]; 8],
    saving: [f64; 2],
    costs: Costs,
    node: Option<Node>,
    /// Octets of all preparations, or of a node with them.
    ram: f64,
    /// Footprints, unmodified and antedated, of the strategies whose images can be linked here.
    footprints: Vec<(Strategy, [Footprint; 2])>,
    which: usize,
    counted: &'static str,
}

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<Report, ExperimentError> {
    options.progress(0, 1, "the operations of a slot on both motes");
    let [cortex_m3, msp430] = slots()?;
    options.progress(1, 1, "");
    let motes = [
        mote(
            platform::CC2538,
            &paper::CC2538,
            0,
            &cortex_m3,
            "QEMU's Cortex-M3, instructions at 1.5 cycles",
        )?,
        mote(platform::TELOSB, &paper::TELOSB, 1, &msp430, "simulated MSP430, cycles by TI's table")?,
    ];
    let mut report = Report::new("timeslot", "sciancalepore2016");
    for mote in &motes {
        for level in 0..LEVELS.len() {
            durations(&mut report, mote, level);
            for strategy in Strategy::ALL {
                slot(&mut report, mote, level, strategy);
            }
        }
        memory(&mut report, mote);
        engine_check(&mut report, mote);
        goals(&mut report, mote);
        verdicts::printed(&mut report, mote);
    }
    Ok(report)
}

fn mote(
    platform: Platform,
    paper: &'static [[[f64; 3]; 3]; 8],
    which: usize,
    count: &Count,
    counted: &'static str,
) -> Result<Mote, ExperimentError> {
    let Counts { costs, node, ram } = if which == 0 { node::node(count)? } else { node::ciphers(count)? };
    // The Cortex-M3's images have no engine: QEMU does not emulate the chip's.
    let names: &[&str] = match which {
        0 => &["node-secured", "node-antedated"],
        _ => &["node-secured", "node-antedated", "node-hybrid", "node-hybrid-antedated"],
    };
    let footprints = footprints(which == 0, names)?;
    let (pairs, _) = footprints.as_chunks::<2>();
    let footprints = [Strategy::Software, Strategy::Hybrid].into_iter().zip(pairs.iter().copied()).collect();
    let saving = paper::SAVING[which];
    Ok(Mote { platform, paper, saving, costs, node, ram, footprints, which, counted })
}

impl Mote {
    fn operations(&self, level: usize, strategy: Strategy) -> [Operations; 2] {
        [false, true].map(|antedated| operations(&self.platform, &self.costs, level, strategy, antedated))
    }

    fn note(&self, strategy: Strategy) -> String {
        match strategy {
            Strategy::Software => self.counted.to_owned(),
            Strategy::Hybrid => format!("AES engine modelled from the paper's times, the rest: {}", self.counted),
            Strategy::Hardware => {
                "CCM* engine modelled from the paper's times; antedated: the quicker of it and prepared software".into()
            }
        }
    }
}

/// dur(sec1) to dur(sec4) in software.
fn durations(report: &mut Report, mote: &Mote, level: usize) {
    let [plain, antedated] = mote.operations(level, Strategy::Software);
    let case = format!("{} {} software", mote.platform.name, LEVELS[level]);
    let parts = |of: &Operations| [of.sec1, of.sec2, of.sec3, of.sec4];
    for (i, (plain, antedated)) in parts(&plain).into_iter().zip(parts(&antedated)).enumerate() {
        let row = Row::new(&case, format!("dur(sec{})", i + 1), "ms").baseline(plain).antedated(antedated);
        report.row(row.note(format!("what security adds; {}", mote.counted)));
    }
}

/// The slot, its energy and the rate.
fn slot(report: &mut Report, mote: &Mote, level: usize, strategy: Strategy) {
    let Mote { platform, paper, .. } = mote;
    let case = format!("{} {} {}", platform.name, LEVELS[level], strategy.name());
    let both = mote.operations(level, strategy);
    let [plain, antedated] = both.map(|of| shortest(platform.tx_offset, platform.tx_ack_delay, &of));
    let [offset, ack_delay, duration] = paper[level][strategy as usize];
    let note = mote.note(strategy);
    let row = |metric: &str, unit: &str| Row::new(&case, metric, unit).note(&note);
    report
        .row(row("TsTxOffset", "ms").paper(offset).baseline(plain.tx_offset).antedated(antedated.tx_offset));
    let delays = (plain.tx_ack_delay, antedated.tx_ack_delay);
    report.row(row("TsTxAckDelay", "ms").paper(ack_delay).baseline(delays.0).antedated(delays.1));
    let least = least_duration(offset, ack_delay);
    let contradiction = if duration < least - 0.005 {
        format!("; the paper's {duration} contradicts its equation 1, which gives {least:.2} without sec4")
    } else {
        String::new()
    };
    let row = Row::new(&case, "TsSlotDuration", "ms").note(format!("{note}{contradiction}"));
    report.row(row.paper(duration).baseline(plain.duration).antedated(antedated.duration));

    energies(report, mote, level, strategy);
    let [r_paper, r_plain, r_antedated] = [duration, plain.duration, antedated.duration]
        .map(|slot| largest_rate(1, 101, APPLICATION_BITS[level], slot));
    let row = Row::new(&case, "largest rate, 1 cell of 101", "bit/s").note("equation 2");
    report.row(row.paper(r_paper).baseline(r_plain).antedated(r_antedated));
}

/// Figures 7 and 8.
fn energies(report: &mut Report, mote: &Mote, level: usize, strategy: Strategy) {
    let platform = &mote.platform;
    let case = format!("{} {} {}", platform.name, LEVELS[level], strategy.name());
    let duration = |of: &Operations| shortest(platform.tx_offset, platform.tx_ack_delay, of).duration;
    let of = |strategy| {
        let [plain, antedated] = mote.operations(level, strategy);
        let ahead = before(platform, &mote.costs, level, strategy);
        [
            energy::slot(platform, duration(&plain), [0.0; 2]),
            energy::slot(platform, duration(&antedated), ahead),
        ]
    };
    let printed =
        |strategy: Strategy| energy::slot(platform, mote.paper[level][strategy as usize][2], [0.0; 2]).sender;
    let [plain, antedated] = of(strategy);
    let note = format!(
        "datasheet currents, preparation included; the paper's slot takes {:.0} with them",
        printed(strategy)
    );
    for (end, plain, antedated) in
        [("sender", plain.sender, antedated.sender), ("receiver", plain.receiver, antedated.receiver)]
    {
        let metric = format!("energy per slot, {end}");
        report.row(Row::new(&case, metric, "uJ").baseline(plain).antedated(antedated).note(&note));
    }
    if level == 7 && strategy != Strategy::Software {
        let [software, _] = of(Strategy::Software);
        let row = Row::new(&case, "energy saved against software", "%");
        let note = format!(
            "the paper's is the most over all levels, against its own slower software; its slots save {:.1} with these currents",
            energy::saving(printed(Strategy::Software), printed(strategy))
        );
        let saved = [plain, antedated].map(|of| energy::saving(software.sender, of.sender));
        let row = row.paper(mote.saving[strategy as usize - 1]).baseline(saved[0]).antedated(saved[1]);
        report.row(row.note(note));
    }
}

/// The model of the AES engine replaces the blocks of an operation by the engine's. So it holds as far
/// as the operation's cost in software is that of its blocks: ENC-MIC-32 has more of them than MIC-32 over
/// the same frame, and the difference of the counts is compared with theirs.
fn engine_check(report: &mut Report, mote: &Mote) {
    let costs = &mote.costs;
    let mut worst = 0.0f64;
    for operation in 0..2 {
        let count = |level: usize| costs.levels[level].plain[operation];
        let more = |level: usize| f64::from(blocks(level, operation, false, costs.ack));
        let (counted, predicted) = (count(USUAL) - count(1), (more(USUAL) - more(1)) * costs.block);
        let percent = 100.0 * (predicted / counted - 1.0);
        worst = if percent.abs() > worst.abs() { percent } else { worst };
    }
    let case = format!("check of the AES engine's model, {}", mote.platform.name);
    let note = "blocks that ENC-MIC-32 has more than MIC-32, against the counted difference of sec1 and sec2";
    report.row(Row::new(case, "furthest off", "%").antedated(worst).note(note));
}

/// Figures 3 and 4, from the linked images, and the preparations.
fn memory(report: &mut Report, mote: &Mote) {
    let Platform { name, flash, ram, .. } = mote.platform;
    for (strategy, [plain, antedated]) in &mote.footprints {
        let case = format!("{name} link-layer security, {}", strategy.name());
        let printed = paper::FOOTPRINT[mote.which];
        // The paper prints a range, of which software is the upper end.
        let of_software = |value: f64| (*strategy == Strategy::Software).then_some(value);
        let share = |part: f64, whole: u32| 100.0 * part / f64::from(whole);
        let note = "linked image, over one with the same frames and no security";
        for (what, whole, printed, plain, antedated) in [
            ("flash", flash, printed[0], plain.flash, antedated.flash),
            ("RAM", ram, printed[1], plain.ram, antedated.ram),
        ] {
            let note = if what == "RAM" {
                format!("{note}; the stack at its deepest included")
            } else {
                note.into()
            };
            let row = Row::new(&case, what, "bytes").paper(of_software(printed / 100.0 * f64::from(whole)));
            report.row(row.baseline(plain).antedated(antedated).note(&note));
            let row = Row::new(&case, format!("share of the {what}"), "%").paper(of_software(printed));
            report.row(row.baseline(share(plain, whole)).antedated(share(antedated, whole)).note(note));
        }
    }
    let (case, note) = match &mote.node {
        Some(Node { heap, .. }) => (
            format!("{name} node that expects one frame of two lengths"),
            format!("{heap:.0} of keys, tables and queue"),
        ),
        None => {
            (format!("{name} preparations, a cell each way"), "two frames and two acknowledgments".into())
        }
    };
    report.row(Row::new(&case, "RAM", "bytes").antedated(mote.ram).note(note));
    report.row(Row::new(&case, "share of the RAM", "%").antedated(100.0 * mote.ram / f64::from(ram)));
}

fn goals(report: &mut Report, mote: &Mote) {
    let platform = &mote.platform;
    let (name, bound) = (platform.name, if platform.name == "cc2538" { 8.9 } else { 18.5 });
    let [plain, antedated] = mote.operations(USUAL, Strategy::Software);
    let slot = shortest(platform.tx_offset, platform.tx_ack_delay, &antedated);
    let what = format!(
        "{name} ENC-MIC-32 antedated software: TsSlotDuration {:.2} ms, at most {bound}",
        slot.duration
    );
    report.check(what, slot.duration <= bound);
    if name == "cc2538" {
        let what = format!("{name}: TsTxAckDelay {:.2} ms, at most 1.3", slot.tx_ack_delay);
        report.check(what, slot.tx_ack_delay <= 1.3);
    }
    let share = antedated.sum() / plain.sum();
    let what =
        format!("{name}: security takes {:.0} % of what it takes unprepared, at most 50", 100.0 * share);
    report.check(what, share <= 0.5);
    let (what, bound) = if mote.node.is_some() { ("a node", 1400.0) } else { ("preparations", 1024.0) };
    report.check(format!("{name}: RAM of {what}: {:.0} bytes, at most {bound}", mote.ram), mote.ram <= bound);
    if let Some(node) = &mote.node {
        worst(report, mote, node);
    }
    // The planner's recorded counts must match those of these programs.
    let sum = |costs: &Costs| -> f64 {
        costs.levels[USUAL].antedated.iter().chain(&costs.levels[USUAL].plain).sum()
    };
    let (kept, now) = (sum(&counts::of(platform)), sum(&mote.costs));
    let what =
        format!("{name}: the planner's counts are {:.1} % off, at most 10", 100.0 * (kept / now - 1.0));
    report.check(what, (kept / now - 1.0).abs() <= 0.1);
}

/// A slot that the nodes did not prepare for: late is never worse.
fn worst(report: &mut Report, mote: &Mote, node: &Node) {
    let platform = &mote.platform;
    let mut most = 0.0f64;
    for level in node::PREPARED {
        let mut costs = mote.costs;
        let [plain, worst] = [costs.levels[level].plain, node.worst[level]].map(|counted| {
            costs.levels[level].plain = counted;
            let of = operations(platform, &costs, level, Strategy::Software, false);
            shortest(platform.tx_offset, platform.tx_ack_delay, &of).duration
        });
        let case = format!("{} {} software", platform.name, LEVELS[level]);
        let row = Row::new(case, "TsSlotDuration, nothing foreseen", "ms");
        report.row(row.baseline(plain).antedated(worst).note(mote.counted));
        most = most.max(100.0 * (worst / plain - 1.0));
    }
    report.check(
        format!(
            "{}: percent that a slot takes longer if nothing was foreseen: {most:.2}, at most 2",
            platform.name
        ),
        most <= 2.0,
    );
}
