//! The devices' side: a DTLS connection with its own socket for each device address.
//!
//! A device's datagrams wait while there are no keys. An unprotected alert or a closed port hints
//! that the server has lost the session. Anyone can forge these, so the old session stays until a
//! new one is established, and is kept if an authentic record arrives before. Silence tells the
//! same: of a server that has answered in the session, or for long of one that never did. Only
//! with [`Options::resend`] does the new session repeat the device's last unanswered datagram,
//! which may then arrive twice.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;

use antedate_channel::dtls::{Client, Connection, Event, Phase, Refusals, SendError};
use mio::net::UdpSocket;
use serde_json::Value;

use crate::Options;
use crate::deadlines::Deadlines;
use crate::event_loop::{FIRST_SESSION, Io, RECORD_OVERHEAD, Side, random};
use crate::status::{self, Counters};
use crate::summary::Summaries;

/// The shortest time between two accepted hints of a lost session, in milliseconds.
const HINT_MS: u64 = 500;
/// The greatest age of a datagram that is sent again, in milliseconds.
const FRESH_MS: u64 = 2000;
/// The fewest unanswered datagrams of a silence.
const MIN_UNANSWERED: u32 = 3;

struct Session {
    device: SocketAddr,
    socket: UdpSocket,
    established: Option<Connection>,
    handshake: Option<Connection>,
    waiting: VecDeque<Vec<u8>>,
    /// Time and content of the last unanswered datagram of the established connection.
    last: Option<(u64, Vec<u8>)>,
    /// The time of the first unanswered datagram, and their number.
    unanswered: Option<(u64, u32)>,
    /// Whether the server has answered in the established session.
    answered: bool,
    /// Whether the handshake in progress replaces a session that still carries datagrams.
    renews: bool,
    /// The time at which the session was established.
    since: u64,
    /// The time of the last accepted hint.
    heeded: Option<u64>,
    touched: u64,
}

impl Session {
    /// The time at which something is due, in milliseconds.
    fn deadline(&self, idle_ms: u64) -> u64 {
        let idle = self.touched.saturating_add(idle_ms);
        self.handshake.as_ref().and_then(Connection::deadline).map_or(idle, |at| at.min(idle))
    }

    /// Whether the server has been silent for too long.
    fn is_silent(&self, now: u64, silence_ms: u64) -> bool {
        let long =
            |(since, count): (u64, u32)| count >= MIN_UNANSWERED && now.saturating_sub(since) >= silence_ms;
        silence_ms > 0 && self.answered && self.unanswered.is_some_and(long)
    }

