//! One peer: its sessions, its handshake, and when something has to be done about them (WireGuard paper, section 6).

use core::net::SocketAddr;

use antedate_wire::wireguard::{TRANSPORT_HEADER_LEN, TRANSPORT_OVERHEAD};

use super::cookie::Marker;
use super::noise::{Begun, Timestamp};
use super::session::Session;
use super::{PeerCounters, Settings};

/// A second in the unit of all times here, nanoseconds.
pub(super) const SECOND: u64 = 1_000_000_000;
/// The side that began a session renews it after this time.
const REKEY_AFTER: u64 = 120 * SECOND;
/// Nothing is sent or accepted in a session of this age.
const REJECT_AFTER: u64 = 180 * SECOND;
/// An unanswered handshake is tried again after this time,
const REKEY_TIMEOUT: u64 = 5 * SECOND;
/// for so long.
const REKEY_ATTEMPTS: u64 = 90 * SECOND;
/// Who has only received for this time says that it is alive.
const KEEPALIVE_TIMEOUT: u64 = 10 * SECOND;
/// A peer's initiations closer together than this are a flood.
const INITIATION_PAUSE: u64 = SECOND / 50;

/// Which of a peer's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    Previous,
    Current,
    Next,
}

pub(super) struct Peer {
    pub(super) public: [u8; 32],
    pub(super) endpoint: Option<SocketAddr>,
    pub(super) counters: PeerCounters,
    pub(super) marker: Marker,
    keepalive_every: Option<u64>,
    previous: Option<Session>,
    pub(super) current: Option<Session>,
    /// A session that the peer began and has not used yet.
    next: Option<Session>,
    pub(super) begun: Option<Begun>,
    /// When the first try of the handshake in progress was sent.
    trying_since: Option<u64>,
    /// When the next initiation is due.
    initiation_due: Option<u64>,
    /// The last one that was sent.
    initiated: Option<u64>,
    /// The highest timestamp of the peer's initiations, and when the last one came.
    heard: Option<(Timestamp, u64)>,
    /// Our own last timestamp: the next one is higher, whatever the clock says.
    pub(super) said: Timestamp,
    /// When we shall say that we are alive, unless something is sent before.
    keepalive_due: Option<u64>,
    /// When we shall think that the peer has lost its session, unless something comes before.
    silence_due: Option<u64>,
    /// When a persistent keepalive is due.
    persistent_due: Option<u64>,
    reach: usize,
}

/// Where a datagram came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) from: SocketAddr,
    /// By a way on which peers are not followed.
    pub(super) beside: bool,
}

/// Why an initiation is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stale {
    Replayed,
    Flood,
}

