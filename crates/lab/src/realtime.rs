//! Real-time scheduling of the stations, and the kernel's grants.

use serde::{Deserialize, Serialize};

use crate::sys::sched;

/// Requested scheduling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Realtime {
    /// `SCHED_FIFO`, locked memory and tight timers where permitted.
    pub wanted: bool,
    /// Priority of the thread that receives.
    pub consumer_priority: i32,
    /// Priority of the sending thread: below the consumer's, since it spins.
    pub provider_priority: i32,
    /// Allowed cores; empty means the parent's.
    pub cpus: Vec<usize>,
}

impl Default for Realtime {
    /// Priorities above the usual one of a gateway (20): a real station is a separate machine,
    /// which a polling gateway cannot delay.
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
    /// Pins and schedules the calling thread. Describes the result.
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

    /// Locks the process's memory. Describes the result.
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

/// Core numbers as text.
#[must_use]
pub fn list(cpus: &[usize]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
