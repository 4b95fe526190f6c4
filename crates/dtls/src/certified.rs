//! Handshakes with certificates (ECDHE_ECDSA) by the library `dimpl`, and records under the agreed
//! keys.
//!
//! dimpl passes each key to a cipher of our provider. It wraps the library's own cipher and records
//! key, nonce and number of each record. After both Finished, a [`Writer`] and a [`Reader`]
//! ([`Certified`]) take the keys, and the library is dropped, so no number is used by both. The
//! library's explicit nonces are random. If one of the handshake is among the numbers that the
//! writer will use (once in some 60,000 handshakes), the handshake fails.
//!
//! There is no certificate hierarchy: each side knows the digest of the other's certificate.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use antedate_channel::dtls::{
    Aead, ConnectionId, ContentType, DirectionKeys, Dropped, Opened, ProtectError, Reader, Writer, records,
};
use antedate_wire::dtls::handshake::{Alert, AlertDescription};
use dimpl::crypto::{
    Aad, Buf, Cipher, CryptoProvider, Dtls12CipherSuite, HashAlgorithm, Nonce, SupportedDtls12CipherSuite,
    TmpBuf, rust_crypto,
};
use dimpl::{Config, CryptoError, Dtls, DtlsCertificate, Output};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// The epoch of the records.
const EPOCH: u16 = 1;
/// The longest datagram of a handshake in octets.
const DATAGRAM_MAX: usize = 2048;
/// The most datagrams that wait between the peer's Finished and [`Handshake::finish`].
const KEPT: usize = 8;

/// The cipher suites that dimpl offers with certificates. CCM is not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 (RFC 5289)
    Aes128GcmSha256,
    /// TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 (RFC 5289)
    Aes256GcmSha384,
    /// TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 (RFC 7905)
    Chacha20Poly1305Sha256,
}

impl Suite {
    /// All suites.
    pub const ALL: [Self; 3] = [Self::Aes128GcmSha256, Self::Aes256GcmSha384, Self::Chacha20Poly1305Sha256];

    /// The AEAD of the records.
    #[must_use]
    pub const fn aead(self) -> Aead {
        match self {
            Self::Aes128GcmSha256 => Aead::Aes128Gcm,
            Self::Aes256GcmSha384 => Aead::Aes256Gcm,
            Self::Chacha20Poly1305Sha256 => Aead::ChaCha20Poly1305,
        }
    }

    const fn library(self) -> Dtls12CipherSuite {
        match self {
            Self::Aes128GcmSha256 => Dtls12CipherSuite::ECDHE_ECDSA_AES128_GCM_SHA256,
            Self::Aes256GcmSha384 => Dtls12CipherSuite::ECDHE_ECDSA_AES256_GCM_SHA384,
            Self::Chacha20Poly1305Sha256 => Dtls12CipherSuite::ECDHE_ECDSA_CHACHA20_POLY1305_SHA256,
        }
    }
}

/// The own certificate and the expected peer.
#[derive(Clone)]
pub struct Identity {
    /// our certificate, DER
    pub certificate: Vec<u8>,
    /// its private key, PKCS #8 in DER
    pub key: Zeroizing<Vec<u8>>,
    /// the SHA-256 digest of the peer's certificate
    pub peer: [u8; 32],
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

/// The handshake failed, finally.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeError {
    /// the library failed: a wrong message or signature, or a timeout
    Handshake(String),
    /// the peer has no certificate or not the expected one
    OtherPeer,
    /// a random nonce of the library is among the writer's numbers
    NonceMet,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handshake(why) => write!(f, "the handshake failed: {why}"),
            Self::OtherPeer => f.write_str("the peer's certificate is not the one that was expected"),
            Self::NonceMet => f.write_str("a random nonce was met; begin again"),
        }
    }
}

impl std::error::Error for HandshakeError {}

/// The recorded key and records of a direction.
#[derive(Default)]
struct Direction {
    key: Zeroizing<Vec<u8>>,
    suite: Option<Suite>,
    /// Epoch and sequence number in one, and nonce, of each record.
    records: Vec<(u64, [u8; 12])>,
}

/// The client's and the server's direction, in this order.
type Seen = Arc<Mutex<Vec<Direction>>>;

fn seen(seen: &Seen) -> MutexGuard<'_, Vec<Direction>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The connection that the library works for: its suites are static and make the ciphers of all
    /// connections.
    static CURRENT: RefCell<Option<Seen>> = const { RefCell::new(None) };
}

