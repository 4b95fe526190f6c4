//! A participant: its identity, the key server it obeys, its keys and its timers (IEEE 802.1X-2020
//! clauses 9.4 to 9.11).

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use antedate_wire::macsec::An;
use antedate_wire::mka::{ICV_LEN, KeyIdentifier, MemberIdentifier};
use antedate_wire::{EthernetAddress, Sci};

use super::destination::{Places, Search};
use super::held::{Held, Install, PacketNumbers, short_scis};
use super::keys::{Cak, Secret};
use super::peers::{Peer, Peers};
use super::status::{Fault, Refusals};
use crate::macsec::{CHANNELS_MAX, CipherSuite, channel_scis};

/// The interval between MKPDUs without news (MKA Hello Time, clause 9.4).
pub const HELLO_TIME: Duration = Duration::from_secs(2);
/// The interval with bounded delay (MKA Bounded Hello Time).
const BOUNDED_HELLO_TIME: Duration = Duration::from_millis(500);
/// The interval after the start until a peer answers. The first MKPDUs may be lost, because a port
/// of a switch or bridge takes up to two seconds to forward after link-up.
const EAGER_HELLO_TIME: Duration = Duration::from_millis(200);
const EAGER: Duration = Duration::from_secs(3);
/// The time after which a silent peer is considered gone (MKA Life Time).
pub const LIFE_TIME: Duration = Duration::from_secs(6);
/// The most other members of a connectivity association.
pub const MAX_PEERS: usize = 63;
/// The time to keep an old key if the others do not report the change (SAK Retire Time, clause
/// 9.10).
pub(super) const RETIRE_TIME: Duration = Duration::from_secs(3);
/// The longest time in flight of frames after the last participant has changed its key.
pub(super) const IN_FLIGHT: Duration = Duration::from_millis(500);
/// The age of a packet number before it is announced as the lowest. Our frames may be in flight for
/// this long after an MKPDU has overtaken them.
const UNDER_WAY: Duration = Duration::from_millis(100);
/// The most keys to remember, so that none is taken up twice.
const PAST_KEYS: usize = 256;
/// The shortest time between two MKPDUs.
const GAP: Duration = Duration::from_millis(50);

/// Configuration of a participant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// the secure channel it transmits on
    pub sci: Sci,
    /// a second channel with the same keys, whose SCI must be unique as well
    pub second: Option<Sci>,
    /// the channels that it transmits on, up to [`CHANNELS_MAX`]: that of `sci`, and those of the next
    /// port numbers, which end before those of express channels
    pub channels: u8,
    /// the most channels that it receives on from each other member, up to [`CHANNELS_MAX`]
    pub takes_channels: u8,
    /// the priority as key server: the lowest value wins, 255 never serves
    pub priority: u8,
    /// the destinations of MKPDUs, the preferred one first: a single one, or several such as
    /// [`AUTOMATIC`](super::AUTOMATIC), of which those are used that reach the others; at most 8
    pub destinations: Vec<EthernetAddress>,
    /// the source of MKPDUs
    pub source: EthernetAddress,
    /// the permitted cipher suites, fastest first
    pub suites: Vec<CipherSuite>,
    /// encrypts, or protects integrity only
    pub confidentiality: bool,
    /// frames have no SCI, so there can be only one other member
    pub pair: bool,
    /// announces that it reassembles fragments
    pub fragments: bool,
    /// as key server, makes all members discard late frames (delay protection, clause 9.10)
    pub delay_protect: bool,
    /// the time after which the key server distributes a fresh key; `None`: only when packet
    /// numbers run out
    pub rekey_after: Option<Duration>,
    /// the most other members, up to [`MAX_PEERS`]
    pub max_peers: usize,
}

impl Config {
    /// A participant with the default cipher suite and priority.
    pub fn new(sci: Sci) -> Self {
        Self {
            sci,
            second: None,
            channels: 1,
            takes_channels: 1,
            priority: 128,
            destinations: vec![EthernetAddress::PAE_GROUP],
            source: sci.address(),
            suites: vec![CipherSuite::GcmAes128],
            confidentiality: true,
            pair: false,
            fragments: false,
            delay_protect: false,
            rekey_after: None,
            max_peers: MAX_PEERS,
        }
    }
}

