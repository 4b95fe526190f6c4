//! Discovery: DCP Identify (IEC 61158-6-10) by the controller, its answer by the device, LLDP (IEEE
//! 802.1AB) announcements by both.

use antedate_wire::dcp::{Block, Header, Option as Property, Pdu, ServiceId, ServiceType, Writer};
use antedate_wire::ethernet::{EtherType, Frame, HEADER_LEN, MIN_FRAME_LEN};
use antedate_wire::lldp::{self, Id, ProfinetSubtype};
use antedate_wire::profinet::FrameId;
use antedate_wire::{EthernetAddress, EthernetRepr};

/// Multicast address of DCP Identify requests.
pub const IDENTIFY_GROUP: EthernetAddress = EthernetAddress([0x01, 0x0e, 0xcf, 0x00, 0x00, 0x00]);
/// Interval of announcements and their time to live in seconds, as usual for Profinet devices.
pub const ANNOUNCE_SECONDS: u64 = 5;
const ANNOUNCEMENT_TTL: u16 = 20;
/// Vendor 0xffff is unassigned, so the device number is free.
const DEVICE_ID: [u8; 4] = [0xff, 0xff, 0x00, 0x01];
const ROLE_DEVICE: [u8; 2] = [0x01, 0x00];
/// Block information "not set" of an IP address.
const NO_ADDRESS: u16 = 0;

/// A station's role in DCP.
#[derive(Clone, Debug)]
pub enum Discovery {
    /// Searches for a device by name.
    Controller {
        /// Transaction of the request.
        xid: u32,
    },
    /// Answers to its name.
    Device {
        /// Its name.
        name: String,
        /// Its address.
        address: EthernetAddress,
    },
}

/// Result of a DCP frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing for this station.
    Nothing,
    /// The frame to send back.
    Answer(Vec<u8>),
    /// The device that answered.
    Found(EthernetAddress),
}

impl Discovery {
    /// Processes a frame with a FrameID of DCP.
    #[must_use]
    pub fn hear(&self, frame: &[u8]) -> Heard {
        let Ok(view) = Frame::new_checked(frame) else { return Heard::Nothing };
        let Ok(pdu) = Pdu::parse(view.payload()) else { return Heard::Nothing };
        match (self, pdu.header.frame_id, pdu.header.service, pdu.header.service_type) {
            (
                Self::Controller { xid },
                FrameId::DCP_IDENTIFY_RESPONSE,
                ServiceId::Identify,
                ServiceType::ResponseSuccess,
            ) if pdu.header.xid == *xid => Heard::Found(view.src_addr()),
            (
                Self::Device { name, address },
                FrameId::DCP_IDENTIFY_REQUEST,
                ServiceId::Identify,
                ServiceType::Request,
            ) if asks_for(&pdu, name) => identify_response(*address, view.src_addr(), pdu.header.xid, name)
                .map_or(Heard::Nothing, Heard::Answer),
            _ => Heard::Nothing,
        }
    }
}

/// Whether every filter of the request matches: the name, or all stations.
fn asks_for(pdu: &Pdu<'_>, name: &str) -> bool {
    let mut asked = false;
    for block in pdu.blocks() {
        match block {
            Ok(Block { option: Property::NameOfStation, value, .. }) if value == name.as_bytes() => {
                asked = true
            }
            Ok(Block { option: Property::All, .. }) => asked = true,
            _ => return false,
        }
    }
    asked
}

/// The controller's request for this name.
#[must_use]
pub fn identify_request(from: EthernetAddress, xid: u32, name: &str) -> Option<Vec<u8>> {
    let header = Header {
        frame_id: FrameId::DCP_IDENTIFY_REQUEST,
        service: ServiceId::Identify,
        service_type: ServiceType::Request,
        xid,
        response_delay: 1,
    };
    let blocks = [Block { option: Property::NameOfStation, info: 0, value: name.as_bytes() }];
    dcp_frame(from, IDENTIFY_GROUP, &header, &blocks)
}

fn identify_response(from: EthernetAddress, to: EthernetAddress, xid: u32, name: &str) -> Option<Vec<u8>> {
    let header = Header {
        frame_id: FrameId::DCP_IDENTIFY_RESPONSE,
        service: ServiceId::Identify,
        service_type: ServiceType::ResponseSuccess,
        xid,
        response_delay: 0,
    };
    let blocks = [
        Block { option: Property::TypeOfStation, info: 0, value: b"antedate-lab" },
        Block { option: Property::NameOfStation, info: 0, value: name.as_bytes() },
        Block { option: Property::DeviceId, info: 0, value: &DEVICE_ID },
        Block { option: Property::DeviceRole, info: 0, value: &ROLE_DEVICE },
        Block { option: Property::IpParameter, info: NO_ADDRESS, value: &[0; 12] },
    ];
    dcp_frame(from, to, &header, &blocks)
}

fn dcp_frame(
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

    const PLC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);
    const DEVICE: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);

    fn device() -> Discovery {
        Discovery::Device { name: "io-device".into(), address: DEVICE }
    }

    #[test]
    fn controller_finds_device_by_name() {
        let request = identify_request(PLC, 7, "io-device").unwrap();
        let Heard::Answer(answer) = device().hear(&request) else { panic!("no answer") };
        assert_eq!(Frame::new_checked(&answer).unwrap().dst_addr(), PLC);
        assert_eq!(Discovery::Controller { xid: 7 }.hear(&answer), Heard::Found(DEVICE));
    }

    #[test]
    fn other_names_and_xids_are_ignored() {
        let request = identify_request(PLC, 7, "other").unwrap();
        assert_eq!(device().hear(&request), Heard::Nothing);
        let request = identify_request(PLC, 7, "io-device").unwrap();
        let Heard::Answer(answer) = device().hear(&request) else { panic!("no answer") };
        assert_eq!(Discovery::Controller { xid: 8 }.hear(&answer), Heard::Nothing);
        assert_eq!(device().hear(&answer), Heard::Nothing);
    }

    #[test]
    fn an_announcement_names_the_station() {
        let frame = announcement(PLC, "plc").unwrap();
        let view = Frame::new_checked(&frame).unwrap();
        assert_eq!(view.ethertype(), EtherType::Lldp);
        assert_eq!(lldp::Repr::parse(view.payload()).unwrap().chassis_id, Id::Local(b"plc"));
    }
}
