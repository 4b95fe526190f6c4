//! The event loop of both sides: sockets, time, preparation and status.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use antedate_hardening::stack;
use antedate_host::control::{self, Words};
use antedate_host::fault::Fault;
use antedate_host::notify::Life;
use mio::net::{UdpSocket, UnixListener, UnixStream};
use mio::{Events, Interest, Poll, Token, Waker};
use serde_json::Value;

use crate::Options;
use crate::crew::{Crew, Mail};
use crate::group;
use crate::inbox::{self, Inbox};
use crate::outbox::{Outbox, Report, Sent, Way};
use crate::service::{Keys, News};
use crate::status::{self, Traffic};

/// The socket at the local address.
const OUTSIDE: Token = Token(0);
/// The status socket.
const STATUS: Token = Token(1);
/// Mail of another thread.
const WAKE: Token = Token(usize::MAX);
/// The first session number of all threads.
pub(crate) const FIRST_SESSION: usize = 2;
/// Octets of space for the overhead of a record; more than any suite needs.
pub(crate) const RECORD_OVERHEAD: usize = 128;
/// The longest wait between two looks at `stop`.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// Looks at a socket for one datagram, before those for several.
const SINGLE: usize = 2;
/// The most errors of one socket before the next socket's turn.
const MOST_ERRORS: usize = 16;
/// The most rounds of answers to what became of sent datagrams.
const ROUNDS: usize = 4;
/// Interval of wiping the stack, in milliseconds, if anything came: handshakes and new sessions
/// compute with keys there. Costs some microseconds.
const WIPE: u64 = 250;
/// Preparation steps between two polls: some ten microseconds.
const STEPS: u32 = 64;

/// The sockets and the clock.
pub(crate) struct Io {
    poll: Poll,
    outside: UdpSocket,
    outbox: RefCell<Outbox>,
    sent: Sent,
    /// Memory for what is heard of sent datagrams.
    reports: Cell<Vec<Report>>,
    received: Cell<u64>,
    receive_calls: Cell<u64>,
    crew: Arc<Crew>,
}

impl Io {
    /// Milliseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        self.crew.now()
    }

    /// A session's socket, connected to one address.
    pub(crate) fn socket(&self, to: SocketAddr, session: usize) -> io::Result<Rc<UdpSocket>> {
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => ([0; 4], 0).into(),
            SocketAddr::V6(_) => ([0u16; 8], 0).into(),
        };
        let mut socket = UdpSocket::bind(any)?;
        socket.connect(to)?;
        inbox::join(&socket);
        self.poll.registry().register(&mut socket, Token(session), Interest::READABLE)?;
        Ok(Rc::new(socket))
    }

    /// Sends from the local address, at the end of this turn. A failed send is a lost datagram.
    pub(crate) fn send(&self, datagram: &[u8], to: SocketAddr) {
        self.put(&Way::Peer(to), datagram);
    }

    /// Sends by a session's socket, at the end of this turn. [`Side::sent`] hears of it.
    pub(crate) fn send_by(&self, session: usize, socket: &Rc<UdpSocket>, datagram: &[u8]) {
        self.put(&Way::Session(session, Rc::clone(socket)), datagram);
    }

    fn put(&self, way: &Way, datagram: &[u8]) {
        let mut outbox = self.outbox.borrow_mut();
        if outbox.put(way, datagram) {
            outbox.flush(&self.outside, &self.sent);
        }
    }

    /// Sends what this turn has made, and tells the side.
    fn finish(&self, side: &mut impl Side) {
        for _ in 0..ROUNDS {
            let mut reports = self.reports.take();
            {
                let mut outbox = self.outbox.borrow_mut();
                outbox.flush(&self.outside, &self.sent);
                outbox.reports(&mut reports);
            }
            for report in &reports {
                side.sent(self, report);
                if report.closed {
                    side.unreachable(self, report.session);
                }
            }
            let none = reports.is_empty();
            self.reports.set(reports);
            if none {
                break;
            }
        }
    }

    /// Datagrams and system calls so far.
    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            received: self.received.get(),
            receive_calls: self.receive_calls.get(),
            sent: self.sent.datagrams.get(),
            send_calls: self.sent.calls.get(),
            unsent: self.sent.unsent.get(),
        }
    }
}

