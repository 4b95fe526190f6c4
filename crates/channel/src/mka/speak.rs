//! Sending MKPDUs, and reporting the state (IEEE 802.1X-2020 clause 11.11).

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use antedate_wire::macsec::An;
use antedate_wire::mka::{
    ALGORITHM_AGILITY, Announcement, Basic, Capability, Channels, DistributedSak, Features, KeyUse, PEER_LEN,
    PeerList, Repr, SakUse, WrappedSak, Xpn,
};

use super::destination::in_use;
use super::held::Held;
use super::participant::{Action, Participant, Sent, Server};
use super::status::{Fault, KeyStatus, Member, Status};
use crate::macsec::CipherSuite;

/// The version of MKA sent: 802.1Xbx, the first with extended packet numbers.
const VERSION: u8 = 2;

impl Participant {
    /// Sends an MKPDU, to one destination or to several.
    pub(super) fn speak(&mut self, now: Duration) {
        let places = self.search.next(self.config.destinations.len(), &mut self.peers, now);
        // A peer that hears several names the last one: the nearest group.
        places.iter().rev().for_each(|place| self.send(now, place));
        // A lone participant receives no MKPDU that would trigger this.
        self.forget_sent(now);
        self.last_sent = Some(now);
        self.soon = false;
    }

    /// Sends an MKPDU to the destination at this place of the list.
    fn send(&mut self, now: Duration, place: usize) {
        let Some(destination) = self.config.destinations.get(place).copied() else { return };
        self.message += 1;
        let live: Vec<u8> =
            self.peers.live().flat_map(|peer| PeerList::entry(peer.member, peer.message)).collect();
        // Both lists together hold at most as many members as are allowed. Otherwise recordings
        // could make the MKPDU exceed the wire's maximum. A peer left out still names us, and
        // becomes live then.
        let places = self.config.max_peers.saturating_sub(live.len() / PEER_LEN);
        let potential: Vec<u8> = (self.peers.potential().take(places))
            .flat_map(|peer| PeerList::entry(peer.member, peer.message))
            .collect();
        let list = |octets| PeerList::new(octets).ok().filter(|_| !octets.is_empty());
        let held = [&self.latest, &self.old].map(Option::as_ref);
        let in_use = held.iter().any(Option::is_some);
        let keys = held.map(|held| held.map_or(KeyUse::default(), Held::key_use));
        let upper = held.map(|held| held.map_or(0, |held| (held.next_pn.lowest.first >> 32) as u32));
        let is_xpn = held.iter().flatten().any(|held| held.suite.is_xpn());
        let wrapped = self.to_distribute().map(|held| (held, self.cak.wrap(&held.secret)));
        let distributed_sak = wrapped.as_ref().and_then(|(held, (octets, len))| {
            let suite = held.suite.identifier();
            Some(DistributedSak::Sak(WrappedSak {
                an: held.an,
                confidentiality_offset: u8::from(self.config.confidentiality),
                number: held.key.number,
                // The default suite is named by its absence.
                suite: (held.suite != CipherSuite::GcmAes128).then_some(suite),
                wrapped: octets.get(..*len)?,
            }))
        });
        let suites: Vec<u8> = self.config.suites.iter().flat_map(|suite| suite.identifier()).collect();
        let seconds = held.map(|held| held.and_then(|held| held.next_pn.lowest.second));
        let seconds = seconds.iter().any(Option::is_some).then(|| seconds.map(|pn| pn.unwrap_or(1)));
        let further: Vec<u8> = (1..self.config.channels)
            .flat_map(|place| {
                let at = usize::from(place) - 1;
                let lowest = |held: &Held| held.next_pn.lowest.further.get(at).copied();
                Channels::entry(held.map(|held| held.and_then(lowest).unwrap_or(1)))
            })
            .collect();
        let several = self.config.takes_channels > 1 || self.config.channels > 1;
        let channels = several.then(|| Channels::new(self.config.takes_channels, &further).ok()).flatten();
        let mut room = vec![0; 72 + suites.len() + further.len()];
        let elsewhere = An::ALL.map(|an| self.occupied.iter().any(|other| other.an == an));
        let features = Features::new(self.config.fragments, elsewhere, &suites);
        let announcement = features
            .and_then(|features| Announcement::new(&features, seconds, channels.as_ref(), &mut room))
            .ok();
        let basic = Basic {
            version: VERSION,
            priority: self.config.priority,
            key_server: self.server == Server::Own,
            // Neither we nor a participant with our SCI may get a key.
            macsec_desired: self.conflict_until.is_none(),
            capability: Capability::Confidentiality,
            sci: self.config.sci,
            member: self.member,
            message: self.message,
            algorithm_agility: ALGORITHM_AGILITY,
            ckn: self.cak.name().as_bytes(),
        };
        let repr = Repr {
            live: list(&live),
            potential: list(&potential),
            sak_use: in_use.then_some(SakUse {
                keys: Some(keys),
                delay_protect: self.bounds_delay(),
                ..SakUse::default()
            }),
            distributed_sak,
            xpn: is_xpn.then_some(Xpn {
                suspension_time: 0,
                latest_lowest_pn: upper[0],
                old_lowest_pn: upper[1],
            }),
            announcement,
            ..Repr::new(destination, self.config.source, basic)
        };
        let mut frame = vec![0; repr.buffer_len()];
        // Cannot fail: the buffer fits everything, and 63 peers of each kind are well below the
        // longest parameter set.
        if repr.emit(&mut frame, |covered| self.cak.icv(covered)).is_ok() {
            self.actions.push_back(Action::Send(frame));
            self.sent += 1;
        }
        self.sent_at.push_back(Sent { message: self.message, at: now, place });
    }

