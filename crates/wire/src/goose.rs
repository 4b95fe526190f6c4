//! GOOSE (IEC 61850-8-1 annex A, annex C and clause 18).
//!
//! [`Repr`] is the header: application identifier, length and the two reserved fields.
//! [`Publisher`] reads the first fields of the PDU, which identify the publisher, with BER's full
//! tolerance. [`Message`] is a whole message. It is read strictly and written with a layout that
//! does not depend on its values, so that late values always have the same places.

pub(crate) mod ber;
mod data;
mod pdu;
#[cfg(test)]
#[path = "goose/tests.rs"]
mod whole;

use crate::bytes::{at_least, be16, put16};
use crate::{Error, Result};

pub use data::{MAX_DEPTH, Value, Values};
pub use pdu::Message;

/// Octets from the APPID to the second reserved field.
pub const HEADER_LEN: usize = 8;

/// BER tags of the PDU.
mod tag {
    pub(super) const GOOSE_PDU: u8 = 0x61;
    pub(super) const GOCB_REF: u8 = 0x80;
    pub(super) const TIME_ALLOWED_TO_LIVE: u8 = 0x81;
    pub(super) const DAT_SET: u8 = 0x82;
    pub(super) const GO_ID: u8 = 0x83;
    pub(super) const T: u8 = 0x84;
    pub(super) const ST_NUM: u8 = 0x85;
    pub(super) const SQ_NUM: u8 = 0x86;
    pub(super) const SIMULATION: u8 = 0x87;
    pub(super) const CONF_REV: u8 = 0x88;
    pub(super) const NDS_COM: u8 = 0x89;
    pub(super) const NUM_DAT_SET_ENTRIES: u8 = 0x8a;
    pub(super) const ALL_DATA: u8 = 0xab;
}

mod field {
    pub(super) const APPID: usize = 0;
    pub(super) const LENGTH: usize = 2;
    pub(super) const RESERVED1: usize = 4;
    pub(super) const RESERVED2: usize = 6;
}

/// The fixed header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// the application identifier, 0x0000 to 0x3fff for GOOSE
    pub appid: u16,
    /// octets from the APPID to the end of the PDU
    pub length: u16,
    /// the first reserved field; a test device sets bit 15
    pub reserved1: u16,
    /// the second reserved field
    pub reserved2: u16,
}

impl Repr {
    /// Reads the header at the front of the octets behind the EtherType.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        at_least(bytes, HEADER_LEN)?;
        let repr = Self {
            appid: be16(bytes, field::APPID),
            length: be16(bytes, field::LENGTH),
            reserved1: be16(bytes, field::RESERVED1),
            reserved2: be16(bytes, field::RESERVED2),
        };
        let length = usize::from(repr.length);
        if length < HEADER_LEN || length > bytes.len() { Err(Error::Length) } else { Ok(repr) }
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the front of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        at_least(buffer, HEADER_LEN)?;
        put16(buffer, field::APPID, self.appid);
        put16(buffer, field::LENGTH, self.length);
        put16(buffer, field::RESERVED1, self.reserved1);
        put16(buffer, field::RESERVED2, self.reserved2);
        Ok(())
    }
}

/// The publisher of a GOOSE message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publisher<'a> {
    /// the reference of the control block
    pub gocb_ref: &'a [u8],
    /// validity of the message in milliseconds
    pub time_allowed_to_live: u32,
    /// the reference of the data set
    pub dat_set: &'a [u8],
    /// the identifier, if present
    pub go_id: core::option::Option<&'a [u8]>,
}

impl<'a> Publisher<'a> {
    /// Reads the first fields of the PDU in the octets behind the EtherType.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let header = Repr::parse(bytes)?;
        let pdu = bytes.get(HEADER_LEN..usize::from(header.length)).ok_or(Error::Length)?;
        let (mut fields, _) = expect(pdu, tag::GOOSE_PDU)?;
        let mut next = |tag| -> Result<&'a [u8]> {
            let (value, rest) = expect(fields, tag)?;
            fields = rest;
            Ok(value)
        };
        let gocb_ref = next(tag::GOCB_REF)?;
        let time_allowed_to_live = unsigned(next(tag::TIME_ALLOWED_TO_LIVE)?)?;
        let dat_set = next(tag::DAT_SET)?;
        let go_id = match next(tag::GO_ID) {
            Ok(id) => Some(id),
            Err(Error::Value) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { gocb_ref, time_allowed_to_live, dat_set, go_id })
    }
}

