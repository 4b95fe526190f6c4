//! The event loop of both sides: sockets, time, preparation and status.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antedate_hardening::stack;
use antedate_host::clock::Moment;
use antedate_host::control::{self, Words};
use antedate_host::fault::Fault;
use antedate_host::notify::Life;
use mio::net::{UdpSocket, UnixListener};
use mio::{Events, Interest, Poll, Token};
use serde_json::Value;

use crate::Options;
use crate::service::{Keys, News};

/// The socket at the local address.
const OUTSIDE: Token = Token(0);
/// The status socket.
const STATUS: Token = Token(1);
/// The first session number.
pub(crate) const FIRST_SESSION: usize = 2;
/// The longest UDP datagram in octets.
const DATAGRAM_MAX: usize = 65_535;
/// Octets of space for the overhead of a record; more than any suite needs.
pub(crate) const RECORD_OVERHEAD: usize = 128;
/// The longest wait between two looks at `stop`.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// The most datagrams from one socket before the next socket's turn.
const BATCH: usize = 64;
/// Interval of wiping the stack, in milliseconds, if anything came: handshakes and new sessions
/// compute with keys there. Costs some microseconds.
const WIPE: u64 = 250;
/// Preparation steps between two polls: some ten microseconds.
const STEPS: u32 = 64;

/// The sockets and the clock.
pub(crate) struct Io {
    poll: Poll,
    pub(crate) outside: UdpSocket,
    began: Moment,
}

