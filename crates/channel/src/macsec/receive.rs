//! Validating frames (IEEE 802.1AE-2018 clause 10.6).

mod config;
mod expected;
mod place;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use antedate_wire::EtherType;
use antedate_wire::macsec::Mpdu;

use super::counters::ReceiveCounters;
use super::history::History;
use super::packet_number::recover;
use super::pool::{Open, PREPARED_LEN, Retired, fingerprint};
use super::sak::{Fingerprint, Sak};
use super::suite::{CipherSuite, NonceRule};
use super::{ADDRESSES_LEN, An, Sci, SecTagError};
use crate::fragment::{Assembly, FragmentCounters, Limits, Marks, Verdict, Verified};
use crate::lengths::Lengths;
use crate::replay::{MAX_WINDOW, ReplayWindow};
use expected::Usual;
use place::{Apart, InPlace, Parts, Place};

pub use config::{Discard, PeerError, ReceiveConfig, ReceiveInstallError, ReceiveSaStatus, ValidateFrames};

const ETHERTYPE_MACSEC: [u8; 2] = [0x88, 0xe5];
/// The most keys remembered after removal. 63 members with two channels each may leave and return
/// while a key and its predecessor are in use; 8 others without an operating system.
const REMEMBERED: usize = if cfg!(target_os = "none") { 32 } else { 256 };

/// Hot fields come first, in one cache line together with the window.
#[repr(C, align(64))]
struct ReceiveSa {
    pool: Open,
    /// The SecTAG of the association's usual frames.
    usual: Usual,
    lengths: Lengths,
    window: ReplayWindow,
    /// Packet numbers have 64 bits.
    xpn: bool,
    key: Fingerprint,
    rule: NonceRule,
}

struct Peer {
    associations: [Option<ReceiveSa>; An::COUNT],
    sci: Sci,
    ssci: u32,
    /// Memory for one frame in fragments, if the peer may send them.
    assembly: Option<Box<Assembly>>,
}

impl ReceiveSa {
    /// Records an authentic frame's packet number and length of secure data.
    #[inline]
    fn heard(&mut self, number: u64, octets: usize) {
        let ahead = number >= self.window.next();
        self.window.mark(number);
        if ahead {
            self.pool.expect_from(self.window.next());
        }
        self.saw(octets);
    }

    /// Records a frame's length of secure data.
    #[inline(always)]
    fn saw(&mut self, octets: usize) {
        if let Some(reach) = self.lengths.saw(octets) {
            self.pool.set_reach(reach);
        }
    }
}

/// An opened frame, with its peer and association.
struct Opened {
    /// The frame's range in the place given.
    at: Range<usize>,
    peer: usize,
    an: usize,
    number: u64,
    more: bool,
    continued: bool,
}

impl Opened {
    /// A frame without a peer that bypassed the cipher.
    fn unread(at: Range<usize>) -> Self {
        Self { at, peer: usize::MAX, an: 0, number: 0, more: false, continued: false }
    }
}

/// A peer's key that is ready for receiving: expanded, and its first packet numbers prepared if
/// requested. This takes many times as long as a frame, so another thread does it, and the
/// validating thread [adopts](Receive::adopt) the result.
pub struct ReadyReceive {
    sci: Sci,
    ssci: u32,
    suite: CipherSuite,
    an: An,
    lowest_pn: u64,
    key: Fingerprint,
    rule: NonceRule,
    pool: Open,
}

impl ReadyReceive {
    /// A key of the peer with this SCI and, for an XPN suite, this short SCI. The other arguments
    /// are those of [`Receive::install`].
    pub fn new(
        sci: Sci,
        ssci: Option<u32>,
        an: An,
        sak: &Sak,
        lowest_pn: u64,
    ) -> Result<Self, ReceiveInstallError> {
        let suite = sak.suite();
        if suite.is_xpn() && ssci.is_none() {
            return Err(ReceiveInstallError::SsciMissing);
        }
        let ssci = ssci.unwrap_or_default();
        let rule =
            if suite.is_xpn() { NonceRule::from_salt(sak.salt(), ssci) } else { NonceRule::from_sci(sci) };
        let key = fingerprint(sak).ok_or(ReceiveInstallError::OtherSuite)?;
        let pool = Open::new(sak, rule, lowest_pn.max(1)).ok_or(ReceiveInstallError::OtherSuite)?;
        Ok(Self { sci, ssci, suite, an, lowest_pn, key, rule, pool })
    }

