//! Connectionless DCE/RPC (C706 "DCE 1.1: Remote Procedure Call", clause 12.5): the header of the
//! datagrams by which a Profinet controller sets up a device.
//!
//! The octet order of the numbers and identifiers is the sender's, announced in the header.

use crate::{Error, Result};

/// Octets of the header.
pub const HEADER_LEN: usize = 80;
/// The UDP port of Profinet's context management (IEC 61158-6-10).
pub const PROFINET_PORT: u16 = 34964;

const VERSION: u8 = 4;
/// The datagram is one of several fragments.
const FLAG_FRAGMENT: u8 = 0x04;
const LITTLE_ENDIAN: u8 = 0x10;
/// Interface and activity hint: none.
const NO_HINT: u16 = 0xffff;

wire_enum! {
    /// The kind of a datagram.
    pub enum PacketType(u8) {
        /// a call
        Request = 0,
        /// asks whether a call is being worked on
        Ping = 1,
        /// the result of a call
        Response = 2,
        /// the call failed in the server
        Fault = 3,
        /// answers a ping: the call is being worked on
        Working = 4,
        /// answers a ping: the call never came
        NoCall = 5,
        /// the server did not run the call
        Reject = 6,
        /// the client has the result
        Ack = 7,
    }
}

mod field {
    pub(super) const VERSION: usize = 0;
    pub(super) const PACKET_TYPE: usize = 1;
    pub(super) const FLAGS: usize = 2;
    pub(super) const DATA_REPRESENTATION: usize = 4;
    pub(super) const OBJECT: usize = 8;
    pub(super) const INTERFACE: usize = 24;
    pub(super) const ACTIVITY: usize = 40;
    pub(super) const BOOT_TIME: usize = 56;
    pub(super) const INTERFACE_VERSION: usize = 60;
    pub(super) const SEQUENCE: usize = 64;
    pub(super) const OPERATION: usize = 68;
    pub(super) const INTERFACE_HINT: usize = 70;
    pub(super) const ACTIVITY_HINT: usize = 72;
    pub(super) const BODY_LEN: usize = 74;
    pub(super) const FRAGMENT: usize = 76;
    pub(super) const AUTHENTICATION: usize = 78;
}

/// The octet order of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Most significant octet first.
    Big,
    /// Least significant octet first.
    #[default]
    Little,
}

impl Order {
    /// Writes a number of 16 bits.
    pub fn u16(self, value: u16) -> [u8; 2] {
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }

    /// Writes a number of 32 bits.
    pub fn u32(self, value: u32) -> [u8; 4] {
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }

    /// Reads a number of 16 bits.
    pub fn read_u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Big => u16::from_be_bytes(bytes),
            Self::Little => u16::from_le_bytes(bytes),
        }
    }

    /// Reads a number of 32 bits.
    pub fn read_u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Big => u32::from_be_bytes(bytes),
            Self::Little => u32::from_le_bytes(bytes),
        }
    }
}

/// A universally unique identifier, its octets in the order of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// The interface of an IO device.
    pub const IO_DEVICE: Self = Self::profinet(1, 0x7d);
    /// The interface of an IO controller.
    pub const IO_CONTROLLER: Self = Self::profinet(2, 0x7d);

    const fn profinet(kind: u8, last: u8) -> Self {
        Self([0xde, 0xa0, 0, kind, 0x6c, 0x97, 0x11, 0xd1, 0x82, 0x71, 0x00, 0xa0, 0x24, 0x42, 0xdf, last])
    }

    /// The object of a station (IEC 61158-6-10): instance, device and vendor identifier.
    pub const fn object(instance: u16, device: u16, vendor: u16) -> Self {
        let ([i0, i1], [d0, d1], [v0, v1]) =
            (instance.to_be_bytes(), device.to_be_bytes(), vendor.to_be_bytes());
        Self([0xde, 0xa0, 0, 0, 0x6c, 0x97, 0x11, 0xd1, 0x82, 0x71, i0, i1, d0, d1, v0, v1])
    }

    /// The octets in a sender's order: the first three fields are numbers.
    fn ordered(self, order: Order) -> [u8; 16] {
        let mut bytes = self.0;
        if order == Order::Little {
            bytes[0..4].reverse();
            bytes[4..6].reverse();
            bytes[6..8].reverse();
        }
        bytes
    }
}

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// the sender's octet order
    pub order: Order,
    /// the kind of datagram
    pub packet_type: PacketType,
    /// the first octet of flags
    pub flags: u8,
    /// the object of the call
    pub object: Uuid,
    /// the interface of the call
    pub interface: Uuid,
    /// the series of calls, one after the other
    pub activity: Uuid,
    /// the server's start; 0 in a client that does not know it
    pub boot_time: u32,
    /// the version of the interface
    pub interface_version: u32,
    /// the number of the call in its activity
    pub sequence: u32,
    /// the operation of the interface
    pub operation: u16,
}

impl Header {
    /// Flags of a request: idempotent.
    pub const REQUEST_FLAGS: u8 = 0x20;
    /// Flags of a response: the last fragment, without an acknowledgement of fragments.
    pub const RESPONSE_FLAGS: u8 = 0x0a;

