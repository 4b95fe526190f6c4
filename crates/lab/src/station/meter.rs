//! Statistics of a consumer of cyclic data. They run on the process's ordinary thread; threads with
//! deadlines only pass samples on.
//!
//! - **interval**: between two valid new frames.
//! - **missed**: cycles without a valid new frame within the tolerance (half an update time) after
//!   its due time, counted from the frame before. A lost frame misses one cycle, and so does a
//!   frame 0.6 cycles late.
//! - **missed while stalled**: missed cycles in which the stations were stalled for an eighth of a
//!   cycle or more in all: a core was withheld (`witness`), or a station or its peer sent late. The
//!   machine caused these, not the path. The backlog of a stall counts for as long again, at most a
//!   cycle. Bus errors are separated in the same way.
//! - **lost**: never arrived. **late**: arrived beyond the tolerance.
//! - **one way**: arrival minus the sender's stamp. Both read the same `CLOCK_MONOTONIC`; between
//!   two machines this number means nothing.
//! - **sending**, **receiving**: the duration of the system call, as Codesys' statistics have it.
//! - **round trip**: now - own stamp that came back - its residence in the other station.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::edges::EdgeCounter;
use super::process_data::ProcessData;
use super::sequence::{Arrival, SequenceTracker};
use super::watchdog::Event;
use crate::histogram::{Summary, Times};

/// A report of a thread with a deadline.
#[derive(Clone, Copy, Debug)]
pub enum Sample {
    /// A valid frame.
    Frame {
        /// Arrival.
        at_ns: u64,
        /// Duration of the call that received it.
        took_ns: u64,
        /// Content.
        data: ProcessData,
    },
    /// An event of the watchdog.
    Watchdog {
        /// Time.
        at_ns: u64,
        /// The event.
        event: Event,
    },
    /// A frame from no station of this run.
    Refused(Refusal),
    /// A frame was sent.
    Sent {
        /// Time.
        at_ns: u64,
        /// Delay after the due time.
        late_ns: u64,
        /// Duration of the call that sent it.
        took_ns: u64,
    },
    /// The station's core was withheld.
    Stalled {
        /// Due time of the wake-up.
        from_ns: u64,
        /// Actual time.
        to_ns: u64,
    },
    /// Cycles without sending, because this station was too late.
    Skipped(u64),
    /// The kernel refused to send.
    SendFailed,
}

/// Why a received frame is not the peer's process data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Cyclic data with damaged content or form.
    Damaged,
    /// Cyclic data of another sender, connection or run: forged.
    Foreign,
    /// An EtherType that no station sends.
    Unexpected(u16),
}

/// Computes the results of one station.
#[derive(Debug)]
pub struct Meter {
    cycle_ns: u64,
    tolerance_ns: u64,
    last: Option<Last>,
    /// Gaps with missed cycles: from, to, cycles.
    gaps: Vec<(u64, u64, u64)>,
    /// Stalls of this station or its peer: from, to.
    stalls: Vec<(u64, u64)>,
    last_interval_ns: u64,
    finished: bool,
    frozen: bool,
    tracker: SequenceTracker,
    edges: EdgeCounter,
    intervals: Times,
    one_way: Times,
    round_trip: Times,
    /// The longest round trip since the last line of the live view.
    recent_round_trip_ns: u64,
    send_lateness: Times,
    sending: Times,
    receiving: Times,
    counts: Counts,
    outages: Vec<Outage>,
    unexpected: BTreeMap<u16, u64>,
}

/// The newest frame.
#[derive(Clone, Copy, Debug)]
struct Last {
    at_ns: u64,
    sent_ns: u64,
    sequence: u32,
}

