//! The overlay's release clock where no machine takes cores away: `antedate lab overlay-release` in a QEMU guest whose clock counts
//! instructions (`-icount shift=0`).
//!
//! Two of our gateways with WireGuard between them, the machines on either side and the Linux kernel under all of it share one CPU
//! that does an instruction in a nanosecond. The jitter that is left is what the gateway, the kernel and their turns on that CPU
//! make of it; on a virtual machine whose cores are withheld for longer than the goal, it cannot be seen.

use super::guest::{self, Guest, Image};
use crate::report::{StepResult, Stop};
use crate::shell::antedate;
use serde_json::Value;

const GOAL_US: f64 = 30.0;

/// Builds the guest.
pub(crate) fn prepare() -> Result<(), Stop> {
    guest::build()?;
    Ok(())
}

fn image() -> Result<Image, String> {
    guest::build()?.with(&antedate(), &[])
}

/// Boots the guest and runs the experiment; its quick form, unless `ANTEDATE_RELEASE_CLOCK` is `full`.
pub(crate) fn run() -> StepResult {
    let full = std::env::var("ANTEDATE_RELEASE_CLOCK").is_ok_and(|form| form == "full");
    let mut guest = Guest::boot_counting(&image()?)?;
    guest.load_tunnels()?;
    let form = if full { "" } else { "--quick " };
    guest.run(&format!(
        "antedate lab overlay-release {form}--json /run/release.json >/run/release.log 2>&1 & echo $! >/run/release.pid"
    ))?;
    // Each answer is a sign of life; the guest's seconds are longer than ours while it is busy.
    while guest.attempt("sleep 1; kill -0 $(cat /run/release.pid) 2>/dev/null")?.0 == 0 {}
    let said = guest.run("cat /run/release.json || cat /run/release.log")?;
    let report: Value =
        serde_json::from_str(said.trim()).map_err(|error| format!("the experiment says: {error}: {said}"))?;
    let rows = report["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = |case: &Value, metric: &str| {
        rows.iter()
            .find(|row| row["case"] == *case && row["metric"] == metric)
            .map(|row| row["antedated"].clone())
    };
    let mut worst: f64 = 0.0;
    let mut cases: Vec<&Value> = rows.iter().map(|row| &row["case"]).collect();
    cases.dedup();
    for case in &cases {
        let number = |metric: &str| found(case, metric).and_then(|value| value.as_f64()).unwrap_or(f64::NAN);
        // All intervals: here no stall is nobody's fault.
        let [median, p99, p999] = ["median", "p99", "p99.9"]
            .map(|name| number(&format!("jitter left, stalls of the machine too, {name}")));
        println!(
            "   {}: jitter that came {:.0} us at p99.9; left {median:.1} / {p99:.1} / {p999:.1} us (median, p99, p99.9); delay {:.0} us, held {:.0} us in the mean",
            case.as_str().unwrap_or_default(),
            number("jitter that came, p99.9"),
            number("delay from a frame's beat, as the status shows it"),
            number("time held, mean, as the status shows it"),
        );
        worst = worst.max(if p999.is_nan() { f64::INFINITY } else { p999 });
    }
    let whole = report["checks"].as_array().is_some_and(|checks| {
        checks
            .iter()
            .filter(|check| check["what"].as_str().is_some_and(|what| what.contains("came out")))
            .count()
            == cases.len()
            && checks.iter().all(|check| check["met"] == true)
    });
    let text = format!("jitter left at p99.9: {worst:.1} us (goal {GOAL_US})");
    if cases.is_empty() || !whole || worst > GOAL_US { Err(text.into()) } else { Ok(text) }
}
