//! A flow with a deadline beside bulk: PLC and device exchange a frame each millisecond, while the PLC's
//! side sends 300,000 small frames a second.

use super::Plan;
use super::goals::Goal;
use super::meter::cyclic;
use super::paths::{ALL, Contender, Path, Waiting};
use super::placement::{Cores, Placement};
use super::rates::{arrived, flood_options, flood_report};
use crate::net;
use serde_json::{Value, json};
use xtask::shell::{Run, antedate, cache};

const CYCLE_US: u32 = 1000;
/// Frames of bulk a second, and octets of each.
const BULK: u64 = 300_000;
const BULK_BYTES: u32 = 64;
/// As in [`super::cycles`].
const PLACE: Placement = Placement { cores: Cores::Split, awake: false };

/// Measures each contender with and without bulk.
pub(crate) fn run(plan: Plan, goals: &mut Vec<Goal>) -> Result<Value, String> {
    let mut rows = Vec::new();
    println!(
        "   {:26} {:>12} {:>12} {:>8} {:>8} {:>10} {:>12} {:>10}",
        "", "bulk sent/s", "arrived/s", "lost", "missed", "bus errors", "interval p99", "max us"
    );
    for contender in ALL {
        for bulk in [0, BULK] {
            let path = Path::build(contender, PLACE, Waiting::Deadline)?;
            let seconds = plan.cycle_seconds;
            let before = arrived()?;
            let flood = (bulk > 0).then(|| {
                let mut command = net::inside("plc", antedate());
                command.arg("lab-flood").arg(flood_options(PLACE, BULK_BYTES, bulk, seconds + 1.0));
                command.background(&cache("bench")?.join("flood.log"))
            });
            let flood = flood.transpose()?;
            let reports = cyclic(PLACE, CYCLE_US, seconds)?;
            let (sent, took) = match flood {
                Some(flood) => flood_report(&flood.finish(30)?)?,
                None => (0.0, seconds),
            };
            let sum = |key: &str| reports.iter().filter_map(|report| report[key].as_u64()).sum::<u64>();
            // The device's frames come from the PLC too.
            let came = (arrived()? - before).saturating_sub(reports[1]["received"].as_u64().unwrap_or(0));
            let worst =
                |key: &str| reports.iter().filter_map(|r| r["interval_us"][key].as_f64()).fold(0.0, f64::max);
            let drops = path.gateways().iter().map(|gateway| urgent_drops(&gateway.status()?)).sum::<Result<
                u64,
                String,
            >>(
            )?;
            println!(
                "   {:26} {:12.0} {:12.0} {:8} {:8} {:10} {:12.1} {:10.1}",
                contender.to_string(),
                sent / took,
                came as f64 / took,
                sum("lost"),
                sum("missed"),
                sum("bus_errors"),
                worst("p99"),
                worst("max")
            );
            if bulk > 0 && contender == Contender::Macsec {
                let detail = format!(
                    "{} missed cycles, {} of them in stalls; {:.0} of {:.0} frames of bulk a second arrived",
                    sum("missed"),
                    sum("missed_stalled"),
                    came as f64 / took,
                    sent / took
                );
                let what = format!(
                    "frames with a deadline lost in {seconds} s, beside {BULK} others a second, macsec"
                );
                goals.push(Goal::at_most(what, 0.0, sum("lost") as f64, &detail));
            }
            rows.push(json!({
                "contender": contender.to_string(), "cycle_us": CYCLE_US, "seconds": seconds, "bulk_offered": bulk,
                "bulk_sent": sent / took, "bulk_arrived": came as f64 / took, "lost": sum("lost"), "missed": sum("missed"),
                "missed_stalled": sum("missed_stalled"), "bus_errors": sum("bus_errors"),
                "bus_errors_stalled": sum("bus_errors_stalled"), "interval_p99_us": worst("p99"), "interval_max_us": worst("max"),
                "urgent_ring_drops": drops, "placement": PLACE.to_string(),
            }));
        }
    }
    Ok(rows.into())
}

/// Frames with deadlines that found their ring full, on both ports of a gateway.
fn urgent_drops(status: &Value) -> Result<u64, String> {
    let of = |port: &str| status[port]["urgent_ring_drops"].as_u64();
    of("field").zip(of("uplink")).map(|(a, b)| a + b).ok_or_else(|| format!("no count of drops: {status:#}"))
}
