//! How long the next packets will be, told from the past ones, so that no more is prepared than they need.
//!
//! Frames of a plant come in few lengths, most of them short. The prediction is the longest of the last 64 to 128
//! frames: a longer one that comes meanwhile goes the ordinary way, and the next ones are prepared for its length.

/// Frames after which what came before the last window is forgotten.
const WINDOW: u8 = 64;
/// What is prepared in one step, and so the grain of the prediction.
const STEP: u32 = 64;

/// A prediction of the length of user data. In words of 32 bits, which leaves what a frame needs in one line of the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths {
    /// The prediction: a multiple of [`STEP`].
    reach: u32,
    longest: u32,
    longest_before: u32,
    /// No more is ever prepared.
    most: u32,
    seen: u8,
}

impl Lengths {
    /// Before the first frame anything is expected, up to `most` octets.
    pub(crate) const fn new(most: usize) -> Self {
        let most = most as u32;
        Self { reach: most, longest: 0, longest_before: most, seen: 0, most }
    }

    /// Takes note of a frame with `octets` of user data. Gives the new prediction if it has changed.
    #[inline(always)]
    pub(crate) fn saw(&mut self, octets: usize) -> Option<usize> {
        let octets = octets as u32;
        self.longest = self.longest.max(octets);
        self.seen += 1;
        let window_ends = self.seen == WINDOW;
        if !window_ends && octets <= self.reach { None } else { self.predict(window_ends) }
    }

    /// The prediction: a multiple of 64, or all there may be.
    pub(crate) const fn reach(&self) -> usize {
        self.reach as usize
    }

    /// The longest of the last frames.
    pub(crate) fn longest(&self) -> usize {
        self.longest.max(self.longest_before) as usize
    }

    /// Apart, for few frames need it.
    #[cold]
    #[inline(never)]
    fn predict(&mut self, window_ends: bool) -> Option<usize> {
        let longest = self.longest.max(self.longest_before);
        if window_ends {
            (self.longest_before, self.longest, self.seen) = (self.longest, 0, 0);
        }
        let reach = longest.min(self.most).next_multiple_of(STEP).min(self.most);
        if reach == self.reach {
            return None;
        }
        self.reach = reach;
        Some(reach as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1664;

    fn after(lengths: &mut Lengths, octets: usize, frames: usize) -> usize {
        for _ in 0..frames {
            lengths.saw(octets);
        }
        lengths.reach()
    }

    #[test]
    fn short_frames_shorten_the_prediction_after_two_windows() {
        let mut lengths = Lengths::new(MOST);
        assert_eq!(after(&mut lengths, 50, 64), MOST);
        assert_eq!(after(&mut lengths, 50, 64), 64);
    }

    #[test]
    fn a_longer_frame_lengthens_it_at_once_and_is_forgotten_later() {
        let mut lengths = Lengths::new(MOST);
        after(&mut lengths, 50, 128);
        assert_eq!(lengths.saw(1500), Some(1536));
        assert_eq!(after(&mut lengths, 50, 63), 1536);
        assert_eq!(after(&mut lengths, 50, 64), 1536, "it was in the last window");
        assert_eq!(after(&mut lengths, 50, 64), 64);
    }

    #[test]
    fn the_longest_frames_are_prepared_as_far_as_slots_go() {
        let mut lengths = Lengths::new(MOST);
        after(&mut lengths, 50, 128);
        assert_eq!(lengths.saw(9000), Some(MOST));
        assert_eq!(lengths.saw(9000), None);
    }
}
