//! The delay of cyclic frames while keys change; none may be lost. Links with one key and with
//! changing keys take turns.

use crate::link::cyclic::Crossings;
use crate::link::stalls::Witnesses;
use crate::link::{Link, POLLING, Settings};
use crate::{ExperimentError, Options, Report, Row};
use antedate_lab::histogram::Times;

const OFTEN: u32 = 2;
const NEVER: u32 = 100_000;

/// Results with one key, or with changing ones.
#[derive(Default)]
struct Measured {
    times: Times,
    all: Times,
    struck: u64,
    stalls: usize,
    sent: u64,
    keys: u64,
}

impl Measured {
    fn add(&mut self, rekey_seconds: u32, count: u64) -> Result<(), ExperimentError> {
        let link = Link::build(&Settings {
            suite: "gcm-aes-128",
            macsec: "",
            field_mtu: 1500,
            wire_mtu: 1600,
            rekey_seconds: Some(rekey_seconds),
            rate_mbit: 0,
            bulk: false,
            wait: POLLING,
        })?;
        link.cyclic(count / 10)?;
        let before = link.fresh_keys(1);
        let witnesses = Witnesses::watch();
        let crossings: Result<Crossings, ExperimentError> = link.cyclic(count);
        let stalls = witnesses.end();
        let crossings = crossings?;
        let (times, struck) = crossings.without(&stalls);
        self.times.add(&times);
        self.all.add(&crossings.all());
        self.struck += struck;
        self.stalls += stalls.count();
        self.sent += count;
        // A gateway without a key at the end had no fresh one.
        self.keys += link.fresh_keys(1).saturating_sub(before);
        Ok(())
    }
}

pub(super) fn run(report: &mut Report, options: &Options) -> Result<(), ExperimentError> {
    let (rounds, count) = if options.quick { (2, 3_000) } else { (6, 12_000) };
    let (mut still, mut changing) = (Measured::default(), Measured::default());
    for _ in 0..rounds {
        still.add(NEVER, count)?;
        changing.add(OFTEN, count)?;
    }
    if still.times.count() == 0 || changing.times.count() == 0 {
        return Err("this machine withheld its cores all the time".into());
    }
    let case = format!("64 B cyclic, each 1 ms, a fresh SAK each {OFTEN} s");
    for (metric, percent) in [("one way, p50", 50.0), ("one way, p99.9", 99.9), ("one way, longest", 100.0)] {
        report.row(
            Row::new(&case, metric, "µs")
                .baseline(still.times.percentile_us(percent))
                .antedated(changing.times.percentile_us(percent))
                .note("baseline: the same with one key; without frames during which the machine withheld a core"),
        );
    }
    for (metric, percent) in [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9), ("longest", 100.0)] {
        report.row(
            Row::new(&case, format!("one way, {metric}, stalls of the machine included"), "µs")
                .baseline(still.all.percentile_us(percent))
                .antedated(changing.all.percentile_us(percent)),
        );
    }
    report.row(
        Row::new(&case, "frames while the machine stalled", "1")
            .baseline(still.struck as f64)
            .antedated(changing.struck as f64),
    );
    report.row(
        Row::new(&case, "stalls of a core", "1")
            .baseline(still.stalls as f64)
            .antedated(changing.stalls as f64),
    );
    let later = changing.times.percentile_us(99.9) - still.times.percentile_us(99.9);
    let lost = changing.sent.saturating_sub(changing.all.count());
    report.row(Row::new(&case, "frames lost", "1").antedated(lost as f64));
    report.row(Row::new(&case, "changes of keys", "1").antedated(changing.keys as f64));
    report.row(Row::new(&case, "later by, p99.9", "µs").antedated(later));
    let (keys, sent) = (changing.keys, changing.sent);
    report.check(format!("keys changed {keys} times while {sent} frames crossed"), keys > 0);
    report.check(format!("{lost} of {sent} frames were lost while keys changed"), lost == 0);
    report.check(
        format!("frames were {later:.1} µs later while keys changed, p99.9, goal 100"),
        later <= 100.0,
    );
    Ok(())
}
