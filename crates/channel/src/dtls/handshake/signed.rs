//! The messages with certificates, raw public keys and signatures (RFC 5246 section 7.4, RFC 8422,
//! RFC 7250), of both sides.
//!
//! The server signs its ephemeral key and both randoms, and the client all messages so far. So a peer
//! has the private key of what it shows, in this handshake. The suite, and with it the way of proof,
//! is under the server's signature and the Finished of both. A side offers pre-shared keys or
//! signatures only if it has them, so nobody can move it from one to the other.

use alloc::vec::Vec;

use antedate_wire::dtls::handshake::certificates::{
    CertificateRequest, CertificateType, ECDSA_SIGN, Signature, SignatureScheme, SignedKeyExchange,
};
use antedate_wire::dtls::handshake::{
    Alert, AlertDescription, ExtensionType, Extensions, HandshakeType, Writer,
};
use sha2::{Digest, Sha256, Sha384};

use super::super::KeyExchange;
use super::super::credentials::PublicKey;
use super::assembly::Message;
use super::connection::{Connection, Step};
use super::flight::{Piece, ROOM};
use super::group::Group;
use super::misfit::{Misfit, NO_COMMON_TYPE, WRONG_SIGNATURE};
use super::{Asks, Credentials, Distrust, Keyring, Settings, Shown};

const OTHER_SCHEME: Misfit = "the peer signs with an algorithm that was not offered";
/// The most judgements, and the most wrong signatures, in a handshake: anybody can send certificates
/// and signatures to a handshake in progress, and each costs some verifications.
const MAX_WRONG: u8 = 3;

/// Algorithms of signatures, the favourite first. A peer signs with the first two; authorities may use
/// the others.
const SCHEMES: [SignatureScheme; 5] = [
    SignatureScheme::EcdsaSha256,
    SignatureScheme::EcdsaSha384,
    SignatureScheme::RsaPkcs1Sha256,
    SignatureScheme::RsaPkcs1Sha384,
    SignatureScheme::RsaPkcs1Sha512,
];

/// What a server shows, and asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// The place in the server's credentials.
    pub(super) own: usize,
    pub(super) theirs: Option<CertificateType>,
}

fn schemes() -> Vec<u8> {
    SCHEMES.iter().flat_map(|scheme| scheme.number().to_be_bytes()).collect()
}

/// Adds a client's extensions.
pub(super) fn offer(extra: &mut Writer<'_>, settings: &Settings, credentials: &Credentials) {
    let mut says = [0; 64];
    let mut list = Writer::new(&mut says);
    list.vector16(&schemes());
    extra.extension(ExtensionType::SignatureAlgorithms, list.finish().unwrap_or_default());
    // Certificates are what a hello without these extensions means (RFC 7250 section 4.1).
    let mut types = |kind, list: &[CertificateType]| {
        if list.iter().any(|kind| *kind != CertificateType::X509) {
            let numbers: Vec<u8> = list.iter().map(|kind| kind.number()).collect();
            let mut says = [0; 8];
            let mut inner = Writer::new(&mut says);
            inner.vector8(&numbers);
            extra.extension(kind, inner.finish().unwrap_or_default());
        }
    };
    if let Some((own, _)) = credentials.signed() {
        types(ExtensionType::ClientCertificateType, &[own]);
    }
    types(ExtensionType::ServerCertificateType, &settings.accepts);
    if let Some(name) = &settings.server_name {
        let mut inner = [0; 300];
        let mut entry = Writer::new(&mut inner);
        entry.octets(&[0]).vector16(name.as_bytes());
        let mut says = [0; 300];
        let mut list = Writer::new(&mut says);
        list.vector16(entry.finish().unwrap_or_default());
        if let Ok(says) = list.finish() {
            extra.extension(ExtensionType::ServerName, says);
        }
    }
}

