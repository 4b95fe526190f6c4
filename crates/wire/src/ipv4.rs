//! IPv4 headers (RFC 791), for checksums and segmentation.

use crate::bytes::{array, at_least, be16, put16};
use crate::checksum::Sum;
use crate::ip::Protocol;
use crate::{Error, Result};

pub use core::net::Ipv4Addr as Address;

/// Octets of a header without options.
pub const MIN_HEADER_LEN: usize = 20;

mod field {
    pub(super) const VERSION_IHL: usize = 0;
    pub(super) const TOTAL_LEN: usize = 2;
    pub(super) const IDENT: usize = 4;
    pub(super) const FLAGS_FRAGMENT: usize = 6;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const CHECKSUM: usize = 10;
    pub(super) const SOURCE: usize = 12;
    pub(super) const DESTINATION: usize = 16;
}

/// A view of an IPv4 packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view of `buffer`, if it holds a whole header.
    ///
    /// The total length is not compared with the buffer: a super-frame of a segmentation offload
    /// may have 0 there.
    pub fn new_checked(buffer: T) -> Result<Self> {
        let bytes = buffer.as_ref();
        at_least(bytes, MIN_HEADER_LEN)?;
        let packet = Self { buffer };
        if packet.buffer.as_ref()[field::VERSION_IHL] >> 4 != 4 {
            return Err(Error::Value);
        }
        let len = packet.header_len();
        if len < MIN_HEADER_LEN || len > packet.buffer.as_ref().len() {
            return Err(Error::Length);
        }
        Ok(packet)
    }

    /// Octets of the header, options included.
    pub fn header_len(&self) -> usize {
        usize::from(self.buffer.as_ref()[field::VERSION_IHL] & 0x0f) * 4
    }

    /// The total length field.
    pub fn total_len(&self) -> u16 {
        be16(self.buffer.as_ref(), field::TOTAL_LEN)
    }

    /// The identification.
    pub fn ident(&self) -> u16 {
        be16(self.buffer.as_ref(), field::IDENT)
    }

    /// Whether the packet is a fragment, the first or a later one.
    pub fn is_fragment(&self) -> bool {
        be16(self.buffer.as_ref(), field::FLAGS_FRAGMENT) & 0x3fff != 0
    }

    /// The protocol of the payload.
    pub fn protocol(&self) -> Protocol {
        Protocol::from_number(self.buffer.as_ref()[field::PROTOCOL])
    }

    /// The header checksum field.
    pub fn checksum(&self) -> u16 {
        be16(self.buffer.as_ref(), field::CHECKSUM)
    }

    /// Whether the header's checksum is right.
    pub fn verify_checksum(&self) -> bool {
        Sum::of(&self.buffer.as_ref()[..self.header_len()]).is_consistent()
    }

    /// The source address.
    pub fn src_addr(&self) -> Address {
        Address::from(array::<4>(self.buffer.as_ref(), field::SOURCE))
    }

    /// The destination address.
    pub fn dst_addr(&self) -> Address {
        Address::from(array::<4>(self.buffer.as_ref(), field::DESTINATION))
    }

    /// The sum of the pseudo header for `len` octets of payload.
    pub fn pseudo_header_sum(&self, len: u16) -> Sum {
        Sum::of(&self.buffer.as_ref()[field::SOURCE..field::DESTINATION + 4])
            .and(Sum::of_u16(u16::from(self.protocol().number())))
            .and(Sum::of_u16(len))
    }

    /// The octets behind the header.
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[self.header_len()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes and sets the header's checksum.
    pub fn fill_checksum(&mut self) {
        let len = self.header_len();
        let bytes = self.buffer.as_mut();
        put16(bytes, field::CHECKSUM, 0);
        let checksum = Sum::of(&bytes[..len]).checksum();
        put16(bytes, field::CHECKSUM, checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [u8; 20] =
        [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];

    #[test]
    fn known_header_and_checksum_match() {
        let packet = Packet::new_checked(&HEADER[..]).unwrap();
        assert_eq!((packet.protocol(), packet.total_len()), (Protocol::Udp, 0x73));
        assert!(packet.verify_checksum() && !packet.is_fragment());
        let mut bytes = HEADER;
        bytes[11] ^= 1;
        let mut packet = Packet::new_checked(&mut bytes[..]).unwrap();
        assert!(!packet.verify_checksum());
        packet.fill_checksum();
        assert_eq!(packet.checksum(), 0xb861);
    }

    #[test]
    fn truncated_headers_are_refused() {
        let with = |first: u8| {
            let mut bytes = HEADER;
            bytes[0] = first;
            Packet::new_checked(bytes).err()
        };
        assert_eq!(with(0x65), Some(Error::Value));
        assert_eq!(with(0x44), Some(Error::Length));
        assert_eq!(with(0x46), Some(Error::Length));
        assert_eq!(Packet::new_checked(&HEADER[..19]).err(), Some(Error::Truncated));
    }
}