/// An action for the caller.
#[derive(Debug)]
pub enum Action {
    /// send this frame on the uplink
    Send(Vec<u8>),
    /// receive with this key from its members, and confirm with [`Participant::receives`]
    Receive(Install),
    /// protect with this key from the next frame on, starting at packet number 1
    Transmit(Install),
    /// discard frames below these packet numbers on this channel as late
    Lowest {
        /// the member's secure channel
        sci: Sci,
        /// the association number
        an: An,
        /// the lowest acceptable packet number
        lowest_pn: u64,
        /// that of the member's second channel, if it has one
        second_pn: Option<u64>,
    },
    /// stop receiving and protecting with the key of this association number
    Remove(An),
    /// this member's secure channel no longer exists
    Forget(Sci),
}

/// The distributor of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    Nobody,
    Own,
    Peer(MemberIdentifier),
}

/// The part of a participant among those of one gateway, see [`Kay`](super::Kay).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It makes and takes no key.
    Rests,
    /// It makes and takes keys, and does not transmit.
    Waits,
    /// It transmits by the rule of MKA: as key server when all receive, otherwise after the key
    /// server.
    Follows,
    /// It transmits as soon as it receives.
    Leads,
}

/// An association number with a key of another participant of this gateway.
#[derive(Debug)]
pub(super) struct Occupied {
    pub(super) an: An,
    /// It may be taken by a participant whose partners have all these channels.
    pub(super) yields: Option<Vec<Sci>>,
}

/// An MKPDU that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) message: u32,
    pub(super) at: Duration,
    /// The place of its destination in the list.
    pub(super) place: usize,
}

/// A member of a connectivity association. Times count from an arbitrary origin and never decrease.
#[derive(Debug)]
pub struct Participant {
    pub(super) config: Config,
    pub(super) cak: Arc<Cak>,
    pub(super) member: MemberIdentifier,
    pub(super) message: u32,
    /// The messages of the last six seconds.
    pub(super) sent_at: VecDeque<Sent>,
    pub(super) search: Search,
    pub(super) last_sent: Option<Duration>,
    /// The time of the first MKPDU.
    pub(super) began: Option<Duration>,
    /// There is news to announce.
    pub(super) soon: bool,
    pub(super) renew: bool,
    pub(super) peers: Peers,
    pub(super) server: Server,
    pub(super) role: Role,
    pub(super) occupied: Vec<Occupied>,
    /// It sends nothing, because its CAK was removed.
    pub(super) silent: bool,
    /// The number of the last key made by this participant as key server.
    pub(super) number: u32,
    /// The numbers of keys distributed by other key servers.
    pub(super) numbers: Vec<(MemberIdentifier, u32)>,
    /// Digests of the keys that were taken up, the last [`PAST_KEYS`].
    pub(super) past: VecDeque<[u8; ICV_LEN]>,
    pub(super) latest: Option<Held>,
    pub(super) old: Option<Held>,
    /// The channels on which the caller receives.
    pub(super) channels: Vec<Sci>,
    /// The arrival of the first and the last of the present live peers.
    pub(super) first_live: Option<Duration>,
    pub(super) last_live: Duration,
    pub(super) conflict_until: Option<Duration>,
    pub(super) fault: Option<Fault>,
    pub(super) actions: VecDeque<Action>,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) refused: Refusals,
    pub(super) fresh_keys: u64,
}

impl Participant {
    /// A participant at its start. It shares the CAK with the caller, so that there is one copy.
    /// `random` fills a buffer with unpredictable octets.
    pub fn new(cak: impl Into<Arc<Cak>>, config: Config, random: &mut dyn FnMut(&mut [u8])) -> Self {
        let config = Config {
            max_peers: config.max_peers.min(MAX_PEERS),
            channels: channel_scis(config.sci, config.channels.max(1)).count() as u8,
            takes_channels: config.takes_channels.clamp(1, CHANNELS_MAX),
            ..config
        };
        let mut member = MemberIdentifier::default();
        random(&mut member.0);
        Self {
            config,
            cak: cak.into(),
            member,
            message: 0,
            sent_at: VecDeque::new(),
            search: Search::default(),
            last_sent: None,
            began: None,
            soon: false,
            renew: false,
            peers: Peers::default(),
            server: Server::Nobody,
            role: Role::Follows,
            occupied: Vec::new(),
            silent: false,
            number: 0,
            numbers: Vec::new(),
            past: VecDeque::new(),
            latest: None,
            old: None,
            channels: Vec::new(),
            first_live: None,
            last_live: Duration::ZERO,
            conflict_until: None,
            fault: None,
            actions: VecDeque::new(),
            sent: 0,
            received: 0,
            refused: Refusals::default(),
            fresh_keys: 0,
        }
    }

