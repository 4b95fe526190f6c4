//! A witness of the machine: notices when its core was not to be had.
//!
//! A virtual machine's cores are taken away for milliseconds now and then, and so is any core by what runs on it.
//! Nobody between two stations is to blame for what is late then. The witness sleeps for a known time, over and
//! over, at the stations' own priority on their own core, and reports when it woke too late.

use std::sync::atomic::Ordering;

use super::meter::Sample;
use super::shared::{Samples, Shared};
use crate::sys::clock::{monotonic_ns, sleep_until};

/// A shorter sleep would itself cost too much of the core.
const SHORTEST_NS: u64 = 250_000;

/// A shorter delay is what waking up takes here and there; whoever asks adds the longer ones up.
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
