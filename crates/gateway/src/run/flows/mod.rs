//! Cyclic flows, watched: cycle, intervals, jitter, missed cycles and data status of each.
//!
//! A forwarding thread shows each cyclic frame that the policy passes to the [`Table`] of its
//! direction. On a protected uplink that is after authentication. The table has a fixed size and
//! one writer; any thread reads it without a message.
//!
//! - `identity`: which flow a frame belongs to
//! - `table`: the flows of one direction; who gets a place, and who loses it
//! - `beat`: what the arrivals of one flow tell
//! - `histogram`: intervals in logarithmic buckets
//! - [`report`]: the flows in the status

mod beat;
mod histogram;
mod identity;
pub mod report;
mod table;
#[cfg(test)]
mod tests;

pub use table::{PLACES, Table};

/// Default of `flows.watchdog_cycles`: the usual watchdog factor of Profinet.
pub const WATCHDOG: u64 = 3;
