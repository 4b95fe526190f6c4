//! The egress release clock: a small playout buffer that gives cyclic frames out on their own period, so that the jitter of the
//! way between the sites stays in the buffer. It trades delay for it, and tells how much.
//!
//! Each flow has a clock, a second-order loop that follows the arrivals: its phase slowly, its period more slowly, both fast at
//! first. A frame is given out when its beat of that clock is over by the playout delay, which follows what the latest frames of
//! the last thousands were late by, up to a bound. What comes later than that is given out at once and counted. Adaptive
//! playout is from R. Ramjee, J. Kurose, D. Towsley and H. Schulzrinne, "Adaptive Playout Mechanisms for Packetized Audio
//! Applications in Wide-Area Networks" (INFOCOM 1994); here the period is learned as well.
//!
//! Times are nanoseconds of the monotonic clock.

/// Flows that have a clock. Others pass as they come.
const FLOWS: usize = 64;
/// Frames that wait at a time.
const PLACES: usize = 128;
/// Octets of the longest frame that waits.
const LONGEST: usize = 1522;
/// Intervals from which a period is learned.
const LEARN: usize = 32;
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

/// How far the intervals of a flow were off the period, in microseconds.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Box<[u32; 2048]>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; 2048]), total: 0 }
    }
}

impl Histogram {
    #[inline]
    fn record(&mut self, nanoseconds: u64) {
        let last = self.counts.len() - 1;
        self.counts[((nanoseconds / 1_000) as usize).min(last)] += 1;
        self.total += 1;
    }

    /// The microsecond below which so many of a thousand were, rounded up.
    #[must_use]
    pub fn per_mille(&self, share: u64) -> u64 {
        let wanted = (self.total * share).div_ceil(1_000);
        let mut seen = 0;
        for (microsecond, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted && seen > 0 {
                return microsecond as u64 + 1;
            }
        }
        0
    }
}

/// What the clock did.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Frames that were held back, and the nanoseconds of all of them.
    pub held: u64,
    /// Nanoseconds that they were held.
    pub delayed: u64,
    /// The longest of them.
    pub longest: u64,
    /// Frames of a flow with a clock that came too late for it.
    pub late: u64,
    /// Frames for which there was no place.
    pub full: u64,
    /// Deviations of the intervals between arrivals,
    pub before: Histogram,
    /// and between departures.
    pub after: Histogram,
}

/// A flow that is learned, or has a clock.
#[derive(Debug, Clone)]
struct Flow {
    id: u32,
    arrived: u64,
    left: u64,
    intervals: [u64; LEARN],
    learned: usize,
    clock: Option<Clock>,
}

#[derive(Debug, Clone)]
struct Clock {
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

    const fn period(&self) -> u64 {
        (self.period / PARTS) as u64
    }

    /// Whether the period is one that a flow may have: whoever sends the frames decides what the loop makes of them.
    fn is_sound(&self) -> bool {
        self.period > 0 && PERIODS.contains(&self.period())
    }

