//! The addressing fields, and the presence of PAN identifiers (clause 7.2.2, table 7-2).

use super::control::FrameControl;
use super::{Address, AddressingMode, ExtendedAddress, FormatError, FrameVersion, PanId, ShortAddress};

/// The addressing fields of a frame as on the wire: an omitted PAN identifier is `None`.
///
/// PAN ID compression is not a field here, since no two rows of table 7-2 differ only in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Addressing {
    /// the destination's PAN identifier, if sent
    pub dst_pan: Option<PanId>,
    /// the destination
    pub dst: Address,
    /// the source's PAN identifier, if sent
    pub src_pan: Option<PanId>,
    /// the source
    pub src: Address,
}

impl Addressing {
    /// From `src` to `dst` within one PAN, whose identifier is sent once.
    pub const fn within(pan: PanId, dst: Address, src: Address) -> Self {
        let (dst_pan, src_pan) = match (dst, src) {
            (Address::Absent, Address::Absent) => (None, None),
            (Address::Absent, _) => (None, Some(pan)),
            _ => (Some(pan), None),
        };
        Self { dst_pan, dst, src_pan, src }
    }

    /// The PAN of the source: its own identifier or the destination's. None if the frame has none.
    pub const fn source_pan(&self) -> Option<PanId> {
        match (self.src_pan, self.src) {
            (Some(pan), _) => Some(pan),
            (None, Address::Absent) => None,
            (None, _) => self.dst_pan,
        }
    }

    /// The PAN of the destination. None if the frame has none.
    pub const fn destination_pan(&self) -> Option<PanId> {
        self.dst_pan
    }

    /// Octets in a frame.
    pub const fn len(&self) -> usize {
        let pans = self.dst_pan.is_some() as usize + self.src_pan.is_some() as usize;
        2 * pans + self.dst.len() + self.src.len()
    }

    /// Whether there are no addresses and no PAN identifiers.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The PAN ID compression bit for these fields, if a frame of this version can send them.
    pub(super) const fn compression(&self, version: FrameVersion) -> Option<bool> {
        let (dst, src) = (mode(self.dst), mode(self.src));
        let mut compression = 0;
        while compression < 2 {
            if let Some(sent) = pans(version, dst, src, compression == 1) {
                let same = sent.0 == self.dst_pan.is_some() && sent.1 == self.src_pan.is_some();
                if same {
                    return Some(compression == 1);
                }
            }
            compression += 1;
        }
        None
    }

    /// Reads the fields from the front of `octets`.
    pub(super) fn parse(control: &FrameControl, octets: &mut &[u8]) -> Result<Self, FormatError> {
        let sent = pans(control.version, control.dst, control.src, control.pan_id_compression);
        let (dst_pan, src_pan) = sent.ok_or(FormatError::Addressing)?;
        let dst_pan = pan(dst_pan, octets)?;
        let dst = address(control.dst, octets)?;
        let src_pan = pan(src_pan, octets)?;
        let src = address(control.src, octets)?;
        Ok(Self { dst_pan, dst, src_pan, src })
    }

    /// The octets of each field in order, with the used length of each array.
    pub(super) fn fields(&self) -> [([u8; 8], usize); 4] {
        let pan = |pan: Option<PanId>| (widen(pan.unwrap_or(PanId(0)).0), if pan.is_some() { 2 } else { 0 });
        let address = |address: Address| match address {
            Address::Absent => ([0; 8], 0),
            Address::Short(short) => (widen(short.0), 2),
            Address::Extended(extended) => (extended.to_wire(), 8),
        };
        [pan(self.dst_pan), address(self.dst), pan(self.src_pan), address(self.src)]
    }
}

fn widen(value: u16) -> [u8; 8] {
    u64::from(value).to_le_bytes()
}

pub(super) const fn mode(address: Address) -> AddressingMode {
    match address {
        Address::Absent => AddressingMode::Absent,
        Address::Short(_) => AddressingMode::Short,
        Address::Extended(_) => AddressingMode::Extended,
    }
}

/// Whether the destination's and the source's PAN identifiers are sent. None for a combination that
/// is not in table 7-2, or that contradicts clause 7.2.2 before version 2.
const fn pans(
    version: FrameVersion,
    dst: AddressingMode,
    src: AddressingMode,
    compression: bool,
) -> Option<(bool, bool)> {
    use AddressingMode::{Absent, Extended};
    Some(match (version, dst, src, compression) {
        (FrameVersion::V2015, Absent, Absent, compression) => (compression, false),
        (FrameVersion::V2015, _, Absent, compression) => (!compression, false),
        (FrameVersion::V2015, Absent, _, compression) => (false, !compression),
        (FrameVersion::V2015, Extended, Extended, compression) => (!compression, false),
        (FrameVersion::V2015, _, _, compression) => (true, !compression),
        (_, Absent, Absent, false) => (false, false),
        (_, Absent, _, false) => (false, true),
        (_, _, Absent, false) => (true, false),
        (_, Absent, _, true) | (_, _, Absent, true) => return None,
        (_, _, _, compression) => (true, !compression),
    })
}

fn pan(sent: bool, octets: &mut &[u8]) -> Result<Option<PanId>, FormatError> {
    if !sent {
        return Ok(None);
    }
    let (pan, rest) = octets.split_first_chunk().ok_or(FormatError::TooShort)?;
    *octets = rest;
    Ok(Some(PanId(u16::from_le_bytes(*pan))))
}

fn address(mode: AddressingMode, octets: &mut &[u8]) -> Result<Address, FormatError> {
    Ok(match mode {
        AddressingMode::Absent => Address::Absent,
        AddressingMode::Short => {
            let (address, rest) = octets.split_first_chunk().ok_or(FormatError::TooShort)?;
            *octets = rest;
            Address::Short(ShortAddress(u16::from_le_bytes(*address)))
        }
        AddressingMode::Extended => {
            let (address, rest) = octets.split_first_chunk().ok_or(FormatError::TooShort)?;
            *octets = rest;
            Address::Extended(ExtendedAddress::from_wire(*address))
        }
    })
}