/// Fills `out` with random octets.
pub(crate) fn random(out: &mut [u8]) {
    if let Err(error) = getrandom::fill(out) {
        // There are no keys without random numbers.
        tracing::error!(%error, "the system gives no random numbers");
        std::process::abort();
    }
}

/// One side of the proxy.
pub(crate) trait Side {
    /// Takes a datagram at the local address.
    fn outside(&mut self, io: &Io, datagram: &mut [u8], from: SocketAddr);
    /// Takes a datagram at a session's socket.
    fn inside(&mut self, io: &Io, session: usize, datagram: &mut [u8]);
    /// Hears what became of a session's datagrams.
    fn sent(&mut self, _: &Io, _: &Report) {}
    /// Takes a report that a session's destination cannot be reached (ICMP). Anyone can forge it.
    fn unreachable(&mut self, _: &Io, _session: usize) {}
    /// Takes other keys, and ends the sessions of those that are no longer valid.
    fn keys(&mut self, io: &Io, keys: Arc<Keys>);
    /// Takes the address of the destination.
    fn target(&mut self, io: &Io, at: SocketAddr);
    /// Ends a session's handshake, the oldest of a flood at all threads.
    fn give_way(&mut self, _: &Io, _session: usize) {}
    /// Ends a quiet session of an identity, for another thread.
    fn make_space(&mut self, _: &Io, _identity: &[u8]) {}
    /// A session's socket.
    fn socket(&self, session: usize) -> Option<Rc<UdpSocket>>;
    /// Handles expired deadlines.
    fn due(&mut self, io: &Io);
    /// The next deadline in milliseconds.
    fn deadline(&self) -> Option<u64>;
    /// Prepares for at most `budget` steps. Returns the steps done.
    fn prepare(&mut self, budget: u32) -> u32;
    /// The status document.
    fn status(&self, io: &Io) -> Value;
    /// Ends all sessions.
    fn end(&mut self, io: &Io);
}

/// A thread's part of a side: the socket at the local address, and what it waits with.
struct Place {
    poll: Poll,
    outside: UdpSocket,
    status: Option<UnixListener>,
}

/// Runs a side until `stop` is set, with a part in each thread, which `part` makes. `by_cid` is a
/// server's, whose peers have connection IDs.
pub(crate) fn run<S: Side>(
    options: &Options,
    by_cid: bool,
    news: &News,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
    part: impl Fn(&Arc<Crew>, usize) -> S + Sync,
) -> Result<(), Fault> {
    let place = options.listen.to_string();
    let fault = |what: &str, error: &io::Error| {
        Fault::of_io(
            Path::new(&place),
            what,
            error,
            "choose an address of this machine and a port that is free",
        )
    };
    let cannot = |error: io::Error| fault("listen here", &error);
    let sockets = group::open(options.listen, options.threads.max(1), by_cid).map_err(cannot)?;
    let at = sockets.first().map_or(Ok(options.listen), UdpSocket::local_addr).map_err(cannot)?;
    let mut listener = options.status.as_deref().map(status_socket).transpose()?;
    let (mut places, mut wakers) = (Vec::new(), Vec::new());
    for mut outside in sockets {
        let poll = Poll::new().map_err(cannot)?;
        wakers.push(Waker::new(poll.registry(), WAKE).map_err(cannot)?);
        poll.registry().register(&mut outside, OUTSIDE, Interest::READABLE).map_err(cannot)?;
        // The first thread answers for all.
        let mut status = listener.take();
        if let Some(status) = &mut status {
            poll.registry().register(status, STATUS, Interest::READABLE).map_err(cannot)?;
        }
        places.push(Place { poll, outside, status });
    }
    let crew = Arc::new(Crew::new(wakers, options.max_sessions, options.max_handshakes));
    ready(at);
    let work = |thread: usize, place: Place| {
        let _ends = Ends(&crew);
        let side = part(&crew, thread);
        turns(side, place, &crew, thread, (news, stop)).map_err(|error| fault("wait", &error))
    };
    let done = thread::scope(|scope| {
        let mut places = places.into_iter().enumerate();
        let first = places.next();
        let started: Result<Vec<_>, io::Error> = places
            .map(|(thread, place)| {
                let work = &work;
                let builder = thread::Builder::new().name(format!("sessions-{thread}"));
                builder.spawn_scoped(scope, move || work(thread, place))
            })
            .collect();
        match (started, first) {
            (Ok(others), Some((thread, place))) => {
                let own = work(thread, place);
                others.into_iter().fold(own, |done, other| {
                    let ended = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    done.and(ended)
                })
            }
            (Err(error), _) => {
                crew.end();
                Err(fault("start its threads", &error))
            }
            (Ok(_), None) => Ok(()),
        }
    });
    if let Some(path) = &options.status {
        let _ = fs::remove_file(path);
    }
    done
}

