//! DTLS 1.2 with pre-shared keys, raw public keys or certificates: records sealed with prepared
//! nonces (RFC 6347, RFC 6655, RFC 5288, RFC 7905), connection IDs (RFC 9146), and the handshake
//! (RFC 4279, RFC 5489, RFC 7250, RFC 7627, RFC 8422).
//!
//! The *record layer* is [`Writer`] and [`Reader`], one direction of one epoch each. Epoch and
//! sequence number determine the nonces of all suites: by the standard for ChaCha20-Poly1305, and
//! by choice for CCM and GCM, whose eight explicit octets RFC 6655 section 3 and RFC 9325 section
//! 7.2.1 recommend to derive this way. Idle time therefore prepares the next packets' key stream
//! ([`Writer::idle`], [`Reader::idle`]), without changing the records. Records of a peer that
//! chooses otherwise are read too; its next nonce is expected to be one above its last.
//!
//! Keys of another handshake enter as [`DirectionKeys`]; the record layer does not depend on their
//! origin.
//!
//! The *handshake* is [`Connection`], client or server, without I/O: it takes datagrams and the
//! time, and returns datagrams, data and the time of its next call. Before a server keeps state,
//! [`Cookies`] verifies the client's address (RFC 6347 section 4.2.1). What a side proves itself
//! with is [`Credentials`], and its [`Keyring`] has pre-shared keys and judges certificates. Hashes,
//! HMAC and the curves come from RustCrypto and dalek.
//!
//! Three rules of our own:
//!
//! - Keys are fresh in each handshake, so sequence numbers start at 0 and need no reservation. At
//!   2^48 nothing is sent.
//! - There is no renegotiation (a peer that asks gets the alert `no_renegotiation`) and no
//!   resumption. A returning client gets a new connection, and the old one lives until the new one
//!   is established.
//! - An unprotected alert changes nothing. The last one is kept to explain a failed handshake.

mod counters;
#[cfg(feature = "dtls")]
mod credentials;
#[cfg(feature = "dtls")]
mod handshake;
mod keys;
mod pool;
mod reader;
mod suite;
#[cfg(test)]
mod tests;
mod writer;

#[cfg(feature = "dtls")]
pub use antedate_wire::dtls::handshake::certificates::CertificateType;
pub use antedate_wire::dtls::{ConnectionId, ContentType, Record, records};
pub use counters::{Cause, Dropped, Failures, Refusals};
#[cfg(feature = "dtls")]
pub use credentials::{
    Certificate, Client, Credentials, Distrust, Keyring, Psk, PublicKey, RawPublicKey, SPKI_LEN, Shown,
    SigningKey, Trusted, UnusableKeyError,
};
#[cfg(feature = "dtls")]
pub use handshake::{
    Asks, ClosedError, Connection, Cookies, Event, Failure, Greeting, KnownKeys, Offer, Overheard,
    OverheardHandshake, PartialHello, Phase, SendError, Settings,
};
pub use keys::DirectionKeys;
pub use pool::{PREPARED_LEN, SLOTS};
pub use reader::{Opened, Reader};
pub use suite::{Aead, CipherSuite, Hash, KeyExchange, UnknownCipherSuiteError};
pub use writer::{ProtectError, Writer};
