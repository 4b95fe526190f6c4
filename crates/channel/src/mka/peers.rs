//! The other participants, as last heard (IEEE 802.1X-2020 clause 9.4).

use alloc::vec::Vec;
use core::time::Duration;

use antedate_wire::macsec::An;
use antedate_wire::mka::{Capability, KeyIdentifier, KeyUse, MemberIdentifier, Parsed};
use antedate_wire::{EthernetAddress, Sci};

use crate::macsec::CHANNELS_MAX;

/// Another participant.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) member: MemberIdentifier,
    pub(super) message: u32,
    pub(super) sci: Sci,
    pub(super) address: EthernetAddress,
    pub(super) priority: u8,
    pub(super) says_server: bool,
    pub(super) able: bool,
    /// The time of its last MKPDU.
    pub(super) heard: Duration,
    /// The time of its last MKPDU that named our identifier with a recent message number.
    pub(super) proven: Option<Duration>,
    /// The latest and the old key, as announced.
    pub(super) keys: [KeyUse; 2],
    /// The lowest acceptable packet numbers of its keys, as announced.
    pub(super) lowest_pn: [u64; 2],
    /// The same for its second channel, if it has one.
    pub(super) second_pn: Option<[u64; 2]>,
    /// The same for its channels behind the first one.
    pub(super) further_pn: Vec<[u64; 2]>,
    /// The most channels of another member that it receives on.
    pub(super) takes_channels: u8,
    pub(super) delay_protect: bool,
    pub(super) fragments: bool,
    pub(super) antedate: bool,
    /// The association numbers that it uses with other CAKs.
    pub(super) elsewhere: [bool; An::COUNT],
    /// The permitted cipher suites, fastest first. Empty for other implementations.
    pub(super) suites: Vec<[u8; 8]>,
    /// The place of the destination of its last MKPDU among ours.
    pub(super) heard_by: Option<usize>,
    /// An MKPDU was sent to that destination although it does not hear us.
    pub(super) answered: bool,
    /// The destination of our last MKPDU that it heard, and the time of sending.
    pub(super) reached: Option<(usize, Duration)>,
}

impl Peer {
    pub(super) fn new(parsed: &Parsed<'_>, now: Duration) -> Self {
        let basic = &parsed.repr.basic;
        let mut peer = Self {
            member: basic.member,
            message: basic.message,
            sci: basic.sci,
            address: parsed.repr.source,
            priority: basic.priority,
            says_server: false,
            able: false,
            heard: now,
            proven: None,
            keys: [KeyUse::default(); 2],
            lowest_pn: [0; 2],
            second_pn: None,
            further_pn: Vec::new(),
            takes_channels: 1,
            delay_protect: false,
            fragments: false,
            antedate: false,
            elsewhere: [false; An::COUNT],
            suites: Vec::new(),
            heard_by: None,
            answered: false,
            reached: None,
        };
        peer.update(parsed, now);
        peer
    }

    /// Updates the peer from an MKPDU.
    pub(super) fn update(&mut self, parsed: &Parsed<'_>, now: Duration) {
        let (repr, basic) = (&parsed.repr, &parsed.repr.basic);
        self.message = basic.message;
        self.heard = now;
        self.address = repr.source;
        self.priority = basic.priority;
        self.says_server = basic.key_server;
        self.able =
            basic.macsec_desired && !matches!(basic.capability, Capability::None | Capability::Unknown(_));
        self.keys = repr.sak_use.and_then(|sak| sak.keys).unwrap_or_default();
        let [latest, old] = &self.keys;
        let upper = repr.xpn.unwrap_or_default();
        let whole = |upper: u32, key: &KeyUse| u64::from(upper) << 32 | u64::from(key.lowest_pn);
        self.lowest_pn = [whole(upper.latest_lowest_pn, latest), whole(upper.old_lowest_pn, old)];
        self.delay_protect = repr.sak_use.is_some_and(|sak| sak.delay_protect);
        self.second_pn = repr.announcement.and_then(|announcement| announcement.second_channel());
        let channels = repr.announcement.and_then(|announcement| announcement.channels());
        self.takes_channels = channels.map_or(1, |channels| channels.takes.max(1));
        let further = channels.into_iter().flat_map(|channels| channels.further());
        self.further_pn = further.take(usize::from(CHANNELS_MAX) - 1).collect();
        let features = repr.announcement.and_then(|announcement| announcement.features());
        self.antedate = features.is_some();
        self.fragments = features.is_some_and(|features| features.fragments);
        self.elsewhere = features.map(|features| features.elsewhere).unwrap_or_default();
        self.suites = features.map(|features| features.suites().collect()).unwrap_or_default();
    }

    pub(super) const fn is_live(&self) -> bool {
        self.proven.is_some()
    }

