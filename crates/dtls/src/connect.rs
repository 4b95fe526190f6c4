//! The devices' side: a DTLS connection with its own socket for each device address.
//!
//! A device's datagrams wait while there are no keys. An unprotected alert or a closed port hints
//! that the server has lost the session, and so does silence of a server that usually answers
//! ([`Liveness`]). None of them is proof, so the old session stays until a new one is established,
//! and is kept if an authentic record arrives before. A server that never answers gets a new
//! session now and then. Only with [`Options::resend`] does the new session repeat the device's
//! last unanswered datagram, which may then arrive twice.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use antedate_channel::dtls::{Connection, Credentials, Event, Failures, Phase, Refusals, SendError};
use mio::net::UdpSocket;
use serde_json::Value;

use crate::Options;
use crate::ahead::{Ahead, small};
use crate::crew::Crew;
use crate::deadlines::Deadlines;
use crate::event_loop::{Io, RECORD_OVERHEAD, Side, random};
use crate::listen::device;
use crate::liveness::Liveness;
use crate::service::{Keys, News};
use crate::status::{self, Counters};
use crate::summary::Summaries;

/// The shortest time between two accepted hints of a lost session, in milliseconds.
const HINT_MS: u64 = 500;
/// The greatest age of a datagram that is sent again, in milliseconds.
const FRESH_MS: u64 = 2000;
/// The time between two tries to begin a session with another key, in milliseconds.
const REKEY_MS: u64 = 1000;

/// The reason of a suspicion.
const SILENT: &str = "the server has stopped answering";

struct Session {
    device: SocketAddr,
    credentials: Credentials,
    /// The socket, and the server's address to which it is connected.
    socket: Rc<UdpSocket>,
    to: SocketAddr,
    established: Option<Box<Connection>>,
    handshake: Option<Box<Connection>>,
    waiting: VecDeque<Vec<u8>>,
    /// Time and content of the last unanswered datagram of the established connection, with
    /// [`Options::resend`].
    last: Option<Box<(u64, Vec<u8>)>>,
    liveness: Liveness,
    /// Whether the server has answered in the established session.
    answered: bool,
    /// The time since which the established session seems to be lost.
    lost: Option<u64>,
    /// Whether the server's port was reported closed during the handshake.
    closed: bool,
    /// Whether the handshake in progress replaces a session that still carries datagrams.
    renews: bool,
    /// Whether silence is the reason of the handshake in progress.
    for_silence: bool,
    /// The time at which the session was established.
    since: u64,
    /// The device has another key, for which a new session is tried from this time on.
    rekeys: Option<u64>,
    /// The session before a change of the key. Answers may still be on their way.
    former: Option<Box<Connection>>,
    /// The time of the last accepted hint.
    heeded: Option<u64>,
    touched: u64,
}

impl Session {
    /// The time at which something is due, in milliseconds.
    fn deadline(&self, idle_ms: u64) -> u64 {
        let idle = self.touched.saturating_add(idle_ms);
        self.handshake.as_deref().and_then(Connection::deadline).map_or(idle, |at| at.min(idle))
    }

    /// Whether a session without any answer is due for a new one.
    fn is_due(&self, now: u64, renew_ms: u64) -> bool {
        renew_ms > 0 && !self.answered && now.saturating_sub(self.since) >= renew_ms
    }

    /// Whether datagrams wait for the handshake in progress.
    const fn holds(&self) -> bool {
        self.handshake.is_some() && !self.renews
    }

    /// Whether a hint may be accepted.
    fn heeds(&self, now: u64) -> bool {
        self.heeded.is_none_or(|when| now.saturating_sub(when) >= HINT_MS)
    }
}

/// The content of a received datagram.
#[derive(Default)]
struct Came {
    data: Vec<Vec<u8>>,
    established: bool,
    closed: bool,
    authentic: bool,
}

