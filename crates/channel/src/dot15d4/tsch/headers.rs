//! The headers of a node's frames and acknowledgments, and the acknowledgments' elements.

use antedate_wire::dot15d4::ie::{Following, HeaderWriter, TimeCorrection};

use super::super::{
    Address, Addressing, ExtendedAddress, FrameType, Header, KeyIdentifier, PanId, Protection, SecurityLevel,
    ShortAddress,
};
use super::Node;
use super::node::Waiting;

/// Octets of an acknowledgment's elements: the time correction with its descriptor.
const ACK_IES: usize = 2 + TimeCorrection::LEN;

impl<const EXPECTED: usize, const LENGTHS: usize> Node<EXPECTED, LENGTHS> {
    /// The header of a frame. A beacon has the extended address, which a joining device needs for
    /// the nonce of others.
    pub(super) fn header(
        &self,
        frame_type: FrameType,
        elements: bool,
        to: Option<ExtendedAddress>,
        sequence: u8,
    ) -> Header {
        let config = self.security.config();
        let short = self.config.short_addresses && frame_type != FrameType::Beacon;
        let src = config.short.filter(|of| short && of.is_assigned());
        let src = src.map_or(Address::Extended(config.extended), Address::Short);
        let dst = to.map_or(Address::Short(ShortAddress::BROADCAST), |to| {
            let known = self.security.device(to).filter(|_| short).and_then(|device| device.short);
            known.filter(|of| of.is_assigned()).map_or(Address::Extended(to), Address::Short)
        });
        let addressing = Addressing::within(config.pan, dst, src);
        Header { frame_type, ack_request: to.is_some(), ies: elements, ..Header::data(sequence, addressing) }
    }

    pub(super) fn header_of(&self, waiting: &Waiting) -> Header {
        self.header(waiting.frame_type, waiting.elements, waiting.to, waiting.sequence)
    }

    /// The protection of a frame: K1 for beacons, K2 for others (RFC 8180), none for a device that
    /// lacks security.
    pub(super) fn protection_of(&self, frame_type: FrameType, to: Option<ExtendedAddress>) -> Protection {
        let config = &self.config;
        match frame_type {
            FrameType::Beacon => config.beacons,
            _ if to.is_some_and(|to| self.unsecured.contains(&to)) => {
                Protection { level: SecurityLevel::None, ..config.protection }
            }
            _ => config.protection,
        }
    }

    pub(super) fn ack_header(&self, to: Address, sequence: Option<u8>) -> Header {
        ack_header(self.security.config().pan, to, sequence)
    }
}

/// The header elements of a frame whose payload begins with payload elements: header termination 1.
const TERMINATION: [u8; 2] = [0x00, 0x3f];

/// The header elements of a frame.
pub(super) const fn elements_of(header: &Header) -> &'static [u8] {
    if header.ies { &TERMINATION } else { &[] }
}

/// The header of an acknowledgment.
pub(super) fn ack_header(pan: PanId, to: Address, sequence: Option<u8>) -> Header {
    let addressing = Addressing::within(pan, to, Address::Absent);
    Header::enhanced_ack(sequence, addressing)
}

/// The protection of a received frame.
pub(super) fn protection(header: &Header) -> Protection {
    let key = header.security.map_or(KeyIdentifier::Implicit, |security| security.key);
    Protection { level: header.level(), key }
}

/// The elements of an acknowledgment.
pub(super) fn ack_ies(correction: TimeCorrection) -> Option<[u8; ACK_IES]> {
    let mut ies = [0; ACK_IES];
    let mut writer = HeaderWriter::new(&mut ies);
    writer.time_correction(correction).ok()?;
    writer.finish(Following::Nothing).ok()?;
    Some(ies)
}

/// Writes an acknowledgment without MIC, and returns its length.
pub(super) fn sample_ack(header: &Header, out: &mut [u8]) -> Option<usize> {
    let len = header.emit(out).ok()?;
    out.get_mut(len..len + ACK_IES)?.copy_from_slice(&ack_ies(TimeCorrection::default())?);
    Some(len + ACK_IES)
}
