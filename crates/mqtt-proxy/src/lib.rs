//! An MQTT proxy for applications that cannot seal: clear MQTT on this machine, sealed payloads
//! towards any broker.
//!
//! ```text
//!   application --MQTT--> proxy ==MQTT, sealed payloads==> broker
//! ```
//!
//! Each connection of an application has one of its own to the broker. Sessions, packet identifiers,
//! acknowledgements and keep-alive are those of application and broker; the proxy keeps no message.
//! It seals the payloads of PUBLISH and of wills, opens those of received messages, and answers
//! itself for what it refuses.
//!
//! It runs on one thread, as the DTLS proxy does: [`Guard`] and its preparations have one owner.
//!
//! - `packet`: the octets of packets, on the codec of the client library
//! - `session`: one connection, without I/O
//! - `windows`: what each application has received
//! - `shared`: keys, counters and lines of the log that all connections share
//! - `relay`: sockets of one connection; `upstream`: connections to the broker
//! - `keys`: the connection that follows rotations
//! - [`status`]: counters and epochs, and the socket that answers with them

#![forbid(unsafe_code)]

mod keys;
mod packet;
mod relay;
mod session;
mod shared;
pub mod status;
mod upstream;
mod windows;

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antedate_host::control::{self, Words};
use antedate_host::fault::Fault;
use antedate_host::notify::Life;
use antedate_mqtt::guard::{Guard, SealError};
use antedate_mqtt_client::Settings;
use bytes::BytesMut;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::spawn_local;

use packet::{Refusal, Version};
use relay::{Ended, Relay, Side, Stream};
use session::{End, Session};
use shared::Shared;
use upstream::Upstream;

pub use shared::Counters;

/// Time for an application's CONNECT, and its most octets: two strings and a will of 64 KiB, and
/// properties.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
const CONNECT_MAX: usize = 1 << 19;
/// Interval of writing received numbers.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Interval of looking whether to stop.
const LOOK: Duration = Duration::from_millis(100);
/// The pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// A place where applications connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A loopback address.
    Tcp(SocketAddr),
    /// A Unix socket, for the own user.
    Unix(PathBuf),
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// The options of a proxy.
#[derive(Debug, Clone)]
pub struct Options {
    /// Places where applications connect.
    pub listen: Vec<Listen>,
    /// The broker. `login` replaces the applications' own; the client identifier is for the
    /// connection that follows rotations.
    pub broker: Settings,
    /// Filters of topics of no group that pass unprotected.
    pub plain: Vec<String>,
    /// The most connections of applications.
    pub clients: usize,
    /// The socket that answers with the status.
    pub status: Option<PathBuf>,
}

/// The body of a fuzz target: octets of a client or a broker.
#[doc(hidden)]
pub fn exercise_packets(octets: &[u8]) {
    packet::exercise(octets);
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Runs the proxy until `stop` is set. Calls `ready` once with the places.
///
/// # Errors
/// When a place cannot be opened, a certificate cannot be read, or the state fails.
pub fn run(
    options: &Options,
    guard: Guard,
    stop: &AtomicBool,
    ready: impl FnOnce(&[Listen]),
) -> Result<Counters, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Fault::of_io("antedate".as_ref(), "make an event loop", &error, "see ulimit -n"))?;
    let local = tokio::task::LocalSet::new();
    let shared = Rc::new(Shared::new(guard, options.plain.clone(), options.broker.login.clone()));
    let done = local.block_on(&runtime, serve(options, &shared, stop, ready));
    // Connections end with the runtime, and give the state back.
    drop(local);
    drop(runtime);
    remove(options);
    done?;
    if let Some(fault) = shared.fault.borrow_mut().take() {
        return Err(fault);
    }
    shared.flush()?;
    let counters = shared.counters();
    if let Ok(shared) = Rc::try_unwrap(shared).map_err(drop) {
        shared.guard.into_inner().close()?;
    }
    Ok(counters)
}

/// Removes the names of the sockets.
fn remove(options: &Options) {
    let places = options.listen.iter().filter_map(|place| match place {
        Listen::Unix(path) => Some(path),
        Listen::Tcp(_) => None,
    });
    for path in places.chain(&options.status) {
        let _ = std::fs::remove_file(path);
    }
}

async fn serve(
    options: &Options,
    shared: &Rc<Shared>,
    stop: &AtomicBool,
    ready: impl FnOnce(&[Listen]),
) -> Result<(), Fault> {
    let upstream = Rc::new(Upstream::new(&options.broker)?);
    let (mut listeners, mut places) = (Vec::new(), Vec::new());
    for place in &options.listen {
        let (listener, place) = listen(place)?;
        listeners.push(listener);
        places.push(place);
    }
    let count = Rc::new(Cell::new(0));
    if let Some(path) = &options.status {
        let socket = status::listen(path)?;
        spawn_local(status::serve(socket, Rc::clone(shared), Rc::clone(&upstream), Rc::clone(&count)));
    }
    ready(&places);
    for listener in listeners {
        spawn_local(accept(
            listener,
            options.clients,
            Rc::clone(&count),
            Rc::clone(shared),
            Rc::clone(&upstream),
        ));
    }
    let (keys, settings) = (Rc::clone(shared), options.broker.clone());
    spawn_local(async move {
        if let Err(fault) = keys::follow(Rc::clone(&keys), settings).await {
            keys.fail(fault);
        }
    });
    // Before an application's publish would be the first to find a state that cannot be written.
    if let Err(SealError::State(fault)) = shared.guard.borrow_mut().reserve_all() {
        return Err(fault);
    }
    let mut life = Life::begin();
    let mut looks = 0;
    while !stop.load(Ordering::Acquire) {
        life.sign();
        tokio::select! {
            () = relay::stopped(shared) => return Ok(()),
            () = tokio::time::sleep(LOOK) => {}
        }
        looks += 1;
        if LOOK * looks >= WRITE_EVERY {
            looks = 0;
            shared.flush()?;
        }
    }
    Ok(())
}

