//! The messages of a handshake with certificates (RFC 5246 sections 7.4.2, 7.4.4 and 7.4.8, RFC 8422
//! section 5) or raw public keys (RFC 7250).

use super::{NAMED_CURVE, Reader, Writer};
use crate::{Error, Result};

wire_enum! {
    /// What a side shows in its Certificate message (RFC 7250 section 3).
    pub enum CertificateType(u8) {
        /// certificates
        X509 = 0,
        /// a public key alone
        RawPublicKey = 2,
    }
}

wire_enum! {
    /// An algorithm of signatures, in TLS 1.2 a hash and a kind of key (RFC 5246 section 7.4.1.4.1,
    /// with the names of RFC 8446 section 4.2.3).
    pub enum SignatureScheme(u16) {
        /// RSA PKCS #1 v1.5 with SHA-256; in certificates alone
        RsaPkcs1Sha256 = 0x0401,
        /// ECDSA with SHA-256; here on P-256
        EcdsaSha256 = 0x0403,
        /// RSA PKCS #1 v1.5 with SHA-384; in certificates alone
        RsaPkcs1Sha384 = 0x0501,
        /// ECDSA with SHA-384; in certificates alone
        EcdsaSha384 = 0x0503,
        /// RSA PKCS #1 v1.5 with SHA-512; in certificates alone
        RsaPkcs1Sha512 = 0x0601,
    }
}

/// The kind of key of a client's certificate for ECDSA (RFC 8422 section 5.5).
pub const ECDSA_SIGN: u8 = 64;

/// The body of a Certificate message that holds certificates, that of the sender first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Certificates<'a>(&'a [u8]);

impl<'a> Certificates<'a> {
    /// Reads the message's body, and checks that every certificate is complete and none is empty.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let list = reader.vector(3)?;
        let mut walk = Reader(list);
        while !walk.0.is_empty() {
            if walk.vector(3)?.is_empty() {
                return Err(Error::Length);
            }
        }
        reader.end(Self(list))
    }

    /// The certificates, in DER.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut reader = Reader(self.0);
        core::iter::from_fn(move || reader.vector(3).ok())
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reads the body of a Certificate message that holds a raw public key, a SubjectPublicKeyInfo in
/// DER; empty if the sender has none.
pub fn raw_public_key(bytes: &[u8]) -> Result<&[u8]> {
    let mut reader = Reader(bytes);
    let key = reader.vector(3)?;
    reader.end(key)
}

/// The server's signed part of the key exchange (RFC 8422 section 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedKeyExchange<'a> {
    /// curve type, group and public key, which are signed behind both randoms
    pub params: &'a [u8],
    /// the named group
    pub group: u16,
    /// the server's public key of the exchange
    pub public: &'a [u8],
    /// the signature
    pub signature: Signature<'a>,
}

impl<'a> SignedKeyExchange<'a> {
    /// Reads the message's body.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        if reader.integer(1)? != NAMED_CURVE {
            return Err(Error::Value);
        }
        let group = reader.integer(2)? as u16;
        let public = reader.vector(1)?;
        let params = bytes.get(..bytes.len() - reader.0.len()).ok_or(Error::Truncated)?;
        let signature = Signature::read(&mut reader)?;
        reader.end(Self { params, group, public, signature })
    }
}

/// A signature and its algorithm; the body of a CertificateVerify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature<'a> {
    /// the algorithm
    pub scheme: SignatureScheme,
    /// the signature, for ECDSA in DER
    pub octets: &'a [u8],
}

impl<'a> Signature<'a> {
    /// Reads a CertificateVerify's body.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let signature = Self::read(&mut reader)?;
        reader.end(signature)
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let scheme = SignatureScheme::from(reader.integer(2)? as u16);
        Ok(Self { scheme, octets: reader.vector(2)? })
    }

    /// Appends it.
    pub fn emit(&self, writer: &mut Writer<'_>) {
        writer.integer16(self.scheme.number()).vector16(self.octets);
    }
}

/// The server's request for the client's certificates or raw public key. The names of authorities
/// are not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateRequest<'a> {
    /// the kinds of keys
    pub types: &'a [u8],
    schemes: &'a [u8],
}

