//! Delay of frames by a change of keys, without withheld cores: `antedate lab fragmentation-keys`
//! in a guest that counts instructions.

use crate::experiment::experiment;
use xtask::report::StepResult;

/// At p99.9, compared with the same frames under one key.
const GOAL_US: f64 = 100.0;

/// Runs the experiment in its quick form, unless `ANTEDATE_KEY_ROTATION` is `full`.
pub(crate) fn run() -> StepResult {
    let found = experiment("fragmentation-keys", "ANTEDATE_KEY_ROTATION")?;
    let [case] = found.cases()[..] else { return Err("the experiment has one case".to_string().into()) };
    // All frames: this guest has no stalls of the machine.
    let times = |column: &str| {
        ["p50", "p99", "p99.9", "longest"].map(|name| {
            found.number(case, &format!("one way, {name}, stalls of the machine included"), column)
        })
    };
    let (still, changing) = (times("baseline"), times("antedated"));
    for (name, [median, p99, p999, longest]) in [("one key", still), ("changing keys", changing)] {
        println!(
            "   {case}, {name}: {median:.1} / {p99:.1} / {p999:.1} / {longest:.1} us (median, p99, p99.9, longest)"
        );
    }
    let [lost, keys] = ["frames lost", "changes of keys"].map(|name| found.number(case, name, "antedated"));
    let later = changing[2] - still[2];
    let text = format!(
        "{keys:.0} changes of keys: {lost:.0} frames lost, {later:.1} us later at p99.9 (goal {GOAL_US}), the longest by {:.1} us",
        changing[3] - still[3]
    );
    let met = keys > 0.0 && lost == 0.0 && later <= GOAL_US;
    if met { Ok(text) } else { Err(text.into()) }
}
