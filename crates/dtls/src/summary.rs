//! Log lines that strangers can cause: the first at once, and then a summary each minute.

use std::collections::HashMap;

/// Milliseconds between two lines of one text.
const PERIOD_MS: u64 = 60_000;
/// The most texts.
const MAX_TEXTS: usize = 64;

/// Counts what was not said.
#[derive(Debug, Default)]
pub(crate) struct Summaries {
    /// The time of the last line, and the events since.
    texts: HashMap<String, (u64, u64)>,
}

impl Summaries {
    /// Counts an event. Returns the number of events that a line speaks for, if one is due: this one
    /// and those since the last line.
    pub(crate) fn note(&mut self, text: &str, now: u64) -> Option<u64> {
        if let Some((said, since)) = self.texts.get_mut(text) {
            *since += 1;
            if now.saturating_sub(*said) < PERIOD_MS {
                return None;
            }
            *said = now;
            return Some(std::mem::take(since));
        }
        if self.texts.len() >= MAX_TEXTS {
            return None;
        }
        self.texts.insert(text.to_owned(), (now, 0));
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_a_line_a_minute() {
        let mut summaries = Summaries::default();
        let lines: Vec<u64> = (0..180_000).filter_map(|ms| summaries.note("refused", ms)).collect();
        assert_eq!(lines, [1, 60_000, 60_000]);
        assert_eq!(summaries.note("another", 180_000), Some(1));
        for text in 0..1000 {
            summaries.note(&text.to_string(), 0);
        }
        assert!(summaries.texts.len() <= MAX_TEXTS);
    }
}
