//! The consumer's watchdog (IEC 61158-5-10: data hold time): three update times without valid data are a bus error.
//!
//! A real device gives up the connection then and the controller makes it anew; here the next valid frame ends
//! the outage, so that what is measured is the path and not a connection set-up.

/// Watches over the arrival of valid frames. Times are nanoseconds of one clock.
#[derive(Clone, Debug)]
pub struct Watchdog {
    timeout_ns: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No frame yet, or the peer said it stops: silence is no fault.
    Idle,
    Running {
        last_ns: u64,
    },
    Expired {
        last_ns: u64,
    },
}

/// What a frame or the time brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Three update times without valid data. `silent_since_ns`: the last valid frame.
    BusError {
        /// When the last valid frame had come.
        silent_since_ns: u64,
    },
    /// Valid data again after a bus error.
    Recovered {
        /// From the last valid frame to this one.
        outage_ns: u64,
    },
}

impl Watchdog {
    /// A watchdog that expires `timeout_ns` after the last valid frame.
    #[must_use]
    pub fn new(timeout_ns: u64) -> Self {
        Self { timeout_ns, state: State::Idle }
    }

    /// A valid frame came. A frame that comes after the time-out is a bus error and its recovery at once, whether
    /// or not [`Watchdog::expire`] had the time to notice.
    pub fn feed(&mut self, now_ns: u64) -> (Option<Event>, Option<Event>) {
        let before = std::mem::replace(&mut self.state, State::Running { last_ns: now_ns });
        match before {
            State::Idle => (None, None),
            State::Running { last_ns } if now_ns.saturating_sub(last_ns) <= self.timeout_ns => (None, None),
            State::Running { last_ns } => (
                Some(Event::BusError { silent_since_ns: last_ns }),
                Some(Event::Recovered { outage_ns: now_ns - last_ns }),
            ),
            State::Expired { last_ns } => {
                (None, Some(Event::Recovered { outage_ns: now_ns.saturating_sub(last_ns) }))
            }
        }
    }

    /// Time has passed without a valid frame.
    pub fn expire(&mut self, now_ns: u64) -> Option<Event> {
        match self.state {
            State::Running { last_ns } if now_ns.saturating_sub(last_ns) > self.timeout_ns => {
                self.state = State::Expired { last_ns };
                Some(Event::BusError { silent_since_ns: last_ns })
            }
            _ => None,
        }
    }

    /// The peer said that it stops.
    pub fn stop(&mut self) {
        self.state = State::Idle;
    }

    /// When [`Watchdog::expire`] should be called next; `None` while nothing is watched.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        match self.state {
            State::Running { last_ns } => Some(last_ns + self.timeout_ns + 1),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_before_the_first_frame_is_no_bus_error() {
        let mut watchdog = Watchdog::new(12);
        assert_eq!(watchdog.expire(1_000), None);
        assert_eq!(watchdog.deadline_ns(), None);
    }

    #[test]
    fn a_frame_exactly_at_the_timeout_still_counts() {
        let mut watchdog = Watchdog::new(12);
        watchdog.feed(100);
        assert_eq!(watchdog.expire(112), None);
        assert_eq!(watchdog.feed(112), (None, None));
    }

    #[test]
    fn silence_is_one_bus_error_however_long_it_lasts() {
        let mut watchdog = Watchdog::new(12);
        watchdog.feed(100);
        assert_eq!(watchdog.deadline_ns(), Some(113));
        assert_eq!(watchdog.expire(113), Some(Event::BusError { silent_since_ns: 100 }));
        assert_eq!(watchdog.expire(500), None);
        assert_eq!(watchdog.feed(600), (None, Some(Event::Recovered { outage_ns: 500 })));
        assert_eq!(watchdog.feed(604), (None, None));
    }

    #[test]
    fn a_late_frame_counts_even_if_nobody_looked_in_between() {
        let mut watchdog = Watchdog::new(12);
        watchdog.feed(100);
        assert_eq!(
            watchdog.feed(113),
            (Some(Event::BusError { silent_since_ns: 100 }), Some(Event::Recovered { outage_ns: 13 }))
        );
    }

    #[test]
    fn a_peer_that_says_goodbye_is_no_bus_error() {
        let mut watchdog = Watchdog::new(12);
        watchdog.feed(100);
        watchdog.stop();
        assert_eq!(watchdog.expire(1_000), None);
    }
}
