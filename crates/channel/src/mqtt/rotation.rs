//! Key rotation: one message with the next epoch's secret for all members, signed by the group's
//! manager.
//!
//! ```text
//! COSE_Sign1 (RFC 9052 section 4.2), EdDSA, external_aad << ["antedate-mqtt rotation", group] >>, of
//!   COSE_Encrypt (section 5.1), A256GCM, with for each member a recipient
//!     ECDH-ES + A256KW over X25519 (RFC 9053 section 6.4): an ephemeral key, the member's name as
//!     kid, the wrapped key
//!   of << [group, epoch, algorithm, secret, seconds that the previous epoch stays readable,
//!          ? [+ secret of an epoch before, the oldest first]] >>
//! ```
//!
//! A message for all members grows with the group. So large groups have one message for each member,
//! under a topic of its own, with the same form and one recipient. A message without recipients says
//! so where the one for all would be.
//!
//! A member is revoked by leaving it out: it cannot open the message. The signature is necessary
//! because otherwise anyone with the members' public keys could rotate. A replayed message is
//! detected by its epoch, which must rise ([`super::Group::rotate`]). A broker that retains the
//! message delivers it to members that were offline.

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

use super::{Algorithm, PUBLISHER_MAX, SECRET_LEN};

/// The most members of a message.
pub const MEMBERS_MAX: usize = 4096;

/// The most epochs before the new one that a message brings.
pub const PAST_MAX: usize = 32;

/// The protected header {1: -8}, EdDSA.
const EDDSA: &[u8] = &[0xa1, 0x01, 0x27];
/// {1: 3}, A256GCM.
const A256GCM: &[u8] = &[0xa1, 0x01, 0x03];
/// {1: -31}, ECDH-ES + A256KW.
const ECDH_ES_A256KW: &[u8] = &[0xa1, 0x01, 0x38, 0x1e];
/// A256KW, the algorithm of the derived key.
const A256KW: i64 = -5;

/// The contents of a rotation.
#[derive(Clone)]
pub struct Rotation {
    /// The new epoch, above all earlier ones.
    pub epoch: u32,
    /// The algorithm of the group.
    pub algorithm: Algorithm,
    /// The new secret.
    pub secret: Zeroizing<[u8; SECRET_LEN]>,
    /// Seconds during which members still read messages of the previous epoch, 0 after a
    /// revocation.
    pub grace: u32,
    /// The secrets of the epochs directly before, the oldest first, which stay readable. At most
    /// [`PAST_MAX`].
    pub past: Vec<Zeroizing<[u8; SECRET_LEN]>>,
}

impl Rotation {
    /// The first epoch that stays readable, after the grace too.
    #[must_use]
    pub fn first(&self) -> u32 {
        // `rotation` and `seal` refuse more than there are.
        self.epoch.saturating_sub(u32::try_from(self.past.len()).unwrap_or(u32::MAX))
    }

    /// The readable epochs before the new one, with their secrets.
    pub fn past(&self) -> impl Iterator<Item = (u32, &Zeroizing<[u8; SECRET_LEN]>)> {
        (self.first()..).zip(&self.past)
    }
}

impl fmt::Debug for Rotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rotation(epoch {}, {}, grace {} s, ..)", self.epoch, self.algorithm, self.grace)
    }
}

/// A member as known to the manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its X25519 public key.
    pub public: [u8; 32],
}

/// The reason for refusing a rotation message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationError {
    /// It is no rotation message.
    Format,
    /// The manager has not signed it for this group.
    Signature,
    /// It is not sealed for this member: it was left out, or revoked.
    NotMember,
    /// It is sealed for no member: each member has a message under its own topic.
    PerMember,
    /// The part sealed for this member cannot be opened with its key.
    Unauthentic,
    /// It has another key for the epoch in use.
    OtherKey,
}

impl fmt::Display for RotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => "is no rotation message",
            Self::Signature => "is not signed by the group's manager",
            Self::NotMember => "is not sealed for this device, which is no member any more or was never one",
            Self::PerMember => "is sealed for no member here: each has a message under its own topic",
            Self::Unauthentic => "is sealed for this device's name, but for another key than it has",
            Self::OtherKey => {
                "brings another key for the epoch that is in use, as after the manager's file came back from a backup: rotate once more"
            }
        })
    }
}

impl core::error::Error for RotationError {}

impl From<minicbor::decode::Error> for RotationError {
    fn from(_: minicbor::decode::Error) -> Self {
        Self::Format
    }
}

