//! Real-time scheduling of the stations: asked for, and told as what the kernel granted.

use serde::{Deserialize, Serialize};

use crate::sys::sched;

/// What a station asks of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Realtime {
    /// `SCHED_FIFO`, locked memory and tight timers where permitted.
    pub wanted: bool,
    /// Priority of the thread that receives.
    pub consumer_priority: i32,
    /// Priority of the thread that sends: below the consumer's, since it spins.
    pub provider_priority: i32,
    /// Cores to run on; none: wherever the parent may.
    pub cpus: Vec<usize>,
}

impl Default for Realtime {
    /// Above what a gateway is given as a rule (20): in a plant a station is a machine of its own, which no polling
    /// gateway keeps from sending.
    fn default() -> Self {
        Self { wanted: true, consumer_priority: 31, provider_priority: 30, cpus: Vec::new() }
    }
}

/// A thread with a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// Receives.
    Consumer,
    /// Sends on time.
    Provider,
}

impl Realtime {
    /// Pins and schedules the calling thread; says what is in force.
    pub fn apply(&self, thread: Thread) -> String {
        let mut said = Vec::new();
        if !self.cpus.is_empty() {
            said.push(match sched::pin(&self.cpus) {
                Ok(()) => format!("on core {}", list(&self.cpus)),
                Err(error) => format!("not pinned ({error})"),
            });
        }
        sched::tighten_timers();
        if self.wanted {
            let priority = match thread {
                Thread::Consumer => self.consumer_priority,
                Thread::Provider => self.provider_priority,
            };
            said.push(match sched::fifo(priority) {
                Ok(()) => format!("SCHED_FIFO {priority}"),
                Err(error) => format!("ordinary scheduling ({error})"),
            });
        }
        said.join(", ")
    }

    /// Locks the process's memory; says what is in force.
    #[must_use]
    pub fn lock_memory(&self) -> String {
        if !self.wanted {
            return "ordinary scheduling, memory not locked (not asked for)".into();
        }
        match sched::lock_memory() {
            Ok(()) => "memory locked".into(),
            Err(error) => format!("memory not locked ({error})"),
        }
    }
}

/// Core numbers as people write them.
#[must_use]
pub fn list(cpus: &[usize]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