/// Counters of a station. Field names are stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Frames sent.
    pub sent: u64,
    /// Cycles in which this station was too late to send.
    pub skipped_cycles: u64,
    /// Frames that the kernel refused.
    pub send_errors: u64,
    /// Valid frames received, duplicates included.
    pub received: u64,
    /// Cycles without a valid frame in time.
    pub missed: u64,
    /// Missed cycles during a station's stall.
    pub missed_stalled: u64,
    /// Late frames.
    pub late: u64,
    /// Lost frames.
    pub lost: u64,
    /// Repeated frames.
    pub duplicated: u64,
    /// Frames behind a newer one.
    pub reordered: u64,
    /// Cyclic frames with damaged content.
    pub damaged: u64,
    /// Cyclic frames of another connection.
    pub foreign: u64,
    /// Frames of an EtherType that no station sends.
    pub unexpected: u64,
    /// Three update times without valid data.
    pub bus_errors: u64,
    /// Bus errors during a station's stall.
    pub bus_errors_stalled: u64,
    /// Longest stall of this station's core in microseconds; 0: none worth mentioning.
    pub longest_stall_us: u64,
    /// Ended bus errors.
    pub recoveries: u64,
    /// Samples lost before the statistics. If not 0, the other counters are too small.
    pub samples_dropped: u64,
}

impl Counts {
    /// Whether the peer's frames came in at least half of the cycles. Cycles count from the first
    /// frame on, so a station without any misses none.
    #[must_use]
    pub fn heard(&self, cycles: u64) -> bool {
        self.received > 0 && self.received + self.missed >= cycles / 2
    }
}

/// A bus error and its end, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// Last valid frame before it.
    pub silent_since_ns: u64,
    /// Expiry of the watchdog.
    pub detected_ns: u64,
    /// First valid frame after it.
    pub recovered_ns: Option<u64>,
}

/// Rising edges of the toggling bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edges {
    /// Seen by this station.
    pub seen: u16,
    /// Made by the peer in the same time.
    pub announced: u16,
    /// Seen equals announced.
    pub agree: bool,
}

/// Results of a station. Field names are stable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Counters.
    #[serde(flatten)]
    pub counts: Counts,
    /// The toggling bit of the peer.
    pub edges: Edges,
    /// Bus errors one by one, the first thousand.
    pub outages: Vec<Outage>,
    /// Frames by unexpected EtherType.
    pub unexpected_ethertypes: BTreeMap<String, u64>,
    /// Between two valid new frames.
    pub interval_us: Summary,
    /// Arrival minus the sender's stamp.
    pub one_way_us: Summary,
    /// Both ways, without the time in the other station.
    pub round_trip_us: Summary,
    /// Delay of sending after the due time.
    pub send_lateness_us: Summary,
    /// Duration of the call that sends a frame.
    #[serde(default)]
    pub sending_us: Summary,
    /// Duration of the call that receives a frame, once it is there.
    #[serde(default)]
    pub receiving_us: Summary,
}

/// A line of the live view.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// Counters so far.
    #[serde(flatten)]
    pub counts: Counts,
    /// The last interval.
    pub interval_us: f64,
    /// 99th percentile of the intervals.
    pub interval_p99_us: f64,
    /// The longest interval.
    pub interval_max_us: f64,
    /// Median round trip.
    pub round_trip_p50_us: f64,
    /// 99th percentile of the round trips.
    pub round_trip_p99_us: f64,
    /// The longest round trip since the last line.
    pub round_trip_recent_us: f64,
}

const MOST_OUTAGES: usize = 1_000;
/// Remembered gaps and stalls; beyond this number causes are not separated.
const MOST_GAPS: usize = 10_000;
/// Stalls of one cycle in this many parts explain a missed cycle.
const STALLED_CYCLE_PART: u64 = 8;

impl Meter {
    /// A meter of frames every `cycle_ns`.
    #[must_use]
    pub fn new(cycle_ns: u64) -> Self {
        Self {
            cycle_ns: cycle_ns.max(1),
            tolerance_ns: cycle_ns / 2,
            last: None,
            gaps: Vec::new(),
            stalls: Vec::new(),
            last_interval_ns: 0,
            finished: false,
            frozen: false,
            tracker: SequenceTracker::default(),
            edges: EdgeCounter::default(),
            intervals: Times::default(),
            one_way: Times::default(),
            round_trip: Times::default(),
            recent_round_trip_ns: 0,
            send_lateness: Times::default(),
            sending: Times::default(),
            receiving: Times::default(),
            counts: Counts::default(),
            outages: Vec::new(),
            unexpected: BTreeMap::new(),
        }
    }

