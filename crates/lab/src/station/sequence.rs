//! Separates late, lost, duplicated and reordered frames by their sequence numbers.

/// Number of frames back that are recognised.
const WINDOW: u32 = 1024;

/// Remembers which of the last 1024 sequence numbers arrived.
#[derive(Clone, Debug)]
pub struct SequenceTracker {
    highest: Option<u32>,
    seen: [u64; (WINDOW / 64) as usize],
    lost: u64,
}

/// Relation of a frame to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The newest so far; `skipped` numbers are missing before it.
    Newest {
        /// Frames in between that have not come (yet).
        skipped: u32,
    },
    /// Older than the newest, for the first time.
    Reordered,
    /// For the second time.
    Duplicate,
    /// Older than the window; first and second time are indistinguishable.
    Ancient,
}

impl Default for SequenceTracker {
    fn default() -> Self {
        Self { highest: None, seen: [0; (WINDOW / 64) as usize], lost: 0 }
    }
}

impl SequenceTracker {
    /// Takes the next frame's number.
    pub fn accept(&mut self, sequence: u32) -> Arrival {
        let Some(highest) = self.highest else {
            // Numbers before the first one precede the measurement and are not lost.
            self.seen = [!0; (WINDOW / 64) as usize];
            self.highest = Some(sequence);
            return Arrival::Newest { skipped: 0 };
        };
        let ahead = sequence.wrapping_sub(highest);
        if ahead == 0 {
            return Arrival::Duplicate;
        }
        if ahead < 1 << 31 {
            self.advance(highest, ahead);
            self.highest = Some(sequence);
            return Arrival::Newest { skipped: ahead - 1 };
        }
        if highest.wrapping_sub(sequence) >= WINDOW {
            return Arrival::Ancient;
        }
        let (word, bit) = slot(sequence);
        if self.seen[word] & bit != 0 {
            return Arrival::Duplicate;
        }
        self.seen[word] |= bit;
        Arrival::Reordered
    }

    /// Lost frames: those that left the window unseen, and those missing in it.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost + self.seen.iter().map(|word| u64::from(word.count_zeros())).sum::<u64>()
    }

    fn advance(&mut self, highest: u32, ahead: u32) {
        if ahead > WINDOW {
            // The whole window passes, and further numbers were skipped.
            self.lost += self.seen.iter().map(|word| u64::from(word.count_zeros())).sum::<u64>();
            self.lost += u64::from(ahead - WINDOW);
            self.seen = [0; (WINDOW / 64) as usize];
        } else {
            for step in 1..=ahead {
                let (word, bit) = slot(highest.wrapping_add(step));
                self.lost += u64::from(self.seen[word] & bit == 0);
                self.seen[word] &= !bit;
            }
        }
        let (word, bit) = slot(highest.wrapping_add(ahead));
        self.seen[word] |= bit;
    }
}

fn slot(sequence: u32) -> (usize, u64) {
    let index = sequence % WINDOW;
    ((index / 64) as usize, 1 << (index % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(sequences: &[u32]) -> (Vec<Arrival>, u64) {
        let mut tracker = SequenceTracker::default();
        let arrivals = sequences.iter().map(|&sequence| tracker.accept(sequence)).collect();
        (arrivals, tracker.lost())
    }

    #[test]
    fn frames_in_order_lose_nothing() {
        let (arrivals, lost) = run(&(5..5_000).collect::<Vec<_>>());
        assert!(arrivals.iter().all(|&arrival| arrival == Arrival::Newest { skipped: 0 }));
        assert_eq!(lost, 0);
    }

    #[test]
    fn gap_is_lost_until_frame_arrives() {
        assert_eq!(run(&[1, 2, 5]).1, 2);
        let (arrivals, lost) = run(&[1, 2, 5, 3, 4]);
        assert_eq!(arrivals[2..], [Arrival::Newest { skipped: 2 }, Arrival::Reordered, Arrival::Reordered]);
        assert_eq!(lost, 0);
    }

    #[test]
    fn repeated_number_is_duplicate() {
        let (arrivals, lost) = run(&[1, 2, 2, 3, 1]);
        assert_eq!(arrivals[2], Arrival::Duplicate);
        assert_eq!(arrivals[4], Arrival::Duplicate);
        assert_eq!(lost, 0);
    }

    #[test]
    fn losses_count_once() {
        let sequences: Vec<u32> = (0..10_000).filter(|n| n % 100 != 50).collect();
        assert_eq!(run(&sequences).1, 100);
    }

    #[test]
    fn jump_beyond_window_counts_all() {
        assert_eq!(run(&[0, 1, 5_001]).1, 4_999);
        assert_eq!(run(&[0, 1, 1 + WINDOW]).1, u64::from(WINDOW) - 1);
        assert_eq!(run(&[0, 1, 2 + WINDOW]).1, u64::from(WINDOW));
    }

    #[test]
    fn numbers_wrap() {
        let (arrivals, lost) = run(&[u32::MAX - 1, u32::MAX, 0, 1, u32::MAX]);
        assert_eq!(arrivals[2], Arrival::Newest { skipped: 0 });
        assert_eq!(arrivals[4], Arrival::Duplicate);
        assert_eq!(lost, 0);
    }

    #[test]
    fn number_before_window_is_ancient() {
        let (arrivals, _) = run(&[0, 3_000, 1]);
        assert_eq!(arrivals[2], Arrival::Ancient);
    }
}