    /// Prepares as many packet numbers as fit.
    #[must_use]
    pub fn prepared(mut self) -> Self {
        while self.pool.idle(u32::MAX) > 0 {}
        self
    }
}

impl fmt::Debug for ReadyReceive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadyReceive").field("sci", &self.sci).field("an", &self.an).finish()
    }
}

/// The receive secure channels of all peers. Hot fields come first, in few cache lines.
#[repr(C, align(64))]
pub struct Receive {
    /// Peer and association of the last valid frame, which are most likely the next frame's too.
    recent: (usize, usize),
    peers: Vec<Peer>,
    /// Whether any peer may send fragments.
    assembles: bool,
    config: ReceiveConfig,
    counters: ReceiveCounters,
    fragments: FragmentCounters,
    history: History<REMEMBERED>,
}

impl Receive {
    /// Channels without peers. The window is clamped to [`MAX_WINDOW`].
    pub fn new(config: ReceiveConfig) -> Self {
        let config = ReceiveConfig { replay_window: config.replay_window.min(MAX_WINDOW), ..config };
        Self {
            config,
            peers: Vec::new(),
            assembles: false,
            recent: (0, 0),
            history: History::new(),
            counters: ReceiveCounters::default(),
            fragments: FragmentCounters::default(),
        }
    }

    /// The configuration of the channels.
    pub const fn config(&self) -> &ReceiveConfig {
        &self.config
    }

    /// Adds a peer with the SCI it sends under and, for an XPN suite, its short SCI.
    pub fn add_peer(&mut self, sci: Sci, ssci: Option<u32>) -> Result<(), PeerError> {
        if self.config.suite.is_xpn() && ssci.is_none() {
            return Err(PeerError::SsciMissing);
        }
        if self.peers.iter().any(|peer| peer.sci == sci) {
            return Err(PeerError::Known);
        }
        if self.peers.len() >= self.config.max_peers {
            return Err(PeerError::TooMany);
        }
        let ssci = ssci.unwrap_or_default();
        self.peers.push(Peer { sci, ssci, associations: [const { None }; An::COUNT], assembly: None });
        Ok(())
    }

    /// Removes a peer and its keys.
    pub fn remove_peer(&mut self, sci: Sci) -> Retired {
        let mut retired = Retired::default();
        An::ALL.into_iter().for_each(|an| retired.add(self.remove(sci, an)));
        self.peers.retain(|peer| peer.sci != sci);
        self.assembles = self.peers.iter().any(|peer| peer.assembly.is_some());
        self.recent = (0, 0);
        retired
    }

