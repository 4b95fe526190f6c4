//! The metrics endpoint: OpenMetrics (and the format before it) over HTTP on a loopback address, if
//! `[metrics]` names one.
//!
//! One thread answers one client after the other, each within a second. Any user of the machine may
//! ask, so the status is taken once a second at most, however many ask: it costs the forwarding
//! threads some microseconds.
//!
//! - `families`: the metrics
//! - `text`: their text format

mod families;
mod text;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use antedate_hardening::confine;
use antedate_host::fault::{Fault, explain};
use antedate_host::helper;

use self::text::{Family, Format};
use crate::run::control::StatusSource;

/// The time for a whole request and its answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The least time between two snapshots of the status.
const FRESH: Duration = Duration::from_secs(1);
/// Octets of the longest request.
const MAX_REQUEST_LEN: usize = 8 * 1024;
/// The pause after a failure of the listening socket, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

const PLAIN: &str = "text/plain; charset=utf-8";

/// A running endpoint. It ends when dropped.
#[derive(Debug)]
pub struct Endpoint {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// An open socket without a thread.
#[derive(Debug)]
pub struct Listening(TcpListener, SocketAddr);

/// Opens the socket.
///
/// # Errors
/// When another program has the port, or the address is not this machine's.
pub fn listen(file: &Path, at: SocketAddr) -> Result<Listening, Fault> {
    let cannot = |error: io::Error| {
        let what = format!("cannot listen on {at}: {}", explain(&error));
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse => "another program has this port: give metrics.listen another one",
            io::ErrorKind::PermissionDenied => {
                "give metrics.listen a port above 1023, and see RestrictAddressFamilies= of the unit"
            }
            _ => "give metrics.listen a loopback address of this machine, e.g. \"127.0.0.1:9464\"",
        };
        Fault { key: "metrics.listen".into(), ..Fault::of_file(file, what, remedy) }
    };
    let listener = TcpListener::bind(at).map_err(cannot)?;
    let at = listener.local_addr().map_err(cannot)?;
    Ok(Listening(listener, at))
}

impl Listening {
    /// Answers on the socket, by a thread without capabilities.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn serve(self, source: Arc<dyn StatusSource>) -> io::Result<Endpoint> {
        let Self(listener, at) = self;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            let mut page = Page { source, shown: None };
            while !stopped.load(Ordering::Acquire) {
                match listener.accept() {
                    // A client that is slow or gone is no news.
                    Ok((client, _)) if !stopped.load(Ordering::Acquire) => _ = page.answer(client),
                    Ok(_) => {}
                    Err(_) => thread::sleep(PAUSE),
                }
            }
        };
        let start = || helper::thread("metrics").spawn(work);
        let thread = Some(confine::without_capabilities(start)?);
        tracing::info!(%at, "metrics are shown");
        Ok(Endpoint { at, stop, thread })
    }
}

impl Endpoint {
    /// Its address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.at
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Ends the wait for a client.
        let woken = TcpStream::connect_timeout(&self.at, PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

/// The endpoint of a running gateway, if any.
#[derive(Debug, Default)]
pub struct Metrics(Option<Endpoint>);

/// A prepared change of the endpoint.
#[derive(Debug)]
pub enum Move {
    /// It stays as it is.
    Stay,
    /// It ends.
    Off,
    /// It answers here.
    To(Listening),
}

impl Metrics {
    /// Opens the socket of another address.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn prepare(&self, file: &Path, configured: Option<SocketAddr>) -> Result<Move, Fault> {
        match (configured, self.0.as_ref().map(Endpoint::address)) {
            (None, None) => Ok(Move::Stay),
            (None, Some(_)) => Ok(Move::Off),
            (Some(at), Some(present)) if at == present => Ok(Move::Stay),
            (Some(at), _) => listen(file, at).map(Move::To),
        }
    }

    /// Makes the change.
    pub fn apply(&mut self, to: Move, source: Arc<dyn StatusSource>) {
        match to {
            Move::Stay => {}
            Move::Off => self.0 = None,
            Move::To(listening) => {
                self.0 = None;
                match listening.serve(source) {
                    Ok(endpoint) => self.0 = Some(endpoint),
                    Err(error) => tracing::error!(%error, "no thread for metrics"),
                }
            }
        }
    }
}

struct Page {
    source: Arc<dyn StatusSource>,
    /// The last metrics, and their time.
    shown: Option<(Instant, Vec<Family>)>,
}

impl Page {
    fn answer(&mut self, mut client: TcpStream) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        client.set_write_timeout(Some(PATIENCE))?;
        let head = head(&mut client, end)?;
        let mut words = head.split(|octet| octet.is_ascii_whitespace());
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = path.split(|octet| *octet == b'?').next().unwrap_or_default();
        let (status, kind, body) = match (method, path) {
            (b"GET" | b"HEAD", b"/metrics") => {
                let format = accepted(&head);
                ("200 OK", format.media_type(), text::write(self.families(), format))
            }
            (b"GET" | b"HEAD", _) => ("404 Not Found", PLAIN, "see /metrics\n".into()),
            _ => ("405 Method Not Allowed", PLAIN, "GET /metrics\n".into()),
        };
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let header = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
            body.len()
        );
        let body = if method == b"HEAD" { "" } else { &body };
        client.write_all([header.as_str(), body].concat().as_bytes())
    }

    /// The metrics, at most a second old.
    fn families(&mut self) -> &[Family] {
        if self.shown.as_ref().is_none_or(|(at, _)| at.elapsed() >= FRESH) {
            let families = families::of(&self.source.status());
            self.shown = Some((Instant::now(), families));
        }
        self.shown.as_ref().map_or(&[], |(_, families)| families)
    }
}

