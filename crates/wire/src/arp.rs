//! ARP for IPv4 over Ethernet (RFC 826).

use crate::bytes::{array, at_least, be16, put16};
use crate::ethernet::{Address, EtherType};
use crate::ipv4;
use crate::{Error, Result};

/// Octets of an ARP packet for IPv4 over Ethernet.
pub const PACKET_LEN: usize = 28;

wire_enum! {
    /// The operation of an ARP packet.
    pub enum Operation(u16) {
        /// asks for the owner of a protocol address
        Request = 1,
        /// answers a request
        Reply = 2,
    }
}

mod field {
    pub(super) const HARDWARE_TYPE: usize = 0;
    pub(super) const PROTOCOL_TYPE: usize = 2;
    pub(super) const HARDWARE_LEN: usize = 4;
    pub(super) const PROTOCOL_LEN: usize = 5;
    pub(super) const OPERATION: usize = 6;
    pub(super) const SOURCE_HARDWARE: usize = 8;
    pub(super) const SOURCE_PROTOCOL: usize = 14;
    pub(super) const TARGET_HARDWARE: usize = 18;
    pub(super) const TARGET_PROTOCOL: usize = 24;
}

const HARDWARE_ETHERNET: u16 = 1;

/// An ARP packet for IPv4 over Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// request or reply
    pub operation: Operation,
    /// the sender's MAC address
    pub source_hardware_addr: Address,
    /// the sender's IPv4 address
    pub source_protocol_addr: ipv4::Address,
    /// the MAC address of the target, if known
    pub target_hardware_addr: Address,
    /// the requested IPv4 address
    pub target_protocol_addr: ipv4::Address,
}

impl Repr {
    /// Reads the octets behind the EtherType. Refuses other hardware and protocols than Ethernet
    /// and IPv4.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        at_least(bytes, PACKET_LEN)?;
        let (hardware, protocol) = (be16(bytes, field::HARDWARE_TYPE), be16(bytes, field::PROTOCOL_TYPE));
        let lengths = (bytes[field::HARDWARE_LEN], bytes[field::PROTOCOL_LEN]);
        if (hardware, protocol) != (HARDWARE_ETHERNET, EtherType::Ipv4.number()) || lengths != (6, 4) {
            return Err(Error::Value);
        }
        Ok(Self {
            operation: Operation::from_number(be16(bytes, field::OPERATION)),
            source_hardware_addr: Address(array(bytes, field::SOURCE_HARDWARE)),
            source_protocol_addr: ipv4::Address::from(array::<4>(bytes, field::SOURCE_PROTOCOL)),
            target_hardware_addr: Address(array(bytes, field::TARGET_HARDWARE)),
            target_protocol_addr: ipv4::Address::from(array::<4>(bytes, field::TARGET_PROTOCOL)),
        })
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        PACKET_LEN
    }

    /// Writes the packet to the front of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        at_least(buffer, PACKET_LEN)?;
        put16(buffer, field::HARDWARE_TYPE, HARDWARE_ETHERNET);
        put16(buffer, field::PROTOCOL_TYPE, EtherType::Ipv4.number());
        buffer[field::HARDWARE_LEN] = 6;
        buffer[field::PROTOCOL_LEN] = 4;
        put16(buffer, field::OPERATION, self.operation.number());
        buffer[field::SOURCE_HARDWARE..][..6].copy_from_slice(&self.source_hardware_addr.0);
        buffer[field::SOURCE_PROTOCOL..][..4].copy_from_slice(&self.source_protocol_addr.octets());
        buffer[field::TARGET_HARDWARE..][..6].copy_from_slice(&self.target_hardware_addr.0);
        buffer[field::TARGET_PROTOCOL..][..4].copy_from_slice(&self.target_protocol_addr.octets());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPR: Repr = Repr {
        operation: Operation::Request,
        source_hardware_addr: Address([2, 0, 0, 0, 0, 1]),
        source_protocol_addr: ipv4::Address::new(10, 0, 0, 1),
        target_hardware_addr: Address([0; 6]),
        target_protocol_addr: ipv4::Address::new(10, 0, 0, 2),
    };

    #[test]
    fn request_round_trips() {
        let mut bytes = [0xee; 30];
        REPR.emit(&mut bytes).unwrap();
        assert_eq!(bytes[..8], [0, 1, 8, 0, 6, 4, 0, 1]);
        assert_eq!(Repr::parse(&bytes), Ok(REPR));
    }

    #[test]
    fn short_and_foreign_packets_are_refused() {
        let mut bytes = [0; 28];
        REPR.emit(&mut bytes).unwrap();
        assert_eq!(Repr::parse(&bytes[..27]), Err(Error::Truncated));
        assert_eq!(REPR.emit(&mut [0; 27]), Err(Error::Truncated));
        for at in 0..6 {
            let mut other = bytes;
            other[at] ^= 0x40;
            assert_eq!(Repr::parse(&other), Err(Error::Value));
        }
    }
}