fn handle(connection: &mut Connection, datagram: &[u8], now: u64, keys: &Keys) -> Came {
    let mut came = Came::default();
    let (_, before, _) = connection.counts();
    let newest = connection.handle(datagram, now, keys, &mut |event| match event {
        Event::Data(data) => came.data.push(data.to_vec()),
        Event::Established => came.established = true,
        Event::Closed => came.closed = true,
    });
    came.authentic = newest || connection.counts().1 > before;
    came
}

pub(crate) struct Connect {
    crew: Arc<Crew>,
    options: Options,
    keys: Arc<Keys>,
    /// The server, once its name has an address.
    to: Option<SocketAddr>,
    news: Arc<News>,
    sessions: BTreeMap<usize, Session>,
    by_device: HashMap<SocketAddr, usize>,
    next: usize,
    /// Sessions with records to prepare.
    stale: BTreeSet<usize>,
    ahead: Ahead,
    deadlines: Deadlines,
    counters: Counters,
    failures: Failures,
    refused: Refusals,
    summaries: Summaries,
    out: Vec<u8>,
}

impl Connect {
    /// The part of one thread.
    pub(crate) fn new(
        options: &Options,
        keys: &Arc<Keys>,
        news: &Arc<News>,
        crew: &Arc<Crew>,
        thread: usize,
    ) -> Self {
        Self {
            crew: Arc::clone(crew),
            options: small(options),
            keys: Arc::clone(keys),
            to: options.to.address(),
            news: Arc::clone(news),
            sessions: BTreeMap::new(),
            by_device: HashMap::new(),
            next: Crew::first_session(thread),
            stale: BTreeSet::new(),
            ahead: Ahead::new(crew.size()),
            deadlines: Deadlines::default(),
            counters: Counters::default(),
            failures: Failures::default(),
            refused: Refusals::default(),
            summaries: crew.summaries.clone(),
            out: Vec::new(),
        }
    }

    fn session(&mut self, io: &Io, device: SocketAddr) -> Option<usize> {
        if let Some(id) = self.by_device.get(&device) {
            return Some(*id);
        }
        let Some(credentials) = self.keys.credentials(device) else {
            let unknown = "no identity for this device";
            if let Some(count) = self.summaries.note(unknown, io.now()) {
                tracing::warn!(%device, count, "{unknown}; name it in the file of --devices, or give --identity for all others");
            }
            return None;
        };
        // The name of the server has no address yet.
        let to = self.to?;
        if !self.crew.enter() {
            return None;
        }
        let id = self.next;
        let socket = match io.socket(to, id) {
            Ok(socket) => socket,
            Err(error) => {
                self.crew.leave();
                if let Some(count) = self.summaries.note("no socket", io.now()) {
                    tracing::warn!(%device, %error, count, "no socket for a session");
                }
                return None;
            }
        };
        self.next += self.crew.size();
        tracing::info!(%device, "a device speaks for the first time");
        let session = Session {
            device,
            credentials,
            socket,
            to,
            established: None,
            handshake: None,
            waiting: VecDeque::new(),
            last: None,
            liveness: Liveness::default(),
            answered: false,
            lost: None,
            closed: false,
            renews: false,
            for_silence: false,
            since: io.now(),
            rekeys: None,
            former: None,
            heeded: None,
            touched: io.now(),
        };
        self.deadlines.no_later(id, session.deadline(self.options.idle_ms));
        self.sessions.insert(id, session);
        self.by_device.insert(device, id);
        Some(id)
    }

    fn forget(&mut self, id: usize) {
        if let Some(session) = self.sessions.remove(&id) {
            self.crew.leave();
            self.by_device.remove(&session.device);
            self.deadlines.remove(id);
            self.ahead.remove(id);
            for connection in [&session.established, &session.handshake].into_iter().flatten() {
                self.refused.add(connection.refusals());
            }
            self.counters.dropped += session.waiting.len() as u64;
        }
    }

