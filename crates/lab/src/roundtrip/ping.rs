//! The meter: one request at a time, paced or back to back.

use std::ops::Range;

use antedate_wire::EthernetAddress;
use serde::{Deserialize, Serialize};

use super::{Kind, MIN_FRAME_LEN};
use crate::histogram::{Summary, Times};
use crate::output::Output;
use crate::realtime::{Realtime, Thread};
use crate::station::StationError;
use crate::sys::clock::{monotonic_ns, pace_until};
use crate::sys::packet::{self, PacketSocket};
use crate::sys::{sched, signal};

/// Options of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The interface.
    pub interface: String,
    /// The responder's address.
    pub destination: String,
    /// Form of requests.
    pub kind: Kind,
    /// Octets of a frame without frame check sequence, [`MIN_FRAME_LEN`] to [`Kind::max_frame_len`].
    pub frame_bytes: usize,
    /// Interval of requests in microseconds; 0: back to back.
    pub interval_us: u32,
    /// Additional nanoseconds between requests, so they do not synchronise with the kernel's timer
    /// ticks.
    pub drift_ns: u32,
    /// Measured round trips.
    pub count: u64,
    /// Round trips before the measurement.
    pub warm_up: u64,
    /// Seconds after which the measurement ends with fewer round trips; 0: it has no bound. The
    /// warm-up takes a third of them at most.
    pub longest_s: u32,
    /// Time-out of an answer.
    pub timeout_ms: u32,
    /// Polls and yields the core instead of sleeping on the socket.
    pub poll: bool,
    /// Microseconds before each due time at which the meter wakes and spins.
    pub spin_us: u32,
    /// Reports every value that occurred in addition to percentiles.
    pub histogram: bool,
    /// Scheduling.
    pub realtime: Realtime,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interface: "eth0".into(),
            destination: "02:00:5e:00:00:02".into(),
            kind: Kind::default(),
            frame_bytes: 64,
            interval_us: 0,
            drift_ns: 0,
            count: 20_000,
            warm_up: 1_000,
            longest_s: 0,
            timeout_ms: 100,
            poll: false,
            spin_us: 20,
            histogram: false,
            realtime: Realtime::default(),
        }
    }
}

/// Result of a measurement. Field names are stable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Requests sent, without the warm-up.
    pub sent: u64,
    /// Requests without an answer in time.
    pub lost: u64,
    /// Answers that came after their time-out.
    pub late: u64,
    /// Octets of a frame.
    pub frame_bytes: usize,
    /// The pace; 0: back to back.
    pub interval_us: u32,
    /// Polling instead of sleeping.
    pub poll: bool,
    /// Granted real-time measures.
    pub in_force: String,
    /// Duration in seconds.
    pub seconds: f64,
    /// The round trips.
    pub round_trip_us: Summary,
    /// Values in nanoseconds and their counts, if [`Options::histogram`] is set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram_ns: Vec<(u64, u64)>,
}

/// Measures. SIGTERM, or the end of [`Options::longest_s`], ends it early with the results so far.
pub fn run(options: Options, _output: &mut Output) -> Result<Report, StationError> {
    let failed = |error| StationError::Socket { interface: options.interface.clone(), error };
    let longest = options.kind.max_frame_len();
    if !(MIN_FRAME_LEN..=longest).contains(&options.frame_bytes) {
        let text =
            format!("a frame of {} bytes: {MIN_FRAME_LEN} to {longest} are possible", options.frame_bytes);
        return Err(StationError::Option(text));
    }
    let to: EthernetAddress = options.destination.parse().map_err(|_| {
        StationError::Option(format!("`{}` is no MAC address (02:00:5e:00:00:02)", options.destination))
    })?;
    let socket_options = packet::Options {
        protocol: options.kind.ethertype().number(),
        receive_timeout_us: options.timeout_ms.max(1).saturating_mul(1_000),
        ..packet::Options::default()
    };
    let socket = PacketSocket::open(&options.interface, socket_options).map_err(failed)?;
    let from = EthernetAddress(socket.address());
    let frame = options
        .kind
        .request(from, to, options.frame_bytes)
        .ok_or_else(|| StationError::Option("the frame length is impossible".into()))?;
    let memory = options.realtime.lock_memory();
    let in_force = format!("{}, {memory}", options.realtime.apply(Thread::Consumer));

    let mut meter = Meter { options: &options, socket, frame, buffer: vec![0; 2048], lost: 0, late: 0 };
    let until = |part: u64| match u64::from(options.longest_s) * 1_000_000_000 {
        0 => u64::MAX,
        longest => monotonic_ns() + longest / part,
    };
    meter.series(0..options.warm_up, until(3), &mut Times::default()).map_err(failed)?;
    (meter.lost, meter.late) = (0, 0);
    let mut times = Times::default();
    let began = monotonic_ns();
    let measured = options.warm_up..options.warm_up + options.count;
    let sent = meter.series(measured, until(1), &mut times).map_err(failed)?;
    Ok(Report {
        sent,
        lost: meter.lost,
        late: meter.late,
        frame_bytes: options.frame_bytes,
        interval_us: options.interval_us,
        poll: options.poll,
        in_force,
        seconds: (monotonic_ns() - began) as f64 / 1e9,
        round_trip_us: times.summary(),
        histogram_ns: if options.histogram { times.recorded() } else { Vec::new() },
    })
}

struct Meter<'a> {
    options: &'a Options,
    socket: PacketSocket,
    frame: Vec<u8>,
    buffer: Vec<u8>,
    lost: u64,
    late: u64,
}

impl Meter<'_> {
    /// Measures the round trips of these numbers, but begins none after `until` on the monotonic
    /// clock, in nanoseconds. Returns how many were begun.
    fn series(&mut self, numbers: Range<u64>, until: u64, times: &mut Times) -> std::io::Result<u64> {
        let interval_ns = match u64::from(self.options.interval_us) * 1_000 {
            0 => 0,
            grid => grid + u64::from(self.options.drift_ns),
        };
        let spin_ns = u64::from(self.options.spin_us) * 1_000;
        let mut due = monotonic_ns() + interval_ns;
        let first = numbers.start;
        let count = numbers.end - first;
        for sequence in numbers {
            if interval_ns > 0 {
                while pace_until(due, spin_ns) < due && !signal::stopping() {}
                // After a lost answer the schedule continues from now, without a burst.
                due = (due + interval_ns).max(monotonic_ns());
            }
            let sent = monotonic_ns();
            if signal::stopping() || sent >= until {
                return Ok(sequence - first);
            }
            self.options.kind.stamp(&mut self.frame, sequence, sent);
            self.socket.send(&self.frame)?;
            match self.answer(sequence, sent)? {
                Some(at) => times.record(at - sent),
                None => self.lost += 1,
            }
        }
        Ok(count)
    }

    /// Arrival of the answer to `sequence`; `None` after the time-out.
    fn answer(&mut self, sequence: u64, sent: u64) -> std::io::Result<Option<u64>> {
        let deadline = sent + u64::from(self.options.timeout_ms) * 1_000_000;
        loop {
            let received = self.socket.receive(&mut self.buffer, !self.options.poll)?;
            let now = monotonic_ns();
            match received.and_then(|len| self.options.kind.read(&self.buffer[..len])) {
                Some((answered, _)) if answered == sequence => return Ok(Some(now)),
                Some(_) => self.late += 1,
                None => {}
            }
            if now >= deadline || signal::stopping() {
                return Ok(None);
            }
            if self.options.poll && received.is_none() {
                sched::yield_now();
            }
        }
    }
}