    /// Whether a session without any answer is due for a new one.
    fn is_due(&self, now: u64, renew_ms: u64) -> bool {
        renew_ms > 0 && !self.answered && now.saturating_sub(self.since) >= renew_ms
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

fn handle(connection: &mut Connection, datagram: &[u8], now: u64) -> Came {
    let mut came = Came::default();
    let (_, before, _) = connection.counts();
    let newest = connection.handle(datagram, now, &(), &mut |event| match event {
        Event::Data(data) => came.data.push(data.to_vec()),
        Event::Established => came.established = true,
        Event::Closed => came.closed = true,
    });
    came.authentic = newest || connection.counts().1 > before;
    came
}

pub(crate) struct Connect {
    options: Options,
    client: Client,
    sessions: BTreeMap<usize, Session>,
    by_device: HashMap<SocketAddr, usize>,
    next: usize,
    /// Sessions with records to prepare.
    stale: BTreeSet<usize>,
    deadlines: Deadlines,
    counters: Counters,
    refused: Refusals,
    summaries: Summaries,
    out: Vec<u8>,
}

impl Connect {
    pub(crate) fn new(options: &Options, client: Client) -> Self {
        Self {
            options: options.clone(),
            client,
            sessions: BTreeMap::new(),
            by_device: HashMap::new(),
            next: FIRST_SESSION,
            stale: BTreeSet::new(),
            deadlines: Deadlines::default(),
            counters: Counters::default(),
            refused: Refusals::default(),
            summaries: Summaries::default(),
            out: Vec::new(),
        }
    }

    fn session(&mut self, io: &Io, device: SocketAddr) -> Option<usize> {
        if let Some(id) = self.by_device.get(&device) {
            return Some(*id);
        }
        if self.sessions.len() >= self.options.max_sessions {
            return None;
        }
        let id = self.next;
        let socket = match io.socket(self.options.to, id) {
            Ok(socket) => socket,
            Err(error) => {
                if let Some(count) = self.summaries.note("no socket", io.now()) {
                    tracing::warn!(%device, %error, count, "no socket for a session");
                }
                return None;
            }
        };
        self.next += 1;
        tracing::info!(%device, "a device speaks for the first time");
        let session = Session {
            device,
            socket,
            established: None,
            handshake: None,
            waiting: VecDeque::new(),
            last: None,
            unanswered: None,
            answered: false,
            renews: false,
            since: io.now(),
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
            self.by_device.remove(&session.device);
            self.deadlines.remove(id);
            for connection in [&session.established, &session.handshake].into_iter().flatten() {
                self.refused.add(connection.refusals());
            }
            self.counters.dropped += session.waiting.len() as u64;
        }
    }

    /// Begins a handshake, unless one is in progress.
    fn begin(&mut self, id: usize, now: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.handshake.is_none() {
            let (settings, client) = (self.options.settings.clone(), self.client.clone());
            let mut connection = Connection::connect(settings, client, now, &mut random);
            transmit(&session.socket, &mut connection);
            session.handshake = Some(connection);
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
    fn protect(&mut self, id: usize, datagram: &[u8], now: u64) -> Result<(), SendError> {
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        let connection = session.established.as_mut().ok_or(SendError::NotEstablished)?;
        self.out.resize(datagram.len() + RECORD_OVERHEAD, 0);
        let len = connection.seal(datagram, &mut self.out)?;
        if let Err(error) = session.socket.send(self.out.get(..len).unwrap_or_default()) {
            tracing::debug!(%error, "not sent");
        }
        self.stale.insert(id);
        if self.options.resend {
            session.last = Some((now, datagram.to_vec()));
        }
        let (since, count) = session.unanswered.unwrap_or((now, 0));
        session.unanswered = Some((since, count.saturating_add(1)));
        self.counters.protected += 1;
        Ok(())
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

    fn flush(&mut self, id: usize, now: u64) {
        while let Some(datagram) = self.sessions.get_mut(&id).and_then(|session| session.waiting.pop_front())
        {
            match self.protect(id, &datagram, now) {
                Ok(()) => self.counters.held += 1,
                Err(_) => self.counters.dropped += 1,
            }
        }
    }

    /// Begins a new session in place of one that seems lost, for this reason.
    fn lost(&mut self, id: usize, now: u64, reason: &str) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.handshake.is_some() {
            return;
        }
        if let Some(count) = self.summaries.note(reason, now) {
            tracing::warn!(device = %session.device, count, "the session seems to be lost, a new one is begun: {reason}");
        }
        session.renews = false;
        session.heeded = Some(now);
        session.unanswered = None;
        self.counters.lost_sessions += 1;
        if let Some((when, datagram)) = session.last.take()
            && now.saturating_sub(when) <= FRESH_MS
        {
            session.waiting.push_front(datagram);
            self.counters.resent += 1;
        }
        self.begin(id, now);
    }

    fn settle(&mut self, id: usize, now: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Some(Phase::Failed(failure)) = session.handshake.as_ref().map(Connection::phase) {
            let reason = failure.to_string();
            if let Some(count) = self.summaries.note(&reason, now) {
                tracing::warn!(device = %session.device, count, "the handshake failed: {reason}");
            }
            self.counters.failed_handshakes += 1;
            if let Some(connection) = session.handshake.take() {
                self.refused.add(connection.refusals());
            }
            if session.established.is_some() {
                self.flush(id, now);
            } else if !session.waiting.is_empty() {
                self.begin(id, now);
            }
        }
        self.schedule(id);
    }
}

fn transmit(socket: &UdpSocket, connection: &mut Connection) {
    while let Some(datagram) = connection.transmit() {
        if let Err(error) = socket.send(&datagram) {
            tracing::debug!(%error, "not sent");
        }
    }
}

impl Side for Connect {
    fn outside(&mut self, io: &Io, datagram: &mut [u8], from: SocketAddr) {
        let now = io.now();
        let Some(id) = self.session(io, from) else {
            self.counters.dropped += 1;
            return;
        };
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.touched = now;
        if session.established.is_some() && (session.handshake.is_none() || session.renews) {
            if session.handshake.is_none() && session.is_silent(now, self.options.silence_ms) {
                self.lost(id, now, "the server has not answered for long");
                self.hold(id, datagram);
                return;
            }
            if session.handshake.is_none() && session.is_due(now, self.options.renew_ms) {
                session.renews = true;
                self.begin(id, now);
            }
            match self.protect(id, datagram, now) {
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
        self.begin(id, now);
    }

    fn inside(&mut self, io: &Io, id: usize, datagram: &mut [u8]) {
        let now = io.now();
        self.stale.insert(id);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Some(connection) = &mut session.handshake {
            let came = handle(connection, datagram, now);
            transmit(&session.socket, connection);
            for data in &came.data {
                io.send(data, session.device);
                self.counters.opened += 1;
            }
            if came.established {
                let suite = connection.suite().map_or("", |suite| suite.name());
                // A renewal is no news.
                if !session.renews {
                    tracing::info!(device = %session.device, suite, "established");
                }
                session.renews = false;
                session.answered = false;
                session.since = now;
                self.counters.handshakes += 1;
                if let Some(old) = session.established.take() {
                    self.refused.add(old.refusals());
                }
                session.established = session.handshake.take();
                session.unanswered = None;
                self.flush(id, now);
                self.schedule(id);
                return;
            }
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let mut hinted = false;
        let mut kept = false;
        if let Some(connection) = &mut session.established {
            let before = connection.refusals().unprotected_alert;
            let came = handle(connection, datagram, now);
            hinted = connection.refusals().unprotected_alert > before;
            for data in &came.data {
                io.send(data, session.device);
                self.counters.opened += 1;
            }
            if came.authentic {
                (session.touched, session.unanswered, session.last) = (now, None, None);
                session.answered = true;
                kept = session.handshake.is_some();
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
            self.flush(id, now);
        } else if hinted && session.heeds(now) && session.unanswered.is_some() {
            self.lost(id, now, "an alert says that the server does not know it");
        }
        self.settle(id, now);
    }

    fn unreachable(&mut self, io: &Io, id: usize) {
        let now = io.now();
        self.counters.unreachable += 1;
        let Some(session) = self.sessions.get(&id) else { return };
        if session.established.is_some() && session.unanswered.is_some() && session.heeds(now) {
            self.lost(id, now, "the server's port is closed");
        }
    }

    fn socket(&self, session: usize) -> Option<&UdpSocket> {
        self.sessions.get(&session).map(|session| &session.socket)
    }

    fn due(&mut self, io: &Io) {
        let now = io.now();
        for id in self.deadlines.take_due(now) {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            if let Some(connection) = &mut session.handshake
                && connection.deadline().is_some_and(|deadline| now >= deadline)
            {
                connection.timeout(now);
                transmit(&session.socket, connection);
            }
            if now.saturating_sub(session.touched) >= self.options.idle_ms {
                tracing::info!(device = %session.device, "nothing was heard for long: the session is ended");
                if let Some(connection) = &mut session.established {
                    connection.close();
                    transmit(&session.socket, connection);
                }
                self.forget(id);
                continue;
            }
            self.settle(id, now);
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

    fn status(&self) -> Value {
        let mut refused = self.refused;
        for session in self.sessions.values() {
            for connection in [&session.established, &session.handshake].into_iter().flatten() {
                refused.add(connection.refusals());
            }
        }
        let sessions: Vec<_> = self
            .sessions
            .values()
            .map(|s| status::Session::of(s.device.to_string(), s.established.as_ref(), s.handshake.as_ref()))
            .collect();
        status::document(&self.counters, &refused, &sessions)
    }

    fn end(&mut self, io: &Io) {
        tracing::info!(state = %self.status()["counters"], "ending {} sessions after {} ms", self.sessions.len(), io.now());
        for session in self.sessions.values_mut() {
            if let Some(connection) = &mut session.established {
                connection.close();
                transmit(&session.socket, connection);
            }
        }
    }
}
