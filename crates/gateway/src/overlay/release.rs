//! The release clock: a playout buffer that sends cyclic frames with their own period, so that the
//! jitter of the path between the sites ends in the buffer. It adds delay, and reports how much.
//!
//! Each flow has a clock, a second-order loop that follows the arrivals: the phase slowly, the
//! period more slowly, both fast at first. A frame is released at its beat plus the playout delay.
//! The delay follows the lateness of the latest among the last few thousand frames, up to a limit.
//! A later frame is released at once and counted. Adaptive playout is from R. Ramjee, J. Kurose, D.
//! Towsley and H. Schulzrinne, "Adaptive Playout Mechanisms for Packetized Audio Applications in
//! Wide-Area Networks" (INFOCOM 1994); here the period is learned as well.
//!
//! Times are nanoseconds of the monotonic clock.

mod clock;

use clock::{Clock, LEARN};

/// The most flows with a clock. Further flows are not held.
const FLOWS: usize = 64;
/// The most frames that are held at a time.
const PLACES: usize = 128;
/// Octets of the longest frame that is held.
const MAX_HELD_LEN: usize = 1522;
/// Deviations of a flow's intervals from its period, in microseconds.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Box<[u64; 2048]>,
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

    /// The quantile at `share` of a thousand in microseconds, rounded up.
    #[must_use]
    pub fn per_mille(&self, share: u64) -> u64 {
        let wanted = (self.total * share).div_ceil(1_000);
        let mut seen = 0;
        for (microsecond, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return microsecond as u64 + 1;
            }
        }
        0
    }
}

/// The counters of the release clock.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Frames that were held.
    pub held: u64,
    /// Nanoseconds that they were held, in total.
    pub delayed: u64,
    /// The longest hold in nanoseconds.
    pub longest: u64,
    /// Frames that arrived too late for their clock.
    pub late: u64,
    /// Frames that found the buffer full.
    pub full: u64,
    /// Deviations of the intervals between arrivals.
    pub before: Histogram,
    /// Deviations of the intervals between departures.
    pub after: Histogram,
}

/// A flow that is being learned, or has a clock.
#[derive(Debug, Clone)]
struct Flow {
    id: u32,
    arrived: u64,
    left: u64,
    intervals: [u64; LEARN],
    learned: usize,
    clock: Option<Clock>,
}

#[derive(Clone)]
struct Waiting {
    due: u64,
    /// Order among frames that are due at the same time.
    number: u64,
    arrived: u64,
    flow: usize,
    id: u32,
    len: usize,
    octets: Box<[u8; MAX_HELD_LEN]>,
}

/// The buffer of the release clock.
pub struct Release {
    most: i64,
    flows: Vec<Flow>,
    /// Held frames come first, unordered.
    places: Vec<Waiting>,
    waiting: usize,
    /// Frames held so far.
    number: u64,
    next: u64,
    /// The counters.
    pub counts: Counts,
}

impl Release {
    /// A buffer that holds no frame for more than `most` nanoseconds.
    #[must_use]
    pub fn new(most: u64) -> Self {
        let place = Waiting {
            due: 0,
            number: 0,
            arrived: 0,
            flow: 0,
            id: 0,
            len: 0,
            octets: Box::new([0; MAX_HELD_LEN]),
        };
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

    /// The time of the next release.
    #[inline]
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        (self.waiting > 0).then_some(self.next)
    }

    /// Number of flows with a clock.
    #[must_use]
    pub fn clocks(&self) -> usize {
        self.flows.iter().filter(|flow| flow.clock.is_some()).count()
    }

    /// The longest current playout delay in nanoseconds.
    #[must_use]
    pub fn delay(&self) -> u64 {
        self.flows.iter().filter_map(|flow| flow.clock.as_ref()).map(Clock::delay).max().unwrap_or(0) as u64
    }

