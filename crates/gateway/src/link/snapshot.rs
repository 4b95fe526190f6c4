//! Snapshots of the forwarding threads.

use std::collections::BTreeMap;

use antedate_channel::macsec::{Receive, ReceiveSaStatus, SLOTS, Transmit, TransmitSaStatus};
use antedate_wire::Sci;
use antedate_wire::macsec::An;

use crate::run::governor::Governor;
use crate::run::report::Waits;
use crate::run::status::Preparation;
use crate::sys::thread;

/// The state of forwarding threads at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The encoding association.
    pub encoding: Option<An>,
    /// The transmit associations, each with its channel.
    pub transmit: Vec<(Sci, TransmitSaStatus)>,
    /// The receive associations.
    pub receive: Vec<ReceiveSaStatus>,
    /// Packet numbers prepared for sending.
    pub sealing: Preparation,
    /// Packet numbers prepared for receiving.
    pub opening: Preparation,
    /// MACsec's counters, with the standard's names.
    pub counters: BTreeMap<String, u64>,
    /// Frames taken from each uplink.
    pub taken: [u64; 2],
    /// How the threads waited.
    pub waits: Vec<Waits>,
}

impl Snapshot {
    /// The state of the calling forwarding thread.
    #[must_use]
    pub fn take(transmit: Option<&Transmit>, receive: Option<&Receive>, governor: &Governor) -> Self {
        let mut snapshot = Self::default();
        if let Some(transmit) = transmit {
            snapshot.transmitted(transmit);
        }
        if let Some(receive) = receive {
            snapshot.received(receive);
        }
        snapshot.waits.push(Waits {
            sleeps: governor.sleeps,
            caught: governor.caught,
            woken: governor.woken,
            flows: governor.flows() as u64,
            cpu: thread::cpu_time(),
        });
        snapshot
    }

    /// Adds the state of the transmit channel.
    pub fn transmitted(&mut self, transmit: &Transmit) {
        self.encoding = transmit.encoding().map(|(an, _)| an);
        let sci = transmit.config().sci;
        self.transmit.extend(transmit.status().map(|sa| (sci, sa)));
        let target = transmit.config().prepare as u64;
        let prepared = transmit.status().filter(|sa| sa.encoding).map(|sa| sa.prepared as u64).sum();
        self.sealing = Preparation { target, prepared };
        self.counters.extend(transmit.counters().named().map(|(name, value)| (name.to_owned(), value)));
    }

    /// Adds counters and prepared packet numbers of the express channel to those of the ordinary
    /// one.
    pub fn express(&mut self, transmit: &Transmit) {
        for (name, value) in transmit.counters().named() {
            *self.counters.entry(name.to_owned()).or_default() += value;
        }
        self.sealing.target += transmit.config().prepare as u64;
        self.sealing.prepared +=
            transmit.status().filter(|sa| sa.encoding).map(|sa| sa.prepared as u64).sum::<u64>();
    }

    /// Adds the state of the receive channels.
    pub fn received(&mut self, receive: &Receive) {
        self.receive.extend(receive.status());
        let prepared = receive.status().map(|sa| sa.prepared as u64).sum();
        self.opening = Preparation { target: (SLOTS * receive.status().count()) as u64, prepared };
        let counters = receive.counters().named().chain(receive.fragments().named());
        self.counters.extend(counters.map(|(name, value)| (name.to_owned(), value)));
    }

    /// Adds the state of another thread.
    pub(super) fn merge(&mut self, other: Self) {
        self.encoding = self.encoding.or(other.encoding);
        self.transmit.extend(other.transmit);
        self.receive.extend(other.receive);
        // The values of a direction that a thread does not have are empty.
        for (mine, theirs) in [(&mut self.sealing, other.sealing), (&mut self.opening, other.opening)] {
            mine.target += theirs.target;
            mine.prepared += theirs.prepared;
        }
        for (name, value) in other.counters {
            *self.counters.entry(name).or_default() += value;
        }
        for (mine, theirs) in self.taken.iter_mut().zip(other.taken) {
            *mine += theirs;
        }
        self.waits.extend(other.waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::express::express_sci;
    use crate::run::governor::Mode;
    use antedate_channel::macsec::{CipherSuite, Sak, TransmitConfig};

    #[test]
    fn express_frames_are_counted_too() {
        let sci = Sci([2, 0, 0, 0, 0, 1, 0, 1]);
        let sending = |sci: Sci, frames: usize| {
            let suite = CipherSuite::GcmAes128;
            let mut transmit = Transmit::new(TransmitConfig::new(suite, sci)).unwrap();
            transmit.install(An::ALL[0], &Sak::new(suite, &[1; 16], None).unwrap(), 1, u64::MAX).unwrap();
            while transmit.idle(64) > 0 {}
            for _ in 0..frames {
                transmit.protect(&[2; 60], &mut [0; 128]).unwrap();
            }
            transmit
        };
        let (usual, express) = (sending(sci, 2), sending(express_sci(sci), 3));
        let mut snapshot = Snapshot::take(Some(&usual), None, &Governor::new(Mode::Busy, 0, 0));
        snapshot.express(&express);
        assert_eq!((snapshot.counters["OutPktsEncrypted"], snapshot.counters["OutPrepared"]), (5, 5));
        assert_eq!(
            (snapshot.sealing.prepared, snapshot.sealing.target),
            (2 * SLOTS as u64 - 5, 2 * SLOTS as u64)
        );
        assert_eq!(snapshot.transmit.len(), 1);
    }
}
