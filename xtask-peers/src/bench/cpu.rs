//! CPU time of a gateway whose polling is bounded to a tenth of its core, at a 1 ms cycle.

use super::Plan;
use super::goals::Goal;
use super::meter::cyclic;
use super::paths::{Contender, Path, Waiting};
use super::placement::{Cores, Placement};
use crate::daemon::Gateway;
use serde_json::{Value, json};
use std::time::Instant;

const SHARE: u8 = 10;
/// Each side on its own core, as with two gateways in the field.
const PLACE: Placement = Placement { cores: Cores::Split, awake: false };

/// Measures the CPU time of all threads of both daemons over the exchange.
pub(crate) fn run(plan: Plan, goals: &mut Vec<Goal>) -> Result<Value, String> {
    let mut rows = Vec::new();
    for contender in [Contender::Plain, Contender::Macsec] {
        let path = Path::build(contender, PLACE, Waiting::Share(SHARE))?;
        let before: Vec<u64> = path.gateways().iter().map(|g| busy_ns(g.pid())).collect();
        let start = Instant::now();
        let reports = cyclic(PLACE, 1000, plan.cpu_seconds)?;
        let passed = start.elapsed().as_nanos() as f64;
        let share = |(g, before): (&Gateway, &u64)| (busy_ns(g.pid()) - before) as f64 / passed * 100.0;
        let shares: Vec<f64> = path.gateways().iter().zip(&before).map(share).collect();
        let worst = shares.iter().copied().fold(0.0, f64::max);
        let round_trip = reports[0]["round_trip_us"]["p50"].as_f64().unwrap_or(f64::NAN);
        let errors: u64 = reports.iter().map(|r| r["bus_errors"].as_u64().unwrap_or(0)).sum();
        println!(
            "   {:18} {shares:.1?} % of a core, round trip {round_trip:.1} us (median), {errors} bus errors",
            contender.to_string()
        );
        rows.push(json!({
            "contender": contender.to_string(), "poll_cpu_percent": SHARE, "cycle_us": 1000, "cpu_percent": shares,
            "round_trip_p50_us": round_trip, "bus_errors": errors, "placement": PLACE.to_string(),
        }));
        if contender == Contender::Macsec {
            let detail = format!("median round trip {round_trip:.1} us");
            goals.push(Goal::at_most(
                "% of a core a gateway, polling bound 10 %, 1 ms cycle".into(),
                12.0,
                worst,
                &detail,
            ));
        }
    }
    Ok(rows.into())
}

/// Nanoseconds that a daemon's threads have run (the first number of each thread's `schedstat`).
pub(super) fn busy_ns(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let of = |path: std::path::PathBuf| {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok()
    };
    tasks.map_or(0, |t| t.filter_map(|t| of(t.ok()?.path())).sum())
}
