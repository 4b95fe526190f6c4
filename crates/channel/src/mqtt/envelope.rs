//! The envelope's format: COSE_Encrypt0 (RFC 9052 section 5.2), and what is authenticated beside it.
//!
//! ```text
//! [ << {1: algorithm} >>,                                   protected header
//!   {4: epoch (LEB128) followed by the publisher's name,     kid
//!    6: sequence number, big-endian, no leading zeros},      Partial IV
//!   ciphertext with its tag ]
//!
//! external_aad = << [topic, publisher, epoch, sequence number in 8 bytes] >>
//! ```
//!
//! The CBOR tag 16 may stand before it; we leave it out. With AES-CCM-16-64-128 and a publisher's name of 8 bytes an envelope
//! has 32 bytes more than its payload, as long as the epoch is below 128, the sequence number below 2^24 and the payload below 248 bytes.

use alloc::vec::Vec;

use minicbor::{Decoder, Encoder, data::Type};

use super::{Algorithm, PUBLISHER_MAX};

/// Header parameters (RFC 9052 section 3.1).
const ALG: i64 = 1;
const CRIT: i64 = 2;
const KID: i64 = 4;
const PARTIAL_IV: i64 = 6;
/// The CBOR tag of COSE_Encrypt0.
const TAG: u64 = 16;

/// An envelope as it was received. Nothing of it is authenticated yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The protected header as it came.
    pub protected: &'a [u8],
    /// The number of its algorithm.
    pub algorithm: i64,
    /// The epoch of the key.
    pub epoch: u32,
    /// Who published.
    pub publisher: &'a [u8],
    /// The publisher's sequence number.
    pub sequence: u64,
    /// The ciphertext with its tag.
    pub ciphertext: &'a [u8],
}

/// Why a message is no envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotEnvelope {
    /// It is not CBOR of this form: plaintext of someone else, as a rule.
    Format,
    /// A header parameter that must be there is not, or comes twice.
    Parameter(&'static str),
    /// It has a critical header parameter, which this version does not know (RFC 9052 section 3.1).
    Critical,
    /// Something follows the envelope.
    Trailing,
}

impl core::fmt::Display for NotEnvelope {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Format => f.write_str("is no COSE_Encrypt0"),
            Self::Parameter(name) => write!(f, "its header has no valid {name}"),
            Self::Critical => f.write_str("it demands a header parameter that is not known here"),
            Self::Trailing => f.write_str("something follows the envelope"),
        }
    }
}

impl core::error::Error for NotEnvelope {}

impl From<minicbor::decode::Error> for NotEnvelope {
    fn from(_: minicbor::decode::Error) -> Self {
        Self::Format
    }
}

impl<'a> Envelope<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// [`NotEnvelope`].
    pub fn parse(message: &'a [u8]) -> Result<Self, NotEnvelope> {
        let mut decoder = Decoder::new(message);
        if decoder.datatype()? == Type::Tag && decoder.tag()?.as_u64() != TAG {
            return Err(NotEnvelope::Format);
        }
        if decoder.array()? != Some(3) {
            return Err(NotEnvelope::Format);
        }
        let protected = decoder.bytes()?;
        let algorithm = algorithm(protected)?;
        let (mut kid, mut number) = (None, None);
        parameters(&mut decoder, |label, decoder| {
            match label {
                Some(KID) if kid.is_none() => kid = Some(decoder.bytes()?),
                Some(PARTIAL_IV) if number.is_none() => number = Some(decoder.bytes()?),
                Some(KID) => return Err(NotEnvelope::Parameter("kid")),
                Some(PARTIAL_IV) => return Err(NotEnvelope::Parameter("Partial IV")),
                Some(ALG) => return Err(NotEnvelope::Parameter("alg")),
                Some(CRIT) => return Err(NotEnvelope::Critical),
                _ => decoder.skip()?,
            }
            Ok(())
        })?;
        let ciphertext = decoder.bytes()?;
        if decoder.position() != message.len() {
            return Err(NotEnvelope::Trailing);
        }
        let (epoch, publisher) = kid.and_then(split_kid).ok_or(NotEnvelope::Parameter("kid"))?;
        let sequence = number.and_then(sequence).ok_or(NotEnvelope::Parameter("Partial IV"))?;
        Ok(Self { protected, algorithm, epoch, publisher, sequence, ciphertext })
    }
}

