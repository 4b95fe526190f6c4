//! Prediction of payload lengths from past packets (Hiller et al. 2018, section IV-A2).

use core::fmt;

/// Most packets in the context of a prediction.
const CONTEXT: usize = 3;

/// Predicts the lengths of payloads from the last `PAST` of them.
///
/// Industrial traffic repeats itself, often in a rhythm: four short readings, then a long report.
/// Each past packet votes for its own length, and its vote counts more the better the packets
/// before it match the last ones.
///
/// ```
/// use antedate_aead::Predictor;
///
/// let mut predictor = Predictor::<16>::new();
/// for len in [20, 20, 90, 20, 20, 90, 20, 20] {
///     predictor.observe(len);
/// }
/// let mut lengths = [0; 2];
/// assert_eq!(predictor.likely(&mut lengths), 2);
/// assert_eq!(lengths, [90, 20]); // the likeliest first
/// assert_eq!(predictor.longest(), 90);
/// ```
#[derive(Clone)]
pub struct Predictor<const PAST: usize> {
    /// A ring; `next` is the index of the next packet.
    past: [usize; PAST],
    next: usize,
    count: usize,
}

impl<const PAST: usize> Predictor<PAST> {
    /// A predictor without past packets.
    pub const fn new() -> Self {
        const { assert!(PAST > 0, "there is no prediction without a past") };
        Self { past: [0; PAST], next: 0, count: 0 }
    }

    /// Records a packet with `len` bytes of payload.
    pub const fn observe(&mut self, len: usize) {
        self.past[self.next] = len;
        self.next = if self.next + 1 == PAST { 0 } else { self.next + 1 };
        if self.count < PAST {
            self.count += 1;
        }
    }

    /// Fills `lengths` with the likeliest lengths of the next packet, the likeliest first, and
    /// returns their number. The lengths differ from each other.
    pub fn likely(&self, lengths: &mut [usize]) -> usize {
        let mut found = 0;
        while found < lengths.len() {
            let mut best: Option<(u32, usize)> = None;
            for ago in 1..=self.count {
                let candidate = self.ago(ago);
                if lengths[..found].contains(&candidate) {
                    continue;
                }
                let votes = self.votes(candidate);
                // Of equal lengths, the more recent one comes first.
                if best.is_none_or(|(most, _)| votes > most) {
                    best = Some((votes, candidate));
                }
            }
            let Some((_, length)) = best else { break };
            lengths[found] = length;
            found += 1;
        }
        found
    }

    /// The longest past payload, for [`SealPool::set_reach`](crate::SealPool::set_reach). 0 without
    /// past packets.
    pub fn longest(&self) -> usize {
        (1..=self.count).map(|ago| self.ago(ago)).max().unwrap_or(0)
    }

    /// Votes for a length: one for each of its packets, and eight more for each packet before it
    /// that matches the present context.
    fn votes(&self, length: usize) -> u32 {
        (1..=self.count)
            .filter(|&ago| self.ago(ago) == length)
            .map(|ago| {
                let known =
                    (1..=CONTEXT.min(self.count - ago)).take_while(|&i| self.ago(ago + i) == self.ago(i));
                1 << (3 * known.count())
            })
            .sum()
    }

    /// The length of the packet `ago` packets ago, 1 for the last one.
    const fn ago(&self, ago: usize) -> usize {
        self.past[(self.next + PAST - ago) % PAST]
    }
}

impl<const PAST: usize> Default for Predictor<PAST> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const PAST: usize> fmt::Debug for Predictor<PAST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Predictor({} of {PAST} packets seen)", self.count)
    }
}
