//! Messages that one author signs and named readers open: key rotations of MQTT groups, and the
//! documents of a fleet.
//!
//! ```text
//! COSE_Sign1 (RFC 9052 section 4.2), EdDSA, external_aad << [purpose, subject] >>, of
//!   COSE_Encrypt (section 5.1), A256GCM, with for each reader a recipient
//!     ECDH-ES + A256KW over X25519 (RFC 9053 section 6.4): an ephemeral key, the reader's name as
//!     kid, the wrapped key
//! ```
//!
//! A reader that is left out cannot open the message. The signature covers who reads it, what it is
//! for and what it is about, so that nobody can pass it on under another heading.

use alloc::vec;
use alloc::{string::String, vec::Vec};
use core::fmt;

use aes_kw::{KeyInit, KwAes256};
use antedate_aead::{Aes256Gcm, Key, Nonce};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use hkdf::Hkdf;
use minicbor::{Decoder, Encoder, data::Tag};
use sha2::Sha256;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

/// The most readers of a message.
pub const READERS_MAX: usize = 4096;
/// The most bytes of a reader's name.
pub const NAME_MAX: usize = 64;

/// The protected header {1: -8}, EdDSA.
pub(crate) const EDDSA: &[u8] = &[0xa1, 0x01, 0x27];
/// {1: 3}, A256GCM.
const A256GCM: &[u8] = &[0xa1, 0x01, 0x03];
/// {1: -31}, ECDH-ES + A256KW.
const ECDH_ES_A256KW: &[u8] = &[0xa1, 0x01, 0x38, 0x1e];
/// A256KW, the algorithm of the derived key.
const A256KW: i64 = -5;

/// The heading of a message, which its signature covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heading<'a> {
    /// The protocol and its use, as in `antedate-mqtt rotation`.
    pub purpose: &'a str,
    /// The subject: a group, or a device.
    pub subject: &'a str,
}

/// A reader as known to the author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its X25519 public key.
    pub public: [u8; 32],
}

/// The reason for refusing a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    /// It has another form.
    Format,
    /// The author has not signed it under this heading.
    Signature,
    /// It is not sealed for this reader.
    NotReader,
    /// It is sealed for no reader at all.
    NoReader,
    /// The part sealed for this reader cannot be opened with its key.
    Unauthentic,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => "has another form",
            Self::Signature => "is not signed by its author",
            Self::NotReader => "is not sealed for this reader",
            Self::NoReader => "is sealed for no reader",
            Self::Unauthentic => "is sealed for this reader's name, but for another key than it has",
        })
    }
}

impl core::error::Error for OpenError {}

impl From<minicbor::decode::Error> for OpenError {
    fn from(_: minicbor::decode::Error) -> Self {
        Self::Format
    }
}

/// The reason for not making a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealError<E> {
    /// A reader's public key is of small order, and so invalid.
    PublicKey {
        /// The reader's index.
        member: usize,
    },
    /// A reader's name is empty or longer than 64 bytes.
    Name {
        /// The reader's index.
        member: usize,
    },
    /// There are more readers than [`READERS_MAX`].
    TooMany,
    /// The random number generator failed.
    Random(E),
}

impl<E: fmt::Display> fmt::Display for SealError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PublicKey { member } => write!(f, "the public key of member {member} is none"),
            Self::Name { member } => {
                write!(f, "the name of member {member} is empty or longer than {NAME_MAX} bytes")
            }
            Self::TooMany => write!(f, "a message has {READERS_MAX} members at most"),
            Self::Random(error) => write!(f, "the system gives no random numbers: {error}"),
        }
    }
}

impl<E: core::error::Error> core::error::Error for SealError<E> {}

/// The X25519 public key of a secret.
pub fn device_public(secret: &[u8; 32]) -> [u8; 32] {
    PublicKey::from(&StaticSecret::from(*secret)).to_bytes()
}

/// Whether a device's public key has a shared secret with others at all: the keys of small order
/// (RFC 7748 section 6.1) have none.
pub fn is_device_public(public: &[u8; 32]) -> bool {
    let mut reduced = *public;
    // X25519 ignores the highest bit.
    reduced[31] &= 0x7f;
    !SMALL_ORDER.contains(&reduced)
}

