//! Questions for the document after a connection.
//!
//! A server that has just come back shows an older document for a while, and one that has just lost a
//! neighbour does not pass what is published there. So the agent asks at once, and again at growing
//! intervals, as if it had missed something.

use std::time::Duration;

use tokio::time::Instant;

/// The first interval.
const FIRST: Duration = Duration::from_secs(2);
/// Each interval is so many times the one before.
const GROWTH: u32 = 3;
/// Intervals after a connection: the last one is of 162 s.
const QUESTIONS: u32 = 5;

/// The questions that are left.
#[derive(Debug, Default)]
pub(super) struct Ask {
    next: Option<Instant>,
    answered: u32,
}

impl Ask {
    /// The connection was made anew.
    pub(super) fn connected(&mut self) {
        *self = Self { next: Some(Instant::now()), answered: 0 };
    }

    /// Whether it is time to ask.
    pub(super) fn is_due(&self) -> bool {
        self.next.is_some_and(|next| next <= Instant::now())
    }

    /// NATS has answered. Without an answer the question stays due.
    pub(super) fn answered(&mut self) {
        if self.is_due() {
            let pause = FIRST * GROWTH.saturating_pow(self.answered);
            self.next = (self.answered < QUESTIONS).then(|| Instant::now() + pause);
            self.answered += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn questions_become_rarer_and_end() {
        let mut ask = Ask::default();
        assert!(!ask.is_due());
        for _ in 0..2 {
            ask.connected();
            assert!(ask.is_due());
            ask.answered();
            let mut pauses = Vec::new();
            let mut begin = Instant::now();
            for _ in 0..1000 {
                tokio::time::advance(Duration::from_secs(1)).await;
                if ask.is_due() {
                    pauses.push(begin.elapsed().as_secs());
                    begin = Instant::now();
                    ask.answered();
                    // One that was asked for another reason changes nothing.
                    ask.answered();
                }
            }
            assert_eq!(pauses, [2, 6, 18, 54, 162]);
        }
    }
}
