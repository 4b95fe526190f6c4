//! One peer: its sessions, its handshake, and its timers (WireGuard paper, section 6).

use core::net::SocketAddr;

use antedate_wire::wireguard::{TRANSPORT_HEADER_LEN, TRANSPORT_OVERHEAD};

use super::cookie::Marker;
use super::noise::{Begun, Timestamp};
use super::session::Session;
use super::{PeerCounters, Settings};

/// One second in nanoseconds, the unit of all times here.
pub(super) const SECOND: u64 = 1_000_000_000;
/// The initiator of a session renews it at this age.
const REKEY_AFTER: u64 = 120 * SECOND;
/// A session of this age neither sends nor accepts.
const REJECT_AFTER: u64 = 180 * SECOND;
/// An unanswered handshake is retried after this time,
const REKEY_TIMEOUT: u64 = 5 * SECOND;
/// for this long.
const REKEY_ATTEMPTS: u64 = 90 * SECOND;
/// The initiator confirms a session at once, so in less than this time.
const CONFIRMED: u64 = SECOND;
/// A side that has only received for this time sends a keepalive.
const KEEPALIVE_TIMEOUT: u64 = 10 * SECOND;
/// A peer's initiations closer together than this are a flood.
const INITIATION_PAUSE: u64 = SECOND / 50;

/// Selects one of a peer's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    Previous,
    Current,
    Next,
}

pub(super) struct Peer {
    /// The public key to which handshakes are begun.
    pub(super) public: [u8; 32],
    /// The other one, while the peer changes keys.
    pub(super) other: Option<[u8; 32]>,
    pub(super) endpoint: Option<SocketAddr>,
    pub(super) counters: PeerCounters,
    pub(super) marker: Marker,
    keepalive_every: Option<u64>,
    previous: Option<Session>,
    pub(super) current: Option<Session>,
    /// A session that the peer initiated and has not used yet.
    next: Option<Session>,
    pub(super) begun: Option<Begun>,
    /// The time of the first attempt of the current handshake.
    trying_since: Option<u64>,
    /// When the next initiation is due.
    pub(super) initiation_due: Option<u64>,
    /// The time of the last initiation.
    initiated: Option<u64>,
    /// The highest timestamp of the peer's initiations, and the time of the last one.
    heard: Option<(Timestamp, u64)>,
    /// Our last timestamp. The next one is higher, whatever the clock.
    pub(super) said: Timestamp,
    /// The time to send a keepalive, unless another message is sent before.
    pub(super) keepalive_due: Option<u64>,
    /// The time to assume that the peer has lost its session, unless a message arrives before.
    pub(super) silence_due: Option<u64>,
    /// The time of the next persistent keepalive.
    persistent_due: Option<u64>,
    /// When the preshared key changed. 0: never.
    pub(super) preshared_since: u64,
    reach: usize,
}

/// The source of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) from: SocketAddr,
    /// It came by a path on which roaming is not followed.
    pub(super) beside: bool,
}

/// The reason for not answering an initiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StaleError {
    Replayed,
    Flood,
}

