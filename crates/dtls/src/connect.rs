//! The devices' side: a DTLS connection with its own socket for each device address.
//!
//! A device's datagrams wait while there are no keys. An unprotected alert hints that the server
//! has lost the session. Anyone can forge it, so the old session stays until a new one is
//! established, and is kept if an authentic record arrives before. The new session repeats the
//! device's last unanswered datagram.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;

use antedate_channel::dtls::{Client, Connection, Event, Phase, Refusals, SendError};
use mio::net::UdpSocket;
use serde_json::Value;

use crate::Options;
use crate::event_loop::{FIRST_SESSION, Io, RECORD_OVERHEAD, Side, random};
use crate::status::{self, Counters};

/// The shortest time between two accepted hints of a lost session, in milliseconds.
const HINT_MS: u64 = 500;
/// The greatest age of a datagram that is sent again, in milliseconds.
const FRESH_MS: u64 = 2000;
struct Session {
    device: SocketAddr,
    socket: UdpSocket,
    established: Option<Connection>,
    handshake: Option<Connection>,
    waiting: VecDeque<Vec<u8>>,
    /// Time and content of the last unanswered datagram of the established connection.
    last: Option<(u64, Vec<u8>)>,
    /// The time of the first unanswered datagram.
    unanswered: Option<u64>,
    /// The time of the last accepted hint.
    heeded: Option<u64>,
    touched: u64,
}

impl Session {
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
    counters: Counters,
    refused: Refusals,
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
            counters: Counters::default(),
            refused: Refusals::default(),
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
                tracing::warn!(%device, %error, "no socket for a session");
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
            heeded: None,
            touched: io.now(),
        };
        self.sessions.insert(id, session);
        self.by_device.insert(device, id);
        Some(id)
    }

    fn forget(&mut self, id: usize) {
        if let Some(session) = self.sessions.remove(&id) {
            self.by_device.remove(&session.device);
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
        session.last = Some((now, datagram.to_vec()));
        session.unanswered = session.unanswered.or(Some(now));
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

    /// Begins a new session in place of one that seems lost. It repeats the last unanswered
    /// datagram.
    fn lost(&mut self, id: usize, now: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.handshake.is_some() {
            return;
        }
        tracing::warn!(device = %session.device, "the session seems to be lost: a new one is begun");
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
            tracing::warn!(device = %session.device, "the handshake failed: {failure}");
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
        let silent =
            session.unanswered.is_some_and(|since| now.saturating_sub(since) >= self.options.silence_ms);
        if session.established.is_some() && session.handshake.is_none() {
            if self.options.silence_ms > 0 && silent {
                self.lost(id, now);
                self.hold(id, datagram);
                return;
            }
            match self.protect(id, datagram, now) {
                Ok(()) => return,
                Err(SendError::Protect(error)) => {
                    tracing::warn!(device = %from, "not protected: {error}");
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
                tracing::info!(device = %session.device, suite, "established");
                self.counters.handshakes += 1;
                if let Some(old) = session.established.take() {
                    self.refused.add(old.refusals());
                }
                session.established = session.handshake.take();
                session.unanswered = None;
                self.flush(id, now);
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
        } else if hinted && session.heeds(now) && session.last.is_some() {
            self.lost(id, now);
        }
        self.settle(id, now);
    }

    fn socket(&self, session: usize) -> Option<&UdpSocket> {
        self.sessions.get(&session).map(|session| &session.socket)
    }

    fn due(&mut self, io: &Io) {
        let now = io.now();
        let ids: Vec<usize> = self.sessions.keys().copied().collect();
        for id in ids {
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
        let each = self.sessions.values().map(|session| {
            let idle = session.touched.saturating_add(self.options.idle_ms);
            session.handshake.as_ref().and_then(Connection::deadline).map_or(idle, |at| at.min(idle))
        });
        each.min()
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