    /// A frame came. Gives when it is to leave; nothing if the flow paused or has another period now.
    fn tick(&mut self, now: u64, most: i64) -> Option<u64> {
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

#[derive(Clone)]
struct Waiting {
    due: u64,
    /// Of those that are due at once, the one with the least number leaves first.
    number: u64,
    arrived: u64,
    flow: usize,
    id: u32,
    len: usize,
    octets: Box<[u8; LONGEST]>,
}

/// The buffer.
pub struct Release {
    most: i64,
    flows: Vec<Flow>,
    /// Those that wait are in front, in no order.
    places: Vec<Waiting>,
    waiting: usize,
    /// Frames that were held so far.
    number: u64,
    next: u64,
    /// What it did.
    pub counts: Counts,
}

impl Release {
    /// A buffer that delays no frame by more than so many nanoseconds.
    #[must_use]
    pub fn new(most: u64) -> Self {
        let place =
            Waiting { due: 0, number: 0, arrived: 0, flow: 0, id: 0, len: 0, octets: Box::new([0; LONGEST]) };
        Self {
            most: most as i64,
            flows: Vec::with_capacity(FLOWS),
            places: vec![place; PLACES],
            waiting: 0,
            number: 0,
            next: u64::MAX,
            counts: Counts::default(),
        }
    }

    /// When the next frame is to leave.
    #[inline]
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        (self.waiting > 0).then_some(self.next)
    }

    /// Flows that have a clock.
    #[must_use]
    pub fn clocks(&self) -> usize {
        self.flows.iter().filter(|flow| flow.clock.is_some()).count()
    }

    /// The longest delay that a clock has now, in nanoseconds.
    #[must_use]
    pub fn delay(&self) -> u64 {
        self.flows.iter().filter_map(|flow| flow.clock.as_ref()).map(|clock| clock.delay).max().unwrap_or(0)
            as u64
    }

    /// A cyclic frame of a flow came. Tells whether it is held; otherwise it is to leave now, behind all that [`Self::take`]
    /// gives now: no frame passes one of its own flow.
    pub fn hold(&mut self, now: u64, id: u32, frame: &[u8]) -> bool {
        let Some(at) = self.flow(now, id) else { return false };
        let flow = &mut self.flows[at];
        let interval = now.saturating_sub(std::mem::replace(&mut flow.arrived, now));
        let due = match &mut flow.clock {
            None => {
                flow.learn(now, interval);
                None
            }
            Some(clock) => {
                let due = clock.tick(now, self.most);
                match due {
                    Some(_) => self.counts.before.record(off(interval, clock.period())),
                    None => (flow.clock, flow.learned) = (None, 0),
                }
                // Whoever comes before its beat waits no longer than the bound either.
                due.map(|due| due.min(now + self.most as u64))
            }
        };
        // No frame passes one of its own flow that waits, whatever the clock says of it.
        let waiting = self.places[..self.waiting].iter().filter(|place| place.id == id);
        let before = waiting.map(|place| place.due).max();
        let late = due.is_some_and(|due| due <= now) || frame.len() > LONGEST;
        let Some(due) = due.max(before) else { return false };
        if late || self.waiting == PLACES {
            *(if late { &mut self.counts.late } else { &mut self.counts.full }) += 1;
            if before.is_some() {
                self.hurry(id, now);
            }
            self.leave(at, id, now);
            return false;
        }
        let Some(place) = self.places.get_mut(self.waiting) else { return false };
        (place.due, place.number, place.arrived) = (due, self.number, now);
        (place.flow, place.id, place.len) = (at, id, frame.len());
        place.octets[..frame.len()].copy_from_slice(frame);
        self.waiting += 1;
        self.number += 1;
        self.next = if self.waiting == 1 { due } else { self.next.min(due) };
        true
    }

    /// Gives a frame that is to leave by now, if there is one, to be called until there is none.
    pub fn take(&mut self, now: u64, give: impl FnOnce(&mut [u8])) -> bool {
        if self.waiting == 0 || now < self.next {
            return false;
        }
        let due =
            self.places[..self.waiting].iter().enumerate().min_by_key(|(_, place)| (place.due, place.number));
        let Some((at, _)) = due else { return false };
        let last = self.waiting - 1;
        self.places.swap(at, last);
        self.waiting = last;
        self.next = self.places[..last].iter().map(|place| place.due).min().unwrap_or(u64::MAX);
        let place = &mut self.places[last];
        let (flow, id, held) = (place.flow, place.id, now.saturating_sub(place.arrived));
        give(&mut place.octets[..place.len]);
        self.counts.held += 1;
        self.counts.delayed += held;
        self.counts.longest = self.counts.longest.max(held);
        self.leave(flow, id, now);
        true
    }

    /// Makes those of a flow that wait due now.
    #[cold]
    fn hurry(&mut self, id: u32, now: u64) {
        for place in self.places[..self.waiting].iter_mut().filter(|place| place.id == id) {
            place.due = place.due.min(now);
            self.next = self.next.min(place.due);
        }
    }

    fn leave(&mut self, flow: usize, id: u32, now: u64) {
        // The place may be another flow's by now.
        let Some(flow) = self.flows.get_mut(flow).filter(|flow| flow.id == id) else { return };
        let before = std::mem::replace(&mut flow.left, now);
        if let (Some(clock), true) = (&flow.clock, before > 0) {
            self.counts.after.record(off(now.saturating_sub(before), clock.period()));
        }
    }

    /// The flow with that number; a new one takes the place of one that was silent for long.
    fn flow(&mut self, now: u64, id: u32) -> Option<usize> {
        if let Some(at) = self.flows.iter().position(|flow| flow.id == id) {
            return Some(at);
        }
        let new = Flow { id, arrived: now, left: 0, intervals: [0; LEARN], learned: 0, clock: None };
        if self.flows.len() < FLOWS {
            self.flows.push(new);
            return Some(self.flows.len() - 1);
        }
        let silent = |flow: &Flow| now.saturating_sub(flow.arrived) > 10_000_000_000;
        let at = self.flows.iter().position(silent)?;
        self.flows[at] = new;
        Some(at)
    }
}

impl Flow {
    /// An interval of a flow without a clock. The median is about its period, if most others are near.
    fn learn(&mut self, now: u64, interval: u64) {
        self.intervals[self.learned] = interval;
        self.learned += 1;
        if self.learned < LEARN {
            return;
        }
        self.learned = 0;
        let mut sorted = self.intervals;
        sorted.sort_unstable();
        let median = sorted[LEARN / 2];
        let near = sorted.iter().filter(|interval| interval.abs_diff(median) <= median / 4).count();
        if PERIODS.contains(&median) && near >= LEARN * 3 / 4 {
            self.clock = Some(fit(&self.intervals, median, now)).filter(Clock::is_sound);
        }
    }
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

/// How far an interval is off a number of whole periods.
fn off(interval: u64, period: u64) -> u64 {
    let beats = ((interval + period / 2) / period.max(1)).max(1);
    interval.abs_diff(beats * period)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// Frames of one flow with a period that differs from the nominal one, delayed by `jitter`; given out as soon as they are due.
    /// Tells the deviations of the departures' intervals in the second half, and the buffer.
    fn run(period: f64, count: u64, most: u64, jitter: impl Fn(u64) -> Option<u64>) -> (Vec<u64>, Release) {
        let mut release = Release::new(most);
        let mut arrivals: Vec<(u64, u64)> = (0..count)
            .filter_map(|n| Some((1_000_000 + (n as f64 * period) as u64 + jitter(n)?, n)))
            .collect();
        arrivals.sort_unstable();
        let mut left = vec![];
        for (now, n) in arrivals {
            while let Some(due) = release.due().filter(|due| *due <= now) {
                let mut number = 0;
                assert!(
                    release.take(due, |frame| number = u64::from_le_bytes(*frame.first_chunk().unwrap()))
                );
                left.push((number, due));
            }
            if !release.hold(now, 7, &n.to_le_bytes()) {
                let mut number = 0;
                while release.take(now, |frame| number = u64::from_le_bytes(*frame.first_chunk().unwrap())) {
                    left.push((number, now));
                }
                left.push((n, now));
            }
        }
        let half = &left[left.len() / 2..];
        let passed: Vec<_> = left.windows(2).filter(|pair| pair[0].0 > pair[1].0).collect();
        assert!(passed.is_empty(), "no frame passes another one: {passed:?}");
        let offs = half.windows(2).map(|pair| off(pair[1].1 - pair[0].1, period as u64)).collect();
        (offs, release)
    }

    fn random(n: u64, below: u64) -> u64 {
        (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n.wrapping_mul(0xd1b5_4a32_d192_ed03).rotate_left(29))
            % below
    }

    fn worst(offs: &[u64], share: f64) -> u64 {
        let mut sorted = offs.to_vec();
        sorted.sort_unstable();
        sorted[(sorted.len() as f64 * share) as usize]
    }

    #[test]
    fn jitter_stays_in_the_buffer_and_the_delay_is_told() {
        for (period, jitter) in [(4_000_000.0, 300 * US), (1_000_000.0, 200 * US), (500_013.7, 100 * US)] {
            let (offs, release) = run(period, 20_000, 2_000_000, |n| Some(random(n, jitter)));
            assert!(worst(&offs, 0.999) <= 30 * US, "{period}: {} ns", worst(&offs, 0.999));
            let counts = &release.counts;
            assert!(counts.before.per_mille(999) >= jitter / US * 3 / 4, "{}", counts.before.per_mille(999));
            assert!(counts.after.per_mille(990) <= 30, "{}", counts.after.per_mille(990));
            let mean = counts.delayed / counts.held;
            assert!(
                mean <= jitter + 20 * US && release.delay() <= jitter + 20 * US,
                "{mean}, {}",
                release.delay()
            );
            assert!(counts.late < 200, "{} late", counts.late);
        }
    }

    #[test]
    fn the_clock_is_found_whatever_the_first_frames_are_late_by() {
        for seed in 0..90 {
            let spread = [100, 200, 300][seed as usize % 3] * US;
            let (offs, release) =
                run(1_000_000.0, 8_000, 2_000_000, |n| Some(random(n + 100_000 * seed, spread)));
            assert!(worst(&offs, 0.999) <= 30 * US, "seed {seed}, {spread}: {} ns", worst(&offs, 0.999));
            assert!(release.delay() <= spread + 30 * US, "seed {seed}, {spread}: {}", release.delay());
        }
    }

    #[test]
    fn beats_that_jump_by_half_a_period_are_found_again() {
        for jump in [300, 450, 500, 550, 700] {
            let (offs, release) = run(1_000_000.0, 20_000, 2_000_000, |n| {
                Some(if n < 5_000 { jump * US } else { 0 } + random(n, 200 * US))
            });
            assert!(worst(&offs, 0.999) <= 30 * US, "{jump}: {} ns", worst(&offs, 0.999));
            assert!(release.delay() <= 260 * US, "{jump}: {}", release.delay());
        }
    }

    #[test]
    fn no_sequence_of_arrivals_breaks_a_clock() {
        // Steady beats at the shortest period and above, then arrivals of any spacing, closer and closer.
        for seed in 0..50 {
            let mut release = Release::new(2_000_000);
            let mut now = 1_000_000;
            for n in 0..3_000u64 {
                now += match n {
                    ..200 => 31_250 + random(seed, 40 * US),
                    _ => {
                        random(n + 7 * seed, (60 * US).saturating_sub(n * 20).max(2))
                            * (1 + random(n, 40) / 39 * 900)
                    }
                };
                release.hold(now, 7, &[0; 64]);
                while release.take(now, |_| ()) {}
            }
            assert!(release.delay() <= 2_000_000, "{}", release.delay());
        }
    }

    #[test]
    fn a_flow_without_jitter_is_hardly_delayed() {
        let (offs, release) = run(1_000_000.0, 5_000, 2_000_000, |_| Some(0));
        assert!(worst(&offs, 0.999) <= 2 * US);
        assert!(release.delay() <= 25 * US, "{}", release.delay());
    }

    #[test]
    fn lost_frames_are_no_jitter_and_late_ones_pass_at_once() {
        let lost = |n: u64| (random(n, 50) != 0).then(|| random(n + 1, 100 * US));
        let (offs, _) = run(1_000_000.0, 20_000, 2_000_000, lost);
        assert!(worst(&offs, 0.999) <= 30 * US, "{}", worst(&offs, 0.999));
        // Beyond the bound: nothing is delayed by more than that.
        let (_, release) = run(4_000_000.0, 20_000, 100 * US, |n| Some(random(n, 300 * US)));
        assert!(
            release.counts.longest <= 100 * US && release.delay() <= 100 * US,
            "{:?}",
            release.counts.longest
        );
        assert!(release.counts.late > 1_000);
    }

    #[test]
    fn an_outage_and_the_burst_behind_it_leave_the_clock_as_it_is() {
        // Every 2000 beats nothing comes for 5, 40 or 150 of them, and then all at once.
        let outage = |n: u64| {
            let (within, long) = (n % 2_000, [5, 40, 150][(n / 2_000 % 3) as usize]);
            let held = (1_000..1_000 + long).contains(&within);
            Some(if held {
                (1_000 + long - within) * 1_000_000 + (within - 1_000)
            } else {
                random(n, 200 * US)
            })
        };
        let (offs, release) = run(1_000_000.0, 20_000, 2_000_000, outage);
        assert!(worst(&offs, 0.90) <= 30 * US, "{}", worst(&offs, 0.90));
        assert_eq!(release.clocks(), 1);
        // Those of the bursts, and few beside them.
        let late = release.counts.late;
        assert!((550..1_000).contains(&late), "{late} late");
        // Later frames are lost for good, and after that nothing is taken for one that is late.
        let lost = |n: u64| (!(10_000..10_030).contains(&n)).then(|| random(n, 100 * US));
        let (offs, release) = run(1_000_000.0, 30_000, 2_000_000, lost);
        assert!(worst(&offs, 0.999) <= 30 * US, "{}", worst(&offs, 0.999));
        assert!(release.counts.late < 200, "{} late", release.counts.late);
    }

    #[test]
    fn another_period_is_learned_after_a_pause() {
        let mut release = Release::new(2_000_000);
        let mut now = 0;
        for _ in 0..200 {
            now += 1_000_000;
            release.hold(now, 1, &[0; 64]);
            release.take(now + 100_000, |_| ());
        }
        assert_eq!(release.clocks(), 1);
        // Four times as fast: what was learned does not fit, and is given up.
        for _ in 0..200 {
            now += 250_000;
            release.hold(now, 1, &[0; 64]);
            while release.take(now + 200_000, |_| ()) {}
        }
        assert_eq!(release.flows[0].clock.as_ref().map(Clock::period), Some(250_000));
        // Nothing regular: no clock, and nothing is held.
        for n in 0..500 {
            now += 1 + random(n, 10_000_000);
            assert!(!release.hold(now, 2, &[0; 64]));
        }
        assert_eq!(release.clocks(), 1);
    }

    #[test]
    fn no_frame_passes_another_one_when_the_clock_is_given_up_or_late() {
        let mut release = Release::new(2_000_000);
        let mut now = 0;
        for _ in 0..200 {
            now += 1_000_000;
            release.hold(now, 1, &[0; 64]);
            release.take(now + 400_000, |_| ());
        }
        assert_eq!(release.clocks(), 1);
        assert!(release.hold(now + 1_000_000, 1, &[1; 64]), "the clock holds it");
        // Far before its beat, so that the clock is given up, and one that nothing is known of then.
        let held = [2u8, 3].map(|n| release.hold(now + 1_000_001, 1, &[n; 64]));
        now += 1_000_000_000;
        assert!(release.hold(now, 1, &[4; 64]), "those before still wait");
        let mut left = vec![];
        while release.take(now + 10_000_000, |frame| left.push(frame[0])) {}
        assert_eq!((held, left), ([true; 2], vec![1, 2, 3, 4]));
        assert!(!release.hold(now + 1_000_000, 1, &[5; 64]));
    }

    #[test]
    fn places_and_flows_are_bounded() {
        let mut release = Release::new(2_000_000);
        for n in 0..40u64 {
            for id in 0..200u32 {
                release.hold(n * 1_000_000 + u64::from(id), id, &[0; 64]);
            }
        }
        assert!(release.flows.len() <= FLOWS && release.waiting <= PLACES);
        let mut count = 0;
        while release.take(60_000_000_000, |_| ()) {
            count += 1;
        }
        assert!(count > 0 && release.due().is_none());
    }
}
