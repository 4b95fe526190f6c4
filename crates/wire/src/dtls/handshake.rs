//! The messages of a DTLS 1.2 handshake (RFC 6347 section 4.2, RFC 5246 section 7.4), with
//! pre-shared keys (RFC 4279, RFC 5489). Those with certificates are in [`certificates`].
//!
//! Each message has a header of twelve octets, and may be split into fragments:
//!
//! ```text
//!   type 1, length 3, message number 2, fragment's offset 3, fragment's length 3, fragment
//! ```

pub mod certificates;

use crate::{Error, Result};

/// Octets of the header of a handshake message or fragment.
pub const HEADER_LEN: usize = 12;
/// Octets of a random.
pub const RANDOM_LEN: usize = 32;

wire_enum! {
    /// The type of a handshake message.
    pub enum HandshakeType(u8) {
        /// the server asks for a new handshake
        HelloRequest = 0,
        /// the client's offer
        ClientHello = 1,
        /// the server's choice
        ServerHello = 2,
        /// a cookie for the client (RFC 6347 section 4.2.1)
        HelloVerifyRequest = 3,
        /// certificates, or a raw public key
        Certificate = 11,
        /// the server's part of the key exchange
        ServerKeyExchange = 12,
        /// the server asks for the client's certificates
        CertificateRequest = 13,
        /// end of the server's flight
        ServerHelloDone = 14,
        /// the client's signature of the handshake
        CertificateVerify = 15,
        /// the client's part of the key exchange
        ClientKeyExchange = 16,
        /// the first message under the new keys
        Finished = 20,
    }
}

wire_enum! {
    /// The type of an extension of a hello.
    pub enum ExtensionType(u16) {
        /// the server's name (RFC 6066 section 3)
        ServerName = 0,
        /// the client's groups
        SupportedGroups = 10,
        /// encodings of curve points
        EcPointFormats = 11,
        /// algorithms of signatures (RFC 5246 section 7.4.1.4.1)
        SignatureAlgorithms = 13,
        /// what a client proves itself with (RFC 7250)
        ClientCertificateType = 19,
        /// what a server proves itself with (RFC 7250)
        ServerCertificateType = 20,
        /// the master secret depends on the whole handshake (RFC 7627)
        ExtendedMasterSecret = 23,
        /// the client's versions (RFC 8446 section 4.2.1)
        SupportedVersions = 43,
        /// connection IDs (RFC 9146)
        ConnectionId = 54,
        /// secure renegotiation (RFC 5746)
        RenegotiationInfo = 0xff01,
    }
}

wire_enum! {
    /// The description of an alert (RFC 5246 section 7.2).
    pub enum AlertDescription(u8) {
        /// end of the connection
        CloseNotify = 0,
        /// an unexpected message
        UnexpectedMessage = 10,
        /// a record was not authentic
        BadRecordMac = 20,
        /// no acceptable parameters
        HandshakeFailure = 40,
        /// a certificate cannot be read
        BadCertificate = 42,
        /// a certificate of a kind that is not read
        UnsupportedCertificate = 43,
        /// a certificate that its issuer has revoked
        CertificateRevoked = 44,
        /// a certificate out of its time
        CertificateExpired = 45,
        /// a certificate is refused for another reason
        CertificateUnknown = 46,
        /// a field had an impossible value
        IllegalParameter = 47,
        /// nobody who is trusted has issued the certificate
        UnknownCa = 48,
        /// a valid certificate or key without permission
        AccessDenied = 49,
        /// a malformed message
        DecodeError = 50,
        /// a wrong Finished
        DecryptError = 51,
        /// an unsupported version
        ProtocolVersion = 70,
        /// a failure that is not the peer's fault
        InternalError = 80,
        /// no second handshake in a connection
        NoRenegotiation = 100,
        /// an extension that was not offered
        UnsupportedExtension = 110,
        /// an unknown identity (RFC 4279)
        UnknownPskIdentity = 115,
    }
}

/// An alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alert {
    /// whether the alert ends the connection
    pub fatal: bool,
    /// its description
    pub description: AlertDescription,
}

