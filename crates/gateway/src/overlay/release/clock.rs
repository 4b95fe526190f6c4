//! The clock of one flow: its arrivals without jitter, and the playout delay.

/// Number of intervals to learn a period.
pub(super) const LEARN: usize = 32;
/// Valid periods in nanoseconds. 31.25 µs is the shortest of PROFINET.
const PERIODS: std::ops::RangeInclusive<u64> = 31_250..=1_024_000_000;
/// Resolution of a period: parts of a nanosecond.
const PARTS: i64 = 1 << 10;
/// The inverse of the loop's first gain. The learned beat is already accurate to a fraction of the
/// jitter.
const YOUNG: i64 = LEARN as i64 / 2;
/// An unrelated clock is off by a quarter of its period on average. A clock that is off by more
/// than 2 in 9 is dropped and learned again; otherwise it could settle between two beats, or slip
/// from one to the next.
const ADRIFT: (i64, i64) = (2, 9);
/// The loop reaches its smallest gain, the inverse of this, after this many frames.
const SLOW: i64 = 256;
/// A flow restarts after this many beats without a frame, and this many nanoseconds.
const SILENT: i64 = 16;
const PAUSE: i64 = 250_000_000;
/// The window of the latest frame, in frames: it is remembered for one to two windows. About one
/// frame per window is later still and spoils two intervals, which is rare enough for the 99.9th
/// percentile.
const WINDOW: u32 = 4_000;
/// Nanoseconds added to the lateness of the latest frame.
const MARGIN: i64 = 20_000;
/// Largest change of the delay per frame, and the smallest on its way down, in nanoseconds. A
/// change is jitter as well.
const RISE: i64 = 2_000;
const FALL: i64 = 200;

#[derive(Debug, Clone)]
pub(super) struct Clock {
    /// In [`PARTS`] of a nanosecond.
    period: i64,
    /// The last beat, in nanoseconds and parts of one.
    nominal: u64,
    parts: i64,
    /// Number of frames, up to the smallest gain.
    age: i64,
    /// Mean deviation over 16 frames.
    deviation: i64,
    /// Mean deviation over 64 frames.
    strain: i64,
    /// The latest frame of this window and of the one before it, and the number of frames in this
    /// one.
    latest: [i64; 2],
    seen: u32,
    delay: i64,
    /// Recent beats without a frame. Their frames may still arrive, after a congestion or an
    /// outage.
    owed: i64,
}

impl Clock {
    /// A clock with a period in [`PARTS`] of a nanosecond and this last beat.
    const fn new(period: i64, nominal: u64) -> Self {
        Self {
            period,
            nominal,
            parts: 0,
            age: YOUNG,
            strain: 0,
            // A high estimate: the first errors are the clock's own.
            deviation: period / PARTS / 8,
            latest: [0; 2],
            seen: 0,
            delay: 0,
            owed: 0,
        }
    }

    /// The playout delay in nanoseconds.
    pub(super) const fn delay(&self) -> i64 {
        self.delay
    }

    pub(super) const fn period(&self) -> u64 {
        (self.period / PARTS) as u64
    }

    /// Whether the period is valid. The sender of the frames controls the loop's input.
    fn is_sound(&self) -> bool {
        self.period > 0 && PERIODS.contains(&self.period())
    }

    /// Handles an arrival. Returns the time of release. `None` after a pause of the flow or a
    /// change of its period.
    pub(super) fn tick(&mut self, now: u64, most: i64) -> Option<u64> {
        if !self.is_sound() {
            return None;
        }
        let since = now as i64 - self.nominal as i64;
        let period = self.period / PARTS;
        let beats = (since + period / 2).div_euclid(period);
        if beats < 1 && self.owed > 0 {
            // A late frame from a burst after an outage. Its beat is over, and it does not move the
            // clock.
            self.owed -= 1;
            return Some(now);
        }
        let beats = beats.max(1);
        if beats > SILENT && since > PAUSE || since < -period {
            return None;
        }
        self.owed = if beats > 1 { self.owed + beats - 1 } else { (self.owed - 1).max(0) };
        let total = self.parts + beats * self.period;
        self.nominal += (total / PARTS) as u64;
        self.parts = total % PARTS;
        let error = now as i64 - self.nominal as i64;
        // Outliers say little about the clock.
        let bound = 4 * self.deviation + 1_000;
        let pull = error.clamp(-bound, bound);
        self.deviation += (error.abs() - self.deviation) / 16;
        self.strain += (error.abs() - self.strain) / 64;
        if self.strain > period / ADRIFT.1 * ADRIFT.0 {
            return None;
        }
        self.age = (self.age + 1).min(SLOW);
        let gain = self.age;
        let phase = pull * PARTS / gain;
        self.period += phase / (4 * gain) / beats;
        let total = self.parts + phase;
        self.nominal = self.nominal.wrapping_add_signed(total.div_euclid(PARTS));
        self.parts = total.rem_euclid(PARTS);
        // The worst lateness.
        self.seen += 1;
        let first = self.age < SLOW;
        if first || self.age == SLOW && self.seen == SLOW as u32 {
            // At first an error belongs to the clock as much as to the frame.
            self.latest = [error, i64::MIN];
        }
        if self.seen >= WINDOW {
            (self.latest, self.seen) = ([i64::MIN, self.latest[0]], 0);
        }
        // No delay can compensate a frame later than the limit.
        if error <= most {
            self.latest[0] = self.latest[0].max(error);
        }
        let wanted = (self.latest[0].max(self.latest[1]).max(0) + MARGIN).min(most).min(period / 2);
        let fall = ((self.delay - wanted) / 64).clamp(FALL, RISE);
        self.delay =
            if first { self.delay.max(wanted) } else { wanted.clamp(self.delay - fall, self.delay + RISE) };
        Some(self.nominal.wrapping_add_signed(self.delay))
    }
}

/// The clock of a flow with these intervals, the last arrival at `now`. `None` unless most
/// intervals are near their median.
pub(super) fn learn(intervals: &[u64; LEARN], now: u64) -> Option<Clock> {
    let mut sorted = *intervals;
    sorted.sort_unstable();
    let median = sorted[LEARN / 2];
    let near = sorted.iter().filter(|interval| interval.abs_diff(median) <= median / 4).count();
    (PERIODS.contains(&median) && near >= LEARN * 3 / 4)
        .then(|| fit(intervals, median, now))
        .filter(Clock::is_sound)
}

/// The least-squares fit to arrivals with these intervals, the last one at `last`.
fn fit(intervals: &[u64; LEARN], median: u64, last: u64) -> Clock {
    let (mut beat, mut time) = (0i64, 0i64);
    // Sums of beats, times, squares and products, over all arrivals.
    let (mut n, mut beats, mut times, mut squares, mut products) = (1i128, 0i128, 0i128, 0i128, 0i128);
    for interval in intervals {
        beat += ((interval + median / 2) / median) as i64;
        time += *interval as i64;
        let (x, y) = (i128::from(beat), i128::from(time));
        (n, beats, times) = (n + 1, beats + x, times + y);
        (squares, products) = (squares + x * x, products + x * y);
    }
    // Most intervals are near the median, so there are beats and the spread is above 0.
    let spread = (n * squares - beats * beats).max(1);
    let period = (n * products - beats * times) * i128::from(PARTS) / spread;
    // The mean of the arrivals is on the line, as is the last beat.
    let late = i128::from(time) - (times + (i128::from(beat) * n - beats) * period / i128::from(PARTS)) / n;
    Clock::new(period as i64, last.wrapping_add_signed(-late as i64))
}