/// The encodings of points of order 1, 2, 4 and 8 on the curve and its twist, those above the prime
/// too.
pub(crate) const SMALL_ORDER: [[u8; 32]; 7] = {
    let (mut one, mut top) = ([0; 32], [0xff; 32]);
    one[0] = 1;
    top[31] = 0x7f;
    let (mut below, mut prime, mut above) = (top, top, top);
    (below[0], prime[0], above[0]) = (0xec, 0xed, 0xee);
    let eighth = [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda,
        0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
    ];
    let other_eighth = [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b, 0x04,
        0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57,
    ];
    [[0; 32], one, eighth, other_eighth, below, prime, above]
};

/// The Ed25519 public key of an author's secret.
pub fn author_public(secret: &[u8; 32]) -> [u8; 32] {
    SigningKey::from_bytes(secret).verifying_key().to_bytes()
}

impl Heading<'_> {
    /// The signed data: the Sig_structure (RFC 9052 section 4.4).
    pub(crate) fn to_be_signed(self, payload: &[u8]) -> Vec<u8> {
        let mut external = Vec::new();
        // Writing to a vector cannot fail, here and below.
        let _ = Encoder::new(&mut external)
            .array(2)
            .and_then(|e| e.str(self.purpose))
            .and_then(|e| e.str(self.subject));
        let mut bytes = Vec::new();
        let _ = Encoder::new(&mut bytes)
            .array(4)
            .and_then(|e| e.str("Signature1"))
            .and_then(|e| e.bytes(EDDSA))
            .and_then(|e| e.bytes(&external))
            .and_then(|e| e.bytes(payload));
        bytes
    }
}

/// The associated data of the COSE_Encrypt: its Enc_structure.
pub(crate) fn encrypt_structure() -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = Encoder::new(&mut bytes)
        .array(3)
        .and_then(|e| e.str("Encrypt"))
        .and_then(|e| e.bytes(A256GCM))
        .and_then(|e| e.bytes(&[]));
    bytes
}

/// The key that wraps a reader's copy: HKDF with SHA-256 over the COSE_KDF_Context (RFC 9053
/// section 5.2).
pub(crate) fn wrapping_key(shared: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    let mut context = Vec::new();
    let mut encoder = Encoder::new(&mut context);
    let _ = encoder.array(4).and_then(|e| e.i64(A256KW));
    for _ in 0..2 {
        let _ = encoder.array(3).and_then(|e| e.null()).and_then(|e| e.null()).and_then(|e| e.null());
    }
    let _ = encoder.array(2).and_then(|e| e.u32(256)).and_then(|e| e.bytes(ECDH_ES_A256KW));
    let mut key = Zeroizing::new([0; 32]);
    // So short an expansion cannot fail.
    let _ = Hkdf::<Sha256>::new(None, shared).expand(&context, &mut *key);
    key
}

