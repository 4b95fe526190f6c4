//! A station's own Ethernet, ARP, IPv4 and UDP. Profinet gives a device its address by DCP, so the
//! kernel's stack cannot serve it.

use antedate_wire::arp::{self, Operation};
use antedate_wire::ethernet::{EtherType, Frame, HEADER_LEN, MIN_FRAME_LEN};
use antedate_wire::ipv4;
use antedate_wire::udp;
use antedate_wire::vlan::{self, Tag, Tci, VlanId};
use antedate_wire::{EthernetAddress, EthernetRepr};

const BROADCAST: EthernetAddress = EthernetAddress([0xff; 6]);
const PROTOCOL_UDP: u8 = 17;
const TIME_TO_LIVE: u8 = 64;
const UNSET: ipv4::Address = ipv4::Address::UNSPECIFIED;

/// Address, mask and gateway; all zero when not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpSuite {
    /// The address.
    pub address: ipv4::Address,
    /// The subnet mask.
    pub mask: ipv4::Address,
    /// The router; zero or the own address for none.
    pub gateway: ipv4::Address,
}

impl IpSuite {
    /// No address.
    pub const NONE: Self = Self { address: UNSET, mask: UNSET, gateway: UNSET };

    /// An address of a /24 network without a router.
    #[must_use]
    pub const fn local(address: ipv4::Address) -> Self {
        Self { address, mask: ipv4::Address::new(255, 255, 255, 0), gateway: UNSET }
    }

    /// Whether there is an address.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.address != UNSET
    }

    /// The value of the DCP block, if a station can have this address.
    #[must_use]
    pub fn read(value: &[u8]) -> Option<Self> {
        let octets: &[u8; 12] = value.try_into().ok()?;
        let at = |n: usize| ipv4::Address::new(octets[n], octets[n + 1], octets[n + 2], octets[n + 3]);
        let suite = Self { address: at(0), mask: at(4), gateway: at(8) };
        if suite == Self::NONE {
            return Some(suite);
        }
        let (mask, address) = (u32::from(suite.mask), suite.address);
        let contiguous = mask.leading_ones() + mask.trailing_zeros() == 32 && mask != 0;
        let host = contiguous && !address.is_multicast() && !address.is_broadcast() && !address.is_loopback();
        (host && suite.is_set()).then_some(suite)
    }

    /// The value of a DCP block.
    #[must_use]
    pub fn octets(&self) -> [u8; 12] {
        let mut octets = [0; 12];
        for (place, address) in octets.chunks_exact_mut(4).zip([self.address, self.mask, self.gateway]) {
            place.copy_from_slice(&address.octets());
        }
        octets
    }
}

/// Sender or receiver of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Ethernet address.
    pub mac: EthernetAddress,
    /// IP address.
    pub ip: ipv4::Address,
    /// UDP port.
    pub port: u16,
}

/// A received datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The sender.
    pub from: Remote,
    /// The own port.
    pub port: u16,
    /// The content.
    pub content: Vec<u8>,
}

/// The addresses of a station.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Ethernet address.
    pub mac: EthernetAddress,
    /// IP settings.
    pub ip: IpSuite,
}