    /// Begins a handshake, unless one is in progress.
    fn begin(&mut self, io: &Io, id: usize, now: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.handshake.is_none() {
            let settings = self.keys.settings(&self.options.settings);
            let credentials = session.credentials.clone();
            let mut connection = Connection::connect(settings, credentials, now, &mut random);
            transmit(io, id, &session.socket, &mut connection);
            session.handshake = Some(Box::new(connection));
            session.closed = false;
        }
        self.schedule(id);
    }

    /// Stores a session's next deadline.
    fn schedule(&mut self, id: usize) {
        if let Some(session) = self.sessions.get(&id) {
            self.deadlines.no_later(id, session.deadline(self.options.idle_ms));
        }
    }

    /// Sends a device's datagram through the established connection.
    fn protect(&mut self, io: &Io, id: usize, datagram: &[u8], now: u64) -> Result<(), SendError> {
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        let connection = session.established.as_mut().ok_or(SendError::NotEstablished)?;
        self.out.resize(datagram.len() + RECORD_OVERHEAD, 0);
        let len = connection.seal(datagram, &mut self.out)?;
        io.send_by(id, &session.socket, self.out.get(..len).unwrap_or_default());
        if self.options.resend {
            session.last = Some(Box::new((now, datagram.to_vec())));
        }
        session.liveness.sent(now);
        self.counters.protected += 1;
        self.speaks(id, now);
        Ok(())
    }

    /// Notes a datagram of a session: it has records to prepare.
    fn speaks(&mut self, id: usize, now: u64) {
        self.stale.insert(id);
        // A stranger's handshake takes no place.
        if self.sessions.get(&id).is_none_or(|session| session.established.is_none()) {
            return;
        }
        let Some(change) = self.ahead.speaks(id, now) else { return };
        for (id, large) in [(change.loses, false), (Some(change.gets), true)] {
            let session = id.and_then(|id| self.sessions.get_mut(&id));
            if let Some(connection) = session.and_then(|session| session.established.as_mut()) {
                connection.set_large(large);
            }
        }
    }

