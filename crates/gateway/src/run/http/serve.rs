//! The loop of an endpoint: one thread, sockets that never block, and bounds on all that a client
//! decides.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::request::{LONGEST, Request, RequestError, is_whole};
use super::{Answer, Body, Guard, Site};
use crate::run::lock;

/// The most clients at a time, and the most of them that follow a stream.
pub(super) const CLIENTS: usize = 64;
pub(super) const STREAMS: usize = 16;
/// The time for a request, and the longest time in which a client takes nothing of its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// New clients a second, and as many at once.
const RATE: u32 = 200;
/// The interval of events.
const PERIOD: Duration = Duration::from_secs(1);

/// The fields of each answer. Nothing of another host is fetched, and no other page may embed this
/// one or read of it.
const GUARDS: &str = "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
    Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'\r\n\
    X-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\n";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The state of the loop.
pub(super) struct Server {
    /// Its other end is closed to end the loop.
    pub(super) wake: UnixStream,
    pub(super) listener: TcpListener,
    pub(super) guard: Arc<Mutex<Guard>>,
    pub(super) site: Box<dyn Site>,
}

/// A client.
struct Client {
    stream: TcpStream,
    state: State,
    /// The request as far as it came.
    head: Vec<u8>,
    queue: VecDeque<Chunk>,
    /// When it was accepted, or took something of its answer.
    moved: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Asking,
    Answering,
    Streaming,
    Gone,
}

/// A part of an answer.
struct Chunk {
    body: Body,
    sent: usize,
    is_event: bool,
}

/// New clients that may still be accepted now.
struct Budget {
    left: u32,
    at: Instant,
}

impl Server {
    /// Serves until the other end of `wake` is closed.
    pub(super) fn run(mut self) {
        let mut clients: Vec<Client> = Vec::new();
        let mut budget = Budget { left: RATE, at: Instant::now() };
        let mut due = Instant::now();
        loop {
            let now = Instant::now();
            budget.fill(now);
            clients.retain(|client| client.state != State::Gone && !client.is_late(now));
            if !clients.iter().any(|client| client.state == State::Streaming) {
                due = now + PERIOD;
            } else if now >= due {
                due = now + PERIOD;
                let event = self.site.event();
                clients.iter_mut().for_each(|client| client.show(&event));
            }
            let wait = match (clients.is_empty(), budget.left) {
                (true, 1..) => None,
                (true, 0) => Some(PERIOD / 10),
                (false, 0) => Some((due - now).min(PERIOD / 10)),
                (false, 1..) => Some(due - now),
            };
            let Ok(ready) = self.wait(&clients, wait, budget.left > 0) else { return };
            let mut ready = ready.into_iter();
            if ready.next().is_some_and(|flags| !flags.is_empty()) {
                return;
            }
            let knock = ready.next().is_some_and(|flags| !flags.is_empty());
            let now = Instant::now();
            for at in 0..clients.len() {
                let flags = ready.next().unwrap_or(PollFlags::empty());
                if !flags.is_empty() {
                    let streams = clients.iter().filter(|client| client.state == State::Streaming).count();
                    if let Some(client) = clients.get_mut(at) {
                        self.turn(client, streams, now);
                    }
                }
            }
            if knock {
                self.accept(&mut clients, &mut budget, now);
            }
        }
    }