impl Io {
    /// Milliseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// A session's socket, connected to one address.
    pub(crate) fn socket(&self, to: SocketAddr, session: usize) -> io::Result<UdpSocket> {
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => ([0; 4], 0).into(),
            SocketAddr::V6(_) => ([0u16; 8], 0).into(),
        };
        let mut socket = UdpSocket::bind(any)?;
        socket.connect(to)?;
        self.poll.registry().register(&mut socket, Token(session), Interest::READABLE)?;
        Ok(socket)
    }

    /// Sends from the local address. A failed send is a lost datagram.
    pub(crate) fn send(&self, datagram: &[u8], to: SocketAddr) {
        if let Err(error) = self.outside.send_to(datagram, to) {
            tracing::debug!(%to, %error, "not sent");
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
    /// Takes a report that a session's destination cannot be reached (ICMP). Anyone can forge it.
    fn unreachable(&mut self, _: &Io, _session: usize) {}
    /// Takes other keys, and ends the sessions of those that are no longer valid.
    fn keys(&mut self, io: &Io, keys: Keys);
    /// Takes the address of the destination.
    fn target(&mut self, io: &Io, at: SocketAddr);
    /// A session's socket.
    fn socket(&self, session: usize) -> Option<&UdpSocket>;
    /// Handles expired deadlines.
    fn due(&mut self, io: &Io);
    /// The next deadline in milliseconds.
    fn deadline(&self) -> Option<u64>;
    /// Prepares for at most `budget` steps. Returns the steps done.
    fn prepare(&mut self, budget: u32) -> u32;
    /// The status document.
    fn status(&self) -> Value;
    /// Ends all sessions.
    fn end(&mut self, io: &Io);
}

/// Runs a side until `stop` is set.
pub(crate) fn run(
    options: &Options,
    mut side: impl Side,
    news: &News,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
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
    let mut outside = UdpSocket::bind(options.listen).map_err(cannot)?;
    let at = outside.local_addr().map_err(cannot)?;
    let poll = Poll::new().map_err(cannot)?;
    poll.registry().register(&mut outside, OUTSIDE, Interest::READABLE).map_err(cannot)?;
    let mut status = options.status.as_deref().map(status_socket).transpose()?;
    if let Some(status) = &mut status {
        poll.registry().register(status, STATUS, Interest::READABLE).map_err(cannot)?;
    }
    let mut io = Io { poll, outside, began: Moment::now() };
    let mut events = Events::with_capacity(256);
    let mut datagram = vec![0; DATAGRAM_MAX];
    ready(at);
    let mut life = Life::begin();
    let mut prepared = false;
    let mut again: Vec<Token> = Vec::new();
    let (mut used, mut wiped) = (true, 0);
    while !stop.load(Ordering::Acquire) {
        life.sign();
        if used && io.now() >= wiped + WIPE {
            stack::wipe();
            (used, wiped) = (false, io.now());
        }
        let idle = prepared && again.is_empty();
        let wait = if idle { wait(&side, io.now()) } else { Duration::ZERO };
        match io.poll.poll(&mut events, Some(wait)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(fault("wait", &error)),
            _ => {}
        }
        let mut tokens = std::mem::take(&mut again);
        tokens.extend(events.iter().map(|event| event.token()));
        used |= !tokens.is_empty();
        for token in &tokens {
            let left = match *token {
                OUTSIDE => {
                    let read = |_: &mut _, datagram: &mut [u8]| io.outside.recv_from(datagram);
                    let each = |side: &mut _, from, octets: &mut _| Side::outside(side, &io, octets, from);
                    drain(&mut side, &mut datagram, read, each, |_| ())
                }
                STATUS => {
                    while let Some((stream, _)) = status.as_ref().and_then(|status| status.accept().ok()) {
                        answer(stream, &side.status());
                    }
                    false
                }
                Token(session) => {
                    let read = |side: &mut _, datagram: &mut [u8]| match Side::socket(side, session) {
                        Some(socket) => socket.recv(datagram).map(|len| (len, ())),
                        None => Err(io::ErrorKind::WouldBlock.into()),
                    };
                    let each = |side: &mut _, (), octets: &mut _| Side::inside(side, &io, session, octets);
                    drain(&mut side, &mut datagram, read, each, |side| side.unreachable(&io, session))
                }
            };
            if left {
                again.push(*token);
            }
        }
        if let Some((keys, address)) = news.take() {
            if let Some(keys) = keys {
                side.keys(&io, keys);
                used = true;
            }
            if let Some(address) = address {
                side.target(&io, address);
            }
        }
        if side.deadline().is_some_and(|deadline| io.now() >= deadline) {
            side.due(&io);
        }
        prepared = tokens.is_empty() && side.prepare(STEPS) == 0;
    }
    drop(life);
    side.end(&io);
    if let Some(path) = &options.status {
        let _ = fs::remove_file(path);
    }
    Ok(())
}

fn wait(side: &impl Side, now: u64) -> Duration {
    let due = side.deadline().map(|deadline| Duration::from_millis(deadline.saturating_sub(now)));
    due.map_or(LONGEST_WAIT, |due| due.min(LONGEST_WAIT))
}

/// Takes at most [`BATCH`] datagrams of a socket. Returns whether there may be more. An error
/// reports an ICMP message about an earlier datagram; `unreachable` takes that of a closed port.
// Never inlined: the caller wipes the stack below itself.
#[inline(never)]
fn drain<S, T>(
    side: &mut S,
    buffer: &mut [u8],
    read: impl Fn(&mut S, &mut [u8]) -> io::Result<(usize, T)>,
    mut each: impl FnMut(&mut S, T, &mut [u8]),
    mut unreachable: impl FnMut(&mut S),
) -> bool {
    for _ in 0..BATCH {
        match read(side, buffer) {
            Ok((len, from)) => {
                if let Some(datagram) = buffer.get_mut(..len) {
                    each(side, from, datagram);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) => {
                tracing::debug!(%error, "an error came instead of a datagram");
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    unreachable(side);
                }
            }
        }
    }
    true
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

fn answer(stream: mio::net::UnixStream, status: &Value) {
    // The answer fits the socket's buffer, and a closed connection is no fault.
    let mut stream = std::os::unix::net::UnixStream::from(stream);
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_write_timeout(Some(Duration::from_millis(50)));
    let _ = stream.write_all(status.to_string().as_bytes());
}
