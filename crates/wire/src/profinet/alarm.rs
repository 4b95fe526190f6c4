//! Alarms (IEC 61158-6-10, RTA-PDU): frames of FrameID 0xfc01 and 0xfe01 with sequence numbers and
//! acknowledgements of their own, and the notifications in them.

use super::cm::{Block, BlockType, Blocks, Reader, Status, Writer};
use super::{FrameId, frame_id};
use crate::{Error, Result};

/// Octets of the fields in front of the content, FrameID included.
pub const HEADER_LEN: usize = 14;
/// Version 1, in the upper four bits of the type.
const VERSION: u8 = 0x10;
/// Window size 1, in the flags.
const WINDOW: u8 = 0x01;
/// The receiver shall acknowledge, in the flags.
const ACKNOWLEDGE: u8 = 0x10;

wire_enum! {
    /// The kind of an alarm frame.
    pub enum PduType(u8) {
        /// a notification or its acknowledgement by the application
        Data = 1,
        /// a sequence error
        Nack = 2,
        /// the frame came
        Ack = 3,
        /// the sender ended the connection
        Error = 4,
    }
}

wire_enum! {
    /// The priority of an alarm frame, by its FrameID.
    pub enum Priority(u16) {
        /// high
        High = 0xfc01,
        /// low
        Low = 0xfe01,
    }
}

/// An alarm frame behind the EtherType.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pdu<'a> {
    /// the priority
    pub priority: Priority,
    /// the receiver's endpoint
    pub to: u16,
    /// the sender's endpoint
    pub from: u16,
    /// the kind
    pub kind: PduType,
    /// the receiver shall acknowledge
    pub acknowledge: bool,
    /// the sender's number
    pub sequence: u16,
    /// the last number that came to the sender
    pub acknowledged: u16,
    /// the content
    pub content: &'a [u8],
}

impl<'a> Pdu<'a> {
    /// Reads the octets behind the EtherType.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let priority = Priority::from_number(frame_id(bytes)?.0);
        reader.u16()?;
        if matches!(priority, Priority::Unknown(_)) {
            return Err(Error::Value);
        }
        let (to, from) = (reader.u16()?, reader.u16()?);
        let [kind, flags] = reader.array()?;
        if kind & 0xf0 != VERSION {
            return Err(Error::Value);
        }
        let (sequence, acknowledged) = (reader.u16()?, reader.u16()?);
        let len = usize::from(reader.u16()?);
        let content = reader.take(len).map_err(|_| Error::Length)?;
        let kind = PduType::from_number(kind & 0x0f);
        let acknowledge = flags & ACKNOWLEDGE != 0;
        Ok(Self { priority, to, from, kind, acknowledge, sequence, acknowledged, content })
    }

    /// Writes the frame to the front of `buffer`. Returns its octets.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize> {
        let mut writer = Writer::new(buffer);
        writer.u16(FrameId(self.priority.number()).0)?;
        writer.u16(self.to)?;
        writer.u16(self.from)?;
        let acknowledge = if self.acknowledge { ACKNOWLEDGE } else { 0 };
        writer.put(&[VERSION | (self.kind.number() & 0x0f), WINDOW | acknowledge])?;
        writer.u16(self.sequence)?;
        writer.u16(self.acknowledged)?;
        writer.u16(u16::try_from(self.content.len()).map_err(|_| Error::Length)?)?;
        writer.put(self.content)?;
        Ok(writer.len())
    }
}

wire_enum! {
    /// The cause of an alarm.
    pub enum AlarmType(u16) {
        /// a fault began
        Diagnosis = 0x0001,
        /// an event of the process
        Process = 0x0002,
        /// a module was pulled
        Pull = 0x0003,
        /// a module was plugged
        Plug = 0x0004,
    }
}

/// A place in a device, and the number of an alarm there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alarm {
    /// the cause
    pub kind: AlarmType,
    /// the application profile
    pub api: u32,
    /// the slot
    pub slot: u16,
    /// the subslot
    pub subslot: u16,
    /// number of the alarm, 11 bits, and bits of its diagnosis
    pub specifier: u16,
}

/// The content of a data frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// by the device
    Notification {
        /// the alarm
        alarm: Alarm,
        /// the module
        module: u32,
        /// the submodule
        submodule: u32,
        /// its data, with the identifier of their structure in front
        data: &'a [u8],
    },
    /// by the controller's application
    Acknowledgement {
        /// the alarm
        alarm: Alarm,
        /// the result
        status: Status,
    },
}

const NOTIFICATION_HIGH: u16 = 0x0001;
const NOTIFICATION_LOW: u16 = 0x0002;
const ACKNOWLEDGEMENT: u16 = 0x8000;

