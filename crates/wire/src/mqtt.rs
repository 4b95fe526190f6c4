//! The envelope of a protected MQTT payload: COSE_Encrypt0 (RFC 9052 section 5.2), and its
//! associated data.
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
//! On topics whose messages age, the protected header is `{1: algorithm, 15: {6: time}}`: the time of
//! sealing as `iat`, in seconds since 1970 (RFC 9597, RFC 8392 section 3.1.6).
//!
//! The CBOR tag 16 is optional and is not written here. With AES-CCM-16-64-128 and a publisher's
//! name of 8 bytes, an envelope is 32 bytes longer than its payload if the epoch is below 128, the
//! sequence number below 2^24 and the payload below 248 bytes.
//!
//! This module has its own minimal CBOR reader and writer: on a mote a general library takes ten
//! times the code. `antedate-channel` tests it against one.

use crate::{Error, Result};

/// Bytes of the longest name of a publisher.
pub const PUBLISHER_MAX: usize = 64;
/// Bytes of the longest protected header of [`protected`].
pub const PROTECTED_MAX: usize = 7;
/// Bytes of the longest protected header of [`timed`].
pub const TIMED_MAX: usize = PROTECTED_MAX + 8;
/// Bytes of the longest [`Head`] of an envelope.
pub const HEAD_MAX: usize = 33 + PUBLISHER_MAX;
/// Bytes of an envelope before the publisher's name: array, protected header, map, key, length and epoch.
const BEGIN_MAX: usize = 1 + 1 + PROTECTED_MAX + 1 + 1 + 2 + 5;
/// The context string of the Enc_structure (RFC 9052 section 5.3).
const CONTEXT: &str = "Encrypt0";

/// Header parameters (RFC 9052 section 3.1).
const ALG: i32 = 1;
const CRIT: i32 = 2;
const KID: i32 = 4;
const PARTIAL_IV: i32 = 6;
/// CWT Claims (RFC 9597), and of these the time of issue (RFC 8392 section 3.1.6).
const CLAIMS: i32 = 15;
const ISSUED_AT: i32 = 6;
/// The CBOR tag of COSE_Encrypt0.
const TAG: u32 = 16;

/// A received envelope, before authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The protected header as received.
    pub protected: &'a [u8],
    /// The COSE number of the algorithm.
    pub algorithm: i64,
    /// The epoch of the key.
    pub epoch: u32,
    /// The publisher.
    pub publisher: &'a [u8],
    /// The publisher's sequence number.
    pub sequence: u64,
    /// The time of sealing in seconds since 1970, if its header has one.
    pub time: Option<u32>,
    /// The ciphertext with its tag.
    pub ciphertext: &'a [u8],
}

/// The reason to refuse a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeError {
    /// Not CBOR of this form, for example an unprotected payload.
    Format,
    /// A required header parameter is missing, malformed or repeated.
    Parameter(&'static str),
    /// A critical header parameter, unknown to this version (RFC 9052 section 3.1).
    Critical,
    /// Octets behind the envelope.
    Trailing,
}

impl core::fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Format => f.write_str("is no COSE_Encrypt0"),
            Self::Parameter(name) => write!(f, "its header has no valid {name}"),
            Self::Critical => f.write_str("it demands a header parameter that is not known here"),
            Self::Trailing => f.write_str("something follows the envelope"),
        }
    }
}

impl core::error::Error for EnvelopeError {}

impl From<Error> for EnvelopeError {
    fn from(_: Error) -> Self {
        Self::Format
    }
}

/// Major types (RFC 8949 section 3.1).
const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAGGED: u8 = 6;