/// Ends the other threads with this one.
struct Ends<'a>(&'a Crew);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The turns of a thread.
fn turns(
    mut side: impl Side,
    place: Place,
    crew: &Arc<Crew>,
    thread: usize,
    (news, stop): (&News, &AtomicBool),
) -> io::Result<()> {
    let Place { poll, outside, status } = place;
    let outbox = RefCell::new(Outbox::new(&outside));
    let mut io = Io {
        poll,
        outside,
        outbox,
        sent: Sent::default(),
        reports: Cell::default(),
        received: Cell::default(),
        receive_calls: Cell::default(),
        crew: Arc::clone(crew),
    };
    let mut events = Events::with_capacity(256);
    let mut inbox = Inbox::new();
    let mut life = (thread == 0).then(Life::begin);
    let mut seen = Vec::new();
    let mut asked = Asked::default();
    let mut prepared = false;
    let mut again: Vec<Token> = Vec::new();
    let (mut used, mut wiped) = (true, 0);
    while !stop.load(Ordering::Acquire) && !crew.has_ended() {
        crew.turn(thread);
        if let Some(life) = &mut life
            && crew.all_turned(&mut seen)
        {
            life.sign();
        }
        if used && io.now() >= wiped + WIPE {
            stack::wipe();
            (used, wiped) = (false, io.now());
        }
        let idle = prepared && again.is_empty();
        let wait = if idle { wait(&side, io.now()) } else { Duration::ZERO };
        match io.poll.poll(&mut events, Some(wait)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let mut tokens = std::mem::take(&mut again);
        tokens.extend(events.iter().map(|event| event.token()));
        used |= !tokens.is_empty();
        for token in &tokens {
            let left = match *token {
                OUTSIDE => drain(&mut side, &io, &mut inbox, None),
                STATUS => {
                    while let Some((stream, _)) = status.as_ref().and_then(|status| status.accept().ok()) {
                        asked.by(stream, crew);
                    }
                    false
                }
                WAKE => false,
                Token(session) => drain(&mut side, &io, &mut inbox, Some(session)),
            };
            if left {
                again.push(*token);
            }
        }
        if thread == 0
            && let Some((keys, address)) = news.take()
        {
            if let Some(keys) = keys.map(Arc::new) {
                crew.send_others(thread, || Mail::Keys(Arc::clone(&keys)));
                side.keys(&io, keys);
                used = true;
            }
            if let Some(address) = address {
                crew.send_others(thread, || Mail::Target(address));
                side.target(&io, address);
            }
        }
        for mail in crew.mail(thread) {
            used = true;
            match mail {
                Mail::Keys(keys) => side.keys(&io, keys),
                Mail::Target(address) => side.target(&io, address),
                Mail::GiveWay(session) => side.give_way(&io, session),
                Mail::MakeSpace(identity) => side.make_space(&io, &identity),
                Mail::StatusWanted => crew.send(0, Mail::Status(thread, side.status(&io))),
                Mail::Status(of, part) => asked.parts.push((of, part)),
            }
        }
        asked.answer(crew, || side.status(&io));
        if side.deadline().is_some_and(|deadline| io.now() >= deadline) {
            side.due(&io);
        }
        io.finish(&mut side);
        prepared = tokens.is_empty() && side.prepare(STEPS) == 0;
    }
    drop(life);
    side.end(&io);
    io.finish(&mut side);
    Ok(())
}

/// Those who asked for the status, and the other threads' parts of it.
#[derive(Default)]
struct Asked {
    by: Vec<UnixStream>,
    parts: Vec<(usize, Value)>,
}

impl Asked {
    fn by(&mut self, stream: UnixStream, crew: &Crew) {
        if self.by.is_empty() {
            self.parts.clear();
            crew.send_others(0, || Mail::StatusWanted);
        }
        self.by.push(stream);
    }

    /// Answers once all parts are there.
    fn answer(&mut self, crew: &Crew, own: impl FnOnce() -> Value) {
        if self.by.is_empty() || self.parts.len() + 1 < crew.size() {
            return;
        }
        self.parts.sort_by_key(|(thread, _)| *thread);
        let mut whole = own();
        for (_, part) in &mut self.parts {
            status::add(&mut whole, part.take());
        }
        self.by.drain(..).for_each(|stream| answer(stream, &whole));
    }
}

fn wait(side: &impl Side, now: u64) -> Duration {
    let due = side.deadline().map(|deadline| Duration::from_millis(deadline.saturating_sub(now)));
    due.map_or(LONGEST_WAIT, |due| due.min(LONGEST_WAIT))
}

/// Takes the datagrams of a session's socket, or of the local address: two one by one, and then as
/// many as there is space for. What they cause leaves before the next look. Returns whether there may
/// be more. An error reports an ICMP message about an earlier datagram; [`Side::unreachable`] takes
/// that of a closed port.
// Never inlined: the caller wipes the stack below itself.
#[inline(never)]
fn drain(side: &mut impl Side, io: &Io, inbox: &mut Inbox, session: Option<usize>) -> bool {
    let (mut looks, mut errors) = (0, 0);
    loop {
        // A datagram may end the session, or give it another socket.
        let own = session.map(|session| side.socket(session));
        let socket = match &own {
            None => &io.outside,
            Some(Some(socket)) => &**socket,
            Some(None) => return false,
        };
        let places = if looks < SINGLE { 1 } else { inbox::MOST };
        looks += 1;
        match inbox.receive(socket, places) {
            Ok(full) => {
                let count = inbox.each(|datagram, from| match session {
                    None => side.outside(io, datagram, from),
                    Some(session) => side.inside(io, session, datagram),
                });
                io.received.set(io.received.get() + count);
                io.receive_calls.set(io.receive_calls.get() + 1);
                io.finish(side);
                if !full || places == inbox::MOST {
                    return full;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) => {
                tracing::debug!(%error, "an error came instead of a datagram");
                if let (io::ErrorKind::ConnectionRefused, Some(session)) = (error.kind(), session) {
                    side.unreachable(io, session);
                    io.finish(side);
                }
                errors += 1;
                if errors == MOST_ERRORS {
                    return true;
                }
            }
        }
    }
}

/// The fault texts of the status socket.
const WORDS: Words = Words {
    taken: ("another process answers at this socket", "give each proxy a path of its own"),
    no_socket: ("exists and is no socket", "give a path in a directory of yours"),
    cannot: ("make the socket for the state", "give a path in a directory of yours"),
};

fn status_socket(path: &Path) -> Result<UnixListener, Fault> {
    let listener = control::listen(path, &WORDS)?;
    let cannot = |error: io::Error| Fault::of_io(path, WORDS.cannot.0, &error, WORDS.cannot.1);
    listener.set_nonblocking(true).map_err(cannot)?;
    Ok(UnixListener::from_std(listener))
}

fn answer(stream: UnixStream, status: &Value) {
    // The answer fits the socket's buffer, and a closed connection is no fault.
    let mut stream = std::os::unix::net::UnixStream::from(stream);
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_write_timeout(Some(Duration::from_millis(50)));
    let _ = stream.write_all(status.to_string().as_bytes());
}
