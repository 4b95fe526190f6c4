//! Predicts the frames of cyclic flows from their arrivals. Times are nanoseconds.

/// The most flows that are watched. A steady flow keeps its entry until it ends; the others are
/// replaced by newer ones.
const FLOWS: usize = 16;
/// Equal intervals that make a flow steady.
const STEADY: u8 = 4;
/// Missed beats after which a flow has ended.
const MISSED: u64 = 4;
/// How long a late frame is awaited beyond twice the mean deviation. The cause of the delay,
/// usually a timer interrupt, takes some ten microseconds; a thread that went to sleep meanwhile
/// would take as long again to wake.
const GRACE: u64 = 50_000;
/// A late frame moves the beat by this fraction of its delay.
const LATE: u64 = 8;
/// Valid periods.
const PERIODS: std::ops::Range<u64> = 100_000..1_000_000_000;

/// The periods of cyclic flows, learned from their arrivals.
#[derive(Debug, Default)]
pub(crate) struct Rhythm {
    flows: [Flow; FLOWS],
}

#[derive(Debug, Default, Clone, Copy)]
struct Flow {
    id: u32,
    /// The last arrival.
    last: u64,
    /// The last beat by the flow's clock, which continues while a frame is late.
    beat: u64,
    period: u64,
    steadiness: u8,
    /// Mean deviation of the arrivals.
    jitter: u64,
}

impl Flow {
    fn new(id: u32, now: u64, period: u64) -> Self {
        Self { id, last: now, beat: now, period, ..Self::default() }
    }

    fn steady(&self) -> bool {
        self.steadiness >= STEADY
    }

    /// Whether an interval is near the period.
    fn fits(&self, interval: u64) -> bool {
        PERIODS.contains(&interval) && interval.abs_diff(self.period) <= self.period / 4
    }

    #[inline]
    fn hear(&mut self, now: u64) {
        let (since_beat, since_last) = (now.saturating_sub(self.beat), now.saturating_sub(self.last));
        // After a late frame the flow's clock either continued or restarted.
        let begins_anew = since_last.abs_diff(self.period) < since_beat.abs_diff(self.period);
        let interval = if begins_anew { since_last } else { since_beat };
        let deviation = interval.abs_diff(self.period);
        self.last = now;
        if self.fits(interval) {
            self.steadiness = (self.steadiness + 1).min(2 * STEADY);
            // A late frame moves the clock slightly. An early one shows that it was behind.
            let late = if begins_anew { 0 } else { interval.saturating_sub(self.period) };
            self.beat = now - (late - late / LATE);
            if self.fits(since_last) {
                self.period = self.period - self.period / 16 + since_last / 16;
            }
            self.jitter = self.jitter - self.jitter / 8 + deviation / 8;
        } else if self.steady() {
            // A single late or missing frame does not change the period.
            self.steadiness -= 1;
            self.beat = now - since_beat % self.period;
        } else {
            *self = Self::new(self.id, now, since_last);
        }
    }

    /// The next due time, at `now` or later. A slightly late frame is still due.
    fn next_due(&self, now: u64) -> Option<u64> {
        if now.saturating_sub(self.last) > self.period * MISSED {
            return None;
        }
        let grace = (2 * self.jitter + GRACE).min(self.period / 4);
        let after = |beat: u64| {
            let beats = now.saturating_sub(beat).saturating_sub(grace) / self.period + 1;
            beat + beats * self.period
        };
        let due = after(self.beat);
        Some(if self.last - self.beat > self.period / 4 { due.min(after(self.last)) } else { due })
    }
}

impl Rhythm {
    /// Records a frame of flow `id`.
    #[inline]
    pub(crate) fn beat(&mut self, id: u32, now: u64) {
        let known = self.flows.iter().position(|flow| flow.id == id && flow.last > 0);
        let Some(flow) = known.and_then(|place| self.flows.get_mut(place)) else {
            return self.welcome(id, now);
        };
        flow.hear(now);
    }

