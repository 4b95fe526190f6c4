//! The handshake with pre-shared keys, client and server, and the resulting connection.
//!
//! No library fits. `dimpl` (0.9) has only TLS_PSK_WITH_AES_128_CCM_8 of the suites with pre-shared
//! keys, requires the extended master secret of every peer, which small devices often lack, and has
//! no connection IDs, which a handshake must negotiate and use from its Finished on. The `webrtc`
//! crates have no connection IDs either and require their own sockets. None exposes the record
//! sequence number at which prepared records start. With pre-shared keys the handshake is eight
//! messages without certificates, so this code handles order, timers and fragments. Libraries
//! provide all primitives.
//!
//! - `group`: ephemeral keys. `prf`: from the pre-shared key to the record keys.
//! - `cookie`: the stateless answer to a first ClientHello.
//! - `assembly`: messages from fragments, in order. `flight`: fragmenting and retransmitting.
//! - `connection`: datagrams in and out. `client` and `server`: the handling of each message.
//! - `partial`: a ClientHello in fragments.
//! - `offer`: the contents of a ClientHello, for the log.
//! - `overheard`: recorded connections, for a holder of their keys.

mod assembly;
mod client;
mod connection;
mod cookie;
mod flight;
mod group;
mod offer;
mod overheard;
mod partial;
mod prf;
mod server;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::fmt;

use antedate_wire::dtls::ConnectionId;
use antedate_wire::dtls::handshake::{Alert, AlertDescription};
use zeroize::Zeroizing;

use super::{Cause, CipherSuite, PREPARED_LEN, ProtectError};
use connection::{OTHER_KEY, UNKNOWN_IDENTITY, WRONG_FINISHED};

pub use connection::Connection;
pub use cookie::{Cookies, Greeting};
pub use offer::Offer;
pub use overheard::{ClosedError, KnownKeys, Overheard, OverheardHandshake};
pub use partial::PartialHello;

/// A pre-shared key.
pub type Psk = Zeroizing<Vec<u8>>;

/// A server's source of keys.
pub trait Keyring {
    /// The key of an identity.
    fn key(&self, identity: &[u8]) -> Option<Psk>;
}

/// No keys, for a client, which has its own.
impl Keyring for () {
    fn key(&self, _: &[u8]) -> Option<Psk> {
        None
    }
}

/// A client's identity and key.
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

/// Configuration of connections.
#[derive(Debug, Clone)]
pub struct Settings {
    /// suites in order of preference: a client offers them in this order, and a server chooses by
    /// it
    pub suites: Vec<CipherSuite>,
    /// the connection ID by which the peer must address us; the empty one only announces that we
    /// can use the peer's; `None` disables connection IDs
    pub cid: Option<ConnectionId>,
    /// milliseconds until a flight is retransmitted, doubled each time (RFC 6347 section 4.2.4.1
    /// recommends 1000)
    pub retransmit_ms: u64,
    /// milliseconds until a handshake fails
    pub give_up_ms: u64,
    /// octets of the longest datagram of a handshake
    pub mtu: usize,
    /// octets of each record's plaintext to prepare, at most [`PREPARED_LEN`]; 0 disables
    /// preparation
    pub reach: usize,
    /// memory for [`SLOTS`](super::SLOTS) prepared records in each direction from the beginning
    /// ([`Connection::set_large`])
    pub large: bool,
    /// refuses a peer without the extended master secret (RFC 7627); the default
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
            large: true,
            require_extended_master_secret: true,
        }
    }
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// keys are being agreed on
    Handshaking,
    /// data can be exchanged
    Established,
    /// one side has ended it
    Closed,
    /// the handshake failed
    Failed(Failure),
}

/// The reason for a failed handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// the time limit is reached
    TimedOut {
        /// the last unprotected alert, which may be forged
        alert: Option<Alert>,
        /// the error in the last message that did not fit
        reason: Option<&'static str>,
    },
    /// the peer ended the connection with an alert under its keys
    Alert(Alert),
}

impl Failure {
    /// The cause, as far as it is known.
    pub fn cause(&self) -> Cause {
        let alert = match self {
            Self::TimedOut { reason: Some(UNKNOWN_IDENTITY), .. } => return Cause::Identity,
            Self::TimedOut { reason: Some(OTHER_KEY | WRONG_FINISHED), .. } => return Cause::Key,
            Self::TimedOut { reason: Some(_), .. } => return Cause::Message,
            Self::TimedOut { alert: None, .. } => return Cause::Silence,
            Self::TimedOut { alert: Some(alert), .. } | Self::Alert(alert) => alert,
        };
        match alert.description {
            AlertDescription::UnknownPskIdentity => Cause::Identity,
            AlertDescription::BadRecordMac | AlertDescription::DecryptError => Cause::Key,
            AlertDescription::ProtocolVersion => Cause::Version,
            _ => Cause::Alert,
        }
    }
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

/// The result of a datagram.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// the handshake is done
    Established,
    /// the application's data
    Data(&'a [u8]),
    /// the peer has ended the connection
    Closed,
}

/// The reason for not sending data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// there are no keys yet, or no longer
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
