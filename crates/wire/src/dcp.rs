//! DCP, Profinet's discovery and basic configuration (IEC 61158-6-10): Identify, Get, Set, Hello.
//!
//! Behind the FrameID a DCP PDU has service, service type, transaction, response delay and length,
//! then blocks, each padded to an even number of octets. A Get request has pairs of option and
//! suboption instead of blocks.
//!
//! A gateway distinguishes reading and writing PDUs ([`Header::access`]): setting a station's name
//! or address can take over a machine.

use crate::bytes::{at_least, be16, be32, put16, put32};
use crate::profinet::FrameId;
use crate::{Error, Result};

/// Octets from the FrameID to the length.
pub const HEADER_LEN: usize = 12;
/// Octets of a block's option, suboption and length.
const BLOCK_HEADER_LEN: usize = 4;

wire_enum! {
    /// The requested service.
    pub enum ServiceId(u8) {
        /// read blocks
        Get = 3,
        /// write blocks
        Set = 4,
        /// find stations with these properties
        Identify = 5,
        /// announce a station at its start
        Hello = 6,
    }
}

wire_enum! {
    /// A request, or its result.
    pub enum ServiceType(u8) {
        /// a request
        Request = 0,
        /// a response: success
        ResponseSuccess = 1,
        /// a response: the service is not supported
        ResponseUnsupported = 5,
    }
}

wire_enum! {
    /// The subject of a block: option in the upper octet, suboption in the lower.
    pub enum Option(u16) {
        /// MAC address
        MacAddress = 0x0101,
        /// IP address, mask and gateway
        IpParameter = 0x0102,
        /// IP address, mask, gateway and name servers
        FullIpSuite = 0x0103,
        /// the manufacturer's name of the type of station
        TypeOfStation = 0x0201,
        /// the name of the station
        NameOfStation = 0x0202,
        /// vendor and device identifier
        DeviceId = 0x0203,
        /// controller, device, supervisor
        DeviceRole = 0x0204,
        /// the options of a station
        DeviceOptions = 0x0205,
        /// another name
        AliasName = 0x0206,
        /// the instance of a device
        DeviceInstance = 0x0207,
        /// vendor and device identifier by the manufacturer
        OemDeviceId = 0x0208,
        /// Set: begin
        ControlStart = 0x0501,
        /// Set: end
        ControlStop = 0x0502,
        /// Set: blink
        ControlSignal = 0x0503,
        /// the result of a Set
        ControlResponse = 0x0504,
        /// Set: reset to factory settings, old form
        ControlFactoryReset = 0x0505,
        /// Set: reset to factory settings
        ControlResetToFactory = 0x0506,
        /// Hello: the source of the station's properties
        DeviceInitiative = 0x0601,
        /// Identify: all stations
        All = 0xffff,
    }
}

/// The effect of a PDU on the receiving station.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// query, answer or announcement: Identify, Get, Hello
    Read,
    /// a change, or the answer to one: Set
    Write,
    /// an unknown service, or one with the wrong FrameID
    Unknown,
}

mod field {
    pub(super) const FRAME_ID: usize = 0;
    pub(super) const SERVICE_ID: usize = 2;
    pub(super) const SERVICE_TYPE: usize = 3;
    pub(super) const XID: usize = 4;
    pub(super) const RESPONSE_DELAY: usize = 8;
    pub(super) const DATA_LENGTH: usize = 10;
}

/// A DCP PDU without its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// one of DCP's four FrameIDs
    pub frame_id: FrameId,
    /// the service
    pub service: ServiceId,
    /// a request, or its result
    pub service_type: ServiceType,
    /// the transaction that joins request and response
    pub xid: u32,
    /// Identify request: the time over which answers are spread, in units of 10 ms; otherwise 0
    pub response_delay: u16,
}

impl Header {
    /// Whether the PDU reads or writes.
    ///
    /// `Read` is returned only for PDUs known to read, so that a policy that permits reading
    /// refuses everything else.
    pub const fn access(&self) -> Access {
        use ServiceId::*;
        match (self.frame_id, self.service, self.service_type) {
            (FrameId::DCP_IDENTIFY_REQUEST, Identify, ServiceType::Request) => Access::Read,
            (FrameId::DCP_IDENTIFY_RESPONSE, Identify, ServiceType::ResponseSuccess) => Access::Read,
            (FrameId::DCP_HELLO, Hello, ServiceType::Request) => Access::Read,
            (FrameId::DCP_GET_SET, Get, ServiceType::Unknown(_)) => Access::Unknown,
            (FrameId::DCP_GET_SET, Get, _) => Access::Read,
            (_, Set, _) => Access::Write,
            _ => Access::Unknown,
        }
    }

