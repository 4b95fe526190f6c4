//! DTLS for devices that speak plain UDP: a proxy on each side of the untrusted network.
//!
//! ```text
//!   device --UDP--> connect ==DTLS==> listen --UDP--> the device's server
//! ```
//!
//! [`connect()`] has a DTLS connection for each device (each address that sends to it), [`listen()`] a UDP socket to the
//! server for each connection. Either end can be another implementation of DTLS 1.2.
//!
//! Both run on one thread around [`antedate_channel::dtls`]: a datagram that arrives is sent on at once, and when nothing
//! arrives, the next records are prepared, a few steps at a time with a look at the sockets in between.
//!
//! - `psk`: the file with identities and keys.
//! - `event_loop`: sockets, time, preparation, status; what both sides share.
//! - `connect`, `listen`: what a datagram means on each side.
//! - [`certified`]: without the proxy, keys that a library's handshake with certificates agreed on.

#![forbid(unsafe_code)]

pub mod certified;
mod connect;
mod event_loop;
mod listen;
pub mod psk;
pub mod status;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use antedate_channel::dtls::{Client, Settings};
use antedate_host::fault::Fault;

/// What both sides are told.
#[derive(Debug, Clone)]
pub struct Options {
    /// where datagrams come in: those of devices (connect), or of DTLS (listen)
    pub listen: SocketAddr,
    /// where they go: to the DTLS server (connect), or to the devices' server (listen)
    pub to: SocketAddr,
    /// how connections are made
    pub settings: Settings,
    /// sessions at once; what comes from elsewhere is dropped and counted
    pub max_sessions: usize,
    /// milliseconds without a datagram after which a session is forgotten
    pub idle_ms: u64,
    /// milliseconds for which a device speaks and nothing comes back before the session is taken for lost; 0 for never
    pub silence_ms: u64,
    /// datagrams of a device that wait for a handshake
    pub hold: usize,
    /// a socket at which the state can be asked for
    pub status: Option<PathBuf>,
}

/// Runs the devices' side until `stop` is set. `ready` is called once, with the address at which it listens.
///
/// # Errors
/// If the sockets cannot be had.
pub fn connect(
    options: &Options,
    client: Client,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Fault> {
    event_loop::run(options, connect::Connect::new(options, client), stop, ready)
}

/// Runs the server's side until `stop` is set. `ready` is called once, with the address at which it listens.
///
/// # Errors
/// If the sockets cannot be had.
pub fn listen(
    options: &Options,
    keys: psk::PskFile,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Fault> {
    event_loop::run(options, listen::Listen::new(options, keys), stop, ready)
}