    /// Whether there is a live member and all live members reassemble fragments.
    pub fn all_reassemble(&self) -> bool {
        self.config.fragments && self.first_live.is_some() && self.peers.partners().all(|peer| peer.fragments)
    }

    /// The fault that frames without SCI have more than one source.
    fn more_than_a_pair(&self) -> Option<Fault> {
        (self.config.pair && self.peers.live().nth(1).is_some()).then_some(Fault::NotAPair)
    }

    /// The state.
    pub fn status(&self, now: Duration) -> Status {
        let age = |since: Duration| now.saturating_sub(since);
        let latest = self.latest.as_ref().map(|held| held.key).unwrap_or_default();
        let members = self.peers.0.iter().map(|peer| Member {
            sci: peer.sci,
            address: peer.address,
            member: peer.member,
            message: peer.message,
            priority: peer.priority,
            live: peer.is_live(),
            key_server: self.server == Server::Peer(peer.member),
            receives: peer.receives(latest),
            transmits: peer.transmits(latest),
            antedate: peer.antedate,
            fragments: peer.fragments,
            channels: peer.channels(),
            takes_channels: peer.takes_channels,
            reached_by: peer.reached.and_then(|(place, _)| self.config.destinations.get(place).copied()),
            silent: age(peer.heard),
        });
        let keys = [&self.latest, &self.old].map(|held| {
            held.as_ref().map(|held| KeyStatus {
                key: held.key,
                an: held.an,
                suite: held.suite,
                receives: held.receives,
                transmits: held.transmits,
                age: age(held.since),
            })
        });
        Status {
            member: self.member,
            message: self.message,
            sci: self.config.sci,
            priority: self.config.priority,
            key_server: match self.server {
                Server::Nobody => None,
                Server::Own => Some(self.config.sci),
                Server::Peer(member) => self.peers.get(member).map(|peer| peer.sci),
            },
            is_key_server: self.server == Server::Own,
            keys,
            members: members.collect(),
            all_reassemble: self.all_reassemble(),
            channels: self.config.channels,
            channels_in_use: self.channels_in_use(),
            destinations: in_use(&self.config.destinations, &self.peers),
            sent: self.sent,
            received: self.received,
            refused: self.refused,
            fresh_keys: self.fresh_keys,
            fault: self.fault.or_else(|| self.more_than_a_pair()),
        }
    }
}
