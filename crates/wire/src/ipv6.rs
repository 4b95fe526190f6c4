//! IPv6 headers (RFC 8200), for checksums and segmentation.

use crate::bytes::{array, at_least};
use crate::checksum::Sum;
use crate::ip::Protocol;
use crate::{Error, Result};

pub use core::net::Ipv6Addr as Address;

/// Octets of the fixed header.
pub const HEADER_LEN: usize = 40;
/// The most extension headers that are followed.
pub const MAX_EXTENSIONS: usize = 8;

mod field {
    pub(super) const VERSION: usize = 0;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const SOURCE: usize = 8;
    pub(super) const DESTINATION: usize = 24;
}

/// A view of an IPv6 packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view of `buffer`, if it holds the fixed header.
    pub fn new_checked(buffer: T) -> Result<Self> {
        at_least(buffer.as_ref(), HEADER_LEN)?;
        if buffer.as_ref()[field::VERSION] >> 4 != 6 {
            return Err(Error::Value);
        }
        Ok(Self { buffer })
    }

    /// The type of the header behind the fixed header.
    pub fn next_header(&self) -> Protocol {
        Protocol::from_number(self.buffer.as_ref()[field::NEXT_HEADER])
    }

    /// The source address.
    pub fn src_addr(&self) -> Address {
        Address::from(array::<16>(self.buffer.as_ref(), field::SOURCE))
    }

    /// The destination address.
    pub fn dst_addr(&self) -> Address {
        Address::from(array::<16>(self.buffer.as_ref(), field::DESTINATION))
    }

    /// The protocol behind the extension headers, and its offset in the packet. `Fragment` for a
    /// fragment.
    pub fn upper_layer(&self) -> Result<(Protocol, usize)> {
        let bytes = self.buffer.as_ref();
        let (mut protocol, mut at) = (self.next_header(), HEADER_LEN);
        for _ in 0..MAX_EXTENSIONS {
            match protocol {
                Protocol::HopByHop | Protocol::Routing | Protocol::DestinationOptions => {}
                other => return Ok((other, at)),
            }
            at_least(bytes, at + 8)?;
            protocol = Protocol::from_number(bytes[at]);
            at += 8 + usize::from(bytes[at + 1]) * 8;
            at_least(bytes, at)?;
        }
        Err(Error::Value)
    }

    /// The sum of the pseudo header for `len` octets of `protocol`.
    pub fn pseudo_header_sum(&self, protocol: Protocol, len: u32) -> Sum {
        Sum::of(&self.buffer.as_ref()[field::SOURCE..HEADER_LEN])
            .and(Sum::of(&len.to_be_bytes()))
            .and(Sum::of_u16(u16::from(protocol.number())))
    }

    /// The octets behind the fixed header.
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(next: u8, rest: &[u8]) -> std::vec::Vec<u8> {
        let mut bytes = std::vec![0; 40];
        bytes[0] = 0x60;
        bytes[6] = next;
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn extensions_are_skipped() {
        let plain = packet(6, &[]);
        assert_eq!(Packet::new_checked(&plain).unwrap().upper_layer(), Ok((Protocol::Tcp, 40)));
        let mut extension = [0; 16];
        extension[..2].copy_from_slice(&[17, 1]);
        let extended = packet(0, &extension);
        assert_eq!(Packet::new_checked(&extended).unwrap().upper_layer(), Ok((Protocol::Udp, 56)));
        assert_eq!(Packet::new_checked(&extended[..50]).unwrap().upper_layer(), Err(Error::Truncated));
        let endless = packet(0, &[0; 200]);
        assert_eq!(Packet::new_checked(&endless).unwrap().upper_layer(), Err(Error::Value));
        assert_eq!(Packet::new_checked(&plain[..39]).err(), Some(Error::Truncated));
        assert_eq!(Packet::new_checked([0x45; 40]).err(), Some(Error::Value));
    }

    proptest! {
        #[test]
        fn view_never_panics(next: u8, rest in prop::collection::vec(any::<u8>(), 0..64)) {
            let bytes = packet(next, &rest);
            let _ = Packet::new_checked(&bytes).unwrap().upper_layer();
        }
    }
}
