//! A bound on frames or octets a second. A loop or a faulty machine must not fill the links of all
//! others.

use crate::run::counters::Counter;

/// The saving for a burst without a configured length, in nanoseconds.
const SAVINGS: u64 = 100_000_000;
/// The smallest burst without a configured length, in frames.
const LEAST_FRAMES: u64 = 64;
/// The same in octets: a super-frame.
const LEAST_OCTETS: u64 = 1 << 16;
const SECOND: u64 = 1_000_000_000;

/// A token bucket with one user, whose tokens are nanoseconds.
#[derive(Debug)]
pub struct Bound {
    /// Units a second.
    rate: u64,
    most: u64,
    saved: Counter,
    at: Counter,
}

impl Bound {
    /// At most `rate` frames a second, and `burst` at once. A rate of 0: no bound. A burst of 0:
    /// those of 100 ms, and 64 at least.
    #[must_use]
    pub fn of_frames(rate: u64, burst: u64, now: u64) -> Option<Self> {
        Self::of(rate, burst, LEAST_FRAMES, now)
    }

    /// At most `rate` octets a second, and `burst` at once. A rate of 0: no bound. A burst of 0:
    /// those of 100 ms, and 65,536 at least.
    #[must_use]
    pub fn of_octets(rate: u64, burst: u64, now: u64) -> Option<Self> {
        Self::of(rate, burst, LEAST_OCTETS, now)
    }

    fn of(rate: u64, burst: u64, least: u64, now: u64) -> Option<Self> {
        // Rounded up, so that a burst of one unit is enough for one.
        let time = |units: u64| units.saturating_mul(SECOND).div_ceil(rate);
        (rate > 0).then(|| {
            let bound = Self {
                rate,
                most: if burst > 0 { time(burst) } else { SAVINGS.max(least * SECOND / rate) },
                saved: Counter::new(),
                at: Counter::new(),
            };
            bound.saved.set(bound.most);
            bound.at.set(now);
            bound
        })
    }

    /// Whether so many units may pass at `now`. They are then spent.
    #[inline]
    pub fn passes(&self, now: u64, units: u64) -> bool {
        let passes = self.would_pass(now, units);
        if passes {
            self.spend(units);
        }
        passes
    }

    /// Whether so many units may pass at `now`.
    #[inline]
    pub fn would_pass(&self, now: u64, units: u64) -> bool {
        let at = self.at.get();
        let since = now.saturating_sub(at);
        let saved = self.saved.get().saturating_add(since).min(self.most);
        self.at.set(now.max(at));
        self.saved.set(saved);
        saved >= self.cost(units)
    }

    /// Counts units that passed.
    #[inline]
    pub fn spend(&self, units: u64) {
        self.saved.set(self.saved.get().saturating_sub(self.cost(units)));
    }

    const fn cost(&self, units: u64) -> u64 {
        units * SECOND / self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storm_is_limited() {
        let bound = Bound::of_frames(1000, 0, 0).expect("a bound");
        let storm = (0..1_000_000u64).filter(|i| bound.passes(i * 1000, 1)).count();
        assert!((1000..=1101).contains(&storm), "{storm} in a second");
        let bound = Bound::of_frames(1000, 0, 0).expect("a bound");
        assert!((0..5000u64).all(|i| bound.passes(i * 1_000_000, 1)));
        assert!(Bound::of_frames(0, 0, 0).is_none());
    }

    #[test]
    fn octets_are_limited() {
        let bound = Bound::of_octets(1_000_000, 0, 0).expect("a bound");
        let passed: u64 = (0..10_000u64).filter(|i| bound.passes(i * 100_000, 1000)).map(|_| 1000).sum();
        assert!((1_000_000..=1_110_000).contains(&passed), "{passed} in a second");
        // A full burst passes after a pause, and nothing more.
        let bound = Bound::of_octets(1000, 0, 0).expect("a bound");
        assert!(bound.passes(0, 60_000) && !bound.passes(0, 60_000) && bound.passes(0, 5_536));
        assert!(!bound.passes(0, 1) && bound.passes(1_000_000, 1));
    }

    #[test]
    fn burst_is_as_configured() {
        for (rate, burst) in [(1, 1), (3, 1), (1000, 7), (7, 1000), (1_000_000_000, 5)] {
            let bound = Bound::of_frames(rate, burst, 0).expect("a bound");
            assert_eq!((0..2000).filter(|_| bound.passes(0, 1)).count() as u64, burst, "{rate} {burst}");
            // A long pause saves no more.
            let later = 3600 * SECOND;
            assert_eq!((0..2000).filter(|_| bound.passes(later, 1)).count() as u64, burst, "{rate} {burst}");
        }
        let bound = Bound::of_octets(1_000_000, 1522, 0).expect("a bound");
        assert!(bound.passes(0, 1522) && !bound.passes(0, 60) && bound.passes(60_000, 60));
        assert!(Bound::of_octets(u64::MAX, u64::MAX, 0).is_some());
    }

    #[test]
    fn clock_that_goes_back_saves_nothing() {
        let bound = Bound::of_frames(10, 0, 1_000_000_000).expect("a bound");
        let burst = (0..100).filter(|_| bound.passes(1_000_000_000, 1)).count();
        assert_eq!(burst, 64);
        assert!(!bound.passes(0, 1) && !bound.passes(1, 1));
    }
}
