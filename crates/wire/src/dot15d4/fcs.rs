//! The frame check sequence of 16 bits (clause 7.2.11).

use super::FormatError;

/// Octets of the FCS.
pub const FCS_LEN: usize = 2;

/// The FCS of a frame: the ITU-T CRC of 16 bits, least significant bit first, from zero.
pub fn fcs(frame: &[u8]) -> u16 {
    frame.iter().fold(0, |crc, octet| {
        (0..8).fold(crc ^ u16::from(*octet), |crc, _| if crc & 1 != 0 { crc >> 1 ^ 0x8408 } else { crc >> 1 })
    })
}

/// The frame without its FCS, if the FCS is right.
pub fn check_fcs(frame: &[u8]) -> Result<&[u8], FormatError> {
    let (frame, sent) = frame.split_last_chunk::<FCS_LEN>().ok_or(FormatError::TooShort)?;
    if fcs(frame) == u16::from_le_bytes(*sent) { Ok(frame) } else { Err(FormatError::Fcs) }
}

/// Appends the FCS of the first `len` octets and returns the length with it.
pub fn append_fcs(buffer: &mut [u8], len: usize) -> Option<usize> {
    let (frame, rest) = buffer.split_at_mut_checked(len)?;
    *rest.first_chunk_mut()? = fcs(frame).to_le_bytes();
    Some(len + FCS_LEN)
}
