//! The server's side: a plain UDP socket to the devices' server for each DTLS connection.
//!
//! The connection ID identifies a connection, or the peer's address if there is none. A restarted
//! client gets a new connection, which replaces the old one when it is established. It keeps the
//! socket to the server if the identity is the same.
//!
//! Handshakes in progress and established sessions have bounds of their own ([`HalfOpen`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use antedate_channel::dtls::{
    Connection, ConnectionId, Cookies, Dropped, Event, Failures, Greeting, Keyring, Offer, Phase, Refusals,
    Settings,
};
use antedate_wire::dtls::handshake::HandshakeType;
use antedate_wire::dtls::{ContentType, HEADER_LEN};
use mio::net::UdpSocket;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Options;
use crate::ahead::{Ahead, small};
use crate::crew::{Crew, Mail};
use crate::deadlines::Deadlines;
use crate::event_loop::{Io, RECORD_OVERHEAD, Side, random};
use crate::group::CID_AT;
use crate::outbox::Report;
use crate::partial_hellos::PartialHellos;
use crate::route::Route;
use crate::service::{Keys, News};
use crate::status::{self, Counters};
use crate::summary::Summaries;

/// The length of own connection IDs in octets.
const CID_LEN: usize = 8;
const HANDSHAKE: u8 = ContentType::Handshake.number();
const APPLICATION_DATA: u8 = ContentType::ApplicationData.number();
const TLS12_CID: u8 = ContentType::Tls12Cid.number();
const CLIENT_HELLO: u8 = HandshakeType::ClientHello.number();
/// The hint of an unknown session: an unprotected fatal alert, unexpected_message.
const HINT: [u8; 15] = [21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 10];
/// Milliseconds of silence after which an identity's session gives way to a new one of the same
/// identity, when all sessions are taken.
const QUIET_MS: u64 = 30_000;

/// A connection and the digest of its ClientHello, to recognise copies.
struct Begun {
    connection: Connection,
    hello: [u8; 32],
    cid: ConnectionId,
}

struct Session {
    route: Route,
    /// The socket to the devices' server, once there were keys.
    socket: Option<Rc<UdpSocket>>,
    established: Option<Box<Begun>>,
    handshake: Option<Box<Begun>>,
    /// The connection before the established one, for the datagrams that are still on the way. It
    /// ends with the first data of the new one.
    former: Option<Box<Begun>>,
    touched: u64,
}

impl Session {
    /// The time at which something is due, in milliseconds. A failed handshake has no deadline and
    /// is removed at once.
    fn deadline(&self, idle_ms: u64) -> u64 {
        let idle = self.touched.saturating_add(idle_ms);
        self.handshake.as_ref().map_or(idle, |begun| begun.connection.deadline().unwrap_or(0))
    }
}

pub(crate) struct Listen {
    crew: Arc<Crew>,
    /// The number of this thread.
    thread: usize,
    options: Options,
    keys: Arc<Keys>,
    /// The devices' server, once its name has an address.
    to: Option<SocketAddr>,
    news: Arc<News>,
    cookies: Cookies,
    sessions: BTreeMap<usize, Session>,
    by_peer: HashMap<SocketAddr, usize>,
    by_cid: HashMap<ConnectionId, usize>,
    next: usize,
    partial_hellos: PartialHellos,
    ahead: Ahead,
    deadlines: Deadlines,
    /// Sessions with records to prepare.
    stale: BTreeSet<usize>,
    counters: Counters,
    failures: Failures,
    refused: Refusals,
    summaries: Summaries,
    out: Vec<u8>,
}

