//! The handshake with pre-shared keys, raw public keys or certificates, client and server, and the
//! resulting connection.
//!
//! No library fits. `dimpl` (0.9) has only TLS_PSK_WITH_AES_128_CCM_8 of the suites with pre-shared
//! keys and no CCM with certificates, requires the extended master secret of every peer, which small
//! devices often lack, and has no connection IDs, which a handshake must negotiate and use from its
//! Finished on. The `webrtc` crates have no connection IDs either and require their own sockets. None
//! exposes the record sequence number at which prepared records start. So this code handles order,
//! timers and fragments. Libraries provide all primitives, and the caller judges certificates
//! ([`Keyring::judge`]).
//!
//! - `group`: ephemeral keys. `prf`: from the pre-shared key to the record keys.
//! - `cookie`: the stateless answer to a first ClientHello.
//! - `assembly`: messages from fragments, in order. `flight`: fragmenting and retransmitting.
//! - `connection`: datagrams in and out. `client` and `server`: the handling of each message.
//! - `signed`: the messages with certificates, raw public keys and signatures, and `proof`: what both
//!   sides have shown. `transcript`: the hash of the handshake.
//! - `misfit`: the reasons why a message does not fit.
//! - `partial`: a ClientHello in fragments.
//! - `offer`: the contents of a ClientHello, for the log.
//! - `overheard`: recorded connections, for a holder of their keys.

mod assembly;
mod client;
mod connection;
mod cookie;
mod flight;
mod group;
mod misfit;
mod offer;
mod overheard;
mod partial;
mod prf;
mod proof;
mod server;
mod signed;
#[cfg(test)]
mod tests;
mod transcript;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use antedate_wire::dtls::ConnectionId;
use antedate_wire::dtls::handshake::certificates::CertificateType;
use antedate_wire::dtls::handshake::{Alert, AlertDescription};

use super::credentials::{Client, Credentials, Distrust, Keyring, Psk, Shown};
use super::{Cause, CipherSuite, PREPARED_LEN, ProtectError};
use misfit::{NO_COMMON_TYPE, OTHER_KEY, UNKNOWN_IDENTITY, WRONG_FINISHED, WRONG_SIGNATURE};

pub use connection::Connection;
pub use cookie::{Cookies, Greeting};
pub use offer::Offer;
pub use overheard::{ClosedError, KnownKeys, Overheard, OverheardHandshake};
pub use partial::PartialHello;

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
    /// a server's raw public key and certificates, the favourite first; its pre-shared keys are those
    /// of its [`Keyring`]. A client has others for each connection
    pub credentials: Vec<Credentials>,
    /// what a peer without a pre-shared key may show, the favourite first
    pub accepts: Vec<CertificateType>,
    /// whether a server asks its clients for certificates or raw public keys
    pub asks: Asks,
    /// the server's name, which a client tells it (RFC 6066 section 3); no address
    pub server_name: Option<String>,
}

/// Whether a server asks clients without a pre-shared key to prove themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Asks {
    /// it does not
    No,
    /// it does, and accepts those who show nothing
    Politely,
    /// it does, and accepts nobody else
    #[default]
    Firmly,
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
            credentials: Vec::new(),
            accepts: Vec::new(),
            asks: Asks::Firmly,
            server_name: None,
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
            Self::TimedOut { reason: Some(WRONG_SIGNATURE), .. } => return Cause::Signature,
            Self::TimedOut { reason: Some(NO_COMMON_TYPE), .. } => return Cause::CertificateType,
            Self::TimedOut { reason: Some(reason), .. } => {
                return Distrust::of(reason).map_or(Cause::Message, Distrust::cause);
            }
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
