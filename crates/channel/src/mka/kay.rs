//! Several CAKs at once: a key agreement entity (KaY) with a participant for each CKN (IEEE
//! 802.1X-2020 clause 9.5), so that a CAK is changed without a lost frame.
//!
//! All participants speak. The *carrier* is the one whose SAK protects what is transmitted, called
//! the principal actor in the standard. The rule:
//!
//! 1. The participants are ordered by preference. A preferred one becomes the carrier when every
//!    partner of the present carrier is a partner of it too, and all of them receive with its SAK.
//!    It does so as well when its key server transmits, unless it is *cautious*. Until then the
//!    present one carries.
//! 2. When all partners transmit with the SAK of the carrier, the less preferred participants rest:
//!    they drop their keys, and make and take none, whatever their key servers distribute.
//! 3. They wake when the carrier has no key any more; also when a partner has fallen silent in the
//!    carrier and speaks in theirs, so that their key is ready before the carrier's is dropped.
//! 4. A participant whose CAK is removed goes on until another one carries, for a bounded time
//!    (usually [`GRACE`]) or without a bound.
//!    It falls silent as soon as another one has all its partners, which makes them wake theirs.
//!
//! The participants of a gateway share four association numbers. A packet number belongs to a SAK,
//! and each participant has SAKs of its own. A key that was laid down is never transmitted with
//! again.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use antedate_wire::Sci;
use antedate_wire::macsec::An;
use antedate_wire::mka::{KeyIdentifier, Repr};

use super::held::Held;
use super::keys::{Cak, Ckn};
use super::participant::{Action, Config, IN_FLIGHT, Occupied, Participant, Role, Server};
use super::status::{Dropped, Fault, Member, Refusals, Status};

/// The usual time for which a removed CAK carries on at most.
pub const GRACE: Duration = Duration::from_secs(60);
/// The time that a live participant leaves to preferred ones, at the start and after a loss.
const PRECEDENCE: Duration = Duration::from_millis(500);
/// The silence after which a member may have left an association. It is longer than that of one
/// lost MKPDU, and shorter than the life time.
const FADES: Duration = Duration::from_millis(4250);
/// The longest time between two looks at several participants.
const LOOK: Duration = Duration::from_millis(100);

/// A CAK with its preference.
#[derive(Debug)]
pub struct Listed {
    /// the key and its name; shared with the caller, so that there is one copy
    pub cak: Arc<Cak>,
    /// the preference: the highest value first, then the order in the list
    pub priority: i32,
}

/// The reason for not taking over a list of CAKs: this name has another key here, and the two
/// cannot be told apart while both are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherKey(pub Ckn);

impl fmt::Display for OtherKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the CKN {} has another CAK in use", antedate_wire::Hex(self.0.as_bytes()))
    }
}

impl core::error::Error for OtherKey {}

/// The state of one CAK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CakStatus {
    /// its name
    pub name: Ckn,
    /// its preference
    pub priority: i32,
    /// its SAK protects what is transmitted
    pub carries: bool,
    /// a preferred one carries, so it makes and takes no keys
    pub rests: bool,
    /// it is removed, and goes on until another one carries
    pub removed: bool,
    /// the others that speak with it
    pub members: Vec<Member>,
    /// the reason why its SAKs cannot be used
    pub fault: Option<Fault>,
}

#[derive(Debug)]
pub(super) struct Actor {
    pub(super) participant: Participant,
    priority: i32,
    /// Its CAK is removed, and ends at this time at the latest.
    removed: Option<Duration>,
    /// It does not follow its key server: partners of the carrier might be left behind.
    cautious: bool,
}

/// A key agreement entity: participants for several CAKs, the preferred one first. Its methods are
/// those of a [`Participant`].
#[derive(Debug)]
pub struct Kay {
    config: Config,
    pub(super) actors: Vec<Actor>,
    actions: VecDeque<Action>,
    /// Counts of former participants.
    gone: (u64, u64, u64, Refusals),
}

impl Kay {
    /// Participants at their start, of one CAK at least. `random` fills a buffer with unpredictable
    /// octets.
    pub fn new(list: Vec<Listed>, config: Config, random: &mut dyn FnMut(&mut [u8])) -> Self {
        let gone = (0, 0, 0, Refusals::default());
        let mut kay = Self { config, actors: Vec::new(), actions: VecDeque::new(), gone };
        for Listed { cak, priority } in list {
            let participant = Participant::new(cak, kay.config.clone(), random);
            kay.actors.push(Actor { participant, priority, removed: None, cautious: false });
        }
        kay.sort();
        kay
    }

