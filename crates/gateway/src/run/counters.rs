//! Counters of the data path. Each has one writer, the thread of its direction; any thread may
//! read.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::policy::Class;
use crate::run::flows;

/// A number with one writing thread.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds one.
    #[inline]
    pub fn count(&self) {
        self.add(1);
    }

    /// Adds. With a single writer no locked instruction is needed.
    #[inline]
    pub fn add(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    /// Sets a value that is shown rather than counted. A reader of it also sees everything set
    /// before.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    /// The current value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The counters of one direction. Those of the rules are with the policy
/// (`frames/gate.rs`).
#[derive(Debug, Default)]
pub struct PathCounters {
    /// Frames received from the port, a super-frame as one.
    pub received: Counter,
    /// Their octets.
    pub octets_received: Counter,
    /// Frames sent to the other port.
    pub sent: Counter,
    /// Their octets.
    pub octets_sent: Counter,
    /// Frames longer than the other port's MTU.
    pub too_long: Counter,
    /// Frames refused by the secure channel.
    pub not_protected: Counter,
    /// Frames sent in the express channel.
    pub express: Counter,
    /// Frames dropped because too many wait for the uplink's rate.
    pub bulk_full: Counter,
    /// Frames whose checksum was completed.
    pub checksums_completed: Counter,
    /// Super-frames cut into segments.
    pub super_frames: Counter,
    /// Frames sent in super-frames.
    pub joined: Counter,
    /// Frames with an unknown kind of offload.
    pub unsupported_offload: Counter,
    /// Frames above the bounds of the policy: of a rule, of broadcast, of groups.
    pub over_limit: Counter,
    /// See [`Self::over_limit`].
    pub storm_broadcast: Counter,
    /// See [`Self::over_limit`].
    pub storm_multicast: Counter,
    /// Frames to a machine that did not speak, above their bound.
    pub storm_unknown: Counter,
    /// Frames of an overlay to groups or unknown machines, above its bound.
    pub storm_limit: Counter,
    /// The source address of the last of them.
    pub flooder: Counter,
    /// Frames that another gateway of the group forwards.
    pub blocked: Counter,
    /// Frames older than their bound when their turn came.
    pub stale: Counter,
    /// Frames truncated for lack of space in the kernel.
    pub truncated: Counter,
    /// Frames that the kernel dropped because this thread was too slow, and those of them with a
    /// deadline ([`crate::sys::lanes`]).
    pub overruns: Counter,
    /// See [`Self::overruns`].
    pub urgent_overruns: Counter,
    /// Frames that did not fit the other port's queue.
    pub queue_full: Counter,
    /// Frames lost because the other port's link was down.
    pub link_down: Counter,
    /// Frames that could not be sent for another reason.
    pub send_failed: Counter,
    /// Frames that look forged, and the source address of the last one.
    pub forged: Counter,
    /// See [`Self::forged`].
    pub forger: Counter,
    /// Protected frames with the own SCI.
    pub own_sci: Counter,
    /// Protected frames whose outer VLAN tag has another priority than their own one.
    pub outer_priorities_differ: Counter,
    /// PTP messages with the residence in this gateway in their correction.
    pub ptp_corrected: Counter,
    /// PTP messages without it, as nobody on the way may change them.
    pub ptp_signed: Counter,
    /// PTP messages that were dropped, as the clock was set while they were here.
    pub ptp_implausible: Counter,
    /// Frames that the policy passed, by class.
    pub passed: [Counter; Class::COUNT],
    /// Frames that the policy refused, by class.
    pub refused: [Counter; Class::COUNT],
    /// The cyclic flows among the passed ones.
    pub flows: flows::Table,
}

impl PathCounters {
    /// Counts frames that the kernel dropped: those with a deadline, and the others.
    pub fn lost(&self, [urgent, rest]: [u64; 2]) {
        self.urgent_overruns.add(urgent);
        self.overruns.add(urgent + rest);
    }
}
