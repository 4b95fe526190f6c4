//! A whole frame (clauses 7.2 and 7.3): its parts, and the extent of its security (table 9-1).

use super::addressing::mode;
use super::control::FrameControl;
use super::ie::{Following, HeaderIes, PayloadIes};
use super::{Addressing, FormatError, FrameType, FrameVersion, SecurityHeader, SecurityLevel, beacon};
use crate::{Error, Result};

/// The header up to its information elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// the type of the frame
    pub frame_type: FrameType,
    /// the edition of its format
    pub version: FrameVersion,
    /// more frames wait for the receiver
    pub frame_pending: bool,
    /// the sender requests an acknowledgment
    pub ack_request: bool,
    /// the sequence number; none if suppressed (version 2 only)
    pub sequence: Option<u8>,
    /// the addresses
    pub addressing: Addressing,
    /// the auxiliary security header, if the frame is secured
    pub security: Option<SecurityHeader>,
    /// information elements follow (version 2 only)
    pub ies: bool,
}

impl Header {
    /// An unsecured data frame of version 2 with an acknowledgment request, for TSCH.
    pub const fn data(sequence: u8, addressing: Addressing) -> Self {
        Self {
            frame_type: FrameType::Data,
            version: FrameVersion::V2015,
            frame_pending: false,
            ack_request: true,
            sequence: Some(sequence),
            addressing,
            security: None,
            ies: false,
        }
    }

    /// An unsecured enhanced acknowledgment of the frame with `sequence`, with information elements.
    pub const fn enhanced_ack(sequence: Option<u8>, addressing: Addressing) -> Self {
        Self {
            frame_type: FrameType::Ack,
            version: FrameVersion::V2015,
            frame_pending: false,
            ack_request: false,
            sequence,
            addressing,
            security: None,
            ies: true,
        }
    }

    /// The security level; `None` for an unsecured frame.
    pub const fn level(&self) -> SecurityLevel {
        match &self.security {
            Some(security) => security.level,
            None => SecurityLevel::None,
        }
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        let security = match &self.security {
            Some(security) => security.len(),
            None => 0,
        };
        2 + self.sequence.is_some() as usize + self.addressing.len() + security
    }

    /// Writes the header to the front of `buffer` and returns its length. [`Error::Value`] for an
    /// impossible header.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize> {
        let control = self.control().ok_or(Error::Value)?;
        let buffer = buffer.get_mut(..self.buffer_len()).ok_or(Error::Truncated)?;
        let mut at = 0;
        let mut put = |octets: &[u8]| {
            buffer[at..at + octets.len()].copy_from_slice(octets);
            at += octets.len();
        };
        put(&control.bits().to_le_bytes());
        if let Some(sequence) = self.sequence {
            put(&[sequence]);
        }
        for (octets, len) in self.addressing.fields() {
            put(&octets[..len]);
        }
        if let Some(security) = &self.security {
            let (octets, len) = security.emit();
            put(&octets[..len]);
        }
        Ok(at)
    }

    fn control(&self) -> Option<FrameControl> {
        let version = self.version;
        let of_version_2 = self.sequence.is_none() || self.ies;
        if of_version_2 && version != FrameVersion::V2015 {
            return None;
        }
        if self.security.is_some_and(|security| !security.fits(version)) {
            return None;
        }
        let control = FrameControl {
            frame_type: self.frame_type,
            security: self.security.is_some(),
            frame_pending: self.frame_pending,
            ack_request: self.ack_request,
            pan_id_compression: self.addressing.compression(version)?,
            sequence_suppressed: self.sequence.is_none(),
            ies: self.ies,
            dst: mode(self.addressing.dst),
            version,
            src: mode(self.addressing.src),
        };
        addresses_fit(&control).then_some(control)
    }

    fn parse(octets: &mut &[u8]) -> core::result::Result<Self, FormatError> {
        let (bits, mut rest) = octets.split_first_chunk().ok_or(FormatError::TooShort)?;
        let control = FrameControl::parse(u16::from_le_bytes(*bits))?;
        if !addresses_fit(&control) {
            return Err(FormatError::Addressing);
        }
        let sequence = if control.sequence_suppressed {
            None
        } else {
            let (sequence, after) = rest.split_first().ok_or(FormatError::TooShort)?;
            rest = after;
            Some(*sequence)
        };
        let addressing = Addressing::parse(&control, &mut rest)?;
        let security = match (control.security, control.version) {
            (false, _) => None,
            (true, FrameVersion::V2003) => return Err(FormatError::LegacySecurity),
            (true, version) => Some(SecurityHeader::parse(version, &mut rest)?),
        };
        *octets = rest;
        Ok(Self {
            frame_type: control.frame_type,
            version: control.version,
            frame_pending: control.frame_pending,
            ack_request: control.ack_request,
            sequence,
            addressing,
            security,
            ies: control.ies,
        })
    }
}