impl<'a> Content<'a> {
    /// Reads the content of a data frame.
    pub fn parse(content: &'a [u8]) -> Result<Self> {
        let Block { kind, body } = Blocks::new(content).next().ok_or(Error::Truncated)??;
        let mut reader = Reader::new(body);
        let cause = AlarmType::from_number(reader.u16()?);
        let (api, slot, subslot) = (reader.u32()?, reader.u16()?, reader.u16()?);
        let alarm = |specifier| Alarm { kind: cause, api, slot, subslot, specifier };
        match kind.number() {
            NOTIFICATION_HIGH | NOTIFICATION_LOW => {
                let (module, submodule, specifier) = (reader.u32()?, reader.u32()?, reader.u16()?);
                let data = reader.rest();
                Ok(Self::Notification { alarm: alarm(specifier), module, submodule, data })
            }
            kind if kind & !ACKNOWLEDGEMENT == NOTIFICATION_HIGH
                || kind & !ACKNOWLEDGEMENT == NOTIFICATION_LOW =>
            {
                let specifier = reader.u16()?;
                Ok(Self::Acknowledgement { alarm: alarm(specifier), status: Status(reader.u32()?) })
            }
            _ => Err(Error::Value),
        }
    }

    /// Writes the content of a data frame of this priority.
    pub fn emit(&self, priority: Priority, writer: &mut Writer<'_>) -> Result<()> {
        let kind = if priority == Priority::High { NOTIFICATION_HIGH } else { NOTIFICATION_LOW };
        let place = |alarm: &Alarm, writer: &mut Writer<'_>| {
            writer.u16(alarm.kind.number())?;
            writer.u32(alarm.api)?;
            writer.u16(alarm.slot)?;
            writer.u16(alarm.subslot)
        };
        match self {
            Self::Notification { alarm, module, submodule, data } => {
                writer.block(BlockType::from_number(kind), |writer| {
                    place(alarm, writer)?;
                    writer.u32(*module)?;
                    writer.u32(*submodule)?;
                    writer.u16(alarm.specifier)?;
                    writer.put(data)
                })
            }
            Self::Acknowledgement { alarm, status } => {
                writer.block(BlockType::from_number(kind | ACKNOWLEDGEMENT), |writer| {
                    place(alarm, writer)?;
                    writer.u16(alarm.specifier)?;
                    writer.u32(status.0)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALARM: Alarm = Alarm { kind: AlarmType::Process, api: 0, slot: 1, subslot: 1, specifier: 5 };
    const NOTIFICATION: Content<'_> =
        Content::Notification { alarm: ALARM, module: 0x10, submodule: 0x11, data: &[0, 1, 7] };
    const PDU: Pdu<'_> = Pdu {
        priority: Priority::Low,
        to: 1,
        from: 2,
        kind: PduType::Data,
        acknowledge: true,
        sequence: 0xffff,
        acknowledged: 0xfffe,
        content: &[],
    };

    #[test]
    fn notification_round_trips() {
        for content in [NOTIFICATION, Content::Acknowledgement { alarm: ALARM, status: Status::OK }] {
            let mut inner = [0; 64];
            let mut writer = Writer::new(&mut inner);
            content.emit(Priority::Low, &mut writer).unwrap();
            let len = writer.len();
            let pdu = Pdu { content: &inner[..len], ..PDU };
            let mut bytes = [0; 100];
            let end = pdu.emit(&mut bytes).unwrap();
            assert_eq!(end, HEADER_LEN + len);
            assert_eq!(bytes[..10], [0xfe, 1, 0, 1, 0, 2, 0x11, 0x11, 0xff, 0xff]);
            assert_eq!(Pdu::parse(&bytes), Ok(pdu), "padding of the frame is ignored");
            assert_eq!(Content::parse(pdu.content), Ok(content));
        }
    }

    #[test]
    fn other_frames_and_versions_are_refused() {
        let mut bytes = [0; HEADER_LEN];
        PDU.emit(&mut bytes).unwrap();
        assert_eq!(Pdu::parse(&bytes), Ok(PDU));
        assert_eq!(Pdu::parse(&bytes[..13]), Err(Error::Truncated));
        for (at, value, error) in [(0, 0xfd, Error::Value), (6, 0x21, Error::Value), (13, 1, Error::Length)] {
            let mut other = bytes;
            other[at] = value;
            assert_eq!(Pdu::parse(&other), Err(error), "octet {at}");
        }
        assert_eq!(Content::parse(&[0, 3, 0, 2, 1, 0]), Err(Error::Truncated));
    }

    proptest! {
        #[test]
        fn parsers_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 8..80)) {
            let _ = Content::parse(&bytes);
            bytes[..2].copy_from_slice(&[0xfe, 1]);
            bytes[6] = VERSION | (bytes[6] & 0x0f);
            let _ = Pdu::parse(&bytes);
        }
    }
}