impl Listen {
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
            thread,
            options: small(options),
            keys: Arc::clone(keys),
            to: options.to.address(),
            news: Arc::clone(news),
            cookies: Cookies::new(crew.cookie_secret()),
            sessions: BTreeMap::new(),
            by_peer: HashMap::new(),
            by_cid: HashMap::new(),
            next: Crew::first_session(thread),
            partial_hellos: PartialHellos::new(),
            ahead: Ahead::new(crew.size()),
            deadlines: Deadlines::default(),
            stale: BTreeSet::new(),
            counters: Counters::default(),
            failures: Failures::default(),
            refused: Refusals::default(),
            summaries: crew.summaries.clone(),
            out: Vec::new(),
        }
    }

    /// Answers a ClientHello.
    fn greet(&mut self, io: &Io, datagram: &[u8], from: SocketAddr) {
        let now = io.now();
        let address = from.to_string();
        let refused = &mut self.refused;
        match self.cookies.greet(datagram, address.as_bytes(), now, |refusal| refused.count(refusal)) {
            Greeting::Reply(reply) => {
                self.counters.cookies += 1;
                io.send(&reply, from);
            }
            Greeting::Refused(refusal) => self.refused.count(refusal),
            Greeting::Accept => self.accept(io, datagram, from, now),
            greeting @ (Greeting::Begin | Greeting::Continue) => {
                if greeting == Greeting::Begin {
                    self.partial_hellos.begin(datagram, from, now);
                }
                if let Some(whole) = self.partial_hellos.take(datagram, from, now) {
                    self.accept(io, &whole, from, now);
                }
            }
        }
    }

    fn accept(&mut self, io: &Io, datagram: &[u8], from: SocketAddr, now: u64) {
        let hello = Sha256::digest(datagram.get(HEADER_LEN..).unwrap_or_default()).into();
        let known = self.by_peer.get(&from).copied();
        if let Some(session) = known.and_then(|id| self.sessions.get(&id)) {
            let begun = [&session.established, &session.handshake];
            if begun.into_iter().flatten().any(|begun| begun.hello == hello) {
                // A copy. The connection's timer repeats lost messages.
                return;
            }
        }
        let cid = self.options.settings.cid.map(|_| {
            let mut octets = [0; CID_LEN];
            random(&mut octets);
            if self.crew.size() > 1 {
                // The kernel finds the thread by it.
                octets[0] = self.thread as u8;
            }
            ConnectionId::new(&octets).unwrap_or_default()
        });
        let settings = Settings { cid, ..self.keys.settings(&self.options.settings) };
        let mut connection = match Connection::accept(settings, datagram, now, &mut random) {
            Ok(connection) => connection,
            Err((refusal, alert)) => {
                self.refused.count(refusal);
                self.counters.failed_handshakes += 1;
                if let Some(alert) = alert {
                    io.send(&alert, from);
                }
                if let Some(offer) = Offer::of(datagram) {
                    let (cause, reason) = offer.mismatch(&self.keys.settings(&self.options.settings));
                    self.failures.count(cause);
                    if let Some(count) = self.summaries.note(reason, now) {
                        tracing::warn!(peer = %from, count, "a handshake was refused: {reason}; offered {offer}");
                    }
                }
                return;
            }
        };
        transmit(io, &mut connection, from);
        if let Some(id) = known {
            self.crew.half_open().end(id);
        }
        let oldest = self.crew.half_open().oldest_beyond(from);
        if let Some(oldest) = oldest
            && !self.crew.give_way(self.thread, oldest)
        {
            self.give_way(oldest, now);
        }
        let begun = Box::new(Begun { connection, hello, cid: cid.unwrap_or_default() });
        let id = known.unwrap_or_else(|| {
            self.next += self.crew.size();
            self.next - self.crew.size()
        });
        if let Some(cid) = cid {
            self.by_cid.insert(cid, id);
        }
        self.by_peer.insert(from, id);
        let route = Route::new(from);
        let fresh =
            Session { route, socket: None, established: None, handshake: None, former: None, touched: now };
        let session = self.sessions.entry(id).or_insert(fresh);
        // The cookie has proven the address.
        session.route.prove(from);
        if let Some(old) = session.handshake.replace(begun) {
            self.refused.add(old.connection.refusals());
            self.by_cid.remove(&old.cid);
        }
        self.crew.half_open().begin(id, from);
        self.schedule(id);
    }

    /// Ends a session's handshake, the oldest of a flood.
    fn give_way(&mut self, id: usize, now: u64) {
        self.counters.crowded_handshakes += 1;
        let peer = self.sessions.get(&id).map(|session| session.route.peer());
        self.end_handshake(id);
        let crowded = "too many handshakes at once; the oldest gave way";
        if let (Some(count), Some(peer)) = (self.summaries.note(crowded, now), peer) {
            tracing::warn!(%peer, count, most = self.options.max_handshakes, "{crowded}");
        }
    }

    /// Drops a session's handshake, and the session if there is nothing else.
    fn end_handshake(&mut self, id: usize) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Some(begun) = session.handshake.take() {
            self.refused.add(begun.connection.refusals());
            self.by_cid.remove(&begun.cid);
        }
        self.crew.half_open().end(id);
        if session.established.is_none() {
            self.forget(id);
        }
    }

    /// Stores a session's next deadline.
    fn schedule(&mut self, id: usize) {
        if let Some(session) = self.sessions.get(&id) {
            self.deadlines.no_later(id, session.deadline(self.options.idle_ms));
        }
    }

    /// Drops a record of an unknown session. Its sender gets a hint.
    fn unknown(&mut self, io: &Io, datagram: &[u8], from: SocketAddr) {
        self.refused.count(Dropped::UnknownConnection);
        // Only for records of data, and never more octets than received, so that no victim is
        // flooded through us.
        let data = datagram.first().is_some_and(|kind| matches!(*kind, APPLICATION_DATA | TLS12_CID));
        if data && datagram.len() >= HINT.len() && self.crew.may_hint(io.now()) {
            self.counters.hints += 1;
            io.send(&HINT, from);
        }
    }

    fn forget(&mut self, id: usize) {
        if let Some(session) = self.sessions.remove(&id) {
            let peer = session.route.peer();
            if self.by_peer.get(&peer) == Some(&id) {
                self.by_peer.remove(&peer);
            }
            if session.established.is_some() {
                self.crew.leave();
            }
            self.crew.half_open().end(id);
            self.deadlines.remove(id);
            self.ahead.remove(id);
            for begun in [&session.established, &session.handshake, &session.former].into_iter().flatten() {
                self.refused.add(begun.connection.refusals());
                self.by_cid.remove(&begun.cid);
            }
        }
    }

    /// Takes a place for another established session. If all are taken, one of the same identity that
    /// is quiet gives way; at another thread, for the next try.
    fn make_space(&mut self, id: usize, now: u64) -> bool {
        if self.crew.enter() {
            return true;
        }
        let session = self.sessions.get(&id);
        let begun = session.and_then(|session| session.established.as_ref().or(session.handshake.as_ref()));
        let Some(own) = begun.map(|begun| begun.connection.identity().to_vec()) else { return false };
        if self.end_quiet(&own, Some(id), now) {
            return self.crew.enter();
        }
        self.crew.send_others(self.thread, || Mail::MakeSpace(own.clone()));
        false
    }

    /// Ends the session of an identity that has been quiet for longest, if there is one beside `id`.
    fn end_quiet(&mut self, identity: &[u8], id: Option<usize>, now: u64) -> bool {
        let quiet = |(other, session): (&usize, &Session)| {
            let is_same = session.established.as_ref()?.connection.identity() == identity;
            let is_quiet = now.saturating_sub(session.touched) >= QUIET_MS;
            (is_same && is_quiet && Some(*other) != id).then_some((session.touched, *other))
        };
        let Some((_, oldest)) = self.sessions.iter().filter_map(quiet).min() else { return false };
        self.forget(oldest);
        true
    }

    /// Replaces the established connection by the one whose handshake is done.
    fn promote(&mut self, io: &Io, id: usize) {
        let Some(session) = self.sessions.get(&id) else { return };
        if session.handshake.is_none() {
            return;
        }
        let known = session.established.is_some();
        let has_space = known || self.make_space(id, io.now());
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(mut begun) = session.handshake.take() else { return };
        self.crew.half_open().end(id);
        let peer = session.route.peer();
        let identity = String::from_utf8_lossy(begun.connection.identity()).into_owned();
        if !has_space {
            self.counters.refused_sessions += 1;
            begun.connection.close();
            transmit(io, &mut begun.connection, peer);
            self.by_cid.remove(&begun.cid);
            self.forget(id);
            let full = "all sessions are taken; --max-sessions allows more";
            if let Some(count) = self.summaries.note(full, io.now()) {
                tracing::warn!(%peer, identity, count, most = self.options.max_sessions, "{full}");
            }
            return;
        }
        let suite = begun.connection.suite().map_or("", |suite| suite.name());
        tracing::info!(%peer, identity, suite, "established");
        if let Some(log) = &self.options.key_log {
            log.write(&begun.connection);
        }
        self.counters.handshakes += 1;
        let generations = self.options.generations;
        let same = |old: &Begun| {
            let (old, new) = (old.connection.identity(), begun.connection.identity());
            old == new || (generations && device(old).is_some() && device(old) == device(new))
        };
        let is_same = session.established.as_deref().is_none_or(same);
        if !is_same {
            // Another device has this address now, so the server's answers to the former one are
            // not for it.
            session.socket = None;
        }
        let old = session.established.replace(begun);
        self.ahead.remove(id);
        self.open_socket(io, id);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let (kept, ended) = if is_same { (old, None) } else { (None, old) };
        let older = std::mem::replace(&mut session.former, kept);
        [ended, older].into_iter().flatten().for_each(|begun| self.end_connection(&begun));
    }

    /// Gives a session a socket to the devices' server, if it has none and the server's address is
    /// known.
    fn open_socket(&mut self, io: &Io, id: usize) {
        let (Some(session), Some(to)) = (self.sessions.get_mut(&id), self.to) else { return };
        if session.socket.is_some() {
            return;
        }
        match io.socket(to, id) {
            Ok(socket) => session.socket = Some(socket),
            Err(error) => {
                let none = "no socket to the devices' server";
                if let Some(count) = self.summaries.note(none, io.now()) {
                    tracing::warn!(%error, count, "{none}");
                }
            }
        }
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
            if let Some(begun) = session.and_then(|session| session.established.as_mut()) {
                begun.connection.set_large(large);
            }
        }
    }

    /// Keeps the counters of a connection that has ended, and frees its ID.
    fn end_connection(&mut self, begun: &Begun) {
        self.refused.add(begun.connection.refusals());
        self.by_cid.remove(&begun.cid);
    }

    fn session(&mut self, io: &Io, id: usize, datagram: &[u8], from: SocketAddr) {
        let now = io.now();
        self.speaks(id, now);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let mut data: Vec<Vec<u8>> = Vec::new();
        let (mut established, mut closed, mut newest, mut switched) = (false, false, false, false);
        let begun = [&mut session.handshake, &mut session.established, &mut session.former];
        for (index, begun) in begun.into_iter().enumerate() {
            let Some(begun) = begun else { continue };
            let is_established = index == 1;
            let before = begun.connection.counts().1;
            let new = begun.connection.handle(datagram, now, &*self.keys, &mut |event| match event {
                Event::Data(octets) => data.push(octets.to_vec()),
                Event::Established => established = true,
                Event::Closed => closed |= is_established,
            });
            let mine = new || begun.connection.counts().1 > before;
            // The address follows the connection in use.
            newest |= new && index < 2;
            switched |= is_established && !data.is_empty();
            transmit(io, &mut begun.connection, from);
            if mine || established {
                break;
            }
        }
        if newest {
            session.touched = now;
            if let Some(was) = session.route.heard(from, datagram.len(), now) {
                tracing::debug!(%was, now = %from, "a peer has another address");
                // Another session may have the former address.
                if self.by_peer.get(&was) == Some(&id) {
                    self.by_peer.remove(&was);
                }
                self.by_peer.insert(from, id);
                self.counters.moves += 1;
            }
        }
        if switched && let Some(former) = session.former.take() {
            self.end_connection(&former);
        }
        if established {
            self.promote(io, id);
        }
        if !data.is_empty() {
            self.open_socket(io, id);
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        for octets in &data {
            match &session.socket {
                Some(socket) => io.send_by(id, socket, octets),
                None => self.counters.dropped += 1,
            }
        }
        if closed {
            tracing::info!(peer = %session.route.peer(), "the peer has ended the session");
            if session.handshake.is_none() {
                return self.forget(id);
            }
            // The handshake beside it continues, without the socket to the server.
            session.socket = None;
            if let Some(old) = session.established.take() {
                self.refused.add(old.connection.refusals());
                self.by_cid.remove(&old.cid);
                self.crew.leave();
            }
        }
        self.schedule(id);
    }
}

