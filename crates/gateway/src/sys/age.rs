//! The age of a received frame, from the kernel's time stamp (`packet(7)`, `tp_sec`;
//! `socket(7)`, `SO_TIMESTAMPNS`).
//!
//! The kernel stamps with the real-time clock, which may be set. Ages are therefore counted on the
//! monotonic clock, with the distance between the two clocks, which is measured again after each
//! pause. While frames wait that may be older than a step of the clock, a frame has the greater of
//! its two possible ages. So a step costs the frames in the ring at most, and no old frame passes.
//!
//! Both clocks stand still while a virtual machine is paused. When its clock is set afterwards, the
//! frames that waited get their true age.
//!
//! A process may be stopped with a frame in its hands, too. So each look at a frame leaves the time
//! from which on that frame must not be sent ([`deadline`]), and the senders look at the clock once
//! more.

use std::cell::Cell;
use std::time::Duration;

use super::thread;

/// The distance of the clocks is measured this often, in nanoseconds, and after each longer pause.
const MEASURED: u64 = 500_000_000;
/// The coarse clock may be this late, in nanoseconds: two ticks of 100 Hz.
const COARSE: i64 = 20_000_000;
/// A measurement that takes longer was interrupted.
const UNINTERRUPTED: u64 = 100_000;
/// Attempts for an uninterrupted measurement.
const TRIES: u32 = 5;

/// The ages from which on frames are not forwarded, in nanoseconds. `i64::MAX`: no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Of all frames.
    all: i64,
    /// Of cyclic frames, at most that of all.
    cyclic: i64,
}

impl Bounds {
    /// No bounds.
    pub const NONE: Self = Self { all: i64::MAX, cyclic: i64::MAX };

    /// Bounds for all frames and for cyclic ones. `None`: no bound.
    #[must_use]
    pub fn new(all: Option<Duration>, cyclic: Option<Duration>) -> Self {
        let nanoseconds = |bound: Option<Duration>| {
            bound.map_or(i64::MAX, |bound| i64::try_from(bound.as_nanos()).unwrap_or(i64::MAX))
        };
        let all = nanoseconds(all);
        Self { all, cyclic: nanoseconds(cyclic).min(all) }
    }

    /// Whether a frame that has been held for this many nanoseconds is stale.
    #[inline]
    #[must_use]
    pub const fn is_stale(&self, held: u64) -> bool {
        held > self.all as u64
    }

    /// Whether a cyclic frame that has been held for this many nanoseconds is stale.
    #[inline]
    #[must_use]
    pub const fn is_stale_cyclic(&self, held: u64) -> bool {
        held > self.cyclic as u64
    }
}

thread_local! {
    /// The time from which on the frame in this thread's hands is too old: nanoseconds of
    /// [`thread::coarse_now`].
    static DEADLINE: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// The time from which on the frame that this thread looked at last must not be sent, in nanoseconds
/// of [`thread::coarse_now`]: the frame reaches the bound of cyclic ones then, or has none.
#[inline]
#[must_use]
pub fn deadline() -> u64 {
    DEADLINE.get()
}

/// Whether this [`deadline`] is over: the process stood still meanwhile.
#[inline]
#[must_use]
pub fn is_over(deadline: u64) -> bool {
    deadline != u64::MAX && thread::coarse_now() > deadline
}

/// Records that this thread has no frame in its hands: what it sends next has no age.
#[inline]
pub fn put_down() {
    DEADLINE.set(u64::MAX);
}

/// The error of a frame that was not sent because its [`deadline`] was over: `ETIMEDOUT`.
pub const OVERDUE: i32 = libc::ETIMEDOUT;

/// The age of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// Below all bounds.
    Fresh,
    /// Above the bound of cyclic frames only.
    Late,
    /// Above the bound of all frames.
    Stale,
}

/// Tells the age of the frames of one queue, in which they wait in the order of arrival.
#[derive(Debug)]
pub struct Ages {
    bounds: Bounds,
    /// The real-time clock less the monotonic one.
    distance: i64,
    /// The greatest distance since the queue was empty.
    greatest: i64,
    /// The time of the next measurement of the distance.
    measure_at: u64,
}

impl Ages {
    /// Ages with these bounds.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let distance = measure().1;
        Self { bounds, distance, greatest: distance, measure_at: 0 }
    }

    /// Changes the bounds.
    pub fn bound(&mut self, bounds: Bounds) {
        if bounds != self.bounds {
            DEADLINE.set(u64::MAX);
            *self = Self::new(bounds);
        }
    }

    /// The age of a frame with this stamp: nanoseconds of the real-time clock.
    #[inline]
    pub fn of(&mut self, stamp: i64) -> Age {
        if self.bounds.cyclic == i64::MAX {
            return Age::Fresh;
        }
        let now = thread::coarse_now();
        let age = now as i64 + self.greatest - stamp;
        // Far from the bound, the coarse clock is good enough.
        if now < self.measure_at && (-COARSE..self.bounds.cyclic - COARSE).contains(&age) {
            DEADLINE.set(now.saturating_add_signed(self.bounds.cyclic - age));
            return Age::Fresh;
        }
        self.exactly(stamp)
    }

    /// Records that no frame waits. The next one arrives after the last step of the clock.
    #[inline]
    pub fn queue_is_empty(&mut self) {
        self.greatest = self.distance;
        DEADLINE.set(u64::MAX);
    }

    #[cold]
    fn exactly(&mut self, stamp: i64) -> Age {
        let (now, distance) = measure();
        self.at(now, distance, stamp)
    }

    fn at(&mut self, now: u64, distance: i64, stamp: i64) -> Age {
        self.measure_at = now + MEASURED;
        self.distance = distance;
        self.greatest = self.greatest.max(distance);
        let age = now as i64 + self.greatest - stamp;
        let Bounds { all, cyclic } = self.bounds;
        let (bound, told) = match age {
            _ if age > all => (i64::MAX, Age::Stale),
            _ if age > cyclic => (all, Age::Late),
            _ => (cyclic, Age::Fresh),
        };
        DEADLINE.set(if bound == i64::MAX { u64::MAX } else { now.saturating_add_signed(bound - age) });
        told
    }
}

