//! How a packet's latency is measured: fences around each call, contenders that take turns, the cost of an empty call
//! subtracted.

use crate::clock::ticks;
use std::hint::black_box;

/// Packets that a contender handles in a turn. So many slots of 1500 bytes stay in the nearest cache.
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
        // By reference: given by value it would be copied, and a prepared packet's result is some hundred bytes.
        black_box(&result);
        self.ticks.push(ticks() - start);
        result
    }
}

/// Somebody who handles packets.
pub trait Contender {
    /// Makes ready what is not to be timed, and handles [`TURN`] packets.
    fn turn(&mut self, timer: &mut Timer);
}

/// What is subtracted from all.
struct Empty;

impl Contender for Empty {
    fn turn(&mut self, timer: &mut Timer) {
        for _ in 0..TURN {
            timer.time(|| ());
        }
    }
}

/// What was measured, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// The fastest of all calls.
    pub min: f64,
    /// Half of the calls were faster.
    pub median: f64,
    /// 99 of 100 calls were faster.
    pub p99: f64,
}

/// Lets the contenders take turns for so many rounds. Whatever else the machine does meets them alike.
pub fn race(contenders: &mut [Box<dyn Contender>], rounds: usize, tick: f64) -> Vec<Latency> {
    let mut empty = (Empty, Timer::default());
    let mut timers: Vec<Timer> = contenders.iter().map(|_| Timer::default()).collect();
    for round in 0..=rounds {
        empty.0.turn(&mut empty.1);
        for (contender, timer) in contenders.iter_mut().zip(&mut timers) {
            contender.turn(timer);
        }
        if round == 0 {
            // The first touch of memory and code is nobody's latency.
            timers.iter_mut().chain([&mut empty.1]).for_each(|timer| timer.ticks.clear());
        }
    }
    timers.iter_mut().chain([&mut empty.1]).for_each(|timer| timer.ticks.sort_unstable());
    let step = resolution(timers.iter().chain([&empty.1]).map(|timer| timer.ticks.as_slice()));
    let nothing = quantile(&empty.1.ticks, 0.5, step);
    let latency = |timer: &Timer| {
        let nanoseconds = |part| (quantile(&timer.ticks, part, step) - nothing).max(0.0) * tick;
        Latency { min: nanoseconds(0.0), median: nanoseconds(0.5), p99: nanoseconds(0.99) }
    };
    timers.iter().map(latency).collect()
}

/// The step in which the counter moves: the smallest difference between values, which are in order within a series.
fn resolution<'a>(series: impl Iterator<Item = &'a [u64]>) -> u64 {
    let gaps = series.flat_map(|sorted| sorted.windows(2)).map(|pair| pair[1] - pair[0]);
    gaps.filter(|&gap| gap > 0).min().unwrap_or(0)
}

/// The value below which this part of all lies, of values in order. The counter moves in steps, so many calls have the
/// same count; among these the place says where in the step the value is, as in any grouped data.
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
    fn a_quantile_lies_inside_the_step_that_holds_it() {
        assert_eq!(quantile(&[], 0.5, 2), 0.0);
        assert_eq!(quantile(&[7; 9], 0.5, 2), 7.0);
        // Half of the calls took 4 and half 6, so the middle is where the steps meet.
        let calls: Vec<u64> = [[4; 50], [6; 50]].concat();
        assert_eq!(quantile(&calls, 0.5, 2), 5.0);
        assert_eq!(quantile(&calls, 0.25, 2), 4.0);
        assert!((quantile(&calls, 0.99, 2) - 7.0).abs() < 0.1);
    }

    #[test]
    fn the_counter_s_step_is_the_smallest_difference_and_no_outlier() {
        assert_eq!(resolution([&[4, 4, 6, 900][..], &[5, 5]].into_iter()), 2);
        assert_eq!(resolution([&[4, 4][..], &[]].into_iter()), 0);
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
