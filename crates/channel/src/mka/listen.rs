//! Receiving and checking MKPDUs (IEEE 802.1X-2020 clauses 9.4, 9.10 and 11.11).

use alloc::vec::Vec;
use core::time::Duration;

use antedate_wire::Sci;
use antedate_wire::macsec::An;
use antedate_wire::mka::{
    ALGORITHM_AGILITY, DistributedSak, KeyIdentifier, MemberIdentifier, Parsed, Repr, WrappedSak,
};

use super::held::{Held, short_scis};
use super::participant::{Action, LIFE_TIME, MAX_PEERS, Participant, Role, Server};
use super::peers::{Peer, names};
use super::status::{Dropped, Fault};
use crate::macsec::{CHANNELS_MAX, CipherSuite, channel_sci, channel_scis};

/// The most last key numbers of key servers to remember.
const REMEMBERED: usize = 4 * (MAX_PEERS + 1);

impl Participant {
    /// Processes a frame with the EtherType of EAPOL. Call [`tick`](Self::tick) next.
    pub fn receive(&mut self, now: Duration, frame: &[u8]) -> Result<(), Dropped> {
        let result = self.hear(now, frame);
        match result {
            Ok(()) => self.received += 1,
            Err(reason) => self.refused.count(reason),
        }
        result
    }

    /// The sender of an MKPDU of this association, whatever it says. Changes nothing.
    pub fn sender(&self, frame: &[u8]) -> Option<Sci> {
        let parsed = Repr::parse(frame).ok()?;
        let basic = parsed.repr.basic;
        let named = basic.ckn == self.cak.name().as_bytes() && basic.algorithm_agility == ALGORITHM_AGILITY;
        (named && self.cak.verify(parsed.covered, parsed.icv)).then_some(basic.sci)
    }

    fn hear(&mut self, now: Duration, frame: &[u8]) -> Result<(), Dropped> {
        let parsed = Repr::parse(frame).map_err(|_| Dropped::Malformed)?;
        let basic = parsed.repr.basic;
        if basic.ckn != self.cak.name().as_bytes() {
            return Err(Dropped::OtherName);
        }
        if basic.algorithm_agility != ALGORITHM_AGILITY {
            return Err(Dropped::OtherAlgorithm);
        }
        if !self.cak.verify(parsed.covered, parsed.icv) {
            return Err(Dropped::WrongIcv);
        }
        let (named, lists_us_live) = names(&parsed, self.member, self.recent(now));
        let answers = named.is_some();
        self.not_our_own(now, &parsed, answers)?;
        match self.peers.get_mut(basic.member) {
            Some(peer) if basic.message <= peer.message => return Err(Dropped::Replayed),
            Some(peer) if basic.sci != peer.sci => return Err(Dropped::OtherSci),
            Some(peer) => peer.update(&parsed, now),
            None => self.meet(now, &parsed, answers)?,
        }
        self.trace(&parsed, named);
        if answers && self.peers.prove(basic.member, now) {
            self.first_live.get_or_insert(now);
            self.last_live = now;
            self.soon = true;
        }
        self.elect();
        if self.server == Server::Peer(basic.member) && basic.key_server {
            // The key server may transmit with its previous key, and distribute the next one.
            self.switch(now);
            self.obey(now, &parsed, lists_us_live);
        }
        self.bound_delay(basic.member);
        Ok(())
    }

    /// Refuses an MKPDU with our names: it was reflected, or another participant uses them.
    fn not_our_own(&mut self, now: Duration, parsed: &Parsed<'_>, answers: bool) -> Result<(), Dropped> {
        let basic = &parsed.repr.basic;
        if basic.member == self.member {
            if basic.sci == self.config.sci {
                return Err(Dropped::Own);
            }
            self.renew = true;
            return Err(Dropped::OwnMember);
        }
        let channels = parsed.repr.announcement.and_then(|announcement| announcement.channels());
        let further = channels.map_or(0, |channels| channels.further().take(CHANNELS_MAX.into()).count());
        let mut theirs = channel_scis(basic.sci, 1 + further as u8);
        if !theirs.any(|sci| self.own_scis().any(|own| own == sci)) {
            return Ok(());
        }
        // A recording of our past, or another participant. Answer it as a potential peer.
        match self.peers.get_mut(basic.member) {
            Some(rival) if basic.message > rival.message => rival.update(parsed, now),
            Some(_) => return Err(Dropped::Replayed),
            None => self.meet(now, parsed, false)?,
        }
        // It answers our present identity, so it is no recording: two participants would use one
        // nonce.
        if answers {
            self.fault = Some(Fault::SameSci);
            self.conflict_until = Some(now + LIFE_TIME);
        }
        Err(Dropped::OwnSci)
    }

