//! A snapshot of an overlay's forwarding thread.

use std::collections::BTreeMap;

use crate::run::report::Waits;
use crate::run::status::Overlay as Document;

/// The state of the forwarding threads at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The worker of each peer.
    pub owners: Vec<u8>,
    /// The number of the worker.
    pub own: u8,
    /// The overlay's part of the status.
    pub document: Document,
    /// Dropped frames and packets of each direction, out and in, by reason.
    pub refused: [BTreeMap<String, u64>; 2],
    /// How each thread waited.
    pub waits: Vec<Waits>,
}

impl Snapshot {
    /// Adds that of another worker.
    pub(super) fn add(&mut self, other: Self) {
        let (document, more) = (&mut self.document, other.document);
        let rows = document.peers.iter_mut().zip(more.peers).zip(&other.owners);
        for ((row, its), _) in rows.filter(|(_, owner)| **owner == other.own) {
            *row = its;
        }
        // The rest is the same, or of the address table, which they share.
        document.direct_addresses += more.direct_addresses;
        document.cookies_sent += more.cookies_sent;
        document.passed_frames += more.passed_frames;
        if more.datagrams_by.len() > document.datagrams_by.len() {
            // Some come by the socket, with the reason.
            document.datagrams_by = more.datagrams_by;
        }
        let all = self.refused.iter_mut().chain([&mut document.refused]);
        for (sums, counts) in all.zip(other.refused.into_iter().chain([more.refused])) {
            counts.into_iter().for_each(|(reason, count)| *sums.entry(reason).or_default() += count);
        }
        self.waits.extend(other.waits);
    }
}
