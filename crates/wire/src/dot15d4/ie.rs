//! Information elements (clause 7.4): header elements are authenticated, payload elements are
//! encrypted with the payload.

use super::{Asn, FormatError};
use crate::{Error, Result};

/// The longest content of a header element.
pub const MAX_HEADER_IE_LEN: usize = 127;
/// The longest content of a payload element.
pub const MAX_PAYLOAD_IE_LEN: usize = 2047;

wire_enum! {
    /// The identifier of a header element (table 7-7).
    pub enum HeaderElementId(u8) {
        /// of a vendor
        Vendor = 0x00,
        /// coordinated sampled listening
        Csl = 0x1a,
        /// receiver initiated transmission
        Rit = 0x1b,
        /// PAN descriptor of DSME
        DsmePanDescriptor = 0x1c,
        /// rendezvous time
        RendezvousTime = 0x1d,
        /// time correction, in enhanced acknowledgments
        TimeCorrection = 0x1e,
        /// global time
        GlobalTime = 0x29,
        /// end of the header elements, and payload elements follow
        Termination1 = 0x7e,
        /// end of the header elements, and the payload follows
        Termination2 = 0x7f,
    }
}

wire_enum! {
    /// The group of a payload element (table 7-15).
    pub enum PayloadGroupId(u8) {
        /// encapsulated service data unit
        Esdu = 0x0,
        /// elements of the MAC's management, nested
        Mlme = 0x1,
        /// of a vendor
        Vendor = 0x2,
        /// of the IETF (RFC 8137)
        Ietf = 0x5,
        /// end of the payload elements, and the payload follows
        Termination = 0xf,
    }
}

wire_enum! {
    /// The identifier of a nested element of the short form (table 7-16), for TSCH.
    pub enum ShortNestedId(u8) {
        /// TSCH synchronization
        TschSynchronization = 0x1a,
        /// TSCH slotframe and link
        TschSlotframeAndLink = 0x1b,
        /// TSCH timeslot
        TschTimeslot = 0x1c,
    }
}

/// A header element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderIe<'a> {
    /// its identifier
    pub id: HeaderElementId,
    /// its content
    pub content: &'a [u8],
}

/// A payload element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadIe<'a> {
    /// its group
    pub group: PayloadGroupId,
    /// its content
    pub content: &'a [u8],
}

/// The octets behind the header elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Following {
    /// none: the elements reach to the end
    Nothing,
    /// payload elements
    PayloadIes,
    /// the payload
    Payload,
}

/// The header elements at the front of some octets.
#[derive(Debug, Clone)]
pub struct HeaderIes<'a> {
    octets: &'a [u8],
}

/// The two octets in front of an element's content.
fn descriptor<'a>(octets: &mut &'a [u8]) -> core::result::Result<(u16, &'a [u8]), FormatError> {
    let (bits, rest) = octets.split_first_chunk().ok_or(FormatError::InformationElement)?;
    Ok((u16::from_le_bytes(*bits), rest))
}

impl<'a> HeaderIes<'a> {
    /// The elements in `octets`, without the termination.
    pub(super) const fn new(octets: &'a [u8]) -> Self {
        Self { octets }
    }

    /// The octets of the elements at the front, termination included, and the kind of octets behind
    /// them.
    pub(super) fn measure(octets: &'a [u8]) -> core::result::Result<(usize, Following), FormatError> {
        let mut ies = Self::new(octets);
        loop {
            if ies.octets.is_empty() {
                return Ok((octets.len(), Following::Nothing));
            }
            let ie = ies.read()?;
            let following = match ie.id {
                HeaderElementId::Termination1 => Following::PayloadIes,
                HeaderElementId::Termination2 => Following::Payload,
                _ => continue,
            };
            if !ie.content.is_empty() {
                return Err(FormatError::InformationElement);
            }
            return Ok((octets.len() - ies.octets.len(), following));
        }
    }

    fn read(&mut self) -> core::result::Result<HeaderIe<'a>, FormatError> {
        let (bits, rest) = descriptor(&mut self.octets)?;
        if bits & 0x8000 != 0 {
            return Err(FormatError::InformationElement);
        }
        let (content, rest) =
            rest.split_at_checked(usize::from(bits & 0x7f)).ok_or(FormatError::InformationElement)?;
        self.octets = rest;
        Ok(HeaderIe { id: HeaderElementId::from_number((bits >> 7) as u8), content })
    }

    /// The time correction, if present.
    pub fn time_correction(mut self) -> Option<TimeCorrection> {
        self.find(|ie| ie.id == HeaderElementId::TimeCorrection)
            .and_then(|ie| TimeCorrection::parse(ie.content))
    }
}

