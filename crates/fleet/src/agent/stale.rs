//! An old document that NATS shows: an attack, or a server that was down and follows the others late.
//!
//! The second passes by itself. So the agent asks again, at longer and longer intervals, and takes its
//! refusal back when the document in force is shown.

use std::time::Duration;

use tokio::time::Instant;

/// The first interval.
const FIRST: Duration = Duration::from_secs(2);
/// The longest one.
const LONGEST: Duration = Duration::from_secs(60);

/// What is remembered while an old document is shown.
#[derive(Debug, Default)]
pub(super) struct Stale {
    shown: Option<Shown>,
}

#[derive(Debug)]
struct Shown {
    /// What was refused before.
    before: String,
    pause: Duration,
    next: Instant,
}

impl Stale {
    /// An old one is shown. `refused` is what was refused before it.
    pub(super) fn shown(&mut self, refused: &str) {
        let now = Instant::now();
        let shown =
            self.shown.get_or_insert_with(|| Shown { before: refused.to_owned(), pause: FIRST, next: now });
        if shown.next <= now {
            shown.next = now + shown.pause;
            shown.pause = (shown.pause * 2).min(LONGEST);
        }
    }

    /// Whether it is time to ask again.
    pub(super) fn asks(&self) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.next <= Instant::now())
    }

    /// The document in force is shown again, or another one came. What was refused before, if an old one
    /// was shown since.
    pub(super) fn passed(&mut self) -> Option<String> {
        self.shown.take().map(|shown| shown.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn old_document_is_asked_for_again_and_forgotten() {
        let mut stale = Stale::default();
        assert!(!stale.asks() && stale.passed().is_none());
        stale.shown("settings 3: a fault");
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let begin = Instant::now();
            while !stale.asks() {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            pauses.push(begin.elapsed().as_secs());
            stale.shown("it has version 2");
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60, 60]);
        // One that is heard between does not make the questions rarer.
        let next = stale.shown.as_ref().map(|shown| (shown.next, shown.pause));
        stale.shown("it has version 2");
        assert_eq!(stale.shown.as_ref().map(|shown| (shown.next, shown.pause)), next);
        assert_eq!(stale.passed().as_deref(), Some("settings 3: a fault"));
        assert!(!stale.asks() && stale.passed().is_none());
    }
}
