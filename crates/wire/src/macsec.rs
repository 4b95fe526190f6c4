//! The SecTAG and the MACsec PDU (IEEE 802.1AE-2018 clause 9).
//!
//! A protected frame is destination, source, SecTAG, secure data, ICV. The SecTAG (clause 9.3) is
//!
//! ```text
//!   octets  1-2  MACsec EtherType, 88-E5
//!           3    V ES SC SCB E C AN AN
//!           4    MF CF SL SL SL SL SL SL
//!           5-8  packet number (of an XPN cipher suite: its lower half)
//!           9-16 secure channel identifier, if SC is set
//! ```
//!
//! MF and CF are two bits that the standard reserves: here *more fragments* and *continued
//! fragment* of a split frame (an Antedate extension, off unless configured). A receiver that has
//! not agreed to fragments discards a frame that is not [`SecTag::is_standard`], by rule (e) of
//! clause 9.12.
//!
//! [`Mpdu::parse`] applies the other rules of clause 9.12 and names the broken one.

use core::fmt;
use core::str::FromStr;

use crate::bytes::{array, at_least, be16, be32, put16, put32};
use crate::ethernet::{Address, EtherType, MIN_FRAME_LEN};
use crate::{Error, Result};

/// Octets of a SecTAG without SCI.
pub const TAG_LEN_SHORT: usize = 8;
/// Octets of a SecTAG with SCI.
pub const TAG_LEN_LONG: usize = 16;
/// Octets of the ICV of every standard cipher suite.
pub const ICV_LEN: usize = 16;
/// The most octets that protection adds to a frame.
pub const MAX_OVERHEAD: usize = TAG_LEN_LONG + ICV_LEN;
/// Below this length the SL field holds the length of the secure data (clause 9.7).
pub const SHORT_LENGTH_LIMIT: usize = 48;
/// The longest frame with possible padding behind the ICV: the Ethernet minimum and a VLAN tag
/// removed after padding.
pub const MAX_PADDED_LEN: usize = MIN_FRAME_LEN + 4;

/// Octets of the two addresses before the SecTAG.
const ADDRESSES_LEN: usize = 12;

/// A secure channel identifier (clause 9.9): a MAC address and a port identifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sci(pub [u8; 8]);

impl Sci {
    /// The port identifier of an end station with an implicit SCI.
    pub const PORT_END_STATION: u16 = 0x0001;
    /// The port identifier of an EPON single-copy broadcast.
    pub const PORT_SINGLE_COPY_BROADCAST: u16 = 0x0000;

    /// An identifier from its parts.
    pub const fn new(address: Address, port: u16) -> Self {
        let [a, b, c, d, e, f] = address.0;
        let [high, low] = port.to_be_bytes();
        Self([a, b, c, d, e, f, high, low])
    }

    /// The MAC address.
    pub const fn address(&self) -> Address {
        let [a, b, c, d, e, f, _, _] = self.0;
        Address([a, b, c, d, e, f])
    }

    /// The port identifier.
    pub const fn port(&self) -> u16 {
        u16::from_be_bytes([self.0[6], self.0[7]])
    }

    /// The eight octets.
    pub const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl fmt::Display for Sci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::Hex(&self.0).fmt(f)
    }
}

impl fmt::Debug for Sci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sci {
    type Err = Error;

    /// Reads sixteen hexadecimal digits, the format of Linux's `ip macsec`.
    fn from_str(text: &str) -> Result<Self> {
        if text.len() != 16 || !text.bytes().all(|c| c.is_ascii_hexdigit()) {
            return Err(Error::Value);
        }
        u64::from_str_radix(text, 16).map(|n| Self(n.to_be_bytes())).map_err(|_| Error::Value)
    }
}

/// An association number, 0 to 3 (clause 9.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct An(u8);

impl An {
    /// Number of association numbers.
    pub const COUNT: usize = 4;
    /// All association numbers.
    pub const ALL: [Self; Self::COUNT] = [Self(0), Self(1), Self(2), Self(3)];

