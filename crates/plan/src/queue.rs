//! Waiting times of a device's messages on a bearer.
//!
//! A bearer is first in, first out. A message reaches it within the response time of its sealing
//! after its release, so at most `floor((t + jitter) / period) + 1` messages of a class arrive
//! within `t`. The longest stay is the largest difference between arrived and carried work (Le
//! Boudec and Thiran, *Network Calculus*, theorem 1.4.2). Where links of one speed follow each
//! other, a message can meet a longer one before it once more on each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Messages of one class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Class {
    /// the shortest time between two releases, in ms
    pub period_ms: f64,
    /// the longest time from release to arrival at the bearer, in ms
    pub jitter_ms: f64,
    /// time for which a message occupies the slowest part of the bearer, in ms
    pub occupied_ms: f64,
}

/// Arrivals examined one by one. If the bearer is still busy then, a straight line above all
/// arrivals is the bound.
const ARRIVALS: usize = 100_000;

/// A time with a total order, for a heap.
#[derive(PartialEq)]
struct Time(f64);

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The longest time that a message of any class waits and is carried, in ms; infinite if the queue
/// grows without bound.
pub(crate) fn longest_stay(classes: &[Class]) -> f64 {
    let load: f64 = classes.iter().map(|class| class.occupied_ms / class.period_ms).sum();
    if load > 1.0 || classes.iter().any(|class| class.jitter_ms.is_infinite()) {
        return f64::INFINITY;
    }
    let classes: Vec<_> = classes.iter().filter(|class| class.occupied_ms > 0.0).collect();
    // The work that can arrive at once, and the earliest next arrival of each class.
    let at_once = |class: &Class| (class.jitter_ms / class.period_ms).floor() + 1.0;
    let mut came: f64 = classes.iter().map(|class| at_once(class) * class.occupied_ms).sum();
    let mut next: BinaryHeap<_> = classes
        .iter()
        .enumerate()
        .map(|(i, class)| Reverse((Time(at_once(class) * class.period_ms - class.jitter_ms), i)))
        .collect();
    let mut longest = came;
    for _ in 0..ARRIVALS {
        let Some(mut first) = next.peek_mut() else { return longest };
        let Reverse((Time(now), i)) = *first;
        // All earlier work is carried, so later messages find the bearer as the first ones did, or
        // better.
        if came <= now {
            return longest;
        }
        let class = classes[i];
        came += class.occupied_ms;
        longest = longest.max(came - now);
        *first = Reverse((Time(now + class.period_ms), i));
    }
    classes.iter().map(|class| class.occupied_ms * (1.0 + class.jitter_ms / class.period_ms)).sum()
}

/// The longest wait of a message for others, in ms: the longest stay without its own transmission,
/// and one longer message before it on each further link.
pub(crate) fn wait_ms(longest_stay: f64, longest_ms: f64, own_ms: f64, links: f64) -> f64 {
    (longest_stay - own_ms).max(0.0) + (links - 1.0) * (longest_ms - own_ms).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(period_ms: f64, jitter_ms: f64, occupied_ms: f64) -> Class {
        Class { period_ms, jitter_ms, occupied_ms }
    }

    #[test]
    fn lone_class_waits_only_in_bursts() {
        assert_eq!(longest_stay(&[class(10.0, 2.0, 3.0)]), 3.0);
        // Late by 8 of 10 ms, so the next message comes 2 ms behind.
        assert_eq!(longest_stay(&[class(10.0, 8.0, 3.0)]), 4.0);
        // Two and a half periods late: three at once.
        assert_eq!(longest_stay(&[class(10.0, 25.0, 3.0)]), 9.0);
    }

    #[test]
    fn messages_wait_for_others_and_repeats() {
        assert_eq!(longest_stay(&[class(10.0, 0.0, 1.0), class(20.0, 0.0, 2.0)]), 3.0);
        // The long message takes 6 ms; short ones arrive at 0, and again at 2 and 4 during its
        // transmission.
        let stay = longest_stay(&[class(2.0, 0.0, 0.5), class(100.0, 0.0, 6.0)]);
        assert!((stay - 6.5).abs() < 1e-12, "{stay}");
        assert_eq!(wait_ms(6.5, 6.0, 0.5, 3.0), 6.0 + 2.0 * 5.5);
        assert_eq!(wait_ms(6.5, 6.0, 6.0, 3.0), 0.5);
    }

    #[test]
    fn full_bearer_has_bound_overload_has_none() {
        let full = [class(2.0, 1.0, 1.0), class(4.0, 0.0, 2.0)];
        assert!(longest_stay(&full) >= 3.0 && longest_stay(&full).is_finite());
        assert_eq!(longest_stay(&[class(2.0, 0.0, 1.0), class(4.0, 0.0, 2.1)]), f64::INFINITY);
        assert_eq!(longest_stay(&[class(2.0, f64::INFINITY, 1.0)]), f64::INFINITY);
    }

    /// Simulates first-in-first-out links of one speed with random jitters: no message waits longer
    /// than the bound.
    #[test]
    fn no_simulated_wait_exceeds_the_bound() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut reached = 0;
        for _ in 0..10_000 {
            let links = 1 + random(3) as usize;
            let classes: Vec<Class> = (0..1 + random(4))
                .map(|_| class((5 + random(40)) as f64, random(30) as f64, (1 + random(8)) as f64))
                .collect();
            let stay = longest_stay(&classes);
            if stay.is_infinite() {
                continue;
            }
            let mut came = Vec::new();
            for (i, class) in classes.iter().enumerate() {
                let mut release = if random(2) == 0 { 0.0 } else { random(40) as f64 };
                let all_late = random(2) == 0;
                while release < 300.0 {
                    let late = random(class.jitter_ms as u64 + 1) as f64;
                    // Longest delay at the beginning, none afterwards: this gives the longest
                    // bursts.
                    let late = if all_late { (class.jitter_ms - release).max(0.0) } else { late };
                    came.push((release + late, i));
                    release += class.period_ms + if all_late { 0.0 } else { random(3) as f64 };
                }
            }
            came.sort_by(|a, b| a.0.total_cmp(&b.0));
            let longest = classes.iter().map(|class| class.occupied_ms).fold(0.0, f64::max);
            let mut free = vec![0.0f64; links];
            for (at, i) in came {
                let own = classes[i].occupied_ms;
                let end = free.iter_mut().fold(at, |ready, free| {
                    *free = free.max(ready) + own;
                    *free
                });
                let bound = wait_ms(stay, longest, own, links as f64);
                let waited = end - at - links as f64 * own;
                assert!(waited <= bound + 1e-9, "{classes:?}, {links}: {waited} of {bound}");
                reached += u32::from(bound > 0.0 && waited > bound - 1e-9);
            }
        }
        // The bound is tight: some messages reach it.
        assert!(reached > 1_000, "{reached}");
    }
}