    /// Number of steady flows.
    pub(crate) fn steady(&self) -> usize {
        self.flows.iter().filter(|flow| flow.steady()).count()
    }

    /// Stores a new flow in place of the one that was silent longest, steady ones excepted.
    #[cold]
    fn welcome(&mut self, id: u32, now: u64) {
        let lives = |flow: &Flow| flow.steady() && now.saturating_sub(flow.last) < flow.period * MISSED;
        if let Some(flow) = self.flows.iter_mut().filter(|flow| !lives(flow)).min_by_key(|flow| flow.last) {
            *flow = Flow::new(id, now, 0);
        }
    }

    /// The next due time of a steady flow, at `now` or later. A slightly late frame is still due.
    pub(crate) fn next_due(&self, now: u64) -> Option<u64> {
        self.flows.iter().filter(|f| f.steady()).filter_map(|f| f.next_due(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Whether a frame is due within this many nanoseconds.
    fn expects(rhythm: &Rhythm, now: u64, within: u64) -> bool {
        rhythm.next_due(now).is_some_and(|due| due <= now + within)
    }

    #[test]
    fn single_late_frame_moves_no_beat() {
        // Late by 0.3 ms, or an extra one 0.3 ms after the beat.
        for frames in [&[10 * MS + 300_000][..], &[10 * MS, 10 * MS + 300_000]] {
            let mut r = Rhythm::default();
            let before = (1..10).map(|beat| beat * MS);
            before.chain(frames.iter().copied()).for_each(|at| r.beat(7, at));
            assert!(expects(&r, 10 * MS + 900_000, 100_000), "its clock went on");
            assert!(!expects(&r, 11 * MS + 100_000, 100_000));
            assert!(expects(&r, 11 * MS + 250_000, 50_000), "or it begins anew");
            r.beat(7, 11 * MS);
            assert!(!expects(&r, 11 * MS + 250_000, 50_000), "it went on");
            assert!(expects(&r, 11 * MS + 950_000, 50_000));
        }
    }

    #[test]
    fn slightly_late_frame_moves_the_beat() {
        let mut r = Rhythm::default();
        (1..10).map(|beat| beat * MS).chain([10 * MS + 100_000]).for_each(|at| r.beat(7, at));
        assert!(expects(&r, 10 * MS + 990_000, 30_000), "its clock went on");
        // From now on always late by this much, and then early.
        for late in [100_000, 0] {
            (11..40).for_each(|beat| r.beat(7, beat * MS + late));
            assert_eq!(r.steady(), 1);
            assert!(
                !expects(&r, 39 * MS + 800_000 + late, 190_000)
                    && expects(&r, 39 * MS + 990_000 + late, 20_000)
            );
        }
    }

    #[test]
    fn restarted_flow_is_followed() {
        let mut r = Rhythm::default();
        let beats = (1..=10).map(|beat| beat * MS).chain((10..20).map(|beat| beat * MS + 300_000));
        beats.for_each(|at| r.beat(7, at));
        assert_eq!(r.steady(), 1);
        assert!(!expects(&r, 19 * MS + 900_000, 200_000));
        assert!(expects(&r, 20 * MS + 200_000, 100_000));
    }

    #[test]
    fn random_arrivals_are_not_periodic() {
        let mut r = Rhythm::default();
        let mut now = 0;
        for gap in [MS, 3 * MS, 200_000, 7 * MS, MS, 5 * MS, 400_000, 9 * MS] {
            now += gap;
            r.beat(7, now);
        }
        assert_eq!(r.steady(), 0);
    }

    #[test]
    fn similar_flow_ids_stay_apart() {
        let mut r = Rhythm::default();
        for beat in 1..=10 {
            for flow in 0..FLOWS as u32 {
                r.beat(flow * 1024, beat * MS + u64::from(flow) * 1_000);
            }
        }
        assert_eq!(r.steady(), FLOWS);
        r.beat(1, 11 * MS);
        assert_eq!(r.steady(), FLOWS, "a newcomer takes no steady flow's place");
    }
}