/// Before version 2 a beacon has a source only, a data frame and a command have an address, and an
/// acknowledgment has none (clauses 7.3.1 to 7.3.4). Secured acknowledgments did not exist.
fn addresses_fit(control: &FrameControl) -> bool {
    use super::AddressingMode::Absent;
    if control.version == FrameVersion::V2015 {
        return true;
    }
    let (dst, src) = (control.dst != Absent, control.src != Absent);
    match control.frame_type {
        FrameType::Beacon => !dst && src,
        FrameType::Data | FrameType::Command => dst || src,
        FrameType::Ack => !dst && !src && !control.security,
    }
}

/// A frame without its FCS, split in place.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// the header up to its information elements
    pub header: Header,
    octets: &'a [u8],
    /// Offset of the header elements.
    ies: usize,
    /// Offset of the MAC header's end.
    header_end: usize,
    /// Offset of the part that security may encrypt.
    private: usize,
    /// Offset of the MIC.
    mic: usize,
    following: Following,
}

impl<'a> Frame<'a> {
    /// Splits a frame without its FCS.
    pub fn parse(octets: &'a [u8]) -> core::result::Result<Self, FormatError> {
        let mut rest = octets;
        let header = Header::parse(&mut rest)?;
        let ies = octets.len() - rest.len();
        let mic = octets.len().checked_sub(header.level().mic_len()).filter(|mic| *mic >= ies);
        let mic = mic.ok_or(FormatError::TooShort)?;
        let behind = octets.get(ies..mic).ok_or(FormatError::TooShort)?;
        let (ies_len, following) =
            if header.ies { HeaderIes::measure(behind)? } else { (0, Following::Payload) };
        let payload = behind.get(ies_len..).ok_or(FormatError::TooShort)?;
        let open = match (header.frame_type, header.version) {
            (_, FrameVersion::V2015) | (FrameType::Data, _) => 0,
            (FrameType::Beacon, _) => beacon::open_len(payload)?,
            (FrameType::Command, _) if payload.is_empty() => return Err(FormatError::Command),
            (FrameType::Command, _) => 1,
            (FrameType::Ack, _) if !payload.is_empty() => return Err(FormatError::TooShort),
            (FrameType::Ack, _) => 0,
        };
        let header_end = ies + ies_len;
        Ok(Self { header, octets, ies, header_end, private: header_end + open, mic, following })
    }

    /// All octets.
    pub const fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// The MAC header, its information elements included.
    pub fn mac_header(&self) -> &'a [u8] {
        &self.octets[..self.header_end]
    }

    /// The header elements.
    pub fn header_ies(&self) -> HeaderIes<'a> {
        HeaderIes::new(&self.octets[self.ies..self.header_end])
    }

    /// The kind of octets behind the header elements; without elements, the payload.
    pub const fn following(&self) -> Following {
        self.following
    }

    /// The MAC payload without the MIC.
    pub fn payload(&self) -> &'a [u8] {
        &self.octets[self.header_end..self.mic]
    }

    /// Whether the command identifier is readable in the secured frame. Version 2 encrypts it.
    pub fn shows_command(&self) -> bool {
        self.header.version != FrameVersion::V2015 || !self.header.level().is_encrypted()
    }

    /// The command identifier (table 7-49) in `payload`, this frame's decrypted MAC payload. None
    /// for other frame types. In version 2 it follows the payload elements.
    pub fn command(&self, payload: &[u8]) -> core::result::Result<Option<u8>, FormatError> {
        if self.header.frame_type != FrameType::Command {
            return Ok(None);
        }
        let content = match self.following {
            Following::PayloadIes => PayloadIes::split(payload)?.1,
            Following::Nothing | Following::Payload => payload,
        };
        content.first().map(|identifier| Some(*identifier)).ok_or(FormatError::Command)
    }

    /// The authenticated and never encrypted part: the header and the open payload.
    pub fn open(&self) -> &'a [u8] {
        &self.octets[..self.private]
    }

    /// The part that levels 4 to 7 encrypt.
    pub fn private(&self) -> &'a [u8] {
        &self.octets[self.private..self.mic]
    }

    /// All octets before the MIC: authenticated at levels 1 to 3.
    pub fn before_mic(&self) -> &'a [u8] {
        &self.octets[..self.mic]
    }

    /// The MIC.
    pub fn mic(&self) -> &'a [u8] {
        &self.octets[self.mic..]
    }
}
