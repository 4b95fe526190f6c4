//! The frame control field (clause 7.2.1).

use super::FormatError;

/// The type of a frame (table 7-1). Multipurpose, fragment and extended frames have other headers
/// and are not read here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameType {
    /// a beacon; with version 2 an enhanced beacon
    Beacon,
    /// data
    Data,
    /// an acknowledgment; with version 2 an enhanced acknowledgment
    Ack,
    /// a MAC command
    Command,
}

impl FrameType {
    /// All frame types.
    pub const ALL: [Self; 4] = [Self::Beacon, Self::Data, Self::Ack, Self::Command];

    const fn from_bits(bits: u16) -> Result<Self, FormatError> {
        match bits & 7 {
            0 => Ok(Self::Beacon),
            1 => Ok(Self::Data),
            2 => Ok(Self::Ack),
            3 => Ok(Self::Command),
            _ => Err(FormatError::FrameType),
        }
    }
}

/// The edition of the standard that defines a frame's format (table 7-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameVersion {
    /// of 2003
    V2003,
    /// of 2006 and 2011
    V2006,
    /// of 2015 (essentially the amendment 802.15.4e-2012)
    V2015,
}

impl FrameVersion {
    /// All frame versions.
    pub const ALL: [Self; 3] = [Self::V2003, Self::V2006, Self::V2015];

    const fn from_bits(bits: u16) -> Result<Self, FormatError> {
        match (bits >> 12) & 3 {
            0 => Ok(Self::V2003),
            1 => Ok(Self::V2006),
            2 => Ok(Self::V2015),
            _ => Err(FormatError::FrameVersion),
        }
    }
}

/// The form of an address (table 7-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressingMode {
    /// no address
    Absent,
    /// 16 bits
    Short,
    /// 64 bits
    Extended,
}

impl AddressingMode {
    /// All addressing modes.
    pub const ALL: [Self; 3] = [Self::Absent, Self::Short, Self::Extended];

    const fn from_bits(bits: u16) -> Result<Self, FormatError> {
        match bits & 3 {
            0 => Ok(Self::Absent),
            2 => Ok(Self::Short),
            3 => Ok(Self::Extended),
            _ => Err(FormatError::AddressingMode),
        }
    }

    const fn bits(self) -> u16 {
        match self {
            Self::Absent => 0,
            Self::Short => 2,
            Self::Extended => 3,
        }
    }
}

/// The decoded sixteen bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameControl {
    pub(super) frame_type: FrameType,
    pub(super) security: bool,
    pub(super) frame_pending: bool,
    pub(super) ack_request: bool,
    pub(super) pan_id_compression: bool,
    pub(super) sequence_suppressed: bool,
    pub(super) ies: bool,
    pub(super) dst: AddressingMode,
    pub(super) version: FrameVersion,
    pub(super) src: AddressingMode,
}

const RESERVED: u16 = 1 << 7;
/// Version 2 added sequence number suppression and information elements.
const OF_VERSION_2: u16 = 1 << 8 | 1 << 9;

impl FrameControl {
    pub(super) const fn parse(bits: u16) -> Result<Self, FormatError> {
        let frame_type = match FrameType::from_bits(bits) {
            Ok(frame_type) => frame_type,
            Err(invalid) => return Err(invalid),
        };
        let version = match FrameVersion::from_bits(bits) {
            Ok(version) => version,
            Err(invalid) => return Err(invalid),
        };
        let of_its_version = matches!(version, FrameVersion::V2015) || bits & OF_VERSION_2 == 0;
        if bits & RESERVED != 0 || !of_its_version {
            return Err(FormatError::FrameControlBits);
        }
        let (dst, src) = match (AddressingMode::from_bits(bits >> 10), AddressingMode::from_bits(bits >> 14))
        {
            (Ok(dst), Ok(src)) => (dst, src),
            _ => return Err(FormatError::AddressingMode),
        };
        Ok(Self {
            frame_type,
            security: bits & 1 << 3 != 0,
            frame_pending: bits & 1 << 4 != 0,
            ack_request: bits & 1 << 5 != 0,
            pan_id_compression: bits & 1 << 6 != 0,
            sequence_suppressed: bits & 1 << 8 != 0,
            ies: bits & 1 << 9 != 0,
            dst,
            version,
            src,
        })
    }

    pub(super) const fn bits(&self) -> u16 {
        self.frame_type as u16
            | (self.security as u16) << 3
            | (self.frame_pending as u16) << 4
            | (self.ack_request as u16) << 5
            | (self.pan_id_compression as u16) << 6
            | (self.sequence_suppressed as u16) << 8
            | (self.ies as u16) << 9
            | self.dst.bits() << 10
            | (self.version as u16) << 12
            | self.src.bits() << 14
    }
}
