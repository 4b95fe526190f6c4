//! A DTLS 1.2 proxy for devices that speak plain UDP, one on each side of the untrusted network.
//!
//! ```text
//!   device --UDP--> connect ==DTLS==> listen --UDP--> the device's server
//! ```
//!
//! [`connect()`] has a DTLS connection for each device, identified by its source address.
//! [`listen()`] has a UDP socket to the server for each connection. Either end may be another
//! implementation of DTLS 1.2.
//!
//! Each runs around [`antedate_channel::dtls`] on one thread, or on several with sessions of their
//! own. It forwards a datagram at once. In idle time it prepares the next records in small steps and
//! polls the sockets between them.
//!
//! - [`psk`]: the file of identities and pre-shared keys; [`devices`]: which device has which
//! - [`service`]: files read again on SIGHUP, names resolved again
//! - [`status`]: counters and sessions, and the socket that answers with them
//! - `event_loop`: sockets, time and preparation, common to both sides; `deadlines`: their times
//! - `inbox`, `outbox`: several datagrams in a system call
//! - `group`: the sockets of several threads at one address; `crew`: what they share
//! - `connect`, `listen`: the two sides
//! - `liveness`: silence of a server
//! - `partial_hellos`: ClientHellos in fragments
//! - `ahead`: which sessions prepare several records
//! - `half_open`: the bounds of handshakes; `route`: the proof of a peer's address
//! - `summary`: log lines that strangers can cause
//! - [`credentials`]: raw public keys and certificates

#![forbid(unsafe_code)]

mod ahead;
mod connect;
pub mod credentials;
mod crew;
mod deadlines;
pub mod devices;
mod event_loop;
mod group;
mod half_open;
mod inbox;
mod key_log;
mod listen;
mod liveness;
mod outbox;
mod partial_hellos;
pub mod psk;
mod route;
pub mod service;
pub mod status;
mod summary;

pub use group::MOST_THREADS;
pub use key_log::KeyLog;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use antedate_channel::dtls::Settings;
use antedate_host::fault::Fault;

use service::{Keys, News, Target};

/// The options of either side.
#[derive(Debug, Clone)]
pub struct Options {
    /// local address: for devices (connect) or for DTLS peers (listen)
    pub listen: SocketAddr,
    /// destination: the DTLS server (connect) or the devices' server (listen)
    pub to: Target,
    /// settings of the DTLS connections
    pub settings: Settings,
    /// the number of threads, 1 to [`MOST_THREADS`]; each has sessions of its own
    pub threads: usize,
    /// the most established sessions, of all threads; the bounds below too
    pub max_sessions: usize,
    /// the most handshakes in progress (listen)
    pub max_handshakes: usize,
    /// milliseconds without a datagram after which a session ends
    pub idle_ms: u64,
    /// the most milliseconds without an answer, of a server that has answered, until a session
    /// counts as lost, unless the server usually takes longer; 0: never
    pub silence_ms: u64,
    /// milliseconds after which a session without any answer is replaced by a new one; 0: never
    pub renew_ms: u64,
    /// repeats the last unanswered datagram in a new session; it may arrive twice
    pub resend: bool,
    /// the most datagrams of a device that wait for a handshake
    pub hold: usize,
    /// whether identities `NAME.1`, `NAME.2` are those of one device, as a fleet makes them (listen)
    pub generations: bool,
    /// the status socket
    pub status: Option<PathBuf>,
    /// where the master secrets are written down
    pub key_log: Option<KeyLog>,
}

/// Runs the devices' side until `stop` is set. Calls `ready` once with the local address. `news`
/// brings other keys, and the address of a name.
///
/// # Errors
/// When a socket cannot be opened or polled.
pub fn connect(
    options: &Options,
    keys: Keys,
    news: &Arc<News>,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Fault> {
    let keys = Arc::new(keys);
    let part = |crew: &_, thread| connect::Connect::new(options, &keys, news, crew, thread);
    event_loop::run(options, false, news, stop, ready, part)
}

/// Runs the server's side until `stop` is set. Calls `ready` once with the local address. `news` as
/// in [`connect()`].
///
/// # Errors
/// When a socket cannot be opened or polled.
pub fn listen(
    options: &Options,
    keys: Keys,
    news: &Arc<News>,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Fault> {
    let keys = Arc::new(keys);
    let part = |crew: &_, thread| listen::Listen::new(options, &keys, news, crew, thread);
    event_loop::run(options, true, news, stop, ready, part)
}