    /// The association number `number`, if below 4.
    pub const fn new(number: u8) -> Option<Self> {
        if number < 4 { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The number as an index below four.
    pub const fn index(self) -> usize {
        (self.0 & 3) as usize
    }

    /// The next association number.
    pub const fn following(self) -> Self {
        Self((self.0 + 1) & 3)
    }
}

impl fmt::Display for An {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// TAG control information (clause 9.5): six flags in the upper bits of an octet. The lower two are
/// zero here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tci(u8);

impl Tci {
    const V: u8 = 0x80;
    const ES: u8 = 0x40;
    const SC: u8 = 0x20;
    const SCB: u8 = 0x10;
    const E: u8 = 0x08;
    const C: u8 = 0x04;

    /// No flag set: integrity only, and an SCI known from elsewhere.
    pub const NONE: Self = Self(0);

    /// The flags in an octet of the wire, without its AN bits.
    pub const fn from_octet(octet: u8) -> Self {
        Self(octet & 0xfc)
    }

    /// The flags at their places in the octet.
    pub const fn octet(self) -> u8 {
        self.0
    }

    const fn with(self, bit: u8, on: bool) -> Self {
        Self(if on { self.0 | bit } else { self.0 & !bit })
    }

    /// With end station (ES) set to `on`: the source address is that of the SCI.
    pub const fn with_end_station(self, on: bool) -> Self {
        self.with(Self::ES, on)
    }

    /// With explicit SCI (SC) set to `on`.
    pub const fn with_explicit_sci(self, on: bool) -> Self {
        self.with(Self::SC, on)
    }

    /// With single-copy broadcast (SCB) set to `on`.
    pub const fn with_single_copy_broadcast(self, on: bool) -> Self {
        self.with(Self::SCB, on)
    }

    /// With encryption (E) set to `on`.
    pub const fn with_encryption(self, on: bool) -> Self {
        self.with(Self::E, on)
    }

    /// With changed text (C) set to `on`.
    pub const fn with_changed_text(self, on: bool) -> Self {
        self.with(Self::C, on)
    }

    /// V
    pub const fn version(self) -> bool {
        self.0 & Self::V != 0
    }

    /// ES
    pub const fn end_station(self) -> bool {
        self.0 & Self::ES != 0
    }

    /// SC
    pub const fn explicit_sci(self) -> bool {
        self.0 & Self::SC != 0
    }

    /// SCB
    pub const fn single_copy_broadcast(self) -> bool {
        self.0 & Self::SCB != 0
    }

    /// E
    pub const fn encryption(self) -> bool {
        self.0 & Self::E != 0
    }

    /// C
    pub const fn changed_text(self) -> bool {
        self.0 & Self::C != 0
    }

    /// Whether E is set without C: reserved, for frames that are not for the controlled port
    /// (clause 10.6.1).
    pub const fn is_reserved_encoding(self) -> bool {
        self.0 & (Self::E | Self::C) == Self::E
    }
}

/// The broken rule of clause 9.12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SecTagError {
    /// the frame is too short for a SecTAG, one octet of secure data and the ICV (rule a)
    TooShort,
    /// the EtherType is not that of MACsec (rule b)
    EtherType,
    /// the version bit is set (rule c)
    Version,
    /// ES or SCB is set together with SC (rule d)
    SciAndImpliedSci,
    /// bit 7 or 8 of the short-length octet is set (rule e) without agreed fragments
    ReservedBits,
    /// the short length does not fit the available octets, or is 48 or more (rules f to i)
    ShortLength,
    /// the short length is zero with fewer than 48 octets of secure data (rules f to i)
    MissingShortLength,
}

impl fmt::Display for SecTagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooShort => "too short for a SecTAG, secure data and an ICV",
            Self::EtherType => "not the EtherType of MACsec",
            Self::Version => "unknown version of the SecTAG",
            Self::SciAndImpliedSci => "ES or SCB together with an explicit SCI",
            Self::ReservedBits => "reserved bits of the short-length octet are set",
            Self::ShortLength => "the short length contradicts the length of the frame",
            Self::MissingShortLength => "fewer than 48 octets of secure data without a short length",
        })
    }
}

impl core::error::Error for SecTagError {}

mod field {
    //! Offsets from the first octet of the SecTAG.
    pub(super) const ETHERTYPE: usize = 0;
    pub(super) const TCI_AN: usize = 2;
    pub(super) const SHORT_LENGTH: usize = 3;
    pub(super) const PACKET_NUMBER: usize = 4;
    pub(super) const SCI: usize = 8;
}

