//! `[loop_detection]`: loops of gateways.

use std::time::Duration;

/// `[loop_detection]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopSettings {
    /// Time between two probes.
    pub probe: Duration,
    /// Time without an own probe that came back, after which a gateway that blocks opens again.
    pub hold: Duration,
}