    /// What is ready: the end of the loop, the listener, then each client.
    fn wait(&self, clients: &[Client], wait: Option<Duration>, open: bool) -> io::Result<Vec<PollFlags>> {
        let knock = if open { PollFlags::IN } else { PollFlags::empty() };
        let mut all = vec![PollFd::new(&self.wake, PollFlags::IN), PollFd::new(&self.listener, knock)];
        for client in clients {
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::IN, client.state != State::Answering);
            wanted.set(PollFlags::OUT, !client.queue.is_empty());
            all.push(PollFd::new(&client.stream, wanted));
        }
        let wait = wait.map(|wait| Timespec {
            tv_sec: wait.as_secs() as i64,
            // Rounded up, so that the loop does not turn before the time.
            tv_nsec: i64::from(wait.subsec_nanos()).saturating_add(1_000_000).min(999_999_999),
        });
        match poll(&mut all, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(all.iter().map(PollFd::revents).collect()),
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&self, clients: &mut Vec<Client>, budget: &mut Budget, now: Instant) {
        while budget.left > 0 {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    budget.left -= 1;
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    make_room(clients);
                    clients.push(Client {
                        stream,
                        state: State::Asking,
                        head: Vec::new(),
                        queue: VecDeque::new(),
                        moved: now,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // One that is gone already, or too few descriptors: a pause.
                Err(_) => budget.left = 0,
            }
        }
    }

    /// Reads and writes what is possible.
    fn turn(&mut self, client: &mut Client, streams: usize, now: Instant) {
        if client.state != State::Answering && !client.read() {
            client.state = State::Gone;
            return;
        }
        if client.state == State::Asking && is_whole(&client.head) {
            let head = std::mem::take(&mut client.head);
            let answer = self.answer(&head, streams);
            client.state = if answer.is_stream { State::Streaming } else { State::Answering };
            client.queue.extend(answer.chunks);
        }
        client.write(now);
    }

    fn answer(&mut self, head: &[u8], streams: usize) -> Reply {
        let request = match Request::parse(head) {
            Ok(request) => request,
            Err(RequestError::Malformed) => return Reply::plain("400 Bad Request", "", "no request\n"),
            Err(RequestError::Method) => {
                return Reply::plain("405 Method Not Allowed", "Allow: GET, HEAD\r\n", "GET or HEAD\n");
            }
        };
        let reply = self.reply(&request, streams);
        if request.head_only { reply.head_only() } else { reply }
    }

    fn reply(&mut self, request: &Request<'_>, streams: usize) -> Reply {
        let guard = lock(&self.guard).clone();
        if !request.is_for(&guard.names) {
            let what = "this name is not the gateway's: ask by its address, or name it in names\n";
            return Reply::plain("421 Misdirected Request", "", what);
        }
        if request.is_of_another_site() && request.path != "/" {
            return Reply::plain("403 Forbidden", "", "another site's page asks\n");
        }
        if guard.token.is_some_and(|token| !token.admits(request.authorization)) {
            let field = "WWW-Authenticate: Basic realm=\"Antedate\", charset=\"UTF-8\"\r\n";
            return Reply::plain("401 Unauthorized", field, "any user name, and the token as password\n");
        }
        match self.site.answer(request) {
            Answer::Document(kind, body) => Reply::new("200 OK", kind, "", body),
            Answer::Missing(what) => Reply::plain("404 Not Found", "", what),
            Answer::Stream if streams >= STREAMS => {
                Reply::plain("503 Service Unavailable", "Retry-After: 10\r\n", "too many viewers\n")
            }
            Answer::Stream => Reply::stream(self.site.event()),
        }
    }
}

/// Makes room for one more client: the one that has waited longest with its request leaves, or that
/// has taken nothing of its answer for the longest time.
fn make_room(clients: &mut Vec<Client>) {
    if clients.len() < CLIENTS {
        return;
    }
    let rank = |client: &Client| match client.state {
        State::Gone => 0,
        State::Asking => 1,
        State::Answering => 2,
        State::Streaming => 3,
    };
    let leaves = clients.iter().enumerate().min_by_key(|(_, client)| (rank(client), client.moved));
    if let Some((at, _)) = leaves {
        clients.swap_remove(at);
    }
}

impl Client {
    /// Whether its time is over.
    fn is_late(&self, now: Instant) -> bool {
        let waits = self.state != State::Streaming || !self.queue.is_empty();
        waits && now.saturating_duration_since(self.moved) > PATIENCE
    }

    /// Reads what is there. `false`: the client is gone, or says too much.
    fn read(&mut self) -> bool {
        let mut piece = [0; 1024];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return false,
                // One that follows a stream has nothing to say.
                Ok(_) if self.state == State::Streaming => return false,
                Ok(read) => {
                    self.head.extend_from_slice(piece.get(..read).unwrap_or_default());
                    if is_whole(&self.head) {
                        return true;
                    }
                    if self.head.len() > LONGEST {
                        return false;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Writes what the socket takes. An answer that is written ends the connection.
    fn write(&mut self, now: Instant) {
        while let Some(chunk) = self.queue.front_mut() {
            let rest = chunk.body.octets().get(chunk.sent..).unwrap_or_default();
            if rest.is_empty() {
                self.queue.pop_front();
                continue;
            }
            match self.stream.write(rest) {
                Ok(sent) if sent > 0 => {
                    chunk.sent += sent;
                    self.moved = now;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => {
                    self.state = State::Gone;
                    return;
                }
            }
        }
        if self.state == State::Answering {
            let _ = self.stream.shutdown(Shutdown::Write);
            self.state = State::Gone;
        }
    }

    /// Queues an event in place of an older one that is not begun: a slow client gets fewer events,
    /// and not older ones.
    fn show(&mut self, event: &Arc<[u8]>) {
        if self.state != State::Streaming {
            return;
        }
        if self.queue.is_empty() {
            self.moved = Instant::now();
        }
        self.queue.retain(|chunk| !chunk.is_event || chunk.sent > 0);
        self.queue.push_back(Chunk { body: Body::Shared(Arc::clone(event)), sent: 0, is_event: true });
        self.write(Instant::now());
    }
}

impl Budget {
    fn fill(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.at);
        let more = (since.as_millis() * u128::from(RATE) / 1_000).min(RATE.into()) as u32;
        if more > 0 {
            (self.left, self.at) = ((self.left + more).min(RATE), now);
        }
    }
}

/// An answer in parts.
struct Reply {
    chunks: Vec<Chunk>,
    is_stream: bool,
}

impl Reply {
    fn new(status: &str, kind: &str, fields: &str, body: Body) -> Self {
        let length = body.octets().len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{fields}{GUARDS}\r\n"
        );
        Self { chunks: vec![Chunk::of(head), Chunk { body, sent: 0, is_event: false }], is_stream: false }
    }

    fn plain(status: &str, fields: &str, text: &'static str) -> Self {
        Self::new(status, PLAIN, fields, Body::Static(text.as_bytes()))
    }

    fn stream(event: Arc<[u8]>) -> Self {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{GUARDS}\r\nretry: 2000\n\n");
        let event = Chunk { body: Body::Shared(event), sent: 0, is_event: true };
        Self { chunks: vec![Chunk::of(head), event], is_stream: true }
    }

    fn head_only(mut self) -> Self {
        self.chunks.truncate(1);
        self.is_stream = false;
        self
    }
}

impl Chunk {
    fn of(text: String) -> Self {
        Self { body: Body::Shared(text.into_bytes().into()), sent: 0, is_event: false }
    }
}
