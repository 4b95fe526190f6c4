//! HTTP for what a gateway shows: metrics and page.
//!
//! Each endpoint has one thread of low priority that never waits for a client. All that a client
//! decides has a bound: its time, its request's length, the number of clients, and how many come a
//! second. An answer is written once and shared, so a slow client holds no copy. Nothing can be
//! changed over an endpoint.
//!
//! - [`request`]: the head of a request, and whom it is for
//! - [`token`]: the proof of a client
//! - `serve`: the loop
//! - [`endpoints`]: those of a running gateway, which a reload may change

pub mod endpoints;
pub mod request;
mod serve;
#[cfg(test)]
mod tests;
pub mod token;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use antedate_hardening::confine;
use antedate_host::fault::{Fault, explain};
use antedate_host::helper;

use self::request::Request;
use self::serve::Server;
use self::token::Token;
use crate::run::lock;

/// The priority of an endpoint's thread (`nice(2)`), below that of all others.
const NICE: i32 = 15;

/// The content of an endpoint.
pub trait Site: Send {
    /// Answers a request that is permitted.
    fn answer(&mut self, request: &Request<'_>) -> Answer;

    /// The present event of a stream, in the form of server-sent events. Asked for once a second
    /// while there are viewers, and for each new one.
    fn event(&mut self) -> Arc<[u8]> {
        Arc::default()
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A document with its media type.
    Document(&'static str, Body),
    /// The events.
    Stream,
    /// There is no such document; see this.
    Missing(&'static str),
}

/// Octets that several clients share.
#[derive(Debug, Clone)]
pub enum Body {
    /// A part of the program.
    Static(&'static [u8]),
    /// Made at run time.
    Shared(Arc<[u8]>),
}

impl Body {
    fn octets(&self) -> &[u8] {
        match self {
            Self::Static(octets) => octets,
            Self::Shared(octets) => octets,
        }
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::Shared(text.into_bytes().into())
    }
}

/// Who may ask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    /// The token, if one is asked for.
    pub token: Option<Token>,
    /// Names of this machine, beside its addresses and `localhost`.
    pub names: Vec<String>,
}

/// An open socket without a thread.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    at: SocketAddr,
}

/// A running endpoint. It ends when dropped.
#[derive(Debug)]
pub struct Endpoint {
    at: SocketAddr,
    guard: Arc<Mutex<Guard>>,
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

/// Opens the socket of the endpoint `section`.
///
/// # Errors
/// When another program has the port, or the address is not this machine's.
pub fn listen(file: &Path, section: &str, at: SocketAddr) -> Result<Listening, Fault> {
    let cannot = |error: io::Error| {
        let what = format!("cannot listen on {at}: {}", explain(&error));
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("another program has this port: give {section}.listen another one")
            }
            io::ErrorKind::PermissionDenied => format!(
                "give {section}.listen a port above 1023, and see RestrictAddressFamilies= of the unit"
            ),
            _ => {
                format!("give {section}.listen an address of this machine, e.g. \"127.0.0.1:{}\"", at.port())
            }
        };
        Fault { key: format!("{section}.listen"), ..Fault::of_file(file, what, remedy) }
    };
    let listener = TcpListener::bind(at).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let at = listener.local_addr().map_err(cannot)?;
    Ok(Listening { listener, at })
}

impl Listening {
    /// The address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.at
    }

    /// Serves the socket, by a thread without capabilities.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn serve(self, name: &str, guard: Guard, site: Box<dyn Site>) -> io::Result<Endpoint> {
        let Self { listener, at } = self;
        let (wake, woken) = UnixStream::pair()?;
        let guard = Arc::new(Mutex::new(guard));
        let server = Server { wake: woken, listener, guard: Arc::clone(&guard), site };
        let work = move || {
            // The thread's own on Linux. A kernel that refuses lets it run as the others.
            let _ = rustix::process::setpriority_process(None, NICE);
            server.run();
        };
        let thread = confine::without_capabilities(|| helper::thread(name).spawn(work))?;
        Ok(Endpoint { at, guard, wake: Some(wake), thread: Some(thread) })
    }
}

impl Endpoint {
    /// Its address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.at
    }

    /// Has others ask from now on.
    pub fn admit(&self, guard: Guard) {
        *lock(&self.guard) = guard;
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Ends the thread's wait.
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
