//! TCP headers (RFC 9293), for checksums and segmentation.

use crate::bytes::{at_least, be16, be32, put16};
use crate::checksum::Sum;
use crate::{Error, Result};

/// Octets of a header without options.
pub const MIN_HEADER_LEN: usize = 20;

mod field {
    pub(super) const SOURCE_PORT: usize = 0;
    pub(super) const DESTINATION_PORT: usize = 2;
    pub(super) const SEQUENCE: usize = 4;
    pub(super) const DATA_OFFSET: usize = 12;
    pub(super) const FLAGS: usize = 13;
    pub(super) const CHECKSUM: usize = 16;
}

/// The flags of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// The sender has sent all.
    pub const FIN: Self = Self(0x01);
    /// The connection begins.
    pub const SYN: Self = Self(0x02);
    /// Deliver at once.
    pub const PSH: Self = Self(0x08);
    /// The sender has halved its window.
    pub const CWR: Self = Self(0x80);

    /// These flags without those of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all flags of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A view of a TCP segment.
#[derive(Debug, Clone, Copy)]
pub struct Segment<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Segment<T> {
    /// A view of `buffer`, if it holds a whole header.
    pub fn new_checked(buffer: T) -> Result<Self> {
        at_least(buffer.as_ref(), MIN_HEADER_LEN)?;
        let segment = Self { buffer };
        let len = segment.header_len();
        if len < MIN_HEADER_LEN || len > segment.buffer.as_ref().len() {
            return Err(Error::Length);
        }
        Ok(segment)
    }

    /// The source port.
    pub fn src_port(&self) -> u16 {
        be16(self.buffer.as_ref(), field::SOURCE_PORT)
    }

    /// The destination port.
    pub fn dst_port(&self) -> u16 {
        be16(self.buffer.as_ref(), field::DESTINATION_PORT)
    }

    /// The sequence number.
    pub fn sequence(&self) -> u32 {
        be32(self.buffer.as_ref(), field::SEQUENCE)
    }

    /// Octets of the header, options included.
    pub fn header_len(&self) -> usize {
        usize::from(self.buffer.as_ref()[field::DATA_OFFSET] >> 4) * 4
    }

    /// The flags.
    pub fn flags(&self) -> Flags {
        Flags(self.buffer.as_ref()[field::FLAGS])
    }

    /// The checksum field.
    pub fn checksum(&self) -> u16 {
        be16(self.buffer.as_ref(), field::CHECKSUM)
    }

    /// Whether the checksum is right, given the sum of the pseudo header.
    pub fn verify_checksum(&self, pseudo_header: Sum) -> bool {
        pseudo_header.and(Sum::of(self.buffer.as_ref())).is_consistent()
    }

    /// The octets behind the header.
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[self.header_len()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Segment<T> {
    /// Computes and sets the checksum, given the sum of the pseudo header.
    pub fn fill_checksum(&mut self, pseudo_header: Sum) {
        let bytes = self.buffer.as_mut();
        put16(bytes, field::CHECKSUM, 0);
        let checksum = pseudo_header.and(Sum::of(bytes)).checksum();
        put16(bytes, field::CHECKSUM, checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filled_checksum_detects_a_change() {
        let mut bytes = [0x11; 33];
        bytes[4..8].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
        bytes[12..14].copy_from_slice(&[0x50, 0x99]);
        let pseudo = Sum::of_u16(1234);
        let mut segment = Segment::new_checked(&mut bytes[..]).unwrap();
        segment.fill_checksum(pseudo);
        assert_eq!((segment.sequence(), segment.flags()), (0xdead_beef, Flags(0x99)));
        assert_eq!(segment.flags().without(Flags::CWR), Flags(0x19));
        assert!(segment.flags().has(Flags::PSH) && segment.verify_checksum(pseudo));
        bytes[32] ^= 1;
        assert!(!Segment::new_checked(&bytes[..]).unwrap().verify_checksum(pseudo));
    }

    #[test]
    fn truncated_headers_are_refused() {
        let mut bytes = [0; 24];
        assert_eq!(Segment::new_checked(&bytes[..19]).err(), Some(Error::Truncated));
        bytes[12] = 0x40;
        assert_eq!(Segment::new_checked(bytes).err(), Some(Error::Length));
        bytes[12] = 0x70;
        assert_eq!(Segment::new_checked(bytes).err(), Some(Error::Length));
        bytes[12] = 0x60;
        assert!(Segment::new_checked(bytes).unwrap().payload().is_empty());
    }
}