    /// Takes one sample.
    pub fn apply(&mut self, sample: Sample) {
        match sample {
            Sample::Frame { at_ns, took_ns, data } => {
                if !self.frozen {
                    self.receiving.record(took_ns);
                }
                self.frame(at_ns, &data);
            }
            Sample::Watchdog { at_ns, event } => self.watchdog(at_ns, event),
            Sample::Refused(Refusal::Damaged) => self.counts.damaged += 1,
            Sample::Refused(Refusal::Foreign) => self.counts.foreign += 1,
            Sample::Refused(Refusal::Unexpected(ethertype)) => {
                self.counts.unexpected += 1;
                *self.unexpected.entry(ethertype).or_default() += 1;
            }
            Sample::Sent { at_ns, late_ns, took_ns } => {
                self.counts.sent += 1;
                if !self.frozen {
                    self.sending.record(took_ns);
                    self.send_lateness.record(late_ns);
                }
                if late_ns > self.tolerance_ns {
                    self.stalled(at_ns - late_ns, at_ns);
                }
            }
            Sample::Stalled { from_ns, to_ns } => self.stalled(from_ns, to_ns),
            Sample::Skipped(cycles) => self.counts.skipped_cycles += cycles,
            Sample::SendFailed => self.counts.send_errors += 1,
        }
    }

    /// Stops the histograms; counters continue.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Sets the number of samples lost before the meter.
    pub fn set_dropped(&mut self, dropped: u64) {
        self.counts.samples_dropped = dropped;
    }

    fn frame(&mut self, at_ns: u64, data: &ProcessData) {
        self.counts.received += 1;
        let arrival = self.tracker.accept(data.sequence);
        self.counts.lost = self.tracker.lost();
        match arrival {
            Arrival::Newest { .. } => {}
            Arrival::Reordered => return self.counts.reordered += 1,
            Arrival::Duplicate | Arrival::Ancient => return self.counts.duplicated += 1,
        }
        if self.finished {
            return;
        }
        self.finished = data.stopping;
        self.edges.observe(data.toggle, data.edges);
        if !self.frozen {
            self.one_way.record(at_ns.saturating_sub(data.sent_ns));
        }
        if let Some(echo) = data.echo.filter(|_| !self.frozen) {
            let away = at_ns.saturating_sub(echo.sent_ns);
            let round_trip = away.saturating_sub(u64::from(echo.residence_ns));
            self.round_trip.record(round_trip);
            self.recent_round_trip_ns = self.recent_round_trip_ns.max(round_trip);
        }
        if let Some(last) = self.last {
            let interval = at_ns.saturating_sub(last.at_ns);
            self.last_interval_ns = interval;
            if !self.frozen {
                self.intervals.record(interval);
            }
            let missed = interval.saturating_sub(self.tolerance_ns) / self.cycle_ns;
            self.counts.missed += missed;
            let due = u64::from(data.sequence.wrapping_sub(last.sequence)).saturating_mul(self.cycle_ns);
            self.counts.late += u64::from(interval > due.saturating_add(self.tolerance_ns));
            if missed > 0 {
                if self.gaps.len() < MOST_GAPS {
                    self.gaps.push((last.at_ns, at_ns, missed));
                }
                // A peer that sent late was stalled meanwhile.
                let sent_after = data.sent_ns.saturating_sub(last.sent_ns);
                if sent_after > due.saturating_add(self.tolerance_ns) {
                    self.note_stall(last.at_ns, at_ns);
                }
            }
        }
        self.last = Some(Last { at_ns, sent_ns: data.sent_ns, sequence: data.sequence });
    }

    /// Notes a stall of a station.
    pub fn note_stall(&mut self, from_ns: u64, to_ns: u64) {
        if self.stalls.len() < MOST_GAPS {
            self.stalls.push((from_ns, to_ns));
        }
    }