    /// The next action. `None` if there is none.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Confirms that the caller receives with a key.
    pub fn receives(&mut self, key: KeyIdentifier) {
        for held in [&mut self.latest, &mut self.old].into_iter().flatten() {
            if held.key == key && !held.receives {
                held.receives = true;
                self.soon = true;
            }
        }
    }

    /// Reports the next packet number of the transmit key, and that of a second channel with the
    /// same key.
    pub fn progress(&mut self, an: An, next_pn: u64, second_pn: Option<u64>) {
        for held in [&mut self.latest, &mut self.old].into_iter().flatten() {
            if held.an == an && held.transmits {
                held.next_pn.progress(next_pn, second_pn);
            }
        }
    }

    /// Reports the next packet number of the transmit key in the channel at this place behind the
    /// first one.
    pub fn progress_of(&mut self, an: An, place: u8, next_pn: u64) {
        for held in [&mut self.latest, &mut self.old].into_iter().flatten() {
            if held.an == an && held.transmits {
                held.next_pn.progress_of(place, next_pn);
            }
        }
    }

    /// The channels that frames may be sent in: all of this participant if each partner takes as
    /// many, otherwise the first one.
    pub fn channels_in_use(&self) -> u8 {
        let own = self.config.channels;
        let mut partners = self.peers.partners().peekable();
        if partners.peek().is_some() && partners.all(|peer| peer.takes_channels >= own) { own } else { 1 }
    }

    /// The SCIs that nobody else may send under.
    pub(super) fn own_scis(&self) -> impl Iterator<Item = Sci> {
        channel_scis(self.config.sci, self.config.channels).chain(self.config.second)
    }

    /// Whether delay is bounded, as the key server decides for all.
    #[must_use]
    pub fn bounds_delay(&self) -> bool {
        match self.server {
            Server::Own => self.config.delay_protect,
            Server::Peer(member) => self.peers.get(member).is_some_and(|peer| peer.delay_protect),
            Server::Nobody => false,
        }
    }

    fn hello_time(&self, now: Duration) -> Duration {
        let alone = self.peers.live().next().is_none();
        if alone && self.began.is_some_and(|began| now < began + EAGER) {
            EAGER_HELLO_TIME
        } else if self.bounds_delay() {
            BOUNDED_HELLO_TIME
        } else if alone {
            // Each destination has its turn in the time.
            HELLO_TIME / self.config.destinations.len().max(1) as u32
        } else {
            HELLO_TIME
        }
    }

    /// Elects the key server: the eligible participant with the lowest priority value, then the
    /// lowest SCI (clause 9.5).
    pub(super) fn elect(&mut self) {
        let own =
            (self.config.priority < u8::MAX).then_some((self.config.priority, self.config.sci, Server::Own));
        let able = self.peers.partners().filter(|peer| peer.priority < u8::MAX);
        let best = able
            .map(|peer| (peer.priority, peer.sci, Server::Peer(peer.member)))
            .chain(own)
            .min_by_key(|(priority, sci, _)| (*priority, *sci));
        let server = best.map_or(Server::Nobody, |(_, _, server)| server);
        if self.server != server {
            self.server = server;
            self.soon = true;
            self.fault = None;
        }
        if self.conflict_until.is_some() {
            self.fault = Some(Fault::SameSci);
        } else if server == Server::Nobody {
            self.fault = Some(Fault::NoServer);
        }
    }

