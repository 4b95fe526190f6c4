//! The overlay's release clock without withheld cores: `antedate lab overlay-release` in a guest
//! that counts instructions.

use crate::experiment::experiment;
use xtask::report::StepResult;

const GOAL_US: f64 = 30.0;

/// Runs the experiment in its quick form, unless `ANTEDATE_RELEASE_CLOCK` is `full`.
pub(crate) fn run() -> StepResult {
    let found = experiment("overlay-release", "ANTEDATE_RELEASE_CLOCK")?;
    let (mut typical, mut worst): (f64, f64) = (0.0, 0.0);
    let cases = found.cases();
    for case in &cases {
        let number = |metric: &str| found.number(case, metric, "antedated");
        // All intervals: this guest has no stalls of the machine.
        let [median, p99, p999] = ["median", "p99", "p99.9"]
            .map(|name| number(&format!("jitter left, stalls of the machine too, {name}")));
        println!(
            "   {case}: jitter that came {:.0} us at p99.9; left {median:.1} / {p99:.1} / {p999:.1} us (median, p99, p99.9); delay {:.0} us, held {:.0} us in the mean",
            number("jitter that came, p99.9"),
            number("delay from a frame's beat, as the status shows it"),
            number("time held, mean, as the status shows it"),
        );
        typical = typical.max(or_infinite(median));
        worst = worst.max(or_infinite(p999));
    }
    if cases.is_empty() || found.met("came out") != Some(cases.len()) {
        return Err("not all frames came out of the far gateway".into());
    }
    // One late wake-up of the emulator decides p99.9 of 1,000 intervals; the median is the clock's.
    let text =
        format!("jitter left: median {typical:.1} us (goal {GOAL_US}); not judged: {worst:.1} us at p99.9");
    if typical > GOAL_US { Err(text.into()) } else { Ok(text) }
}

fn or_infinite(us: f64) -> f64 {
    if us.is_nan() { f64::INFINITY } else { us }
}