    fn stalled(&mut self, from_ns: u64, to_ns: u64) {
        self.note_stall(from_ns, to_ns);
        self.counts.longest_stall_us = self.counts.longest_stall_us.max((to_ns - from_ns) / 1_000);
    }

    /// The counters, with those during a stall. A stall is known only at its end, often after the
    /// frame in question, so this is computed on request.
    fn counts(&self) -> Counts {
        let stalled =
            |from: u64, to: u64| self.stalled_within(from, to) >= self.cycle_ns / STALLED_CYCLE_PART;
        let gaps = self.gaps.iter().filter(|&&(from, to, _)| stalled(from, to));
        let outages =
            self.outages.iter().filter(|outage| stalled(outage.silent_since_ns, outage.detected_ns));
        Counts {
            missed_stalled: gaps.map(|(_, _, missed)| missed).sum(),
            bus_errors_stalled: outages.count() as u64,
            ..self.counts.clone()
        }
    }

    /// Nanoseconds of stalls and their backlog between two times.
    fn stalled_within(&self, from_ns: u64, to_ns: u64) -> u64 {
        let part = |&(from, to): &(u64, u64)| {
            let over = to + to.saturating_sub(from).min(self.cycle_ns);
            over.min(to_ns).saturating_sub(from.max(from_ns))
        };
        self.stalls.iter().map(part).sum()
    }

    fn watchdog(&mut self, at_ns: u64, event: Event) {
        match event {
            Event::BusError { silent_since_ns } => {
                self.counts.bus_errors += 1;
                if self.outages.len() < MOST_OUTAGES {
                    self.outages.push(Outage { silent_since_ns, detected_ns: at_ns, recovered_ns: None });
                }
            }
            Event::Recovered { .. } => {
                self.counts.recoveries += 1;
                if let Some(outage) = self.outages.last_mut().filter(|outage| outage.recovered_ns.is_none()) {
                    outage.recovered_ns = Some(at_ns);
                }
            }
        }
    }

    /// Counts an outage that lasts at the end of the measurement.
    pub fn end(&mut self, at_ns: u64) {
        if let (Some(last), false) = (self.last, self.finished) {
            self.counts.missed +=
                at_ns.saturating_sub(last.at_ns).saturating_sub(self.tolerance_ns) / self.cycle_ns;
        }
        self.finished = true;
    }

    /// The line of the live view. The next one's recent times begin here.
    #[must_use]
    pub fn live(&mut self) -> Live {
        Live {
            counts: self.counts(),
            interval_us: self.last_interval_ns as f64 / 1_000.0,
            interval_p99_us: self.intervals.percentile_us(99.0),
            interval_max_us: self.intervals.max_us(),
            round_trip_p50_us: self.round_trip.percentile_us(50.0),
            round_trip_p99_us: self.round_trip.percentile_us(99.0),
            round_trip_recent_us: std::mem::take(&mut self.recent_round_trip_ns) as f64 / 1_000.0,
        }
    }

