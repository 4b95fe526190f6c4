//! `[ring]`: parallel gateways.

use std::time::Duration;

/// `[ring]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSettings {
    /// Time between two probes, if configured.
    pub probe: Option<Duration>,
}

impl RingSettings {
    /// Time between two probes of a gateway with this priority: one without may be kept from its
    /// core for long.
    #[must_use]
    pub fn probe(&self, priority: Option<u8>) -> Duration {
        self.probe.unwrap_or(usual(priority))
    }
}

/// The usual time between two signs of life.
pub(super) fn usual(priority: Option<u8>) -> Duration {
    Duration::from_millis(if priority.is_some() { 10 } else { 100 })
}