    /// Takes over another list of CAKs. Known ones go on as they are. Those not in the list go on
    /// until another one carries, for `grace` at most.
    ///
    /// Nobody asked for the change if `grace` is `None`, so it must not part partners: removed ones
    /// go on without a bound, and new ones are cautious.
    ///
    /// # Errors
    /// When a name has another key now. Nothing has changed then.
    pub fn replace(
        &mut self,
        now: Duration,
        list: Vec<Listed>,
        grace: Option<Duration>,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), OtherKey> {
        for Listed { cak, .. } in &list {
            let named = self.actors.iter().find(|actor| actor.participant.cak.name() == cak.name());
            if named.is_some_and(|actor| !actor.participant.cak.is_same(cak)) {
                return Err(OtherKey(*cak.name()));
            }
        }
        let mut before = core::mem::take(&mut self.actors);
        for Listed { cak, priority } in list {
            let known = before.iter().position(|actor| actor.participant.cak.is_same(&cak));
            let (mut participant, cautious) = match known.map(|place| before.remove(place)) {
                Some(actor) => (actor.participant, actor.cautious && grace.is_none()),
                None => (Participant::new(cak, self.config.clone(), random), grace.is_none()),
            };
            participant.silent = false;
            self.actors.push(Actor { participant, priority, removed: None, cautious });
        }
        self.sort();
        let end = grace.map_or(Duration::MAX, |grace| now + grace);
        for actor in before {
            let removed = Some(actor.removed.map_or(end, |earlier| earlier.min(end)));
            self.actors.push(Actor { removed, ..actor });
        }
        Ok(())
    }

    /// By preference. Removed ones are last already.
    fn sort(&mut self) {
        self.actors.sort_by_key(|actor| core::cmp::Reverse(actor.priority));
    }

    fn carrier(&self) -> Option<usize> {
        self.actors.iter().position(|actor| actor.participant.transmits())
    }

    /// Processes a frame with the EtherType of EAPOL. Call [`tick`](Self::tick) next.
    pub fn receive(&mut self, now: Duration, frame: &[u8]) -> Result<(), Dropped> {
        let name = Repr::parse(frame).ok().map(|parsed| parsed.repr.basic.ckn);
        let addressed =
            |actor: &Actor| name.is_some_and(|name| actor.participant.cak.name().as_bytes() == name);
        // The first one counts what is of nobody.
        let place = self.actors.iter().position(addressed).unwrap_or(0);
        self.assign(place, now);
        let Some(actor) = self.actors.get_mut(place) else { return Err(Dropped::OtherName) };
        let alone = actor.participant.first_live.is_none();
        let result = actor.participant.receive(now, frame);
        if alone && actor.participant.first_live.is_some() {
            // A member that has come speaks with its other CAKs too.
            self.actors.iter_mut().for_each(|actor| actor.participant.soon = true);
        }
        self.lay_down_others(place);
        self.collect(place);
        result
    }

    /// The sender of an MKPDU of these associations, whatever it says. Changes nothing.
    pub fn sender(&self, frame: &[u8]) -> Option<Sci> {
        self.actors.iter().find_map(|actor| actor.participant.sender(frame))
    }

    /// Does all due work. `random` is as for [`new`](Self::new).
    pub fn tick(&mut self, now: Duration, random: &mut dyn FnMut(&mut [u8])) {
        let before = self.carrier();
        for place in 0..self.actors.len() {
            self.assign(place, now);
            let Some(actor) = self.actors.get_mut(place) else { continue };
            actor.participant.tick(now, random);
            self.lay_down_others(place);
            // If it has lost its key, another one transmits before the key is removed.
            if before != Some(place) {
                self.collect(place);
            }
        }
        for place in 0..self.actors.len() {
            if self.carrier().is_some() {
                break;
            }
            self.assign(place, now);
            let Some(actor) = self.actors.get_mut(place) else { continue };
            actor.participant.switch(now);
            self.lay_down_others(place);
            if before != Some(place) {
                self.collect(place);
            }
        }
        if let Some(place) = before {
            self.collect(place);
        }
        self.retire(now);
    }

    /// Gives a participant its role, and the association numbers of the others.
    fn assign(&mut self, place: usize, now: Duration) {
        let (role, occupied) = (self.role(place, now), self.occupied(place));
        let covered = |actor: &Actor| {
            let mut listed = self.actors.iter().filter(|other| other.removed.is_none());
            listed.any(|other| other.participant.covers(&actor.participant))
        };
        let silent = self.actors.get(place).is_some_and(|actor| actor.removed.is_some() && covered(actor));
        if let Some(actor) = self.actors.get_mut(place) {
            actor.participant.silent = silent;
            actor.participant.occupied = occupied;
            actor.participant.assume(role);
        }
    }

