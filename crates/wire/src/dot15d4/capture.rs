//! Frames in captures: link types 195 (with FCS), 215 (with the octets of the physical layer), 230
//! (without FCS), 283 (IEEE 802.15.4 TAP, with the slot number) and 113 (of Linux's interface *any*).
//!
//! The formats are those of <https://www.tcpdump.org/linktypes.html> and of the TAP link type's
//! specification: a header of
//!
//! ```text
//!   1  version, 0
//!   1  reserved
//!   2  octets of the header with its fields
//!   n  fields: type (2), length (2), value, padded to a multiple of four
//! ```
//!
//! with the least significant octet first, and the frame behind it.

use super::{Asn, FormatError, check_fcs};

/// The link type of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// 113: the header of Linux's interface *any*, and a frame, with its FCS if a monitor interface
    /// received it
    Linux,
    /// 195: a frame with its FCS
    WithFcs,
    /// 215: preamble, start of frame and length, then a frame with its FCS
    Physical,
    /// 230: a frame without FCS
    NoFcs,
    /// 283: a TAP header, and a frame with or without FCS by that header
    Tap,
}

impl LinkType {
    /// The link type of a number (LINKTYPE_LINUX_SLL, LINKTYPE_IEEE802_15_4_WITHFCS, _NONASK_PHY,
    /// _NOFCS, _TAP). None for any other.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            113 => Some(Self::Linux),
            195 => Some(Self::WithFcs),
            215 => Some(Self::Physical),
            230 => Some(Self::NoFcs),
            283 => Some(Self::Tap),
            _ => None,
        }
    }

    /// The number of the link type.
    pub const fn number(self) -> u32 {
        match self {
            Self::Linux => 113,
            Self::WithFcs => 195,
            Self::Physical => 215,
            Self::NoFcs => 230,
            Self::Tap => 283,
        }
    }
}

/// A frame of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Captured<'a> {
    /// the frame without its FCS, which was checked if present
    pub frame: &'a [u8],
    /// the slot of the transmission, if the capture has it
    pub asn: Option<Asn>,
    /// the channel, if the capture has it
    pub channel: Option<u16>,
}

/// Octets of Linux's header: kind of packet, kind of interface, address, protocol.
const LINUX_LEN: usize = 16;
/// Interfaces that show received frames without and with FCS (0x03.., `if_arp.h`).
const LINUX_RADIO: u8 = 0x24;
const LINUX_MONITOR: u8 = 0x25;
/// The kind of a packet that this host sends, whose FCS the driver adds later.
const LINUX_SENT: u8 = 4;
/// The preamble of PHYs without amplitude shift keying, and the start-of-frame delimiter.
const PREAMBLE: [u8; 5] = [0, 0, 0, 0, 0xa7];

/// Types of TAP fields.
const FCS_TYPE: u16 = 0;
const CHANNEL: u16 = 3;
const ASN: u16 = 7;

impl<'a> Captured<'a> {
    /// Reads a packet of a capture.
    pub fn parse(link: LinkType, packet: &'a [u8]) -> Result<Self, FormatError> {
        let bare = |frame| Ok(Self { frame, asn: None, channel: None });
        match link {
            LinkType::NoFcs => bare(packet),
            LinkType::WithFcs => bare(check_fcs(packet)?),
            LinkType::Physical => {
                let (len, frame) = packet
                    .strip_prefix(&PREAMBLE)
                    .and_then(|behind| behind.split_first())
                    .ok_or(FormatError::Capture)?;
                if usize::from(len & 0x7f) != frame.len() {
                    return Err(FormatError::Capture);
                }
                bare(check_fcs(frame)?)
            }
            LinkType::Linux => {
                let (header, frame) = packet.split_at_checked(LINUX_LEN).ok_or(FormatError::TooShort)?;
                // The protocol tells nothing: it is 0 in what this host sent by a raw socket.
                match header.first_chunk() {
                    Some([_, _, 0x03, LINUX_RADIO] | [0, LINUX_SENT, 0x03, LINUX_MONITOR]) => bare(frame),
                    Some([_, _, 0x03, LINUX_MONITOR]) => bare(check_fcs(frame)?),
                    _ => Err(FormatError::Capture),
                }
            }
            LinkType::Tap => Self::tap(packet),
        }
    }

    fn tap(packet: &'a [u8]) -> Result<Self, FormatError> {
        let [version, _, low, high, ..] = packet else { return Err(FormatError::TooShort) };
        let len = usize::from(u16::from_le_bytes([*low, *high]));
        if *version != 0 || len < 4 {
            return Err(FormatError::Capture);
        }
        let (header, mut frame) = packet.split_at_checked(len).ok_or(FormatError::TooShort)?;
        let mut fields = header.get(4..).unwrap_or_default();
        let (mut asn, mut channel) = (None, None);
        let mut has_fcs = false;
        while let Some((kind, value)) = field(&mut fields)? {
            match (kind, value) {
                (FCS_TYPE, [0]) => has_fcs = false,
                (FCS_TYPE, [1]) => has_fcs = true,
                // The 32-bit FCS belongs to other radios.
                (FCS_TYPE, _) => return Err(FormatError::Capture),
                (CHANNEL, [low, high, _page]) => channel = Some(u16::from_le_bytes([*low, *high])),
                (ASN, value) => {
                    let octets = value.try_into().map_err(|_| FormatError::Capture)?;
                    asn = Some(Asn::new(u64::from_le_bytes(octets)).ok_or(FormatError::Capture)?);
                }
                _ => {}
            }
        }
        if has_fcs {
            frame = check_fcs(frame)?;
        }
        Ok(Self { frame, asn, channel })
    }
}