    /// Reads a datagram. Returns the header and the body.
    ///
    /// # Errors
    /// [`Error::Value`] for another version, a fragment, and an authenticated call.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let (head, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(Error::Truncated)?;
        let order =
            if head[field::DATA_REPRESENTATION] & 0xf0 == LITTLE_ENDIAN { Order::Little } else { Order::Big };
        let u16_at = |at: usize| order.read_u16([head[at], head[at + 1]]);
        let u32_at = |at: usize| order.read_u32(crate::bytes::array(head, at));
        let uuid_at = |at: usize| Uuid(Uuid(crate::bytes::array(head, at)).ordered(order));
        let fragment = head[field::FLAGS] & FLAG_FRAGMENT != 0 || u16_at(field::FRAGMENT) != 0;
        if head[field::VERSION] != VERSION || fragment || head[field::AUTHENTICATION] != 0 {
            return Err(Error::Value);
        }
        let body = rest.get(..usize::from(u16_at(field::BODY_LEN))).ok_or(Error::Length)?;
        let header = Self {
            order,
            packet_type: PacketType::from_number(head[field::PACKET_TYPE]),
            flags: head[field::FLAGS],
            object: uuid_at(field::OBJECT),
            interface: uuid_at(field::INTERFACE),
            activity: uuid_at(field::ACTIVITY),
            boot_time: u32_at(field::BOOT_TIME),
            interface_version: u32_at(field::INTERFACE_VERSION),
            sequence: u32_at(field::SEQUENCE),
            operation: u16_at(field::OPERATION),
        };
        Ok((header, body))
    }

    /// Writes the header of a datagram with `body_len` octets of body to the front of `buffer`.
    pub fn emit(&self, body_len: usize, buffer: &mut [u8]) -> Result<()> {
        let head = buffer.first_chunk_mut::<HEADER_LEN>().ok_or(Error::Truncated)?;
        let body_len = u16::try_from(body_len).map_err(|_| Error::Length)?;
        *head = [0; HEADER_LEN];
        head[field::VERSION] = VERSION;
        head[field::PACKET_TYPE] = self.packet_type.number();
        head[field::FLAGS] = self.flags;
        head[field::DATA_REPRESENTATION] = if self.order == Order::Little { LITTLE_ENDIAN } else { 0 };
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(field::OBJECT, &self.object.ordered(self.order));
        put(field::INTERFACE, &self.interface.ordered(self.order));
        put(field::ACTIVITY, &self.activity.ordered(self.order));
        put(field::BOOT_TIME, &self.order.u32(self.boot_time));
        put(field::INTERFACE_VERSION, &self.order.u32(self.interface_version));
        put(field::SEQUENCE, &self.order.u32(self.sequence));
        put(field::OPERATION, &self.order.u16(self.operation));
        put(field::INTERFACE_HINT, &self.order.u16(NO_HINT));
        put(field::ACTIVITY_HINT, &self.order.u16(NO_HINT));
        put(field::BODY_LEN, &self.order.u16(body_len));
        Ok(())
    }

    /// The header of the response to this request.
    #[must_use]
    pub const fn response(&self) -> Self {
        Self { packet_type: PacketType::Response, flags: Self::RESPONSE_FLAGS, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(order: Order) -> Header {
        Header {
            order,
            packet_type: PacketType::Request,
            flags: Header::REQUEST_FLAGS,
            object: Uuid::object(1, 0x1234, 0xffff),
            interface: Uuid::IO_DEVICE,
            activity: Uuid([7; 16]),
            boot_time: 0,
            interface_version: 1,
            sequence: 5,
            operation: 4,
        }
    }

    #[test]
    fn header_round_trips_in_both_orders() {
        for order in [Order::Big, Order::Little] {
            let mut bytes = [0xee; HEADER_LEN + 3];
            header(order).emit(3, &mut bytes).unwrap();
            let (read, body) = Header::parse(&bytes).unwrap();
            assert_eq!((read, body), (header(order), &[0xee; 3][..]));
        }
    }

    #[test]
    fn little_endian_swaps_identifiers() {
        let mut bytes = [0; HEADER_LEN];
        header(Order::Little).emit(0, &mut bytes).unwrap();
        assert_eq!(bytes[24..32], [0x01, 0, 0xa0, 0xde, 0x97, 0x6c, 0xd1, 0x11]);
        assert_eq!((bytes[4], bytes[68], bytes[69]), (0x10, 4, 0));
    }

    #[test]
    fn fragments_and_short_bodies_are_refused() {
        let mut bytes = [0; HEADER_LEN];
        header(Order::Big).emit(1, &mut bytes).unwrap();
        assert_eq!(Header::parse(&bytes), Err(Error::Length));
        header(Order::Big).emit(0, &mut bytes).unwrap();
        assert_eq!(Header::parse(&bytes[..79]), Err(Error::Truncated));
        for (at, bits) in [(0, 1), (2, FLAG_FRAGMENT), (77, 1), (78, 1)] {
            let mut other = bytes;
            other[at] ^= bits;
            assert_eq!(Header::parse(&other), Err(Error::Value), "octet {at}");
        }
    }

    proptest! {
        #[test]
        fn parser_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            let _ = Header::parse(&bytes);
        }
    }
}