impl Host {
    /// An Ethernet frame from this station, padded to the shortest length.
    #[must_use]
    pub fn frame(&self, to: EthernetAddress, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; HEADER_LEN];
        // The buffer has the header's length.
        let _ = EthernetRepr { dst_addr: to, src_addr: self.mac, ethertype }.emit(&mut frame);
        frame.extend_from_slice(payload);
        frame.resize(frame.len().max(MIN_FRAME_LEN), 0);
        frame
    }

    /// The same with a priority tag.
    #[must_use]
    pub fn tagged(&self, to: EthernetAddress, priority: u8, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
        let plain = self.frame(to, ethertype, payload);
        let mut tagged = vec![0; plain.len() + 4];
        let tag = Tag::customer(Tci::new(priority, false, VlanId::PRIORITY));
        // The buffer has four octets more.
        let _ = vlan::insert(&plain, tag, &mut tagged);
        tagged
    }

    fn arp(
        &self,
        operation: Operation,
        target: (EthernetAddress, ipv4::Address),
        to: EthernetAddress,
    ) -> Vec<u8> {
        let repr = arp::Repr {
            operation,
            source_hardware_addr: self.mac,
            source_protocol_addr: self.ip.address,
            target_hardware_addr: target.0,
            target_protocol_addr: target.1,
        };
        let mut packet = [0; arp::PACKET_LEN];
        // The buffer has the packet's length.
        let _ = repr.emit(&mut packet);
        self.frame(to, EtherType::Arp, &packet)
    }

    /// An ARP request for an address; for the own one an announcement (RFC 5227).
    #[must_use]
    pub fn ask(&self, address: ipv4::Address) -> Vec<u8> {
        self.arp(Operation::Request, (EthernetAddress([0; 6]), address), BROADCAST)
    }

    /// The answer to an ARP request for the own address.
    #[must_use]
    pub fn answer(&self, request: &arp::Repr) -> Option<Vec<u8>> {
        let asked = request.operation == Operation::Request
            && self.ip.is_set()
            && request.target_protocol_addr == self.ip.address
            && request.source_protocol_addr != self.ip.address;
        let asker = (request.source_hardware_addr, request.source_protocol_addr);
        asked.then(|| self.arp(Operation::Reply, asker, request.source_hardware_addr))
    }

    /// A frame with a UDP datagram.
    #[must_use]
    pub fn datagram(&self, from_port: u16, to: &Remote, content: &[u8]) -> Vec<u8> {
        let udp_len = udp::HEADER_LEN + content.len();
        let total = ipv4::MIN_HEADER_LEN + udp_len;
        let mut packet = vec![0; total];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        packet[8] = TIME_TO_LIVE;
        packet[9] = PROTOCOL_UDP;
        packet[12..16].copy_from_slice(&self.ip.address.octets());
        packet[16..20].copy_from_slice(&to.ip.octets());
        packet[20..22].copy_from_slice(&from_port.to_be_bytes());
        packet[22..24].copy_from_slice(&to.port.to_be_bytes());
        packet[24..26].copy_from_slice(&(udp_len as u16).to_be_bytes());
        packet[28..].copy_from_slice(content);
        let pseudo = ipv4::Packet::new_checked(&mut packet[..]).ok().map(|mut ip| {
            ip.fill_checksum();
            ip.pseudo_header_sum(udp_len as u16)
        });
        if let (Some(pseudo), Ok(mut datagram)) = (pseudo, udp::Datagram::new_checked(&mut packet[20..])) {
            datagram.fill_checksum(pseudo);
        }
        self.frame(to.mac, EtherType::Ipv4, &packet)
    }

    /// The datagram in a frame with an IPv4 packet to this station.
    ///
    /// The checksum of UDP is not verified: on a veth pair the kernel leaves it unfinished.
    #[must_use]
    pub fn receive(&self, frame: &[u8]) -> Option<Datagram> {
        let view = Frame::new_checked(frame).ok()?;
        let packet = ipv4::Packet::new_checked(view.payload()).ok()?;
        let own = self.ip.is_set() && packet.dst_addr() == self.ip.address;
        let udp = packet.protocol().number() == PROTOCOL_UDP && !packet.is_fragment();
        if !own || !udp || !packet.verify_checksum() {
            return None;
        }
        let payload = view.payload().get(packet.header_len()..usize::from(packet.total_len()))?;
        let datagram = udp::Datagram::new_checked(payload).ok()?;
        let content = payload.get(udp::HEADER_LEN..usize::from(datagram.length()))?.to_vec();
        let from = Remote { mac: view.src_addr(), ip: packet.src_addr(), port: datagram.src_port() };
        Some(Datagram { from, port: datagram.dst_port(), content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Host = Host {
        mac: EthernetAddress([2, 0, 0, 0, 0, 1]),
        ip: IpSuite::local(ipv4::Address::new(10, 0, 0, 1)),
    };
    const B: Host = Host {
        mac: EthernetAddress([2, 0, 0, 0, 0, 2]),
        ip: IpSuite::local(ipv4::Address::new(10, 0, 0, 2)),
    };

    #[test]
    fn datagram_reaches_its_host_alone() {
        let to = Remote { mac: B.mac, ip: B.ip.address, port: 34964 };
        for len in [0, 1, 200] {
            let frame = A.datagram(50_000, &to, &vec![7; len]);
            let datagram = B.receive(&frame).unwrap();
            let from = Remote { mac: A.mac, ip: A.ip.address, port: 50_000 };
            assert_eq!(datagram, Datagram { from, port: 34964, content: vec![7; len] });
            assert_eq!(A.receive(&frame), None);
            for cut in 0..HEADER_LEN + 28 + len {
                assert_eq!(B.receive(&frame[..cut]), None, "{cut} of {len}");
            }
        }
    }

    #[test]
    fn arp_is_answered_for_own_address() {
        let asked = |frame: &[u8]| arp::Repr::parse(&frame[HEADER_LEN..]).unwrap();
        let request = asked(&A.ask(B.ip.address));
        let reply = asked(&B.answer(&request).unwrap());
        assert_eq!((reply.source_hardware_addr, reply.source_protocol_addr), (B.mac, B.ip.address));
        assert_eq!(A.answer(&request), None);
        assert_eq!(Host { ip: IpSuite::NONE, ..B }.answer(&request), None, "a new device has no address");
        assert_eq!(B.answer(&asked(&B.ask(B.ip.address))), None, "an announcement");
    }

    #[test]
    fn impossible_addresses_are_refused() {
        let read = |a: [u8; 4], m: [u8; 4]| IpSuite::read(&[a, m, [0; 4]].concat());
        assert_eq!(read([10, 0, 0, 2], [255, 255, 255, 0]), Some(B.ip));
        assert_eq!(B.ip.octets(), [10, 0, 0, 2, 255, 255, 255, 0, 0, 0, 0, 0]);
        assert_eq!(IpSuite::read(&[0; 12]), Some(IpSuite::NONE));
        for (address, mask) in [
            ([10, 0, 0, 2], [0; 4]),
            ([10, 0, 0, 2], [255, 0, 255, 0]),
            ([224, 0, 0, 1], [255, 0, 0, 0]),
            ([255; 4], [255, 0, 0, 0]),
            ([0; 4], [255, 0, 0, 0]),
        ] {
            assert_eq!(read(address, mask), None, "{address:?}");
        }
        assert_eq!(IpSuite::read(&[10; 11]), None);
    }
}