/// The monotonic clock, and the distance of the real-time clock from it.
fn measure() -> (u64, i64) {
    let mut tries = 0;
    loop {
        let (before, real, after) = (thread::monotonic_now(), thread::real_now(), thread::monotonic_now());
        tries += 1;
        if after - before < UNINTERRUPTED || tries == TRIES {
            return (after, real as i64 - after as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const S: i64 = 1_000 * MS;

    fn ages() -> Ages {
        let bounds = Bounds::new(Some(Duration::from_secs(1)), Some(Duration::from_millis(100)));
        Ages { bounds, distance: 1_000 * S, greatest: 1_000 * S, measure_at: 0 }
    }

    /// The age of a frame at 50 s of the monotonic clock that arrived `before` that, after a step
    /// of the clock by `step`.
    fn seen(ages: &mut Ages, step: i64, before: i64, stamped_after_the_step: bool) -> Age {
        let distance = 1_000 * S + step;
        let stamped = if stamped_after_the_step { distance } else { 1_000 * S };
        ages.at(50 * S as u64, distance, 50 * S - before + stamped)
    }

    #[test]
    fn bounds_part_fresh_from_stale() {
        for (before, age) in [
            (0, Age::Fresh),
            (100 * MS, Age::Fresh),
            (101 * MS, Age::Late),
            (S, Age::Late),
            (S + MS, Age::Stale),
            (30 * S, Age::Stale),
        ] {
            assert_eq!(seen(&mut ages(), 0, before, false), age, "{before} ns");
        }
    }

    #[test]
    fn no_stale_frame_passes_a_clock_step() {
        for step in [-3600 * S, -29_500 * MS, 29_500 * MS, 3600 * S] {
            for after in [false, true] {
                assert_eq!(seen(&mut ages(), step, 30 * S, after), Age::Stale, "{step} ns");
            }
        }
    }

    #[test]
    fn frames_after_a_clock_step_pass() {
        for step in [-3600 * S, -200 * MS, 200 * MS, 3600 * S] {
            let mut ages = ages();
            let _ = seen(&mut ages, step, MS, false);
            ages.queue_is_empty();
            assert_eq!(seen(&mut ages, step, MS, true), Age::Fresh, "{step} ns");
        }
        assert_eq!(seen(&mut ages(), 3600 * S, MS, true), Age::Fresh, "a step forwards costs no frame");
    }

    #[test]
    fn machine_clock_gives_true_ages() {
        let real = || thread::real_now() as i64;
        let mut ages = Ages::new(ages().bounds);
        assert_eq!(ages.of(real()), Age::Fresh);
        assert_eq!(ages.of(real() - 500 * MS), Age::Late);
        assert_eq!(ages.of(real() - 2 * S), Age::Stale);
        assert_eq!(ages.of(real()), Age::Fresh);
        let mut unbounded = Ages::new(Bounds::NONE);
        assert_eq!(unbounded.of(0), Age::Fresh);
    }

    #[test]
    fn frame_in_hand_becomes_overdue() {
        let bounds = Bounds::new(Some(Duration::from_secs(1)), Some(Duration::from_millis(100)));
        let mut ages = Ages::new(bounds);
        let in_hand = |ages: &mut Ages, before: i64| {
            let told = ages.of(thread::real_now() as i64 - before);
            (told, deadline().saturating_sub(thread::monotonic_now()) as i64 / MS)
        };
        for _ in 0..2 {
            let (told, left) = in_hand(&mut ages, 40 * MS);
            assert_eq!(told, Age::Fresh);
            assert!((20..=80).contains(&left), "{left} ms");
            let (told, left) = in_hand(&mut ages, 400 * MS);
            assert_eq!(told, Age::Late);
            assert!((500..=600).contains(&left), "{left} ms: it is not forwarded as a cyclic one");
        }
        in_hand(&mut ages, 40 * MS);
        assert!(!is_over(deadline()));
        std::thread::sleep(Duration::from_millis(100));
        assert!(is_over(deadline()));
        put_down();
        assert!(!is_over(deadline()), "no frame is in hand");
        let _ = Ages::new(Bounds::NONE).of(0);
        assert!(!is_over(deadline()));
    }

    #[test]
    fn zero_lifts_a_bound() {
        let only = |all: Option<u64>, cyclic: Option<u64>| {
            Bounds::new(all.map(Duration::from_millis), cyclic.map(Duration::from_millis))
        };
        assert_eq!(only(None, None), Bounds::NONE);
        assert!(!only(None, Some(100)).is_stale(u64::MAX / 4));
        assert!(only(None, Some(100)).is_stale_cyclic(100_000_001));
        assert!(only(Some(50), Some(100)).is_stale_cyclic(50_000_001), "no cyclic frame gets older than all");
    }
}