    /// A key with the members it is received from.
    #[expect(clippy::too_many_arguments, reason = "the parts of a key, each once")]
    pub(super) fn held(
        &self,
        now: Duration,
        key: KeyIdentifier,
        an: An,
        suite: CipherSuite,
        secret: Secret,
        given: Vec<MemberIdentifier>,
        listed: Vec<MemberIdentifier>,
        others: Vec<Sci>,
    ) -> Held {
        let own = self.config.sci;
        let places = short_scis(others.iter().copied().chain([own]).collect());
        let ssci = |sci: Sci| {
            let place = places.iter().find(|(other, _)| *other == sci);
            place.map(|(_, ssci)| *ssci).filter(|_| suite.is_xpn())
        };
        let members = others.iter().map(|sci| (*sci, ssci(*sci))).collect();
        Held {
            key,
            an,
            suite,
            secret,
            given,
            listed,
            members,
            away: Vec::new(),
            ssci: ssci(own),
            receives: false,
            transmits: false,
            spent: false,
            since: now,
            transmits_since: now,
            settled: None,
            next_pn: PacketNumbers::new(now),
        }
    }

    /// Replaces the latest key.
    pub(super) fn take_up(&mut self, held: Held) {
        let before = self.latest.take();
        // A key that was never transmitted with is useless.
        let (kept, dropped) = match before {
            Some(latest) if latest.transmits || self.old.is_none() => (Some(latest), self.old.take()),
            latest => (self.old.take(), latest),
        };
        self.drop_key(dropped);
        // A restarted key server does not know which number is free.
        if kept.as_ref().is_some_and(|kept| kept.an == held.an) {
            self.drop_key(kept);
        } else {
            self.old = kept;
        }
        self.receive_on(held.install(held.members.clone()));
        self.past.push_back(self.cak.digest(&held.secret));
        if self.past.len() > PAST_KEYS {
            self.past.pop_front();
        }
        self.fresh_keys += 1;
        self.latest = Some(held);
        self.soon = true;
    }

    fn receive_on(&mut self, install: Option<Install>) {
        let Some(install) = install else { return };
        for (sci, _) in &install.members {
            if !self.channels.contains(sci) {
                self.channels.push(*sci);
            }
        }
        self.actions.push_back(Action::Receive(install));
    }

    pub(super) fn drop_key(&mut self, held: Option<Held>) {
        if let Some(held) = held {
            self.actions.push_back(Action::Remove(held.an));
            self.soon = true;
        }
    }

    /// Does all due work. `random` is as for [`new`](Self::new).
    pub fn tick(&mut self, now: Duration, random: &mut dyn FnMut(&mut [u8])) {
        self.began.get_or_insert(now);
        let mut gone = self.peers.expire(now, LIFE_TIME);
        // A channel is created with a key, for every peer the key server hears. We may have heard
        // one that did not hear us.
        let known = |sci: &Sci| self.peers.0.iter().any(|peer| peer.sci == *sci);
        let silent: Vec<Sci> = self.channels.iter().copied().filter(|sci| !known(sci)).collect();
        gone.extend(silent.into_iter().filter(|sci| !gone.contains(sci)).collect::<Vec<_>>());
        self.channels.retain(|sci| !gone.contains(sci));
        if !gone.is_empty() {
            self.soon = true;
            for held in [&mut self.latest, &mut self.old].into_iter().flatten() {
                let known = gone.iter().filter(|sci| held.members.iter().any(|(member, _)| member == *sci));
                held.away.extend(known);
            }
            self.actions.extend(gone.into_iter().map(Action::Forget));
        }
        if self.renew || self.message >= u32::MAX - Places::MOST as u32 {
            self.renew = false;
            random(&mut self.member.0);
            self.message = 0;
            self.number = 0;
            self.sent_at.clear();
        }
        if self.conflict_until.is_some_and(|until| now >= until) {
            self.conflict_until = None;
            self.fault = None;
        }
        self.elect();
        if self.conflict_until.is_some() || self.peers.partners().next().is_none() {
            self.drop_all();
            self.first_live = None;
        } else {
            self.serve(now, random);
            self.welcome();
            self.switch(now);
            self.retire(now);
        }
        for held in [&mut self.latest, &mut self.old].into_iter().flatten() {
            held.next_pn.settle(now, UNDER_WAY);
        }
        let pause = if self.soon { GAP } else { self.hello_time(now) };
        let due = self.last_sent.is_none_or(|last| now >= last + pause);
        if due && !self.silent {
            self.speak(now);
        }
    }