impl<'a> CertificateRequest<'a> {
    /// Reads the message's body.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let types = reader.vector(1)?;
        let schemes = reader.vector(2)?;
        let authorities = reader.vector(2)?;
        if types.is_empty() || schemes.is_empty() || !schemes.len().is_multiple_of(2) {
            return Err(Error::Length);
        }
        let mut walk = Reader(authorities);
        while !walk.0.is_empty() {
            walk.vector(2)?;
        }
        reader.end(Self { types, schemes })
    }

    /// The algorithms of signatures.
    pub fn schemes(&self) -> impl Iterator<Item = SignatureScheme> + use<'a> {
        self.schemes.as_chunks().0.iter().map(|pair| u16::from_be_bytes(*pair).into())
    }
}

/// Reads the body of a ClientKeyExchange with the client's public key alone (RFC 8422 section 5.7).
pub fn client_share(bytes: &[u8]) -> Result<&[u8]> {
    let mut reader = Reader(bytes);
    let share = reader.vector(1)?;
    reader.end(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_counted_and_whole() {
        let list = b"\0\0\x09\0\0\x02ab\0\0\x01c";
        let parsed = Certificates::parse(list).unwrap();
        assert!(parsed.iter().eq([&b"ab"[..], b"c"]) && !parsed.is_empty());
        for len in 0..list.len() {
            assert!(Certificates::parse(&list[..len]).is_err(), "{len}");
        }
        assert_eq!(Certificates::parse(b"\0\0\x03\0\0\0"), Err(Error::Length));
        assert_eq!(Certificates::parse(b"\0\0\x04\0\0\x02a"), Err(Error::Truncated));
        assert!(Certificates::parse(b"\0\0\0").unwrap().is_empty());
        assert_eq!(Certificates::parse(b"\0\0\0\0"), Err(Error::Length));
        assert_eq!(raw_public_key(b"\0\0\x02ab"), Ok(&b"ab"[..]));
        assert_eq!(raw_public_key(b"\0\0\x02abc"), Err(Error::Length));
    }

    #[test]
    fn signed_part_ends_before_the_signature() {
        let mut out = [0; 32];
        let mut writer = Writer::new(&mut out);
        writer.server_share(23, b"point");
        Signature { scheme: SignatureScheme::EcdsaSha256, octets: b"sig" }.emit(&mut writer);
        let octets = writer.finish().unwrap();
        let parsed = SignedKeyExchange::parse(octets).unwrap();
        assert_eq!(parsed.params, b"\x03\0\x17\x05point");
        assert_eq!((parsed.group, parsed.public), (23, &b"point"[..]));
        assert_eq!((parsed.signature.scheme.number(), parsed.signature.octets), (0x0403, &b"sig"[..]));
        for len in 0..octets.len() {
            assert!(SignedKeyExchange::parse(&octets[..len]).is_err(), "{len}");
        }
        assert_eq!(SignedKeyExchange::parse(b"\x01\0\x17\0\x04\x03\0\0"), Err(Error::Value));
        assert_eq!(Signature::parse(b"\x04\x03\0\x01ab"), Err(Error::Length));
    }

    #[test]
    fn request_names_kinds_and_algorithms() {
        let parsed = CertificateRequest::parse(b"\x02\x01\x40\0\x04\x04\x03\x05\x03\0\x03\0\x01x").unwrap();
        assert!(parsed.types.contains(&ECDSA_SIGN));
        assert!(parsed.schemes().eq([SignatureScheme::EcdsaSha256, SignatureScheme::EcdsaSha384]));
        for wrong in [&b"\0\0\x02\x04\x03\0\0"[..], b"\x01\x40\0\0\0\0", b"\x01\x40\0\x03\x04\x03\0\0\0"] {
            assert_eq!(CertificateRequest::parse(wrong), Err(Error::Length));
        }
        assert_eq!(CertificateRequest::parse(b"\x01\x40\0\x02\x04\x03\0\x02\0\x01"), Err(Error::Truncated));
        assert_eq!(client_share(b"\x02ab"), Ok(&b"ab"[..]));
        assert_eq!(client_share(b"\x02abc"), Err(Error::Length));
    }
}
