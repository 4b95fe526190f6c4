//! Witnesses of the machine: when a core was not to be had, whatever ran on it.
//!
//! A virtual machine's cores are taken away for milliseconds now and then, and what is late then says nothing of the path
//! under test. A thread on each core sleeps for a known time, over and over, above everything that is measured, and
//! notes when it woke too late. A shorter stall than its sleep may stay unnoticed, and then counts against the path.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::sys::clock::{monotonic_ns, sleep_until};
use crate::sys::sched;

/// Above the machines and gateways.
const PRIORITY: i32 = 40;
const PERIOD_NS: u64 = 250_000;
/// What waking up takes here and there is no stall.
const NOTABLE_NS: u64 = 100_000;
/// After a stall what waited is worked off.
const AFTER_NS: u64 = 1_000_000;

/// Threads that watch, one on each core.
pub(in crate::experiment) struct Witnesses {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<(u64, u64)>>>,
}

/// When cores stood still: from, to, by the monotonic clock.
#[derive(Clone, Debug, Default)]
pub(in crate::experiment) struct Stalls(Vec<(u64, u64)>);

impl Witnesses {
    pub(in crate::experiment) fn watch() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let watch = |cpu: usize| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                // Where it is not permitted, more is noticed than happened, and told.
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

    pub(in crate::experiment) fn end(self) -> Stalls {
        self.stop.store(true, Ordering::Relaxed);
        let found = self.threads.into_iter().filter_map(|thread| thread.join().ok());
        Stalls(found.flatten().collect())
    }
}

impl Stalls {
    /// Whether a core stood still at any time between `from` and `to`.
    pub(in crate::experiment) fn struck(&self, from: u64, to: u64) -> bool {
        self.0.iter().any(|&(begin, end)| begin < to && from < end)
    }

    /// How many there were, of all cores.
    pub(in crate::experiment) fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_struck_by_a_stall_between_its_sending_and_its_arrival() {
        let stalls = Stalls(vec![(100, 200), (500, 600)]);
        assert!(stalls.struck(150, 160) && stalls.struck(190, 300) && stalls.struck(0, 101));
        assert!(!stalls.struck(200, 500) && !stalls.struck(0, 100) && !stalls.struck(600, 700));
    }
}
