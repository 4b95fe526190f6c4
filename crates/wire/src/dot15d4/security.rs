//! The auxiliary security header (clause 9.4), and the numbers in nonces.

use core::fmt;

use super::{FormatError, FrameVersion};

/// Octets of the longest auxiliary security header: control, frame counter, key source of eight, key index.
pub const MAX_SECURITY_HEADER_LEN: usize = 14;

/// The protection of a frame (table 9-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecurityLevel {
    /// 0: none
    None,
    /// 1: a MIC of 4 octets
    Mic32,
    /// 2: a MIC of 8 octets
    Mic64,
    /// 3: a MIC of 16 octets
    Mic128,
    /// 4: encrypted without authentication; removed from the standard in 2015
    Enc,
    /// 5: encrypted, a MIC of 4 octets
    EncMic32,
    /// 6: encrypted, a MIC of 8 octets
    EncMic64,
    /// 7: encrypted, a MIC of 16 octets
    EncMic128,
}

impl SecurityLevel {
    /// All levels in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::Mic32,
        Self::Mic64,
        Self::Mic128,
        Self::Enc,
        Self::EncMic32,
        Self::EncMic64,
        Self::EncMic128,
    ];

    /// The number in the security control field.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The level in the lower three bits of a security control field.
    pub const fn from_bits(bits: u8) -> Self {
        Self::ALL[(bits & 7) as usize]
    }

    /// Octets of the MIC.
    pub const fn mic_len(self) -> usize {
        match self {
            Self::None | Self::Enc => 0,
            Self::Mic32 | Self::EncMic32 => 4,
            Self::Mic64 | Self::EncMic64 => 8,
            Self::Mic128 | Self::EncMic128 => 16,
        }
    }

    /// Whether the private payload is encrypted.
    pub const fn is_encrypted(self) -> bool {
        self.number() & 4 != 0
    }

    /// The standard's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Mic32 => "MIC-32",
            Self::Mic64 => "MIC-64",
            Self::Mic128 => "MIC-128",
            Self::Enc => "ENC",
            Self::EncMic32 => "ENC-MIC-32",
            Self::EncMic64 => "ENC-MIC-64",
            Self::EncMic128 => "ENC-MIC-128",
        }
    }
}

impl fmt::Display for SecurityLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The key of a frame, in the four key identifier modes (table 9-7). Key sources are in wire order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyIdentifier {
    /// mode 0: the key that both devices share
    Implicit,
    /// mode 1: a key of the default key source
    Index(u8),
    /// mode 2: a key of a source with a name of four octets
    Source4([u8; 4], u8),
    /// mode 3: a key of a source with a name of eight octets
    Source8([u8; 8], u8),
}

impl KeyIdentifier {
    /// The number of the mode.
    pub const fn mode(&self) -> u8 {
        match self {
            Self::Implicit => 0,
            Self::Index(_) => 1,
            Self::Source4(..) => 2,
            Self::Source8(..) => 3,
        }
    }

    /// The key index; none in mode 0.
    pub const fn index(&self) -> Option<u8> {
        match self {
            Self::Implicit => None,
            Self::Index(index) | Self::Source4(_, index) | Self::Source8(_, index) => Some(*index),
        }
    }

    /// The same mode and source with another index. Mode 0 has no index and stays unchanged.
    pub const fn with_index(self, index: u8) -> Self {
        match self {
            Self::Implicit => Self::Implicit,
            Self::Index(_) => Self::Index(index),
            Self::Source4(source, _) => Self::Source4(source, index),
            Self::Source8(source, _) => Self::Source8(source, index),
        }
    }

    /// Octets in a frame.
    pub const fn len(&self) -> usize {
        match self {
            Self::Implicit => 0,
            Self::Index(_) => 1,
            Self::Source4(..) => 5,
            Self::Source8(..) => 9,
        }
    }

    /// Whether the field has no octets.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An absolute slot number: a count of slots since the network's start, in 40 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Asn(u64);

impl Asn {
    /// The largest number, reached after 348 years of 10 ms slots.
    pub const MAX: Self = Self((1 << 40) - 1);

    /// The number, if it has 40 bits.
    pub const fn new(number: u64) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The number modulo `length`, 0 if that is 0. In steps of 32 bits, as a mote divides.
    pub const fn modulo(self, length: u16) -> u16 {
        if length == 0 {
            return 0;
        }
        let length = length as u32;
        let (high, low) = ((self.0 >> 32) as u32, self.0 as u32);
        let rest = (high % length) << 16 | low >> 16;
        (((rest % length) << 16 | low & 0xffff) % length) as u16
    }

    /// The slot `slots` later, if it exists.
    pub const fn after(self, slots: u64) -> Option<Self> {
        match self.0.checked_add(slots) {
            Some(number) => Self::new(number),
            None => None,
        }
    }

    /// The five octets, most significant first, as in nonces.
    pub const fn to_be_bytes(self) -> [u8; 5] {
        let [_, _, _, a, b, c, d, e] = self.0.to_be_bytes();
        [a, b, c, d, e]
    }

