//! DTLS 1.2 with pre-shared keys: records that are protected from prepared nonces (RFC 6347, RFC 6655, RFC 5288, RFC 7905),
//! connection IDs (RFC 9146), and the handshake before them (RFC 4279, RFC 5489, RFC 7627).
//!
//! The *record layer* is [`Writer`] and [`Reader`], one direction of one epoch each. All suites here have nonces that follow
//! from epoch and sequence number: ChaCha20-Poly1305 by the standard, CCM and GCM because a sender may choose the eight octets
//! that it sends along, and RFC 6655 section 3 and RFC 9325 section 7.2.1 recommend this choice. So the next packets'
//! cipherstream is prepared in idle time ([`Writer::idle`], [`Reader::idle`]), and the records are the same with and without
//! it. A peer that chooses otherwise is read all the same, and what is expected next of it is one more than it chose last.
//!
//! Whoever has keys from another handshake makes both by [`DirectionKeys`]; nothing below that type knows where they come
//! from. This is also where the ECDHE_ECDSA suites would come in: their records are those of [`Aead`].
//!
//! The *handshake* is [`Connection`], client or server, without I/O: it takes datagrams and the time, and gives datagrams,
//! data and the time when it wants to be called again. Before a server has any state, [`Cookies`] sees to it that the client
//! is where it says (RFC 6347 section 4.2.1). Hashes, HMAC and Curve25519 are those of RustCrypto and dalek.
//!
//! Three rules of our own around the standards:
//!
//! - Keys are fresh in each handshake, so sequence numbers begin at 0 and need no reservation; at 2^48 nothing is sent.
//! - There is no renegotiation and no resumption: a client that comes again gets a new connection, and the old one lives until
//!   that is established.
//! - An alert that is not protected changes nothing. The last one is remembered, to say why a handshake failed.

mod counters;
#[cfg(feature = "dtls")]
mod handshake;
mod keys;
mod pool;
mod reader;
mod suite;
#[cfg(test)]
mod tests;
mod writer;

pub use antedate_wire::dtls::{ConnectionId, ContentType, Record, records};
pub use counters::{Refusal, Refusals};
#[cfg(feature = "dtls")]
pub use handshake::{
    Client, Connection, Cookies, Event, Failure, Greeting, Keyring, Phase, Psk, SendError, Settings,
};
pub use keys::DirectionKeys;
pub use pool::{PREPARED_LEN, SLOTS};
pub use reader::{Opened, Reader};
pub use suite::{Aead, CipherSuite, UnknownCipherSuite};
pub use writer::{ProtectError, Writer};
