//! The next deadline of each session.

use std::collections::{BTreeSet, HashMap};

/// Times in milliseconds, the earliest first.
///
/// A session's stored time may be earlier than its true deadline, and is never later: a session
/// that hears something often moves its deadline with each datagram, and its entry stays. Who takes
/// an entry computes the true deadline and stores it again.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    order: BTreeSet<(u64, usize)>,
    times: HashMap<usize, u64>,
}

impl Deadlines {
    /// Stores a session's deadline, unless an earlier one is stored.
    pub(crate) fn no_later(&mut self, session: usize, at: u64) {
        let stored = self.times.entry(session).or_insert(u64::MAX);
        if at < *stored {
            self.order.remove(&(*stored, session));
            self.order.insert((at, session));
            *stored = at;
        }
    }

    /// Removes a session.
    pub(crate) fn remove(&mut self, session: usize) {
        if let Some(at) = self.times.remove(&session) {
            self.order.remove(&(at, session));
        }
    }

    /// The earliest time.
    pub(crate) fn next(&self) -> Option<u64> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes the sessions whose time has come.
    pub(crate) fn take_due(&mut self, now: u64) -> Vec<usize> {
        let later = self.order.split_off(&(now.saturating_add(1), 0));
        let due = std::mem::replace(&mut self.order, later);
        due.into_iter()
            .map(|(_, session)| {
                self.times.remove(&session);
                session
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_session_is_due_first() {
        let mut deadlines = Deadlines::default();
        deadlines.no_later(2, 50);
        deadlines.no_later(3, 40);
        deadlines.no_later(4, 60);
        // A later time does not replace an earlier one; an earlier one does.
        deadlines.no_later(3, 70);
        deadlines.no_later(4, 45);
        assert_eq!(deadlines.next(), Some(40));
        assert_eq!(deadlines.take_due(39), [0; 0]);
        assert_eq!(deadlines.take_due(45), [3, 4]);
        deadlines.no_later(3, 70);
        deadlines.remove(2);
        assert_eq!(deadlines.next(), Some(70));
        assert_eq!(deadlines.take_due(70), [3]);
        assert_eq!(deadlines.next(), None);
        assert!(deadlines.times.is_empty());
    }
}