/// A reader of consecutive items of definite length.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: u32) -> Result<&'a [u8]> {
        let len = usize::try_from(len).map_err(|_| Error::Truncated)?;
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A major type and its argument. Values beyond 32 bits become the largest: no length or number
    /// here is as large.
    fn head(&mut self) -> Result<(u8, u32)> {
        let &[first] = self.take(1)? else { return Err(Error::Truncated) };
        let info = first & 0x1f;
        let argument = match info {
            0..24 => u32::from(info),
            24..28 => {
                let bytes = self.take(1 << (info - 24))?;
                let mut whole = [0; 8];
                for (to, from) in whole.iter_mut().rev().zip(bytes.iter().rev()) {
                    *to = *from;
                }
                let [high @ .., a, b, c, d] = whole;
                if high == [0; 4] { u32::from_be_bytes([a, b, c, d]) } else { u32::MAX }
            }
            _ => return Err(Error::Value),
        };
        Ok((first >> 5, argument))
    }

    /// The argument of an item, which must have this major type.
    fn argument(&mut self, major: u8) -> Result<u32> {
        let (found, argument) = self.head()?;
        if found == major { Ok(argument) } else { Err(Error::Value) }
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.argument(BYTES)?;
        self.take(len)
    }

    /// An integer. Values beyond 32 bits become the largest, which has no meaning here.
    fn integer(&mut self) -> Result<i32> {
        let (major, value) = self.head()?;
        let value = i32::try_from(value).unwrap_or(i32::MAX);
        match major {
            UNSIGNED => Ok(value),
            NEGATIVE => Ok(-1 - value),
            _ => Err(Error::Value),
        }
    }

    /// Skips an item of any type.
    fn skip(&mut self) -> Result<()> {
        let mut left = 1u32;
        while left > 0 {
            let (major, argument) = self.head()?;
            let more = match major {
                BYTES | TEXT => self.take(argument).map(|_| 0)?,
                ARRAY => argument,
                MAP => argument.checked_mul(2).ok_or(Error::Length)?,
                TAGGED => 1,
                _ => 0,
            };
            left = (left - 1).checked_add(more).ok_or(Error::Length)?;
        }
        Ok(())
    }

    /// Reads a map of claims, of which the time of issue counts, in whole seconds.
    fn issued_at(&mut self) -> core::result::Result<Option<u32>, EnvelopeError> {
        let mut time = None;
        for _ in 0..self.argument(MAP)? {
            let is_text = self.0.first().is_some_and(|first| first >> 5 == TEXT);
            if is_text {
                self.skip()?;
            } else if self.integer()? == ISSUED_AT {
                if time.is_some() {
                    return Err(EnvelopeError::Parameter("iat"));
                }
                time = Some(self.argument(UNSIGNED).map_err(|_| EnvelopeError::Parameter("iat"))?);
                continue;
            }
            self.skip()?;
        }
        Ok(time)
    }

    /// Reads a map of header parameters. Each parameter has one permitted place, so that an
    /// envelope is unambiguous.
    fn parameters(
        &mut self,
        protected: bool,
        into: &mut Parameters<'a>,
    ) -> core::result::Result<(), EnvelopeError> {
        for _ in 0..self.argument(MAP)? {
            if self.0.first().is_some_and(|first| first >> 5 == TEXT) {
                self.skip()?;
                self.skip()?;
                continue;
            }
            match self.integer()? {
                ALG if protected && into.algorithm.is_none() => into.algorithm = Some(self.integer()?),
                KID if !protected && into.kid.is_none() => into.kid = Some(self.bytes()?),
                PARTIAL_IV if !protected && into.number.is_none() => into.number = Some(self.bytes()?),
                CLAIMS if protected && into.time.is_none() => into.time = self.issued_at()?,
                ALG => return Err(EnvelopeError::Parameter("alg")),
                // Unprotected claims or two of them would be another time than the authentic one.
                CLAIMS => return Err(EnvelopeError::Parameter("CWT Claims")),
                KID => return Err(EnvelopeError::Parameter("kid")),
                PARTIAL_IV => return Err(EnvelopeError::Parameter("Partial IV")),
                CRIT => return Err(EnvelopeError::Critical),
                _ => self.skip()?,
            }
        }
        Ok(())
    }
}

/// The header parameters of an envelope.
#[derive(Default)]
struct Parameters<'a> {
    algorithm: Option<i32>,
    kid: Option<&'a [u8]>,
    number: Option<&'a [u8]>,
    time: Option<u32>,
}

impl<'a> Envelope<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// [`EnvelopeError`].
    pub fn parse(message: &'a [u8]) -> core::result::Result<Self, EnvelopeError> {
        let mut reader = Reader(message);
        if message.first().is_some_and(|first| first >> 5 == TAGGED) && reader.argument(TAGGED)? != TAG {
            return Err(EnvelopeError::Format);
        }
        if reader.argument(ARRAY)? != 3 {
            return Err(EnvelopeError::Format);
        }
        let protected = reader.bytes()?;
        let mut found = Parameters::default();
        let mut header = Reader(protected);
        header.parameters(true, &mut found)?;
        if !header.0.is_empty() {
            return Err(EnvelopeError::Format);
        }
        let algorithm = found.algorithm.ok_or(EnvelopeError::Parameter("alg"))?;
        reader.parameters(false, &mut found)?;
        let ciphertext = reader.bytes()?;
        if !reader.0.is_empty() {
            return Err(EnvelopeError::Trailing);
        }
        let (epoch, publisher) = found.kid.and_then(split_kid).ok_or(EnvelopeError::Parameter("kid"))?;
        let sequence = found.number.and_then(sequence).ok_or(EnvelopeError::Parameter("Partial IV"))?;
        let time = found.time;
        Ok(Self { protected, algorithm: algorithm.into(), epoch, publisher, sequence, time, ciphertext })
    }
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
    // A leading zero would be a second encoding of the same number.
    if bytes.is_empty() || bytes.len() > 8 || bytes[0] == 0 {
        return None;
    }
    let mut number = [0; 8];
    number.get_mut(8 - bytes.len()..)?.copy_from_slice(bytes);
    Some(u64::from_be_bytes(number))
}

