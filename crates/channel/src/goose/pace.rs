//! The times of a publisher's messages (IEC 61850-8-1, 18.1.2.5): an event is repeated after the
//! shortest time, then after twice as long each time, until the longest.

/// The times of the messages of one control block, in milliseconds of any clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pace {
    min: u32,
    max: u32,
    /// Until the next message.
    interval: u32,
    due: Option<u64>,
}

impl Pace {
    /// A pace before the first event. `max` is at least `min`, and both at least 1 ms.
    #[must_use]
    pub const fn new(min: u32, max: u32) -> Self {
        let min = if min == 0 { 1 } else { min };
        let max = if max < min { min } else { max };
        Self { min, max, interval: min, due: None }
    }

    /// An event is published at `now`. Returns `timeAllowedToLive` of its message.
    pub const fn event(&mut self, now: u64) -> u32 {
        self.interval = self.min;
        self.due = Some(now + self.interval as u64);
        self.lifetime()
    }

    /// The event is repeated at `now`. Returns `timeAllowedToLive` of the message.
    pub const fn repeat(&mut self, now: u64) -> u32 {
        let doubled = self.interval.saturating_mul(2);
        self.interval = if doubled > self.max { self.max } else { doubled };
        self.due = Some(now + self.interval as u64);
        self.lifetime()
    }

    /// When the next repetition is due. `None` before the first event.
    #[must_use]
    pub const fn due(&self) -> Option<u64> {
        self.due
    }

    /// Twice the time to the next message, so that one that is lost does not end the state, and not
    /// less than a network and a busy machine need.
    const fn lifetime(&self) -> u32 {
        let twice = self.interval.saturating_mul(2);
        if twice < 10 { 10 } else { twice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn interval_doubles_up_to_the_longest() {
        let mut pace = Pace::new(20, 100);
        assert_eq!(pace.due(), None);
        let mut lifetimes = Vec::from([pace.event(1000)]);
        let mut times = Vec::new();
        for _ in 0..5 {
            let now = pace.due().expect("after an event");
            times.push(now);
            lifetimes.push(pace.repeat(now));
        }
        assert_eq!(times, [1020, 1060, 1140, 1240, 1340]);
        assert_eq!(lifetimes, [40, 80, 160, 200, 200, 200]);
        assert_eq!((pace.event(1350), pace.due()), (40, Some(1370)), "an event begins again");
    }

    #[test]
    fn wrong_times_are_mended() {
        let mut pace = Pace::new(0, 0);
        assert_eq!((pace.event(5), pace.due()), (10, Some(6)));
        assert_eq!((pace.repeat(6), pace.due()), (10, Some(7)));
        let mut long = Pace::new(u32::MAX, u32::MAX);
        assert_eq!(long.event(0), u32::MAX);
        assert_eq!(long.repeat(1), u32::MAX);
    }
}
