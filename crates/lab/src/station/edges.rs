//! The toggling bit of hohmann2020, section IV-A. Both sides count its rising edges; losses that
//! are too short for the watchdog show as different counts.

/// Generates the bit.
#[derive(Clone, Debug)]
pub struct Toggler {
    half_period_ns: u64,
    next_ns: Option<u64>,
    level: bool,
    rising: u16,
}

impl Toggler {
    /// A bit that changes every `half_period_ns`, low at first.
    #[must_use]
    pub fn new(half_period_ns: u64) -> Self {
        Self { half_period_ns: half_period_ns.max(1), next_ns: None, level: false, rising: 0 }
    }

    /// The bit at this time, and the rising edges so far. Sampled once per cycle.
    pub fn at(&mut self, now_ns: u64) -> (bool, u16) {
        let next = *self.next_ns.get_or_insert(now_ns + self.half_period_ns);
        if now_ns >= next {
            // At most one change per cycle, so no edge falls between two frames.
            self.level = !self.level;
            self.rising = self.rising.wrapping_add(u16::from(self.level));
            let passed = (now_ns - next) / self.half_period_ns + 1;
            self.next_ns = Some(next + passed * self.half_period_ns);
        }
        (self.level, self.rising)
    }
}

/// Counts the peer's edges and compares them with the announced count.
#[derive(Clone, Debug, Default)]
pub struct EdgeCounter {
    level: Option<bool>,
    first_announced: u16,
    seen: u16,
    announced: u16,
}

impl EdgeCounter {
    /// Takes the bit and the announced count of a valid new frame.
    pub fn observe(&mut self, level: bool, announced: u16) {
        match self.level {
            None => self.first_announced = announced,
            Some(before) => self.seen = self.seen.wrapping_add(u16::from(level && !before)),
        }
        self.level = Some(level);
        self.announced = announced;
    }

    /// Rising edges seen.
    #[must_use]
    pub fn seen(&self) -> u16 {
        self.seen
    }

    /// Rising edges announced by the peer in the same time.
    #[must_use]
    pub fn announced(&self) -> u16 {
        self.announced.wrapping_sub(self.first_announced)
    }

    /// Whether no edge was lost.
    #[must_use]
    pub fn agree(&self) -> bool {
        self.seen() == self.announced()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bit_changes_every_half_period() {
        let mut toggler = Toggler::new(125);
        let levels: Vec<_> = (0..100).map(|cycle| toggler.at(1_000 + cycle * 4)).collect();
        assert!(!levels[31].0);
        assert!(levels[32].0, "128 is the first multiple of 4 at or after 125");
        assert_eq!(levels[99].1, 2, "396 units: rising at 125 and 375");
    }

    #[test]
    fn counters_agree_when_no_edge_is_lost() {
        let mut toggler = Toggler::new(125);
        let mut counter = EdgeCounter::default();
        for cycle in 0..1_000 {
            let (level, rising) = toggler.at(cycle * 4);
            // Every second frame is lost, but no edge.
            if cycle % 2 == 0 {
                counter.observe(level, rising);
            }
        }
        assert!(counter.agree() && counter.seen() == 16, "{counter:?}");
    }

    #[test]
    fn lost_pulse_makes_counters_diverge() {
        let mut toggler = Toggler::new(125);
        let mut counter = EdgeCounter::default();
        for cycle in 0..1_000 {
            let (level, rising) = toggler.at(cycle * 4);
            if !(25..95).contains(&cycle) {
                counter.observe(level, rising);
            }
        }
        assert!(!counter.agree());
    }

    #[test]
    fn joining_late_is_no_divergence() {
        let mut counter = EdgeCounter::default();
        counter.observe(true, 40);
        counter.observe(false, 40);
        counter.observe(true, 41);
        assert!(counter.agree() && counter.seen() == 1);
    }
}
