//! Context management (IEC 61158-6-10, CM): the arguments of the RPC calls by which a controller
//! connects to a device, writes its parameters, reads its records and releases it.
//!
//! A call is NDR arguments ([`Args`]) with a list of blocks ([`Blocks`]). Blocks are big-endian,
//! whatever the octet order of the RPC header:
//!
//! - [`connect`]: the application relation (AR), its IO connections (IOCR), alarm connection and
//!   expected submodules,
//! - [`control`]: end of parameters, application ready, release,
//! - [`record`]: reading and writing of records.

pub mod connect;
pub mod control;
mod cursor;
pub mod record;

pub use cursor::{Reader, Writer};

use crate::dcerpc::Order;
use crate::{Error, Result};

/// Octets of the arguments in front of the blocks.
pub const ARGS_LEN: usize = 20;
/// Octets of a block's type, length and version.
pub const BLOCK_HEADER_LEN: usize = 6;
const VERSION: [u8; 2] = [1, 0];

wire_enum! {
    /// An operation of the device's or the controller's interface.
    pub enum Operation(u16) {
        /// sets up a connection
        Connect = 0,
        /// ends it
        Release = 1,
        /// reads a record
        Read = 2,
        /// writes a record
        Write = 3,
        /// end of parameters, application ready
        Control = 4,
        /// reads a record without a connection
        ReadImplicit = 5,
    }
}

wire_enum! {
    /// The kind of a block.
    pub enum BlockType(u16) {
        /// header of a record to write
        WriteRequest = 0x0008,
        /// header of a record to read
        ReadRequest = 0x0009,
        /// plugged modules (index 0xf000)
        RealIdentification = 0x0013,
        /// identification of a submodule (index 0xaff0)
        IdentificationMaintenance0 = 0x0020,
        /// application relation
        ArRequest = 0x0101,
        /// IO connection
        IocrRequest = 0x0102,
        /// alarm connection
        AlarmCrRequest = 0x0103,
        /// expected submodules
        ExpectedSubmodules = 0x0104,
        /// end of parameters
        ParameterEndRequest = 0x0110,
        /// the device is ready
        ApplicationReadyRequest = 0x0112,
        /// release
        ReleaseRequest = 0x0114,
        /// result of a write
        WriteResponse = 0x8008,
        /// header of a read record
        ReadResponse = 0x8009,
        /// application relation, accepted
        ArResponse = 0x8101,
        /// IO connection, accepted
        IocrResponse = 0x8102,
        /// alarm connection, accepted
        AlarmCrResponse = 0x8103,
        /// differences from the expected submodules
        ModuleDiff = 0x8104,
        /// end of parameters, accepted
        ParameterEndResponse = 0x8110,
        /// the controller knows that the device is ready
        ApplicationReadyResponse = 0x8112,
        /// released
        ReleaseResponse = 0x8114,
    }
}

/// The result of a call: error code, decode, code 1, code 2. Zero is success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Status(pub u32);

impl Status {
    /// Success.
    pub const OK: Self = Self(0);
    /// Connect: the device has no resources for a further connection.
    pub const NO_AR_RESOURCES: Self = Self(0xdb81_4004);
    /// Connect: the AR block is wrong.
    pub const FAULTY_AR: Self = Self(0xdb81_0100);
    /// Connect: an IOCR block is wrong.
    pub const FAULTY_IOCR: Self = Self(0xdb81_0200);
    /// Connect: the expected submodules are wrong.
    pub const FAULTY_SUBMODULES: Self = Self(0xdb81_0300);
    /// Connect: the block of the alarm connection is wrong.
    pub const FAULTY_ALARM_CR: Self = Self(0xdb81_0400);
    /// Control: no such connection.
    pub const UNKNOWN_AR: Self = Self(0xdd81_4005);
    /// Control: not in this state of the connection.
    pub const OUT_OF_SEQUENCE: Self = Self(0xdd81_4006);
    /// Release: no such connection.
    pub const RELEASE_UNKNOWN_AR: Self = Self(0xdc81_4005);
    /// Read: no such record.
    pub const READ_INVALID_INDEX: Self = Self(0xde80_b000);
    /// Write: no such record.
    pub const WRITE_INVALID_INDEX: Self = Self(0xdf80_b000);
    /// The device ended the connection: no output data in time.
    pub const CONSUMER_TIMED_OUT: Self = Self(0xcf81_fd05);
    /// The device ended the connection: the next step of its set-up did not come in time.
    pub const SET_UP_TIMED_OUT: Self = Self(0xcf81_fd06);
    /// The device ended the connection: an alarm was not acknowledged in time.
    pub const ALARM_TIMED_OUT: Self = Self(0xcf81_fd08);

