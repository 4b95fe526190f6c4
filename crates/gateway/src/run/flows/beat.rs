//! What the arrivals of one flow tell. Times are nanoseconds.
//!
//! All fields are counters of one writer. A reader may see a frame half counted, never a wrong
//! flow: `version` is odd while the place changes hands.

use super::histogram::Histogram;
use super::identity::Identity;
use crate::run::counters::Counter;

/// Intervals in a row near each other, and apart from the cycle, that make a new cycle.
const RELEARN: u64 = 8;
/// Present cycles that such a row lasts at least: frames that were held up arrive in a burst.
const RELEARN_CYCLES: u64 = 2;
/// The longest interval is kept for one to two of these spans.
const SPAN: u64 = 60_000_000_000;
/// A flow that was silent for longer begins anew.
pub(super) const FORGOTTEN: u64 = 3_600_000_000_000;

/// Whether an interval is near a cycle.
#[inline]
const fn fits(interval: u64, cycle: u64) -> bool {
    interval.abs_diff(cycle) <= cycle / 4
}

/// A flow in its place.
#[derive(Debug, Default)]
pub(super) struct Beat {
    pub(super) version: Counter,
    pub(super) identity: [Counter; 2],
    /// The last arrival.
    pub(super) last: Counter,
    pub(super) cycle: Counter,
    /// Mean deviation of the intervals from the cycle, without those of two cycles and more.
    pub(super) jitter: Counter,
    pub(super) frames: Counter,
    /// Cycles without a frame.
    pub(super) missed: Counter,
    /// Intervals longer than the watchdog.
    pub(super) expired: Counter,
    /// The last four octets: of Profinet, cycle counter, data status and transfer status.
    pub(super) end: Counter,
    /// The longest interval of this span, and of the one before.
    pub(super) longest: [Counter; 2],
    span: Counter,
    /// The arrival before the first interval.
    pub(super) first: Counter,
    /// Another cycle that may begin, and its intervals in a row.
    other: Counter,
    others: Counter,
    /// Cycles without a frame in this row, and its intervals longer than the watchdog. They count
    /// unless the row makes a longer cycle.
    doubted: [Counter; 2],
    pub(super) intervals: Histogram,
}

impl Beat {
    /// Gives the place to a flow with a known cycle.
    #[cold]
    pub(super) fn begin(&self, identity: Identity, now: u64, cycle: u64) {
        self.version.count();
        let Identity([a, b]) = identity;
        self.identity[0].set(a);
        self.identity[1].set(b);
        self.first.set(now);
        self.last.set(now);
        self.cycle.set(cycle);
        let zero =
            [&self.jitter, &self.frames, &self.missed, &self.expired, &self.end, &self.other, &self.others];
        zero.into_iter().chain(&self.longest).chain(&self.doubted).for_each(|counter| counter.set(0));
        self.span.set(now + SPAN);
        self.intervals.clear();
        self.version.count();
    }

    /// Takes over what readers see of another thread's flow. Leaves the place free if that one changes
    /// hands meanwhile.
    pub(super) fn show(&self, other: &Self) {
        let version = other.version.get();
        let read = |one: &Self| {
            let Self { identity: [a, b], last, cycle, jitter, frames, missed, expired, end, first, .. } = one;
            let [recent, before] = &one.longest;
            [a, b, last, cycle, jitter, frames, missed, expired, end, first, recent, before].map(Counter::get)
        };
        let [a, b, last, cycle, jitter, frames, missed, expired, end, first, recent, before] = read(other);
        self.intervals.show(&other.intervals);
        if version % 2 == 1 || other.version.get() != version {
            return;
        }
        let values = [last, cycle, jitter, frames, missed, expired, end, first, recent, before, a, b];
        let [longest, longest_before] = &self.longest;
        let [identity, rest] = &self.identity;
        let Self { last, cycle, jitter, frames, missed, expired, end, first, .. } = self;
        let own = [
            last,
            cycle,
            jitter,
            frames,
            missed,
            expired,
            end,
            first,
            longest,
            longest_before,
            identity,
            rest,
        ];
        own.into_iter().zip(values).for_each(|(counter, value)| counter.set(value));
    }

    /// The flow in this place, or zeroes.
    #[inline]
    pub(super) fn identity(&self) -> Identity {
        Identity([self.identity[0].get(), self.identity[1].get()])
    }

    /// Counts a frame.
    #[inline]
    pub(super) fn hear(&self, now: u64, end: u32, watchdog: u64) {
        let (cycle, interval) = (self.cycle.get(), now.saturating_sub(self.last.get()));
        self.last.set(now);
        self.frames.count();
        self.end.set(end.into());
        self.intervals.count(interval);
        if interval > self.longest[0].get() {
            self.longest[0].set(interval);
        }
        let deviation = interval.abs_diff(cycle);
        if deviation > cycle / 4 || now >= self.span.get() {
            return self.rare(now, interval, watchdog);
        }
        self.settle(interval, deviation);
    }

    /// Follows a fitting interval.
    #[inline]
    fn settle(&self, interval: u64, deviation: u64) {
        let (cycle, jitter) = (self.cycle.get(), self.jitter.get());
        self.cycle.set(cycle - cycle / 16 + interval / 16);
        self.jitter.set(jitter - jitter / 16 + deviation / 16);
        if self.others.get() > 0 {
            self.end_row();
        }
    }

    /// Counts what a row of other intervals missed.
    #[cold]
    fn end_row(&self) {
        let [missed, expired] = &self.doubted;
        self.missed.add(missed.get());
        self.expired.add(expired.get());
        self.doubted.iter().for_each(|counter| counter.set(0));
        self.others.set(0);
    }

    /// An interval that does not fit, or the end of a span.
    #[cold]
    #[inline(never)]
    fn rare(&self, now: u64, interval: u64, watchdog: u64) {
        if now >= self.span.get() {
            // After a long silence no span before is recent.
            let before = if now >= self.span.get() + SPAN { 0 } else { self.longest[0].get() };
            self.longest[1].set(before);
            self.longest[0].set(if interval > FORGOTTEN { 0 } else { interval });
            self.span.set(now + SPAN);
        }
        let cycle = self.cycle.get();
        if fits(interval, cycle) {
            return self.settle(interval, interval.abs_diff(cycle));
        }
        if interval > FORGOTTEN {
            return;
        }
        let deviation = interval.abs_diff(cycle);
        if deviation < cycle {
            let jitter = self.jitter.get();
            self.jitter.set(jitter - jitter / 16 + deviation / 16);
        }
        if self.others.get() == 0 || !fits(interval, self.other.get()) {
            self.end_row();
            self.other.set(interval);
        }
        self.others.count();
        if interval > cycle {
            let [missed, expired] = &self.doubted;
            missed.add(((interval + cycle / 2) / cycle.max(1)).saturating_sub(1));
            expired.add(u64::from(interval > cycle.saturating_mul(watchdog)));
        }
        let row = self.others.get().saturating_mul(interval);
        if self.others.get() >= RELEARN && row >= cycle.saturating_mul(RELEARN_CYCLES) {
            self.cycle.set(interval.max(1));
            self.jitter.set(0);
            self.others.set(0);
            self.doubted.iter().chain(&self.longest).for_each(|counter| counter.set(0));
        }
    }
}
