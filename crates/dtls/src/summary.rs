//! Log lines that strangers can cause: the first at once, and then a summary each minute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Milliseconds between two lines of one text.
const PERIOD_MS: u64 = 60_000;
/// The most texts.
const MAX_TEXTS: usize = 64;

/// Counts what was not said, for all threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Summaries {
    /// The time of the last line, and the events since.
    texts: Arc<Mutex<HashMap<String, (u64, u64)>>>,
}

impl Summaries {
    /// Counts an event. Returns the number of events that a line speaks for, if one is due: this one
    /// and those since the last line.
    pub(crate) fn note(&self, text: &str, now: u64) -> Option<u64> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((said, since)) = texts.get_mut(text) {
            *since += 1;
            if now.saturating_sub(*said) < PERIOD_MS {
                return None;
            }
            *said = now;
            return Some(std::mem::take(since));
        }
        if texts.len() >= MAX_TEXTS {
            return None;
        }
        texts.insert(text.to_owned(), (now, 0));
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_a_line_a_minute() {
        let summaries = Summaries::default();
        let lines: Vec<u64> = (0..180_000).filter_map(|ms| summaries.note("refused", ms)).collect();
        assert_eq!(lines, [1, 60_000, 60_000]);
        assert_eq!(summaries.note("another", 180_000), Some(1));
        for text in 0..1000 {
            summaries.note(&text.to_string(), 0);
        }
        assert!(summaries.texts.lock().unwrap().len() <= MAX_TEXTS);
    }
}
