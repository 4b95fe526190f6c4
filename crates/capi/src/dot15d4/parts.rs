//! The structs of `antedate_dot15d4.h`.

use crate::Code;
use antedate_wire::dot15d4::{Address, Frame, KeyIdentifier, SecurityHeader, SecurityLevel};

/// `antedate_dot15d4_protection`: the auxiliary security header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// The security level.
    pub level: u8,
    /// The key identifier mode.
    pub key_mode: u8,
    /// The key index, in modes 1 to 3.
    pub key_index: u8,
    /// Not 0 if the nonce has the slot.
    pub slotted: u8,
    /// Not 0 if the frame counter is in the frame. Ignored for writing.
    pub has_counter: u8,
    /// The key source in wire order: four octets in mode 2, eight in mode 3.
    pub key_source: [u8; 8],
    /// The frame counter.
    pub frame_counter: u32,
}

/// `antedate_dot15d4_parts`: a frame as far as it is readable without its key.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Its protection; level 0 for an unsecured frame.
    pub protection: Protection,
    /// 0 beacon, 1 data, 2 acknowledgment, 3 command.
    pub frame_type: u8,
    /// Octets of the source address: 0, 2 or 8.
    pub source_len: u8,
    /// The source address in its written order.
    pub source: [u8; 8],
    /// The source's PAN; 0xffff if it is not in the frame.
    pub source_pan: u16,
    /// Octets of the MAC header.
    pub header_len: u16,
    /// Octets that are never encrypted.
    pub open_len: u16,
    /// Octets of the MAC payload, without the MIC.
    pub payload_len: u16,
    /// Octets of the MIC.
    pub mic_len: u16,
}

impl Protection {
    pub(super) fn header(&self) -> Result<SecurityHeader, Code> {
        let level = *SecurityLevel::ALL.get(usize::from(self.level)).ok_or(Code::Frame)?;
        if level.mic_len() == 0 || (self.key_mode > 0 && self.key_index == 0) {
            return Err(Code::Frame);
        }
        let [a, b, c, d, ..] = self.key_source;
        let key = match self.key_mode {
            0 => KeyIdentifier::Implicit,
            1 => KeyIdentifier::Index(self.key_index),
            2 => KeyIdentifier::Source4([a, b, c, d], self.key_index),
            3 => KeyIdentifier::Source8(self.key_source, self.key_index),
            _ => return Err(Code::Frame),
        };
        Ok(match self.slotted {
            0 => SecurityHeader::counted(level, key, self.frame_counter),
            _ => SecurityHeader::tsch(level, key),
        })
    }

    fn of(header: &SecurityHeader) -> Self {
        let mut key_source = [0; 8];
        match header.key {
            KeyIdentifier::Source4(source, _) => key_source[..4].copy_from_slice(&source),
            KeyIdentifier::Source8(source, _) => key_source = source,
            KeyIdentifier::Implicit | KeyIdentifier::Index(_) => {}
        }
        Self {
            level: header.level.number(),
            key_mode: header.key.mode(),
            key_index: header.key.index().unwrap_or(0),
            slotted: header.asn_in_nonce.into(),
            has_counter: header.frame_counter.is_some().into(),
            key_source,
            frame_counter: header.frame_counter.unwrap_or(0),
        }
    }
}

impl Parts {
    pub(super) fn of(frame: &Frame<'_>) -> Self {
        let addressing = &frame.header.addressing;
        let (source_len, source) = match addressing.src {
            Address::Absent => (0, [0; 8]),
            Address::Short(short) => {
                let [a, b] = short.0.to_be_bytes();
                (2, [a, b, 0, 0, 0, 0, 0, 0])
            }
            Address::Extended(extended) => (8, extended.0),
        };
        // A frame is read from at most `u16::MAX` octets.
        let octets = |part: &[u8]| part.len() as u16;
        Self {
            protection: frame.header.security.as_ref().map(Protection::of).unwrap_or_default(),
            frame_type: frame.header.frame_type as u8,
            source_len,
            source,
            source_pan: addressing.source_pan().map_or(0xffff, |pan| pan.0),
            header_len: octets(frame.mac_header()),
            open_len: octets(frame.open()),
            payload_len: octets(frame.payload()),
            mic_len: octets(frame.mic()),
        }
    }
}