/// The digest under a signature.
fn digest(scheme: SignatureScheme, parts: &[&[u8]]) -> Result<Vec<u8>, Misfit> {
    match scheme {
        SignatureScheme::EcdsaSha256 => Ok(Sha256::digest(parts.concat()).to_vec()),
        SignatureScheme::EcdsaSha384 => Ok(Sha384::digest(parts.concat()).to_vec()),
        _ => Err(OTHER_SCHEME),
    }
}

impl Connection {
    /// Whether a message with certificates may come.
    pub(super) fn awaits_certificate(&self) -> bool {
        match self.step {
            Step::ServerHello => !matches!(self.credentials, Credentials::Psk(_)),
            Step::ServerHelloDone => self.is_signed() && self.proof.key.is_none(),
            Step::ClientCertificate => true,
            _ => false,
        }
    }

    /// Whether we show something, if asked.
    #[cfg(test)]
    pub(super) const fn shows_own(&self) -> bool {
        self.proof.own.is_some()
    }

    /// Whether the suite has signatures.
    pub(super) fn is_signed(&self) -> bool {
        self.suite.is_some_and(|suite| suite.exchange() == KeyExchange::EcdheEcdsa)
    }

    /// The types in a ServerHello.
    pub(super) fn agree_on_types(&mut self, extensions: &Extensions<'_>) -> Result<(), Misfit> {
        let chosen = |kind| match extensions.get(kind) {
            None => Ok(CertificateType::X509),
            Some(&[number]) => Ok(CertificateType::from(number)),
            Some(_) => Err("a type of certificate cannot be read"),
        };
        let theirs = chosen(ExtensionType::ServerCertificateType)?;
        let ours = chosen(ExtensionType::ClientCertificateType)?;
        if !self.settings.accepts.contains(&theirs) {
            return Err(NO_COMMON_TYPE);
        }
        self.proof.theirs = Some(theirs);
        // Without a common type the client fails if it is asked.
        let fits = self.credentials.signed().is_some_and(|(kind, _)| kind == ours);
        self.proof.own = fits.then(|| self.credentials.clone());
        Ok(())
    }

    /// Judges what the peer shows.
    fn judge(&mut self, message: &Message, keyring: &dyn Keyring) -> Result<(), Misfit> {
        let refuse = |this: &mut Self, reason: Distrust| {
            this.proof.refused = Some(reason);
            this.say(Alert { fatal: true, description: reason.alert() });
            Err(reason.text())
        };
        let kind = self.proof.theirs.ok_or("nothing was asked for")?;
        let Some(shown) = Shown::new(kind, self.is_client, &message.body) else {
            return refuse(self, Distrust::Malformed);
        };
        if shown.entries().is_empty() {
            if !self.is_client && self.settings.asks == Asks::Politely {
                self.hash_message(message);
                return Ok(());
            }
            return refuse(self, Distrust::Nothing);
        }
        if self.proof.judged >= MAX_WRONG {
            return Err(self.proof.refused.map_or("too many certificates came", Distrust::text));
        }
        self.proof.judged += 1;
        match keyring.judge(&shown) {
            Err(reason) => refuse(self, reason),
            Ok(trusted) => {
                self.hash_message(message);
                self.identity = trusted.identity;
                (self.proof.key, self.proof.shown) = (Some(trusted.key), Some(shown));
                Ok(())
            }
        }
    }

    /// Verifies a signature of the peer.
    fn verify(&mut self, key: &PublicKey, digest: &[u8], signature: &[u8]) -> Result<(), Misfit> {
        if self.proof.wrong_signatures >= MAX_WRONG {
            return Err(WRONG_SIGNATURE);
        }
        if !key.verifies(digest, signature) {
            self.proof.wrong_signatures += 1;
            self.say(Alert { fatal: true, description: AlertDescription::DecryptError });
            return Err(WRONG_SIGNATURE);
        }
        Ok(())
    }

