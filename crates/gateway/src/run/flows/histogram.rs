//! Intervals in logarithmic buckets, four in each octave, from 8 µs to 8 s. Shorter and longer ones
//! are in the first and the last bucket.

use crate::run::counters::Counter;

/// Buckets of each octave.
const PER_OCTAVE: u32 = 4;
/// The first octave begins at 2^13 ns, 8.2 µs.
const FIRST: u32 = 13;
/// The last octave ends at 2^33 ns, 8.6 s.
const END: u32 = 33;
/// Number of buckets.
const BUCKETS: usize = ((END - FIRST) * PER_OCTAVE) as usize;

/// The counts of all buckets.
#[derive(Debug)]
pub(super) struct Histogram([Counter; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self([const { Counter::new() }; BUCKETS])
    }
}

/// The bucket of an interval.
#[inline]
fn bucket(nanoseconds: u64) -> usize {
    let value = nanoseconds.clamp(1 << FIRST, (1 << END) - 1);
    let octave = 63 - value.leading_zeros();
    let within = (value >> (octave - PER_OCTAVE.ilog2())) as u32 & (PER_OCTAVE - 1);
    ((octave - FIRST) * PER_OCTAVE + within) as usize
}

/// The end of a bucket in nanoseconds.
fn end(bucket: usize) -> u64 {
    let (octave, within) = (bucket as u32 / PER_OCTAVE, bucket as u64 % u64::from(PER_OCTAVE));
    ((u64::from(PER_OCTAVE) + within + 1) << (octave + FIRST)) / u64::from(PER_OCTAVE)
}

impl Histogram {
    #[inline]
    pub(super) fn count(&self, nanoseconds: u64) {
        if let Some(counter) = self.0.get(bucket(nanoseconds)) {
            counter.count();
        }
    }

    pub(super) fn clear(&self) {
        self.0.iter().for_each(|counter| counter.set(0));
    }

    /// Takes over the counts of another one.
    pub(super) fn show(&self, other: &Self) {
        self.0.iter().zip(&other.0).for_each(|(counter, other)| counter.set(other.get()));
    }

    /// The buckets with counts: the end in nanoseconds, and the count.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let all = self.0.iter().enumerate().map(|(bucket, counter)| (end(bucket), counter.get()));
        all.filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_below_the_end_of_its_bucket() {
        let mut last = 0;
        for interval in (0..400_000u64).map(|step| step * 25_000).chain([8_191, 8_192, 10_239, 10_240]) {
            let at = bucket(interval);
            if (8_192..8_000_000_000).contains(&interval) {
                assert!(interval < end(at), "{interval}");
                assert!(end(at) <= interval + interval / 4 + 1, "{interval}: {}", end(at));
                assert!(at == 0 || interval >= end(at - 1), "{interval}");
            }
            last = last.max(at);
        }
        assert_eq!((bucket(0), bucket(u64::MAX), last), (0, BUCKETS - 1, BUCKETS - 1));
    }

    #[test]
    fn empty_buckets_are_left_out() {
        let histogram = Histogram::default();
        [1_000_000, 1_000_001, 3_000_000].into_iter().for_each(|interval| histogram.count(interval));
        let counts: Vec<_> = histogram.buckets().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 1]);
        histogram.clear();
        assert_eq!(histogram.buckets().count(), 0);
    }
}
