//! A snapshot of an overlay's forwarding thread.

use std::collections::BTreeMap;

use crate::run::report::Waits;
use crate::run::status::Overlay as Document;

/// The state of the forwarding thread at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The overlay's part of the status.
    pub document: Document,
    /// Dropped frames and packets of each direction, out and in, by reason.
    pub refused: [BTreeMap<String, u64>; 2],
    /// How the thread waited.
    pub waits: Waits,
}