impl Alert {
    /// Reads an alert.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let [level, description] = *bytes else { return Err(Error::Length) };
        let fatal = match level {
            1 => false,
            2 => true,
            _ => return Err(Error::Value),
        };
        Ok(Self { fatal, description: description.into() })
    }

    /// The octets.
    pub const fn emit(self) -> [u8; 2] {
        [if self.fatal { 2 } else { 1 }, self.description.number()]
    }
}

/// A reader from the front of some octets.
#[derive(Debug, Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    /// An integer of up to four octets.
    fn integer(&mut self, octets: usize) -> Result<usize> {
        Ok(self.take(octets)?.iter().fold(0, |value, octet| value << 8 | usize::from(*octet)))
    }

    /// A vector behind its length of `octets` octets.
    fn vector(&mut self, octets: usize) -> Result<&'a [u8]> {
        let len = self.integer(octets)?;
        self.take(len)
    }

    fn random(&mut self) -> Result<[u8; RANDOM_LEN]> {
        self.take(RANDOM_LEN)?.try_into().map_err(|_| Error::Truncated)
    }

    fn end<T>(self, value: T) -> Result<T> {
        if self.0.is_empty() { Ok(value) } else { Err(Error::Length) }
    }
}

/// A fragment of a handshake message, or all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// the message's type
    pub kind: HandshakeType,
    /// octets of the whole message
    pub length: usize,
    /// the message's number in this handshake
    pub message: u16,
    /// the fragment's place in the message
    pub offset: usize,
    /// the fragment
    pub octets: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// Reads the first fragment of a record and returns it with the octets behind it.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let mut reader = Reader(bytes);
        let kind = HandshakeType::from(reader.integer(1)? as u8);
        let length = reader.integer(3)?;
        let message = reader.integer(2)? as u16;
        let offset = reader.integer(3)?;
        let octets = reader.vector(3)?;
        if offset + octets.len() > length {
            return Err(Error::Length);
        }
        Ok((Self { kind, length, message, offset, octets }, reader.0))
    }

    /// The header.
    pub const fn header(&self) -> [u8; HEADER_LEN] {
        let [_, a, b, c] = (self.length as u32).to_be_bytes();
        let [m, n] = self.message.to_be_bytes();
        let [_, d, e, f] = (self.offset as u32).to_be_bytes();
        let [_, g, h, i] = (self.octets.len() as u32).to_be_bytes();
        [self.kind.number(), a, b, c, m, n, d, e, f, g, h, i]
    }
}

/// A list of extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extensions<'a>(&'a [u8]);

impl<'a> Extensions<'a> {
    /// Reads the end of a hello, and checks that every extension is complete.
    fn parse(mut reader: Reader<'a>) -> Result<Self> {
        if reader.0.is_empty() {
            return Ok(Self(&[]));
        }
        let octets = reader.vector(2)?;
        let mut walk = Reader(octets);
        while !walk.0.is_empty() {
            walk.take(2)?;
            walk.vector(2)?;
        }
        reader.end(Self(octets))
    }

    /// Type and content of each extension.
    pub fn iter(&self) -> impl Iterator<Item = (ExtensionType, &'a [u8])> + use<'a> {
        let mut reader = Reader(self.0);
        core::iter::from_fn(move || {
            let kind = reader.integer(2).ok()? as u16;
            Some((ExtensionType::from(kind), reader.vector(2).ok()?))
        })
    }

    /// The content of the extension of a type.
    pub fn get(&self, kind: ExtensionType) -> Option<&'a [u8]> {
        self.iter().find(|(other, _)| *other == kind).map(|(_, says)| says)
    }

