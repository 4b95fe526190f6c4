//! A connection. Inputs are datagrams and the time; outputs are datagrams, data and the time of the
//! next call.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use antedate_wire::dtls::handshake::{Alert, AlertDescription, Fragment, HandshakeType};
use antedate_wire::dtls::{ContentType, Record, VERSION_1_2, records};
use zeroize::{Zeroize, Zeroizing};

use super::super::{
    CipherSuite, ConnectionId, DirectionKeys, Dropped, KeyExchange, Reader, Refusals, Writer,
};
use super::assembly::{self, Assembly, Message};
use super::flight::{Flight, Piece, record};
use super::group::Group;
use super::misfit::{Misfit, OTHER_KEY, WRONG_FINISHED};
use super::prf::{self, Binding, Master};
use super::proof::Proof;
use super::transcript::Transcript;
use super::{Credentials, Event, Failure, Keyring, Phase, SendError, Settings, Shown};
use crate::secret::Boxed;

/// The most records kept until their keys exist, or until their handshake is done.
const KEPT: usize = 8;
/// The longest retransmission interval of a flight, in milliseconds (RFC 6347 section 4.2.4.1).
const LONGEST_INTERVAL_MS: u64 = 60_000;
/// The epoch of the records with data.
pub(super) const EPOCH: u16 = 1;

/// The awaited message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// client: a HelloVerifyRequest or a ServerHello
    ServerHello,
    /// client: the rest of the server's flight
    ServerHelloDone,
    /// server: the client's certificates or raw public key
    ClientCertificate,
    /// server: the client's part of the key exchange
    ClientKeyExchange,
    /// server: the signature of a client that has shown a key
    CertificateVerify,
    /// the peer's Finished
    Finished,
    /// nothing
    Done,
}

/// One side of a connection, client or server.
pub struct Connection {
    pub(super) settings: Settings,
    pub(super) is_client: bool,
    /// What a client proves itself with.
    pub(super) credentials: Credentials,
    /// What both sides have shown and signed.
    pub(super) proof: Proof,
    pub(super) step: Step,
    phase: Phase,
    pub(super) transcript: Transcript,
    /// The randoms of client and server.
    pub(super) randoms: [[u8; 32]; 2],
    pub(super) ephemeral: Boxed<32>,
    /// The peer's ephemeral key.
    pub(super) peer_share: Option<Vec<u8>>,
    /// The group of the ephemeral keys, if the suite has some.
    pub(super) group: Option<Group>,
    pub(super) suite: Option<CipherSuite>,
    pub(super) extended_master_secret: bool,
    /// Our connection ID, if agreed on, and the peer's.
    pub(super) cids: [ConnectionId; 2],
    pub(super) master: Option<Master>,
    /// The peer's claimed identity: of a client with a pre-shared key, or of a key or certificate.
    pub(super) identity: Vec<u8>,
    pub(super) assembly: Assembly,
    flight: Flight,
    pub(super) next_message: u16,
    pub(super) plain: u64,
    pub(super) writer: Option<Writer>,
    pub(super) reader: Option<Reader>,
    /// Records that arrived before their keys.
    early: Vec<Vec<u8>>,
    /// Data that arrived before the end of the handshake.
    held: Vec<Vec<u8>>,
    outgoing: VecDeque<Vec<u8>>,
    began: u64,
    interval: u64,
    deadline: Option<u64>,
    scratch: Vec<u8>,
    refusals: Refusals,
    sent: u64,
    received: u64,
    retransmitted: u64,
    alert: Option<Alert>,
    misfit: Option<Misfit>,
}

impl Connection {
    pub(super) fn new(settings: Settings, step: Step, now: u64, random: &mut dyn FnMut(&mut [u8])) -> Self {
        let mut randoms = [[0; 32]; 2];
        let mut ephemeral = Boxed::default();
        let is_client = step == Step::ServerHello;
        let ours = usize::from(!is_client);
        random(&mut randoms[ours]);
        random(&mut ephemeral[..]);
        Self {
            interval: settings.retransmit_ms,
            settings,
            is_client,
            credentials: Credentials::Anonymous,
            proof: Proof::default(),
            step,
            phase: Phase::Handshaking,
            transcript: Transcript::default(),
            randoms,
            ephemeral,
            peer_share: None,
            group: None,
            suite: None,
            extended_master_secret: false,
            cids: [ConnectionId::EMPTY; 2],
            master: None,
            identity: Vec::new(),
            assembly: Assembly::default(),
            flight: Flight::default(),
            next_message: 0,
            plain: 0,
            writer: None,
            reader: None,
            early: Vec::new(),
            held: Vec::new(),
            outgoing: VecDeque::new(),
            began: now,
            deadline: None,
            scratch: Vec::new(),
            refusals: Refusals::default(),
            sent: 0,
            received: 0,
            retransmitted: 0,
            alert: None,
            misfit: None,
        }
    }