    /// Whether the call succeeded.
    #[must_use]
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }
}

/// NDR arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Args<'a> {
    /// request: the most octets of a response; response: the status
    pub first: u32,
    /// the most octets of blocks
    pub maximum: u32,
    /// the blocks
    pub blocks: &'a [u8],
}

impl<'a> Args<'a> {
    /// Reads the body of a datagram.
    pub fn parse(order: Order, body: &'a [u8]) -> Result<Self> {
        let (head, rest) = body.split_first_chunk::<ARGS_LEN>().ok_or(Error::Truncated)?;
        let at = |index: usize| order.read_u32(crate::bytes::array(head, index * 4));
        let (len, offset, count) = (at(1), at(3), at(4));
        if offset != 0 || count != len {
            return Err(Error::Value);
        }
        let len = usize::try_from(len).map_err(|_| Error::Length)?;
        let blocks = rest.get(..len).ok_or(Error::Length)?;
        Ok(Self { first: at(0), maximum: at(2), blocks })
    }

    /// Writes the arguments in front of `len` octets of blocks.
    pub fn emit(order: Order, first: u32, maximum: u32, len: usize, buffer: &mut [u8]) -> Result<()> {
        let len = u32::try_from(len).map_err(|_| Error::Length)?;
        let head = buffer.get_mut(..ARGS_LEN).ok_or(Error::Truncated)?;
        for (place, value) in head.chunks_exact_mut(4).zip([first, len, maximum, 0, len]) {
            place.copy_from_slice(&order.u32(value));
        }
        Ok(())
    }

    /// The blocks one by one.
    #[must_use]
    pub const fn blocks(&self) -> Blocks<'a> {
        Blocks { rest: self.blocks }
    }
}

/// A block without its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    /// the kind
    pub kind: BlockType,
    /// the octets behind the version
    pub body: &'a [u8],
}

/// The blocks of a call. Ends after an error. Record data behind a header is not a block.
#[derive(Debug, Clone)]
pub struct Blocks<'a> {
    rest: &'a [u8],
}

impl<'a> Blocks<'a> {
    /// The blocks in these octets.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The octets behind the blocks so far: the data of a record.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn block(&mut self) -> Result<Block<'a>> {
        let mut reader = Reader::new(core::mem::take(&mut self.rest));
        let kind = BlockType::from_number(reader.u16()?);
        let len = usize::from(reader.u16()?).checked_sub(VERSION.len()).ok_or(Error::Length)?;
        if reader.array()? != VERSION {
            return Err(Error::Value);
        }
        let body = reader.take(len).map_err(|_| Error::Length)?;
        self.rest = reader.rest();
        Ok(Block { kind, body })
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<Block<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() { None } else { Some(self.block()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn args_round_trip_and_check_lengths() {
        for order in [Order::Big, Order::Little] {
            let mut bytes = [9; ARGS_LEN + 4];
            Args::emit(order, 0x0102, 500, 4, &mut bytes).unwrap();
            let args = Args::parse(order, &bytes).unwrap();
            assert_eq!(args, Args { first: 0x0102, maximum: 500, blocks: &[9; 4] });
            assert_eq!(Args::parse(order, &bytes[..23]), Err(Error::Length));
            assert_eq!(Args::parse(order, &bytes[..19]), Err(Error::Truncated));
        }
        let mut bytes = [0; ARGS_LEN + 4];
        Args::emit(Order::Big, 0, 500, 4, &mut bytes).unwrap();
        bytes[19] = 3;
        assert_eq!(Args::parse(Order::Big, &bytes), Err(Error::Value));
    }

    #[test]
    fn block_lengths_stay_inside() {
        let bytes = [0x01, 0x01, 0, 4, 1, 0, 7, 8, 0x81, 0x10, 0, 2, 1, 0];
        let mut blocks = Blocks::new(&bytes);
        assert_eq!(blocks.next(), Some(Ok(Block { kind: BlockType::ArRequest, body: &[7, 8] })));
        assert_eq!(blocks.next(), Some(Ok(Block { kind: BlockType::ParameterEndResponse, body: &[] })));
        assert_eq!(blocks.next(), None);
        for (bytes, error) in [
            (&[0, 1, 0][..], Error::Truncated),
            (&[0, 1, 0, 1, 1, 0][..], Error::Length),
            (&[0, 1, 0, 3, 1, 0][..], Error::Length),
            (&[0, 1, 0, 2, 2, 0][..], Error::Value),
        ] {
            let mut blocks = Blocks::new(bytes);
            assert_eq!((blocks.next(), blocks.next()), (Some(Err(error)), None), "{bytes:?}");
        }
    }
}