impl Peer {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            public: settings.public,
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
            // A peer with a persistent keepalive is greeted at once, the others when there is something to send.
            initiation_due: (settings.keepalive_seconds > 0 && settings.endpoint.is_some()).then_some(0),
            initiated: None,
            heard: None,
            said: [0; 12],
            keepalive_due: None,
            silence_due: None,
            persistent_due: None,
            reach: settings.reach,
        }
    }

    /// The session that is used for sending, if it may still be.
    #[inline]
    pub(super) fn sending(&mut self, now: u64) -> Option<&mut Session> {
        self.current.as_mut().filter(|session| now.saturating_sub(session.born) < REJECT_AFTER)
    }

    /// Whether data can be sent at once.
    pub(super) fn is_ready(&self, now: u64) -> bool {
        self.current.as_ref().is_some_and(|session| now.saturating_sub(session.born) < REJECT_AFTER)
    }

    /// Seals a packet that lies behind a header's room, and keeps the times. None if there is no session; then a
    /// handshake is due at once.
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

    /// A genuine message came from there. Tells whether the peer has moved.
    #[inline]
    pub(super) fn heard_at(&mut self, origin: Origin) -> bool {
        let moved = self.endpoint != Some(origin.from) && !(origin.beside && self.endpoint.is_some());
        if moved {
            self.counters.roamed += u64::from(self.endpoint.is_some());
            self.endpoint = Some(origin.from);
        }
        moved
    }

    /// An authenticated message went out.
    pub(super) fn anything_sent(&mut self, now: u64) {
        self.keepalive_due = None;
        self.persistent_due = self.keepalive_every.map(|every| now + every);
    }

    /// An authenticated message came in.
    fn anything_received(&mut self, now: u64) {
        self.silence_due = None;
        self.persistent_due = self.keepalive_every.map(|every| now + every);
        self.counters.last_received = now;
    }

    /// The session with that index of ours, if it may still be used.
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

    /// A transport message of a session was genuine. Gives the index of a session that is gone now.
    #[inline]
    pub(super) fn received(&mut self, age: Age, now: u64, packet_len: usize) -> Option<u32> {
        let gone = if age == Age::Next {
            // The peer has our response: the session that it began is the one to use.
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

    /// Wants a new session: an initiation is due, as soon as the last one is old enough.
    pub(super) fn want_handshake(&mut self, now: u64) {
        if self.initiation_due.is_some() || self.endpoint.is_none() {
            return;
        }
        let at = self.initiated.map_or(now, |at| now.max(at + REKEY_TIMEOUT));
        self.initiation_due = Some(at);
    }

    /// Whether an initiation is to be sent now. The peer is given up for a while when it has not answered for long.
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

    /// An initiation was sent. `jitter` keeps two peers that begin at the same moment apart.
    pub(super) fn initiated(&mut self, now: u64, jitter: u64) {
        self.initiated = Some(now);
        self.initiation_due = Some(now + REKEY_TIMEOUT + jitter % (SECOND / 3));
        self.counters.initiations_sent += 1;
        self.anything_sent(now);
    }

    /// Our handshake was answered. Gives the indices of sessions that are gone now.
    pub(super) fn finished(&mut self, mut session: Session, now: u64) -> [Option<u32>; 2] {
        session.set_reach(self.reach);
        self.begun = None;
        self.trying_since = None;
        self.initiation_due = None;
        // Where both began at the same moment, the peer may use the session that it began, and we have not heard of yet.
        let current = self.current.take();
        let (kept, dropped) = match self.next.take() {
            Some(next) => (Some(next), current),
            None => (current, None),
        };
        let gone = [core::mem::replace(&mut self.previous, kept), dropped];
        self.current = Some(session);
        self.counters.handshakes += 1;
        self.counters.last_handshake = now;
        self.anything_received(now);
        // The peer uses the session once it has heard from us in it.
        self.keepalive_due = Some(now);
        gone.map(|session| session.map(|session| session.local))
    }

    /// We answered the peer's handshake. Gives the index of a session that is gone now.
    pub(super) fn answered(&mut self, mut session: Session, now: u64) -> Option<u32> {
        session.set_reach(self.reach);
        let gone = self.next.replace(session).map(|session| session.local);
        self.counters.handshakes += 1;
        self.counters.last_handshake = now;
        self.anything_received(now);
        self.anything_sent(now);
        gone
    }

    /// Whether an initiation with that timestamp is new.
    pub(super) fn is_fresh(&mut self, timestamp: Timestamp, now: u64) -> Result<(), Stale> {
        if let Some((highest, at)) = self.heard {
            if timestamp <= highest {
                return Err(Stale::Replayed);
            }
            if now.saturating_sub(at) < INITIATION_PAUSE {
                return Err(Stale::Flood);
            }
        }
        self.heard = Some((timestamp, now));
        Ok(())
    }

    /// Drops what is too old, and gives the indices that are free then.
    pub(super) fn expire(&mut self, now: u64) -> [Option<u32>; 4] {
        let old = |since: u64| now.saturating_sub(since) >= 3 * REJECT_AFTER;
        let [a, b, c] = [&mut self.previous, &mut self.current, &mut self.next]
            .map(|place| place.take_if(|session| old(session.born)).map(|session| session.local));
        // A handshake that nobody answered: its ephemeral key does not wait for ever.
        let begun = self.begun.take_if(|_| self.initiated.is_some_and(old)).map(|begun| begun.index);
        [a, b, c, begun]
    }

    /// Nothing came back for what was sent: the peer may have been restarted.
    pub(super) fn hears_silence(&mut self, now: u64) {
        if self.silence_due.take_if(|at| now >= *at).is_some() {
            self.want_handshake(now);
        }
    }

    /// Whether a keepalive is due, for one reason or the other.
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

    /// When something is due next.
    pub(super) fn due(&self) -> Option<u64> {
        [self.initiation_due, self.keepalive_due, self.silence_due, self.persistent_due]
            .into_iter()
            .flatten()
            .min()
    }

    /// Prepares, at most `budget` steps; gives how many were done. A session that is about to be used is prepared too.
    #[inline]
    pub(super) fn idle(&mut self, budget: u32) -> u32 {
        let sessions = [&mut self.current, &mut self.next];
        sessions.into_iter().flatten().map(|session| session.idle(budget)).find(|done| *done > 0).unwrap_or(0)
    }

    /// The session that is used for sending, to rehearse in.
    pub(super) const fn current(&self) -> Option<&Session> {
        self.current.as_ref()
    }

    /// Octets of a message with a packet of `len` octets in it, and where the packet begins.
    pub(super) const HEADROOM: usize = TRANSPORT_HEADER_LEN;
}