/// The common fields of one publisher's envelopes in one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// The algorithm's COSE number.
    pub algorithm: i64,
    /// The epoch.
    pub epoch: u32,
    /// The publisher's name, truncated to [`PUBLISHER_MAX`] bytes.
    pub publisher: &'a [u8],
}

/// A writer of consecutive items.
struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.at + bytes.len();
        self.out.get_mut(self.at..end).ok_or(Error::Truncated)?.copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    /// The shortest head of an item (RFC 8949 section 4.2.1).
    fn head(&mut self, major: u8, argument: u32) -> Result<()> {
        let [a, b, c, d] = argument.to_be_bytes();
        let first = |info: u8| major << 5 | info;
        match (a | b, c) {
            (0, 0) if d < 24 => self.raw(&[first(d)]),
            (0, 0) => self.raw(&[first(24), d]),
            (0, _) => self.raw(&[first(25), c, d]),
            _ => self.raw(&[first(26), a, b, c, d]),
        }
    }

    fn string(&mut self, major: u8, bytes: &[u8]) -> Result<()> {
        self.head(major, bytes.len() as u32)?;
        self.raw(bytes)
    }

    /// The map with the algorithm, and space for other parameters behind it.
    fn protected(&mut self, algorithm: i64, others: u32) -> Result<()> {
        self.head(MAP, 1 + others)?;
        self.head(UNSIGNED, ALG as u32)?;
        // Registered and private-use algorithm numbers have 32 bits.
        if algorithm < 0 {
            self.head(NEGATIVE, (-1 - algorithm) as u32)
        } else {
            self.head(UNSIGNED, algorithm as u32)
        }
    }
}

/// Bytes of the head of an item with this argument.
const fn head_len(argument: u32) -> usize {
    match argument {
        0..24 => 1,
        24..0x100 => 2,
        0x100..0x1_0000 => 3,
        _ => 5,
    }
}

const fn string_len(len: usize) -> usize {
    head_len(len as u32) + len
}

/// The protected header of an algorithm, and the used length of the array.
#[must_use]
pub fn protected(algorithm: i64) -> ([u8; PROTECTED_MAX], usize) {
    let mut bytes = [0; PROTECTED_MAX];
    let mut writer = Writer { out: &mut bytes, at: 0 };
    // At most two bytes and a number of five.
    let _ = writer.protected(algorithm, 0);
    let len = writer.at;
    (bytes, len)
}

/// The protected header of an algorithm with the time of sealing in seconds since 1970, and the used
/// length of the array.
#[must_use]
pub fn timed(algorithm: i64, time: u32) -> ([u8; TIMED_MAX], usize) {
    let mut bytes = [0; TIMED_MAX];
    let mut writer = Writer { out: &mut bytes, at: 0 };
    let mut emit = || {
        writer.protected(algorithm, 1)?;
        writer.head(UNSIGNED, CLAIMS as u32)?;
        writer.head(MAP, 1)?;
        writer.head(UNSIGNED, ISSUED_AT as u32)?;
        writer.head(UNSIGNED, time)
    };
    // Three bytes and a number of five more.
    let _: Result<()> = emit();
    let len = writer.at;
    (bytes, len)
}