    /// Accepts fragments with these marks from a peer, or none from now on.
    /// [`accept`](Self::accept) reassembles them. Before this call a fragment is a frame with an
    /// invalid SecTAG, as for any other implementation.
    ///
    /// Reserves memory for one frame of the peer. Returns false if the peer does not exist.
    pub fn set_fragments(&mut self, sci: Sci, marks: Option<Marks>, limits: Limits) -> bool {
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.sci == sci) else { return false };
        if peer.assembly.as_ref().map(|assembly| assembly.marks()) == marks {
            return true;
        }
        peer.assembly = marks.map(|marks| {
            let mut assembly = Box::new(Assembly::new(limits, marks));
            for (an, sa) in peer.associations.iter().enumerate() {
                if let Some(sa) = sa {
                    assembly.install(an, sa.window.next());
                }
            }
            assembly
        });
        self.assembles = self.peers.iter().any(|peer| peer.assembly.is_some());
        true
    }

    /// Installs a peer's key under an association number, replacing any previous key, and accepts
    /// packet numbers from `lowest_pn`.
    ///
    /// A reinstalled key accepts nothing that it has accepted before, whatever `lowest_pn` is.
    pub fn install(
        &mut self,
        sci: Sci,
        an: An,
        sak: &Sak,
        lowest_pn: u64,
    ) -> Result<(), ReceiveInstallError> {
        if sak.suite() != self.config.suite {
            return Err(ReceiveInstallError::OtherSuite);
        }
        let peer = self.peers.iter().find(|peer| peer.sci == sci).ok_or(ReceiveInstallError::UnknownSci)?;
        self.adopt(ReadyReceive::new(sci, Some(peer.ssci), an, sak, lowest_pn)?).map(drop)
    }

    /// Installs a prepared key, as [`install`](Self::install) does, and returns the one it
    /// replaces. An unknown peer is added. The peer and the channels take over the key's short SCI
    /// and suite.
    pub fn adopt(&mut self, ready: ReadyReceive) -> Result<Retired, ReceiveInstallError> {
        let ReadyReceive { sci, ssci, suite, an, lowest_pn, key, rule, mut pool } = ready;
        let place = match self.peers.iter().position(|peer| peer.sci == sci) {
            Some(place) => place,
            None if self.peers.len() >= self.config.max_peers => {
                return Err(ReceiveInstallError::TooManyPeers);
            }
            None => {
                self.peers.push(Peer {
                    sci,
                    ssci,
                    associations: [const { None }; An::COUNT],
                    assembly: None,
                });
                self.peers.len() - 1
            }
        };
        self.config.suite = suite;
        let Some(peer) = self.peers.get_mut(place) else { return Err(ReceiveInstallError::UnknownSci) };
        peer.ssci = ssci;
        let same = |sa: &&ReceiveSa| sa.key == key && sa.rule == rule;
        let known =
            peer.associations.iter().flatten().filter(same).map(|sa| sa.window.next()).max().unwrap_or(0);
        let lowest = lowest_pn.max(1).max(self.history.next(key, rule)).max(known);
        pool.expect_from(lowest);
        let window = ReplayWindow::new(lowest, self.config.replay_window);
        let (usual, lengths) = (Usual::new(sci, an, suite), Lengths::new(PREPARED_LEN));
        let sa = ReceiveSa { usual, pool, window, key, rule, xpn: suite.is_xpn(), lengths };
        let mut retired = Retired::default();
        if let Some(old) = peer.associations[an.index()].replace(sa) {
            self.history.note(old.key, old.rule, old.window.next());
            retired.open(old.pool);
        }
        if let Some(assembly) = &mut peer.assembly {
            assembly.install(an.index(), lowest);
        }
        Ok(retired)
    }

    /// Removes a peer's key.
    pub fn remove(&mut self, sci: Sci, an: An) -> Retired {
        let mut retired = Retired::default();
        let peer = self.peers.iter_mut().find(|peer| peer.sci == sci);
        if let Some(sa) = peer.and_then(|peer| peer.associations[an.index()].take()) {
            self.history.note(sa.key, sa.rule, sa.window.next());
            retired.open(sa.pool);
        }
        retired
    }

    /// Removes the keys of all peers under an association number.
    pub fn remove_all(&mut self, an: An) -> Retired {
        let mut retired = Retired::default();
        for peer in &mut self.peers {
            if let Some(sa) = peer.associations[an.index()].take() {
                self.history.note(sa.key, sa.rule, sa.window.next());
                retired.open(sa.pool);
            }
        }
        retired
    }

    /// Raises the lowest acceptable packet number to `lowest_pn`, as key agreement may require
    /// (clause 10.7.15). A value below the present one changes nothing. Returns false if there is
    /// no such association.
    pub fn set_lowest_acceptable_pn(&mut self, sci: Sci, an: An, lowest_pn: u64) -> bool {
        let Some(sa) = self.association(sci, an) else { return false };
        sa.window.raise_lowest(lowest_pn);
        sa.pool.expect_from(sa.window.next());
        true
    }

    fn association(&mut self, sci: Sci, an: An) -> Option<&mut ReceiveSa> {
        self.peers.iter_mut().find(|peer| peer.sci == sci)?.associations[an.index()].as_mut()
    }

    /// Validates a frame into `out` and returns the number of octets there: destination, source,
    /// EtherType, user data.
    ///
    /// Fragments are discarded, whatever was agreed.
    ///
    /// # Errors
    ///
    /// After a discard `out` holds no user data, and only one counter has changed.
    pub fn validate(&mut self, frame: &[u8], out: &mut [u8]) -> Result<usize, Discard> {
        let place = &mut Apart { frame, out };
        match self.expected(place) {
            Some(at) => Ok(at?.end),
            None => Ok(self.counted(place, false)?.at.end),
        }
    }

    /// Validates a frame in place, as [`validate`](Self::validate) does, and reassembles fragments.
    /// Returns the frame, as a part of the buffer it arrived in or of `whole` if it was
    /// reassembled. Returns nothing for a fragment that waits for the rest of its frame. `now` is
    /// the time, in the units of the deadline.
    ///
    /// Only authenticated frames are treated as fragments. A frame that cannot be part of another
    /// is counted in [`fragments`](Self::fragments) by its reason. After a discard `frame` holds
    /// nothing that was decrypted.
    ///
    /// The path of the expected frame is inlined into the caller. It is long, and a
    /// [rehearsal](crate::macsec::Rehearsal) must take the same path, so there should be only one
    /// caller.
    #[inline(always)]
    pub fn accept<'a>(
        &mut self,
        now: impl FnOnce() -> u64,
        frame: &'a mut [u8],
        whole: &'a mut [u8],
    ) -> Result<Option<&'a mut [u8]>, Discard> {
        match self.expected(&mut InPlace(frame)) {
            Some(Ok(at)) if !self.assembles => Ok(frame.get_mut(at)),
            Some(Ok(at)) => self.assembled(now, self.just_opened(at), frame, whole),
            Some(Err(discard)) => Err(discard),
            None => self.accept_other(now, frame, whole),
        }
    }

    /// Accepts a frame that was not the expected one. Out of line, as [`counted`](Self::counted)
    /// is.
    #[inline(never)]
    fn accept_other<'a>(
        &mut self,
        now: impl FnOnce() -> u64,
        frame: &'a mut [u8],
        whole: &'a mut [u8],
    ) -> Result<Option<&'a mut [u8]>, Discard> {
        let opened = self.counted(&mut InPlace(frame), true)?;
        self.assembled(now, opened, frame, whole)
    }

    /// The result of an authenticated frame: the frame itself, or the one it completes.
    #[inline(never)]
    fn assembled<'a>(
        &mut self,
        now: impl FnOnce() -> u64,
        opened: Opened,
        frame: &'a mut [u8],
        whole: &'a mut [u8],
    ) -> Result<Option<&'a mut [u8]>, Discard> {
        let Opened { at, peer, an, number, more, continued } = opened;
        let opened = frame.get_mut(at).unwrap_or_default();
        let Some(assembly) = self.peers.get_mut(peer).and_then(|peer| peer.assembly.as_mut()) else {
            return Ok(Some(opened));
        };
        let verified = Verified { association: an, number, more, continued, frame: opened };
        match assembly.take(now, verified, &mut self.fragments) {
            Verdict::Whole => Ok(Some(opened)),
            Verdict::Held => Ok(None),
            Verdict::Complete(complete) => {
                let Some(place) = whole.get_mut(..complete.len()) else {
                    self.counters.in_discarded_too_long += 1;
                    // The last piece is there.
                    opened.fill(0);
                    return Err(Discard::OutputTooSmall);
                };
                place.copy_from_slice(complete);
                Ok(Some(place))
            }
            Verdict::Refused(why) => {
                opened.fill(0);
                Err(Discard::Fragment(why))
            }
        }
    }

    /// Validates a frame and counts a discard. Out of line, to keep the code of a usual frame
    /// contiguous.
    #[inline(never)]
    fn counted(&mut self, place: &mut impl Place, fragments: bool) -> Result<Opened, Discard> {
        self.try_validate(place, fragments).inspect_err(|discard| self.count_discarded(*discard))
    }

    /// Drops incomplete frames whose deadline has passed. The next frame of their peer does so too.
    pub fn expire(&mut self, now: u64) {
        for assembly in self.peers.iter_mut().filter_map(|peer| peer.assembly.as_mut()) {
            assembly.expire(now, &mut self.fragments);
        }
    }

    fn try_validate(&mut self, place: &mut impl Place, fragments: bool) -> Result<Opened, Discard> {
        let frame = place.frame();
        if frame.get(ADDRESSES_LEN..ADDRESSES_LEN + 2) != Some(&ETHERTYPE_MACSEC) {
            return self.untagged(place).map(Opened::unread);
        }
        let mpdu = Mpdu::parse(frame).map_err(Discard::BadTag)?;
        let (tag, sci, parts) = (mpdu.tag, mpdu.sci(), Parts::of(&mpdu));
        let tci = tag.tci;
        if tci.is_reserved_encoding() {
            return Err(Discard::ReservedEncoding);
        }
        if !place.holds(parts.opened()) {
            return Err(Discard::OutputTooSmall);
        }

        // Clause 10.6.1: the channel and the association. An uncheckable frame is discarded under
        // strict validation, or if it would be unreadable.
        let must_check = self.config.validate == ValidateFrames::Strict || tci.changed_text();
        let peer_at = self.peer_of(sci);
        let an = tag.an.index();
        // For an unknown association, the suite is that of the next key.
        let known = peer_at.and_then(|at| self.peers.get(at)).and_then(|peer| peer.associations[an].as_ref());
        let xpn = known.map_or(self.config.suite.is_xpn(), |sa| sa.xpn);
        if !xpn && tag.packet_number == 0 {
            return Err(Discard::ZeroPacketNumber);
        }
        // Clause 9.12 (e): reserved bits, unless they mark agreed fragments.
        if !tag.is_standard() {
            let agreed = peer_at.and_then(|at| self.peers.get(at)).and_then(|peer| peer.assembly.as_ref());
            let agreed = agreed.is_some_and(|agreed| agreed.marks() == Marks::Both || !tag.continued);
            if !(fragments && agreed && self.config.validate == ValidateFrames::Strict) {
                return Err(Discard::BadTag(SecTagError::ReservedBits));
            }
        }
        let Some(peer_at) = peer_at else {
            if must_check {
                return Err(Discard::UnknownSci);
            }
            self.counters.in_pkts_unknown_sci += 1;
            return Ok(Opened::unread(unread(place, parts)));
        };
        let Some(sa) = self.peers.get_mut(peer_at).and_then(|peer| peer.associations[an].as_mut()) else {
            if must_check {
                return Err(Discard::NotUsingSa);
            }
            self.counters.in_pkts_unused_sa += 1;
            return Ok(Opened::unread(unread(place, parts)));
        };

        // Clause 10.6.2: the whole packet number, and the preliminary replay check.
        let low = tag.packet_number;
        let lowest = sa.window.lowest();
        let number = if xpn { recover(lowest, low).ok_or(Discard::Late)? } else { u64::from(low) };
        if self.config.replay_protect {
            sa.window.check(number)?;
        }

        if self.config.validate == ValidateFrames::Disabled {
            if tci.changed_text() {
                return Err(Discard::NotValid);
            }
            self.counters.in_pkts_unchecked += 1;
            return Ok(Opened::unread(unread(place, parts)));
        }

        // Clause 10.6.3: the cipher. It outputs nothing unauthenticated.
        let genuine = if tci.encryption() {
            place.open(&mut sa.pool, number, parts)
        } else {
            // Header and secure data are contiguous in the frame.
            let (authenticated, icv) = place.frame().split_at(parts.header + parts.data);
            let icv = icv.first_chunk().ok_or(Discard::NotValid)?;
            sa.pool.verify(number, &[authenticated], icv).inspect(|()| place.deliver(parts))
        };
        if genuine.is_err() {
            if must_check {
                return Err(Discard::NotValid);
            }
            self.counters.in_pkts_invalid += 1;
            return Ok(Opened::unread(unread(place, parts)));
        }

        // Clauses 10.6.4 and 10.6.5: record the number only now.
        let at = place.address(parts);
        sa.heard(number, parts.data);
        self.recent = (peer_at, an);
        let octets = parts.data as u64;
        let counters = &mut self.counters;
        if tci.encryption() {
            counters.in_octets_decrypted += octets;
        } else {
            counters.in_octets_validated += octets;
        }
        if number < lowest {
            counters.in_pkts_delayed += 1;
        } else {
            counters.in_pkts_ok += 1;
        }
        let (more, continued) = (tag.more_fragments, tag.continued);
        Ok(Opened { at, peer: peer_at, an, number, more, continued })
    }

    /// Handles a frame without SecTAG.
    #[cold]
    fn untagged(&mut self, place: &mut impl Place) -> Result<Range<usize>, Discard> {
        let frame = place.frame();
        if frame.get(ADDRESSES_LEN..ADDRESSES_LEN + 2) == Some(&EtherType::Eapol.number().to_be_bytes()) {
            return Err(Discard::Uncontrolled);
        }
        if self.config.validate == ValidateFrames::Strict || frame.len() < ADDRESSES_LEN + 2 {
            return Err(Discard::NoTag);
        }
        if !place.holds(frame.len()) {
            return Err(Discard::OutputTooSmall);
        }
        self.counters.in_pkts_untagged += 1;
        Ok(place.untagged())
    }

    /// The peer of a frame's SCI: explicit, from the source address, or the only peer.
    #[inline]
    fn peer_of(&self, sci: Option<Sci>) -> Option<usize> {
        let Some(sci) = sci else {
            return (self.peers.len() == 1).then_some(0);
        };
        let (recent, _) = self.recent;
        if self.peers.get(recent).is_some_and(|peer| peer.sci == sci) {
            return Some(recent);
        }
        self.peers.iter().position(|peer| peer.sci == sci)
    }

    /// Does at most `budget` preparation steps (of about 64 octets of key stream each), first for
    /// the association of the last valid frame. Returns the number of steps done, 0 if everything
    /// is prepared.
    #[inline]
    pub fn idle(&mut self, budget: u32) -> u32 {
        let (peer, an) = self.recent;
        let recent = self.peers.get_mut(peer).and_then(|peer| peer.associations[an].as_mut());
        let done = recent.map_or(0, |sa| sa.pool.idle(budget));
        if done > 0 { done } else { self.idle_others(budget) }
    }

    /// Warms the cache for the next frame of the association heard last. Returns its suite and the
    /// expected octets of data.
    pub(super) fn touch(&self) -> Option<(CipherSuite, usize)> {
        let (peer, an) = self.recent;
        let sa = self.peers.get(peer)?.associations.get(an)?.as_ref()?;
        core::hint::black_box((self.counters.in_octets_decrypted, sa.window.next()));
        let octets = sa.lengths.longest();
        sa.pool.touch(octets);
        Some((self.config.suite, octets))
    }

    fn idle_others(&mut self, budget: u32) -> u32 {
        let all = self.peers.iter_mut().flat_map(|peer| peer.associations.iter_mut().flatten());
        all.map(|sa| sa.pool.idle(budget)).find(|done| *done > 0).unwrap_or(0)
    }

    /// The state of each association that has a key.
    pub fn status(&self) -> impl Iterator<Item = ReceiveSaStatus> + '_ {
        self.peers.iter().flat_map(|peer| {
            An::ALL.into_iter().zip(&peer.associations).filter_map(|(an, sa)| {
                let ReceiveSa { pool, window, .. } = sa.as_ref()?;
                let (next_pn, lowest_pn) = (window.next(), window.lowest());
                Some(ReceiveSaStatus { sci: peer.sci, an, next_pn, lowest_pn, prepared: pool.prepared() })
            })
        })
    }

    /// The counters.
    pub const fn counters(&self) -> &ReceiveCounters {
        &self.counters
    }

    /// Counters of fragments, among the valid frames.
    pub const fn fragments(&self) -> &FragmentCounters {
        &self.fragments
    }

    #[cold]
    fn count_discarded(&mut self, discard: Discard) {
        let counters = &mut self.counters;
        let counter = match discard {
            Discard::NoTag => &mut counters.in_pkts_no_tag,
            Discard::Uncontrolled => &mut counters.in_pkts_uncontrolled,
            Discard::BadTag(_) | Discard::ReservedEncoding | Discard::ZeroPacketNumber => {
                &mut counters.in_pkts_bad_tag
            }
            Discard::UnknownSci => &mut counters.in_pkts_no_sci,
            Discard::NotUsingSa => &mut counters.in_pkts_not_using_sa,
            Discard::Duplicate if self.config.two_paths => &mut counters.in_pkts_copies,
            Discard::Late | Discard::Duplicate => &mut counters.in_pkts_late,
            Discard::NotValid => &mut counters.in_pkts_not_valid,
            Discard::OutputTooSmall => &mut counters.in_discarded_too_long,
            // Counted among the fragments, because the frame was valid.
            Discard::Fragment(_) => return,
        };
        *counter += 1;
    }
}

/// Delivers an unencrypted frame that was unchecked or failed the check.
#[cold]
fn unread(place: &mut impl Place, parts: Parts) -> Range<usize> {
    place.deliver(parts);
    place.address(parts)
}

impl fmt::Debug for Receive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receive").field("config", &self.config).field("peers", &self.peers.len()).finish()
    }
}
