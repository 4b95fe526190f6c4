//! Counts of rare events of two contenders: the exact conditional test of two Poisson counts.
//!
//! Under equal rates, each event belongs to either contender with probability 1/2. A stall of the
//! machine makes many events at once, so both counts are divided by the mean size of such a burst:
//! the variance of the slices' counts over their mean. A test has a verdict only if it would notice
//! twice the rate with a probability of [`POWER`].

use super::goals::Goal;

/// A chance below this misses the goal.
const LEVEL: f64 = 0.05;
/// The least probability of noticing twice the rate.
const POWER: f64 = 0.8;

/// A comparison of two contenders.
#[derive(Debug, PartialEq)]
struct Test {
    /// The probability of at least as many events of ours, under equal rates.
    chance: f64,
    /// The probability of a chance below [`LEVEL`], were our rate twice theirs.
    power: f64,
    /// Events of a burst; at least 1.
    burst: f64,
}

/// The goal that ours has no higher rate than theirs; counts are those of slices.
pub(crate) fn goal(what: &str, ours: &[u64], theirs: &[u64], detail: &str) -> Goal {
    let sum = |counts: &[u64]| counts.iter().sum::<u64>();
    let name = format!("{what}, macsec beyond bridges: chance of as many");
    let Some(test) = test(ours, theirs) else {
        let detail = format!("{} / {}{detail}; one slice shows no bursts", sum(ours), sum(theirs));
        return Goal::printed(name, f64::NAN, &detail);
    };
    let detail = format!(
        "{} / {}{detail}; bursts of {:.1}; power for twice as many {:.2}",
        sum(ours),
        sum(theirs),
        test.burst,
        test.power
    );
    if test.power < POWER {
        return Goal::printed(name, test.chance, &detail);
    }
    Goal::at_least(name, LEVEL, test.chance, &detail)
}

/// `None` for fewer than two slices, which show no bursts.
fn test(ours: &[u64], theirs: &[u64]) -> Option<Test> {
    let burst = burst(&[ours, theirs])?;
    let bursts = |counts: &[u64]| (counts.iter().sum::<u64>() as f64 / burst).round() as u64;
    let (ours, all) = (bursts(ours), bursts(ours) + bursts(theirs));
    // Twice the rate adds half of the events of equal rates.
    let doubled = all + all / 2;
    let power = (0..=doubled).find(|least| tail(doubled, *least, 0.5) < LEVEL);
    let power = power.map_or(0.0, |least| tail(doubled, least, 2.0 / 3.0));
    Some(Test { chance: tail(all, ours, 0.5), power, burst })
}

/// The variance of the slices over their mean, pooled over the contenders.
fn burst(contenders: &[&[u64]]) -> Option<f64> {
    let (mut squares, mut degrees) = (0.0, 0);
    for counts in contenders {
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        if mean > 0.0 {
            squares += counts.iter().map(|count| (*count as f64 - mean).powi(2)).sum::<f64>() / mean;
            degrees += counts.len() - 1;
        }
    }
    let is_sliced = contenders.iter().all(|counts| counts.len() > 1);
    is_sliced.then(|| if degrees == 0 { 1.0 } else { (squares / degrees as f64).max(1.0) })
}

/// The probability of at least `least` of `all` events with probability `p` each.
fn tail(all: u64, least: u64, p: f64) -> f64 {
    let mut term = all as f64 * (1.0 - p).ln();
    let mut sum = 0.0;
    for events in 0..=all {
        if events >= least {
            sum += term.exp();
        }
        term += ((all - events) as f64 / (events + 1) as f64).ln() + (p / (1.0 - p)).ln();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_a_binomial() {
        assert!((tail(4, 3, 0.5) - 5.0 / 16.0).abs() < 1e-12);
        assert!((tail(3, 0, 0.3) - 1.0).abs() < 1e-12 && tail(0, 0, 0.5) == 1.0);
        assert!((tail(2, 2, 2.0 / 3.0) - 4.0 / 9.0).abs() < 1e-12);
        assert!((tail(5_000, 2_501, 0.5) - 0.4944).abs() < 1e-3, "large counts do not underflow");
    }

    #[test]
    fn too_few_events_have_no_verdict() {
        let few = test(&[1, 0, 0, 1], &[0, 1, 0, 0]).expect("slices");
        assert!(few.power < 0.2, "{few:?}");
        assert!(!goal("a", &[9, 0], &[0, 0], "").missed());
        assert!(test(&[90], &[3]).is_none() && !goal("a", &[90], &[3], "").missed());
        assert_eq!(test(&[0, 0], &[0, 0]), Some(Test { chance: 1.0, power: 0.0, burst: 1.0 }));
    }

    #[test]
    fn twice_the_rate_is_noticed() {
        let (one, two) =
            ([5, 6, 4, 5, 5, 6, 4, 5, 5, 4, 6, 5], [10, 11, 9, 10, 10, 12, 8, 10, 9, 11, 10, 10]);
        let doubled = test(&two, &one).expect("slices");
        assert!(doubled.power > POWER && doubled.chance < LEVEL, "{doubled:?}");
        assert!(goal("a", &two, &one, "").missed() && !goal("a", &one, &one, "").missed());
    }

    #[test]
    fn one_burst_is_one_event() {
        // A stall of a hundred errors, in slices that otherwise agree.
        let stalled = test(&[127, 2, 3, 1, 4, 2], &[2, 3, 2, 1, 5, 2]).expect("slices");
        assert!(stalled.burst > 30.0 && stalled.power < POWER, "{stalled:?}");
        assert!(!goal("a", &[127, 2, 3, 1, 4, 2], &[2, 3, 2, 1, 5, 2], "").missed());
    }
}