    fn role(&self, place: usize, now: Duration) -> Role {
        let carrier = self.carrier();
        let carries = carrier.and_then(|carrier| self.actors.get(carrier)).map(|actor| &actor.participant);
        let Some(Actor { participant: own, cautious, .. }) = self.actors.get(place) else {
            return Role::Rests;
        };
        match (carrier, carries) {
            (Some(carrier), Some(_)) if carrier == place => Role::Follows,
            (Some(carrier), Some(carries)) if place < carrier => {
                let led = own.is_led() && !cautious;
                let ready = led || (own.covers(carries) && own.all_receive());
                if ready { Role::Leads } else { Role::Waits }
            }
            (Some(_), Some(carries)) => {
                let settled = carries.latest.as_ref().is_some_and(|held| held.settled.is_some());
                let rests = settled || own.role == Role::Rests;
                if rests && !carries.fades_for(own, now) { Role::Rests } else { Role::Waits }
            }
            _ => {
                let live = own.first_live.is_some_and(|first| now >= first + PRECEDENCE);
                if place == 0 || live { Role::Follows } else { Role::Rests }
            }
        }
    }

    /// The association numbers of the others. One that yields is of a participant that does not
    /// matter any more if all its partners are partners here.
    fn occupied(&self, place: usize) -> Vec<Occupied> {
        let carrier = self.carrier();
        let Some(own) = self.actors.get(place) else { return Vec::new() };
        let mut all = Vec::new();
        for (other_place, other) in self.actors.iter().enumerate().filter(|(other, _)| *other != place) {
            let other = &other.participant;
            let preferred = other_place < place && other.covers(&own.participant);
            let yields = if carrier == Some(place) && !preferred {
                Some(Vec::new())
            } else {
                (place < other_place).then(|| other.peers.partners().map(|peer| peer.sci).collect())
            };
            all.extend(other.numbers_in_use().map(|an| Occupied { an, yields: yields.clone() }));
        }
        all
    }

    /// If this participant transmits, no other one does.
    fn lay_down_others(&mut self, place: usize) {
        if !self.actors.get(place).is_some_and(|actor| actor.participant.transmits()) {
            return;
        }
        for (_, other) in self.actors.iter_mut().enumerate().filter(|(other, _)| *other != place) {
            other.participant.lay_down();
        }
    }

    /// Takes over the actions of a participant.
    fn collect(&mut self, place: usize) {
        while let Some(action) = self.actors.get_mut(place).and_then(|actor| actor.participant.next_action())
        {
            let others = self.actors.iter_mut().enumerate().filter(|(other, _)| *other != place);
            let mut others = others.map(|(_, actor)| &mut actor.participant);
            match &action {
                Action::Receive(install) => {
                    let an = install.an;
                    if others.any(|other| other.evict(an)) {
                        self.actions.push_back(Action::Remove(an));
                    }
                }
                // Another participant receives on this channel.
                Action::Forget(sci) if others.any(|other| other.channels.contains(sci)) => continue,
                _ => {}
            }
            self.actions.push_back(action);
        }
    }

    /// Drops the keys of participants that rest, and removed participants without keys.
    fn retire(&mut self, now: Duration) {
        let carrier = self.carrier();
        let held = carrier.and_then(|place| self.actors.get(place)?.participant.latest.as_ref());
        let settled = held.and_then(|held| held.settled).is_some_and(|since| now >= since + IN_FLIGHT);
        for place in (0..self.actors.len()).rev() {
            let Some(actor) = self.actors.get_mut(place) else { continue };
            let rests = settled && actor.participant.role == Role::Rests;
            let ends = actor.removed.is_some_and(|end| now >= end);
            if rests || ends {
                actor.participant.drop_all();
            }
            if actor.removed.is_none() || actor.participant.holds_a_key() {
                self.collect(place);
                continue;
            }
            let channels = core::mem::take(&mut actor.participant.channels);
            actor.participant.actions.extend(channels.into_iter().map(Action::Forget));
            self.collect(place);
            let former = self.actors.remove(place).participant;
            self.gone.0 += former.sent;
            self.gone.1 += former.received;
            self.gone.2 += former.fresh_keys;
            self.gone.3.add(&former.refused);
        }
    }

    /// The next action. `None` if there is none.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Confirms that the caller receives with a key.
    pub fn receives(&mut self, key: KeyIdentifier) {
        self.actors.iter_mut().for_each(|actor| actor.participant.receives(key));
    }

    /// Reports the next packet number of the transmit key, and that of a second channel with the
    /// same key.
    pub fn progress(&mut self, an: An, next_pn: u64, second_pn: Option<u64>) {
        self.actors.iter_mut().for_each(|actor| actor.participant.progress(an, next_pn, second_pn));
    }

    /// Reports the next packet number of the transmit key in the channel at this place behind the
    /// first one.
    pub fn progress_of(&mut self, an: An, place: u8, next_pn: u64) {
        self.actors.iter_mut().for_each(|actor| actor.participant.progress_of(an, place, next_pn));
    }