/// A suite of the library whose ciphers are recorded.
#[derive(Debug)]
struct RecordingSuite(Suite, &'static dyn SupportedDtls12CipherSuite);

impl SupportedDtls12CipherSuite for RecordingSuite {
    fn suite(&self) -> Dtls12CipherSuite {
        self.1.suite()
    }

    fn hash_algorithm(&self) -> HashAlgorithm {
        self.1.hash_algorithm()
    }

    fn key_lengths(&self) -> (usize, usize, usize) {
        self.1.key_lengths()
    }

    fn explicit_nonce_len(&self) -> usize {
        self.1.explicit_nonce_len()
    }

    fn tag_len(&self) -> usize {
        self.1.tag_len()
    }

    fn create_cipher(&self, key: &[u8]) -> Result<Box<dyn Cipher>, CryptoError> {
        let cipher = self.1.create_cipher(key)?;
        let Some(all) = CURRENT.with_borrow(Clone::clone) else { return Ok(cipher) };
        let index = {
            let mut all = seen(&all);
            let key = Zeroizing::new(key.to_vec());
            all.push(Direction { key, suite: Some(self.0), records: Vec::new() });
            all.len() - 1
        };
        Ok(Box::new(RecordingCipher { cipher, seen: all, index }))
    }
}

struct RecordingCipher {
    cipher: Box<dyn Cipher>,
    seen: Seen,
    index: usize,
}

impl fmt::Debug for RecordingCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecordingCipher(..)")
    }
}

impl RecordingCipher {
    fn note(&self, aad: &Aad, nonce: &Nonce) {
        if let (Some(number), Some(direction)) = (aad.first_chunk(), seen(&self.seen).get_mut(self.index)) {
            direction.records.push((u64::from_be_bytes(*number), nonce.0));
        }
    }
}

impl Cipher for RecordingCipher {
    fn encrypt(&mut self, plaintext: &mut Buf, aad: Aad, nonce: Nonce) -> Result<(), CryptoError> {
        self.note(&aad, &nonce);
        self.cipher.encrypt(plaintext, aad, nonce)
    }

    fn decrypt(&mut self, ciphertext: &mut TmpBuf<'_>, aad: Aad, nonce: Nonce) -> Result<(), CryptoError> {
        let aad_and_nonce = (aad.clone(), nonce);
        self.cipher.decrypt(ciphertext, aad, nonce)?;
        // Only an authentic record shows the peer's IV.
        self.note(&aad_and_nonce.0, &aad_and_nonce.1);
        Ok(())
    }
}

/// The library's primitives with recording suites.
fn provider() -> CryptoProvider {
    static PROVIDER: OnceLock<CryptoProvider> = OnceLock::new();
    let make = || {
        let own = rust_crypto::default_provider();
        let find = |suite: Suite| own.cipher_suites.iter().find(|one| one.suite() == suite.library());
        let recording = Suite::ALL.into_iter().filter_map(|suite| {
            let recording: &'static dyn SupportedDtls12CipherSuite =
                Box::leak(Box::new(RecordingSuite(suite, *find(suite)?)));
            Some(recording)
        });
        let cipher_suites: &'static [_] = Vec::leak(recording.collect());
        CryptoProvider { cipher_suites, ..own }
    };
    PROVIDER.get_or_init(make).clone()
}

/// A handshake in progress.
pub struct Handshake {
    library: Dtls,
    client: bool,
    peer: [u8; 32],
    seen: Seen,
    /// Datagrams to send, and those of the last flight.
    outgoing: VecDeque<Vec<u8>>,
    last: Vec<Vec<u8>>,
    /// Datagrams received after the peer's Finished.
    behind: Vec<Vec<u8>>,
    deadline: Option<Instant>,
    right_peer: bool,
    connected: bool,
}

impl Handshake {
    /// Begins as the client, or waits as the server. The preferred suite comes first.
    ///
    /// # Errors
    /// When the library refuses certificate, key or suites.
    pub fn new(
        identity: &Identity,
        suites: &[Suite],
        client: bool,
        now: Instant,
    ) -> Result<Self, HandshakeError> {
        let failed = |error: dimpl::Error| HandshakeError::Handshake(error.to_string());
        let offered: Vec<_> = suites.iter().map(|suite| suite.library()).collect();
        let config = Config::builder()
            .with_crypto_provider(provider())
            .dtls12_cipher_suites(&offered)
            .require_client_certificate(true)
            .build()
            .map_err(failed)?;
        let certificate =
            DtlsCertificate { certificate: identity.certificate.clone(), private_key: identity.key.to_vec() };
        let mut library = Dtls::new_12(Arc::new(config), certificate, now);
        library.set_active(client);
        let mut this = Self {
            library,
            client,
            peer: identity.peer,
            seen: Seen::default(),
            outgoing: VecDeque::new(),
            last: Vec::new(),
            behind: Vec::new(),
            deadline: None,
            right_peer: false,
            connected: false,
        };
        this.time(now)?;
        Ok(this)
    }