    /// The connection ID chosen by the sender, if it sent the extension.
    pub fn connection_id(&self) -> Result<Option<&'a [u8]>> {
        let Some(says) = self.get(ExtensionType::ConnectionId) else { return Ok(None) };
        let mut reader = Reader(says);
        let cid = reader.vector(1)?;
        reader.end(Some(cid))
    }

    /// The numbers of an extension that is a list of numbers of two octets, behind the list's length
    /// of two octets. Empty if there is no such extension.
    pub fn list16(&self, kind: ExtensionType) -> Result<impl Iterator<Item = u16> + use<'a>> {
        let list = match self.get(kind) {
            Some(says) => {
                let mut reader = Reader(says);
                let list = reader.vector(2)?;
                reader.end(list)?
            }
            None => &[],
        };
        if !list.len().is_multiple_of(2) {
            return Err(Error::Length);
        }
        Ok(list.as_chunks().0.iter().map(|pair| u16::from_be_bytes(*pair)))
    }

    /// The octets of an extension that is a list behind its length of one octet, if there is one.
    pub fn list8(&self, kind: ExtensionType) -> Result<Option<&'a [u8]>> {
        let Some(says) = self.get(kind) else { return Ok(None) };
        let mut reader = Reader(says);
        let list = reader.vector(1)?;
        if list.is_empty() { Err(Error::Length) } else { reader.end(Some(list)) }
    }

    /// The octets.
    pub const fn octets(&self) -> &'a [u8] {
        self.0
    }
}

/// The front of a ClientHello up to the cookie, which the first fragment has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientHelloFront<'a> {
    /// the highest version
    pub version: u16,
    /// the client's random
    pub random: [u8; RANDOM_LEN],
    /// a session to resume
    pub session: &'a [u8],
    /// the cookie of a HelloVerifyRequest
    pub cookie: &'a [u8],
}

impl<'a> ClientHelloFront<'a> {
    /// Reads the front of the message's body.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        Self::read(&mut Reader(bytes))
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let version = reader.integer(2)? as u16;
        let random = reader.random()?;
        let session = reader.vector(1)?;
        let cookie = reader.vector(1)?;
        if session.len() > 32 {
            return Err(Error::Length);
        }
        Ok(Self { version, random, session, cookie })
    }
}

/// The client's offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientHello<'a> {
    /// the highest version
    pub version: u16,
    /// the client's random
    pub random: [u8; RANDOM_LEN],
    /// a session to resume
    pub session: &'a [u8],
    /// the cookie of a HelloVerifyRequest
    pub cookie: &'a [u8],
    /// cipher suites, two octets each
    suites: &'a [u8],
    /// compression methods
    pub compressions: &'a [u8],
    /// extensions
    pub extensions: Extensions<'a>,
}

impl<'a> ClientHello<'a> {
    /// Reads the message's body.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let ClientHelloFront { version, random, session, cookie } = ClientHelloFront::read(&mut reader)?;
        let suites = reader.vector(2)?;
        let compressions = reader.vector(1)?;
        if suites.is_empty() || suites.len() % 2 == 1 || compressions.is_empty() {
            return Err(Error::Length);
        }
        let extensions = Extensions::parse(reader)?;
        Ok(Self { version, random, session, cookie, suites, compressions, extensions })
    }

    /// The cipher suites in the client's order of preference.
    pub fn suites(&self) -> impl Iterator<Item = u16> + use<'a> {
        self.suites.as_chunks().0.iter().map(|pair| u16::from_be_bytes(*pair))
    }

    /// The cipher suites as on the wire.
    pub const fn suite_octets(&self) -> &'a [u8] {
        self.suites
    }
}

/// A cookie for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HelloVerifyRequest<'a> {
    /// the version; it has no meaning here
    pub version: u16,
    /// the cookie
    pub cookie: &'a [u8],
}

impl<'a> HelloVerifyRequest<'a> {
    /// Reads the message's body.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let version = reader.integer(2)? as u16;
        let cookie = reader.vector(1)?;
        reader.end(Self { version, cookie })
    }
}

/// The server's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerHello<'a> {
    /// the version
    pub version: u16,
    /// the server's random
    pub random: [u8; RANDOM_LEN],
    /// the session, for resuming it later
    pub session: &'a [u8],
    /// the cipher suite
    pub suite: u16,
    /// the compression method
    pub compression: u8,
    /// extensions
    pub extensions: Extensions<'a>,
}

