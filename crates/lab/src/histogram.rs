//! HDR histograms of times.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// A histogram of nanoseconds with three significant digits, up to a minute. Longer values count as
/// a minute.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

const LONGEST_NS: u64 = 60_000_000_000;

impl Default for Times {
    fn default() -> Self {
        // The crate accepts these bounds (1 <= low, high >= 2 * low, at most 5 digits).
        Self(Histogram::new_with_bounds(1, LONGEST_NS, 3).unwrap_or_else(|_| unreachable!("constant bounds")))
    }
}

impl Times {
    /// Records a value.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Adds another histogram's values.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds, so this cannot fail.
        let _ = self.0.add(&other.0);
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The given percentile in microseconds.
    #[must_use]
    pub fn percentile_us(&self, percent: f64) -> f64 {
        micros(self.0.value_at_percentile(percent))
    }

    /// The largest value in microseconds.
    #[must_use]
    pub fn max_us(&self) -> f64 {
        micros(self.0.max())
    }

    /// Every value that occurred, in nanoseconds to three digits, and its count. Series can be
    /// pooled from it.
    #[must_use]
    pub fn recorded(&self) -> Vec<(u64, u64)> {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
    }

    /// The summary for a result.
    #[must_use]
    pub fn summary(&self) -> Summary {
        if self.0.is_empty() {
            return Summary::default();
        }
        Summary {
            count: self.0.len(),
            min: micros(self.0.min()),
            mean: (self.0.mean() / 10.0).round() / 100.0,
            p25: self.percentile_us(25.0),
            p50: self.percentile_us(50.0),
            p75: self.percentile_us(75.0),
            p99: self.percentile_us(99.0),
            p99_9: self.percentile_us(99.9),
            max: self.max_us(),
        }
    }
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

/// Percentiles in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of values. If 0, the others mean nothing.
    pub count: u64,
    /// Minimum.
    pub min: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// First quartile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Third quartile.
    pub p75: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// Maximum.
    pub max: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_in_microseconds() {
        let mut times = Times::default();
        (1..=1_000).for_each(|n| times.record(n * 1_000));
        let summary = times.summary();
        assert_eq!(summary.count, 1_000);
        assert!((summary.p50 - 500.0).abs() < 1.0, "{summary:?}");
        assert!((summary.p99_9 - 999.0).abs() < 2.0, "{summary:?}");
    }

    #[test]
    fn value_beyond_range_is_clamped() {
        let mut times = Times::default();
        times.record(u64::MAX);
        assert_eq!(times.count(), 1);
        assert!(times.max_us() >= 60_000_000.0);
    }

    #[test]
    fn nothing_recorded_gives_zeros() {
        assert_eq!(Times::default().summary(), Summary::default());
    }
}