/// The value of the BER element at the front, which must have tag `tag`, and the octets behind it.
fn expect(bytes: &[u8], tag: u8) -> Result<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first().ok_or(Error::Truncated)?;
    if found != tag {
        return Err(Error::Value);
    }
    let (&first, rest) = rest.split_first().ok_or(Error::Truncated)?;
    // The long form contains the number of length octets. An Ethernet frame needs at most two.
    let (len, rest) = match (first, rest) {
        (0..=0x7f, rest) => (usize::from(first), rest),
        (0x81, [len, rest @ ..]) => (usize::from(*len), rest),
        (0x82, [high, low, rest @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), rest),
        (0x81 | 0x82, _) => return Err(Error::Truncated),
        _ => return Err(Error::Length),
    };
    rest.split_at_checked(len).ok_or(Error::Length)
}

/// A non-negative BER integer of at most 32 bits.
fn unsigned(value: &[u8]) -> Result<u32> {
    match value {
        [] => Err(Error::Length),
        [first, ..] if first & 0x80 != 0 => Err(Error::Value),
        [0, rest @ ..] if rest.len() == 4 => Ok(be(rest)),
        value if value.len() <= 4 => Ok(be(value)),
        _ => Err(Error::Length),
    }
}

fn be(value: &[u8]) -> u32 {
    value.iter().fold(0, |number, octet| number << 8 | u32::from(*octet))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn message(pdu: &[u8]) -> Vec<u8> {
        let length = (HEADER_LEN + pdu.len()) as u16;
        let mut out = [0; HEADER_LEN].to_vec();
        Repr { appid: 1, length, reserved1: 0x8000, reserved2: 0 }.emit(&mut out).unwrap();
        out.extend(pdu);
        out
    }

    #[test]
    fn publisher_identifier_is_optional() {
        let with = b"\x61\x15\x80\x04IED1\x81\x02\x07\xd0\x82\x02ds\x83\x02go\x84\x01\x00";
        let message_with = message(with);
        let publisher = Publisher::parse(&message_with).unwrap();
        assert_eq!((publisher.gocb_ref, publisher.dat_set), (&b"IED1"[..], &b"ds"[..]));
        assert_eq!((publisher.time_allowed_to_live, publisher.go_id), (2000, Some(&b"go"[..])));
        assert_eq!(Repr::parse(&message_with).unwrap().reserved1, 0x8000);
        let without = message(b"\x61\x81\x11\x80\x04IED1\x81\x02\x07\xd0\x82\x02ds\x84\x01\x00");
        assert_eq!(Publisher::parse(&without).unwrap().go_id, None);
    }

    #[test]
    fn lengths_past_the_end_are_refused() {
        let good = message(b"\x61\x11\x80\x04IED1\x81\x02\x07\xd0\x82\x02ds\x84\x01\x00");
        for len in 0..good.len() {
            assert!(Publisher::parse(&good[..len]).is_err(), "{len}");
        }
        assert_eq!(Publisher::parse(&message(b"\x61\x84\x00\x00\x00\x01\x80")), Err(Error::Length));
        assert_eq!(Publisher::parse(&message(b"\x60\x00")), Err(Error::Value));
    }

    #[test]
    fn integers_keep_their_range() {
        assert_eq!(unsigned(&[0, 0xff, 0xff, 0xff, 0xff]), Ok(u32::MAX));
        assert_eq!(unsigned(&[0x7f]), Ok(127));
        assert_eq!(unsigned(&[0x80]), Err(Error::Value));
        assert_eq!(unsigned(&[1, 0, 0, 0, 0]), Err(Error::Length));
        assert_eq!(unsigned(&[]), Err(Error::Length));
    }

    proptest! {
        #[test]
        fn parser_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Publisher::parse(&bytes);
            let _ = Publisher::parse(&message(&bytes));
        }
    }
}