    /// Client: the server's certificates or raw public key.
    pub(super) fn server_certificate(
        &mut self,
        message: &Message,
        keyring: &dyn Keyring,
    ) -> Result<(), Misfit> {
        if !self.awaits_certificate() {
            return Err("a certificate came out of turn");
        }
        self.judge(message, keyring)
    }

    /// Client: the server's ephemeral key.
    pub(super) fn signed_key_exchange(&mut self, message: &Message) -> Result<(), Misfit> {
        let key = self.proof.key.filter(|_| self.peer_share.is_none());
        let key = key.ok_or("the server's key exchange came out of turn")?;
        let unreadable = "a ServerKeyExchange cannot be read";
        let exchange = SignedKeyExchange::parse(&message.body).map_err(|_| unreadable)?;
        let group =
            Group::from_number(exchange.group).ok_or("the server chose a group that was not offered")?;
        if !group.has(exchange.public) {
            return Err("the server's ephemeral key is no key");
        }
        let [client, server] = &self.randoms;
        let digest = digest(exchange.signature.scheme, &[client, server, exchange.params])?;
        self.verify(&key, &digest, exchange.signature.octets)?;
        self.hash_message(message);
        (self.group, self.peer_share) = (Some(group), Some(exchange.public.to_vec()));
        Ok(())
    }

    /// Client: the server asks.
    pub(super) fn certificate_request(&mut self, message: &Message) -> Result<(), Misfit> {
        if !self.is_signed() || self.peer_share.is_none() || self.proof.asked {
            return Err("a CertificateRequest came out of turn");
        }
        let unreadable = "a CertificateRequest cannot be read";
        let request = CertificateRequest::parse(&message.body).map_err(|_| unreadable)?;
        let has_own = self.credentials.signed().is_some();
        let fits = request.types.contains(&ECDSA_SIGN)
            && request.schemes().any(|scheme| scheme == SignatureScheme::EcdsaSha256);
        if has_own && !fits {
            return Err("the server accepts no signatures by ECDSA with SHA-256");
        }
        if has_own && self.proof.own.is_none() {
            return Err(NO_COMMON_TYPE);
        }
        self.hash_message(message);
        self.proof.asked = true;
        Ok(())
    }

    /// Client: the flight after ServerHelloDone, without ChangeCipherSpec and Finished.
    pub(super) fn signed_answer(&mut self) -> Result<Vec<Piece>, Misfit> {
        let (Some(group), true) = (self.group, self.peer_share.is_some()) else {
            return Err("the server's part of the key exchange is missing");
        };
        let mut pieces = Vec::new();
        let own = self.proof.own.clone().filter(|_| self.proof.asked);
        if self.proof.asked {
            let body = own.as_ref().unwrap_or(&Credentials::Anonymous).body();
            pieces.push(self.piece(HandshakeType::Certificate, &body, false));
        }
        let mut body = [0; ROOM];
        let mut writer = Writer::new(&mut body);
        writer.vector8(&group.public(&self.ephemeral)?);
        let body = writer.finish().map_err(|_| "the ephemeral key is too long")?;
        pieces.push(self.piece(HandshakeType::ClientKeyExchange, body, false));
        self.make_keys(None)?;
        if let Some((_, key)) = own.as_ref().and_then(Credentials::signed) {
            let signature = key.sign(&self.transcript.sha256()).ok_or("the key does not sign")?;
            let mut body = [0; ROOM];
            let mut writer = Writer::new(&mut body);
            Signature { scheme: SignatureScheme::EcdsaSha256, octets: &signature }.emit(&mut writer);
            let body = writer.finish().map_err(|_| "the signature is too long")?;
            pieces.push(self.piece(HandshakeType::CertificateVerify, body, false));
        }
        Ok(pieces)
    }

    /// Server: notes the choice for a client.
    pub(super) fn choose(&mut self, choice: Choice) {
        self.proof.own = self.settings.credentials.get(choice.own).cloned();
        (self.proof.theirs, self.proof.asked) = (choice.theirs, choice.theirs.is_some());
        if self.proof.asked {
            self.step = Step::ClientCertificate;
        }
    }

