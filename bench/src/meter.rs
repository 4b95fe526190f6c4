//! Measures a packet's latency: fences around each call, contenders in turns, the cost of an empty
//! call subtracted.

use crate::clock::ticks;
use std::hint::black_box;

/// Packets per turn: this many slots of 1500 bytes fit the first-level cache.
pub const TURN: usize = 8;

/// Times the calls of one contender.
#[derive(Default)]
pub struct Timer {
    ticks: Vec<u64>,
}

impl Timer {
    /// Times one call.
    #[inline(always)]
    pub fn time<R>(&mut self, call: impl FnOnce() -> R) -> R {
        let start = ticks();
        let result = call();
        // By reference: by value the result, some hundred bytes for a prepared packet, would be
        // copied.
        black_box(&result);
        self.ticks.push(ticks() - start);
        result
    }
}

/// An implementation under test.
pub trait Contender {
    /// Does the untimed set-up, then processes [`TURN`] packets.
    fn turn(&mut self, timer: &mut Timer);
}

/// The empty call, subtracted from all others.
struct Empty;

impl Contender for Empty {
    fn turn(&mut self, timer: &mut Timer) {
        for _ in 0..TURN {
            timer.time(|| ());
        }
    }
}

/// Measured latency, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// The fastest call.
    pub min: f64,
    /// Half of the calls are faster (see [`middle`]).
    pub median: f64,
    /// 99 of 100 calls are faster.
    pub p99: f64,
}

/// Runs the contenders in turns for `rounds` rounds, so that other load affects all alike.
pub fn race(contenders: &mut [Box<dyn Contender>], rounds: usize, tick: f64) -> Vec<Latency> {
    let mut empty = (Empty, Timer::default());
    let mut timers: Vec<Timer> = contenders.iter().map(|_| Timer::default()).collect();
    for round in 0..=rounds {
        empty.0.turn(&mut empty.1);
        for (contender, timer) in contenders.iter_mut().zip(&mut timers) {
            contender.turn(timer);
        }
        if round == 0 {
            // First touches of memory and code count for no contender.
            timers.iter_mut().chain([&mut empty.1]).for_each(|timer| timer.ticks.clear());
        }
    }
    timers.iter_mut().chain([&mut empty.1]).for_each(|timer| timer.ticks.sort_unstable());
    let step = resolution(timers.iter().chain([&empty.1]).map(|timer| timer.ticks.as_slice()));
    let nothing = middle(&empty.1.ticks, step);
    let latency = |timer: &Timer| {
        let nanoseconds = |ticks: f64| (ticks - nothing).max(0.0) * tick;
        let [min, p99] = [0.0, 0.99].map(|part| nanoseconds(quantile(&timer.ticks, part, step)));
        Latency { min, median: nanoseconds(middle(&timer.ticks, step)), p99 }
    };
    timers.iter().map(latency).collect()
}

/// The counter's step: the smallest difference between values, sorted within each series.
/// Differences of 1 do not count, since a step need not be a whole number of ticks (24.45 on an
/// EPYC Zen 3) and its ends are rounded.
fn resolution<'a>(series: impl Iterator<Item = &'a [u64]>) -> u64 {
    let gaps = series.flat_map(|sorted| sorted.windows(2)).map(|pair| pair[1] - pair[0]);
    gaps.filter(|&gap| gap > 1).min().unwrap_or(1)
}

/// The median of sorted values, finer than the counter's step: the mean of all values within two
/// steps of it. Calls of equal latency read as the step below or above, more often as the nearer
/// one, so their mean is the latency; interrupted calls do not count.
fn middle(sorted: &[u64], step: u64) -> f64 {
    let Some(&median) = sorted.get(sorted.len() / 2) else { return 0.0 };
    // One more tick for each rounded end.
    let two = 2 * (step + 1);
    let near = median.saturating_sub(two)..=median + two;
    let near = sorted.iter().filter(|value| near.contains(value));
    near.clone().sum::<u64>() as f64 / near.count() as f64
}

/// The quantile of sorted values. The counter moves in steps, many calls read the same; the place
/// among them interpolates within the step, as for any grouped data.
fn quantile(sorted: &[u64], part: f64, step: u64) -> f64 {
    let place = part * sorted.len() as f64;
    let Some(&value) = sorted.get((place as usize).min(sorted.len().saturating_sub(1))) else { return 0.0 };
    let first = sorted.partition_point(|&other| other < value);
    let behind = sorted.partition_point(|&other| other <= value);
    value as f64 + step as f64 * ((place - first as f64) / (behind - first) as f64 - 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_interpolates_within_its_step() {
        assert_eq!(quantile(&[], 0.5, 2), 0.0);
        assert_eq!(quantile(&[7; 9], 0.5, 2), 7.0);
        // Half of the calls took 4 and half 6, so the median is where the steps meet.
        let calls: Vec<u64> = [[4; 50], [6; 50]].concat();
        assert_eq!(quantile(&calls, 0.5, 2), 5.0);
        assert_eq!(quantile(&calls, 0.25, 2), 4.0);
        assert!((quantile(&calls, 0.99, 2) - 7.0).abs() < 0.1);
    }

    #[test]
    fn middle_between_steps_is_the_latency() {
        assert_eq!(middle(&[], 26), 0.0);
        assert_eq!(middle(&[52; 9], 26), 52.0);
        // A counter with step 26 reads a latency of 57.2 as 52 four times in five; interrupted
        // calls do not count.
        let calls: Vec<u64> = [vec![52; 80], vec![78; 20], vec![9_000; 3]].concat();
        assert!((middle(&calls, 26) - 57.2).abs() < 1e-9);
        // A rounded step of 24.45: two thirds of the way from the lower step to the upper.
        let calls: Vec<u64> = [vec![49; 30], vec![73; 30], vec![74; 30]].concat();
        assert!((middle(&calls, 24) - 65.3).abs() < 0.1);
        // Without steps, the median or next to it.
        let calls: Vec<u64> = (0..101).collect();
        assert_eq!(middle(&calls, 1), 50.0);
    }

    #[test]
    fn counter_step_is_smallest_difference() {
        assert_eq!(resolution([&[4, 4, 6, 900][..], &[5, 5]].into_iter()), 2);
        assert_eq!(resolution([&[4, 4][..], &[]].into_iter()), 1);
        // Steps of 24.45.
        assert_eq!(resolution([&[49, 49, 73, 74, 98][..], &[122, 147]].into_iter()), 24);
    }

    #[test]
    fn each_contender_has_its_own_latency() {
        struct Spin(u64);
        impl Contender for Spin {
            fn turn(&mut self, timer: &mut Timer) {
                for _ in 0..TURN {
                    timer.time(|| (0..self.0).map(black_box).sum::<u64>());
                }
            }
        }
        let mut contenders: Vec<Box<dyn Contender>> = vec![Box::new(Spin(100)), Box::new(Spin(10_000))];
        let latencies = race(&mut contenders, 20, 1.0);
        assert!(latencies[1].median > 10.0 * latencies[0].median, "{latencies:?}");
    }
}
