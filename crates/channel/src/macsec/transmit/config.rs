//! Configuration, errors and status of transmit channels.

use core::fmt;

use super::super::pool::SLOTS;
use super::super::suite::CipherSuite;
use super::super::{An, Sci};
use crate::sequence::NumberError;

/// How a receiver learns a frame's SCI (clause 9.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SciMode {
    /// From every SecTAG (SC set). The only mode in which frames of many machines can pass one
    /// gateway.
    #[default]
    Explicit,
    /// From the frame's source address and port 1 (ES set).
    EndStation,
    /// From its only peer (SC and ES clear).
    PointToPoint,
}

/// Configuration of a transmit secure channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransmitConfig {
    /// the cipher suite
    pub suite: CipherSuite,
    /// the identifier of the channel, unique among channels with the same keys
    pub sci: Sci,
    /// the short identifier of the channel, for an XPN suite
    pub ssci: Option<u32>,
    /// how receivers learn the SCI
    pub sci_mode: SciMode,
    /// encrypts, or protects integrity only
    pub confidentiality: bool,
    /// the number of packet numbers to keep prepared, up to [`SLOTS`]
    pub prepare: usize,
}

impl TransmitConfig {
    /// A channel with explicit SCI and confidentiality.
    pub const fn new(suite: CipherSuite, sci: Sci) -> Self {
        Self { suite, sci, ssci: None, sci_mode: SciMode::Explicit, confidentiality: true, prepare: SLOTS }
    }
}

/// The reason for refusing a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransmitConfigError {
    /// an XPN suite needs a short SCI
    SsciMissing,
    /// an end station's SCI has port 1
    EndStationPort,
}

impl fmt::Display for TransmitConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SsciMissing => "an XPN cipher suite needs a short SCI",
            Self::EndStationPort => "the SCI of an end station must have port identifier 1",
        })
    }
}

impl core::error::Error for TransmitConfigError {}

/// The reason for not installing a key. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransmitInstallError {
    /// the key is for another cipher suite
    OtherSuite,
    /// an XPN suite needs a short SCI
    SsciMissing,
    /// packet number 0 is not used
    PacketNumberZero,
    /// packet numbers from the given one up have been used with this key
    PacketNumberUsed {
        /// the lowest unused packet number
        lowest: u64,
    },
    /// the key is installed under another association number
    KeyInUse(An),
    /// the key was used with another salt, so a nonce could repeat
    OtherSalt,
    /// the key was prepared for a channel with another SCI or another form of frames
    OtherChannel,
}

impl fmt::Display for TransmitInstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherSuite => f.write_str("the key is for another cipher suite"),
            Self::SsciMissing => f.write_str("an XPN cipher suite needs a short SCI"),
            Self::PacketNumberZero => f.write_str("packet numbers begin at 1"),
            Self::PacketNumberUsed { lowest } => {
                write!(f, "packet numbers below {lowest} have been used with this key")
            }
            Self::KeyInUse(an) => write!(f, "the key is in use under association number {an}"),
            Self::OtherSalt => f.write_str("the key has been used with another salt"),
            Self::OtherChannel => f.write_str("the key was made ready for another channel"),
        }
    }
}

impl core::error::Error for TransmitInstallError {}

/// The reason why an association cannot encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchError {
    /// no key is installed under its number
    NoSa,
    /// it has no packet number left
    Exhausted,
}

impl fmt::Display for SwitchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSa => "no key is installed under this association number",
            Self::Exhausted => "the association has no packet number left",
        })
    }
}

impl core::error::Error for SwitchError {}

/// The reason for not protecting a frame. The frame must not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtectError {
    /// no association encodes
    NoSa,
    /// the association has no packet number left: switch to another
    Exhausted,
    /// the next packet number is not reserved: reserve more durably
    NotReserved,
    /// the frame has no EtherType
    TooShort,
    /// the output is shorter than [`Transmit::protected_len`](super::Transmit::protected_len)
    OutputTooSmall,
    /// the source is not that of the SCI, as an end station's must be
    ForeignSource,
    /// the frame exceeds a receiver's limit, or its fragments would be too short or too many
    Unsplittable,
}

impl fmt::Display for ProtectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSa => "no secure association encodes",
            Self::Exhausted => "the packet numbers of the association are used up",
            Self::NotReserved => "the next packet number is not reserved",
            Self::TooShort => "the frame is too short to have an EtherType",
            Self::OutputTooSmall => "the protected frame does not fit the output",
            Self::ForeignSource => "the frame's source is not the end station that the SCI names",
            Self::Unsplittable => "the frame cannot be split for what the wire carries",
        })
    }
}

impl core::error::Error for ProtectError {}

impl From<NumberError> for ProtectError {
    fn from(spent: NumberError) -> Self {
        match spent {
            NumberError::Exhausted => Self::Exhausted,
            NumberError::NotReserved => Self::NotReserved,
        }
    }
}

/// The state of a transmit association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransmitSaStatus {
    /// its number
    pub an: An,
    /// whether it encodes
    pub encoding: bool,
    /// the packet number of the next frame: lower ones have been sent, or never will be
    pub next_pn: u64,
    /// packet numbers below this one may be used
    pub limit: u64,
    /// the first packet number that it can never use
    pub end: u64,
    /// prepared packet numbers
    pub prepared: usize,
}
