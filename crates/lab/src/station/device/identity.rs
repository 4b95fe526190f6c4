//! The device in DCP: its properties, and changes of its name and address.

use antedate_wire::EthernetAddress;
use antedate_wire::dcp::{Block, Header, Option as Property, Pdu, ServiceId, ServiceType};
use antedate_wire::profinet::FrameId;

use super::super::discovery::{self, dcp_frame};
use super::super::host::IpSuite;
use super::{DEVICE, Device, Event, VENDOR};

const TYPE_OF_STATION: &[u8] = b"antedate-lab";
const ROLE_DEVICE: [u8; 2] = [0x01, 0x00];
/// Block information of an IP address: not set, set.
const ADDRESS_UNSET: u16 = 0;
const ADDRESS_SET: u16 = 1;
/// Errors of a set block.
const DONE: u8 = 0;
const NOT_SUPPORTED: u8 = 2;
const NOT_POSSIBLE: u8 = 5;
const IN_OPERATION: u8 = 6;
/// Octets of the longest name of station.
const LONGEST_NAME: usize = 240;

const READABLE: [Property; 7] = [
    Property::TypeOfStation,
    Property::NameOfStation,
    Property::DeviceId,
    Property::DeviceRole,
    Property::DeviceOptions,
    Property::MacAddress,
    Property::IpParameter,
];

impl Device {
    /// Processes a DCP PDU.
    pub(super) fn dcp(&mut self, from: EthernetAddress, payload: &[u8]) {
        let Ok(pdu) = Pdu::parse(payload) else { return };
        let Header { frame_id, service, service_type, xid, .. } = pdu.header;
        if service_type != ServiceType::Request {
            return;
        }
        match (frame_id, service) {
            (FrameId::DCP_IDENTIFY_REQUEST, ServiceId::Identify) if self.is_asked(&pdu) => {
                let header = answer(FrameId::DCP_IDENTIFY_RESPONSE, service, xid);
                self.tell(from, &header, &READABLE);
            }
            (FrameId::DCP_GET_SET, ServiceId::Get) => {
                let asked: Vec<Property> = pdu.requested().collect();
                self.tell(from, &answer(frame_id, service, xid), &asked);
            }
            (FrameId::DCP_GET_SET, ServiceId::Set) => {
                let results: Vec<[u8; 3]> =
                    pdu.blocks().map_while(Result::ok).filter_map(|block| self.set(&block)).collect();
                let blocks: Vec<Block<'_>> = results
                    .iter()
                    .map(|value| Block { option: Property::ControlResponse, info: 0, value })
                    .collect();
                self.out.extend(dcp_frame(self.host.mac, from, &answer(frame_id, service, xid), &blocks));
            }
            _ => {}
        }
    }

    /// Whether every filter of the request matches.
    fn is_asked(&self, pdu: &Pdu<'_>) -> bool {
        let mut asked = false;
        for block in pdu.blocks() {
            let Ok(Block { option, value, .. }) = block else { return false };
            asked = match option {
                Property::All => true,
                Property::DeviceOptions => true,
                option => self.value(option).is_some_and(|(_, own)| own == value),
            };
            if !asked {
                return false;
            }
        }
        asked
    }

    /// Block information and value of a property.
    fn value(&self, option: Property) -> Option<(u16, Vec<u8>)> {
        let ids = [VENDOR.to_be_bytes(), DEVICE.to_be_bytes()].concat();
        Some(match option {
            Property::TypeOfStation => (0, TYPE_OF_STATION.to_vec()),
            Property::NameOfStation => (0, self.name.as_bytes().to_vec()),
            Property::DeviceId => (0, ids),
            Property::DeviceRole => (0, ROLE_DEVICE.to_vec()),
            Property::DeviceOptions => {
                (0, READABLE.iter().flat_map(|option| option.number().to_be_bytes()).collect())
            }
            Property::MacAddress => (0, self.host.mac.0.to_vec()),
            Property::IpParameter => {
                let info = if self.host.ip.is_set() { ADDRESS_SET } else { ADDRESS_UNSET };
                (info, self.host.ip.octets().to_vec())
            }
            _ => return None,
        })
    }

    fn tell(&mut self, to: EthernetAddress, header: &Header, options: &[Property]) {
        let values: Vec<_> = options.iter().map(|&option| (option, self.value(option))).collect();
        let errors: Vec<[u8; 3]> = options.iter().map(|&option| result(option, NOT_SUPPORTED)).collect();
        let blocks: Vec<Block<'_>> = values
            .iter()
            .zip(&errors)
            .map(|((option, value), error)| match value {
                Some((info, value)) => Block { option: *option, info: *info, value },
                // The first two octets are where other blocks have their information.
                None => Block {
                    option: Property::ControlResponse,
                    info: u16::from_be_bytes([error[0], error[1]]),
                    value: &error[2..],
                },
            })
            .collect();
        self.out.extend(dcp_frame(self.host.mac, to, header, &blocks));
    }

    /// Does what a block asks for. Returns its result, if it has one.
    fn set(&mut self, block: &Block<'_>) -> Option<[u8; 3]> {
        let error = match block.option {
            // Begin and end of a transaction.
            Property::ControlStart | Property::ControlStop => return None,
            Property::ControlSignal => {
                self.events.push_back(Event::Blinked);
                DONE
            }
            Property::NameOfStation | Property::IpParameter | Property::ControlResetToFactory
                if self.controller.is_some() =>
            {
                IN_OPERATION
            }
            Property::NameOfStation => match std::str::from_utf8(block.value) {
                Ok(name) if is_name(name) => {
                    self.name = name.to_owned();
                    self.events.push_back(Event::Named(self.name.clone()));
                    self.out.extend(discovery::announcement(self.host.mac, &self.name));
                    DONE
                }
                _ => NOT_POSSIBLE,
            },
            Property::IpParameter => match IpSuite::read(block.value) {
                Some(ip) => {
                    self.host.ip = ip;
                    self.events.push_back(Event::Addressed(ip.address.to_string()));
                    if ip.is_set() {
                        self.out.push_back(self.host.ask(ip.address));
                    }
                    DONE
                }
                None => NOT_POSSIBLE,
            },
            Property::ControlResetToFactory => {
                self.name.clear();
                self.host.ip = IpSuite::NONE;
                self.records.clear();
                self.supervisor = None;
                self.events.push_back(Event::Reset);
                DONE
            }
            _ => NOT_SUPPORTED,
        };
        Some(result(block.option, error))
    }
}

fn answer(frame_id: FrameId, service: ServiceId, xid: u32) -> Header {
    Header { frame_id, service, service_type: ServiceType::ResponseSuccess, xid, response_delay: 0 }
}

fn result(option: Property, error: u8) -> [u8; 3] {
    let [high, low] = option.number().to_be_bytes();
    [high, low, error]
}

/// Whether the text is a name of station (IEC 61158-6-10): labels of lower-case letters, digits and
/// hyphens, separated by dots. An empty one removes the name.
fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        let inside = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(inside)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.is_empty() || (text.len() <= LONGEST_NAME && text.split('.').all(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_standard() {
        for name in ["", "a", "io-device", "x1.line-2.plant", "123"] {
            assert!(is_name(name), "{name}");
        }
        let long = "a".repeat(64);
        for name in ["A", "io_device", "-a", "a-", "a..b", ".", "ä", "a b", &long] {
            assert!(!is_name(name), "{name}");
        }
    }
}
