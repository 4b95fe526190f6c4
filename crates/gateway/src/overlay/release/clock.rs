//! The clock of one flow: when its frames would come without jitter, and how long after that they are given out.

/// Intervals from which a period is learned.
pub(super) const LEARN: usize = 32;
/// Periods that are one: 31.25 µs is the shortest of PROFINET.
const PERIODS: std::ops::RangeInclusive<u64> = 31_250..=1_024_000_000;
/// A period is kept in parts of a nanosecond.
const PARTS: i64 = 1 << 10;
/// One over the gain with which the loop begins, behind frames from which its beat is known to a fraction of their jitter.
const YOUNG: i64 = LEARN as i64 / 2;
/// Of a clock that has nothing to do with the frames they are off by a quarter of its period in the mean. Beyond 2 parts in 9 it is
/// given up, and learned anew: without that it could stay between two beats, or slip past one after the other.
const ADRIFT: (i64, i64) = (2, 9);
/// After so many frames the loop has its smallest gain, one over this.
const SLOW: i64 = 256;
/// Beats without a frame, and nanoseconds, after which a flow begins anew.
const SILENT: i64 = 16;
const PAUSE: i64 = 250_000_000;
/// Frames over which the latest one is remembered, once or twice. The next one is later than all of so many once in so many
/// frames, and puts two intervals off: rare enough for the 99.9th percentile.
const WINDOW: u32 = 4_000;
/// Beyond the latest frame.
const MARGIN: i64 = 20_000;
/// So much the delay changes from frame to frame at most, and on its way down at least: a change is jitter as well.
const RISE: i64 = 2_000;
const FALL: i64 = 200;

#[derive(Debug, Clone)]
pub(super) struct Clock {
    /// In [`PARTS`] of a nanosecond.
    period: i64,
    /// When the last frame would have come without jitter, and parts of a nanosecond beside it.
    nominal: u64,
    parts: i64,
    /// Frames so far, as far as the gain needs them.
    age: i64,
    /// Mean deviation,
    deviation: i64,
    /// and over more frames.
    strain: i64,
    /// The latest one in this window and the one before it, and how many there were.
    latest: [i64; 2],
    seen: u32,
    delay: i64,
    /// Beats of late that had no frame: it may still come, behind a congestion or an outage of the way.
    owed: i64,
}

impl Clock {
    /// A clock with a period in [`PARTS`] of a nanosecond and the beat that is over now.
    const fn new(period: i64, nominal: u64) -> Self {
        Self {
            period,
            nominal,
            parts: 0,
            age: YOUNG,
            strain: 0,
            // More than it will be as a rule: the first errors are the clock's.
            deviation: period / PARTS / 8,
            latest: [0; 2],
            seen: 0,
            delay: 0,
            owed: 0,
        }
    }

    /// How long after its beat a frame is given out, in nanoseconds.
    pub(super) const fn delay(&self) -> i64 {
        self.delay
    }

    pub(super) const fn period(&self) -> u64 {
        (self.period / PARTS) as u64
    }

    /// Whether the period is one that a flow may have: whoever sends the frames decides what the loop makes of them.
    fn is_sound(&self) -> bool {
        self.period > 0 && PERIODS.contains(&self.period())
    }

    /// A frame came. Gives when it is to leave; nothing if the flow paused or has another period now.
    pub(super) fn tick(&mut self, now: u64, most: i64) -> Option<u64> {
        if !self.is_sound() {
            return None;
        }
        let since = now as i64 - self.nominal as i64;
        let period = self.period / PARTS;
        let beats = (since + period / 2).div_euclid(period);
        if beats < 1 && self.owed > 0 {
            // One of those that an outage held up, which come in a burst: its beat is over, and tells the clock nothing.
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
        // What is far off says little of the clock.
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
        // How late frames are at worst.
        self.seen += 1;
        let first = self.age < SLOW;
        if first || self.age == SLOW && self.seen == SLOW as u32 {
            // Until the clock is there, an error is the clock's as much as the frame's.
            self.latest = [error, i64::MIN];
        }
        if self.seen >= WINDOW {
            (self.latest, self.seen) = ([i64::MIN, self.latest[0]], 0);
        }
        // No delay makes up for what is later than the bound.
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

/// The clock of a flow that came at these intervals, the last time now, if most of them are near their median.
pub(super) fn learn(intervals: &[u64; LEARN], now: u64) -> Option<Clock> {
    let mut sorted = *intervals;
    sorted.sort_unstable();
    let median = sorted[LEARN / 2];
    let near = sorted.iter().filter(|interval| interval.abs_diff(median) <= median / 4).count();
    (PERIODS.contains(&median) && near >= LEARN * 3 / 4)
        .then(|| fit(intervals, median, now))
        .filter(Clock::is_sound)
}

/// The clock whose beats are nearest to arrivals with these intervals, the last one at `last` (least squares).
fn fit(intervals: &[u64; LEARN], median: u64, last: u64) -> Clock {
    let (mut beat, mut time) = (0i64, 0i64);
    // Sums of beats, times, squares and products, of all arrivals from the first on.
    let (mut n, mut beats, mut times, mut squares, mut products) = (1i128, 0i128, 0i128, 0i128, 0i128);
    for interval in intervals {
        beat += ((interval + median / 2) / median) as i64;
        time += *interval as i64;
        let (x, y) = (i128::from(beat), i128::from(time));
        (n, beats, times) = (n + 1, beats + x, times + y);
        (squares, products) = (squares + x * x, products + x * y);
    }
    // Most intervals are near the median: there are beats, and this is above 0.
    let spread = (n * squares - beats * beats).max(1);
    let period = (n * products - beats * times) * i128::from(PARTS) / spread;
    // The mean of the arrivals is on the line; the last beat is on it too.
    let late = i128::from(time) - (times + (i128::from(beat) * n - beats) * period / i128::from(PARTS)) / n;
    Clock::new(period as i64, last.wrapping_add_signed(-late as i64))
}