    /// Takes a datagram. Records after the peer's Finished wait for [`Certified::came`].
    ///
    /// # Errors
    /// When the handshake failed.
    pub fn handle(&mut self, datagram: &[u8]) -> Result<(), HandshakeError> {
        let (handshake, behind) = datagram.split_at(if self.connected { 0 } else { before_data(datagram) });
        if !handshake.is_empty() {
            self.with(|library| library.handle_packet(handshake))?;
        }
        if self.connected && !behind.is_empty() && self.behind.len() < KEPT {
            self.behind.push(behind.to_vec());
        }
        Ok(())
    }

    /// Advances the time. Call it at the [`deadline`](Self::deadline) or later.
    ///
    /// # Errors
    /// When the handshake failed.
    pub fn time(&mut self, now: Instant) -> Result<(), HandshakeError> {
        self.with(|library| library.handle_timeout(now))
    }

    /// The time at which [`time`](Self::time) must be called next.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The next datagram to send.
    pub fn transmit(&mut self) -> Option<Vec<u8>> {
        self.outgoing.pop_front()
    }

    fn with(
        &mut self,
        act: impl FnOnce(&mut Dtls) -> Result<(), dimpl::Error>,
    ) -> Result<(), HandshakeError> {
        // After the keys are agreed, the library must protect nothing more.
        if self.connected {
            return Ok(());
        }
        CURRENT.set(Some(Arc::clone(&self.seen)));
        let done = act(&mut self.library);
        let polled = self.poll();
        CURRENT.set(None);
        done.map_err(|error| HandshakeError::Handshake(error.to_string()))?;
        polled
    }

    fn poll(&mut self) -> Result<(), HandshakeError> {
        let mut buffer = vec![0; DATAGRAM_MAX];
        let mut flight = Vec::new();
        loop {
            match self.library.poll_output(&mut buffer) {
                Output::Packet(datagram) => flight.push(datagram.to_vec()),
                Output::BufferTooSmall { needed } => buffer.resize(needed, 0),
                Output::PeerCert(certificate) => {
                    self.right_peer = Sha256::digest(certificate)[..] == self.peer;
                    if !self.right_peer {
                        return Err(HandshakeError::OtherPeer);
                    }
                }
                Output::Connected => self.connected = true,
                Output::Timeout(when) => {
                    self.deadline = Some(when);
                    break;
                }
                _ => {}
            }
        }
        if !flight.is_empty() {
            self.last.clone_from(&flight);
            self.outgoing.extend(flight);
        }
        Ok(())
    }

    /// The records after both Finished, or the unchanged handshake before.
    ///
    /// # Errors
    /// When the peer is not the expected one, or a nonce is among the writer's numbers.
    pub fn finish(self) -> Result<Result<Certified, Box<Self>>, HandshakeError> {
        if !self.connected {
            return Ok(Err(Box::new(self)));
        }
        if !self.right_peer {
            return Err(HandshakeError::OtherPeer);
        }
        let all = seen(&self.seen);
        let missing = || HandshakeError::Handshake("the library did not show both keys".into());
        let [by_client, by_server] = &all[..] else { return Err(missing()) };
        let (ours, theirs) = if self.client { (by_client, by_server) } else { (by_server, by_client) };
        let next = ours.records.iter().map(|(number, _)| number + 1).max().ok_or_else(missing)?;
        let aead = ours.suite.ok_or_else(missing)?.aead();
        if aead.explicit_len() > 0 && ours.records.iter().any(|(_, nonce)| meets(nonce, next)) {
            return Err(HandshakeError::NonceMet);
        }
        let [ours, theirs] = [ours, theirs].map(|direction| keys(aead, direction).ok_or_else(missing));
        let sequence = next & ((1 << 48) - 1);
        let writer = Writer::new(&ours?, EPOCH, sequence, ConnectionId::EMPTY).ok_or_else(missing)?;
        let reader = Reader::new(&theirs?, EPOCH, ConnectionId::EMPTY).ok_or_else(missing)?;
        drop(all);
        Ok(Ok(Certified { writer, reader, unsent: self.outgoing, last: self.last, behind: self.behind }))
    }
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handshake(client: {}, connected: {})", self.client, self.connected)
    }
}

/// The octets of a datagram before its first record of data, which the library must not open.
fn before_data(datagram: &[u8]) -> usize {
    let mut at = 0;
    for record in records(datagram, 0) {
        match record {
            Ok(record) if record.epoch == EPOCH && record.content_type == ContentType::ApplicationData => {
                return at;
            }
            Ok(record) => at += record.len(),
            Err(_) => break,
        }
    }
    datagram.len()
}

