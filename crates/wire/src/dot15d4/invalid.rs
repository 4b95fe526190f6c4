//! Why octets are no frame.

use core::fmt;

/// What makes a frame malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Invalid {
    /// it ends before its header, its elements or its MIC do
    TooShort,
    /// a frame type that is reserved, or has another format than those of clauses 7.3.1 to 7.3.4
    FrameType,
    /// a frame version that is reserved
    FrameVersion,
    /// a reserved bit of the frame control field, or one that the frame's version does not have
    FrameControlBits,
    /// an addressing mode that is reserved
    AddressingMode,
    /// addresses and PAN ID compression that no row of table 7-2 has, or that the frame type does not allow
    Addressing,
    /// security with frame version 0, whose formats are those of the standard of 2003
    LegacySecurity,
    /// a reserved bit of the security control field, or one that the frame's version does not have
    SecurityControlBits,
    /// an information element that reaches past the end, or of the wrong kind
    InformationElement,
    /// a beacon whose fields of fixed form reach past its end
    Beacon,
    /// a MAC command without its identifier
    Command,
    /// the FCS does not fit the frame
    Fcs,
    /// a capture's header is malformed, or says what no capture of these radios has
    Capture,
}

impl fmt::Display for Invalid {
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

impl core::error::Error for Invalid {}
