//! The flows in the status.

use antedate_wire::profinet::DataStatus as Octet;

use super::beat::{Beat, FORGOTTEN};
use super::identity::{Identity, Protocol};
use super::table::{PLACES, Table};
use crate::run::counters::Counter;
use crate::run::status::{DataStatus, Flow, Flows, Interval};
use crate::sys::thread;

/// The flows of both directions: out, then in. Those of trouble are first: stopped ones, then those
/// with the least margin. `None`: flows are not watched.
#[must_use]
pub fn document(tables: [&Table; 2]) -> Option<Flows> {
    at(thread::now(), tables)
}

/// [`document`] at this time.
pub(super) fn at(now: u64, tables: [&Table; 2]) -> Option<Flows> {
    let watchdog = tables[0].watchdog();
    if watchdog == 0 {
        return None;
    }
    let mut flows: Vec<Flow> = Vec::new();
    for (direction, table) in ["out", "in"].into_iter().zip(tables) {
        flows.extend(table.places.iter().filter_map(|beat| flow(beat, direction, now, watchdog)));
    }
    flows.sort_by(|a, b| b.stopped.cmp(&a.stopped).then(a.margin_percent.total_cmp(&b.margin_percent)));
    Some(Flows {
        watchdog_cycles: watchdog,
        limit: 2 * PLACES as u64,
        no_room: tables.iter().map(|table| table.no_room.get()).sum(),
        flows,
    })
}

/// The flow in a place. `None`: it is free, long forgotten, or changes hands.
fn flow(beat: &Beat, direction: &str, now: u64, watchdog: u64) -> Option<Flow> {
    let version = beat.version.get();
    let identity: Identity = beat.identity();
    let protocol = identity.protocol()?;
    let silent = now.saturating_sub(beat.last.get());
    let cycle = beat.cycle.get();
    if silent > FORGOTTEN {
        return None;
    }
    let bound = cycle.saturating_mul(watchdog).max(1);
    let longest = beat.longest.iter().map(Counter::get).max().unwrap_or_default();
    let margin = 100.0 * (1.0 - longest.max(cycle).max(silent) as f64 / bound as f64);
    let [to, from] = identity.addresses();
    let micro = |nanoseconds: u64| nanoseconds as f64 / 1e3;
    let flow = Flow {
        direction: direction.to_owned(),
        protocol: protocol.name().to_owned(),
        id: if protocol.has_id() { format!("{:04x}", identity.id()) } else { String::new() },
        source: from.to_string(),
        destination: to.to_string(),
        frames: beat.frames.get(),
        span_seconds: beat.last.get().saturating_sub(beat.first.get()) as f64 / 1e9,
        cycle_us: micro(cycle),
        jitter_us: micro(beat.jitter.get()),
        longest_us: micro(longest),
        margin_percent: margin.max(0.0),
        missed_cycles: beat.missed.get(),
        watchdog_expired: beat.expired.get(),
        silent_seconds: silent as f64 / 1e9,
        stopped: silent > bound,
        data_status: (protocol == Protocol::Profinet).then(|| data_status(beat.end.get())),
        intervals: beat
            .intervals
            .buckets()
            .map(|(below, count)| Interval { below_us: micro(below), count })
            .collect(),
    };
    (version.is_multiple_of(2) && beat.version.get() == version && flow.frames > 0).then_some(flow)
}

/// The APDU status: cycle counter, data status, transfer status.
fn data_status(end: u64) -> DataStatus {
    let [.., high, low, octet, _] = end.to_be_bytes();
    let status = Octet(octet);
    DataStatus {
        run: status.is_run(),
        valid: status.is_valid(),
        problem: status.has_problem(),
        primary: status.is_primary(),
        cycle_counter: u16::from_be_bytes([high, low]),
    }
}

impl Flow {
    /// Whether consumers have lost this flow, or its data is not good: a bus error.
    #[must_use]
    pub fn has_bus_error(&self) -> bool {
        let bad = |status: &DataStatus| !status.run || !status.valid || status.problem;
        self.stopped || self.data_status.as_ref().is_some_and(bad)
    }

    /// A short name: `profinet-rt 8001 from 02:00:5e:00:00:01`.
    #[must_use]
    pub fn name(&self) -> String {
        let id = if self.id.is_empty() { String::new() } else { format!(" {}", self.id) };
        format!("{}{id} from {}", self.protocol, self.source)
    }
}