/// A SecTAG.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecTag {
    /// the flags; SC tells whether `sci` is present
    pub tci: Tci,
    /// the association number
    pub an: An,
    /// the length of the secure data if below 48, otherwise 0
    pub short_length: u8,
    /// MF: another fragment of the same frame follows under the next packet number
    pub more_fragments: bool,
    /// CF: this is not the first fragment of its frame
    pub continued: bool,
    /// the packet number, or the lower half of an extended one
    pub packet_number: u32,
    /// the identifier of the secure channel, if sent
    pub sci: Option<Sci>,
}

impl SecTag {
    /// Bit 8 of the short-length octet.
    pub const MORE_FRAGMENTS: u8 = 0x80;
    /// Bit 7 of the short-length octet.
    pub const CONTINUED: u8 = 0x40;

    /// Whether the reserved bits are clear, so that any implementation accepts the frame.
    pub const fn is_standard(&self) -> bool {
        !(self.more_fragments || self.continued)
    }

    /// The short-length octet with its two flags.
    pub const fn short_length_octet(&self) -> u8 {
        let more = if self.more_fragments { Self::MORE_FRAGMENTS } else { 0 };
        let continued = if self.continued { Self::CONTINUED } else { 0 };
        more | continued | (self.short_length & 0x3f)
    }

    /// The short length of `len` octets of secure data (clause 9.7).
    pub const fn short_length_of(len: usize) -> u8 {
        if len < SHORT_LENGTH_LIMIT { len as u8 } else { 0 }
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        if self.sci.is_some() { TAG_LEN_LONG } else { TAG_LEN_SHORT }
    }

    /// Writes the SecTAG to the front of `buffer`. SC is set if and only if there is an SCI.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        at_least(buffer, self.buffer_len())?;
        put16(buffer, field::ETHERTYPE, EtherType::Macsec.number());
        buffer[field::TCI_AN] = self.tci.with_explicit_sci(self.sci.is_some()).octet() | self.an.number();
        buffer[field::SHORT_LENGTH] = self.short_length_octet();
        put32(buffer, field::PACKET_NUMBER, self.packet_number);
        if let Some(sci) = self.sci {
            buffer[field::SCI..TAG_LEN_LONG].copy_from_slice(&sci.0);
        }
        Ok(())
    }
}

/// A MACsec PDU with its addresses, split in place and valid by clause 9.12.
#[derive(Debug, Clone, Copy)]
pub struct Mpdu<'a> {
    /// the SecTAG
    pub tag: SecTag,
    /// destination, source and SecTAG: authenticated and never encrypted
    pub header: &'a [u8],
    /// the secure data: encrypted if the tag has E set
    pub secure_data: &'a [u8],
    /// the integrity check value
    pub icv: &'a [u8; ICV_LEN],
}