    /// Server: adds the extensions of a ServerHello.
    pub(super) fn answer_types(&self, hello: &Extensions<'_>, extra: &mut Writer<'_>) {
        let own = self.proof.own.as_ref().and_then(Credentials::signed).map(|(kind, _)| kind);
        for (extension, kind) in [
            (ExtensionType::ClientCertificateType, self.proof.theirs),
            (ExtensionType::ServerCertificateType, own),
        ] {
            if let (Some(kind), true) = (kind, hello.get(extension).is_some()) {
                extra.extension(extension, &[kind.number()]);
            }
        }
    }

    /// Server: the messages between ServerHello and ServerHelloDone.
    pub(super) fn signed_flight(&mut self, group: Group) -> Result<Vec<Piece>, Misfit> {
        let own = self.proof.own.clone().ok_or("no certificate")?;
        let (_, key) = own.signed().ok_or("no key")?;
        let mut pieces = alloc::vec![self.piece(HandshakeType::Certificate, &own.body(), false)];
        let mut params = [0; 128];
        let mut writer = Writer::new(&mut params);
        writer.server_share(group.number(), &group.public(&self.ephemeral)?);
        let params = writer.finish().map_err(|_| "the ephemeral key is too long")?;
        let [client, server] = &self.randoms;
        let digest = Sha256::digest([&client[..], server, params].concat()).into();
        let signature = key.sign(&digest).ok_or("the key does not sign")?;
        let mut body = [0; ROOM];
        let mut writer = Writer::new(&mut body);
        writer.octets(params);
        Signature { scheme: SignatureScheme::EcdsaSha256, octets: &signature }.emit(&mut writer);
        let body = writer.finish().map_err(|_| "the signature is too long")?;
        pieces.push(self.piece(HandshakeType::ServerKeyExchange, body, false));
        if self.proof.asked {
            let mut body = [0; ROOM];
            let mut writer = Writer::new(&mut body);
            // No names of authorities: the client has one chain.
            writer.vector8(&[ECDSA_SIGN]).vector16(&schemes()).vector16(&[]);
            let body = writer.finish().unwrap_or_default();
            pieces.push(self.piece(HandshakeType::CertificateRequest, body, false));
        }
        self.group = Some(group);
        Ok(pieces)
    }

    /// Server: the client's certificates or raw public key.
    pub(super) fn client_certificate(
        &mut self,
        message: &Message,
        keyring: &dyn Keyring,
    ) -> Result<(), Misfit> {
        self.judge(message, keyring)?;
        self.step = Step::ClientKeyExchange;
        Ok(())
    }

    /// Server: the client's ephemeral key, behind its certificates.
    pub(super) fn signed_client_exchange(&mut self, message: &Message, share: &[u8]) -> Result<(), Misfit> {
        if !self.group.is_some_and(|group| group.has(share)) {
            return Err("the client's ephemeral key is no key");
        }
        self.peer_share = Some(share.to_vec());
        self.hash_message(message);
        self.make_keys(None)?;
        self.step = if self.proof.key.is_some() { Step::CertificateVerify } else { Step::Finished };
        Ok(())
    }

    /// Server: the client's signature.
    pub(super) fn certificate_verify(&mut self, message: &Message) -> Result<(), Misfit> {
        let unreadable = "a CertificateVerify cannot be read";
        let signature = Signature::parse(&message.body).map_err(|_| unreadable)?;
        let key = self.proof.key.ok_or("the client has shown no key")?;
        let digest = match signature.scheme {
            SignatureScheme::EcdsaSha256 => self.transcript.sha256().to_vec(),
            SignatureScheme::EcdsaSha384 => self.transcript.hash(super::super::Hash::Sha384),
            _ => return Err(OTHER_SCHEME),
        };
        self.verify(&key, &digest, signature.octets)?;
        self.hash_message(message);
        self.step = Step::Finished;
        Ok(())
    }
}
