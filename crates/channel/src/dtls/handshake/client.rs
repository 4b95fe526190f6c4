//! The client's messages, and its handling of the server's.

use alloc::vec::Vec;

use antedate_wire::dtls::handshake::{
    ExtensionType, HandshakeType, HelloVerifyRequest, ServerHello, ServerKeyExchange, Writer,
};
use antedate_wire::dtls::{ConnectionId, VERSION_1_2};

use super::assembly::Message;
use super::connection::{Connection, Step};
use super::flight::{Piece, ROOM};
use super::group::Group;
use super::misfit::Misfit;
use super::transcript::Transcript;
use super::{Client, Credentials, Keyring, Settings, signed};

/// Signals in a list of suites that this is no renegotiation (RFC 5746 section 3.3).
pub(super) const NO_RENEGOTIATION: u16 = 0x00ff;
/// The most ClientHellos: a cookie may have expired in transit, or be another's.
const MAX_HELLOS: u16 = 4;

impl Connection {
    /// Begins a connection as its client, and offers those of the suites that fit its credentials.
    /// `now` is in milliseconds. `random` fills a buffer with unpredictable octets.
    pub fn connect(
        mut settings: Settings,
        credentials: impl Into<Credentials>,
        now: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Self {
        let credentials = credentials.into();
        let with_psk = matches!(credentials, Credentials::Psk(_));
        settings.suites.retain(|suite| suite.is_psk() == with_psk);
        let mut this = Self::new(settings, Step::ServerHello, now, random);
        this.credentials = credentials;
        this.greet(&[], now);
        this
    }

    /// Sends a ClientHello, which starts the handshake hash.
    fn greet(&mut self, cookie: &[u8], now: u64) {
        let mut suites = [0; 64];
        let mut list = Writer::new(&mut suites);
        for suite in &self.settings.suites {
            list.integer16(suite.number());
        }
        list.integer16(NO_RENEGOTIATION);
        let mut extensions = [0; 512];
        let mut extra = Writer::new(&mut extensions);
        extra.extension(ExtensionType::ExtendedMasterSecret, &[]);
        if self.settings.suites.iter().any(|suite| suite.is_ecdhe()) {
            let mut numbers = [0; 2 + 2 * Group::ALL.len()];
            let mut groups = Writer::new(&mut numbers);
            groups.integer16(2 * Group::ALL.len() as u16);
            for group in Group::ALL {
                groups.integer16(group.number());
            }
            extra.extension(ExtensionType::SupportedGroups, groups.finish().unwrap_or_default());
            extra.extension(ExtensionType::EcPointFormats, &[1, 0]);
        }
        if !matches!(self.credentials, Credentials::Psk(_)) {
            signed::offer(&mut extra, &self.settings, &self.credentials);
        }
        if let Some(cid) = self.settings.cid {
            let mut says = [0; 40];
            let mut inner = Writer::new(&mut says);
            inner.vector8(cid.as_slice());
            extra.extension(ExtensionType::ConnectionId, inner.finish().unwrap_or_default());
        }
        let mut body = [0; ROOM];
        let mut writer = Writer::new(&mut body);
        writer.integer16(VERSION_1_2).octets(&self.randoms[0]).vector8(&[]).vector8(cookie);
        writer.vector16(list.finish().unwrap_or_default()).vector8(&[0]);
        writer.vector16(extra.finish().unwrap_or_default());
        // The buffers above bound everything, and the cookie has at most 255 octets.
        let body = writer.finish().unwrap_or_default();
        self.transcript = Transcript::default();
        let hello = self.piece(HandshakeType::ClientHello, body, false);
        self.fly(alloc::vec![hello], now);
    }

    pub(super) fn client_message(
        &mut self,
        message: &Message,
        now: u64,
        keyring: &dyn Keyring,
    ) -> Result<(), Misfit> {
        match (self.step, message.kind) {
            (Step::ServerHello, HandshakeType::HelloVerifyRequest) if self.next_message < MAX_HELLOS => {
                let unreadable = "a HelloVerifyRequest cannot be read";
                let request = HelloVerifyRequest::parse(&message.body).map_err(|_| unreadable)?;
                self.greet(request.cookie, now);
                Ok(())
            }
            (Step::ServerHello, HandshakeType::ServerHello) => self.server_hello(message),
            (Step::ServerHelloDone, HandshakeType::Certificate) => self.server_certificate(message, keyring),
            (Step::ServerHelloDone, HandshakeType::ServerKeyExchange) if self.is_signed() => {
                self.signed_key_exchange(message)
            }
            (Step::ServerHelloDone, HandshakeType::ServerKeyExchange) => self.server_key_exchange(message),
            (Step::ServerHelloDone, HandshakeType::CertificateRequest) => self.certificate_request(message),
            (Step::ServerHelloDone, HandshakeType::ServerHelloDone) => self.answer(message, now),
            (Step::Finished, HandshakeType::Finished) => {
                self.check_finished(message)?;
                self.step = Step::Done;
                Ok(())
            }
            _ => Err("a message came out of turn"),
        }
    }

    fn server_hello(&mut self, message: &Message) -> Result<(), Misfit> {
        let hello = ServerHello::parse(&message.body).map_err(|_| "a ServerHello cannot be read")?;
        if hello.version != VERSION_1_2 {
            return Err("the server wants another version than DTLS 1.2");
        }
        let suite = self.settings.suites.iter().find(|suite| suite.number() == hello.suite);
        let suite = *suite.ok_or("the server chose a cipher suite that was not offered")?;
        if hello.compression != 0 {
            return Err("the server wants to compress");
        }
        let extended = hello.extensions.get(ExtensionType::ExtendedMasterSecret).is_some();
        if self.settings.require_extended_master_secret && !extended {
            return Err("the server has no extended master secret");
        }
        let cid = hello.extensions.connection_id().map_err(|_| "a connection ID cannot be read")?;
        let cids = match (cid, self.settings.cid) {
            (None, _) => [ConnectionId::EMPTY; 2],
            (Some(_), None) => return Err("the server speaks of connection IDs unasked"),
            (Some(theirs), Some(ours)) => {
                let theirs =
                    ConnectionId::new(theirs).map_err(|_| "the server's connection ID is too long")?;
                [ours, theirs]
            }
        };
        if !suite.is_psk() {
            self.agree_on_types(&hello.extensions)?;
        }
        self.hash_message(message);
        (self.suite, self.cids, self.extended_master_secret) = (Some(suite), cids, extended);
        self.randoms[1] = hello.random;
        self.step = Step::ServerHelloDone;
        Ok(())
    }

    fn server_key_exchange(&mut self, message: &Message) -> Result<(), Misfit> {
        let ecdhe = self.suite.is_some_and(|suite| suite.is_ecdhe());
        let unreadable = "a ServerKeyExchange cannot be read";
        let exchange = ServerKeyExchange::parse(&message.body, ecdhe).map_err(|_| unreadable)?;
        let share = match exchange.share {
            Some((number, public)) => {
                let group = Group::from_number(number);
                let group = group.ok_or("the server chose a group that was not offered")?;
                if !group.has(public) {
                    return Err("the server's ephemeral key is no key");
                }
                Some((group, public.to_vec()))
            }
            None => None,
        };
        self.hash_message(message);
        // The hint is for clients with several identities.
        if let Some((group, public)) = share {
            (self.group, self.peer_share) = (Some(group), Some(public));
        }
        Ok(())
    }

    /// Answers ServerHelloDone with our part of the key exchange and Finished.
    fn answer(&mut self, message: &Message, now: u64) -> Result<(), Misfit> {
        let ecdhe = self.suite.is_some_and(|suite| suite.is_ecdhe());
        if !message.body.is_empty() || ecdhe != self.peer_share.is_some() {
            return Err("the server's part of the key exchange is missing");
        }
        self.hash_message(message);
        let next = self.next_message;
        let exchanged = match self.credentials.clone() {
            Credentials::Psk(client) => self.psk_answer(&client),
            _ => self.signed_answer(),
        };
        match exchanged {
            Ok(mut pieces) => {
                pieces.extend(self.finished()?);
                self.step = Step::Finished;
                self.fly(pieces, now);
                Ok(())
            }
            Err(misfit) => {
                self.next_message = next;
                Err(misfit)
            }
        }
    }

    fn psk_answer(&mut self, client: &Client) -> Result<Vec<Piece>, Misfit> {
        let share = self.group.map(|group| group.public(&self.ephemeral)).transpose()?;
        let mut body = [0; ROOM];
        let mut writer = Writer::new(&mut body);
        writer.vector16(&client.identity);
        if let Some(share) = &share {
            writer.vector8(share);
        }
        let body = writer.finish().map_err(|_| "the identity is too long")?;
        let exchange = self.piece(HandshakeType::ClientKeyExchange, body, false);
        self.make_keys(Some(&client.key))?;
        Ok(alloc::vec![exchange])
    }
}