impl<'a> Iterator for HeaderIes<'a> {
    type Item = HeaderIe<'a>;

    fn next(&mut self) -> Option<HeaderIe<'a>> {
        let ie = self.read().ok()?;
        let ends = matches!(ie.id, HeaderElementId::Termination1 | HeaderElementId::Termination2);
        (!ends).then_some(ie)
    }
}

/// Writes header elements.
#[derive(Debug)]
pub struct HeaderWriter<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> HeaderWriter<'a> {
    /// Begins at the front of `buffer`.
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, len: 0 }
    }

    /// Writes an element.
    pub fn push(&mut self, id: HeaderElementId, content: &[u8]) -> Result<()> {
        if content.len() > MAX_HEADER_IE_LEN {
            return Err(Error::Length);
        }
        let bits = content.len() as u16 | u16::from(id.number()) << 7;
        put(self.buffer, &mut self.len, bits, content)
    }

    /// Writes a time correction.
    pub fn time_correction(&mut self, correction: TimeCorrection) -> Result<()> {
        self.push(HeaderElementId::TimeCorrection, &correction.to_octets())
    }

    /// Ends the list and returns its length. Writes a termination if octets follow.
    pub fn finish(mut self, following: Following) -> Result<usize> {
        match following {
            Following::Nothing => {}
            Following::PayloadIes => self.push(HeaderElementId::Termination1, &[])?,
            Following::Payload => self.push(HeaderElementId::Termination2, &[])?,
        }
        Ok(self.len)
    }
}

fn put(buffer: &mut [u8], len: &mut usize, bits: u16, content: &[u8]) -> Result<()> {
    let end = *len + 2 + content.len();
    let place = buffer.get_mut(*len..end).ok_or(Error::Truncated)?;
    let (descriptor, rest) = place.split_at_mut(2);
    descriptor.copy_from_slice(&bits.to_le_bytes());
    rest.copy_from_slice(content);
    *len = end;
    Ok(())
}

/// The time correction of an enhanced acknowledgment (clause 7.4.2.7): the time by which the frame
/// was early, and whether it was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TimeCorrection {
    /// microseconds, -2048 to 2047
    pub microseconds: i16,
    /// the frame was received and not accepted
    pub nack: bool,
}

impl TimeCorrection {
    /// Octets of the content.
    pub const LEN: usize = 2;

    /// A correction in microseconds, clamped to the range of the field.
    pub const fn new(microseconds: i16, nack: bool) -> Self {
        let microseconds = if microseconds > 2047 { 2047 } else { microseconds };
        let microseconds = if microseconds < -2048 { -2048 } else { microseconds };
        Self { microseconds, nack }
    }

    /// Reads the content. None for another length or a reserved bit.
    pub fn parse(content: &[u8]) -> Option<Self> {
        let bits = u16::from_le_bytes(content.try_into().ok()?);
        if bits & 0x7000 != 0 {
            return None;
        }
        // The sign is bit 11.
        let microseconds = ((bits << 4) as i16) >> 4;
        Some(Self { microseconds, nack: bits & 0x8000 != 0 })
    }

    /// The content.
    pub const fn to_octets(self) -> [u8; Self::LEN] {
        let bits = self.microseconds as u16 & 0x0fff | (self.nack as u16) << 15;
        bits.to_le_bytes()
    }
}

/// The payload elements at the front of a decrypted MAC payload.
#[derive(Debug, Clone, Default)]
pub struct PayloadIes<'a> {
    octets: &'a [u8],
}

impl<'a> PayloadIes<'a> {
    /// Splits a MAC payload into its elements and its content. The list ends with a termination or
    /// with the payload.
    pub fn split(payload: &'a [u8]) -> core::result::Result<(Self, &'a [u8]), FormatError> {
        let mut ies = Self { octets: payload };
        while !ies.octets.is_empty() {
            let ie = ies.read()?;
            if ie.group == PayloadGroupId::Termination {
                if !ie.content.is_empty() {
                    return Err(FormatError::InformationElement);
                }
                break;
            }
        }
        Ok((Self { octets: payload }, ies.octets))
    }

    fn read(&mut self) -> core::result::Result<PayloadIe<'a>, FormatError> {
        let (bits, rest) = descriptor(&mut self.octets)?;
        if bits & 0x8000 == 0 {
            return Err(FormatError::InformationElement);
        }
        let (content, rest) =
            rest.split_at_checked(usize::from(bits & 0x7ff)).ok_or(FormatError::InformationElement)?;
        self.octets = rest;
        Ok(PayloadIe { group: PayloadGroupId::from_number((bits >> 11 & 0xf) as u8), content })
    }
}