    /// Records a new peer.
    fn meet(&mut self, now: Duration, parsed: &Parsed<'_>, answers: bool) -> Result<(), Dropped> {
        let places = if answers { self.config.max_peers } else { 2 * self.config.max_peers };
        let taken = if answers { self.peers.live().count() } else { self.peers.0.len() };
        // Potential peers may be recordings. They never displace a proven peer.
        if taken >= places || (answers && self.peers.0.len() >= 2 * places && !self.peers.make_room()) {
            return Err(Dropped::TooMany);
        }
        self.peers.0.push(Peer::new(parsed, now));
        self.soon = true;
        Ok(())
    }

    /// Notes by which destinations a peer is heard, and hears us.
    fn trace(&mut self, parsed: &Parsed<'_>, named: Option<u32>) {
        let heard_by = self.config.destinations.iter().position(|to| *to == parsed.repr.destination);
        let reached = named.and_then(|named| self.sent_at.iter().find(|sent| sent.message == named));
        let reached = reached.map(|sent| (sent.place, sent.at));
        let Some(peer) = self.peers.get_mut(parsed.repr.basic.member) else { return };
        // It may have changed its way, and is answered on the new one.
        peer.answered &= peer.heard_by == heard_by;
        peer.heard_by = heard_by;
        peer.reached = reached.or(peer.reached);
    }

    /// The lowest message number that is recent.
    fn recent(&mut self, now: Duration) -> u32 {
        self.forget_sent(now);
        self.sent_at.front().map_or(u32::MAX, |sent| sent.message)
    }

    /// Forgets messages too old to be answered.
    pub(super) fn forget_sent(&mut self, now: Duration) {
        while self.sent_at.front().is_some_and(|sent| now >= sent.at + LIFE_TIME) {
            self.sent_at.pop_front();
        }
    }

    /// Applies a live peer's lowest packet numbers: anything below is late.
    fn bound_delay(&mut self, member: MemberIdentifier) {
        if !self.bounds_delay() {
            return;
        }
        let Some(peer) = self.peers.get(member).filter(|peer| peer.is_live() && peer.delay_protect) else {
            return;
        };
        for held in [&self.latest, &self.old].into_iter().flatten().filter(|held| held.receives) {
            let Some((lowest_pn, second_pn)) = peer.lowest_pns(held.key) else { continue };
            let an = held.an;
            self.actions.push_back(Action::Lowest { sci: peer.sci, an, lowest_pn, second_pn });
            for (place, lowest_pn) in peer.further_pns(held.key) {
                let Some(sci) = channel_sci(peer.sci, place) else { break };
                self.actions.push_back(Action::Lowest { sci, an, lowest_pn, second_pn: None });
            }
        }
    }

    /// Takes up the key server's distributed key.
    fn obey(&mut self, now: Duration, parsed: &Parsed<'_>, lists_us_live: bool) {
        let Some(distributed) = parsed.repr.distributed_sak else { return };
        if self.conflict_until.is_some() || self.role == Role::Rests {
            return;
        }
        // A key made before we became a member may be one we had before a restart.
        if !lists_us_live {
            return;
        }
        let sak = match distributed {
            DistributedSak::Plain => {
                self.fault = Some(Fault::Unprotected);
                return;
            }
            DistributedSak::Sak(sak) => sak,
        };
        let key = KeyIdentifier { server: parsed.repr.basic.member, number: sak.number };
        let known = self.numbers.iter().find(|(server, _)| *server == key.server);
        if known.is_some_and(|(_, number)| sak.number <= *number) || sak.number == 0 {
            return;
        }
        match self.accept(now, parsed, key, &sak) {
            Ok(Some(held)) => {
                self.remember(key);
                self.fault = None;
                self.take_up(held);
            }
            Ok(None) => {}
            Err(fault) => self.fault = Some(fault),
        }
    }

