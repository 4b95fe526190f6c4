//! Messages of the 6top protocol (6P, RFC 8480 section 3.2), by which neighbours agree on cells: in a
//! payload element of the IETF (RFC 8137).
//!
//! ```text
//!   1   sub-identifier: 6top
//!   1   version (lower four bits), type (two bits)
//!   1   command or return code
//!   1   scheduling function
//!   1   sequence number
//!   n   fields of the command
//! ```

use super::ie::{PayloadGroupId, PayloadIes, PayloadWriter};
use crate::{Error, Result};

/// The sub-identifier of 6top in an element of the IETF.
const SUB_ID: u8 = 0x01;
/// Octets before the fields of a command, with the sub-identifier.
const HEADER: usize = 5;
/// Octets of an element's descriptor.
const DESCRIPTOR: usize = 2;

wire_enum! {
    /// The type of a message.
    pub enum MessageType(u8) {
        /// a request
        Request = 0,
        /// a response
        Response = 1,
        /// a confirmation
        Confirmation = 2,
    }
}

wire_enum! {
    /// The command of a request.
    pub enum Command(u8) {
        /// add cells
        Add = 1,
        /// delete cells
        Delete = 2,
        /// relocate cells
        Relocate = 3,
        /// count cells
        Count = 4,
        /// list cells
        List = 5,
        /// a signal of the scheduling function
        Signal = 6,
        /// delete all cells
        Clear = 7,
    }
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// its type
    pub kind: MessageType,
    /// the [`Command`] of a request, the return code of others
    pub code: u8,
    /// the scheduling function
    pub function: u8,
    /// the number of the transaction
    pub sequence: u8,
    /// the fields of the command
    pub fields: &'a [u8],
}

impl<'a> Message<'a> {
    /// The message in payload elements. None if there is none, or one of another version.
    pub fn parse(elements: PayloadIes<'a>) -> Option<Self> {
        let mut ietf = elements.filter(|ie| ie.group == PayloadGroupId::Ietf);
        let content = ietf.find_map(|ie| ie.content.strip_prefix(&[SUB_ID]))?;
        let ([control, code, function, sequence], fields) = content.split_first_chunk()?;
        // Version 0, and reserved bits.
        if control & 0xcf != 0 {
            return None;
        }
        let kind = MessageType::from_number(control >> 4);
        Some(Self { kind, code: *code, function: *function, sequence: *sequence, fields })
    }

    /// Writes the element to the front of `buffer`, and returns its length. Nothing follows it.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize> {
        let kind = self.kind.number();
        if kind > 3 {
            return Err(Error::Value);
        }
        // The content is written behind the descriptor's place, and the descriptor before it.
        let len = HEADER + self.fields.len();
        let content = buffer.get_mut(DESCRIPTOR..DESCRIPTOR + len).ok_or(Error::Truncated)?;
        let (header, fields) = content.split_at_mut(HEADER);
        header.copy_from_slice(&[SUB_ID, kind << 4, self.code, self.function, self.sequence]);
        fields.copy_from_slice(self.fields);
        PayloadWriter::describe(buffer, PayloadGroupId::Ietf, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Message<'static> {
        let fields = &[0x34, 0x12, 1, 2, 5, 0, 3, 0];
        let (kind, code) = (MessageType::Request, Command::Add.number());
        Message { kind, code, function: 0, sequence: 9, fields }
    }

    #[test]
    fn request_has_the_octets_of_rfc_8480() {
        let mut out = [0; 32];
        let len = request().emit(&mut out).unwrap();
        assert_eq!(out[..len], [13, 0xa8, 1, 0, 1, 0, 9, 0x34, 0x12, 1, 2, 5, 0, 3, 0]);
        let (elements, content) = PayloadIes::split(&out[..len]).unwrap();
        assert_eq!((Message::parse(elements), content), (Some(request()), &[][..]));
    }

    #[test]
    fn foreign_element_is_no_message() {
        fn read(octets: &[u8]) -> Option<Message<'_>> {
            PayloadIes::split(octets).ok().and_then(|(ies, _)| Message::parse(ies))
        }
        for octets in [
            &[][..],
            // Too short, another sub-identifier, another group, another version, a reserved bit.
            &[4, 0xa8, 1, 0, 1, 0],
            &[5, 0xa8, 2, 0, 1, 0, 9],
            &[5, 0x88, 1, 0, 1, 0, 9],
            &[5, 0xa8, 1, 1, 1, 0, 9],
            &[5, 0xa8, 1, 0x40, 1, 0, 9],
        ] {
            assert_eq!(read(octets), None, "{octets:?}");
        }
        assert!(read(&[5, 0xa8, 1, 0x10, 0, 0, 9]).is_some());
    }

    #[test]
    fn message_that_does_not_fit_is_refused() {
        let strange = Message { kind: MessageType::Unknown(9), ..request() };
        assert_eq!(strange.emit(&mut [0; 32]), Err(Error::Value));
        assert_eq!(request().emit(&mut [0; 14]), Err(Error::Truncated));
    }
}