/// Whether an explicit nonce is one that the writer will use: of epoch 1, from `next` on.
fn meets(nonce: &[u8; 12], next: u64) -> bool {
    let [_, _, _, _, explicit @ ..] = *nonce;
    let explicit = u64::from_be_bytes(explicit);
    explicit >> 48 == u64::from(EPOCH) && explicit >= next
}

/// Key and IV of a direction, from its first record (RFC 5288 section 3, RFC 7905 section 2).
fn keys(aead: Aead, direction: &Direction) -> Option<DirectionKeys> {
    let (number, nonce) = direction.records.first()?;
    let mut iv = *nonce;
    if aead.explicit_len() == 0 {
        iv[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(iv, number)| *iv ^= number);
    }
    DirectionKeys::new(aead, &direction.key, iv.get(..aead.iv_len())?)
}

/// A connection whose keys a handshake with certificates agreed on.
#[derive(Debug)]
pub struct Certified {
    writer: Writer,
    reader: Reader,
    unsent: VecDeque<Vec<u8>>,
    last: Vec<Vec<u8>>,
    behind: Vec<Vec<u8>>,
}

/// The content of a received record.
#[derive(Debug, PartialEq, Eq)]
pub enum Came {
    /// data
    Data(Vec<u8>),
    /// the peer has ended the connection
    Closed,
    /// nothing for the application; after a repeated Finished, [`Certified::transmit`] has our last
    /// flight
    Nothing,
    /// a dropped record
    Refused(Dropped),
}

impl Certified {
    /// The next datagram of the handshake to send.
    pub fn transmit(&mut self) -> Option<Vec<u8>> {
        self.unsent.pop_front()
    }

    /// Protects data in a datagram.
    ///
    /// # Errors
    /// When the data is too long or no number is left.
    pub fn protect(&mut self, data: &[u8]) -> Result<Vec<u8>, ProtectError> {
        self.record(ContentType::ApplicationData, data)
    }

    /// Ends the connection. Returns the datagram with the alert for the peer.
    ///
    /// # Errors
    /// When no number is left.
    pub fn close(mut self) -> Result<Vec<u8>, ProtectError> {
        let alert = Alert { fatal: false, description: AlertDescription::CloseNotify };
        self.record(ContentType::Alert, &alert.emit())
    }

    fn record(&mut self, content_type: ContentType, content: &[u8]) -> Result<Vec<u8>, ProtectError> {
        let mut out = vec![0; content.len() + self.writer.overhead()];
        let len = self.writer.protect(content_type, content, &mut out)?;
        out.truncate(len);
        Ok(out)
    }

    /// Opens the datagrams received before [`Handshake::finish`]. Call it once, before the next
    /// datagram.
    pub fn came(&mut self) -> Vec<Came> {
        let behind = std::mem::take(&mut self.behind);
        behind.iter().flat_map(|datagram| self.open(datagram)).collect()
    }

    /// Opens a datagram, record by record.
    pub fn open(&mut self, datagram: &[u8]) -> Vec<Came> {
        let mut plain = vec![0; datagram.len()];
        let mut all = Vec::new();
        for record in records(datagram, 0) {
            let opened = record.map_err(|_| Dropped::Malformed).and_then(|record| {
                // Unprotected records belong to the handshake, which is over.
                if record.epoch != EPOCH {
                    Err(Dropped::Epoch)
                } else {
                    self.reader.open(&record, &mut plain)
                }
            });
            all.push(match opened {
                Ok(Opened { content_type: ContentType::ApplicationData, len, .. }) => {
                    Came::Data(plain.get(..len).unwrap_or_default().to_vec())
                }
                // close_notify, or a fatal alert.
                Ok(Opened { content_type: ContentType::Alert, len, .. })
                    if matches!(plain.get(..len), Some([2, _] | [_, 0])) =>
                {
                    Came::Closed
                }
                Ok(Opened { content_type: ContentType::Handshake, .. }) => {
                    // Our last flight was lost. The same records under the same numbers are sent
                    // again.
                    self.unsent.extend(self.last.iter().cloned());
                    Came::Nothing
                }
                Ok(_) => Came::Nothing,
                Err(refusal) => Came::Refused(refusal),
            });
        }
        all
    }

    /// Prepares the next own and then the next expected records, for at most `budget` steps.
    pub fn idle(&mut self, budget: u32) -> u32 {
        let done = self.writer.idle(budget);
        done + self.reader.idle(budget - done)
    }

    /// The number of prepared records.
    #[must_use]
    pub fn prepared(&self) -> usize {
        self.writer.prepared()
    }
}