/// The format that the client accepts. `curl` and older programs do not ask for OpenMetrics.
fn accepted(head: &[u8]) -> Format {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let accepts =
        |line: &str| line.strip_prefix("accept:").is_some_and(|types| types.contains("openmetrics-text"));
    if head.lines().any(accepts) { Format::OpenMetrics } else { Format::Prometheus }
}

/// Reads a request to the end of its header.
fn head(client: &mut TcpStream, end: Instant) -> io::Result<Vec<u8>> {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > MAX_REQUEST_LEN {
            return Err(io::ErrorKind::InvalidData.into());
        }
        client.set_read_timeout(Some(left))?;
        match client.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => head.extend_from_slice(piece.get(..read).unwrap_or_default()),
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::run::control::{Command, CommandError, Echo, Ping};
    use crate::run::status::Status;

    /// Counts how often it is asked.
    #[derive(Default)]
    struct Counted(AtomicU64);

    impl StatusSource for Counted {
        fn status(&self) -> Status {
            self.0.fetch_add(1, Ordering::Relaxed);
            Status { antedate: "1".into(), ..Status::default() }
        }

        fn command(&self, _: Command) -> Result<String, CommandError> {
            unreachable!("metrics change nothing")
        }

        fn ping(&self, _: &Ping) -> Result<Echo, CommandError> {
            unreachable!("metrics send nothing")
        }
    }

    fn started() -> (Arc<Counted>, Endpoint) {
        let source = Arc::new(Counted::default());
        let listening = listen(Path::new("g.toml"), (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let endpoint = listening.serve(Arc::clone(&source) as Arc<dyn StatusSource>).unwrap();
        (source, endpoint)
    }

    fn ask(endpoint: &Endpoint, request: &[u8]) -> String {
        let mut client = TcpStream::connect(endpoint.address()).unwrap();
        client.write_all(request).unwrap();
        let mut answer = String::new();
        let _ = client.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn metrics_are_shown_to_many() {
        let (source, endpoint) = started();
        for _ in 0..20 {
            let answer =
                ask(&endpoint, b"GET /metrics?x=1 HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n");
            assert!(
                answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"),
                "{answer}"
            );
            assert!(
                answer.contains("\nantedate_build{version=\"1\"") && answer.ends_with("# EOF\n"),
                "{answer}"
            );
        }
        // Once a second at most.
        assert!(source.0.load(Ordering::Relaxed) < 20);
        assert!(ask(&endpoint, b"HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
    }

    #[test]
    fn other_requests_are_refused() {
        let (source, endpoint) = started();
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"\x16\x03\x01\r\n\r\n", "405"),
            (b"\r\n\r\n", "405"),
        ] {
            assert!(ask(&endpoint, request).starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}");
        }
        let long = [b"GET /metrics HTTP/1.1\r\nx: ".as_slice(), &[b'y'; 2 * MAX_REQUEST_LEN]].concat();
        assert_eq!(ask(&endpoint, &long), "");
        assert_eq!(source.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn silent_client_is_left() {
        let (_source, endpoint) = started();
        let _silent: Vec<_> = (0..2).map(|_| TcpStream::connect(endpoint.address()).unwrap()).collect();
        let answer = ask(&endpoint, b"GET /metrics HTTP/1.0\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{answer}");
    }

    #[test]
    fn endpoint_leaves_its_port() {
        let (_source, endpoint) = started();
        let at = endpoint.address();
        let taken = listen(Path::new("g.toml"), at).unwrap_err();
        assert!(taken.what.contains("cannot listen on 127.0.0.1") && taken.remedy.contains("metrics.listen"));
        drop(endpoint);
        listen(Path::new("g.toml"), at).unwrap();
    }
}