/// The algorithm of a protected header.
fn algorithm(protected: &[u8]) -> Result<i64, NotEnvelope> {
    let mut decoder = Decoder::new(protected);
    let mut algorithm = None;
    parameters(&mut decoder, |label, decoder| {
        match label {
            Some(ALG) if algorithm.is_none() => algorithm = Some(decoder.i64()?),
            Some(ALG) => return Err(NotEnvelope::Parameter("alg")),
            Some(CRIT) => return Err(NotEnvelope::Critical),
            // Where the others belong is fixed, or an envelope could say two things.
            Some(KID) => return Err(NotEnvelope::Parameter("kid")),
            Some(PARTIAL_IV) => return Err(NotEnvelope::Parameter("Partial IV")),
            _ => decoder.skip()?,
        }
        Ok(())
    })?;
    if decoder.position() != protected.len() {
        return Err(NotEnvelope::Format);
    }
    algorithm.ok_or(NotEnvelope::Parameter("alg"))
}

/// The entries of a map of definite length; `None` is a label that is no integer.
fn parameters<'a>(
    decoder: &mut Decoder<'a>,
    mut each: impl FnMut(Option<i64>, &mut Decoder<'a>) -> Result<(), NotEnvelope>,
) -> Result<(), NotEnvelope> {
    let count = decoder.map()?.ok_or(NotEnvelope::Format)?;
    for _ in 0..count {
        let label = if decoder.datatype()? == Type::String {
            decoder.skip()?;
            None
        } else {
            Some(decoder.i64()?)
        };
        each(label, decoder)?;
    }
    Ok(())
}

/// Epoch and publisher.
fn split_kid(kid: &[u8]) -> Option<(u32, &[u8])> {
    let mut epoch = 0u32;
    for (i, byte) in kid.iter().enumerate().take(5) {
        let bits = u32::from(byte & 0x7f);
        if i == 4 && bits > 0x0f || i > 0 && *byte == 0 {
            return None;
        }
        epoch |= bits << (7 * i);
        if byte & 0x80 == 0 {
            let publisher = &kid[i + 1..];
            return (1..=PUBLISHER_MAX).contains(&publisher.len()).then_some((epoch, publisher));
        }
    }
    None
}

fn sequence(bytes: &[u8]) -> Option<u64> {
    // A leading zero would be a second way to write a number.
    if bytes.is_empty() || bytes.len() > 8 || bytes[0] == 0 {
        return None;
    }
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// What one publisher's envelopes of one epoch have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The epoch.
    pub epoch: u32,
    /// The publisher, at most [`PUBLISHER_MAX`] bytes.
    pub publisher: Vec<u8>,
}

impl Head {
    /// The protected header.
    pub fn protected(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8);
        let mut encoder = Encoder::new(&mut bytes);
        // Writing to a vector cannot fail.
        let _ = encoder.map(1).and_then(|e| e.i64(ALG)).and_then(|e| e.i64(self.algorithm.number()));
        bytes
    }

    /// Writes all of an envelope but the bytes of its ciphertext, which must follow.
    pub fn put(&self, sequence: u64, ciphertext: usize, out: &mut Vec<u8>) {
        let mut kid = Vec::with_capacity(5 + self.publisher.len());
        let mut epoch = self.epoch;
        while epoch >= 0x80 {
            kid.push(epoch as u8 | 0x80);
            epoch >>= 7;
        }
        kid.push(epoch as u8);
        kid.extend_from_slice(&self.publisher);
        let number = sequence.to_be_bytes();
        let number = &number[(sequence.leading_zeros() / 8) as usize..];
        out.reserve(32 + kid.len() + ciphertext);
        let mut encoder = Encoder::new(&mut *out);
        let _ = encoder
            .array(3)
            .and_then(|e| e.bytes(&self.protected()))
            .and_then(|e| e.map(2))
            .and_then(|e| e.i64(KID))
            .and_then(|e| e.bytes(&kid))
            .and_then(|e| e.i64(PARTIAL_IV))
            .and_then(|e| e.bytes(number))
            .and_then(|e| e.bytes_len(ciphertext as u64));
    }
}

/// The Enc_structure (RFC 9052 section 5.3), which is the cipher's associated data: protected header, topic, publisher, epoch
/// and sequence number.
pub fn associated_data(
    protected: &[u8],
    topic: &str,
    publisher: &[u8],
    epoch: u32,
    sequence: u64,
) -> Vec<u8> {
    let mut external = Vec::with_capacity(32 + topic.len() + publisher.len());
    let mut encoder = Encoder::new(&mut external);
    let _ = encoder
        .array(4)
        .and_then(|e| e.str(topic))
        .and_then(|e| e.bytes(publisher))
        .and_then(|e| e.u32(epoch))
        .and_then(|e| e.bytes(&sequence.to_be_bytes()));
    let mut bytes = Vec::with_capacity(24 + protected.len() + external.len());
    let mut encoder = Encoder::new(&mut bytes);
    let _ = encoder
        .array(3)
        .and_then(|e| e.str("Encrypt0"))
        .and_then(|e| e.bytes(protected))
        .and_then(|e| e.bytes(&external));
    bytes
}
