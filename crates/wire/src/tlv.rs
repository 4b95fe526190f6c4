//! Messages of type, length and value, with all types and lengths at the front.
//!
//! A cipher with a serial MAC prepares a packet up to the first unknown byte. In a message of type,
//! length and value this is the first value, although all later types and lengths are known too.
//! [`Layout::sort`] moves these to the front (Hiller et al. 2018, section IV-B1 and figure 4),
//! which lengthens the template. [`Layout::restore`] returns the original message to the receiver's
//! application:
//!
//! ```text
//! as encoded   T1 L1 V1 T2 L2 V2 T3 L3 V3
//! sorted       T1 L1 T2 L2 T3 L3 V1 V2 V3
//! ```
//!
//! A sorted message is as long as the original. The place of its values follows from its content:
//! each element increases the sum of read octets and announced values, so the sum reaches the
//! message's length exactly after the last element.
//!
//! ```
//! use antedate_wire::tlv::{Layout, Lengths};
//!
//! let layout = Layout { types: 1, lengths: Lengths::One };
//! let message = *b"\x01\x0221\x02\x03off";
//! let mut sorted = [0; 9];
//! // Four bytes do not change from packet to packet.
//! assert_eq!(layout.sort(&message, &mut sorted), Ok(4));
//! assert_eq!(&sorted, b"\x01\x02\x02\x0321off");
//!
//! let mut restored = [0; 9];
//! layout.restore(&sorted, &mut restored).unwrap();
//! assert_eq!(restored, message);
//! ```

use crate::{Error, Result};

/// The encoding of a message's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Octets of a type.
    pub types: usize,
    /// The encoding of a length.
    pub lengths: Lengths,
}

/// The encoding of a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lengths {
    /// One octet.
    One,
    /// Two octets, the more significant one first.
    Two,
    /// The definite forms of ASN.1's basic encoding rules (ITU-T X.690 8.1.3) up to 65535, as in
    /// GOOSE.
    Ber,
}

/// An element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    /// Type and length, encoded.
    pub head: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// Splits off the first `len` octets.
fn split(bytes: &[u8], len: usize, error: Error) -> Result<(&[u8], &[u8])> {
    bytes.split_at_checked(len).ok_or(error)
}

impl Layout {
    /// The layout of GOOSE's data and of other BER.
    pub const BER: Self = Self { types: 1, lengths: Lengths::Ber };

    /// The head at the front, its announced length, and the octets behind it.
    fn head<'a>(&self, bytes: &'a [u8]) -> Result<(&'a [u8], usize, &'a [u8])> {
        let (_, rest) = split(bytes, self.types, Error::Truncated)?;
        let (width, value) = match (self.lengths, rest) {
            (Lengths::One, [len, ..]) => (1, usize::from(*len)),
            (Lengths::Two, [high, low, ..]) => (2, usize::from(u16::from_be_bytes([*high, *low]))),
            (Lengths::Ber, [len @ ..=0x7f, ..]) => (1, usize::from(*len)),
            (Lengths::Ber, [0x81, len, ..]) => (2, usize::from(*len)),
            (Lengths::Ber, [0x82, high, low, ..]) => (3, usize::from(u16::from_be_bytes([*high, *low]))),
            (Lengths::Ber, [0x80 | 0x83.., ..]) => return Err(Error::Value),
            _ => return Err(Error::Truncated),
        };
        let (head, rest) = split(bytes, self.types + width, Error::Truncated)?;
        Ok((head, value, rest))
    }

    /// The elements of an encoded message. Ends after an error.
    pub fn elements<'a>(&self, message: &'a [u8]) -> impl Iterator<Item = Result<Element<'a>>> + use<'a> {
        let (layout, mut rest) = (*self, message);
        core::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let element = layout.head(rest).and_then(|(head, len, behind)| {
                let (value, behind) = split(behind, len, Error::Length)?;
                rest = behind;
                Ok(Element { head, value })
            });
            if element.is_err() {
                rest = &[];
            }
            Some(element)
        })
    }

    /// Octets of the front of a sorted message.
    fn front(&self, sorted: &[u8]) -> Result<usize> {
        let (mut rest, mut values) = (sorted, 0);
        while rest.len() > values {
            let (_, len, behind) = self.head(rest)?;
            (rest, values) = (behind, values + len);
        }
        // The heads announce more value octets than the message has.
        if rest.len() < values { Err(Error::Length) } else { Ok(sorted.len() - values) }
    }

    /// Sorts a message into `out` and returns the octets of types and lengths at the front.
    ///
    /// # Errors
    /// `out` has another length than the message, or the message does not follow this layout.
    /// Nothing is written then.
    pub fn sort(&self, message: &[u8], out: &mut [u8]) -> Result<usize> {
        if out.len() != message.len() {
            return Err(Error::Truncated);
        }
        let mut front = 0;
        for element in self.elements(message) {
            front += element?.head.len();
        }
        let (mut heads, mut values) = out.split_at_mut_checked(front).ok_or(Error::Length)?;
        for element in self.elements(message) {
            let Element { head, value } = element?;
            heads = put(heads, head)?;
            values = put(values, value)?;
        }
        Ok(front)
    }

    /// Restores a sorted message into `out`.
    ///
    /// # Errors
    /// `out` has another length than the message, or the message is not sorted in this layout.
    /// Nothing is written then.
    pub fn restore(&self, sorted: &[u8], out: &mut [u8]) -> Result<()> {
        if out.len() != sorted.len() {
            return Err(Error::Truncated);
        }
        let (mut heads, mut values) = split(sorted, self.front(sorted)?, Error::Length)?;
        let mut out = out;
        while !heads.is_empty() {
            let (head, len, behind) = self.head(heads)?;
            let (value, left) = split(values, len, Error::Length)?;
            out = put(put(out, head)?, value)?;
            (heads, values) = (behind, left);
        }
        Ok(())
    }
}

