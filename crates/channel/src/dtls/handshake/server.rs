//! The server's messages, and its handling of the client's.

use antedate_wire::dtls::handshake::certificates::client_share;
use antedate_wire::dtls::handshake::{
    Alert, AlertDescription, ClientKeyExchange, ExtensionType, HandshakeType, Writer,
};
use antedate_wire::dtls::{ConnectionId, VERSION_1_2};

use super::super::Dropped;
use super::assembly::Message;
use super::client::NO_RENEGOTIATION;
use super::connection::{Connection, Step};
use super::cookie::client_hello;
use super::flight::ROOM;
use super::misfit::{Misfit, UNKNOWN_IDENTITY};
use super::{Keyring, Offer, Settings};

impl Connection {
    /// Begins a connection as its server, with a ClientHello that showed a cookie
    /// ([`Cookies`](super::Cookies)). `now` is in milliseconds. `random` fills a buffer with
    /// unpredictable octets.
    ///
    /// # Errors
    /// The hello cannot be parsed, or none of its offers is acceptable. The second part is the
    /// alert to send.
    pub fn accept(
        settings: Settings,
        datagram: &[u8],
        now: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<Self, (Dropped, Option<alloc::vec::Vec<u8>>)> {
        let (record, fragment, hello) = client_hello(datagram).map_err(|refusal| (refusal, None))?;
        let mut this = Self::new(settings, Step::ClientKeyExchange, now, random);
        this.plain = record.sequence;
        let refuse = |mut this: Self, description| {
            this.say(Alert { fatal: true, description });
            Err((Dropped::Handshake, this.transmit()))
        };
        let offer = Offer::in_hello(&hello);
        if !offer.has_version() {
            return refuse(this, AlertDescription::ProtocolVersion);
        }
        let group = offer.group();
        let suite = offer.suite(&this.settings);
        let extended = hello.extensions.get(ExtensionType::ExtendedMasterSecret).is_some();
        let (Some(suite), false) = (suite, this.settings.require_extended_master_secret && !extended) else {
            return refuse(this, AlertDescription::HandshakeFailure);
        };
        if !hello.compressions.contains(&0) {
            return refuse(this, AlertDescription::IllegalParameter);
        }
        let Ok(cid) = hello.extensions.connection_id() else {
            return refuse(this, AlertDescription::DecodeError);
        };
        this.cids = match (cid.map(ConnectionId::new), this.settings.cid) {
            (Some(Ok(theirs)), Some(ours)) => [ours, theirs],
            // A connection ID too long for us is treated as none.
            _ => [ConnectionId::EMPTY; 2],
        };
        let with_cid = matches!(cid.map(ConnectionId::new), Some(Ok(_))) && this.settings.cid.is_some();
        let secure = hello.extensions.get(ExtensionType::RenegotiationInfo).is_some()
            || hello.suites().any(|suite| suite == NO_RENEGOTIATION);
        this.randoms[0] = hello.random;
        (this.suite, this.extended_master_secret) = (Some(suite), extended);
        if let (false, Ok(choice)) = (suite.is_psk(), offer.choice(&this.settings)) {
            this.choose(choice);
        }
        this.assembly.expect(fragment.message.saturating_add(1));
        this.next_message = fragment.message;
        let kind = HandshakeType::ClientHello;
        let body = fragment.octets.to_vec();
        this.hash_message(&Message { kind, number: fragment.message, protected: false, body });

        let mut extensions = [0; 128];
        let mut extra = Writer::new(&mut extensions);
        if extended {
            extra.extension(ExtensionType::ExtendedMasterSecret, &[]);
        }
        if secure {
            extra.extension(ExtensionType::RenegotiationInfo, &[0]);
        }
        if suite.is_ecdhe() && hello.extensions.get(ExtensionType::EcPointFormats).is_some() {
            extra.extension(ExtensionType::EcPointFormats, &[1, 0]);
        }
        if !suite.is_psk() {
            this.answer_types(&hello.extensions, &mut extra);
        }
        if with_cid {
            let mut says = [0; 40];
            let mut inner = Writer::new(&mut says);
            inner.vector8(this.cids[0].as_slice());
            extra.extension(ExtensionType::ConnectionId, inner.finish().unwrap_or_default());
        }
        let extra = extra.finish().unwrap_or_default();
        let mut body = [0; ROOM];
        let mut writer = Writer::new(&mut body);
        writer.integer16(VERSION_1_2).octets(&this.randoms[1]).vector8(&[]);
        writer.integer16(suite.number()).octets(&[0]);
        if !extra.is_empty() {
            writer.vector16(extra);
        }
        let body = writer.finish().unwrap_or_default();
        let mut pieces = alloc::vec![this.piece(HandshakeType::ServerHello, body, false)];
        if let (false, Some(group)) = (suite.is_psk(), group) {
            match this.signed_flight(group) {
                Ok(more) => pieces.extend(more),
                Err(_) => return refuse(this, AlertDescription::InternalError),
            }
        } else if let (true, Some(group)) = (suite.is_ecdhe(), group) {
            let Ok(share) = group.public(&this.ephemeral) else {
                return refuse(this, AlertDescription::InternalError);
            };
            this.group = Some(group);
            let mut body = [0; 128];
            let mut writer = Writer::new(&mut body);
            writer.vector16(&[]).server_share(group.number(), &share);
            let body = writer.finish().unwrap_or_default();
            pieces.push(this.piece(HandshakeType::ServerKeyExchange, body, false));
        }
        pieces.push(this.piece(HandshakeType::ServerHelloDone, &[], false));
        this.fly(pieces, now);
        Ok(this)
    }

    pub(super) fn server_message(
        &mut self,
        message: &Message,
        now: u64,
        keyring: &dyn Keyring,
    ) -> Result<(), Misfit> {
        match (self.step, message.kind) {
            (Step::ClientCertificate, HandshakeType::Certificate) => {
                self.client_certificate(message, keyring)
            }
            (Step::CertificateVerify, HandshakeType::CertificateVerify) => self.certificate_verify(message),
            (Step::ClientKeyExchange, HandshakeType::ClientKeyExchange) if self.is_signed() => {
                let share = client_share(&message.body).map_err(|_| "a ClientKeyExchange cannot be read")?;
                self.signed_client_exchange(message, share)
            }
            (Step::ClientKeyExchange, HandshakeType::ClientKeyExchange) => {
                let ecdhe = self.suite.is_some_and(|suite| suite.is_ecdhe());
                let unreadable = "a ClientKeyExchange cannot be read";
                let exchange = ClientKeyExchange::parse(&message.body, ecdhe).map_err(|_| unreadable)?;
                let is_key = |share: &[u8]| self.group.is_some_and(|group| group.has(share));
                if exchange.share.is_some_and(|share| !is_key(share)) {
                    return Err("the client's ephemeral key is no key");
                }
                self.peer_share = exchange.share.map(<[u8]>::to_vec);
                let Some(key) = keyring.key(exchange.identity) else {
                    self.identity = exchange.identity.to_vec();
                    self.say(Alert { fatal: true, description: AlertDescription::UnknownPskIdentity });
                    return Err(UNKNOWN_IDENTITY);
                };
                self.hash_message(message);
                self.make_keys(Some(&key))?;
                self.identity = exchange.identity.to_vec();
                self.step = Step::Finished;
                Ok(())
            }
            (Step::Finished, HandshakeType::Finished) => {
                self.check_finished(message)?;
                let pieces = self.finished()?.into();
                self.step = Step::Done;
                self.fly(pieces, now);
                Ok(())
            }
            _ => Err("a message came out of turn"),
        }
    }
}
