//! The headers of a node's frames and acknowledgments, and the acknowledgments' elements.

use antedate_wire::dot15d4::ie::{Following, HeaderWriter, TimeCorrection};

use super::super::{
    Address, Addressing, ExtendedAddress, Header, KeyIdentifier, PanId, Protection, ShortAddress,
};
use super::Node;

/// Octets of an acknowledgment's elements: the time correction with its descriptor.
const ACK_IES: usize = 2 + TimeCorrection::LEN;

impl<const EXPECTED: usize, const LENGTHS: usize> Node<EXPECTED, LENGTHS> {
    pub(super) fn header(&self, to: Option<ExtendedAddress>, sequence: u8) -> Header {
        let config = self.security.config();
        let dst = to.map_or(Address::Short(ShortAddress::BROADCAST), Address::Extended);
        let addressing = Addressing::within(config.pan, dst, Address::Extended(config.extended));
        Header { ack_request: to.is_some(), ..Header::data(sequence, addressing) }
    }

    pub(super) fn ack_header(&self, to: ExtendedAddress, sequence: Option<u8>) -> Header {
        ack_header(self.security.config().pan, to, sequence)
    }
}

/// The header of an acknowledgment.
pub(super) fn ack_header(pan: PanId, to: ExtendedAddress, sequence: Option<u8>) -> Header {
    let addressing = Addressing::within(pan, Address::Extended(to), Address::Absent);
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