/// The device of an identity `NAME.NUMBER`, of which it has one for each of its keys.
pub(crate) fn device(identity: &[u8]) -> Option<&[u8]> {
    let (name, number) = identity.split_at(identity.iter().rposition(|octet| *octet == b'.')?);
    let is_number = number.len() > 1 && number.iter().skip(1).all(u8::is_ascii_digit);
    is_number.then_some(name)
}

fn transmit(io: &Io, connection: &mut Connection, to: SocketAddr) {
    while let Some(datagram) = connection.transmit() {
        io.send(&datagram, to);
    }
}

impl Side for Listen {
    fn outside(&mut self, io: &Io, datagram: &mut [u8], from: SocketAddr) {
        let begins = |epoch: &[u8]| epoch == [0, 0];
        let hello = datagram.first() == Some(&HANDSHAKE)
            && datagram.get(3..5).is_some_and(begins)
            && datagram.get(HEADER_LEN) == Some(&CLIENT_HELLO);
        if hello {
            return self.greet(io, datagram, from);
        }
        let id = if datagram.first() == Some(&TLS12_CID) {
            let cid = datagram.get(CID_AT..CID_AT + CID_LEN).and_then(|cid| ConnectionId::new(cid).ok());
            cid.and_then(|cid| self.by_cid.get(&cid))
        } else {
            self.by_peer.get(&from)
        };
        match id.copied() {
            Some(id) => self.session(io, id, datagram, from),
            None => self.unknown(io, datagram, from),
        }
    }

