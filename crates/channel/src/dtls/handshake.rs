//! The handshake with pre-shared keys, client and server, and the connection that comes of it.
//!
//! Ours, and not a library's. Of those that are there, `dimpl` (0.9) has TLS_PSK_WITH_AES_128_CCM_8 alone of the suites with
//! pre-shared keys, demands the extended master secret of every peer, which small devices often do not have, and has no
//! connection IDs, which a handshake must negotiate and use from its Finished on; the `webrtc` crates have no connection IDs
//! either and cannot be had without their sockets; none hands out the place in the sequence of records that prepared ones
//! begin at. With pre-shared keys the handshake is eight messages without certificates, so what is ours is order, timers
//! and fragments; each primitive is a library's.
//!
//! - `prf`: from the pre-shared key to the keys of the records.
//! - `cookie`: what is answered before there is any state.
//! - `assembly`: messages from fragments, in their order. `flight`: the other way, and again when the timer says so.
//! - `connection`: what comes and goes; `client` and `server`: what each message means.

mod assembly;
mod client;
mod connection;
mod cookie;
mod flight;
mod prf;
mod server;

use alloc::vec::Vec;
use core::fmt;

use antedate_wire::dtls::ConnectionId;
use antedate_wire::dtls::handshake::Alert;
use zeroize::Zeroizing;

use super::{CipherSuite, PREPARED_LEN, ProtectError};

pub use connection::Connection;
pub use cookie::{Cookies, Greeting};

/// A pre-shared key.
pub type Psk = Zeroizing<Vec<u8>>;

/// Where a server finds keys.
pub trait Keyring {
    /// The key that belongs to an identity.
    fn key(&self, identity: &[u8]) -> Option<Psk>;
}

/// Nobody's keys: what a client gives, who has its own.
impl Keyring for () {
    fn key(&self, _: &[u8]) -> Option<Psk> {
        None
    }
}

/// Who a client is.
#[derive(Clone)]
pub struct Client {
    /// its identity, at most 128 octets
    pub identity: Vec<u8>,
    /// its key
    pub key: Psk,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({} octets of identity, ..)", self.identity.len())
    }
}

/// How connections are made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// suites, the favourite first: a client offers them in this order, and a server chooses by it
    pub suites: Vec<CipherSuite>,
    /// the connection ID by which the peer shall address us; the empty one says that we can address the peer by one, and none
    /// that we know nothing of them
    pub cid: Option<ConnectionId>,
    /// milliseconds until a flight is sent again, doubled each time (RFC 6347 section 4.2.4.1 would have 1000)
    pub retransmit_ms: u64,
    /// milliseconds until a handshake has failed
    pub give_up_ms: u64,
    /// octets of the longest datagram of a handshake
    pub mtu: usize,
    /// octets of each record's plaintext that are prepared, [`PREPARED_LEN`] at most; with 0 nothing is
    pub reach: usize,
    /// Is a peer refused that does not have the extended master secret (RFC 7627)?
    pub require_extended_master_secret: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            suites: CipherSuite::ALL.to_vec(),
            cid: Some(ConnectionId::EMPTY),
            retransmit_ms: 1000,
            give_up_ms: 60_000,
            mtu: 1200,
            reach: PREPARED_LEN,
            require_extended_master_secret: false,
        }
    }
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// keys are being agreed on
    Handshaking,
    /// data comes and goes
    Established,
    /// one of both has ended it
    Closed,
    /// there will be no keys
    Failed(Failure),
}

/// Why there are no keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// the time is up
    TimedOut {
        /// what an alert said on the way, which anybody may have sent
        alert: Option<Alert>,
        /// what was wrong with the last message that did not fit
        reason: Option<&'static str>,
    },
    /// the peer ended the connection with an alert under its keys
    Alert(Alert),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { alert: None, reason: None } => {
                f.write_str("no valid answer in time: is the peer there, and has it the same key?")
            }
            Self::TimedOut { alert, reason } => {
                f.write_str("no valid answer in time")?;
                if let Some(alert) = alert {
                    write!(f, "; an alert on the way said {:?}", alert.description)?;
                }
                reason.map_or(Ok(()), |reason| write!(f, "; a message was refused: {reason}"))
            }
            Self::Alert(alert) => write!(f, "the peer ended it: {:?}", alert.description),
        }
    }
}

/// What came of a datagram.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// the handshake is done
    Established,
    /// the application's data
    Data(&'a [u8]),
    /// the peer has ended the connection
    Closed,
}

/// Why data was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// there are no keys yet, or no more
    NotEstablished,
    /// the record was not protected
    Protect(ProtectError),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEstablished => f.write_str("the connection has no keys"),
            Self::Protect(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SendError {}