impl<'a> ServerHello<'a> {
    /// Reads the message's body.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let version = reader.integer(2)? as u16;
        let random = reader.random()?;
        let session = reader.vector(1)?;
        if session.len() > 32 {
            return Err(Error::Length);
        }
        let suite = reader.integer(2)? as u16;
        let compression = reader.integer(1)? as u8;
        let extensions = Extensions::parse(reader)?;
        Ok(Self { version, random, session, suite, compression, extensions })
    }
}

/// The server's part of the key exchange: a hint, and its point for ECDHE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerKeyExchange<'a> {
    /// the server's identity hint
    pub hint: &'a [u8],
    /// the named group and the server's public key (RFC 8422 section 5.4)
    pub share: Option<(u16, &'a [u8])>,
}

/// The curve type of a named group.
const NAMED_CURVE: usize = 3;

impl<'a> ServerKeyExchange<'a> {
    /// Reads the message's body, for a suite with or without ECDHE.
    pub fn parse(bytes: &'a [u8], ecdhe: bool) -> Result<Self> {
        let mut reader = Reader(bytes);
        let hint = reader.vector(2)?;
        let share = if ecdhe {
            if reader.integer(1)? != NAMED_CURVE {
                return Err(Error::Value);
            }
            let group = reader.integer(2)? as u16;
            Some((group, reader.vector(1)?))
        } else {
            None
        };
        reader.end(Self { hint, share })
    }
}

/// The client's part of the key exchange: its identity, and its point for ECDHE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientKeyExchange<'a> {
    /// the identity of the key
    pub identity: &'a [u8],
    /// the client's public key
    pub share: Option<&'a [u8]>,
}

impl<'a> ClientKeyExchange<'a> {
    /// Reads the message's body, for a suite with or without ECDHE.
    pub fn parse(bytes: &'a [u8], ecdhe: bool) -> Result<Self> {
        let mut reader = Reader(bytes);
        let identity = reader.vector(2)?;
        let share = if ecdhe { Some(reader.vector(1)?) } else { None };
        reader.end(Self { identity, share })
    }
}

/// Writes a message's body field by field into the caller's memory.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
    full: bool,
}

impl<'a> Writer<'a> {
    /// Writes to the front of `out`.
    pub const fn new(out: &'a mut [u8]) -> Self {
        Self { out, len: 0, full: false }
    }

    /// Appends octets.
    pub fn octets(&mut self, octets: &[u8]) -> &mut Self {
        match self.out.get_mut(self.len..self.len + octets.len()) {
            Some(place) => {
                place.copy_from_slice(octets);
                self.len += octets.len();
            }
            None => self.full = true,
        }
        self
    }

    /// Appends a vector behind a length of one octet.
    pub fn vector8(&mut self, octets: &[u8]) -> &mut Self {
        self.full |= octets.len() > 0xff;
        self.octets(&[octets.len() as u8]).octets(octets)
    }

    /// Appends a vector behind a length of two octets.
    pub fn vector16(&mut self, octets: &[u8]) -> &mut Self {
        self.full |= octets.len() > 0xffff;
        self.octets(&(octets.len() as u16).to_be_bytes()).octets(octets)
    }

    /// Appends a vector behind a length of three octets.
    pub fn vector24(&mut self, octets: &[u8]) -> &mut Self {
        self.full |= octets.len() as u64 > 0xff_ffff;
        let [_, length @ ..] = (octets.len() as u32).to_be_bytes();
        self.octets(&length).octets(octets)
    }

    /// Appends an integer of two octets.
    pub fn integer16(&mut self, value: u16) -> &mut Self {
        self.octets(&value.to_be_bytes())
    }

    /// Appends an extension.
    pub fn extension(&mut self, kind: ExtensionType, says: &[u8]) -> &mut Self {
        self.integer16(kind.number()).vector16(says)
    }

    /// Appends the server's part of an ECDHE exchange: the named group and the public key.
    pub fn server_share(&mut self, group: u16, public: &[u8]) -> &mut Self {
        self.octets(&[NAMED_CURVE as u8]).integer16(group).vector8(public)
    }