    /// Processes a datagram and passes each result to `each`. `now` is in milliseconds. `keyring` has
    /// a server's pre-shared keys, and judges certificates and raw public keys.
    ///
    /// Returns true if a record was authentic and newer than all before, so the sender's address is
    /// the peer's.
    pub fn handle(
        &mut self,
        datagram: &[u8],
        now: u64,
        keyring: &dyn Keyring,
        each: &mut dyn FnMut(Event<'_>),
    ) -> bool {
        let mut newest = false;
        let cid_len = self.settings.cid.map_or(0, |cid| cid.len());
        for record in records(datagram, cid_len) {
            let done = match record {
                Ok(record) => self.record(&record, now, keyring, each),
                Err(_) => Err(Dropped::Malformed),
            };
            match done {
                Ok(new) => newest |= new,
                Err(refusal) => self.refusals.count(refusal),
            }
        }
        newest
    }

    fn record(
        &mut self,
        record: &Record<'_>,
        now: u64,
        keyring: &dyn Keyring,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<bool, Dropped> {
        if matches!(self.phase, Phase::Closed | Phase::Failed(_)) {
            return Err(Dropped::UnknownConnection);
        }
        match (record.epoch, record.content_type) {
            (0, ContentType::Handshake) if self.phase == Phase::Handshaking => {
                self.fragments(record.fragment, false, now, keyring)?;
                self.take_early(now, keyring, each);
                Ok(false)
            }
            (0, ContentType::Handshake) => Err(Dropped::Epoch),
            // The epoch already tells this.
            (0, ContentType::ChangeCipherSpec) => Ok(false),
            (0, ContentType::Alert) => {
                self.alert = Alert::parse(record.fragment).ok().or(self.alert);
                Err(Dropped::Alert)
            }
            (0, ContentType::ApplicationData) => Err(Dropped::Unprotected),
            (0, _) => Err(Dropped::Malformed),
            (EPOCH, _) => self.protected(record, now, keyring, each),
            _ => Err(Dropped::Epoch),
        }
    }

    fn protected(
        &mut self,
        record: &Record<'_>,
        now: u64,
        keyring: &dyn Keyring,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<bool, Dropped> {
        let Some(reader) = &mut self.reader else {
            if self.early.len() >= KEPT {
                return Err(Dropped::Early);
            }
            let mut octets = alloc::vec![0; record.len()];
            record.emit(&mut octets).map_err(|_| Dropped::Malformed)?;
            self.early.push(octets);
            return Ok(false);
        };
        if self.scratch.len() < record.fragment.len() {
            self.scratch.resize(record.fragment.len(), 0);
        }
        let mut scratch = core::mem::take(&mut self.scratch);
        let opened = reader.open(record, &mut scratch);
        let done = opened.and_then(|opened| {
            let content = scratch.get(..opened.len).unwrap_or_default();
            self.content(opened.content_type, content, now, keyring, each).map(|()| opened.newest)
        });
        if self.settings.large {
            self.scratch = scratch;
        }
        done
    }

    /// Wipes and frees what only the handshake needed. A server's last flight stays, for a client
    /// that has not received it.
    fn forget_handshake(&mut self) {
        self.ephemeral.zeroize();
        (self.peer_share, self.settings.suites, self.settings.credentials) = (None, Vec::new(), Vec::new());
        (self.credentials, self.transcript) = (Credentials::Anonymous, Transcript::default());
        self.proof.forget_own();
        if self.is_client {
            self.flight = Flight::default();
        }
    }

    fn content(
        &mut self,
        content_type: ContentType,
        content: &[u8],
        now: u64,
        keyring: &dyn Keyring,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Dropped> {
        match content_type {
            ContentType::ApplicationData if self.phase == Phase::Established => {
                self.received += 1;
                each(Event::Data(content));
                Ok(())
            }
            // It overtook the Finished.
            ContentType::ApplicationData if self.held.len() < KEPT => {
                self.held.push(content.to_vec());
                Ok(())
            }
            ContentType::ApplicationData => Err(Dropped::Early),
            ContentType::Handshake if self.renegotiates(content) => {
                self.say(Alert { fatal: false, description: AlertDescription::NoRenegotiation });
                Ok(())
            }
            ContentType::Handshake => {
                self.fragments(content, true, now, keyring)?;
                if self.step == Step::Done && self.phase == Phase::Handshaking {
                    self.phase = Phase::Established;
                    self.deadline = None;
                    self.forget_handshake();
                    each(Event::Established);
                    for data in core::mem::take(&mut self.held) {
                        self.received += 1;
                        each(Event::Data(&data));
                    }
                }
                Ok(())
            }
            ContentType::Alert => {
                let alert = Alert::parse(content).map_err(|_| Dropped::Malformed)?;
                // Before both sides have keys, an end is also a failure.
                let done = self.phase == Phase::Established;
                if done && alert.description == AlertDescription::CloseNotify {
                    self.end(Phase::Closed);
                    each(Event::Closed);
                } else if alert.fatal || alert.description == AlertDescription::CloseNotify {
                    self.end(Phase::Failed(Failure::Alert(alert)));
                    each(Event::Closed);
                }
                Ok(())
            }
            _ => Err(Dropped::Malformed),
        }
    }

    /// True if the peer asks for a second handshake in this connection (RFC 5246 section 7.4.1).
    fn renegotiates(&self, content: &[u8]) -> bool {
        let asks = match self.is_client {
            true => HandshakeType::HelloRequest,
            false => HandshakeType::ClientHello,
        };
        self.phase == Phase::Established
            && Fragment::parse(content).is_ok_and(|(fragment, _)| fragment.kind == asks)
    }

    /// Processes records that waited for keys.
    fn take_early(&mut self, now: u64, keyring: &dyn Keyring, each: &mut dyn FnMut(Event<'_>)) {
        if self.reader.is_none() {
            return;
        }
        let cid_len = self.settings.cid.map_or(0, |cid| cid.len());
        for octets in core::mem::take(&mut self.early) {
            let record = Record::parse(&octets, cid_len).map_err(|_| Dropped::Malformed);
            let done = record.and_then(|(record, _)| self.protected(&record, now, keyring, each));
            if let Err(refusal) = done {
                self.refusals.count(refusal);
            }
        }
    }

    /// Processes the fragments of handshake messages in a record.
    fn fragments(
        &mut self,
        mut octets: &[u8],
        protected: bool,
        now: u64,
        keyring: &dyn Keyring,
    ) -> Result<(), Dropped> {
        while !octets.is_empty() {
            let (fragment, rest) = Fragment::parse(octets).map_err(|_| Dropped::Handshake)?;
            octets = rest;
            let again = fragment.message < self.assembly.next();
            if again && protected && fragment.kind == HandshakeType::Finished && !self.is_client {
                // The client has not received ours.
                self.retransmitted += 1;
                self.send_flight();
                continue;
            }
            let limit = match fragment.kind {
                HandshakeType::Certificate if self.awaits_certificate() => assembly::MAX_CERTIFICATE,
                _ => assembly::MAX_MESSAGE,
            };
            self.assembly.take(&fragment, protected, limit)?;
            while let Some(message) = self.assembly.whole() {
                self.message(&message, now, keyring)?;
            }
        }
        Ok(())
    }

    /// Processes a complete message in its turn. One that does not fit is ignored: it may be
    /// forged, and the right one may still arrive.
    fn message(&mut self, message: &Message, now: u64, keyring: &dyn Keyring) -> Result<(), Dropped> {
        let before = self.transcript.clone();
        let done = if message.protected != (message.kind == HandshakeType::Finished) {
            Err("a message came in the wrong epoch")
        } else if self.is_client {
            self.client_message(message, now, keyring)
        } else {
            self.server_message(message, now, keyring)
        };
        match done {
            Ok(()) => {
                self.assembly.expect(message.number + 1);
                Ok(())
            }
            Err(misfit) => {
                self.transcript = before;
                self.misfit = Some(misfit);
                Err(Dropped::Handshake)
            }
        }
    }

    /// Hashes a received message.
    pub(super) fn hash_message(&mut self, message: &Message) {
        self.transcript.update(&message.header());
        self.transcript.update(&message.body);
    }

    /// The hash of the handshake so far.
    pub(super) fn hash(&self) -> Vec<u8> {
        self.suite.map_or_else(Vec::new, |suite| self.transcript.hash(suite.hash()))
    }

    /// Makes and hashes our next message.
    pub(super) fn piece(&mut self, kind: HandshakeType, body: &[u8], protected: bool) -> Piece {
        let number = self.next_message;
        self.next_message += 1;
        let whole = Fragment { kind, length: body.len(), message: number, offset: 0, octets: body };
        self.transcript.update(&whole.header());
        self.transcript.update(body);
        Piece::Message { kind, number, body: body.to_vec(), protected }
    }

    /// Our ChangeCipherSpec and Finished.
    pub(super) fn finished(&mut self) -> Result<[Piece; 2], Misfit> {
        let body = self.verify_data(self.is_client)?;
        Ok([Piece::ChangeCipherSpec, self.piece(HandshakeType::Finished, &body, true)])
    }

    fn verify_data(&self, by_client: bool) -> Result<[u8; 12], Misfit> {
        let (suite, master) = self.suite.zip(self.master.as_ref()).ok_or("no keys")?;
        Ok(prf::verify_data(suite.hash(), master, by_client, &self.hash()))
    }

    /// Checks the peer's Finished, and hashes it if it is right.
    pub(super) fn check_finished(&mut self, message: &Message) -> Result<(), Misfit> {
        let expected = self.verify_data(!self.is_client)?;
        let same: bool = subtle::ConstantTimeEq::ct_eq(&expected[..], &message.body[..]).into();
        if message.kind != HandshakeType::Finished || !same {
            return Err(WRONG_FINISHED);
        }
        self.hash_message(message);
        Ok(())
    }

    /// Makes the keys after everything up to the ClientKeyExchange is hashed, with the pre-shared key
    /// if the suite needs one.
    pub(super) fn make_keys(&mut self, psk: Option<&[u8]>) -> Result<(), Misfit> {
        let suite = self.suite.ok_or("no cipher suite")?;
        let shared = match (self.group, &self.peer_share) {
            (Some(group), Some(share)) => Some(group.agree(&self.ephemeral, share)?),
            _ => None,
        };
        let premaster = match (suite.exchange(), psk, &shared) {
            (KeyExchange::EcdheEcdsa, None, Some(shared)) => Zeroizing::new(shared.to_vec()),
            (KeyExchange::EcdhePsk | KeyExchange::Psk, Some(psk), shared) => {
                prf::premaster(psk, shared.as_deref())
            }
            _ => return Err("no keys"),
        };
        let [client, server] = self.randoms;
        let hash = self.hash();
        let binding = match self.extended_master_secret {
            true => Binding::Session(&hash),
            false => Binding::Randoms(&client, &server),
        };
        let master = prf::master(suite.hash(), &premaster, &binding);
        let none = "the keys have a wrong length";
        let [by_client, by_server] =
            prf::keys((suite.aead(), suite.hash()), &master, &client, &server).ok_or(none)?;
        let (ours, theirs): (DirectionKeys, _) =
            if self.is_client { (by_client, by_server) } else { (by_server, by_client) };
        let [local, remote] = self.cids;
        let mut writer = Writer::sized(&ours, EPOCH, 0, remote, self.settings.large).ok_or(none)?;
        let mut reader = Reader::sized(&theirs, EPOCH, local, self.settings.large).ok_or(none)?;
        writer.set_reach(self.settings.reach);
        reader.set_reach(self.settings.reach);
        (self.writer, self.reader, self.master) = (Some(writer), Some(reader), Some(master));
        Ok(())
    }

    /// Sends a flight, replacing the previous one.
    pub(super) fn fly(&mut self, pieces: Vec<Piece>, now: u64) {
        self.flight = Flight { pieces };
        self.interval = self.settings.retransmit_ms.max(1);
        self.deadline = Some(now + self.interval);
        self.send_flight();
    }

    fn send_flight(&mut self) {
        let datagrams = self.flight.datagrams(self.settings.mtu, &mut self.plain, &mut self.writer);
        // Datagrams not fetched yet are older copies.
        self.outgoing.clear();
        self.outgoing.extend(datagrams);
    }

    /// The client's random and the master secret, for a key log in Wireshark's format. `None` before
    /// there are keys.
    pub fn key_log(&self) -> Option<([u8; 32], Zeroizing<[u8; 48]>)> {
        Some((self.randoms[0], Zeroizing::new(**self.master.as_ref()?)))
    }

    /// The next datagram to be sent.
    pub fn transmit(&mut self) -> Option<Vec<u8>> {
        let datagram = self.outgoing.pop_front();
        if datagram.is_none() {
            // Few connections have anything to send between data.
            self.outgoing = VecDeque::new();
        }
        datagram
    }

    /// The time at which [`timeout`](Self::timeout) is due, in milliseconds.
    pub fn deadline(&self) -> Option<u64> {
        let last = self.began.saturating_add(self.settings.give_up_ms);
        (self.phase == Phase::Handshaking).then(|| self.deadline.map_or(last, |deadline| deadline.min(last)))
    }

    /// Handles a timeout: retransmits the flight, or fails the handshake.
    pub fn timeout(&mut self, now: u64) {
        if self.phase != Phase::Handshaking {
            return;
        }
        if now >= self.began.saturating_add(self.settings.give_up_ms) {
            // Each side's first protected record is its Finished.
            let other_key = self.refusals.forged > 0 && self.step == Step::Finished && !self.is_signed();
            let reason = if other_key { Some(OTHER_KEY) } else { self.misfit };
            let failure = Failure::TimedOut { alert: self.alert, reason };
            self.end(Phase::Failed(failure));
        } else if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.retransmitted += 1;
            self.interval = (2 * self.interval).min(LONGEST_INTERVAL_MS);
            self.deadline = Some(now + self.interval);
            self.send_flight();
        }
    }

    /// Protects the application's data into `out` and returns the length of the datagram.
    #[inline]
    pub fn seal(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize, SendError> {
        let writer = match &mut self.writer {
            Some(writer) if self.phase == Phase::Established => writer,
            _ => return Err(SendError::NotEstablished),
        };
        let len = writer.protect(ContentType::ApplicationData, data, out).map_err(SendError::Protect)?;
        self.sent += 1;
        Ok(len)
    }

    /// Does at most `budget` preparation steps of about 64 octets, first for the next record to
    /// send, then for the next one expected. Returns the number done.
    pub fn idle(&mut self, budget: u32) -> u32 {
        if self.settings.reach == 0 || self.phase != Phase::Established {
            return 0;
        }
        let done = self.writer.as_mut().map_or(0, |writer| writer.idle(budget));
        done + self.reader.as_mut().map_or(0, |reader| reader.idle(budget - done))
    }

    /// Changes the memory for prepared records, as [`Writer::set_large`].
    pub fn set_large(&mut self, large: bool) {
        self.settings.large = large;
        self.scratch = Vec::new();
        if let Some(writer) = &mut self.writer {
            writer.set_large(large);
        }
        if let Some(reader) = &mut self.reader {
            reader.set_large(large);
        }
    }

    /// Ends the connection. The peer is told if there are keys.
    pub fn close(&mut self) {
        let alert = Alert { fatal: false, description: AlertDescription::CloseNotify };
        if self.phase == Phase::Established {
            self.say(alert);
        }
        self.end(Phase::Closed);
    }

    /// Sends an alert, protected if there are keys.
    pub(super) fn say(&mut self, alert: Alert) {
        let datagram = match &mut self.writer {
            Some(writer) => {
                let mut out = alloc::vec![0; 2 + writer.overhead()];
                writer.protect(ContentType::Alert, &alert.emit(), &mut out).ok().map(|_| out)
            }
            None => Some(record(ContentType::Alert, VERSION_1_2, &mut self.plain, &alert.emit())),
        };
        self.outgoing.extend(datagram);
    }

    fn end(&mut self, phase: Phase) {
        self.phase = phase;
        (self.writer, self.reader, self.master, self.deadline) = (None, None, None, None);
        (self.early, self.held) = (Vec::new(), Vec::new());
    }

    /// The state.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The cipher suite, once chosen.
    pub const fn suite(&self) -> Option<CipherSuite> {
        self.suite
    }

    /// The peer's identity: that of a client's pre-shared key, or the name of a key or certificate.
    /// Empty if it has none. It is verified once the connection is established.
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }

    /// The peer's certificates or raw public key, to be judged again when what is trusted changes.
    pub const fn shown(&self) -> Option<&Shown> {
        self.proof.shown.as_ref()
    }

    /// The connection ID by which the peer addresses us, empty if not agreed on.
    pub const fn local_cid(&self) -> ConnectionId {
        self.cids[0]
    }

    /// The connection ID by which we address the peer, empty if not agreed on.
    pub const fn remote_cid(&self) -> ConnectionId {
        self.cids[1]
    }

    /// Whether the master secret depends on the whole handshake (RFC 7627).
    #[cfg(test)]
    pub(crate) const fn has_extended_master_secret(&self) -> bool {
        self.extended_master_secret
    }

    /// Counters of dropped records.
    pub const fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Records of data sent and received, and retransmitted flights.
    pub const fn counts(&self) -> (u64, u64, u64) {
        (self.sent, self.received, self.retransmitted)
    }

    /// Records prepared for sending.
    pub fn prepared(&self) -> usize {
        self.writer.as_ref().map_or(0, Writer::prepared)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.is_client { "client" } else { "server" };
        write!(f, "Connection({role}, {:?}, waits for {:?}, {:?})", self.phase, self.step, self.suite)
    }
}
