//! Cyclic exchange at short update times: bus errors compared with those of plain bridges.

use super::goals::Goal;
use super::meter::cyclic;
use super::paths::{Contender, Path, Waiting};
use super::placement::{Cores, Placement};
use super::{Plan, median};
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

    /// Bus errors of each slice, summed over both stations.
    fn bus_errors(&self) -> impl Iterator<Item = u64> {
        self.slices
            .iter()
            .map(|ends| ends.iter().map(|report| report["bus_errors"].as_u64().unwrap_or(0)).sum())
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
        let (theirs, ours) = (bridges.sum("bus_errors"), macsec.sum("bus_errors"));
        // Stalls of a virtual machine come at random, and one stall causes many bus errors: of two
        // equal contenders, one has more of them half of the time. A difference counts if chance
        // produces it at most once in twenty runs.
        let detail = format!(
            "{ours} / {theirs}; not explained by stalls {} / {}",
            macsec.unexplained(),
            bridges.unexplained()
        );
        let slices = macsec.bus_errors().zip(bridges.bus_errors());
        let name =
            format!("bus errors, {cycle_us} us for {seconds} s, macsec beyond bridges: chance of as many");
        goals.push(Goal::at_least(name, 0.05, chance(slices), &detail));
    }
    Ok(rows.into())
}

/// The probability of a difference at least this large if chance assigns the two slices of each
/// pair to us and to them: the exact permutation test for pairs. It assumes no distribution of bus
/// errors, which come in bursts.
fn chance(slices: impl Iterator<Item = (u64, u64)>) -> f64 {
    let differences: Vec<i64> = slices.map(|(ours, theirs)| ours as i64 - theirs as i64).collect();
    let seen: i64 = differences.iter().sum();
    let all = 1u32 << differences.len();
    let swapped = |swaps: u32| -> i64 {
        differences.iter().enumerate().map(|(i, one)| if swaps >> i & 1 == 1 { -one } else { *one }).sum()
    };
    (0..all).filter(|swaps| swapped(*swaps) >= seen).count() as f64 / f64::from(all)
}

#[cfg(test)]
mod tests {
    use super::chance;

    #[test]
    fn the_chance_is_that_of_fair_swaps() {
        let chance = |slices: &[(u64, u64)]| chance(slices.iter().copied());
        assert!((chance(&[]) - 1.0).abs() < 1e-12);
        assert!((chance(&[(3, 3), (0, 0)]) - 1.0).abs() < 1e-12);
        assert!((chance(&[(9, 0)]) - 0.5).abs() < 1e-12);
        // More errors in each of five slices: one assignment of 32. Fewer in one of them, by the
        // same amount: five assignments and one.
        assert!((chance(&[(2, 1); 5]) - 1.0 / 32.0).abs() < 1e-12);
        assert!((chance(&[(2, 1), (2, 1), (2, 1), (2, 1), (1, 2)]) - 6.0 / 32.0).abs() < 1e-12);
        // One stall with a hundred bus errors shows no difference; a few errors in each slice do.
        assert!(chance(&[(127, 2), (2, 3), (3, 2), (1, 1), (4, 5), (2, 2)]) > 0.2);
        assert!(chance(&[(4, 2); 12]) < 0.001);
    }
}