    /// Handles a cyclic frame. Returns whether it is held. If not, the caller sends it now, after
    /// all frames that [`Self::take`] returns: no frame overtakes another of its flow.
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
                // A frame ahead of its beat is held no longer than the limit either.
                due.map(|due| due.min(now + self.most as u64))
            }
        };
        // No frame overtakes a held one of its flow, even if the clock would allow it.
        let waiting = self.places[..self.waiting].iter().filter(|place| place.id == id);
        let before = waiting.map(|place| place.due).max();
        let late = due.is_some_and(|due| due <= now) || frame.len() > MAX_HELD_LEN;
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

    /// Passes one due frame to `give`, with the nanoseconds by which it is overdue. Call it until it
    /// returns false.
    pub fn take(&mut self, now: u64, give: impl FnOnce(u64, &mut [u8])) -> bool {
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
        give(now.saturating_sub(place.due), &mut place.octets[..place.len]);
        self.counts.held += 1;
        self.counts.delayed += held;
        self.counts.longest = self.counts.longest.max(held);
        self.leave(flow, id, now);
        true
    }

    /// Makes the held frames of a flow due now.
    #[cold]
    fn hurry(&mut self, id: u32, now: u64) {
        for place in self.places[..self.waiting].iter_mut().filter(|place| place.id == id) {
            place.due = place.due.min(now);
            self.next = self.next.min(place.due);
        }
    }

    fn leave(&mut self, flow: usize, id: u32, now: u64) {
        // Another flow may have this index by now.
        let Some(flow) = self.flows.get_mut(flow).filter(|flow| flow.id == id) else { return };
        let before = std::mem::replace(&mut flow.left, now);
        if let (Some(clock), true) = (&flow.clock, before > 0) {
            self.counts.after.record(off(now.saturating_sub(before), clock.period()));
        }
    }

    /// The index of a flow. A new flow replaces one that was silent for long.
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
    /// Learns an interval of a flow without a clock.
    fn learn(&mut self, now: u64, interval: u64) {
        self.intervals[self.learned] = interval;
        self.learned += 1;
        if self.learned == LEARN {
            self.learned = 0;
            self.clock = clock::learn(&self.intervals, now);
        }
    }
}