    /// The latest time for the next [`tick`](Self::tick).
    pub fn wake_at(&self, now: Duration) -> Duration {
        let busy = self.soon
            || self.old.is_some()
            || self.latest.as_ref().is_some_and(|held| !held.transmits)
            || (self.latest.is_none() && self.first_live.is_some());
        let hello = self.last_sent.map_or(now, |last| last + self.hello_time(now));
        let expiry =
            self.peers.0.iter().map(|peer| peer.proven.unwrap_or(peer.heard).min(peer.heard) + LIFE_TIME);
        let timer = self.rekey_at();
        let next = expiry.chain([hello]).chain(timer).chain(self.conflict_until).min().unwrap_or(hello);
        if busy { next.min(now + GAP) } else { next.max(now) }
    }

    pub(super) fn drop_all(&mut self) {
        for held in [self.latest.take(), self.old.take()] {
            self.drop_key(held);
        }
    }

    /// Adds members that were first heard after the key had arrived, or were heard again after
    /// silence.
    fn welcome(&mut self) {
        let mut late = Vec::new();
        for held in [&mut self.latest, &mut self.old].into_iter().flatten() {
            for peer in self.peers.partners().filter(|peer| held.given.contains(&peer.member)) {
                let known = held.members.iter().find(|(sci, _)| *sci == peer.sci).copied();
                let away = held.away.contains(&peer.sci);
                if known.is_none() || away {
                    // The channel remembers the numbers it has accepted with this key.
                    held.away.retain(|sci| *sci != peer.sci);
                    let member = known.unwrap_or((peer.sci, None));
                    if known.is_none() {
                        held.members.push(member);
                    }
                    late.push(held.install(vec![member]));
                }
            }
        }
        late.into_iter().for_each(|install| self.receive_on(install));
    }

    /// Switches transmission to a new key at the right time. The key server switches when all
    /// receive with it, or after the life time of a silent member. The others follow the key
    /// server.
    pub(super) fn switch(&mut self, now: Duration) {
        let ready = |held: &Option<Held>| {
            let next = held.as_ref().filter(|held| held.receives && !held.transmits && !held.spent);
            next.is_some_and(|held| self.is_time(now, held))
        };
        let transmits_latest = self.latest.as_ref().is_some_and(|held| held.transmits);
        let (next, other) = if ready(&self.latest) {
            (&mut self.latest, &mut self.old)
        } else if !transmits_latest && ready(&self.old) {
            (&mut self.old, &mut self.latest)
        } else {
            return;
        };
        let Some(next) = next else { return };
        next.transmits = true;
        next.transmits_since = now;
        self.actions.extend(next.install(Vec::new()).map(Action::Transmit));
        if let Some(other) = other {
            other.lay_down();
        }
        self.soon = true;
    }

    fn is_time(&self, now: Duration, held: &Held) -> bool {
        match self.role {
            Role::Rests | Role::Waits => return false,
            Role::Leads => return true,
            Role::Follows => {}
        }
        match self.server {
            Server::Own => {
                let mut given = self.peers.partners().filter(|peer| held.given.contains(&peer.member));
                given.all(|peer| peer.receives(held.key)) || now >= held.since + LIFE_TIME
            }
            Server::Peer(member) => self.peers.get(member).is_some_and(|peer| peer.transmits(held.key)),
            Server::Nobody => false,
        }
    }

    /// Notes when all transmit with the latest key, and drops the old one then.
    fn retire(&mut self, now: Duration) {
        let Some(latest) = self.latest.as_mut().filter(|held| held.transmits) else { return };
        let peers = &self.peers;
        let given = |peer: &&Peer| latest.given.contains(&peer.member);
        if peers.partners().filter(given).all(|peer| peer.transmits(latest.key)) {
            latest.settled.get_or_insert(now);
        }
        if self.old.is_none() {
            return;
        }
        let quiet = latest.settled.is_some_and(|since| now >= since + IN_FLIGHT);
        if quiet || now >= latest.transmits_since + RETIRE_TIME {
            let old = self.old.take();
            self.drop_key(old);
        }
    }
}