/// The reason for not making a rotation message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealError<E> {
    /// A member's public key is of small order, and so invalid.
    PublicKey {
        /// The member's index.
        member: usize,
    },
    /// A member's name is empty or longer than 64 bytes.
    Name {
        /// The member's index.
        member: usize,
    },
    /// There are more members than [`MEMBERS_MAX`].
    TooMany,
    /// There are more past epochs than [`PAST_MAX`], or than there were.
    Past,
    /// The random number generator failed.
    Random(E),
}

impl<E: fmt::Display> fmt::Display for SealError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PublicKey { member } => write!(f, "the public key of member {member} is none"),
            Self::Name { member } => {
                write!(f, "the name of member {member} is empty or longer than {PUBLISHER_MAX} bytes")
            }
            Self::TooMany => write!(f, "a rotation message has {MEMBERS_MAX} members at most"),
            Self::Past => {
                write!(f, "a rotation brings {PAST_MAX} past epochs at most, and none before the first")
            }
            Self::Random(error) => write!(f, "the system gives no random numbers: {error}"),
        }
    }
}

impl<E: core::error::Error> core::error::Error for SealError<E> {}

/// The public key of a device's secret.
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
const SMALL_ORDER: [[u8; 32]; 7] = {
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

/// The public key of a manager's secret.
pub fn manager_public(secret: &[u8; 32]) -> [u8; 32] {
    SigningKey::from_bytes(secret).verifying_key().to_bytes()
}

/// The signed data: the Sig_structure (RFC 9052 section 4.4).
fn to_be_signed(group: &str, payload: &[u8]) -> Vec<u8> {
    let mut external = Vec::new();
    // Writing to a vector cannot fail, here and below.
    let _ = Encoder::new(&mut external)
        .array(2)
        .and_then(|e| e.str("antedate-mqtt rotation"))
        .and_then(|e| e.str(group));
    let mut bytes = Vec::new();
    let _ = Encoder::new(&mut bytes)
        .array(4)
        .and_then(|e| e.str("Signature1"))
        .and_then(|e| e.bytes(EDDSA))
        .and_then(|e| e.bytes(&external))
        .and_then(|e| e.bytes(payload));
    bytes
}

/// The associated data of the COSE_Encrypt: its Enc_structure.
fn encrypt_structure() -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = Encoder::new(&mut bytes)
        .array(3)
        .and_then(|e| e.str("Encrypt"))
        .and_then(|e| e.bytes(A256GCM))
        .and_then(|e| e.bytes(&[]));
    bytes
}

