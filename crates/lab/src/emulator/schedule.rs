//! When a fault strikes: once in every block of frames, at a place that a seed decides.
//!
//! The same seed strikes the same frames. With one strike per block, no two blocks cause three
//! losses in a row, which a watchdog of three cycles would report.

/// SplitMix64 (Steele, Lea, Flood 2014), to choose frames and bits.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence for each seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // The bias of the remainder does not matter here.
        (self.draw() % bound.max(1) as u64) as usize
    }
}

/// Decides for each frame.
#[derive(Clone, Debug)]
pub struct Schedule {
    random: Random,
    every: usize,
    index: usize,
    strike: usize,
}

impl Schedule {
    /// One strike in every `every` frames.
    #[must_use]
    pub fn new(seed: u64, every: u32) -> Self {
        let mut random = Random::new(seed);
        let every = every.max(1) as usize;
        let strike = random.below(every);
        Self { random, every, index: 0, strike }
    }

    /// Whether the fault strikes the next frame.
    pub fn strikes(&mut self) -> bool {
        let hit = self.index == self.strike;
        self.index += 1;
        if self.index == self.every {
            self.index = 0;
            self.strike = self.random.below(self.every);
        }
        hit
    }

    /// Random numbers for the fault's effect.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strikes(seed: u64, every: u32, frames: usize) -> Vec<usize> {
        let mut schedule = Schedule::new(seed, every);
        (0..frames).filter(|_| schedule.strikes()).collect()
    }

    #[test]
    fn the_same_seed_strikes_the_same_frames() {
        assert_eq!(strikes(7, 50, 5_000), strikes(7, 50, 5_000));
        assert_ne!(strikes(7, 50, 5_000), strikes(8, 50, 5_000));
    }

    #[test]
    fn every_block_is_struck_exactly_once() {
        let mut schedule = Schedule::new(3, 20);
        for block in 0..500 {
            let hits = (0..20).filter(|_| schedule.strikes()).count();
            assert_eq!(hits, 1, "block {block}");
        }
    }

    #[test]
    fn the_places_vary() {
        let places: std::collections::HashSet<usize> =
            strikes(1, 20, 2_000).iter().map(|at| at % 20).collect();
        assert_eq!(places.len(), 20);
    }

    #[test]
    fn one_in_one_strikes_always() {
        let mut schedule = Schedule::new(1, 0);
        assert!((0..10).all(|_| schedule.strikes()));
    }
}