/// Writes octets to the front of `out` and returns the rest of it.
fn put<'a>(out: &'a mut [u8], bytes: &[u8]) -> Result<&'a mut [u8]> {
    let (here, behind) = out.split_at_mut_checked(bytes.len()).ok_or(Error::Length)?;
    here.copy_from_slice(bytes);
    Ok(behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    const ONE: Layout = Layout { types: 1, lengths: Lengths::One };
    const LAYOUTS: [Layout; 5] = [
        ONE,
        Layout { types: 2, lengths: Lengths::Two },
        Layout { types: 1, lengths: Lengths::Two },
        Layout { types: 0, lengths: Lengths::One },
        Layout::BER,
    ];

    fn encode(layout: Layout, elements: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut message = Vec::new();
        for (kind, value) in elements {
            message.extend_from_slice(&kind.to_be_bytes()[2 - layout.types..]);
            let len = value.len() as u16;
            match layout.lengths {
                Lengths::One => message.push(len as u8),
                Lengths::Two => message.extend_from_slice(&len.to_be_bytes()),
                Lengths::Ber if len < 128 => message.push(len as u8),
                Lengths::Ber => message.extend_from_slice(&[0x81, len as u8]),
            }
            message.extend_from_slice(value);
        }
        message
    }

    #[test]
    fn goose_heads_move_to_the_front() {
        // Two booleans and an integer, as in the allData of a GOOSE message.
        let message = [0x83, 1, 0xff, 0x83, 1, 0, 0x85, 2, 0x12, 0x34];
        let mut sorted = [0; 10];
        assert_eq!(Layout::BER.sort(&message, &mut sorted), Ok(6));
        assert_eq!(sorted, [0x83, 1, 0x83, 1, 0x85, 2, 0xff, 0, 0x12, 0x34]);
        assert_eq!(Layout::BER.elements(&message).flatten().map(|e| e.value.len()).sum::<usize>(), 4);
    }

    #[test]
    fn empty_values_leave_only_heads() {
        let (message, mut out) = ([1, 0, 2, 0, 3, 0], [0xaa; 6]);
        assert_eq!(ONE.sort(&message, &mut out), Ok(6));
        assert_eq!(out, message);
        assert_eq!(ONE.sort(&[], &mut []), Ok(0));
        assert_eq!(ONE.restore(&[], &mut []), Ok(()));
    }

    #[test]
    fn malformed_message_writes_nothing() {
        for (layout, message, error) in [
            (ONE, &[1][..], Error::Truncated),
            (ONE, &[1, 2, 3], Error::Length),
            (ONE, &[1, 1, 9, 2], Error::Truncated),
            (Layout::BER, &[0x30, 0x80, 0, 0], Error::Value),
            (Layout::BER, &[0x30, 0x83, 0, 0, 1, 7], Error::Value),
            (Layout::BER, &[0x30, 0x82, 1], Error::Truncated),
        ] {
            let mut out = vec![0xaa; message.len()];
            assert_eq!(layout.sort(message, &mut out), Err(error), "{message:?}");
            assert!(layout.restore(message, &mut out).is_err(), "{message:?}");
            assert!(out.iter().all(|byte| *byte == 0xaa), "{message:?}");
        }
        assert_eq!(ONE.sort(&[1, 0], &mut [0; 3]), Err(Error::Truncated), "as long as the message");
        assert_eq!(ONE.restore(&[1, 0], &mut [0; 1]), Err(Error::Truncated));
    }

    proptest! {
        #[test]
        fn sorted_message_is_restored(
            layout in prop::sample::select(&LAYOUTS[..]),
            elements in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..200)), 0..12),
        ) {
            let message = encode(layout, &elements);
            let mut sorted = vec![0; message.len()];
            let front = layout.sort(&message, &mut sorted).unwrap();
            let values: Vec<u8> = elements.iter().flat_map(|(_, value)| value.clone()).collect();
            prop_assert_eq!(&sorted[front..], &values[..]);
            let mut restored = vec![0; message.len()];
            layout.restore(&sorted, &mut restored).unwrap();
            prop_assert_eq!(restored, message);
        }

        #[test]
        fn any_octets_round_trip_or_are_refused(
            layout in prop::sample::select(&LAYOUTS[..]),
            octets in prop::collection::vec(0u8..6, 0..40),
        ) {
            let (mut there, mut back) = (vec![0; octets.len()], vec![0; octets.len()]);
            if layout.sort(&octets, &mut there).is_ok() {
                layout.restore(&there, &mut back).unwrap();
                prop_assert_eq!(&back, &octets);
            }
            if layout.restore(&octets, &mut there).is_ok() {
                layout.sort(&there, &mut back).unwrap();
                prop_assert_eq!(&back, &octets);
            }
        }
    }
}
