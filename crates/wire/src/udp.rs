//! UDP headers (RFC 768), for checksums and segmentation.

use crate::Result;
use crate::bytes::{at_least, be16, put16};
use crate::checksum::Sum;

/// Octets of the header.
pub const HEADER_LEN: usize = 8;

mod field {
    pub(super) const SOURCE_PORT: usize = 0;
    pub(super) const DESTINATION_PORT: usize = 2;
    pub(super) const LENGTH: usize = 4;
    pub(super) const CHECKSUM: usize = 6;
}

/// A view of a UDP datagram.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Datagram<T> {
    /// A view of `buffer`, if it holds the header.
    pub fn new_checked(buffer: T) -> Result<Self> {
        at_least(buffer.as_ref(), HEADER_LEN)?;
        Ok(Self { buffer })
    }

    /// The source port.
    pub fn src_port(&self) -> u16 {
        be16(self.buffer.as_ref(), field::SOURCE_PORT)
    }

    /// The destination port.
    pub fn dst_port(&self) -> u16 {
        be16(self.buffer.as_ref(), field::DESTINATION_PORT)
    }

    /// The length field.
    pub fn length(&self) -> u16 {
        be16(self.buffer.as_ref(), field::LENGTH)
    }

    /// The checksum field.
    pub fn checksum(&self) -> u16 {
        be16(self.buffer.as_ref(), field::CHECKSUM)
    }

    /// Whether the checksum is right or absent, given the sum of the pseudo header.
    pub fn verify_checksum(&self, pseudo_header: Sum) -> bool {
        self.checksum() == 0 || pseudo_header.and(Sum::of(self.buffer.as_ref())).is_consistent()
    }

    /// The octets behind the header.
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Datagram<T> {
    /// Computes and sets the checksum, given the sum of the pseudo header. Zero is written as 0xffff.
    pub fn fill_checksum(&mut self, pseudo_header: Sum) {
        let bytes = self.buffer.as_mut();
        put16(bytes, field::CHECKSUM, 0);
        let checksum = match pseudo_header.and(Sum::of(bytes)).checksum() {
            0 => 0xffff,
            other => other,
        };
        put16(bytes, field::CHECKSUM, checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn filled_checksum_verifies_and_is_never_zero() {
        let mut bytes = [0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0];
        let mut datagram = Datagram::new_checked(&mut bytes[..]).unwrap();
        // A pseudo header with which the sum is 0xffff and the checksum 0.
        let pseudo = Sum::of_u16(0xffff - 12);
        datagram.fill_checksum(pseudo);
        assert_eq!(datagram.checksum(), 0xffff);
        assert!(datagram.verify_checksum(pseudo));
        assert_eq!(Datagram::new_checked([0; 7]).err(), Some(Error::Truncated));
    }
}
