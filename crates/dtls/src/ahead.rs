//! Which sessions have memory for several prepared records: those that speak.
//!
//! It is 26 KiB a session, and 10 KiB of expanded keys: too much for thousands of devices that report
//! once in a while. A session that speaks takes the place of one that has been quiet. While none is,
//! it rests: its keys are expanded for each record.

use std::collections::HashMap;

use antedate_channel::dtls::Settings;

use crate::Options;

/// The most sessions with large places, of all threads: 9 MiB.
const MOST: usize = 256;
/// Milliseconds without a datagram after which a session loses its place to another.
const QUIET_MS: u64 = 2000;

/// The options, with sessions that rest to begin with.
pub(crate) fn small(options: &Options) -> Options {
    let settings = Settings { large: false, ..options.settings.clone() };
    Options { settings, ..options.clone() }
}

/// The last datagram of each session with a large place.
#[derive(Debug)]
pub(crate) struct Ahead {
    most: usize,
    spoke: HashMap<usize, u64>,
    /// No session is quiet before this time.
    quiet_at: u64,
}

/// A session that gets a large place, and one that loses it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) gets: usize,
    pub(crate) loses: Option<usize>,
}

impl Ahead {
    /// The share of one of so many threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self { most: (MOST / threads.max(1)).max(1), spoke: HashMap::new(), quiet_at: 0 }
    }

    /// Notes a datagram of a session.
    pub(crate) fn speaks(&mut self, session: usize, now: u64) -> Option<Change> {
        if let Some(spoke) = self.spoke.get_mut(&session) {
            *spoke = now;
            return None;
        }
        let mut loses = None;
        if self.spoke.len() >= self.most {
            if now < self.quiet_at {
                return None;
            }
            let (oldest, spoke) = self.spoke.iter().min_by_key(|(_, spoke)| **spoke)?;
            (loses, self.quiet_at) = (Some(*oldest), spoke.saturating_add(QUIET_MS));
            if now < self.quiet_at {
                return None;
            }
            self.spoke.remove(&loses?);
        }
        self.spoke.insert(session, now);
        Some(Change { gets: session, loses })
    }

    /// Notes that a session has ended.
    pub(crate) fn remove(&mut self, session: usize) {
        self.spoke.remove(&session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_session_gives_its_place() {
        let mut ahead = Ahead::new(1);
        for session in 0..MOST {
            let change = ahead.speaks(session, session as u64);
            assert_eq!(change, Some(Change { gets: session, loses: None }));
        }
        assert_eq!(ahead.speaks(7, 1000), None, "it has one");
        assert_eq!(ahead.speaks(MOST, QUIET_MS - 1), None, "nobody is quiet");
        let change = ahead.speaks(MOST, QUIET_MS);
        assert_eq!(change, Some(Change { gets: MOST, loses: Some(0) }));
        assert_eq!(ahead.speaks(0, QUIET_MS), None);
        assert_eq!(ahead.speaks(0, QUIET_MS + 1), Some(Change { gets: 0, loses: Some(1) }));
        ahead.remove(5);
        let change = ahead.speaks(1, QUIET_MS + 1);
        assert_eq!(change, Some(Change { gets: 1, loses: None }));
        assert_eq!(ahead.spoke.len(), MOST);
    }
}