/// The next field of a TAP header, without its padding.
fn field<'a>(fields: &mut &'a [u8]) -> Result<Option<(u16, &'a [u8])>, FormatError> {
    if fields.is_empty() {
        return Ok(None);
    }
    let (head, rest) = fields.split_first_chunk::<4>().ok_or(FormatError::Capture)?;
    let [kind_low, kind_high, len_low, len_high] = *head;
    let len = usize::from(u16::from_le_bytes([len_low, len_high]));
    let value = rest.get(..len).ok_or(FormatError::Capture)?;
    *fields = rest.get(len.next_multiple_of(4)..).ok_or(FormatError::Capture)?;
    Ok(Some((u16::from_le_bytes([kind_low, kind_high]), value)))
}

/// Octets of the TAP header of [`emit_tap`].
pub const TAP_LEN: usize = 4 + 8 + 12;

/// A TAP header for a frame without FCS in a slot.
pub fn emit_tap(asn: Asn) -> [u8; TAP_LEN] {
    let mut out = [0; TAP_LEN];
    out[2] = TAP_LEN as u8;
    // The FCS type (none), then the slot.
    out[4..8].copy_from_slice(&[FCS_TYPE as u8, 0, 1, 0]);
    out[12..16].copy_from_slice(&[ASN as u8, 0, 8, 0]);
    out[16..].copy_from_slice(&asn.number().to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const FRAME: [u8; 5] = [2, 0, 9, 0x2e, 0x6d];

    #[test]
    fn link_types_give_the_same_frame() {
        let asn = Asn::new(0x12_3456_789a);
        let bare = &FRAME[..3];
        let with_fcs = [bare, &super::super::fcs(bare).to_le_bytes()].concat();
        let plain = Captured { frame: bare, asn: None, channel: None };
        assert_eq!(Captured::parse(LinkType::NoFcs, bare), Ok(plain));
        assert_eq!(Captured::parse(LinkType::WithFcs, &with_fcs), Ok(plain));
        let physical = [&PREAMBLE[..], &[5], &with_fcs].concat();
        assert_eq!(Captured::parse(LinkType::Physical, &physical), Ok(plain));
        let linux = |kind: u8, frame: &[u8]| {
            [&[0, 3, 3, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf6][..], frame].concat()
        };
        assert_eq!(Captured::parse(LinkType::Linux, &linux(0x24, bare)), Ok(plain));
        assert_eq!(Captured::parse(LinkType::Linux, &linux(0x25, &with_fcs)), Ok(plain));
        let mut sent = linux(0x25, bare);
        sent[1] = 4;
        assert_eq!(Captured::parse(LinkType::Linux, &sent), Ok(plain));
        let tap = [&emit_tap(asn.unwrap())[..], bare].concat();
        assert_eq!(Captured::parse(LinkType::Tap, &tap), Ok(Captured { asn, ..plain }));
        // With an FCS, a channel, and an unknown field.
        let mut tap = Vec::from([0, 0, 32, 0, 0, 0, 1, 0, 1, 0, 0, 0, 3, 0, 3, 0, 26, 0, 0, 0]);
        tap.extend([1, 0, 4, 0, 0, 0, 0x20, 0xc2, 10, 0, 0, 0]);
        tap.extend(&with_fcs);
        assert_eq!(Captured::parse(LinkType::Tap, &tap), Ok(Captured { channel: Some(26), ..plain }));
        for number in [113, 195, 215, 230, 283] {
            assert_eq!(LinkType::from_number(number).map(LinkType::number), Some(number));
        }
        assert_eq!(LinkType::from_number(1), None);
    }

    #[test]
    fn malformed_captures_are_named() {
        let tap = [&emit_tap(Asn::default())[..], &FRAME].concat();
        for len in 0..TAP_LEN {
            assert_eq!(Captured::parse(LinkType::Tap, &tap[..len]), Err(FormatError::TooShort), "{len}");
        }
        let changed = |at: usize, value: u8| {
            let mut changed = tap.clone();
            changed[at] = value;
            Captured::parse(LinkType::Tap, &changed).map(|_| ())
        };
        // Version; a header shorter than itself, or ending within a field; a field past its end; a
        // 32-bit FCS; a slot of six octets.
        for (at, value) in [(0, 1), (2, 3), (2, 22), (14, 99), (8, 2), (21, 1)] {
            assert_eq!(changed(at, value), Err(FormatError::Capture), "octet {at}");
        }
        // An announced FCS that is missing.
        assert_eq!(changed(8, 1), Err(FormatError::Fcs));
        assert_eq!(Captured::parse(LinkType::WithFcs, &FRAME), Err(FormatError::Fcs));
        // No preamble; another length; an interface of another kind.
        let linux = [0, 3, 3, 0x26, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf6];
        for (link, packet) in [
            (LinkType::Physical, &FRAME[..]),
            (LinkType::Physical, &[0, 0, 0, 0, 0xa7, 4, 2, 0, 9, 0x2e, 0x6d]),
            (LinkType::Linux, &linux),
        ] {
            assert_eq!(Captured::parse(link, packet), Err(FormatError::Capture), "{packet:02x?}");
        }
        assert_eq!(Captured::parse(LinkType::Linux, &linux[..15]), Err(FormatError::TooShort));
    }
}
