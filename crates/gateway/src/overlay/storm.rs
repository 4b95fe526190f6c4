//! A bound on frames that go to everybody: broadcast, groups, and addresses that nobody knows. A loop or a broken machine on one
//! site must not fill the links of all others.

/// So long a burst may be saved up for, in nanoseconds.
const SAVINGS: u64 = 100_000_000;
/// Frames that a burst may have at least.
const LEAST: u64 = 64;

/// Lets so many frames pass a second.
#[derive(Debug, Clone)]
pub struct Bound {
    /// Nanoseconds that a frame costs; 0: nothing.
    cost: u64,
    most: u64,
    saved: u64,
    at: u64,
}

impl Bound {
    /// `rate` frames a second; 0: as many as come.
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
    fn a_storm_is_bounded_and_what_is_usual_passes() {
        let mut bound = Bound::new(1000, 0);
        let storm = (0..1_000_000u64).filter(|i| bound.passes(i * 1000)).count();
        assert!((1000..=1101).contains(&storm), "{storm} in a second");
        let mut bound = Bound::new(1000, 0);
        assert!((0..5000u64).all(|i| bound.passes(i * 1_000_000)));
        let mut open = Bound::new(0, 0);
        assert!((0..100_000).all(|_| open.passes(0)));
    }
}
