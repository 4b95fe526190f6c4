//! Recorded connections for a holder of their keys, such as a reader of captures.
//!
//! A pre-shared key alone opens the suites without ephemeral keys. The others need the master
//! secret, which one end must have logged.

use alloc::vec::Vec;
use core::fmt;

use antedate_wire::dtls::handshake::{
    ClientHello, ClientHelloFront, ClientKeyExchange, ExtensionType, Fragment, HandshakeType, ServerHello,
};
use antedate_wire::dtls::{ConnectionId, Record};
use zeroize::Zeroizing;

use super::Psk;
use super::assembly::{Assembly, MAX_CERTIFICATE, Message};
use super::connection::EPOCH;
use super::prf::{self, Binding, Master};
use super::transcript::Transcript;
use crate::dtls::{Aead, CipherSuite, DirectionKeys, Dropped, Hash, Opened, Reader};

/// The keys that a reader of recordings has.
pub trait KnownKeys {
    /// The pre-shared key of an identity.
    fn psk(&self, identity: &[u8]) -> Option<Psk>;

    /// The master secret of a connection, by the random of its client.
    fn master(&self, client_random: &[u8; 32]) -> Option<Zeroizing<[u8; 48]>>;
}

/// The reason why a recorded connection stays closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClosedError {
    /// No key is known for the client's identity.
    UnknownIdentity(Vec<u8>),
    /// The suite has ephemeral keys, so only a logged master secret opens it.
    ForwardSecret(u16),
    /// A cipher suite that is not read here.
    Suite(u16),
    /// A message of the handshake was not recorded, or cannot be read.
    Incomplete,
}

impl fmt::Display for ClosedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownIdentity(identity) => {
                write!(f, "no key for the identity {}", identity.escape_ascii())
            }
            Self::ForwardSecret(suite) => match CipherSuite::from_number(*suite) {
                Some(suite) => write!(f, "{suite} has ephemeral keys, and its master secret is not logged"),
                None => {
                    write!(f, "suite {suite:04x} has ephemeral keys, and its master secret is not logged")
                }
            },
            Self::Suite(suite) => write!(f, "cipher suite {suite:04x} is not read here"),
            Self::Incomplete => f.write_str("a message of its handshake is missing or malformed"),
        }
    }
}

impl core::error::Error for ClosedError {}

/// A handshake that is overheard.
#[derive(Default)]
pub struct OverheardHandshake {
    /// Messages of the client and of the server.
    sides: [Assembly; 2],
    transcript: Transcript,
    hello: Option<Hello>,
    answer: Option<Answer>,
    /// The server said that its part is done.
    is_server_done: bool,
    /// The connection was returned.
    is_open: bool,
}

struct Hello {
    random: [u8; 32],
    cid: Option<ConnectionId>,
}

struct Answer {
    random: [u8; 32],
    suite: u16,
    extended_master_secret: bool,
    cid: Option<ConnectionId>,
}

impl OverheardHandshake {
    /// Hears the content of an unprotected handshake record. Returns the connection once its keys
    /// follow from what was said, or why they do not.
    pub fn hear(
        &mut self,
        mut octets: &[u8],
        from_client: bool,
        keys: &dyn KnownKeys,
    ) -> Option<Result<Overheard, ClosedError>> {
        let mut done = None;
        while let Ok((fragment, rest)) = Fragment::parse(octets) {
            octets = rest;
            if from_client && fragment.kind == HandshakeType::ClientHello {
                self.begin(&fragment);
            }
            let side = usize::from(!from_client);
            // A fragment that does not fit is a copy, or of another handshake.
            let _ = self.sides[side].take(&fragment, false, MAX_CERTIFICATE);
            while let Some(message) = self.sides[side].whole() {
                self.sides[side].expect(message.number + 1);
                done = self.message(&message, keys).or(done);
            }
        }
        done
    }

    /// A ClientHello with another random begins another handshake, and a recording may begin with
    /// the second ClientHello.
    fn begin(&mut self, fragment: &Fragment<'_>) {
        let front = if fragment.offset == 0 { ClientHelloFront::parse(fragment.octets).ok() } else { None };
        let Some(front) = front else { return };
        match &self.hello {
            Some(hello) if hello.random == front.random => {}
            known => {
                if known.is_some() {
                    *self = Self::default();
                }
                self.sides[0].expect(fragment.message);
            }
        }
    }

    fn message(&mut self, message: &Message, keys: &dyn KnownKeys) -> Option<Result<Overheard, ClosedError>> {
        match message.kind {
            HandshakeType::HelloVerifyRequest => return None,
            HandshakeType::ClientHello => {
                let hello = ClientHello::parse(&message.body).ok()?;
                let cid = hello.extensions.connection_id().ok()?.map(ConnectionId::new).transpose().ok()?;
                self.hello = Some(Hello { random: hello.random, cid });
                // The hash begins with the ClientHello that has the cookie, and the server's
                // numbers with that of the ClientHello (RFC 6347 sections 4.2.1 and 4.2.2).
                self.transcript = Transcript::default();
                self.sides[1].expect(message.number);
                (self.answer, self.is_server_done, self.is_open) = (None, false, false);
            }
            HandshakeType::ServerHello => {
                let hello = ServerHello::parse(&message.body).ok()?;
                let cid = hello.extensions.connection_id().ok()?.map(ConnectionId::new).transpose().ok()?;
                let extended_master_secret =
                    hello.extensions.get(ExtensionType::ExtendedMasterSecret).is_some();
                let (random, suite) = (hello.random, hello.suite);
                self.answer = Some(Answer { random, suite, extended_master_secret, cid });
            }
            HandshakeType::ServerHelloDone => self.is_server_done = true,
            _ => {}
        }
        self.transcript.update(&message.header());
        self.transcript.update(&message.body);
        let done = match message.kind {
            HandshakeType::ServerHello => self.by_log(keys).map(Ok),
            HandshakeType::ClientKeyExchange if !self.is_open => Some(self.by_psk(message, keys)),
            _ => None,
        };
        self.is_open |= matches!(done, Some(Ok(_)));
        done
    }