impl<'a> Mpdu<'a> {
    /// Splits a whole Ethernet frame.
    ///
    /// Padding behind a short PDU is removed if Ethernet's minimum length explains it. In a frame
    /// longer than [`MAX_PADDED_LEN`] the short length must fit exactly.
    pub fn parse(frame: &'a [u8]) -> core::result::Result<Self, SecTagError> {
        let (addresses, pdu) = frame.split_at_checked(ADDRESSES_LEN).ok_or(SecTagError::TooShort)?;
        if pdu.len() < TAG_LEN_SHORT + 1 + ICV_LEN {
            // A frame too short for MACsec may be another protocol, and `EtherType` is the better
            // answer then.
            let is_macsec = pdu.len() < 2 || be16(pdu, field::ETHERTYPE) == EtherType::Macsec.number();
            return Err(if is_macsec { SecTagError::TooShort } else { SecTagError::EtherType });
        }
        if be16(pdu, field::ETHERTYPE) != EtherType::Macsec.number() {
            return Err(SecTagError::EtherType);
        }
        let tci_an = pdu[field::TCI_AN];
        let tci = Tci::from_octet(tci_an);
        if tci.version() {
            return Err(SecTagError::Version);
        }
        let explicit = tci.explicit_sci();
        if explicit && (tci.end_station() || tci.single_copy_broadcast()) {
            return Err(SecTagError::SciAndImpliedSci);
        }
        let octet = pdu[field::SHORT_LENGTH];
        let (more_fragments, continued) =
            (octet & SecTag::MORE_FRAGMENTS != 0, octet & SecTag::CONTINUED != 0);
        let short_length = octet & 0x3f;
        let tag_len = if explicit { TAG_LEN_LONG } else { TAG_LEN_SHORT };
        let there = match pdu.len().checked_sub(tag_len + ICV_LEN) {
            Some(there) if there > 0 => there,
            _ => return Err(SecTagError::TooShort),
        };
        let secure_len = match usize::from(short_length) {
            0 if there < SHORT_LENGTH_LIMIT => return Err(SecTagError::MissingShortLength),
            0 => there,
            said if said >= SHORT_LENGTH_LIMIT || said > there => return Err(SecTagError::ShortLength),
            said if said < there && frame.len() > MAX_PADDED_LEN => return Err(SecTagError::ShortLength),
            said => said,
        };
        let sci = explicit.then(|| Sci(array(pdu, field::SCI)));
        let packet_number = be32(pdu, field::PACKET_NUMBER);
        let (header, rest) = frame.split_at(addresses.len() + tag_len);
        let (secure_data, rest) = rest.split_at(secure_len);
        let icv = rest.first_chunk().ok_or(SecTagError::TooShort)?;
        let an = An(tci_an & 3);
        let tag = SecTag { tci, an, short_length, more_fragments, continued, packet_number, sci };
        Ok(Self { tag, header, secure_data, icv })
    }

    /// The source address of the frame.
    pub fn src_addr(&self) -> Address {
        Address(array(self.header, 6))
    }

    /// The SCI in the SecTAG, or implied by ES or SCB (clause 9.9). None if the receiver must know
    /// it, as on a link with a single peer.
    pub fn sci(&self) -> Option<Sci> {
        if self.tag.sci.is_some() {
            return self.tag.sci;
        }
        if self.tag.tci.single_copy_broadcast() {
            return Some(Sci::new(self.src_addr(), Sci::PORT_SINGLE_COPY_BROADCAST));
        }
        self.tag.tci.end_station().then(|| Sci::new(self.src_addr(), Sci::PORT_END_STATION))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    fn frame(tag: SecTag, secure_len: usize, padding: usize) -> Vec<u8> {
        let mut out = [2; 12].to_vec();
        out.resize(12 + tag.buffer_len(), 0);
        tag.emit(&mut out[12..]).unwrap();
        out.extend(core::iter::repeat_n(0x5a, secure_len));
        out.extend([0x1c; ICV_LEN]);
        out.extend(core::iter::repeat_n(0, padding));
        out
    }

    fn tag(sci: Option<Sci>, secure_len: usize) -> SecTag {
        SecTag {
            tci: Tci::NONE.with_explicit_sci(sci.is_some()).with_encryption(true).with_changed_text(true),
            an: An::ALL[2],
            short_length: SecTag::short_length_of(secure_len),
            more_fragments: false,
            continued: false,
            packet_number: 0xb2c2_8465,
            sci,
        }
    }

    const SCI: Sci = Sci([0x12, 0x15, 0x35, 0x24, 0xc0, 0x89, 0x5e, 0x81]);

    #[test]
    fn tag_round_trips() {
        for sci in [None, Some(SCI)] {
            for len in [1, 2, 47, 48, 49, 1500] {
                let bytes = frame(tag(sci, len), len, 0);
                let mpdu = Mpdu::parse(&bytes).unwrap();
                assert_eq!(mpdu.tag, tag(sci, len));
                assert_eq!((mpdu.secure_data.len(), mpdu.icv), (len, &[0x1c; 16]));
                assert_eq!(mpdu.header.len(), 12 + tag(sci, len).buffer_len());
            }
        }
        // The SecTAG of the first test vector of Annex C.
        let integrity = SecTag { tci: Tci::NONE, short_length: 42, ..tag(Some(SCI), 42) };
        let mut out = [0; 16];
        integrity.emit(&mut out).unwrap();
        assert_eq!(out, *b"\x88\xe5\x22\x2a\xb2\xc2\x84\x65\x12\x15\x35\x24\xc0\x89\x5e\x81");
    }

    #[test]
    fn each_broken_rule_is_named() {
        let good = frame(tag(Some(SCI), 60), 60, 0);
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            Mpdu::parse(&bytes).err()
        };
        assert_eq!(with(14, good[14]), None);
        assert_eq!(with(12, 0x08), Some(SecTagError::EtherType));
        assert_eq!(with(14, good[14] | 0x80), Some(SecTagError::Version));
        assert_eq!(with(14, good[14] | 0x40), Some(SecTagError::SciAndImpliedSci));
        assert_eq!(with(14, good[14] | 0x10), Some(SecTagError::SciAndImpliedSci));
        assert_eq!(with(15, 47), Some(SecTagError::ShortLength));
        assert_eq!(with(15, 48), Some(SecTagError::ShortLength));
        assert_eq!(Mpdu::parse(&good[..good.len() - 13]).err(), Some(SecTagError::MissingShortLength));
        assert_eq!(Mpdu::parse(&good[..44]).err(), Some(SecTagError::TooShort));
        assert_eq!(Mpdu::parse(&good[..12]).err(), Some(SecTagError::TooShort));
        assert_eq!(Mpdu::parse(&[0; 20]).err(), Some(SecTagError::EtherType));
    }

