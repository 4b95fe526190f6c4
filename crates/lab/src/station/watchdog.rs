//! The consumer's watchdog (IEC 61158-5-10: data hold time): three update times without valid data
//! are a bus error.
//!
//! A real device then drops the connection and the controller sets up a new one. Here the next
//! valid frame ends the outage, so the path is measured and not a connection set-up.

/// Supervises the arrival of valid frames. All times are nanoseconds of one clock.
#[derive(Clone, Debug)]
pub struct Watchdog {
    timeout_ns: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No frame yet, or the peer announced its stop: silence is no fault.
    Idle,
    Running {
        last_ns: u64,
    },
    Expired {
        last_ns: u64,
    },
}

/// An event by a frame or by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Three update times without valid data. `silent_since_ns`: the last valid frame.
    BusError {
        /// Arrival of the last valid frame.
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

    /// Takes a valid frame. After the time-out it is a bus error and its recovery at once, even if
    /// [`Watchdog::expire`] was not called in time.
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

    /// Takes the time without a valid frame.
    pub fn expire(&mut self, now_ns: u64) -> Option<Event> {
        match self.state {
            State::Running { last_ns } if now_ns.saturating_sub(last_ns) > self.timeout_ns => {
                self.state = State::Expired { last_ns };
                Some(Event::BusError { silent_since_ns: last_ns })
            }
            _ => None,
        }
    }

    /// The peer announced its stop.
    pub fn stop(&mut self) {
        self.state = State::Idle;
    }

    /// Time of the next call to [`Watchdog::expire`]; `None` while idle.
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
    fn initial_silence_is_no_bus_error() {
        let mut watchdog = Watchdog::new(12);
        assert_eq!(watchdog.expire(1_000), None);
        assert_eq!(watchdog.deadline_ns(), None);
    }

    #[test]
    fn frame_at_timeout_is_in_time() {
        let mut watchdog = Watchdog::new(12);
        watchdog.feed(100);
        assert_eq!(watchdog.expire(112), None);
        assert_eq!(watchdog.feed(112), (None, None));
    }

    #[test]
    fn silence_is_one_bus_error() {
        let mut watchdog = Watchdog::new(12);
        watchdog.feed(100);
        assert_eq!(watchdog.deadline_ns(), Some(113));
        assert_eq!(watchdog.expire(113), Some(Event::BusError { silent_since_ns: 100 }));
        assert_eq!(watchdog.expire(500), None);
        assert_eq!(watchdog.feed(600), (None, Some(Event::Recovered { outage_ns: 500 })));
        assert_eq!(watchdog.feed(604), (None, None));
    }

    #[test]
    fn late_frame_counts_without_expire() {
        let mut watchdog = Watchdog::new(12);
        watchdog.feed(100);
        assert_eq!(
            watchdog.feed(113),
            (Some(Event::BusError { silent_since_ns: 100 }), Some(Event::Recovered { outage_ns: 13 }))
        );
    }

    #[test]
    fn announced_stop_is_no_bus_error() {
        let mut watchdog = Watchdog::new(12);
        watchdog.feed(100);
        watchdog.stop();
        assert_eq!(watchdog.expire(1_000), None);
    }
}