/// Seals `plain` for the readers, and signs it. `random` fills a buffer from the system's generator.
///
/// # Errors
/// [`SealError`].
pub fn seal<E>(
    heading: Heading<'_>,
    plain: &[u8],
    author: &[u8; 32],
    readers: &[Reader<'_>],
    mut random: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<Vec<u8>, SealError<E>> {
    if readers.len() > READERS_MAX {
        return Err(SealError::TooMany);
    }
    let (mut key, mut nonce) = (Zeroizing::new([0; 32]), [0; 12]);
    random(&mut *key).map_err(SealError::Random)?;
    random(&mut nonce).map_err(SealError::Random)?;
    let cipher = Key::<Aes256Gcm>::new(&*key).unwrap_or_else(|_| unreachable!("a key of 32 bytes"));
    let mut sealed = vec![0; plain.len()];
    let tag = cipher.seal(Nonce::assume_unique(nonce), &encrypt_structure(), plain, &mut sealed);
    sealed.extend_from_slice(tag.as_bytes());

    let mut payload = Vec::with_capacity(160 + sealed.len() + 160 * readers.len());
    let mut encoder = Encoder::new(&mut payload);
    let _ = encoder
        .tag(Tag::new(96))
        .and_then(|e| e.array(4))
        .and_then(|e| e.bytes(A256GCM))
        .and_then(|e| e.map(1))
        .and_then(|e| e.u8(5))
        .and_then(|e| e.bytes(&nonce))
        .and_then(|e| e.bytes(&sealed))
        .and_then(|e| e.array(readers.len() as u64));
    for (member, Reader { name, public }) in readers.iter().enumerate() {
        if !(1..=NAME_MAX).contains(&name.len()) {
            return Err(SealError::Name { member });
        }
        let mut secret = Zeroizing::new([0; 32]);
        random(&mut *secret).map_err(SealError::Random)?;
        let ephemeral = StaticSecret::from(*secret);
        let shared = ephemeral.diffie_hellman(&PublicKey::from(*public));
        if !shared.was_contributory() {
            return Err(SealError::PublicKey { member });
        }
        let mut wrapped = [0; 40];
        let kek = wrapping_key(shared.as_bytes());
        let _ = KwAes256::new(&(*kek).into()).wrap_key(&*key, &mut wrapped);
        let _ = encoder
            .array(3)
            .and_then(|e| e.bytes(ECDH_ES_A256KW))
            .and_then(|e| e.map(2))
            .and_then(|e| e.u8(4))
            .and_then(|e| e.bytes(name))
            .and_then(|e| e.i8(-1))
            .and_then(|e| e.map(3))
            .and_then(|e| e.u8(1)?.u8(1)?.i8(-1)?.u8(4)?.i8(-2))
            .and_then(|e| e.bytes(PublicKey::from(&ephemeral).as_bytes()))
            .and_then(|e| e.bytes(&wrapped));
    }
    let signature = SigningKey::from_bytes(author).sign(&heading.to_be_signed(&payload));
    let mut message = Vec::with_capacity(payload.len() + 96);
    let _ = Encoder::new(&mut message)
        .tag(Tag::new(18))
        .and_then(|e| e.array(4))
        .and_then(|e| e.bytes(EDDSA))
        .and_then(|e| e.map(0))
        .and_then(|e| e.bytes(&payload))
        .and_then(|e| e.bytes(&signature.to_bytes()));
    Ok(message)
}

/// Opens a message as one of its readers.
///
/// # Errors
/// [`OpenError`].
pub fn open(
    heading: Heading<'_>,
    message: &[u8],
    author: &[u8; 32],
    reader: &[u8],
    secret: &[u8; 32],
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    use OpenError::{Format, NoReader, NotReader, Unauthentic};
    let payload = verified(heading, message, author)?;
    let mut decoder = Decoder::new(payload);
    if decoder.tag()?.as_u64() != 96 || decoder.array()? != Some(4) || decoder.bytes()? != A256GCM {
        return Err(Format);
    }
    if decoder.map()? != Some(1) || decoder.u8()? != 5 {
        return Err(Format);
    }
    let nonce: [u8; 12] = decoder.bytes()?.try_into().map_err(|_| Format)?;
    let sealed = decoder.bytes()?;
    let readers = decoder.array()?.ok_or(Format)?;
    if readers == 0 {
        return Err(NoReader);
    }
    for _ in 0..readers {
        let (name, ephemeral, wrapped) = read_reader(&mut decoder)?;
        if name != reader {
            continue;
        }
        let shared = StaticSecret::from(*secret).diffie_hellman(&PublicKey::from(ephemeral));
        if !shared.was_contributory() {
            return Err(Unauthentic);
        }
        let mut key = Zeroizing::new([0; 32]);
        let kek = wrapping_key(shared.as_bytes());
        KwAes256::new(&(*kek).into()).unwrap_key(&wrapped, &mut *key).map_err(|_| Unauthentic)?;
        let cipher = Key::<Aes256Gcm>::new(&*key).map_err(|_| Format)?;
        let (body, tag) = sealed.split_last_chunk::<16>().ok_or(Format)?;
        let mut plain = Zeroizing::new(vec![0; body.len()]);
        cipher.open(nonce, &encrypt_structure(), body, &mut plain, tag).map_err(|_| Unauthentic)?;
        return Ok(plain);
    }
    Err(NotReader)
}

/// The signed payload.
pub(crate) fn verified<'a>(
    heading: Heading<'_>,
    message: &'a [u8],
    author: &[u8; 32],
) -> Result<&'a [u8], OpenError> {
    use OpenError::{Format, Signature as NotSigned};
    let mut decoder = Decoder::new(message);
    if decoder.tag()?.as_u64() != 18 || decoder.array()? != Some(4) || decoder.bytes()? != EDDSA {
        return Err(Format);
    }
    if decoder.map()? != Some(0) {
        return Err(Format);
    }
    let payload = decoder.bytes()?;
    let signature = Signature::from_slice(decoder.bytes()?).map_err(|_| Format)?;
    if decoder.position() != message.len() {
        return Err(Format);
    }
    let author = VerifyingKey::from_bytes(author).map_err(|_| NotSigned)?;
    author.verify_strict(&heading.to_be_signed(payload), &signature).map_err(|_| NotSigned)?;
    Ok(payload)
}

