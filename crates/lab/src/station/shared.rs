//! State shared by a station's threads, without locks: a thread with a deadline never waits.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::controller::Counts;
use super::meter::Sample;

/// Capacity of the queue: some seconds at the shortest cycle.
const QUEUE: usize = 1 << 16;
const SLOTS: usize = 8;

/// State between provider, consumer and meter.
#[derive(Debug, Default)]
pub struct Shared {
    /// The station must stop.
    pub stop: AtomicBool,
    /// The peer announced its stop.
    pub peer_stopped: AtomicBool,
    /// Valid data is arriving; the watchdog has not expired.
    pub consuming: AtomicBool,
    /// LLDP announcements received.
    pub announcements: AtomicU64,
    /// Rising edges made by the provider.
    pub edges_made: AtomicU16,
    connection: Connection,
    dropped: AtomicU64,
    last_received: LastReceived,
}

/// Counters of the connection, from the consumer.
#[derive(Debug, Default)]
struct Connection {
    connections: AtomicU64,
    records_read: AtomicU64,
    alarms: AtomicU64,
    alarms_acknowledged: AtomicU64,
}

/// Stamp and arrival of the newest frame, from the consumer to the provider.
///
/// A ring of slots. The provider would have to sleep for eight receptions between two loads to read
/// a mixed pair.
#[derive(Debug, Default)]
struct LastReceived {
    count: AtomicU64,
    slots: [(AtomicU64, AtomicU64); SLOTS],
}

impl Shared {
    /// The consumer received a frame stamped `sent_ns` at `at_ns`.
    pub fn received(&self, sent_ns: u64, at_ns: u64) {
        let ring = &self.last_received;
        let next = ring.count.load(Ordering::Relaxed) + 1;
        let (sent, at) = &ring.slots[next as usize % SLOTS];
        sent.store(sent_ns, Ordering::Relaxed);
        at.store(at_ns, Ordering::Relaxed);
        ring.count.store(next, Ordering::Release);
    }

    /// The newest pair of (stamp, arrival), if there is one.
    pub fn last_received(&self) -> Option<(u64, u64)> {
        let ring = &self.last_received;
        let count = ring.count.load(Ordering::Acquire);
        if count == 0 {
            return None;
        }
        let (sent, at) = &ring.slots[count as usize % SLOTS];
        Some((sent.load(Ordering::Relaxed), at.load(Ordering::Relaxed)))
    }

    /// The consumer's connection has these counters.
    pub fn set_connection(&self, counts: Counts) {
        let own = &self.connection;
        own.connections.store(counts.connections, Ordering::Relaxed);
        own.records_read.store(counts.records_read, Ordering::Relaxed);
        own.alarms.store(counts.alarms, Ordering::Relaxed);
        own.alarms_acknowledged.store(counts.alarms_acknowledged, Ordering::Relaxed);
    }

    /// The counters of the connection.
    pub fn connection(&self) -> Counts {
        let own = &self.connection;
        Counts {
            connections: own.connections.load(Ordering::Relaxed),
            records_read: own.records_read.load(Ordering::Relaxed),
            alarms: own.alarms.load(Ordering::Relaxed),
            alarms_acknowledged: own.alarms_acknowledged.load(Ordering::Relaxed),
        }
    }

    /// Samples lost by a full queue.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Passes samples to the meter without waiting.
#[derive(Clone, Debug)]
pub struct Samples<'a> {
    queue: SyncSender<Sample>,
    shared: &'a Shared,
}

impl<'a> Samples<'a> {
    /// A queue of samples.
    pub fn channel(shared: &'a Shared) -> (Self, Receiver<Sample>) {
        let (queue, receiver) = sync_channel(QUEUE);
        (Self { queue, shared }, receiver)
    }

    /// Passes one sample, or counts it as dropped.
    pub fn push(&self, sample: Sample) {
        if self.queue.try_send(sample).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_pair_is_given() {
        let shared = Shared::default();
        assert_eq!(shared.last_received(), None);
        for n in 1..100 {
            shared.received(n, n + 1_000);
            assert_eq!(shared.last_received(), Some((n, n + 1_000)));
        }
    }

    #[test]
    fn a_full_queue_counts_instead_of_waiting() {
        let shared = Shared::default();
        let (samples, receiver) = Samples::channel(&shared);
        for _ in 0..QUEUE + 3 {
            samples.push(Sample::SendFailed);
        }
        assert_eq!(shared.dropped(), 3);
        assert_eq!(receiver.try_iter().count(), QUEUE);
    }
}
