//! Frames of DCP (IEC 61158-6-10), and LLDP announcements (IEEE 802.1AB) by both stations.

use antedate_wire::dcp::{Block, Header, Writer};
use antedate_wire::ethernet::{EtherType, HEADER_LEN, MIN_FRAME_LEN};
use antedate_wire::lldp::{self, Id, ProfinetSubtype};
use antedate_wire::{EthernetAddress, EthernetRepr};

/// Multicast address of DCP Identify requests.
pub const IDENTIFY_GROUP: EthernetAddress = EthernetAddress([0x01, 0x0e, 0xcf, 0x00, 0x00, 0x00]);
/// Interval of announcements and their time to live in seconds, as usual for Profinet devices.
pub const ANNOUNCE_SECONDS: u64 = 5;
const ANNOUNCEMENT_TTL: u16 = 20;

/// A frame with a DCP PDU.
#[must_use]
pub fn dcp_frame(
    from: EthernetAddress,
    to: EthernetAddress,
    header: &Header,
    blocks: &[Block<'_>],
) -> Option<Vec<u8>> {
    let mut frame = vec![0; 512];
    EthernetRepr { dst_addr: to, src_addr: from, ethertype: EtherType::Profinet }.emit(&mut frame).ok()?;
    let mut writer = Writer::new(&mut frame[HEADER_LEN..], header).ok()?;
    blocks.iter().try_for_each(|block| writer.block(block)).ok()?;
    let len = writer.finish().ok()?;
    frame.truncate((HEADER_LEN + len).max(MIN_FRAME_LEN));
    Some(frame)
}

/// An LLDP announcement in Profinet's form: the station's name as chassis, its first port.
#[must_use]
pub fn announcement(from: EthernetAddress, name: &str) -> Option<Vec<u8>> {
    // A device without a name is its address.
    let address = from.to_string();
    let name = if name.is_empty() { &address } else { name };
    let mut own = [0; 64];
    let len = lldp::emit_profinet(&mut own, ProfinetSubtype::ChassisMac, from.as_bytes()).ok()?;
    let repr = lldp::Repr {
        chassis_id: Id::Local(name.as_bytes()),
        port_id: Id::Local(b"port-001"),
        ttl: ANNOUNCEMENT_TTL,
        optional: own.get(..len)?,
    };
    let mut frame = vec![0; 512];
    let to = EthernetAddress::LLDP_NEAREST_BRIDGE;
    EthernetRepr { dst_addr: to, src_addr: from, ethertype: EtherType::Lldp }.emit(&mut frame).ok()?;
    let len = repr.emit(&mut frame[HEADER_LEN..]).ok()?;
    frame.truncate((HEADER_LEN + len).max(MIN_FRAME_LEN));
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_wire::ethernet::Frame;

    const PLC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);

    #[test]
    fn an_announcement_names_the_station() {
        let frame = announcement(PLC, "plc").unwrap();
        let view = Frame::new_checked(&frame).unwrap();
        assert_eq!(view.ethertype(), EtherType::Lldp);
        assert_eq!(lldp::Repr::parse(view.payload()).unwrap().chassis_id, Id::Local(b"plc"));
    }
}