/// The texts of a socket's faults.
const WORDS: Words = Words {
    taken: ("another process answers at this socket", "give each proxy a path of its own"),
    no_socket: ("exists and is no socket", "give a path in a directory of yours"),
    cannot: ("make the socket for applications", "give a path in a directory of yours"),
};

fn listen(place: &Listen) -> Result<(Listener, Listen), Fault> {
    match place {
        Listen::Unix(path) => {
            let cannot = |error: std::io::Error| Fault::of_io(path, WORDS.cannot.0, &error, WORDS.cannot.1);
            let listener = control::listen(path, &WORDS)?;
            listener.set_nonblocking(true).map_err(cannot)?;
            Ok((Listener::Unix(UnixListener::from_std(listener).map_err(cannot)?), place.clone()))
        }
        Listen::Tcp(address) => {
            let name = address.to_string();
            let cannot = |error: std::io::Error| {
                let remedy = "give another port with --listen: a broker on this machine has 1883";
                Fault::of_io(name.as_ref(), "listen", &error, remedy)
            };
            let listener = std::net::TcpListener::bind(address).map_err(cannot)?;
            listener.set_nonblocking(true).map_err(cannot)?;
            let listener = TcpListener::from_std(listener).map_err(cannot)?;
            let bound = listener.local_addr().map_err(cannot)?;
            Ok((Listener::Tcp(listener), Listen::Tcp(bound)))
        }
    }
}

async fn accept(
    listener: Listener,
    most: usize,
    count: Rc<Cell<usize>>,
    shared: Rc<Shared>,
    upstream: Rc<Upstream>,
) {
    loop {
        let accepted: std::io::Result<Box<dyn Stream>> = match &listener {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                // Without it a packet would wait for another.
                let _ = stream.set_nodelay(true);
                Box::new(stream) as Box<dyn Stream>
            }),
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| Box::new(stream) as _),
        };
        let stream = match accepted {
            Ok(stream) if count.get() < most => stream,
            Ok(_) => {
                shared.refuse(
                    "",
                    "not accepted",
                    "",
                    "too many connections (remedy: give --max-clients more)",
                );
                continue;
            }
            Err(error) => {
                tracing::warn!("a connection was not accepted: {error} (remedy: see ulimit -n)");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        count.set(count.get() + 1);
        let (count, shared, upstream) = (Rc::clone(&count), Rc::clone(&shared), Rc::clone(&upstream));
        spawn_local(async move {
            connection(stream, shared, &upstream).await;
            count.set(count.get() - 1);
        });
    }
}

/// One connection of an application, to its end.
async fn connection(stream: Box<dyn Stream>, shared: Rc<Shared>, upstream: &Upstream) {
    let mut client = Side::new(stream, BytesMut::new());
    let first = tokio::time::timeout(CONNECT_PATIENCE, client.first(CONNECT_MAX)).await;
    let Ok(Ok(connect)) = first else {
        tracing::debug!("a connection ended before its CONNECT");
        return;
    };
    let version = packet::Connect::version(&connect);
    // The broker first: a will that is sealed for nobody would cost a number.
    let Some(stream) = upstream.connect().await else {
        let mut answer = BytesMut::new();
        packet::put_refusal(version, Refusal::Unavailable, &mut answer);
        return client.last(&answer).await;
    };
    let mut to_broker = BytesMut::new();
    let session = match Session::begin(&shared, connect, &mut to_broker) {
        Ok(session) => session,
        Err(refused) => {
            shared.refuse("", "not connected", "", &refused.why);
            return client.last(&refused.answer).await;
        }
    };
    shared.count(|counters| counters.connections += 1);
    tracing::debug!(client = session.client_id(), "connected");
    let broker = Side::new(stream, BytesMut::new());
    let mut relay = Relay::new(Rc::clone(&shared), session, client, broker, &to_broker);
    let ended = relay.run().await;
    let Relay { session, client, broker, .. } = &mut relay;
    match (session.is_answered(), broker.ended) {
        (true, _) => upstream.answered(),
        (false, true) => upstream.closed(),
        (false, false) => {}
    }
    match ended {
        Ended::Closed => tracing::debug!(client = session.client_id(), "ended"),
        Ended::StaleWill => {
            tracing::info!(
                client = session.client_id(),
                "disconnected, so that its will is sealed with the new key"
            );
            let mut goodbye = BytesMut::new();
            packet::put_disconnect(&mut goodbye);
            broker.last(&goodbye).await;
            if version == Version::Five {
                client.last(&packet::SERVER_BUSY).await;
            }
        }
        Ended::Client(End::Fault(fault)) => shared.fail(*fault),
        Ended::Client(end) => {
            shared.refuse(
                session.client_id(),
                "disconnected",
                "",
                &format!("{end} (remedy: look what this client is)"),
            );
        }
        Ended::Broker(end) => {
            shared.refuse(
                session.client_id(),
                "disconnected",
                "",
                &format!("the broker: {end} (remedy: look what answers at its address)"),
            );
        }
    }
    if let Err(fault) = shared.flush() {
        shared.fail(fault);
    }
}
