//! The key server: deciding when a fresh SAK is due, and making it (IEEE 802.1X-2020 clause 9.8).

use alloc::vec::Vec;
use core::time::Duration;

use antedate_wire::Sci;
use antedate_wire::macsec::An;
use antedate_wire::mka::{KeyIdentifier, MemberIdentifier};
use zeroize::Zeroizing;

use super::held::Held;
use super::participant::{LIFE_TIME, Participant, Role, Server};
use super::peers::Peer;
use super::status::Fault;
use crate::macsec::CipherSuite;
use crate::macsec::MAX_KEY_LEN;

/// The time that the first key waits for peers that were heard but have not answered, so that it
/// includes them. A little longer than their hello interval.
const PATIENCE: Duration = Duration::from_millis(2500);
/// The time that a key waits for more members to arrive with the last one.
const TOGETHER: Duration = Duration::from_millis(50);

impl Participant {
    /// Makes a fresh key if this participant is the key server and a key is due.
    pub(super) fn serve(&mut self, now: Duration, random: &mut dyn FnMut(&mut [u8])) {
        if self.server != Server::Own || self.role == Role::Rests || !self.is_due(now) {
            return;
        }
        // Finish one change of keys before starting the next, or frames would be lost.
        if self.old.is_some() && self.latest.as_ref().is_some_and(|held| held.transmits) {
            return;
        }
        let awaited = self.latest.is_none() && self.peers.potential().next().is_some();
        if now < self.last_live + TOGETHER
            || (awaited && self.first_live.is_some_and(|first| now < first + PATIENCE))
        {
            return;
        }
        match self.common_suite() {
            Some(suite) => {
                self.fault = None;
                // While other participants have the rest of the association numbers, it waits.
                if let Some(an) = self.free_an() {
                    let held = self.make(now, an, suite, random);
                    self.take_up(held);
                }
            }
            None => self.fault = Some(Fault::NoCommonSuite),
        }
    }

    fn is_due(&self, now: Duration) -> bool {
        let Some(latest) = &self.latest else { return true };
        let mut partners = self.peers.partners();
        let newcomer = partners.any(|peer| !latest.given.contains(&peer.member));
        let waits = self.peers.partners().any(|peer| !peer.receives(latest.key));
        latest.key.server != self.member
            || newcomer
            || (waits && !latest.transmits && !self.counts_as(latest))
            || self.is_used_up(latest)
            || self.is_unheeded(latest, now)
            || self.rekey_at().is_some_and(|at| now >= at)
    }

    /// Whether our present list of live peers gives every participant the same short SCIs as this
    /// key's list. Members that do not want MACsec count too, because the receivers know only the
    /// list.
    fn counts_as(&self, held: &Held) -> bool {
        let listed = |peer: &Peer| held.listed.contains(&peer.member);
        !held.suite.is_xpn()
            || (self.peers.live().all(listed) && self.peers.live().count() + 1 == held.listed.len())
    }

    /// Whether any packet numbers of the key are near their end.
    fn is_used_up(&self, latest: &Held) -> bool {
        latest.is_near_end(latest.next_pn.highest())
            || self.peers.partners().any(|peer| latest.is_near_end(peer.highest_pn(latest.key)))
    }

    /// Whether a member has not taken up the key long after the others: it may have refused it.
    fn is_unheeded(&self, latest: &Held, now: Duration) -> bool {
        latest.transmits
            && now >= latest.transmits_since + LIFE_TIME
            && self
                .peers
                .partners()
                .any(|peer| !peer.receives(latest.key) && peer.heard > latest.since + LIFE_TIME)
    }

    /// The time at which the key's age makes a new one due.
    pub(super) fn rekey_at(&self) -> Option<Duration> {
        let latest = self.latest.as_ref().filter(|_| self.server == Server::Own)?;
        Some(latest.since + self.config.rekey_after?)
    }