impl<'a> PayloadIes<'a> {
    /// The content of the first element of a group.
    pub fn of(mut self, group: PayloadGroupId) -> Option<&'a [u8]> {
        self.find(|ie| ie.group == group).map(|ie| ie.content)
    }
}

impl<'a> Iterator for PayloadIes<'a> {
    type Item = PayloadIe<'a>;

    fn next(&mut self) -> Option<PayloadIe<'a>> {
        let ie = self.read().ok()?;
        (ie.group != PayloadGroupId::Termination).then_some(ie)
    }
}

/// The descriptor of a payload element with this many octets of content.
const fn payload_descriptor(group: PayloadGroupId, len: usize) -> u16 {
    len as u16 | (group.number() as u16) << 11 | 0x8000
}

/// Writes payload elements.
#[derive(Debug)]
pub struct PayloadWriter<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> PayloadWriter<'a> {
    /// Begins at the front of `buffer`.
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, len: 0 }
    }

    /// Writes an element.
    pub fn push(&mut self, group: PayloadGroupId, content: &[u8]) -> Result<()> {
        if content.len() > MAX_PAYLOAD_IE_LEN || group.number() > 0xf {
            return Err(Error::Length);
        }
        put(self.buffer, &mut self.len, payload_descriptor(group, content.len()), content)
    }

    /// Writes the descriptor of an element whose `len` octets of content are in their place, and
    /// returns the octets of both.
    pub(super) fn describe(buffer: &mut [u8], group: PayloadGroupId, len: usize) -> Result<usize> {
        if len > MAX_PAYLOAD_IE_LEN || buffer.len() < 2 + len {
            return Err(Error::Length);
        }
        let mut written = 0;
        put(buffer, &mut written, payload_descriptor(group, len), &[])?;
        Ok(written + len)
    }

    /// Ends the list, with a termination if content follows, and returns its length.
    pub fn finish(mut self, content_follows: bool) -> Result<usize> {
        if content_follows {
            self.push(PayloadGroupId::Termination, &[])?;
        }
        Ok(self.len)
    }
}

/// A nested element of an MLME element (clause 7.4.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NestedIe<'a> {
    /// of the short form
    Short(ShortNestedId, &'a [u8]),
    /// of the long form, with its number
    Long(u8, &'a [u8]),
}

/// The nested elements of an MLME element's content.
#[derive(Debug, Clone)]
pub struct NestedIes<'a> {
    octets: &'a [u8],
}

impl<'a> NestedIes<'a> {
    /// The elements of some content.
    pub const fn new(content: &'a [u8]) -> Self {
        Self { octets: content }
    }

    fn read(&mut self) -> core::result::Result<NestedIe<'a>, FormatError> {
        let (bits, rest) = descriptor(&mut self.octets)?;
        let long = bits & 0x8000 != 0;
        let len = usize::from(if long { bits & 0x7ff } else { bits & 0xff });
        let (content, rest) = rest.split_at_checked(len).ok_or(FormatError::InformationElement)?;
        self.octets = rest;
        Ok(if long {
            NestedIe::Long((bits >> 11 & 0xf) as u8, content)
        } else {
            NestedIe::Short(ShortNestedId::from_number((bits >> 8) as u8), content)
        })
    }

    /// The TSCH synchronization, if present.
    pub fn synchronization(self) -> Option<Synchronization> {
        self.flatten().find_map(|ie| match ie {
            NestedIe::Short(ShortNestedId::TschSynchronization, content) => Synchronization::parse(content),
            _ => None,
        })
    }
}

impl<'a> Iterator for NestedIes<'a> {
    type Item = core::result::Result<NestedIe<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.octets.is_empty() {
            return None;
        }
        let ie = self.read();
        if ie.is_err() {
            self.octets = &[];
        }
        Some(ie)
    }
}

/// TSCH synchronization (clause 7.4.4.2): a device learns the ASN from it in an enhanced beacon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Synchronization {
    /// the slot of the beacon
    pub asn: Asn,
    /// the sender's distance from the network's root
    pub join_metric: u8,
}

impl Synchronization {
    /// Octets as a nested element.
    pub const NESTED_LEN: usize = 2 + 6;

    pub(super) fn parse(content: &[u8]) -> Option<Self> {
        let [a, b, c, d, e, join_metric] = *<&[u8; 6]>::try_from(content).ok()?;
        Some(Self { asn: Asn::from_le_bytes([a, b, c, d, e]), join_metric })
    }

    /// The nested element for the content of an MLME element.
    pub fn to_nested(self) -> [u8; Self::NESTED_LEN] {
        let [a, b, c, d, e] = self.asn.to_le_bytes();
        [6, ShortNestedId::TschSynchronization.number(), a, b, c, d, e, self.join_metric]
    }
}