    /// The report.
    #[must_use]
    pub fn measured(&self) -> Measured {
        let unexpected = self.unexpected.iter().map(|(ethertype, n)| (format!("0x{ethertype:04x}"), *n));
        Measured {
            counts: self.counts(),
            edges: Edges {
                seen: self.edges.seen(),
                announced: self.edges.announced(),
                agree: self.edges.agree(),
            },
            outages: self.outages.clone(),
            unexpected_ethertypes: unexpected.collect(),
            interval_us: self.intervals.summary(),
            one_way_us: self.one_way.summary(),
            round_trip_us: self.round_trip.summary(),
            send_lateness_us: self.send_lateness.summary(),
            sending_us: self.sending.summary(),
            receiving_us: self.receiving.summary(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::process_data::Echo;
    use super::*;

    const CYCLE: u64 = 1_000_000;

    fn frame(meter: &mut Meter, at_ns: u64, sequence: u32) {
        let data = ProcessData { sequence, sent_ns: at_ns.saturating_sub(10_000), ..ProcessData::default() };
        meter.apply(Sample::Frame { at_ns, took_ns: 2_000, data });
    }

    fn after(arrivals: &[(u64, u32)]) -> Counts {
        let mut meter = Meter::new(CYCLE);
        for &(at_tenths, sequence) in arrivals {
            frame(&mut meter, CYCLE * 10 + at_tenths * CYCLE / 10, sequence);
        }
        meter.measured().counts
    }

    #[test]
    fn calls_are_timed_until_the_freeze() {
        let mut meter = Meter::new(CYCLE);
        frame(&mut meter, CYCLE, 0);
        meter.apply(Sample::Sent { at_ns: CYCLE, late_ns: 0, took_ns: 3_000 });
        meter.freeze();
        frame(&mut meter, 2 * CYCLE, 1);
        meter.apply(Sample::Sent { at_ns: 2 * CYCLE, late_ns: 0, took_ns: 9_000 });
        let measured = meter.measured();
        assert_eq!((measured.sending_us.count, measured.receiving_us.count), (1, 1));
        assert!(
            (measured.sending_us.mean - 3.0).abs() < 0.1 && (measured.receiving_us.max - 2.0).abs() < 0.1
        );
    }

    #[test]
    fn half_cycle_jitter_misses_nothing() {
        let counts = after(&[(0, 0), (14, 1), (20, 2), (34, 3), (40, 4)]);
        assert_eq!((counts.missed, counts.late, counts.lost), (0, 0, 0));
    }

    #[test]
    fn lost_frame_is_not_late() {
        let counts = after(&[(0, 0), (10, 1), (30, 3), (40, 4)]);
        assert_eq!((counts.missed, counts.late, counts.lost), (1, 0, 1));
    }

    #[test]
    fn late_frame_is_not_lost() {
        let counts = after(&[(0, 0), (10, 1), (26, 2), (30, 3)]);
        assert_eq!((counts.missed, counts.late, counts.lost), (1, 1, 0));
    }

    #[test]
    fn half_the_cycles_must_be_heard() {
        let heard = |arrivals: &[(u64, u32)], cycles| after(arrivals).heard(cycles);
        assert!(!heard(&[], 0) && !heard(&[], 4));
        assert!(
            heard(&[(0, 0), (10, 1)], 4) && heard(&[(0, 0), (40, 4)], 10),
            "missed cycles are told as such"
        );
        assert!(!heard(&[(0, 0), (10, 1)], 6));
    }

    #[test]
    fn repeats_and_reorders_feed_no_interval() {
        let counts = after(&[(0, 0), (10, 1), (11, 1), (30, 3), (31, 2), (40, 4)]);
        assert_eq!((counts.duplicated, counts.reordered, counts.lost, counts.missed), (1, 1, 0, 1));
    }

    #[test]
    fn stall_explains_missed_cycle() {
        // The peer sent late.
        let mut meter = Meter::new(CYCLE);
        for (at_ns, sequence) in [(CYCLE, 0), (CYCLE * 4, 1)] {
            let data = ProcessData { sequence, sent_ns: at_ns, ..ProcessData::default() };
            meter.apply(Sample::Frame { at_ns, took_ns: 2_000, data });
        }
        let counts = meter.measured().counts;
        assert_eq!((counts.missed, counts.missed_stalled), (2, 2));

        // The peer sent on time; the frame and this station's own sending were late.
        let mut meter = Meter::new(CYCLE);
        for (at_ns, sequence) in [(CYCLE, 0), (CYCLE * 4, 1)] {
            let data =
                ProcessData { sequence, sent_ns: CYCLE * u64::from(sequence), ..ProcessData::default() };
            meter.apply(Sample::Frame { at_ns, took_ns: 2_000, data });
        }
        assert_eq!(meter.measured().counts.missed_stalled, 0, "nobody was stalled: the path's doing");
        let bus_error = Event::BusError { silent_since_ns: CYCLE };
        meter.apply(Sample::Watchdog { at_ns: CYCLE * 4, event: bus_error });
        meter.apply(Sample::Stalled { from_ns: CYCLE * 2, to_ns: CYCLE * 4 });
        let counts = meter.measured().counts;
        assert_eq!((counts.missed_stalled, counts.bus_errors_stalled), (2, 1));
        assert_eq!(counts.longest_stall_us, 2_000);
    }

    fn missed_beside(stalls: &[(u64, u64)]) -> u64 {
        let mut meter = Meter::new(CYCLE);
        for (at_ns, sequence) in [(CYCLE * 10, 0), (CYCLE * 12, 1)] {
            let sent_ns = CYCLE * u64::from(sequence);
            let data = ProcessData { sequence, sent_ns, ..ProcessData::default() };
            meter.apply(Sample::Frame { at_ns, took_ns: 2_000, data });
        }
        for &(from_ns, to_ns) in stalls {
            meter.apply(Sample::Stalled { from_ns, to_ns });
        }
        meter.measured().counts.missed_stalled
    }

    #[test]
    fn short_stalls_add_up() {
        let short = |n: u64| (CYCLE * 10 + n * CYCLE / 5, CYCLE * 10 + n * CYCLE / 5 + CYCLE / 50);
        assert_eq!(missed_beside(&[short(1)]), 0, "too short to explain anything");
        assert_eq!(missed_beside(&[short(1), short(2), short(3), short(4)]), 1);
    }

    #[test]
    fn backlog_of_stall_is_bounded() {
        let before = |cycles: u64| (CYCLE * (8 - cycles), CYCLE * (10 - cycles));
        assert_eq!(missed_beside(&[before(0)]), 1);
        assert_eq!(missed_beside(&[before(1)]), 0, "over by a cycle when the last frame came");
    }

    #[test]
    fn frozen_meter_still_counts() {
        let mut meter = Meter::new(CYCLE);
        frame(&mut meter, CYCLE, 0);
        frame(&mut meter, CYCLE * 2, 1);
        meter.freeze();
        frame(&mut meter, CYCLE * 5, 4);
        let measured = meter.measured();
        assert_eq!((measured.interval_us.count, measured.one_way_us.count), (1, 2));
        assert_eq!((measured.counts.received, measured.counts.lost), (3, 2));
    }

    #[test]
    fn final_silence_is_missed_without_stop() {
        let mut meter = Meter::new(CYCLE);
        frame(&mut meter, CYCLE, 0);
        meter.end(CYCLE * 11);
        assert_eq!(meter.measured().counts.missed, 9);

        let mut meter = Meter::new(CYCLE);
        let data = ProcessData { stopping: true, ..ProcessData::default() };
        meter.apply(Sample::Frame { at_ns: CYCLE, took_ns: 2_000, data });
        meter.end(CYCLE * 11);
        assert_eq!(meter.measured().counts.missed, 0);
    }

    #[test]
    fn round_trip_excludes_residence() {
        let mut meter = Meter::new(CYCLE);
        let echo = Some(Echo { sent_ns: 1_000_000, residence_ns: 400_000 });
        meter.apply(Sample::Frame {
            at_ns: 1_500_000,
            took_ns: 2_000,
            data: ProcessData { echo, ..ProcessData::default() },
        });
        let round_trip = meter.measured().round_trip_us;
        assert!((round_trip.p50 - 100.0).abs() < 0.2, "{round_trip:?}");
        let recent = [meter.live(), meter.live()].map(|live| live.round_trip_recent_us);
        assert!((recent[0] - 100.0).abs() < 0.2 && recent[1] < 0.2, "{recent:?}: of a line each");
    }

    #[test]
    fn outage_has_begin_and_end() {
        let mut meter = Meter::new(CYCLE);
        meter.apply(Sample::Watchdog { at_ns: 5, event: Event::BusError { silent_since_ns: 1 } });
        meter.apply(Sample::Watchdog { at_ns: 9, event: Event::Recovered { outage_ns: 8 } });
        let measured = meter.measured();
        assert_eq!(measured.outages, [Outage { silent_since_ns: 1, detected_ns: 5, recovered_ns: Some(9) }]);
        assert_eq!((measured.counts.bus_errors, measured.counts.recoveries), (1, 1));
    }
}
