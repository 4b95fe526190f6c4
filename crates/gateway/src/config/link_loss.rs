//! `[link_loss]`: when the link of the field port follows that of the uplink and of the far field
//! port.

use std::time::Duration;

/// `[link_loss]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkLoss {
    /// Time between two hellos to the other gateways, if configured.
    pub hello: Option<Duration>,
    /// Time that a loss must last before the field port goes down.
    pub hold: Duration,
    /// Time that all must be well again before the field port goes up.
    pub recovery: Duration,
}

impl LinkLoss {
    /// Time between two hellos of a gateway with this priority: one without may be kept from its
    /// core for long.
    #[must_use]
    pub fn hello(&self, priority: Option<u8>) -> Duration {
        self.hello.unwrap_or_else(|| usual_hello(priority))
    }
}

/// The usual time between two hellos of a gateway with this priority.
#[must_use]
pub const fn usual_hello(priority: Option<u8>) -> Duration {
    Duration::from_millis(if priority.is_some() { 10 } else { 100 })
}