type ReaderRead<'a> = (&'a [u8], [u8; 32], [u8; 40]);

fn read_reader<'a>(decoder: &mut Decoder<'a>) -> Result<ReaderRead<'a>, OpenError> {
    use OpenError::Format;
    if decoder.array()? != Some(3) || decoder.bytes()? != ECDH_ES_A256KW || decoder.map()? != Some(2) {
        return Err(Format);
    }
    if decoder.u8()? != 4 {
        return Err(Format);
    }
    let name = decoder.bytes()?;
    if decoder.i8()? != -1 || decoder.map()? != Some(3) {
        return Err(Format);
    }
    let fixed = [decoder.i8()?, decoder.i8()?, decoder.i8()?, decoder.i8()?, decoder.i8()?];
    if fixed != [1, 1, -1, 4, -2] {
        return Err(Format);
    }
    let ephemeral = decoder.bytes()?.try_into().map_err(|_| Format)?;
    let wrapped = decoder.bytes()?.try_into().map_err(|_| Format)?;
    Ok((name, ephemeral, wrapped))
}

/// The names of a signed message's readers, in its order.
///
/// # Errors
/// The message is not signed by the author, or has another form.
pub fn readers(heading: Heading<'_>, message: &[u8], author: &[u8; 32]) -> Result<Vec<String>, OpenError> {
    let mut decoder = Decoder::new(verified(heading, message, author)?);
    decoder.tag()?;
    decoder.array()?;
    for _ in 0..3 {
        decoder.skip()?;
    }
    let count = decoder.array()?.ok_or(OpenError::Format)?;
    (0..count).map(|_| Ok(String::from_utf8_lossy(read_reader(&mut decoder)?.0).into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTHOR: [u8; 32] = [3; 32];
    const READER: [u8; 32] = [4; 32];
    const HEADING: Heading<'_> = Heading { purpose: "a test", subject: "press" };

    fn message() -> Vec<u8> {
        let readers = [Reader { name: b"press", public: device_public(&READER) }];
        let random = |out: &mut [u8]| {
            out.fill(7);
            Ok::<(), ()>(())
        };
        seal(HEADING, b"content", &AUTHOR, &readers, random).expect("sealed")
    }

    #[test]
    fn heading_is_part_of_the_signature() {
        let (message, author) = (message(), author_public(&AUTHOR));
        let read = |heading, name, secret| open(heading, &message, &author, name, secret);
        assert_eq!(&**read(HEADING, b"press", &READER).expect("for this reader"), b"content");
        for heading in [Heading { purpose: "another", ..HEADING }, Heading { subject: "hall", ..HEADING }] {
            assert_eq!(read(heading, b"press", &READER), Err(OpenError::Signature));
        }
        assert_eq!(read(HEADING, b"hall", &READER), Err(OpenError::NotReader));
        assert_eq!(read(HEADING, b"press", &[5; 32]), Err(OpenError::Unauthentic));
        assert_eq!(open(HEADING, &message[1..], &author, b"press", &READER), Err(OpenError::Format));
    }

    #[test]
    fn message_for_nobody_is_told_apart() {
        let random = |_: &mut [u8]| Ok::<(), ()>(());
        let message = seal(HEADING, b"content", &AUTHOR, &[], random).expect("sealed");
        let opened = open(HEADING, &message, &author_public(&AUTHOR), b"press", &READER);
        assert_eq!(opened, Err(OpenError::NoReader));
    }

    #[test]
    fn unsealable_message_names_its_reader() {
        let good = || Reader { name: b"press", public: device_public(&READER) };
        let sealed = |readers: &[Reader<'_>]| {
            seal(HEADING, b"content", &AUTHOR, readers, |_| Ok::<(), ()>(())).map(drop)
        };
        let small = Reader { public: [0; 32], ..good() };
        assert_eq!(sealed(&[good(), small]), Err(SealError::PublicKey { member: 1 }));
        assert_eq!(sealed(&[Reader { name: b"", ..good() }]), Err(SealError::Name { member: 0 }));
        assert_eq!(sealed(&vec![good(); READERS_MAX + 1]), Err(SealError::TooMany));
        let random = |_: &mut [u8]| Err("none");
        assert_eq!(seal(HEADING, b"", &AUTHOR, &[good()], random), Err(SealError::Random("none")));
    }
}