/// The key that wraps a member's copy: HKDF with SHA-256 over the COSE_KDF_Context (RFC 9053
/// section 5.2).
fn wrapping_key(shared: &[u8; 32]) -> Zeroizing<[u8; 32]> {
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

/// Makes the rotation message. `random` fills a buffer from the system's generator.
///
/// # Errors
/// [`SealError`].
pub fn seal<E>(
    group: &str,
    rotation: &Rotation,
    manager: &[u8; 32],
    members: &[Recipient<'_>],
    mut random: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<Vec<u8>, SealError<E>> {
    if members.len() > MEMBERS_MAX {
        return Err(SealError::TooMany);
    }
    let before = usize::try_from(rotation.epoch).unwrap_or(usize::MAX);
    if rotation.past.len() > PAST_MAX.min(before) {
        return Err(SealError::Past);
    }
    // Full capacity at once: a growing vector leaves copies of the secrets behind.
    let mut plain = Zeroizing::new(Vec::with_capacity(128 + group.len() + 34 * rotation.past.len()));
    let mut encoder = Encoder::new(&mut *plain);
    let past = !rotation.past.is_empty();
    let _ = encoder
        .array(if past { 6 } else { 5 })
        .and_then(|e| e.str(group))
        .and_then(|e| e.u32(rotation.epoch))
        .and_then(|e| e.i64(rotation.algorithm.number()))
        .and_then(|e| e.bytes(&*rotation.secret))
        .and_then(|e| e.u32(rotation.grace));
    if past {
        let _ = encoder.array(rotation.past.len() as u64);
        for secret in &rotation.past {
            let _ = encoder.bytes(&**secret);
        }
    }
    let (mut key, mut nonce) = (Zeroizing::new([0; 32]), [0; 12]);
    random(&mut *key).map_err(SealError::Random)?;
    random(&mut nonce).map_err(SealError::Random)?;
    let cipher = Key::<Aes256Gcm>::new(&*key).unwrap_or_else(|_| unreachable!("a key of 32 bytes"));
    let mut sealed = vec![0; plain.len()];
    let tag = cipher.seal(Nonce::assume_unique(nonce), &encrypt_structure(), &plain, &mut sealed);
    sealed.extend_from_slice(tag.as_bytes());

    let mut payload = Vec::with_capacity(160 + sealed.len() + 160 * members.len());
    let mut encoder = Encoder::new(&mut payload);
    let _ = encoder
        .tag(Tag::new(96))
        .and_then(|e| e.array(4))
        .and_then(|e| e.bytes(A256GCM))
        .and_then(|e| e.map(1))
        .and_then(|e| e.u8(5))
        .and_then(|e| e.bytes(&nonce))
        .and_then(|e| e.bytes(&sealed))
        .and_then(|e| e.array(members.len() as u64));
    for (member, Recipient { name, public }) in members.iter().enumerate() {
        if !(1..=PUBLISHER_MAX).contains(&name.len()) {
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
    let signature = SigningKey::from_bytes(manager).sign(&to_be_signed(group, &payload));
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

/// Opens a rotation message as one of the group's members.
///
/// # Errors
/// [`RotationError`].
pub fn open(
    group: &str,
    message: &[u8],
    manager: &[u8; 32],
    member: &[u8],
    secret: &[u8; 32],
) -> Result<Rotation, RotationError> {
    use RotationError::{Format, NotMember, PerMember, Unauthentic};
    let payload = verified(group, message, manager)?;
    let mut decoder = Decoder::new(payload);
    if decoder.tag()?.as_u64() != 96 || decoder.array()? != Some(4) || decoder.bytes()? != A256GCM {
        return Err(Format);
    }
    if decoder.map()? != Some(1) || decoder.u8()? != 5 {
        return Err(Format);
    }
    let nonce: [u8; 12] = decoder.bytes()?.try_into().map_err(|_| Format)?;
    let sealed = decoder.bytes()?;
    let members = decoder.array()?.ok_or(Format)?;
    if members == 0 {
        return Err(PerMember);
    }
    for _ in 0..members {
        let (name, ephemeral, wrapped) = recipient(&mut decoder)?;
        if name != member {
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
        return rotation(group, &plain);
    }
    Err(NotMember)
}

/// The signed payload.
fn verified<'a>(group: &str, message: &'a [u8], manager: &[u8; 32]) -> Result<&'a [u8], RotationError> {
    use RotationError::{Format, Signature as NotSigned};
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
    let manager = VerifyingKey::from_bytes(manager).map_err(|_| NotSigned)?;
    manager.verify_strict(&to_be_signed(group, payload), &signature).map_err(|_| NotSigned)?;
    Ok(payload)
}

type RecipientRead<'a> = (&'a [u8], [u8; 32], [u8; 40]);

fn recipient<'a>(decoder: &mut Decoder<'a>) -> Result<RecipientRead<'a>, RotationError> {
    use RotationError::Format;
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

fn rotation(group: &str, plain: &[u8]) -> Result<Rotation, RotationError> {
    use RotationError::Format;
    let mut decoder = Decoder::new(plain);
    let fields = decoder.array()?;
    if !matches!(fields, Some(5 | 6)) || decoder.str()? != group {
        return Err(Format);
    }
    let epoch = decoder.u32()?;
    let algorithm = Algorithm::of_number(decoder.i64()?).ok_or(Format)?;
    let secret = decoder.bytes()?.try_into().map_err(|_| Format)?;
    let grace = decoder.u32()?;
    let mut past = Vec::new();
    if fields == Some(6) {
        let count = decoder.array()?.ok_or(Format)?;
        let most = u64::from(epoch).min(PAST_MAX as u64);
        if !(1..=most).contains(&count) {
            return Err(Format);
        }
        for _ in 0..count {
            past.push(Zeroizing::new(decoder.bytes()?.try_into().map_err(|_| Format)?));
        }
    }
    if decoder.position() != plain.len() {
        return Err(Format);
    }
    Ok(Rotation { epoch, algorithm, secret: Zeroizing::new(secret), grace, past })
}

/// The members of a signed rotation message, in its order.
///
/// # Errors
/// The message is not signed by the manager, or has another form.
pub fn members(group: &str, message: &[u8], manager: &[u8; 32]) -> Result<Vec<String>, RotationError> {
    let mut decoder = Decoder::new(verified(group, message, manager)?);
    decoder.tag()?;
    decoder.array()?;
    for _ in 0..3 {
        decoder.skip()?;
    }
    let count = decoder.array()?.ok_or(RotationError::Format)?;
    (0..count).map(|_| Ok(String::from_utf8_lossy(recipient(&mut decoder)?.0).into_owned())).collect()
}

#[cfg(test)]
mod tests;