    /// The announced use of a key, in either position: some implementations call a key old as soon
    /// as all have it.
    pub(super) fn key_use(&self, key: KeyIdentifier) -> Option<&KeyUse> {
        self.keys.iter().find(|known| known.is_some() && known.key == key)
    }

    pub(super) fn receives(&self, key: KeyIdentifier) -> bool {
        self.key_use(key).is_some_and(|known| known.receives)
    }

    pub(super) fn transmits(&self, key: KeyIdentifier) -> bool {
        self.key_use(key).is_some_and(|known| known.transmits)
    }

    /// The lowest packet numbers announced for a key: of its channel, and of a second one.
    pub(super) fn lowest_pns(&self, key: KeyIdentifier) -> Option<(u64, Option<u64>)> {
        let place = self.keys.iter().position(|known| known.is_some() && known.key == key)?;
        let second = self.second_pn.and_then(|second| second.get(place).copied());
        Some((self.lowest_pn.get(place).copied()?, second))
    }

    /// The number of its transmit channels.
    pub(super) fn channels(&self) -> u8 {
        // At most `CHANNELS_MAX`.
        1 + self.further_pn.len() as u8
    }

    /// The lowest packet number announced for a key in each channel behind the first one, with its
    /// place.
    pub(super) fn further_pns(&self, key: KeyIdentifier) -> impl Iterator<Item = (u8, u64)> {
        let place = self.keys.iter().position(|known| known.is_some() && known.key == key);
        let lowest = move |numbers: &[u64; 2]| place.and_then(|place| numbers.get(place).copied());
        (1..).zip(self.further_pn.iter().filter_map(lowest))
    }

    /// The highest of all these.
    pub(super) fn highest_pn(&self, key: KeyIdentifier) -> u64 {
        let (lowest, second) = self.lowest_pns(key).unwrap_or_default();
        self.further_pns(key).map(|(_, lowest)| lowest).chain(second).fold(lowest, u64::max)
    }
}

/// All peers, live and potential.
#[derive(Debug, Default)]
pub(super) struct Peers(pub(super) Vec<Peer>);

impl Peers {
    pub(super) fn get(&self, member: MemberIdentifier) -> Option<&Peer> {
        self.0.iter().find(|peer| peer.member == member)
    }

    pub(super) fn get_mut(&mut self, member: MemberIdentifier) -> Option<&mut Peer> {
        self.0.iter_mut().find(|peer| peer.member == member)
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &Peer> {
        self.0.iter().filter(|peer| peer.is_live())
    }

    /// The peers that keys are made for: live, and willing to use MACsec.
    pub(super) fn partners(&self) -> impl Iterator<Item = &Peer> {
        self.live().filter(|peer| peer.able)
    }

    pub(super) fn potential(&self) -> impl Iterator<Item = &Peer> {
        self.0.iter().filter(|peer| !peer.is_live())
    }

    /// Removes peers that were silent, or did not name us, for `life`. Returns the channels of the
    /// live ones.
    pub(super) fn expire(&mut self, now: Duration, life: Duration) -> Vec<Sci> {
        let mut gone = Vec::new();
        for peer in &mut self.0 {
            if peer.proven.is_some_and(|proven| now >= proven + life) {
                peer.proven = None;
                gone.push(peer.sci);
            }
        }
        self.0.retain(|peer| now < peer.heard + life);
        gone
    }

    /// Makes a peer live. An earlier live peer with the same channel has restarted and is removed.
    pub(super) fn prove(&mut self, member: MemberIdentifier, now: Duration) -> bool {
        let Some(peer) = self.get_mut(member) else { return false };
        let (new, sci) = (!peer.is_live(), peer.sci);
        peer.proven = Some(now);
        self.0.retain(|other| other.sci != sci || other.member == member);
        new
    }

    /// Frees a place for a proven peer by removing the potential peer silent for longest.
    pub(super) fn make_room(&mut self) -> bool {
        let silent = self.0.iter().enumerate().filter(|(_, peer)| !peer.is_live());
        let Some((place, _)) = silent.min_by_key(|(_, peer)| peer.heard) else { return false };
        self.0.remove(place);
        true
    }
}

/// The message number of at least `recent` with which an MKPDU names `member`, and whether its live
/// peer list does.
pub(super) fn names(parsed: &Parsed<'_>, member: MemberIdentifier, recent: u32) -> (Option<u32>, bool) {
    let named = |list: Option<antedate_wire::mka::PeerList<'_>>| {
        let mut known = list?.peers().filter(|(other, message)| *other == member && *message >= recent);
        known.next().map(|(_, message)| message)
    };
    let live = named(parsed.repr.live);
    (live.or_else(|| named(parsed.repr.potential)), live.is_some())
}
