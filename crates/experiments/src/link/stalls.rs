//! Detects when a core of this machine was withheld.
//!
//! A hypervisor takes cores away for milliseconds, and delays in this time say nothing about the
//! measured path. A thread per core sleeps for a known time at a priority above all others and
//! notes late wake-ups. A stall shorter than its sleep can stay undetected and then counts against
//! the path.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use antedate_lab::sys::clock::{monotonic_ns, sleep_until};
use antedate_lab::sys::sched;

/// Above the machines and gateways.
const PRIORITY: i32 = 40;
const PERIOD_NS: u64 = 250_000;
/// A shorter delay of a wake-up is no stall.
const NOTABLE_NS: u64 = 100_000;
/// After a stall the backlog is processed.
const AFTER_NS: u64 = 1_000_000;

/// One watching thread per core.
pub(crate) struct Witnesses {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<(u64, u64)>>>,
}

/// Stalls of cores: begin and end by the monotonic clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stalls(Vec<(u64, u64)>);

impl Witnesses {
    pub(crate) fn watch() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let watch = |cpu: usize| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                // Without the permission it reports more stalls than there are.
                let _ = sched::pin(&[cpu]);
                let _ = sched::fifo(PRIORITY);
                sched::tighten_timers();
                let (mut stalls, mut due) = (Vec::new(), monotonic_ns() + PERIOD_NS);
                while !stop.load(Ordering::Relaxed) {
                    sleep_until(due);
                    let now = monotonic_ns();
                    if now.saturating_sub(due) > NOTABLE_NS {
                        stalls.push((due - PERIOD_NS, now + AFTER_NS));
                    }
                    due = now.max(due) + PERIOD_NS;
                }
                stalls
            })
        };
        let threads = sched::allowed_cpus().into_iter().map(watch).collect();
        Self { stop, threads }
    }

    pub(crate) fn end(self) -> Stalls {
        self.stop.store(true, Ordering::Relaxed);
        let found = self.threads.into_iter().filter_map(|thread| thread.join().ok());
        Stalls(found.flatten().collect())
    }
}

impl Stalls {
    /// Whether a core stalled between `from` and `to`.
    pub(crate) fn struck(&self, from: u64, to: u64) -> bool {
        self.0.iter().any(|&(begin, end)| begin < to && from < end)
    }

    /// Number of stalls of all cores.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stall_during_transit_strikes_frame() {
        let stalls = Stalls(vec![(100, 200), (500, 600)]);
        assert!(stalls.struck(150, 160) && stalls.struck(190, 300) && stalls.struck(0, 101));
        assert!(!stalls.struck(200, 500) && !stalls.struck(0, 100) && !stalls.struck(600, 700));
    }
}