impl Peer {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            public: settings.public,
            other: settings.other,
            endpoint: settings.endpoint,
            counters: PeerCounters::default(),
            marker: Marker::new(&settings.public),
            keepalive_every: (settings.keepalive_seconds > 0)
                .then_some(u64::from(settings.keepalive_seconds) * SECOND),
            previous: None,
            current: None,
            next: None,
            begun: None,
            trying_since: None,
            // A peer with a persistent keepalive is contacted at once, others when there is a
            // packet.
            initiation_due: (settings.keepalive_seconds > 0 && settings.endpoint.is_some()).then_some(0),
            initiated: None,
            heard: None,
            said: [0; 12],
            keepalive_due: None,
            silence_due: None,
            persistent_due: None,
            preshared_since: 0,
            reach: settings.reach,
        }
    }

    /// Changes the interval of persistent keepalives.
    pub(super) fn set_keepalive(&mut self, now: u64, seconds: u16) {
        let every = (seconds > 0).then_some(u64::from(seconds) * SECOND);
        if core::mem::replace(&mut self.keepalive_every, every) == every {
            return;
        }
        self.persistent_due = every.map(|every| now + every);
        if every.is_some() && !self.is_ready(now) {
            self.want_handshake(now);
        }
    }

    /// The session for sending, if still valid.
    #[inline]
    pub(super) fn sending(&mut self, now: u64) -> Option<&mut Session> {
        self.current.as_mut().filter(|session| now.saturating_sub(session.born) < REJECT_AFTER)
    }

    /// Whether data can be sent at once.
    pub(super) fn is_ready(&self, now: u64) -> bool {
        self.current.as_ref().is_some_and(|session| now.saturating_sub(session.born) < REJECT_AFTER)
    }

    /// Seals a packet after space for a header, and updates the timers. `None` if there is no
    /// session; then a handshake is due at once.
    #[inline]
    pub(super) fn seal(&mut self, now: u64, datagram: &mut [u8], len: usize) -> Option<usize> {
        let Some(session) = self.sending(now) else {
            self.want_handshake(now);
            return None;
        };
        let sealed = session.seal(datagram, len)?;
        let renew = session.is_worn() || session.initiator && now.saturating_sub(session.born) >= REKEY_AFTER;
        if renew {
            self.want_handshake(now);
        }
        if len > 0 {
            self.silence_due.get_or_insert(now + KEEPALIVE_TIMEOUT + REKEY_TIMEOUT);
            self.counters.sent += 1;
            self.counters.octets_sent += sealed as u64;
        } else {
            self.counters.keepalives_sent += 1;
        }
        self.anything_sent(now);
        Some(sealed)
    }

    /// Records the source of an authentic message. Returns whether the peer has moved.
    #[inline]
    pub(super) fn heard_at(&mut self, origin: Origin) -> bool {
        let moved = self.endpoint != Some(origin.from) && !(origin.beside && self.endpoint.is_some());
        if moved {
            self.counters.roamed += u64::from(self.endpoint.is_some());
            self.endpoint = Some(origin.from);
        }
        moved
    }

    /// Sets the address.
    pub(super) fn readdress(&mut self, now: u64, to: SocketAddr) {
        let first = self.endpoint.replace(to).is_none();
        if first && self.keepalive_every.is_some() {
            self.want_handshake(now);
        }
    }

    /// Updates the timers after an authenticated message was sent.
    pub(super) fn anything_sent(&mut self, now: u64) {
        self.keepalive_due = None;
        self.persistent_due = self.keepalive_every.map(|every| now + every);
    }

    /// Updates the timers after an authenticated message was received.
    fn anything_received(&mut self, now: u64) {
        self.silence_due = None;
        self.persistent_due = self.keepalive_every.map(|every| now + every);
        self.counters.last_received = now;
    }

    /// The session with this index of ours, if still valid.
    #[inline]
    pub(super) fn receiving(&mut self, index: u32, now: u64) -> Option<(Age, &mut Session)> {
        let sessions = [
            (Age::Current, &mut self.current),
            (Age::Previous, &mut self.previous),
            (Age::Next, &mut self.next),
        ];
        let found = sessions.into_iter().find_map(|(age, session)| {
            session.as_mut().filter(|session| session.local == index).map(|session| (age, session))
        });
        found.filter(|(_, session)| now.saturating_sub(session.born) < REJECT_AFTER)
    }

    /// Records an authentic transport message of a session. Returns the index of a session that is
    /// now dropped.
    #[inline]
    pub(super) fn received(&mut self, age: Age, now: u64, packet_len: usize) -> Option<u32> {
        let gone = if age == Age::Next {
            // The peer has our response: use the session that it initiated.
            let gone = core::mem::replace(&mut self.previous, self.current.take());
            self.current = self.next.take();
            self.trying_since = None;
            self.initiation_due = None;
            gone.map(|session| session.local)
        } else {
            None
        };
        self.anything_received(now);
        let old = |session: &Session| {
            now.saturating_sub(session.born) >= REJECT_AFTER - KEEPALIVE_TIMEOUT - REKEY_TIMEOUT
        };
        if self.current.as_ref().is_some_and(|session| session.initiator && old(session)) {
            self.want_handshake(now);
        }
        if packet_len > 0 {
            self.keepalive_due.get_or_insert(now + KEEPALIVE_TIMEOUT);
            self.counters.received += 1;
            self.counters.octets_received += (packet_len + TRANSPORT_OVERHEAD) as u64;
        } else {
            self.counters.keepalives_received += 1;
        }
        gone
    }

    /// Requests a new session: an initiation is due as soon as the last one is old enough.
    pub(super) fn want_handshake(&mut self, now: u64) {
        if self.initiation_due.is_some() || self.endpoint.is_none() {
            return;
        }
        let at = self.initiated.map_or(now, |at| now.max(at + REKEY_TIMEOUT));
        self.initiation_due = Some(at);
    }

    /// Whether to send an initiation now. A peer that has not answered for long is given up for a
    /// while.
    pub(super) fn takes_initiation(&mut self, now: u64) -> bool {
        if self.initiation_due.is_none_or(|due| now < due) || self.endpoint.is_none() {
            return false;
        }
        let since = *self.trying_since.get_or_insert(now);
        if now.saturating_sub(since) >= REKEY_ATTEMPTS {
            self.trying_since = None;
            self.initiation_due = None;
            self.counters.handshakes_given_up += 1;
            return false;
        }
        true
    }

    /// Whether it has this public key.
    pub(super) fn has(&self, public: &[u8; 32]) -> bool {
        self.public == *public || self.other == Some(*public)
    }

    /// Whether the last initiation has no answer.
    pub(super) fn is_unanswered(&self) -> bool {
        self.trying_since.is_some() && self.begun.is_some()
    }

    /// Records a sent initiation. `jitter` separates two peers that initiate at the same moment.
    pub(super) fn initiated(&mut self, now: u64, jitter: u64) {
        self.initiated = Some(now);
        self.initiation_due = Some(now + REKEY_TIMEOUT + jitter % (SECOND / 3));
        self.counters.initiations_sent += 1;
        self.anything_sent(now);
    }

    /// Records the answer to our handshake. Returns the indices of sessions that are now dropped.
    pub(super) fn finished(&mut self, mut session: Session, now: u64) -> [Option<u32>; 3] {
        session.born = now;
        session.set_reach(self.reach);
        self.begun = None;
        self.trying_since = None;
        self.initiation_due = None;
        // A session that the peer has not confirmed by now is one that it could not make, as with
        // another preshared key. Then it still uses the current one.
        let since = self.preshared_since;
        let lost = self.next.take_if(|next| next.born <= since || now.saturating_sub(next.born) >= CONFIRMED);
        // If both initiated at the same moment, the peer may use its own session, which is still
        // unconfirmed here.
        let current = self.current.take();
        let (kept, dropped) = match self.next.take() {
            Some(next) => (Some(next), current),
            None => (current, None),
        };
        let gone = [core::mem::replace(&mut self.previous, kept), dropped, lost];
        self.current = Some(session);
        self.counters.handshakes += 1;
        self.counters.last_handshake = now;
        self.anything_received(now);
        // The peer uses the session only after a message from us in it.
        self.keepalive_due = Some(now);
        gone.map(|session| session.map(|session| session.local))
    }

    /// Records our answer to the peer's handshake. Returns the index of a session that is now
    /// dropped.
    pub(super) fn answered(&mut self, mut session: Session, now: u64) -> Option<u32> {
        session.born = now;
        session.set_reach(self.reach);
        let gone = self.next.replace(session).map(|session| session.local);
        self.counters.handshakes += 1;
        self.counters.last_handshake = now;
        self.anything_received(now);
        self.anything_sent(now);
        gone
    }

    /// Whether an initiation with this timestamp is new.
    pub(super) fn is_fresh(&mut self, timestamp: Timestamp, now: u64) -> Result<(), StaleError> {
        if let Some((highest, at)) = self.heard {
            if timestamp <= highest {
                return Err(StaleError::Replayed);
            }
            if now.saturating_sub(at) < INITIATION_PAUSE {
                return Err(StaleError::Flood);
            }
        }
        self.heard = Some((timestamp, now));
        Ok(())
    }

    /// Drops expired sessions and handshakes. Returns the indices that become free. The paper's
    /// section 6.3 permits three times as long, but nothing uses such keys.
    pub(super) fn expire(&mut self, now: u64) -> [Option<u32>; 4] {
        let old = |since: u64| now.saturating_sub(since) >= REJECT_AFTER;
        let [a, b, c] = [&mut self.previous, &mut self.current, &mut self.next]
            .map(|place| place.take_if(|session| old(session.born)).map(|session| session.local));
        // Drop the ephemeral key of an unanswered handshake.
        let begun = self.begun.take_if(|_| self.initiated.is_some_and(old)).map(|begun| begun.index);
        [a, b, c, begun]
    }

    /// Requests a handshake if there was no reply: the peer may have restarted.
    pub(super) fn hears_silence(&mut self, now: u64) {
        if self.silence_due.take_if(|at| now >= *at).is_some() {
            self.want_handshake(now);
        }
    }

    /// Whether a keepalive is due, for either reason.
    pub(super) fn takes_keepalive(&mut self, now: u64) -> bool {
        let due = |at: &mut Option<u64>| at.take_if(|at| now >= *at).is_some();
        let (keepalive, persistent) = (due(&mut self.keepalive_due), due(&mut self.persistent_due));
        if !(keepalive || persistent) {
            return false;
        }
        if !self.is_ready(now) {
            self.persistent_due = self.keepalive_every.map(|every| now + every);
            if persistent {
                self.want_handshake(now);
            }
            return false;
        }
        true
    }

    /// The next due time.
    pub(super) fn due(&self) -> Option<u64> {
        [self.initiation_due, self.keepalive_due, self.silence_due, self.persistent_due]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does at most `budget` preparation steps, also for an unconfirmed session. Returns the number
    /// done.
    #[inline]
    pub(super) fn idle(&mut self, budget: u32) -> u32 {
        let sessions = [&mut self.current, &mut self.next];
        sessions.into_iter().flatten().map(|session| session.idle(budget)).find(|done| *done > 0).unwrap_or(0)
    }

    /// Octets of the header before a packet.
    pub(super) const HEADROOM: usize = TRANSPORT_HEADER_LEN;
}