    /// Whether delay is bounded.
    #[must_use]
    pub fn bounds_delay(&self) -> bool {
        let mut awake = self.actors.iter().filter(|actor| actor.participant.role != Role::Rests);
        awake.any(|actor| actor.participant.bounds_delay())
    }

    /// The latest time for the next [`tick`](Self::tick).
    pub fn wake_at(&self, now: Duration) -> Duration {
        let next = self.actors.iter().map(|actor| actor.participant.wake_at(now)).min().unwrap_or(now);
        if self.actors.len() > 1 { next.min(now + LOOK) } else { next }
    }

    /// The state of the carrier, or of the participant that may become it, with the counts of all.
    ///
    /// # Panics
    /// Without a CAK.
    pub fn status(&self, now: Duration) -> Status {
        let live = |actor: &Actor| actor.participant.first_live.is_some();
        let heard = |actor: &Actor| !actor.participant.peers.0.is_empty();
        let place = self.carrier().or_else(|| self.actors.iter().position(live));
        let place = place.or_else(|| self.actors.iter().position(heard)).unwrap_or(0);
        let mut status = self.actors[place].participant.status(now);
        (status.sent, status.received, status.fresh_keys, status.refused) = self.gone;
        for Actor { participant, .. } in &self.actors {
            status.sent += participant.sent;
            status.received += participant.received;
            status.fresh_keys += participant.fresh_keys;
            status.refused.add(&participant.refused);
        }
        status
    }

    /// The state of each CAK, the preferred one first.
    pub fn caks(&self, now: Duration) -> Vec<CakStatus> {
        let state = |actor: &Actor| {
            let status = actor.participant.status(now);
            CakStatus {
                name: *actor.participant.cak.name(),
                priority: actor.priority,
                carries: actor.participant.transmits(),
                rests: actor.participant.role == Role::Rests,
                removed: actor.removed.is_some(),
                members: status.members,
                fault: status.fault,
            }
        };
        self.actors.iter().map(state).collect()
    }
}

impl Participant {
    fn keys(&self) -> impl Iterator<Item = &Held> {
        [&self.latest, &self.old].into_iter().flatten()
    }

    fn transmits(&self) -> bool {
        self.keys().any(|held| held.transmits)
    }

    fn holds_a_key(&self) -> bool {
        self.keys().next().is_some()
    }

    /// The association numbers of its keys, and of those that the caller has yet to remove.
    fn numbers_in_use(&self) -> impl Iterator<Item = An> {
        let removed = self.actions.iter().filter_map(|action| match action {
            Action::Remove(an) => Some(*an),
            _ => None,
        });
        self.keys().map(|held| held.an).chain(removed)
    }

    /// Assumes a role. One that wakes is a new member, so it gets a fresh key.
    fn assume(&mut self, role: Role) {
        self.renew |= self.role == Role::Rests && role != Role::Rests && self.message > 0;
        self.role = role;
    }

    /// Ends transmission.
    fn lay_down(&mut self) {
        if self.transmits() {
            [&mut self.latest, &mut self.old].into_iter().flatten().for_each(Held::lay_down);
            self.soon = true;
        }
    }

    /// Gives up the key of this association number.
    fn evict(&mut self, an: An) -> bool {
        let mut evicted = false;
        for place in [&mut self.latest, &mut self.old] {
            evicted |= place.take_if(|held| held.an == an).is_some();
        }
        self.soon |= evicted;
        evicted
    }

    /// Whether all partners of another participant are partners of this one, by their channels.
    fn covers(&self, other: &Self) -> bool {
        let here = |sci: Sci| self.peers.partners().any(|peer| peer.sci == sci);
        self.peers.partners().next().is_some() && other.peers.partners().all(|peer| here(peer.sci))
    }

    /// Whether this participant and all its partners receive with the latest key.
    fn all_receive(&self) -> bool {
        let latest = self.latest.as_ref().filter(|held| held.receives);
        latest.is_some_and(|held| self.peers.partners().all(|peer| peer.receives(held.key)))
    }

    /// Whether the key server transmits with the latest key.
    fn is_led(&self) -> bool {
        let Server::Peer(server) = self.server else { return false };
        let latest = self.latest.as_ref().filter(|held| held.receives);
        latest.is_some_and(|held| self.peers.get(server).is_some_and(|peer| peer.transmits(held.key)))
    }

    /// Whether a partner has fallen silent here and speaks in another participant.
    fn fades_for(&self, other: &Self, now: Duration) -> bool {
        let silent = |heard: Duration| now >= heard + FADES;
        let speaks = |sci: Sci| other.peers.partners().any(|peer| peer.sci == sci && !silent(peer.heard));
        self.peers.partners().any(|peer| silent(peer.heard) && speaks(peer.sci))
    }
}
