//! The counters of all forwarding threads, and their sums.

use std::sync::Arc;

use crate::config::policy::Class;
use crate::run::counters::{Counter, PathCounters};
use crate::run::flows;

/// The counters of each thread that has its own, out and in.
#[derive(Debug)]
pub struct Tally(Vec<[Arc<PathCounters>; 2]>);

impl Tally {
    /// Zeroes for so many threads, one at least. Flows are watched for so many cycles.
    #[must_use]
    pub fn new(threads: usize, watchdog_cycles: u64) -> Self {
        let tally = Self((0..threads.max(1)).map(|_| Default::default()).collect());
        tally.watch(watchdog_cycles);
        tally
    }

    /// The counters of a thread, out and in.
    #[must_use]
    pub fn of(&self, thread: usize) -> [Arc<PathCounters>; 2] {
        self.0.get(thread).cloned().unwrap_or_default()
    }

    /// Sets the cycles without a frame that consumers tolerate, see [`flows::Table::watch`].
    pub fn watch(&self, cycles: u64) {
        self.0.iter().flatten().for_each(|counters| counters.flows.watch(cycles));
    }

    /// The sums of this moment, out and in. Those of one thread are its counters.
    #[must_use]
    pub fn totals(&self) -> [Arc<PathCounters>; 2] {
        match &self.0[..] {
            [alone] => alone.clone(),
            all => [0, 1].map(|way| Arc::new(sum(all.iter().map(|counters| &*counters[way])))),
        }
    }
}

fn sum<'a>(parts: impl Iterator<Item = &'a PathCounters> + Clone) -> PathCounters {
    let total = PathCounters {
        flows: flows::Table::merged(parts.clone().map(|part| &part.flows)),
        ..PathCounters::default()
    };
    for part in parts {
        for (total, counter) in counts(&total).zip(counts(part)) {
            total.add(counter.get());
        }
        // Addresses: of one of the threads that have one.
        for (total, last) in [(&total.flooder, &part.flooder), (&total.forger, &part.forger)] {
            if last.get() != 0 {
                total.set(last.get());
            }
        }
    }
    total
}

/// All that is counted, in one order.
fn counts(counters: &PathCounters) -> impl Iterator<Item = &Counter> {
    // Without `..`, so that none is forgotten.
    let PathCounters {
        received,
        octets_received,
        sent,
        octets_sent,
        too_long,
        not_protected,
        express,
        bulk_full,
        checksums_completed,
        super_frames,
        joined,
        unsupported_offload,
        over_limit,
        storm_broadcast,
        storm_multicast,
        storm_unknown,
        storm_limit,
        flooder: _,
        blocked,
        stale,
        truncated,
        overruns,
        urgent_overruns,
        queue_full,
        link_down,
        send_failed,
        forged,
        forger: _,
        own_sci,
        outer_priorities_differ,
        ptp_corrected,
        ptp_signed,
        ptp_implausible,
        passed,
        refused,
        flows: _,
    } = counters;
    let classes: [&[Counter; Class::COUNT]; 2] = [passed, refused];
    [
        received,
        octets_received,
        sent,
        octets_sent,
        too_long,
        not_protected,
        express,
        bulk_full,
        checksums_completed,
        super_frames,
        joined,
        unsupported_offload,
        over_limit,
        storm_broadcast,
        storm_multicast,
        storm_unknown,
        storm_limit,
        blocked,
        stale,
        truncated,
        overruns,
        urgent_overruns,
        queue_full,
        link_down,
        send_failed,
        forged,
        own_sci,
        outer_priorities_differ,
        ptp_corrected,
        ptp_signed,
        ptp_implausible,
    ]
    .into_iter()
    .chain(classes.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::policy::Traffic;

    #[test]
    fn counters_of_threads_are_summed() {
        let tally = Tally::new(3, 3);
        for thread in 0..3 {
            let [out, inward] = tally.of(thread);
            for (number, counter) in (0u64..).zip(counts(&out)) {
                counter.add(number * 10 + thread as u64);
            }
            inward.sent.add(7);
        }
        tally.of(1)[0].flooder.set(5);
        let [out, inward] = tally.totals();
        for (number, counter) in (0u64..).zip(counts(&out)) {
            assert_eq!(counter.get(), 3 * number * 10 + 3, "{number}");
        }
        assert_eq!((inward.sent.get(), inward.received.get(), out.flooder.get()), (21, 0, 5));
    }

    #[test]
    fn one_thread_shows_its_own_counters() {
        let tally = Tally::new(1, 3);
        let [out, inward] = tally.of(0);
        let totals = tally.totals();
        assert!(Arc::ptr_eq(&out, &totals[0]) && Arc::ptr_eq(&inward, &totals[1]));
    }

    #[test]
    fn flow_that_moved_is_shown_once() {
        let tally = Tally::new(2, 3);
        let class = Class::Named(Traffic::ProfinetRt);
        let frame =
            |id: u8| [&[1, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x88, 0x92, 0x80, id][..], &[0; 44]].concat();
        let hear = |thread: usize, id: u8, from: u64| {
            for cycle in 0..20 {
                tally.of(thread)[0].flows.hear(from + cycle * 1_000_000, class, &frame(id));
            }
        };
        let start = crate::sys::thread::now();
        hear(0, 1, start);
        hear(0, 2, start);
        hear(1, 1, start + 30_000_000);
        hear(1, 3, start);
        let [out, inward] = tally.totals();
        let shown = flows::report::document([&out.flows, &inward.flows]).unwrap().flows;
        let mut ids: Vec<_> = shown.iter().map(|flow| (&*flow.id, flow.direction.as_str())).collect();
        ids.sort_unstable();
        assert_eq!(ids, [("8001", "out"), ("8002", "out"), ("8003", "out")]);
    }
}
