//! Detects when the station's core was withheld.
//!
//! A hypervisor takes cores away for milliseconds, and so do other processes. Delays in such a time
//! are no fault of the path. The witness sleeps for a known time at the stations' priority on their
//! core and reports late wake-ups.

use std::sync::atomic::Ordering;

use super::meter::Sample;
use super::shared::{Samples, Shared};
use crate::sys::clock::{monotonic_ns, sleep_until};

/// A shorter sleep would load the core too much.
const SHORTEST_NS: u64 = 250_000;

/// A shorter delay of a wake-up is normal.
const NOTABLE_NS: u64 = 100_000;

/// Watches until the station stops.
pub(super) fn watch(cycle_ns: u64, shared: &Shared, samples: &Samples<'_>) {
    let period = (cycle_ns / 8).max(SHORTEST_NS);
    let mut due = monotonic_ns() + period;
    while !shared.stop.load(Ordering::Relaxed) {
        sleep_until(due);
        let now = monotonic_ns();
        if now.saturating_sub(due) > NOTABLE_NS {
            samples.push(Sample::Stalled { from_ns: due, to_ns: now });
        }
        due = now.max(due) + period;
    }
}