    /// Checks a distributed key and converts it to a held one. `None` if it must wait until all
    /// members are known.
    fn accept(
        &self,
        now: Duration,
        parsed: &Parsed<'_>,
        key: KeyIdentifier,
        sak: &WrappedSak<'_>,
    ) -> Result<Option<Held>, Fault> {
        let identifier = sak.suite.unwrap_or(CipherSuite::GcmAes128.identifier());
        let suite = self.config.suites.iter().find(|suite| suite.identifier() == identifier);
        let suite = *suite.ok_or(Fault::OtherSuite(identifier))?;
        if sak.confidentiality_offset != u8::from(self.config.confidentiality) {
            return Err(Fault::OtherConfidentiality);
        }
        let Some(server) = self.peers.get(key.server) else { return Ok(None) };
        if server.transmits(key) {
            return Err(Fault::KeyInUse);
        }
        if self.is_barred(sak.an) {
            return Ok(None);
        }
        let secret = self.cak.unwrap(sak.wrapped).ok_or(Fault::NotUnwrapped)?;
        if secret.as_bytes().len() != suite.key_len() {
            return Err(Fault::OtherSuite(identifier));
        }
        // Under another name our packet numbers would begin at 1 again with the same key.
        if self.past.contains(&self.cak.digest(&secret)) {
            return Err(Fault::OldKey);
        }
        let listed = parsed.repr.live.map(|list| list.peers().map(|(member, _)| member));
        let given: Vec<_> = listed.into_iter().flatten().chain([key.server]).collect();
        let known = |member: &MemberIdentifier| self.peers.get(*member).map(|peer| peer.sci);
        let others: Vec<Sci> =
            given.iter().filter(|member| **member != self.member).filter_map(known).collect();
        if suite.is_xpn() {
            // Short SCIs are indices into the list of all members, each with a unique SCI.
            let places = short_scis(others.iter().copied().chain([self.config.sci]).collect());
            if places.len() < given.len() {
                return Ok(None);
            }
            if !self.counts_alike(parsed, &places) {
                return Err(Fault::OtherShortScis);
            }
        }
        Ok(Some(self.held(now, key, sak.an, suite, secret, given.clone(), given, others)))
    }

    /// Whether another participant of this gateway needs its key of this association number.
    fn is_barred(&self, an: An) -> bool {
        let here = |sci: &Sci| self.peers.partners().any(|peer| peer.sci == *sci);
        let yields = |list: &Option<Vec<Sci>>| list.as_ref().is_some_and(|all| all.iter().all(here));
        self.occupied.iter().any(|other| other.an == an && !yields(&other.yields))
    }

    /// Whether the key server numbers the short SCIs as we do. From version 3 it may name its own
    /// short SCI, and lists the others in the order of theirs. That must be the order of the SCIs.
    fn counts_alike(&self, parsed: &Parsed<'_>, places: &[(Sci, u32)]) -> bool {
        let basic = &parsed.repr.basic;
        let Some(list) = parsed.repr.live.filter(|list| basic.version >= 3 && list.key_server_ssci != 0)
        else {
            return true;
        };
        let sci_of = |member: MemberIdentifier| {
            if member == self.member {
                return Some(self.config.sci);
            }
            self.peers.get(member).map(|peer| peer.sci)
        };
        let server = places.iter().find(|(sci, _)| *sci == basic.sci);
        let others = places.iter().filter(|(sci, _)| *sci != basic.sci).map(|(sci, _)| Some(*sci));
        server.is_some_and(|(_, ssci)| *ssci as u8 == list.key_server_ssci)
            && list.peers().map(|(member, _)| sci_of(member)).eq(others)
    }

    fn remember(&mut self, key: KeyIdentifier) {
        self.numbers.retain(|(server, _)| *server != key.server);
        if self.numbers.len() >= REMEMBERED {
            self.numbers.remove(0);
        }
        self.numbers.push((key.server, key.number));
    }
}