impl Head<'_> {
    /// Writes an envelope up to the bytes of its ciphertext, which must follow. Returns the length,
    /// at most [`HEAD_MAX`].
    ///
    /// # Errors
    /// [`Error::Truncated`] if `out` is too short.
    pub fn emit(&self, sequence: u64, ciphertext: usize, out: &mut [u8]) -> Result<usize> {
        let number = sequence.to_be_bytes();
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        let mut writer = Writer { out, at: 0 };
        self.begin(&mut writer)?;
        writer.raw(self.name())?;
        writer.head(UNSIGNED, PARTIAL_IV as u32)?;
        writer.string(BYTES, number.get(zeros..).unwrap_or_default())?;
        writer.head(BYTES, ciphertext as u32)?;
        Ok(writer.at)
    }

    fn name(&self) -> &[u8] {
        self.publisher.get(..PUBLISHER_MAX).unwrap_or(self.publisher)
    }

    /// Writes the part before the publisher's name: at most [`BEGIN_MAX`] bytes.
    #[inline(never)]
    fn begin(&self, writer: &mut Writer<'_>) -> Result<()> {
        let (header, header_len) = protected(self.algorithm);
        // LEB128.
        let (mut epoch, mut epoch_len, mut rest) = ([0; 5], 0, self.epoch);
        for byte in &mut epoch {
            epoch_len += 1;
            *byte = rest as u8 & 0x7f;
            rest >>= 7;
            if rest == 0 {
                break;
            }
            *byte |= 0x80;
        }
        writer.head(ARRAY, 3)?;
        writer.string(BYTES, header.get(..header_len).unwrap_or_default())?;
        writer.head(MAP, 2)?;
        writer.head(UNSIGNED, KID as u32)?;
        writer.head(BYTES, (epoch_len + self.name().len()) as u32)?;
        writer.raw(epoch.get(..epoch_len).unwrap_or_default())
    }

    /// Reads an envelope of this algorithm, epoch and publisher in the exact form of
    /// [`emit`](Self::emit), CBOR's deterministic encoding (RFC 8949 section 4.2.1). Returns the
    /// sequence number and the ciphertext with its tag, or `None` for any other message.
    ///
    /// This is enough for a mote that knows its publisher, at a fraction of [`Envelope::parse`]'s
    /// cost.
    #[must_use]
    pub fn read<'m>(&self, message: &'m [u8]) -> Option<(u64, &'m [u8])> {
        let mut known = [0; BEGIN_MAX];
        let mut writer = Writer { out: &mut known, at: 0 };
        self.begin(&mut writer).ok()?;
        let at = writer.at;
        let rest = message.strip_prefix(known.get(..at)?)?.strip_prefix(self.name())?;
        let [key, first, rest @ ..] = rest else { return None };
        if i32::from(*key) != PARTIAL_IV {
            return None;
        }
        let (number, rest) = rest.split_at_checked(usize::from(first.checked_sub(BYTES << 5)?))?;
        let number = sequence(number)?;
        // The length of the head follows from the length of the rest.
        let fits =
            |head: &usize| rest.len().checked_sub(*head).is_some_and(|len| head_len(len as u32) == *head);
        let len = rest.len() - [1, 2, 3, 5].into_iter().find(fits)?;
        let (head, head_len) = string_head(len);
        Some((number, rest.strip_prefix(head.get(..head_len)?)?))
    }
}

/// The head of a byte string of `len` bytes, which precedes an envelope's ciphertext, and the used
/// length of the array.
#[must_use]
pub fn string_head(len: usize) -> ([u8; 5], usize) {
    let mut bytes = [0; 5];
    let mut writer = Writer { out: &mut bytes, at: 0 };
    // The longest head has five bytes.
    let _ = writer.head(BYTES, len as u32);
    let at = writer.at;
    (bytes, at)
}

/// The content of `item`, if it is exactly one byte string.
#[must_use]
pub fn only_string(item: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader(item);
    let found = reader.bytes().ok()?;
    reader.0.is_empty().then_some(found)
}

/// The most bytes that [`associated_data`] writes.
#[must_use]
pub const fn associated_data_max(protected: usize, topic: usize, publisher: usize) -> usize {
    1 + string_len(CONTEXT.len())
        + string_len(protected)
        + 5
        + 1
        + string_len(topic)
        + string_len(publisher)
        + 5
        + 9
}

/// Writes the Enc_structure (RFC 9052 section 5.3), the cipher's associated data: protected header,
/// topic, publisher, epoch and sequence number. Returns its length.
///
/// # Errors
/// [`Error::Truncated`] if `out` is too short.
pub fn associated_data(
    protected: &[u8],
    topic: &str,
    publisher: &[u8],
    epoch: u32,
    sequence: u64,
    out: &mut [u8],
) -> Result<usize> {
    let number = sequence.to_be_bytes();
    let external = 1
        + string_len(topic.len())
        + string_len(publisher.len())
        + head_len(epoch)
        + string_len(number.len());
    let mut writer = Writer { out, at: 0 };
    writer.head(ARRAY, 3)?;
    writer.string(TEXT, CONTEXT.as_bytes())?;
    writer.string(BYTES, protected)?;
    writer.head(BYTES, external as u32)?;
    writer.head(ARRAY, 4)?;
    writer.string(TEXT, topic.as_bytes())?;
    writer.string(BYTES, publisher)?;
    writer.head(UNSIGNED, epoch)?;
    writer.string(BYTES, &number)?;
    Ok(writer.at)
}