    #[test]
    fn reserved_bits_are_fragment_flags() {
        for (more_fragments, continued) in [(false, false), (true, false), (true, true), (false, true)] {
            for len in [20, 60] {
                let flagged = SecTag { more_fragments, continued, ..tag(Some(SCI), len) };
                let bytes = frame(flagged, len, 0);
                let (more, short) = (u8::from(more_fragments) << 7, SecTag::short_length_of(len));
                assert_eq!(bytes[15], more | u8::from(continued) << 6 | short);
                let mpdu = Mpdu::parse(&bytes).unwrap();
                assert_eq!((mpdu.tag, mpdu.secure_data.len()), (flagged, len));
                assert_eq!(mpdu.tag.is_standard(), bytes[15] & 0xc0 == 0);
            }
        }
    }

    #[test]
    fn padding_is_cut_to_the_ethernet_minimum() {
        let short = tag(None, 10);
        let padded = frame(short, 10, 14);
        assert_eq!(padded.len(), MIN_FRAME_LEN);
        assert_eq!(Mpdu::parse(&padded).unwrap().secure_data.len(), 10);
        assert!(Mpdu::parse(&frame(short, 10, 18)).is_ok());
        assert_eq!(Mpdu::parse(&frame(short, 10, 19)).err(), Some(SecTagError::ShortLength));
    }

    #[test]
    fn sci_is_explicit_or_implied() {
        let of = |tci: Tci, sci| Mpdu::parse(&frame(SecTag { tci, ..tag(sci, 60) }, 60, 0)).unwrap().sci();
        let source = Address([2; 6]);
        assert_eq!(of(Tci::NONE, Some(SCI)), Some(SCI));
        assert_eq!(of(Tci::NONE.with_end_station(true), None), Some(Sci::new(source, 1)));
        assert_eq!(of(Tci::NONE.with_single_copy_broadcast(true), None), Some(Sci::new(source, 0)));
        assert_eq!(of(Tci::NONE, None), None);
        assert_eq!((SCI.port(), SCI.to_string().parse()), (0x5e81, Ok(SCI)));
        assert!("12153524c0895e8".parse::<Sci>().is_err() && "+2153524c0895e81".parse::<Sci>().is_err());
    }

    proptest! {
        #[test]
        fn parser_never_panics_or_loses_octets(mut bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Some(ethertype) = bytes.get_mut(12..14) {
                ethertype.copy_from_slice(&[0x88, 0xe5]);
            }
            if let Ok(mpdu) = Mpdu::parse(&bytes) {
                let used = mpdu.header.len() + mpdu.secure_data.len() + ICV_LEN;
                prop_assert!(used == bytes.len() || bytes.len() <= MAX_PADDED_LEN);
                let mut tag = [0; TAG_LEN_LONG];
                mpdu.tag.emit(&mut tag).unwrap();
                prop_assert_eq!(&tag[..mpdu.tag.buffer_len()], &mpdu.header[12..]);
            }
        }
    }
}
