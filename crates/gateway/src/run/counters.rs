//! What the data path counts. Each counter has one writer, the thread of its direction; anyone may read.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::policy::Class;

/// A number that only its own thread raises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Raises it by one.
    #[inline]
    pub fn count(&self) {
        self.add(1);
    }

    /// Raises it. There is one writer, so that no locked instruction is needed.
    #[inline]
    pub fn add(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    /// Sets it, for values that are not counted but shown. Who reads it sees what was set before it, too.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    /// Its value now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// What happened to the frames of one direction.
#[derive(Debug)]
pub struct PathCounters {
    /// Frames taken from the port, a super-frame as one.
    pub received: Counter,
    /// Their octets.
    pub octets_received: Counter,
    /// Frames given to the other port.
    pub sent: Counter,
    /// Their octets.
    pub octets_sent: Counter,
    /// Frames refused because the other port does not carry their length.
    pub too_long: Counter,
    /// Frames refused by the secure channel.
    pub not_protected: Counter,
    /// Frames sent in the express channel.
    pub express: Counter,
    /// Frames refused because too many wait for the uplink's rate.
    pub bulk_full: Counter,
    /// Frames whose checksum was finished here.
    pub checksums_completed: Counter,
    /// Super-frames cut into segments.
    pub super_frames: Counter,
    /// Frames that left joined to super-frames.
    pub joined: Counter,
    /// Frames refused because their offload is of an unknown kind.
    pub unsupported_offload: Counter,
    /// Frames that came truncated, since the kernel had no room for them whole.
    pub truncated: Counter,
    /// Frames that the kernel dropped because this thread was too slow.
    pub overruns: Counter,
    /// Frames that the other port's queue had no room for.
    pub queue_full: Counter,
    /// Frames lost because the other port's link was down.
    pub link_down: Counter,
    /// Frames that could not be sent for another reason.
    pub send_failed: Counter,
    /// Frames that the policy passed, by class.
    pub passed: [Counter; Class::COUNT],
    /// Frames that the policy refused, by class.
    pub refused: [Counter; Class::COUNT],
    /// Frames that each rule of the policy decided.
    pub rules: Box<[Counter]>,
}

impl PathCounters {
    /// All zero, for a policy with so many rules.
    #[must_use]
    pub fn new(rules: usize) -> Self {
        Self {
            received: Counter::default(),
            octets_received: Counter::default(),
            sent: Counter::default(),
            octets_sent: Counter::default(),
            too_long: Counter::default(),
            not_protected: Counter::default(),
            express: Counter::default(),
            bulk_full: Counter::default(),
            checksums_completed: Counter::default(),
            super_frames: Counter::default(),
            joined: Counter::default(),
            unsupported_offload: Counter::default(),
            truncated: Counter::default(),
            overruns: Counter::default(),
            queue_full: Counter::default(),
            link_down: Counter::default(),
            send_failed: Counter::default(),
            passed: Default::default(),
            refused: Default::default(),
            rules: (0..rules).map(|_| Counter::default()).collect(),
        }
    }
}
