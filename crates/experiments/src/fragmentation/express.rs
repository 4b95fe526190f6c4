//! The delay of cyclic frames behind bulk on a full wire of 100 Mbit/s, with and without the
//! express channel.

use super::{MARKED, link};
use crate::link::Link;
use crate::link::cyclic::OnWire;
use crate::link::stalls::Witnesses;
use crate::{ExperimentError, Options, Report, Row};
use antedate_lab::histogram::Times;

const RATE: u32 = 100;
const EXPRESS: &str = "fragmentation = \"marked\"\n[express]\ntraffic = [\"profinet-rt\"]\nrate_mbit = 100";
/// Time of a 256-byte fragment on the wire, and an allowance, in microseconds.
const GOAL: f64 = 21.0 + 30.0;

/// Mbit/s of bulk below which a run shows nothing.
const LEAST_BULK: f64 = 50.0;

/// Results of one way of sending.
#[derive(Default)]
struct Measured {
    idle: Times,
    busy: Times,
    idle_struck: u64,
    busy_struck: u64,
    dropped: u64,
    bulk_octets: u64,
    frames: u64,
}

impl Measured {
    fn add(&mut self, link: &Link, count: u64) -> Result<(), ExperimentError> {
        for bulk in [false, true] {
            let witnesses = Witnesses::watch();
            let on_wire = link.cyclic_on_wire(count, bulk, RATE);
            let stalls = witnesses.end();
            let OnWire { cyclic, dropped, bulk_octets } = on_wire?;
            let (times, struck) = cyclic.without(&stalls);
            if bulk {
                self.busy.add(&times);
                self.busy_struck += struck;
                self.dropped += dropped;
                self.bulk_octets += bulk_octets;
                self.frames += count;
            } else {
                self.idle.add(&times);
                self.idle_struck += struck;
            }
        }
        Ok(())
    }

    /// Additional delay by bulk at a percentile, over the median without it.
    fn added(&self, percent: f64) -> f64 {
        self.busy.percentile_us(percent) - self.idle.percentile_us(50.0)
    }

    /// Spread of the machine itself, without bulk.
    fn machine(&self) -> f64 {
        self.idle.percentile_us(99.9) - self.idle.percentile_us(50.0)
    }

    fn mbit(&self) -> f64 {
        self.bulk_octets as f64 * 8.0 / (self.frames.max(1) as f64 * 1_000.0)
    }
}

pub(super) fn run(report: &mut Report, options: &Options) -> Result<(), ExperimentError> {
    let (rounds, count) = if options.quick { (1, 1_200) } else { (4, 6_000) };
    let (mut without, mut with) = (Measured::default(), Measured::default());
    for _ in 0..rounds {
        for (macsec, measured) in [(MARKED, &mut without), (EXPRESS, &mut with)] {
            let link = link(0, true, 1500, macsec)?;
            link.cyclic(100)?;
            measured.add(&link, count)?;
        }
    }
    if without.busy.count() == 0 || with.busy.count() == 0 {
        return Err("this machine withheld its cores all the time".into());
    }
    let case = "64 B cyclic behind bulk, 100 Mbit/s";
    let note = "to the last bit on a wire of that rate, whose time is computed from the kernel's stamp of each frame \
                handed over; against the median without bulk; paper: a full frame takes 123 µs of the wire";
    for (metric, percent) in
        [("added delay p50", 50.0), ("added delay p99", 99.0), ("added delay p99.9", 99.9)]
    {
        report.row(
            Row::new(case, metric, "µs")
                .baseline(without.added(percent))
                .antedated(with.added(percent))
                .note(note),
        );
    }
    report.row(
        Row::new(case, "the same without bulk: p99.9 over the median", "µs")
            .baseline(without.machine())
            .antedated(with.machine())
            .note("what this machine adds by itself"),
    );
    let struck = "a core was withheld meanwhile; not in the times above";
    report.row(
        Row::new(case, "frames while the machine stalled", "1")
            .baseline(without.busy_struck as f64)
            .antedated(with.busy_struck as f64)
            .note(struck),
    );
    report.row(
        Row::new(case, "the same without bulk: frames while the machine stalled", "1")
            .baseline(without.idle_struck as f64)
            .antedated(with.idle_struck as f64)
            .note(struck),
    );
    report.row(
        Row::new(case, "cyclic frames without room before the wire", "1")
            .baseline(without.dropped as f64)
            .antedated(with.dropped as f64),
    );
    report.row(
        Row::new("bulk beside it, 100 Mbit/s", "throughput, with all headers", "Mbit/s")
            .baseline(without.mbit())
            .antedated(with.mbit()),
    );
    let added = with.added(99.9);
    let what = format!(
        "a cyclic frame waits {added:.1} µs longer behind bulk at p99.9, goal {GOAL} ({} of {} frames while the machine stalled)",
        with.busy_struck, with.frames
    );
    report.check(what, added <= GOAL);
    let bulk = with.mbit();
    report
        .check(format!("{bulk:.0} Mbit/s of bulk were beside it, at least {LEAST_BULK}"), bulk >= LEAST_BULK);
    report.check(format!("{} cyclic frames found no room", with.dropped), with.dropped == 0);
    Ok(())
}