    fn inside(&mut self, io: &Io, id: usize, datagram: &mut [u8]) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(begun) = &mut session.established else {
            self.counters.dropped += 1;
            return;
        };
        self.out.resize(datagram.len() + RECORD_OVERHEAD, 0);
        match begun.connection.seal(datagram, &mut self.out) {
            Ok(len) => {
                io.send(self.out.get(..len).unwrap_or_default(), session.route.destination(len));
                session.touched = io.now();
                self.counters.protected += 1;
                self.speaks(id, io.now());
            }
            Err(error) => {
                if let Some(count) = self.summaries.note("not protected", io.now()) {
                    tracing::warn!(peer = %session.route.peer(), count, "not protected: {error}");
                }
                self.counters.dropped += 1;
            }
        }
    }

    fn sent(&mut self, _: &Io, report: &Report) {
        self.counters.opened += report.sent;
        self.counters.dropped += report.unsent;
    }

    fn unreachable(&mut self, _: &Io, _: usize) {
        self.counters.unreachable += 1;
        // The devices' server may have moved.
        self.news.ask();
    }

    fn keys(&mut self, io: &Io, keys: Arc<Keys>) {
        let old = std::mem::replace(&mut self.keys, keys);
        let revoked = |begun: &Begun| {
            if let Some(shown) = begun.connection.shown() {
                return self.keys.distrusts(Some(shown));
            }
            let identity = begun.connection.identity();
            // A handshake without an identity or a key so far asks for the new key.
            let before = old.key(identity);
            before.is_some() && self.keys.key(identity) != before
        };
        let of = |session: &Session| {
            [&session.established, &session.handshake].into_iter().flatten().any(|begun| revoked(begun))
        };
        let ended: Vec<usize> =
            self.sessions.iter().filter(|(_, session)| of(session)).map(|(id, _)| *id).collect();
        let former: Vec<Box<Begun>> = self
            .sessions
            .values_mut()
            .filter_map(|session| session.former.take_if(|former| revoked(former)))
            .collect();
        for former in &former {
            self.end_connection(former);
        }
        for id in &ended {
            if let Some(session) = self.sessions.get_mut(id)
                && let Some(begun) = &mut session.established
            {
                begun.connection.close();
                transmit(io, &mut begun.connection, session.route.peer());
            }
            self.forget(*id);
        }
        if !ended.is_empty() {
            tracing::info!(sessions = ended.len(), "sessions of revoked or changed keys are ended");
        }
    }

    fn target(&mut self, _: &Io, at: SocketAddr) {
        self.to = Some(at);
        // Each session opens another socket with its next datagram.
        self.sessions.values_mut().for_each(|session| session.socket = None);
    }

    fn socket(&self, session: usize) -> Option<Rc<UdpSocket>> {
        self.sessions.get(&session)?.socket.clone()
    }

    fn give_way(&mut self, io: &Io, session: usize) {
        self.give_way(session, io.now());
    }

    fn make_space(&mut self, io: &Io, identity: &[u8]) {
        self.end_quiet(identity, None, io.now());
    }

    fn due(&mut self, io: &Io) {
        let now = io.now();
        for id in self.deadlines.take_due(now) {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            let peer = session.route.peer();
            if let Some(begun) = &mut session.handshake {
                if begun.connection.deadline().is_some_and(|deadline| now >= deadline) {
                    begun.connection.timeout(now);
                    transmit(io, &mut begun.connection, peer);
                }
                if let Phase::Failed(failure) = begun.connection.phase() {
                    let identity = String::from_utf8_lossy(begun.connection.identity()).into_owned();
                    let reason = failure.to_string();
                    if let Some(count) = self.summaries.note(&reason, now) {
                        tracing::warn!(%peer, identity, count, "the handshake failed: {reason}");
                    }
                    self.counters.failed_handshakes += 1;
                    self.failures.count(failure.cause());
                    self.end_handshake(id);
                }
            }
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            let idle = now.saturating_sub(session.touched) >= self.options.idle_ms;
            if session.handshake.is_none() && idle {
                if let Some(begun) = &mut session.established {
                    tracing::info!(%peer, "nothing was heard for long: the session is ended");
                    begun.connection.close();
                    transmit(io, &mut begun.connection, peer);
                }
                self.forget(id);
            }
            self.schedule(id);
        }
    }

    fn deadline(&self) -> Option<u64> {
        self.deadlines.next()
    }

    fn prepare(&mut self, budget: u32) -> u32 {
        while let Some(id) = self.stale.pop_first() {
            let connection = self
                .sessions
                .get_mut(&id)
                .and_then(|s| s.established.as_mut().map(|begun| &mut begun.connection));
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
            for begun in [&session.established, &session.handshake, &session.former].into_iter().flatten() {
                refused.add(begun.connection.refusals());
            }
        }
        let sessions: Vec<_> = self
            .sessions
            .values()
            .map(|s| {
                let [established, handshake] =
                    [&s.established, &s.handshake].map(|begun| begun.as_ref().map(|begun| &begun.connection));
                status::Session::of(s.route.peer().to_string(), established, handshake)
            })
            .collect();
        status::document(&self.counters, &self.failures, &refused, &sessions, io.traffic())
    }

    fn end(&mut self, io: &Io) {
        tracing::info!(state = %self.status(io)["counters"], "ending {} sessions after {} ms", self.sessions.len(), io.now());
        for session in self.sessions.values_mut() {
            if let Some(begun) = &mut session.established {
                begun.connection.close();
                transmit(io, &mut begun.connection, session.route.peer());
            }
        }
    }
}