    /// The connection, if its master secret is known.
    fn by_log(&self, keys: &dyn KnownKeys) -> Option<Overheard> {
        let logged = keys.master(&self.hello.as_ref()?.random)?;
        let mut master = Master::default();
        master.copy_from_slice(&logged[..]);
        self.keys(&master, Vec::new())
    }

    fn by_psk(&self, message: &Message, keys: &dyn KnownKeys) -> Result<Overheard, ClosedError> {
        let (Some(hello), Some(answer), true) = (&self.hello, &self.answer, self.is_server_done) else {
            return Err(ClosedError::Incomplete);
        };
        let suite = match CipherSuite::from_number(answer.suite) {
            Some(suite) if !suite.is_ecdhe() => suite,
            Some(_) => return Err(ClosedError::ForwardSecret(answer.suite)),
            None if protection(answer.suite).is_some() => {
                return Err(ClosedError::ForwardSecret(answer.suite));
            }
            None => return Err(ClosedError::Suite(answer.suite)),
        };
        let exchange = ClientKeyExchange::parse(&message.body, suite.is_ecdhe());
        let identity = exchange.map_err(|_| ClosedError::Incomplete)?.identity;
        let psk = keys.psk(identity).ok_or_else(|| ClosedError::UnknownIdentity(identity.to_vec()))?;
        let hash = self.transcript.hash(suite.hash());
        let binding = match answer.extended_master_secret {
            true => Binding::Session(&hash),
            false => Binding::Randoms(&hello.random, &answer.random),
        };
        let master = prf::master(suite.hash(), &prf::premaster(&psk, None), &binding);
        self.keys(&master, identity.to_vec()).ok_or(ClosedError::Incomplete)
    }

    fn keys(&self, master: &Master, identity: Vec<u8>) -> Option<Overheard> {
        let (hello, answer) = (self.hello.as_ref()?, self.answer.as_ref()?);
        let keys = prf::keys(protection(answer.suite)?, master, &hello.random, &answer.random)?;
        // Records to an end have the connection ID that it chose.
        let cids = match (hello.cid, answer.cid) {
            (Some(client), Some(server)) => [server, client],
            _ => [ConnectionId::EMPTY; 2],
        };
        let reader = |way: usize| Reader::sized(keys.get(way)?, EPOCH, *cids.get(way)?, false);
        Some(Overheard { suite: answer.suite, identity, readers: [reader(0)?, reader(1)?], keys, cids })
    }
}

impl fmt::Debug for OverheardHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverheardHandshake").field("suite", &self.answer.as_ref().map(|a| a.suite)).finish()
    }
}

/// The protection of a suite's records, also of those with RSA keys, whose key derivation is the
/// same.
fn protection(suite: u16) -> Option<(Aead, Hash)> {
    Some(match suite {
        0xc02f => (Aead::Aes128Gcm, Hash::Sha256),
        0xc030 => (Aead::Aes256Gcm, Hash::Sha384),
        0xcca8 => (Aead::ChaCha20Poly1305, Hash::Sha256),
        other => CipherSuite::from_number(other).map(|suite| (suite.aead(), suite.hash()))?,
    })
}

/// A recorded connection whose keys are known.
pub struct Overheard {
    suite: u16,
    identity: Vec<u8>,
    /// Of records from the client, and of those from the server.
    keys: [DirectionKeys; 2],
    cids: [ConnectionId; 2],
    readers: [Reader; 2],
}

impl Overheard {
    /// The number of the cipher suite.
    #[must_use]
    pub const fn suite(&self) -> u16 {
        self.suite
    }

    /// The client's identity; empty if a logged master secret opened the connection.
    #[must_use]
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }

    /// The connection ID in records from the client, or in those from the server. Empty if there is
    /// none.
    #[must_use]
    pub const fn cid(&self, from_client: bool) -> ConnectionId {
        if from_client { self.cids[0] } else { self.cids[1] }
    }

    /// The number in the nonce of a record: the explicit one, if the cipher has one.
    #[must_use]
    pub fn spoken(&self, record: &Record<'_>) -> u64 {
        let explicit = record.fragment.get(..self.keys[0].aead().explicit_len()).unwrap_or_default();
        explicit.first_chunk().map_or(record.number(), |octets| u64::from_be_bytes(*octets))
    }

    /// Opens a record into `out`, whether it came before or not.
    ///
    /// # Errors
    /// As [`Reader::open`], without the refusal of late and repeated records.
    pub fn open(
        &mut self,
        record: &Record<'_>,
        from_client: bool,
        out: &mut [u8],
    ) -> Result<Opened, Dropped> {
        let way = usize::from(!from_client);
        match self.readers[way].open(record, out) {
            Err(Dropped::Late | Dropped::Replayed) => {
                let again = Reader::sized(&self.keys[way], EPOCH, self.cids[way], false);
                again.ok_or(Dropped::Epoch)?.open(record, out)
            }
            done => done,
        }
    }
}

impl fmt::Debug for Overheard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { suite, cids, .. } = self;
        f.debug_struct("Overheard").field("suite", suite).field("cids", cids).finish_non_exhaustive()
    }
}
