//! Cyclic exchange at short update times: bus errors beside those that plain bridges have on this machine.

use super::goals::Goal;
use super::meter::cyclic;
use super::paths::{Contender, Cores, Path, Placement, Waiting};
use super::{Plan, median};
use serde_json::{Value, json};

const CYCLES_US: [u32; 5] = [250, 500, 1000, 2000, 4000];
const CONTENDERS: [Contender; 3] = [Contender::Bridges, Contender::Plain, Contender::Macsec];

/// Each side on a core of its own, as in the field. Controller and device are real-time processes and sleep between
/// cycles, so the gateways are too: a gateway that polled without end would only take turns with whatever else runs.
const PLACE: Placement = Placement { cores: Cores::Split, awake: true };

/// What happened to one contender at one update time, in all slices and at both stations.
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

    /// The highest of the slices.
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

/// Each update time with each contender. They take turns in slices, so that the machine's moods meet them alike.
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
        let (theirs, ours) = (bridges.sum("bus_errors"), macsec.sum("bus_errors"));
        // Stalls of a virtual machine come at random: of two equal contenders one has more of them half of the time. A
        // difference counts where chance makes it once in twenty runs or more seldom.
        let detail = format!(
            "{ours} / {theirs}; not explained by stalls {} / {}",
            macsec.unexplained(),
            bridges.unexplained()
        );
        let name =
            format!("bus errors, {cycle_us} us for {seconds} s, macsec beyond bridges: chance of as many");
        goals.push(Goal::at_least(name, 0.05, chance(ours, theirs), &detail));
    }
    Ok(rows.into())
}

/// How probable it is that of all events `ours` or more fall to us, if each falls to us or to them alike: the upper tail
/// of a binomial distribution with p = 1/2.
fn chance(ours: u64, theirs: u64) -> f64 {
    let n = ours + theirs;
    // ln C(n, k) step by step; terms below e^-700 count for nothing.
    let mut log_term = -(n as f64) * 2f64.ln();
    let mut sum = 0.0;
    for k in 0..=n {
        if k >= ours {
            sum += log_term.exp();
        }
        log_term += ((n - k) as f64).ln() - ((k + 1) as f64).ln();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::chance;

    #[test]
    fn the_chance_is_that_of_a_fair_coin() {
        assert!((chance(0, 0) - 1.0).abs() < 1e-12);
        assert!((chance(1, 0) - 0.5).abs() < 1e-12);
        assert!((chance(5, 0) - 1.0 / 32.0).abs() < 1e-12);
        assert!((chance(3, 1) - 5.0 / 16.0).abs() < 1e-12);
        // 25 against 18: nothing to conclude. 50 against 18: no chance.
        assert!((0.15..0.25).contains(&chance(25, 18)));
        assert!(chance(50, 18) < 1e-4);
        assert!((0.5..0.55).contains(&chance(500, 500)));
    }
}