    /// Queues a datagram until there are keys. The oldest goes first: on a link with deadlines the
    /// newest counts.
    fn hold(&mut self, id: usize, datagram: &[u8]) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.waiting.len() >= self.options.hold.max(1) {
            session.waiting.pop_front();
            self.counters.dropped += 1;
        }
        session.waiting.push_back(datagram.to_vec());
    }

    fn flush(&mut self, io: &Io, id: usize, now: u64) {
        let next = |session: &mut Session| if session.holds() { None } else { session.waiting.pop_front() };
        while let Some(datagram) = self.sessions.get_mut(&id).and_then(next) {
            match self.protect(io, id, &datagram, now) {
                Ok(()) => self.counters.held += 1,
                Err(_) => self.counters.dropped += 1,
            }
        }
    }

    /// Begins a new session in place of one that seems lost, for this reason.
    fn lost(&mut self, io: &Io, id: usize, now: u64, reason: &'static str) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.handshake.is_some() {
            return;
        }
        (session.renews, session.for_silence) = (false, reason == SILENT);
        session.heeded = Some(now);
        session.lost.get_or_insert(now);
        self.news.ask();
        self.counters.lost_sessions += 1;
        session.last.take_if(|last| now.saturating_sub(last.0) > FRESH_MS);
        if let Some(count) = self.summaries.note(reason, now) {
            tracing::warn!(
                device = %session.device, to = %self.options.to, count,
                "the session seems to be lost, and a new one is begun: {reason}; if this lasts, see whether the \
                 server runs and is reachable"
            );
        }
        self.begin(io, id, now);
    }

    /// Begins a new session if one is due: beside an old one that was suspected before, or that
    /// never carried an answer, or instead of one that falls silent.
    fn renew(&mut self, io: &Io, id: usize, now: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.rekeys.is_some_and(|from| now >= from) {
            session.renews = true;
            return self.begin(io, id, now);
        }
        let silent = session.liveness.silence(now, self.options.silence_ms).is_some();
        if silent && !session.liveness.in_vain() && session.lost.is_none() {
            self.lost(io, id, now, SILENT);
        } else if silent || session.lost.is_some() || session.is_due(now, self.options.renew_ms) {
            (session.renews, session.for_silence) = (true, silent);
            self.begin(io, id, now);
        }
    }

    /// Takes a report that the server's port is closed. Anyone can forge it.
    fn is_closed(&mut self, io: &Io, id: usize, now: u64) {
        self.counters.unreachable += 1;
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.closed = true;
        if session.handshake.is_some() && session.renews {
            // Nothing arrives there; datagrams wait from now on.
            session.renews = false;
            session.lost.get_or_insert(now);
        } else if session.established.is_some() && session.liveness.awaits() && session.heeds(now) {
            self.lost(io, id, now, "the server's port is closed");
        }
    }

    /// Notes that the server answers a device again.
    fn found(&mut self, id: usize, now: u64, how: &'static str) {
        let Some(since) = self.sessions.get_mut(&id).and_then(|session| session.lost.take()) else { return };
        if let Some(count) = self.summaries.note(how, now)
            && let Some(session) = self.sessions.get(&id)
        {
            let ms = now.saturating_sub(since);
            tracing::info!(device = %session.device, to = %self.options.to, ms, count, "the server answers again: {how}");
        }
    }

    fn settle(&mut self, io: &Io, id: usize, now: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Some(Phase::Failed(failure)) = session.handshake.as_deref().map(Connection::phase) {
            let reason = failure.to_string();
            if let Some(count) = self.summaries.note(&reason, now) {
                tracing::warn!(device = %session.device, to = %self.options.to, count, "the handshake failed: {reason}");
            }
            self.counters.failed_handshakes += 1;
            self.failures.count(failure.cause());
            self.news.ask();
            if let Some(connection) = session.handshake.take() {
                self.refused.add(connection.refusals());
            }
            if session.rekeys.is_some() {
                session.rekeys = Some(now.saturating_add(REKEY_MS));
            }
            let closed = std::mem::take(&mut session.closed);
            let lost = session.lost.is_some() || session.established.is_none();
            // The server may know the old session, and refuse a second one. Datagrams for a closed
            // port wait on.
            session.renews = session.established.is_some() && !closed;
            let again = lost && !session.waiting.is_empty();
            if session.renews {
                self.flush(io, id, now);
            }
            if again {
                self.begin(io, id, now);
            }
        }
        self.schedule(id);
    }
}

fn transmit(io: &Io, id: usize, socket: &Rc<UdpSocket>, connection: &mut Connection) {
    while let Some(datagram) = connection.transmit() {
        io.send_by(id, socket, &datagram);
    }
}

