//! A rate limit on broadcast, group and unknown-destination frames. A loop or a faulty machine on
//! one site must not fill the links of all others.

/// The longest saving for a burst, in nanoseconds.
const SAVINGS: u64 = 100_000_000;
/// The smallest burst, in frames.
const LEAST: u64 = 64;

/// A token bucket.
#[derive(Debug, Clone)]
pub struct Bound {
    /// Nanoseconds per frame. 0: no limit.
    cost: u64,
    most: u64,
    saved: u64,
    at: u64,
}

impl Bound {
    /// A limit of `rate` frames a second. 0: no limit.
    #[must_use]
    pub fn new(rate: u32, now: u64) -> Self {
        let cost = if rate == 0 { 0 } else { 1_000_000_000 / u64::from(rate) };
        let most = SAVINGS.max(cost * LEAST);
        Self { cost, most, saved: most, at: now }
    }

    /// Whether a frame may pass at `now`.
    #[inline]
    pub fn passes(&mut self, now: u64) -> bool {
        if self.cost == 0 {
            return true;
        }
        self.saved = (self.saved + now.saturating_sub(self.at)).min(self.most);
        self.at = now;
        let passes = self.saved >= self.cost;
        if passes {
            self.saved -= self.cost;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storm_is_limited() {
        let mut bound = Bound::new(1000, 0);
        let storm = (0..1_000_000u64).filter(|i| bound.passes(i * 1000)).count();
        assert!((1000..=1101).contains(&storm), "{storm} in a second");
        let mut bound = Bound::new(1000, 0);
        assert!((0..5000u64).all(|i| bound.passes(i * 1_000_000)));
        let mut open = Bound::new(0, 0);
        assert!((0..100_000).all(|_| open.passes(0)));
    }
}
