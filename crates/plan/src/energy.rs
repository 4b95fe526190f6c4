//! What a slot takes (figures 7 and 8 of sciancalepore2016): radio and CPU from the datasheets' currents, sender and receiver
//! together.
//!
//! The paper's figures were estimated the same way and are not printed as numbers; it prints what engines save at most.

use crate::platform::Platform;
use crate::timeslot::{Operations, TS_MAX_ACK, TS_MAX_TX};

/// Microjoules of a full slot for both ends: the frame and its acknowledgment on the air, and the CPU for as long as security
/// takes, `before` milliseconds of preparation included.
#[must_use]
pub fn slot(platform: &Platform, operations: &Operations, before: f64) -> f64 {
    // Milliamperes, milliseconds and volts give microjoules.
    let radio = (platform.tx_ma + platform.rx_ma) * (TS_MAX_TX + TS_MAX_ACK);
    let handling = 2.0 * (platform.tx_offset + platform.tx_ack_delay);
    let cpu = platform.cpu_ma * (handling + operations.sum() + before);
    platform.volts * (radio + cpu)
}

/// Percent that `less` is below `more`.
#[must_use]
pub fn saving(more: f64, less: f64) -> f64 {
    if more > 0.0 { 100.0 * (more - less) / more } else { 0.0 }
}