    /// The written octets; an error if the memory was too short.
    pub fn finish(self) -> Result<&'a [u8]> {
        if self.full {
            return Err(Error::Truncated);
        }
        let Self { out, len, .. } = self;
        out.get(..len).ok_or(Error::Truncated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_hello(out: &mut [u8]) -> &[u8] {
        let mut writer = Writer::new(out);
        writer.integer16(0xfefd).octets(&[7; 32]).vector8(&[]).vector8(b"cookie");
        writer.vector16(&[0xc0, 0xa8, 0, 0xff]).vector8(&[0]);
        let mut extensions = [0; 20];
        let mut inner = Writer::new(&mut extensions);
        inner.extension(ExtensionType::ExtendedMasterSecret, &[]);
        inner.extension(ExtensionType::ConnectionId, &[2, 0xaa, 0xbb]);
        writer.vector16(inner.finish().unwrap());
        writer.finish().unwrap()
    }

    #[test]
    fn client_hello_round_trips() {
        let mut out = [0; 100];
        let octets = client_hello(&mut out);
        let hello = ClientHello::parse(octets).unwrap();
        assert_eq!((hello.version, hello.random, hello.cookie), (0xfefd, [7; 32], &b"cookie"[..]));
        assert!(hello.suites().eq([0xc0a8, 0x00ff]));
        assert_eq!(hello.extensions.get(ExtensionType::ExtendedMasterSecret), Some(&[][..]));
        assert_eq!(hello.extensions.get(ExtensionType::SupportedGroups), None);
        assert_eq!(hello.extensions.connection_id(), Ok(Some(&[0xaa, 0xbb][..])));
    }

    #[test]
    fn truncated_hello_is_refused() {
        let mut out = [0; 100];
        let octets = client_hello(&mut out);
        let bare = octets.len() - 13;
        for len in 0..octets.len() {
            assert_eq!(ClientHello::parse(&octets[..len]).is_ok(), len == bare, "{len}");
        }
    }

    #[test]
    fn fragment_stays_within_its_message() {
        let fragment =
            Fragment { kind: HandshakeType::Finished, length: 12, message: 3, offset: 4, octets: &[1, 2, 3] };
        let mut octets = fragment.header().to_vec();
        octets.extend([1, 2, 3, 9]);
        assert_eq!(Fragment::parse(&octets), Ok((fragment, &[9][..])));
        octets[8] = 10;
        assert_eq!(Fragment::parse(&octets), Err(Error::Length));
        assert_eq!(Fragment::parse(&octets[..11]), Err(Error::Truncated));
    }

    #[test]
    fn key_exchange_point_is_optional() {
        let mut out = [0; 64];
        let mut writer = Writer::new(&mut out);
        writer.vector16(b"hint").server_share(29, &[5; 32]);
        let octets = writer.finish().unwrap();
        let expected = ServerKeyExchange { hint: b"hint", share: Some((29, &[5; 32])) };
        assert_eq!(ServerKeyExchange::parse(octets, true), Ok(expected));
        assert_eq!(ServerKeyExchange::parse(octets, false), Err(Error::Length));
        assert_eq!(
            ClientKeyExchange::parse(b"\0\x02h3", false),
            Ok(ClientKeyExchange { identity: b"h3", share: None })
        );
        assert_eq!(ClientKeyExchange::parse(b"\0\x02h3\x01", true), Err(Error::Truncated));
    }

    #[test]
    fn alerts_have_two_octets() {
        let alert = Alert { fatal: true, description: AlertDescription::UnknownPskIdentity };
        assert_eq!(alert.emit(), [2, 115]);
        assert_eq!(Alert::parse(&[2, 115]), Ok(alert));
        assert_eq!(Alert::parse(&[3, 0]), Err(Error::Value));
        assert_eq!(Alert::parse(&[1]), Err(Error::Length));
    }

    #[test]
    fn short_buffer_is_reported() {
        let mut out = [0; 3];
        let mut writer = Writer::new(&mut out);
        writer.vector16(&[1, 2]);
        assert_eq!(writer.finish(), Err(Error::Truncated));
    }
}
