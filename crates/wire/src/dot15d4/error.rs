//! Reasons to refuse a frame.

use core::fmt;

/// The reason to refuse a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FormatError {
    /// the frame ends before its header, its elements or its MIC
    TooShort,
    /// a reserved frame type, or one with another format than those of clauses 7.3.1 to 7.3.4
    FrameType,
    /// a reserved frame version
    FrameVersion,
    /// a reserved bit of the frame control field, or one not defined for the frame's version
    FrameControlBits,
    /// a reserved addressing mode
    AddressingMode,
    /// addresses and PAN ID compression that are not in table 7-2 or not permitted for the frame
    /// type
    Addressing,
    /// security with frame version 0, in the formats of the 2003 edition
    LegacySecurity,
    /// a reserved bit of the security control field, or one not defined for the frame's version
    SecurityControlBits,
    /// an information element past the end, or of the wrong kind
    InformationElement,
    /// a beacon with fixed fields past its end
    Beacon,
    /// a MAC command without its identifier
    Command,
    /// a wrong FCS
    Fcs,
    /// a malformed capture header, or one of another radio
    Capture,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooShort => "the frame ends too early",
            Self::FrameType => "the frame type is not one of beacon, data, acknowledgment and command",
            Self::FrameVersion => "the frame version is reserved",
            Self::FrameControlBits => "a reserved bit of the frame control field is set",
            Self::AddressingMode => "an addressing mode is reserved",
            Self::Addressing => "the addressing fields are none of table 7-2",
            Self::LegacySecurity => "security of the 2003 edition",
            Self::SecurityControlBits => "a reserved bit of the security control field is set",
            Self::InformationElement => "an information element is malformed",
            Self::Beacon => "the fields of the beacon are malformed",
            Self::Command => "the command has no identifier",
            Self::Fcs => "the FCS is wrong",
            Self::Capture => "the capture's header is malformed",
        })
    }
}

impl core::error::Error for FormatError {}