    /// The suite for the next key. All members must permit it. Among several, its worst rank over
    /// the members' lists is best: each lists the fastest suite on its CPU first.
    fn common_suite(&self) -> Option<CipherSuite> {
        let own = self.config.suites.iter().copied().enumerate();
        let ranked = own.filter_map(|(rank, suite)| {
            let ranks = self.peers.partners().map(|peer| self.rank(peer, suite));
            let worst = ranks.chain([Some(rank)]).try_fold(0, |worst, rank| Some(worst.max(rank?)))?;
            Some(((worst, rank), suite))
        });
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, suite)| suite)
    }

    /// The rank of a suite in a member's list. Antedate members announce theirs. Other members are
    /// assumed to have the default suite, or any standard suite if the configuration leaves no
    /// choice.
    fn rank(&self, peer: &Peer, suite: CipherSuite) -> Option<usize> {
        if peer.antedate {
            return peer.suites.iter().position(|known| *known == suite.identifier());
        }
        let expected =
            suite == CipherSuite::GcmAes128 || (self.config.suites.len() == 1 && suite.is_standard());
        expected.then_some(0)
    }

    fn make(&mut self, now: Duration, an: An, suite: CipherSuite, random: &mut dyn FnMut(&mut [u8])) -> Held {
        self.number += 1;
        let key = KeyIdentifier { server: self.member, number: self.number };
        let mut nonce = Zeroizing::new([0; MAX_KEY_LEN]);
        let nonce = nonce.get_mut(..suite.key_len()).unwrap_or_default();
        random(nonce);
        let given = [self.member].into_iter().chain(self.peers.partners().map(|peer| peer.member)).collect();
        // The list that `speak` announces with the key.
        let listed: Vec<MemberIdentifier> =
            [self.member].into_iter().chain(self.peers.live().map(|peer| peer.member)).collect();
        let others: Vec<Sci> = self.peers.live().map(|peer| peer.sci).collect();
        let secret = self.cak.sak(nonce, &listed, self.number);
        self.held(now, key, an, suite, secret, given, listed, others)
    }

    /// An association number used by no key of this gateway nor, as announced, by a key of the others.
    /// Those that they use with other CAKs are the first to be given up: a gateway that has all members
    /// of another one here can do without that one's key, and any other one waits.
    fn free_an(&self) -> Option<An> {
        let own = [&self.latest, &self.old].into_iter().flatten().map(|held| held.an);
        let own: Vec<An> = own.chain(self.occupied.iter().map(|other| other.an)).collect();
        let theirs =
            self.peers.partners().flat_map(|peer| peer.keys).filter(|key| key.is_some()).map(|key| key.an);
        let taken: Vec<An> = own.iter().copied().chain(theirs).collect();
        let elsewhere = |an: An| self.peers.partners().any(|peer| peer.elsewhere[usize::from(an.number())]);
        let last = self.latest.as_ref().map(|held| held.an).or_else(|| taken.last().copied());
        let first = last.map_or(An::ALL[0], An::following);
        let mut free: Vec<An> =
            core::iter::successors(Some(first), |an| Some(an.following())).take(An::COUNT).collect();
        free.retain(|an| !taken.contains(an));
        let unused = free.iter().copied().find(|an| !elsewhere(*an));
        // All numbers are taken if members disagree. Then only our own use counts.
        unused.or(free.first().copied()).or_else(|| An::ALL.into_iter().find(|an| !own.contains(an)))
    }

    /// The key that this participant still has to distribute: some member does not receive with it
    /// yet, every willing member is an intended user, and the live peers are those that the short
    /// SCIs were numbered by.
    pub(super) fn to_distribute(&self) -> Option<&Held> {
        let latest = self.latest.as_ref().filter(|_| self.server == Server::Own)?;
        let meant = self.peers.partners().all(|peer| latest.given.contains(&peer.member));
        let waits = self.peers.partners().any(|peer| !peer.receives(latest.key));
        (meant && waits && latest.key.server == self.member && self.counts_as(latest)).then_some(latest)
    }
}
