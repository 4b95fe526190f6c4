//! `[standby]`: gateways that stand by for one another.

use std::time::Duration;

/// `[standby]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandbySettings {
    /// The number of the gateways that stand by for one another.
    pub group: u8,
    /// The preference: the highest first.
    pub priority: u8,
    /// Time between two hellos.
    pub hello: Duration,
    /// Whether a gateway with a higher priority takes the task back.
    pub preempt: bool,
}
