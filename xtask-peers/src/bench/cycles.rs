//! Cyclic exchange at short update times: bus errors and missed cycles compared with
//! those of plain bridges.

use super::goals::Goal;
use super::meter::cyclic;
use super::paths::{Contender, Path, Waiting};
use super::placement::{Cores, Placement};
use super::{Plan, counts, median};
use serde_json::{Value, json};

const CYCLES_US: [u32; 5] = [250, 500, 1000, 2000, 4000];
const CONTENDERS: [Contender; 3] = [Contender::Bridges, Contender::Plain, Contender::Macsec];

/// Each side on its own core, as in the field. Controller and device are real-time processes that
/// sleep between cycles. So do the gateways: one that polled without pause would compete with the
/// other processes of its core.
const PLACE: Placement = Placement { cores: Cores::Split, awake: true };

/// Results of one contender at one update time, in all slices and at both stations.
#[derive(Default)]
struct Tally {
    slices: Vec<[Value; 2]>,
}

impl Tally {
    fn reports(&self) -> impl Iterator<Item = &Value> {
        self.slices.iter().flatten()
    }

    fn sum(&self, key: &str) -> u64 {
        self.reports().map(|r| r[key].as_u64().unwrap_or(0)).sum()
    }

    /// A count in each slice, summed over both stations.
    fn each(&self, key: &str) -> Vec<u64> {
        let of = |report: &Value| report[key].as_u64().unwrap_or(0);
        self.slices.iter().map(|ends| ends.iter().map(of).sum()).collect()
    }

    /// The highest value of all slices.
    fn worst(&self, key: &str) -> f64 {
        self.reports().map(|r| r["interval_us"][key].as_f64().unwrap_or(0.0)).fold(0.0, f64::max)
    }

    fn middle(&self, key: &str) -> f64 {
        median(self.reports().map(|r| r["interval_us"][key].as_f64().unwrap_or(f64::NAN)))
    }

    /// Bus errors that no stall of a station's own core explains.
    fn unexplained(&self) -> u64 {
        self.sum("bus_errors") - self.sum("bus_errors_stalled")
    }
}

/// Measures each update time with each contender. They take turns in slices, so that the machine's
/// load affects them alike.
pub(crate) fn run(plan: Plan, goals: &mut Vec<Goal>) -> Result<Value, String> {
    let mut rows = Vec::new();
    println!(
        "   {:>8}  {:18} {:>10} {:>12} {:>8} {:>8} {:>10} {:>10}",
        "cycle us", "", "bus errors", "not stalled", "missed", "lost", "p99 us", "max us"
    );
    let seconds = plan.cycle_seconds * plan.cycle_slices as f64;
    for cycle_us in CYCLES_US {
        let mut tallies = CONTENDERS.map(|_| Tally::default());
        for slice in 0..plan.cycle_slices {
            for turn in 0..CONTENDERS.len() {
                let at = (turn + slice) % CONTENDERS.len();
                let _path = Path::build(CONTENDERS[at], PLACE, Waiting::Deadline)?;
                tallies[at].slices.push(cyclic(PLACE, cycle_us, plan.cycle_seconds)?);
            }
        }
        for (contender, tally) in CONTENDERS.into_iter().zip(&tallies) {
            println!(
                "   {cycle_us:8}  {:18} {:10} {:12} {:8} {:8} {:10.1} {:10.1}",
                contender.to_string(),
                tally.sum("bus_errors"),
                tally.unexplained(),
                tally.sum("missed"),
                tally.sum("lost"),
                tally.middle("p99"),
                tally.worst("max")
            );
            rows.push(json!({
                "contender": contender.to_string(), "cycle_us": cycle_us, "seconds": seconds, "slices": plan.cycle_slices,
                "placement": PLACE.to_string(), "bus_errors": tally.sum("bus_errors"), "bus_errors_stalled": tally.sum("bus_errors_stalled"),
                "missed": tally.sum("missed"), "missed_stalled": tally.sum("missed_stalled"), "lost": tally.sum("lost"),
                "received": tally.sum("received"), "interval_p99_us": tally.middle("p99"), "interval_max_us": tally.worst("max"),
                "reports": tally.slices,
            }));
        }
        let [bridges, _, macsec] = &tallies;
        let stalls =
            format!("; not explained by stalls {} / {}", macsec.unexplained(), bridges.unexplained());
        for (key, what, detail) in
            [("bus_errors", "bus errors", stalls.as_str()), ("missed", "missed cycles", "")]
        {
            let what = format!("{what}, {cycle_us} us for {seconds} s");
            goals.push(counts::goal(&what, &macsec.each(key), &bridges.each(key), detail));
        }
    }
    Ok(rows.into())
}