    /// From the five octets of a TSCH synchronization element, least significant first.
    pub const fn from_le_bytes([a, b, c, d, e]: [u8; 5]) -> Self {
        Self(u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]))
    }

    /// The five octets of a TSCH synchronization element, least significant first.
    pub const fn to_le_bytes(self) -> [u8; 5] {
        let [a, b, c, d, e, ..] = self.0.to_le_bytes();
        [a, b, c, d, e]
    }
}

impl fmt::Display for Asn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Asn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Asn({})", self.0)
    }
}

/// An auxiliary security header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecurityHeader {
    /// the security level
    pub level: SecurityLevel,
    /// the key
    pub key: KeyIdentifier,
    /// the frame counter; none if suppressed
    pub frame_counter: Option<u32>,
    /// the nonce contains the ASN instead of the frame counter
    pub asn_in_nonce: bool,
}

const SUPPRESSED: u8 = 1 << 5;
const ASN: u8 = 1 << 6;
const RESERVED: u8 = 1 << 7;

impl SecurityHeader {
    /// A header for TSCH: no frame counter, the ASN in the nonce.
    pub const fn tsch(level: SecurityLevel, key: KeyIdentifier) -> Self {
        Self { level, key, frame_counter: None, asn_in_nonce: true }
    }

    /// A header with a frame counter.
    pub const fn counted(level: SecurityLevel, key: KeyIdentifier, frame_counter: u32) -> Self {
        Self { level, key, frame_counter: Some(frame_counter), asn_in_nonce: false }
    }

    /// Octets in a frame.
    pub const fn len(&self) -> usize {
        1 + if self.frame_counter.is_some() { 4 } else { 0 } + self.key.len()
    }

    /// Always false: the control field is always present.
    pub const fn is_empty(&self) -> bool {
        false
    }

    pub(super) fn parse(version: FrameVersion, octets: &mut &[u8]) -> Result<Self, FormatError> {
        let (control, mut rest) = octets.split_first().ok_or(FormatError::TooShort)?;
        if control & RESERVED != 0 || (version != FrameVersion::V2015 && control & (SUPPRESSED | ASN) != 0) {
            return Err(FormatError::SecurityControlBits);
        }
        let frame_counter = if control & SUPPRESSED == 0 {
            let (counter, after) = rest.split_first_chunk().ok_or(FormatError::TooShort)?;
            rest = after;
            Some(u32::from_le_bytes(*counter))
        } else {
            None
        };
        let key = match (control >> 3) & 3 {
            0 => KeyIdentifier::Implicit,
            1 => KeyIdentifier::Index(index(&mut rest)?),
            2 => {
                let (source, after) = rest.split_first_chunk().ok_or(FormatError::TooShort)?;
                rest = after;
                KeyIdentifier::Source4(*source, index(&mut rest)?)
            }
            _ => {
                let (source, after) = rest.split_first_chunk().ok_or(FormatError::TooShort)?;
                rest = after;
                KeyIdentifier::Source8(*source, index(&mut rest)?)
            }
        };
        *octets = rest;
        let level = SecurityLevel::from_bits(*control);
        Ok(Self { level, key, frame_counter, asn_in_nonce: control & ASN != 0 })
    }

    /// The octets, and the used length of the array.
    pub fn emit(&self) -> ([u8; MAX_SECURITY_HEADER_LEN], usize) {
        let mut out = [0; MAX_SECURITY_HEADER_LEN];
        let mut len = 0;
        let mut put = |octets: &[u8]| {
            out[len..len + octets.len()].copy_from_slice(octets);
            len += octets.len();
        };
        let suppressed = if self.frame_counter.is_none() { SUPPRESSED } else { 0 };
        let asn = if self.asn_in_nonce { ASN } else { 0 };
        put(&[self.level.number() | self.key.mode() << 3 | suppressed | asn]);
        if let Some(counter) = self.frame_counter {
            put(&counter.to_le_bytes());
        }
        match self.key {
            KeyIdentifier::Implicit => {}
            KeyIdentifier::Index(index) => put(&[index]),
            KeyIdentifier::Source4(source, index) => {
                put(&source);
                put(&[index]);
            }
            KeyIdentifier::Source8(source, index) => {
                put(&source);
                put(&[index]);
            }
        }
        (out, len)
    }

    /// Whether a frame of this version can carry the header.
    pub(super) const fn fits(&self, version: FrameVersion) -> bool {
        match version {
            FrameVersion::V2003 => false,
            FrameVersion::V2006 => self.frame_counter.is_some() && !self.asn_in_nonce,
            FrameVersion::V2015 => true,
        }
    }
}

fn index(octets: &mut &[u8]) -> Result<u8, FormatError> {
    let (index, rest) = octets.split_first().ok_or(FormatError::TooShort)?;
    *octets = rest;
    Ok(*index)
}