/// The deviation of an interval from a whole number of periods.
fn off(interval: u64, period: u64) -> u64 {
    let beats = ((interval + period / 2) / period.max(1)).max(1);
    interval.abs_diff(beats * period)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// Frames of one flow with a period that differs from the nominal one, delayed by `jitter` and
    /// released when due. Returns the deviations of the departures' intervals in the second half,
    /// and the buffer.
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
                    release.take(due, |_, frame| number = u64::from_le_bytes(*frame.first_chunk().unwrap()))
                );
                left.push((number, due));
            }
            if !release.hold(now, 7, &n.to_le_bytes()) {
                let mut number = 0;
                while release.take(now, |_, frame| number = u64::from_le_bytes(*frame.first_chunk().unwrap()))
                {
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
    fn jitter_is_removed_for_a_known_delay() {
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
    fn clock_is_found_behind_late_frames() {
        for seed in 0..90 {
            let spread = [100, 200, 300][seed as usize % 3] * US;
            let (offs, release) =
                run(1_000_000.0, 8_000, 2_000_000, |n| Some(random(n + 100_000 * seed, spread)));
            assert!(worst(&offs, 0.999) <= 30 * US, "seed {seed}, {spread}: {} ns", worst(&offs, 0.999));
            assert!(release.delay() <= spread + 30 * US, "seed {seed}, {spread}: {}", release.delay());
        }
    }

    #[test]
    fn beats_are_found_after_a_jump() {
        for jump in [300, 450, 500, 550, 700] {
            let (offs, release) = run(1_000_000.0, 20_000, 2_000_000, |n| {
                Some(if n < 5_000 { jump * US } else { 0 } + random(n, 200 * US))
            });
            assert!(worst(&offs, 0.999) <= 30 * US, "{jump}: {} ns", worst(&offs, 0.999));
            assert!(release.delay() <= 260 * US, "{jump}: {}", release.delay());
        }
    }

    #[test]
    fn arbitrary_arrivals_break_no_clock() {
        // Steady beats at the shortest period and above, then arrivals with any spacing, closer and
        // closer.
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
                while release.take(now, |_, _| ()) {}
            }
            assert!(release.delay() <= 2_000_000, "{}", release.delay());
        }
    }

    #[test]
    fn steady_flow_is_hardly_delayed() {
        let (offs, release) = run(1_000_000.0, 5_000, 2_000_000, |_| Some(0));
        assert!(worst(&offs, 0.999) <= 2 * US);
        assert!(release.delay() <= 25 * US, "{}", release.delay());
    }

    #[test]
    fn late_frames_pass_at_once() {
        let lost = |n: u64| (random(n, 50) != 0).then(|| random(n + 1, 100 * US));
        let (offs, _) = run(1_000_000.0, 20_000, 2_000_000, lost);
        assert!(worst(&offs, 0.999) <= 30 * US, "{}", worst(&offs, 0.999));
        // Beyond the limit: no frame is held longer.
        let (_, release) = run(4_000_000.0, 20_000, 100 * US, |n| Some(random(n, 300 * US)));
        assert!(
            release.counts.longest <= 100 * US && release.delay() <= 100 * US,
            "{:?}",
            release.counts.longest
        );
        assert!(release.counts.late > 1_000);
    }

    #[test]
    fn outage_does_not_move_the_clock() {
        // Every 2000 beats 5, 40 or 150 frames are held up, and then arrive together.
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
        // The frames of the bursts, and few others.
        let late = release.counts.late;
        assert!((550..1_000).contains(&late), "{late} late");
        // Later frames are lost, and after that none counts as late.
        let lost = |n: u64| (!(10_000..10_030).contains(&n)).then(|| random(n, 100 * US));
        let (offs, release) = run(1_000_000.0, 30_000, 2_000_000, lost);
        assert!(worst(&offs, 0.999) <= 30 * US, "{}", worst(&offs, 0.999));
        assert!(release.counts.late < 200, "{} late", release.counts.late);
    }

    #[test]
    fn new_period_is_learned_after_pause() {
        let mut release = Release::new(2_000_000);
        let mut now = 0;
        for _ in 0..200 {
            now += 1_000_000;
            release.hold(now, 1, &[0; 64]);
            release.take(now + 100_000, |_, _| ());
        }
        assert_eq!(release.clocks(), 1);
        // Four times as fast: the clock does not fit, and is dropped.
        for _ in 0..200 {
            now += 250_000;
            release.hold(now, 1, &[0; 64]);
            while release.take(now + 200_000, |_, _| ()) {}
        }
        assert_eq!(release.flows[0].clock.as_ref().map(Clock::period), Some(250_000));
        // Irregular arrivals: no clock, and no frame is held.
        for n in 0..500 {
            now += 1 + random(n, 10_000_000);
            assert!(!release.hold(now, 2, &[0; 64]));
        }
        assert_eq!(release.clocks(), 1);
    }

    #[test]
    fn frames_never_overtake_in_a_flow() {
        let mut release = Release::new(2_000_000);
        let mut now = 0;
        for _ in 0..200 {
            now += 1_000_000;
            release.hold(now, 1, &[0; 64]);
            release.take(now + 400_000, |_, _| ());
        }
        assert_eq!(release.clocks(), 1);
        assert!(release.hold(now + 1_000_000, 1, &[1; 64]), "the clock holds it");
        // Far ahead of its beat, so that the clock is dropped; then a frame without a clock.
        let held = [2u8, 3].map(|n| release.hold(now + 1_000_001, 1, &[n; 64]));
        now += 1_000_000_000;
        assert!(release.hold(now, 1, &[4; 64]), "those before still wait");
        let mut left = vec![];
        while release.take(now + 10_000_000, |_, frame| left.push(frame[0])) {}
        assert_eq!((held, left), ([true; 2], vec![1, 2, 3, 4]));
        assert!(!release.hold(now + 1_000_000, 1, &[5; 64]));
    }

    #[test]
    fn intervals_count_past_fifty_days() {
        let mut histogram = Histogram::default();
        let days = u32::MAX.into();
        (histogram.counts[0], histogram.total) = (days, days);
        (0..10).for_each(|_| histogram.record(0));
        assert_eq!(histogram.per_mille(999), 1);
    }

    #[test]
    fn buffer_and_flows_are_bounded() {
        let mut release = Release::new(2_000_000);
        for n in 0..40u64 {
            for id in 0..200u32 {
                release.hold(n * 1_000_000 + u64::from(id), id, &[0; 64]);
            }
        }
        assert!(release.flows.len() <= FLOWS && release.waiting <= PLACES);
        let mut count = 0;
        while release.take(60_000_000_000, |_, _| ()) {
            count += 1;
        }
        assert!(count > 0 && release.due().is_none());
    }
}