    /// Whether the blocks of this PDU begin with two octets of block information or qualifier.
    const fn has_block_info(&self) -> bool {
        !matches!((self.service, self.service_type), (ServiceId::Identify, ServiceType::Request))
            && !matches!((self.service, self.service_type), (ServiceId::Set, ServiceType::ResponseSuccess))
    }
}

/// A DCP PDU with its blocks in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pdu<'a> {
    /// the fields before the blocks
    pub header: Header,
    /// the blocks, as on the wire
    pub data: &'a [u8],
}

impl<'a> Pdu<'a> {
    /// Reads the octets behind the EtherType, FrameID included.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        at_least(bytes, HEADER_LEN)?;
        let frame_id = FrameId(be16(bytes, field::FRAME_ID));
        if !frame_id.is_dcp() {
            return Err(Error::Value);
        }
        let header = Header {
            frame_id,
            service: ServiceId::from_number(bytes[field::SERVICE_ID]),
            service_type: ServiceType::from_number(bytes[field::SERVICE_TYPE]),
            xid: be32(bytes, field::XID),
            response_delay: be16(bytes, field::RESPONSE_DELAY),
        };
        let len = usize::from(be16(bytes, field::DATA_LENGTH));
        let data = bytes.get(HEADER_LEN..HEADER_LEN + len).ok_or(Error::Length)?;
        Ok(Self { header, data })
    }

    /// The blocks, if this is not a Get request.
    pub const fn blocks(&self) -> Blocks<'a> {
        Blocks { rest: self.data, has_info: self.header.has_block_info() }
    }

    /// The options in a Get request.
    pub fn requested(&self) -> impl Iterator<Item = Option> + use<'a> {
        self.data.chunks_exact(2).map(|pair| Option::from_number(be16(pair, 0)))
    }
}

/// A block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    /// its subject
    pub option: Option,
    /// block information (responses, Hello) or block qualifier (Set request); otherwise 0
    pub info: u16,
    /// the value
    pub value: &'a [u8],
}

/// The blocks of a PDU. Ends after an error.
#[derive(Debug, Clone)]
pub struct Blocks<'a> {
    rest: &'a [u8],
    has_info: bool,
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<Block<'a>>;

    fn next(&mut self) -> core::option::Option<Self::Item> {
        let rest = core::mem::take(&mut self.rest);
        if rest.is_empty() {
            return None;
        }
        if rest.len() < BLOCK_HEADER_LEN {
            return Some(Err(Error::Truncated));
        }
        let option = Option::from_number(be16(rest, 0));
        let len = usize::from(be16(rest, 2));
        let Some((value, behind)) = rest[BLOCK_HEADER_LEN..].split_at_checked(len) else {
            return Some(Err(Error::Length));
        };
        let (info, value) = match value {
            [high, low, value @ ..] if self.has_info => (u16::from_be_bytes([*high, *low]), value),
            _ if self.has_info => return Some(Err(Error::Length)),
            _ => (0, value),
        };
        // The padding octet is not part of the block's length, and may be missing at the end.
        self.rest = behind.get(len % 2..).unwrap_or_default();
        Some(Ok(Block { option, info, value }))
    }
}

/// Writes a DCP PDU block by block.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
    has_info: bool,
}

