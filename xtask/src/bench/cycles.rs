//! Cyclic exchange at short update times: bus errors beside those that plain bridges have on this machine.

use super::Plan;
use super::goals::Goal;
use super::meter::cyclic;
use super::paths::{Contender, Cores, Path, Placement, Waiting};
use serde_json::{Value, json};

const CYCLES_US: [u32; 5] = [250, 500, 1000, 2000, 4000];
const CONTENDERS: [Contender; 3] = [Contender::Bridges, Contender::Plain, Contender::Macsec];

/// Each side on a core of its own, as in the field. Controller and device are real-time processes and sleep between
/// cycles, so the gateways are too: a gateway that polled without end would only take turns with whatever else runs.
const PLACE: Placement = Placement { cores: Cores::Split, awake: true, ends_poll: false };

/// Each update time with each contender in turn.
pub(crate) fn run(plan: Plan, goals: &mut Vec<Goal>) -> Result<Value, String> {
    let mut rows = Vec::new();
    println!(
        "   {:>8}  {:18} {:>10} {:>8} {:>8} {:>10} {:>10}",
        "cycle us", "", "bus errors", "missed", "lost", "p99 us", "max us"
    );
    for cycle_us in CYCLES_US {
        let mut errors = [0; CONTENDERS.len()];
        for (contender, errors) in CONTENDERS.into_iter().zip(&mut errors) {
            let _path = Path::build(contender, PLACE, Waiting::Deadline)?;
            let reports = cyclic(PLACE, cycle_us, plan.cycle_seconds)?;
            let sum = |key: &str| reports.iter().map(|r| r[key].as_u64().unwrap_or(0)).sum::<u64>();
            let worst = |key: &str| {
                reports.iter().map(|r| r["interval_us"][key].as_f64().unwrap_or(0.0)).fold(0.0, f64::max)
            };
            *errors = sum("bus_errors");
            println!(
                "   {cycle_us:8}  {:18} {:10} {:8} {:8} {:10.1} {:10.1}",
                contender.to_string(),
                sum("bus_errors"),
                sum("missed"),
                sum("lost"),
                worst("p99"),
                worst("max")
            );
            rows.push(json!({
                "contender": contender.to_string(), "cycle_us": cycle_us, "seconds": plan.cycle_seconds, "placement": PLACE.to_string(),
                "bus_errors": sum("bus_errors"), "missed": sum("missed"), "lost": sum("lost"), "received": sum("received"),
                "interval_p99_us": worst("p99"), "interval_max_us": worst("max"), "plc": reports[0], "device": reports[1],
            }));
        }
        let [bridges, _, macsec] = errors;
        let detail = format!("bridges {bridges}");
        let name = format!("bus errors at {cycle_us} us for {} s, both stations", plan.cycle_seconds);
        goals.push(Goal::at_most(name, bridges as f64, macsec as f64, &detail));
    }
    Ok(rows.into())
}
