//! The Internet checksum (RFC 1071), with partial sums.
//!
//! The sum is independent of the byte order of its words, if both ends use the same one (RFC 1071
//! section 2 B). So words are added in the CPU's byte order, eight octets at a time, and the result
//! is converted once at the end.

use crate::bytes::at_least;
use crate::{Error, Result};

/// A sum in progress. Order and grouping of the pieces do not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Sum(u64);

impl Sum {
    /// The sum of no bytes.
    pub const ZERO: Self = Self(0);

    /// The sum of `bytes`. An odd last octet is padded with a zero, so only the last of several
    /// pieces may have an odd length.
    pub fn of(bytes: &[u8]) -> Self {
        // 32-bit halves in a 64-bit sum cannot overflow below 16 GiB, so the loop ignores carries.
        let (words, rest) = bytes.as_chunks::<8>();
        let mut sum = 0u64;
        for word in words {
            let word = u64::from_ne_bytes(*word);
            sum += (word & 0xffff_ffff) + (word >> 32);
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let last = u64::from_ne_bytes(last);
        sum += (last & 0xffff_ffff) + (last >> 32);
        Self(u64::from(fold(sum)))
    }

    /// The sum of one 16-bit number.
    pub const fn of_u16(number: u16) -> Self {
        Self(u16::from_ne_bytes(number.to_be_bytes()) as u64)
    }

    /// The sum of both.
    pub const fn and(self, other: Self) -> Self {
        Self(fold(self.0 + other.0) as u64)
    }

    /// The sum as a number without complement: the value of a partial checksum field.
    pub const fn number(self) -> u16 {
        u16::from_be_bytes(fold(self.0).to_ne_bytes())
    }

    /// The checksum: the complement of the sum.
    pub const fn checksum(self) -> u16 {
        !self.number()
    }

    /// Whether this is the sum over data with its own, correct checksum.
    pub const fn is_consistent(self) -> bool {
        self.number() == 0xffff
    }
}

/// Folds a sum to 16 bits and adds the carries.
const fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The checksum of `bytes`.
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::of(bytes).checksum()
}

/// Completes a checksum that a host left to its network card.
///
/// The field at `start + offset` of `frame` holds the sum of the pseudo header. The summed part
/// begins at `start` and ends with the frame (`VIRTIO_NET_HDR_F_NEEDS_CSUM`). A checksum of zero is
/// written as 0xffff, the same number in one's complement: zero means "no checksum" to a UDP
/// receiver.
pub fn complete_partial(frame: &mut [u8], start: usize, offset: usize) -> Result<()> {
    let summed = frame.get_mut(start..).ok_or(Error::Length)?;
    let end = offset.checked_add(2).ok_or(Error::Length)?;
    at_least(summed, end).map_err(|_| Error::Length)?;
    let checksum = match checksum(summed) {
        0 => 0xffff,
        other => other,
    };
    summed[offset..end].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, one word at a time.
    fn by_definition(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn rfc_1071_example_matches() {
        assert_eq!(Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]).number(), 0xddf2);
    }

    #[test]
    fn long_sum_does_not_overflow() {
        assert_eq!(checksum(&[0xff; 65_536]), 0);
        assert_eq!(checksum(&[]), 0xffff);
    }

    #[test]
    fn completed_checksum_is_never_zero() {
        let mut frame = [0xff; 40];
        frame[30..32].copy_from_slice(&[0, 0]);
        complete_partial(&mut frame, 20, 10).unwrap();
        assert_eq!(frame[30..32], [0xff, 0xff]);
        assert_eq!(complete_partial(&mut frame, 20, 19), Err(Error::Length));
        assert_eq!(complete_partial(&mut frame, 41, 0), Err(Error::Length));
        assert_eq!(complete_partial(&mut frame, 0, usize::MAX), Err(Error::Length));
    }

    proptest! {
        #[test]
        fn fast_sum_equals_the_definition(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(checksum(&bytes), by_definition(&bytes));
        }

        #[test]
        fn pieces_sum_to_the_whole(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..100) {
            let cut = (cut * 2).min(bytes.len() & !1);
            let whole = Sum::of(&bytes[..cut]).and(Sum::of(&bytes[cut..]));
            prop_assert_eq!(whole.checksum(), checksum(&bytes));
        }

        #[test]
        fn partial_checksum_becomes_consistent(mut bytes in prop::collection::vec(any::<u8>(), 4..200), pseudo: u16) {
            bytes[2..4].copy_from_slice(&pseudo.to_be_bytes());
            complete_partial(&mut bytes, 0, 2).unwrap();
            let with_pseudo = Sum::of(&bytes).and(Sum::of_u16(pseudo));
            prop_assert!(with_pseudo.is_consistent() || with_pseudo.number() == 0);
        }
    }
}