impl<'a> Writer<'a> {
    /// Writes a header to the front of `buffer` and begins its PDU.
    pub fn new(buffer: &'a mut [u8], header: &Header) -> Result<Self> {
        at_least(buffer, HEADER_LEN)?;
        put16(buffer, field::FRAME_ID, header.frame_id.0);
        buffer[field::SERVICE_ID] = header.service.number();
        buffer[field::SERVICE_TYPE] = header.service_type.number();
        put32(buffer, field::XID, header.xid);
        put16(buffer, field::RESPONSE_DELAY, header.response_delay);
        Ok(Self { buffer, at: HEADER_LEN, has_info: header.has_block_info() })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.at + bytes.len();
        self.buffer.get_mut(self.at..end).ok_or(Error::Truncated)?.copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    /// Adds a block. Its `info` is written if this PDU has block information.
    pub fn block(&mut self, block: &Block<'_>) -> Result<()> {
        let len = block.value.len() + if self.has_info { 2 } else { 0 };
        let len = u16::try_from(len).map_err(|_| Error::Length)?;
        self.put(&block.option.number().to_be_bytes())?;
        self.put(&len.to_be_bytes())?;
        if self.has_info {
            self.put(&block.info.to_be_bytes())?;
        }
        self.put(block.value)?;
        if len % 2 == 1 { self.put(&[0]) } else { Ok(()) }
    }

    /// Adds an option to a Get request.
    pub fn request(&mut self, option: Option) -> Result<()> {
        self.put(&option.number().to_be_bytes())
    }

    /// Writes the length and returns the octets from the FrameID to the end.
    pub fn finish(self) -> Result<usize> {
        let len = u16::try_from(self.at - HEADER_LEN).map_err(|_| Error::Length)?;
        put16(self.buffer, field::DATA_LENGTH, len);
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(frame_id: FrameId, service: ServiceId, service_type: ServiceType) -> Header {
        Header { frame_id, service, service_type, xid: 7, response_delay: 0 }
    }

    #[test]
    fn identify_response_round_trips() {
        let head = header(FrameId::DCP_IDENTIFY_RESPONSE, ServiceId::Identify, ServiceType::ResponseSuccess);
        let mut bytes = [0; 80];
        let mut writer = Writer::new(&mut bytes, &head).unwrap();
        let name = Block { option: Option::NameOfStation, info: 0, value: b"dev-1" };
        let id = Block { option: Option::DeviceId, info: 0, value: &[0, 1, 0, 2] };
        writer.block(&name).unwrap();
        writer.block(&id).unwrap();
        let len = writer.finish().unwrap();
        assert_eq!(len, HEADER_LEN + 12 + 10);
        let pdu = Pdu::parse(&bytes).unwrap();
        assert_eq!((pdu.header, pdu.header.access()), (head, Access::Read));
        assert!(pdu.blocks().eq([Ok(name), Ok(id)]));
    }

    #[test]
    fn identify_request_has_no_block_info() {
        let head = header(FrameId::DCP_IDENTIFY_REQUEST, ServiceId::Identify, ServiceType::Request);
        let mut bytes = [0; 40];
        let mut writer = Writer::new(&mut bytes, &head).unwrap();
        writer.block(&Block { option: Option::NameOfStation, info: 9, value: b"abc" }).unwrap();
        assert_eq!(writer.finish(), Ok(20));
        assert_eq!(bytes[10..20], [0, 8, 2, 2, 0, 3, b'a', b'b', b'c', 0]);
        let blocks = Pdu::parse(&bytes).unwrap().blocks();
        assert!(blocks.eq([Ok(Block { option: Option::NameOfStation, info: 0, value: b"abc" })]));
    }

    #[test]
    fn get_request_lists_options() {
        let head = header(FrameId::DCP_GET_SET, ServiceId::Get, ServiceType::Request);
        let mut bytes = [0; 20];
        let mut writer = Writer::new(&mut bytes, &head).unwrap();
        writer.request(Option::NameOfStation).unwrap();
        writer.request(Option::IpParameter).unwrap();
        let len = writer.finish().unwrap();
        let pdu = Pdu::parse(&bytes[..len]).unwrap();
        assert!(pdu.requested().eq([Option::NameOfStation, Option::IpParameter]));
    }

    #[test]
    fn set_writes_and_unknown_never_reads() {
        use ServiceType::*;
        for id in [0xfefc, 0xfefd, 0xfefe, 0xfeff] {
            for kind in [Request, ResponseSuccess, ResponseUnsupported, Unknown(9)] {
                assert_eq!(header(FrameId(id), ServiceId::Set, kind).access(), Access::Write);
                assert_eq!(header(FrameId(id), ServiceId::Unknown(1), kind).access(), Access::Unknown);
            }
        }
        let access = |id, service, kind| header(id, service, kind).access();
        assert_eq!(access(FrameId::DCP_GET_SET, ServiceId::Get, Request), Access::Read);
        assert_eq!(access(FrameId::DCP_GET_SET, ServiceId::Get, ResponseSuccess), Access::Read);
        assert_eq!(access(FrameId::DCP_HELLO, ServiceId::Hello, Request), Access::Read);
        assert_eq!(access(FrameId::DCP_HELLO, ServiceId::Get, Request), Access::Unknown);
        assert_eq!(access(FrameId::DCP_GET_SET, ServiceId::Identify, Request), Access::Unknown);
    }

    #[test]
    fn lengths_past_the_end_are_refused() {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&[0xfe, 0xff, 5, 1]);
        bytes[11] = 9;
        assert_eq!(Pdu::parse(&bytes), Err(Error::Length));
        bytes[11] = 8;
        bytes[15] = 5;
        assert_eq!(Pdu::parse(&bytes).unwrap().blocks().next(), Some(Err(Error::Length)));
        bytes[15] = 1;
        assert_eq!(Pdu::parse(&bytes).unwrap().blocks().next(), Some(Err(Error::Length)));
        bytes[0] = 0x80;
        assert_eq!(Pdu::parse(&bytes), Err(Error::Value));
    }

    proptest! {
        #[test]
        fn parser_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 2..64)) {
            bytes[0] = 0xfe;
            bytes[1] |= 0xfc;
            if let Ok(pdu) = Pdu::parse(&bytes) {
                let _ = (pdu.header.access(), pdu.blocks().count(), pdu.requested().count());
            }
        }
    }
}
