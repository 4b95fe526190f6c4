//! Predicts the length of the next packets from the past ones, to avoid preparing more than they
//! need.
//!
//! Frames in a plant have few lengths, most of them short. The prediction is the longest of the
//! last 64 to 128 frames. A longer frame takes the ordinary path, and the next ones are prepared
//! for its length.

/// Frames in a window. Frames before the last full window do not count.
const WINDOW: u8 = 64;
/// Octets prepared in one step: the granularity of the prediction.
const STEP: u32 = 64;

/// A prediction of the length of user data. In 32-bit words, so that a frame's hot fields fit one
/// cache line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths {
    /// The prediction: a multiple of [`STEP`].
    reach: u32,
    longest: u32,
    longest_before: u32,
    /// Upper bound of the prediction.
    most: u32,
    seen: u8,
}

impl Lengths {
    /// A prediction of `most` octets until the first frame is seen.
    pub(crate) const fn new(most: usize) -> Self {
        let most = most as u32;
        Self { reach: most, longest: 0, longest_before: most, seen: 0, most }
    }

    /// Records a frame with `octets` of user data. Returns the new prediction if it has changed.
    #[inline(always)]
    pub(crate) fn saw(&mut self, octets: usize) -> Option<usize> {
        let octets = octets as u32;
        self.longest = self.longest.max(octets);
        self.seen += 1;
        let window_ends = self.seen == WINDOW;
        if !window_ends && octets <= self.reach { None } else { self.predict(window_ends) }
    }

    /// The prediction: a multiple of 64, or the upper bound.
    pub(crate) const fn reach(&self) -> usize {
        self.reach as usize
    }

    /// The longest of the last frames.
    pub(crate) fn longest(&self) -> usize {
        self.longest.max(self.longest_before) as usize
    }

    /// Out of line: few frames need it.
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
    fn short_frames_shorten_the_prediction() {
        let mut lengths = Lengths::new(MOST);
        assert_eq!(after(&mut lengths, 50, 64), MOST);
        assert_eq!(after(&mut lengths, 50, 64), 64);
    }

    #[test]
    fn longer_frame_lengthens_prediction() {
        let mut lengths = Lengths::new(MOST);
        after(&mut lengths, 50, 128);
        assert_eq!(lengths.saw(1500), Some(1536));
        assert_eq!(after(&mut lengths, 50, 63), 1536);
        assert_eq!(after(&mut lengths, 50, 64), 1536, "it was in the last window");
        assert_eq!(after(&mut lengths, 50, 64), 64);
    }

    #[test]
    fn longest_frames_are_prepared_to_capacity() {
        let mut lengths = Lengths::new(MOST);
        after(&mut lengths, 50, 128);
        assert_eq!(lengths.saw(9000), Some(MOST));
        assert_eq!(lengths.saw(9000), None);
    }
}