impl Side for Connect {
    fn outside(&mut self, io: &Io, datagram: &mut [u8], from: SocketAddr) {
        let now = io.now();
        let Some(id) = self.session(io, from) else {
            self.counters.dropped += 1;
            return;
        };
        if let (Some(to), Some(session)) = (self.to, self.sessions.get(&id))
            && session.to != to
            && session.lost.is_some()
        {
            self.target(io, to);
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.touched = now;
        if session.established.is_some() && !session.holds() {
            if session.handshake.is_none() {
                self.renew(io, id, now);
            }
            if self.sessions.get(&id).is_some_and(Session::holds) {
                return self.hold(id, datagram);
            }
            match self.protect(io, id, datagram, now) {
                Ok(()) => return,
                Err(SendError::Protect(error)) => {
                    if let Some(count) = self.summaries.note("not protected", now) {
                        tracing::warn!(device = %from, count, "not protected: {error}");
                    }
                    self.counters.dropped += 1;
                    return;
                }
                Err(SendError::NotEstablished) => {}
            }
        }
        self.hold(id, datagram);
        self.begin(io, id, now);
    }

    fn inside(&mut self, io: &Io, id: usize, datagram: &mut [u8]) {
        let now = io.now();
        self.speaks(id, now);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Some(connection) = &mut session.handshake {
            let came = handle(connection, datagram, now, &self.keys);
            transmit(io, id, &session.socket, connection);
            for data in &came.data {
                io.send(data, session.device);
                self.counters.opened += 1;
            }
            if came.established {
                if let Some(log) = &self.options.key_log {
                    log.write(connection);
                }
                let suite = connection.suite().map_or("", |suite| suite.name());
                // A renewal is no news.
                if !session.renews {
                    let server = String::from_utf8_lossy(connection.identity());
                    tracing::info!(device = %session.device, %server, suite, "established");
                }
                session.renews = false;
                session.answered = false;
                session.since = now;
                self.counters.handshakes += 1;
                let former = session.former.take();
                if session.rekeys.take().is_some() {
                    session.former = session.established.take();
                }
                for old in [former, session.established.take()].into_iter().flatten() {
                    self.refused.add(old.refusals());
                }
                session.established = session.handshake.take();
                self.ahead.remove(id);
                session.liveness.renewed(std::mem::take(&mut session.for_silence));
                // The old session has ended, so its last datagram may be sent again.
                if let (Some(_), Some(last)) = (session.lost, session.last.take()) {
                    session.waiting.push_front(last.1);
                    self.counters.resent += 1;
                }
                self.found(id, now, "a new session is established");
                self.flush(io, id, now);
                self.schedule(id);
                return;
            }
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let mut hinted = false;
        let mut kept = false;
        if let Some(connection) = &mut session.established {
            let before = connection.refusals().unprotected_alert;
            let came = handle(connection, datagram, now, &self.keys);
            hinted = connection.refusals().unprotected_alert > before;
            for data in &came.data {
                io.send(data, session.device);
                self.counters.opened += 1;
            }
            if came.authentic {
                (session.touched, session.last) = (now, None);
                session.liveness.heard(now);
                session.answered = true;
                kept = session.handshake.is_some() && session.rekeys.is_none();
            } else if let Some(former) = &mut session.former {
                for data in &handle(former, datagram, now, &self.keys).data {
                    io.send(data, session.device);
                    self.counters.opened += 1;
                }
            }
            if came.closed {
                tracing::info!(device = %session.device, "the peer has ended the session");
                self.refused.add(connection.refusals());
                session.established = None;
            }
        }
        if kept && let Some(connection) = session.handshake.take() {
            // The session is not lost; the hint was wrong or forged.
            self.refused.add(connection.refusals());
            self.found(id, now, "the session was not lost");
            self.flush(io, id, now);
        } else if hinted && session.heeds(now) && session.liveness.awaits() {
            self.lost(io, id, now, "an alert says that the server does not know it");
        }
        self.settle(io, id, now);
    }

    fn unreachable(&mut self, io: &Io, id: usize) {
        self.is_closed(io, id, io.now());
    }

    fn keys(&mut self, io: &Io, keys: Arc<Keys>) {
        self.keys = keys;
        // One whose device has another key now speaks on until that one is established. Any other
        // identity, as of a device that was revoked, ends the session.
        let mut moved = Vec::new();
        for (id, session) in &mut self.sessions {
            let Some(next) = self.keys.credentials(session.device) else { continue };
            let is_next = match (&session.credentials, &next) {
                (Credentials::Psk(old), Credentials::Psk(new)) => {
                    old.identity != new.identity
                        && device(&new.identity).is_some_and(|name| Some(name) == device(&old.identity))
                }
                // A renewed certificate.
                (Credentials::Psk(_), _) | (_, Credentials::Psk(_)) => false,
                (old, new) => !old.is_same(new),
            };
            if is_next && session.established.is_some() {
                session.credentials = next;
                session.rekeys = Some(0);
                if let Some(old) = session.handshake.take() {
                    self.refused.add(old.refusals());
                }
                session.renews = true;
                moved.push(*id);
            }
        }
        for id in moved {
            self.begin(io, id, io.now());
        }
        let other = |session: &Session| {
            let same = |next: Credentials| session.credentials.is_same(&next);
            let distrusted = |of: &Option<Box<Connection>>| {
                of.as_ref().is_some_and(|connection| self.keys.distrusts(connection.shown()))
            };
            !self.keys.credentials(session.device).is_some_and(same)
                || distrusted(&session.established)
                || distrusted(&session.handshake)
        };
        let ended: Vec<usize> =
            self.sessions.iter().filter(|(_, session)| other(session)).map(|(id, _)| *id).collect();
        for id in &ended {
            if let Some(session) = self.sessions.get_mut(id)
                && let Some(connection) = &mut session.established
            {
                connection.close();
                transmit(io, *id, &session.socket, connection);
            }
            self.forget(*id);
        }
        if !ended.is_empty() {
            tracing::info!(sessions = ended.len(), "sessions of revoked or changed keys are ended");
        }
    }

    fn target(&mut self, io: &Io, at: SocketAddr) {
        self.to = Some(at);
        let now = io.now();
        // Sessions in use stay where they are.
        let moves =
            |session: &Session| session.to != at && (session.lost.is_some() || session.established.is_none());
        let moved: Vec<usize> =
            self.sessions.iter().filter(|(_, session)| moves(session)).map(|(id, _)| *id).collect();
        for id in moved {
            let Ok(socket) = io.socket(at, id) else { continue };
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            (session.socket, session.to, session.renews) = (socket, at, false);
            if let Some(connection) = session.handshake.take() {
                self.refused.add(connection.refusals());
                self.begin(io, id, now);
            }
        }
    }

    fn socket(&self, session: usize) -> Option<Rc<UdpSocket>> {
        self.sessions.get(&session).map(|session| Rc::clone(&session.socket))
    }

    fn due(&mut self, io: &Io) {
        let now = io.now();
        for id in self.deadlines.take_due(now) {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            if let Some(connection) = &mut session.handshake
                && connection.deadline().is_some_and(|deadline| now >= deadline)
            {
                connection.timeout(now);
                transmit(io, id, &session.socket, connection);
            }
            if now.saturating_sub(session.touched) >= self.options.idle_ms {
                tracing::info!(device = %session.device, "nothing was heard for long: the session is ended");
                if let Some(connection) = &mut session.established {
                    connection.close();
                    transmit(io, id, &session.socket, connection);
                }
                self.forget(id);
                continue;
            }
            self.settle(io, id, now);
        }
    }

    fn deadline(&self) -> Option<u64> {
        self.deadlines.next()
    }

    fn prepare(&mut self, budget: u32) -> u32 {
        while let Some(id) = self.stale.pop_first() {
            let connection = self.sessions.get_mut(&id).and_then(|s| s.established.as_mut());
            let done = connection.map_or(0, |connection| connection.idle(budget));
            if done == budget {
                self.stale.insert(id);
            }
            if done > 0 {
                return done;
            }
        }
        0
    }

    fn status(&self, io: &Io) -> Value {
        let mut refused = self.refused;
        for session in self.sessions.values() {
            for connection in [&session.established, &session.handshake].into_iter().flatten() {
                refused.add(connection.refusals());
            }
        }
        let sessions: Vec<_> = self
            .sessions
            .values()
            .map(|s| {
                let (established, handshake) = (s.established.as_deref(), s.handshake.as_deref());
                let shown = status::Session::of(s.device.to_string(), established, handshake);
                if s.lost.is_some() { status::Session { phase: "lost", ..shown } } else { shown }
            })
            .collect();
        status::document(&self.counters, &self.failures, &refused, &sessions, io.traffic())
    }

    fn end(&mut self, io: &Io) {
        tracing::info!(state = %self.status(io)["counters"], "ending {} sessions after {} ms", self.sessions.len(), io.now());
        for (id, session) in &mut self.sessions {
            if let Some(connection) = &mut session.established {
                connection.close();
                transmit(io, *id, &session.socket, connection);
            }
        }
    }
}
