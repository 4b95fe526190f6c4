//! The blocks of a connect call and of its response.

use super::{BlockType, Reader, Writer};
use crate::dcerpc::Uuid;
use crate::ethernet::{Address, EtherType};
use crate::profinet::FrameId;
use crate::{Error, Result};

wire_enum! {
    /// The kind of an application relation.
    pub enum ArType(u16) {
        /// a controller with cyclic data
        IoController = 0x0001,
        /// a supervisor, which reads and writes records only
        Supervisor = 0x0006,
    }
}

wire_enum! {
    /// The direction of an IO connection.
    pub enum IocrType(u16) {
        /// from the device to the controller
        Input = 1,
        /// from the controller to the device
        Output = 2,
    }
}

/// The controller's application relation (AR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArRequest<'a> {
    /// the kind
    pub kind: ArType,
    /// its identifier
    pub ar: Uuid,
    /// the controller's number of it
    pub session_key: u16,
    /// the controller's address
    pub controller: Address,
    /// the object to which the device sends application ready
    pub object: Uuid,
    /// bits of `ARProperties`
    pub properties: u32,
    /// units of 100 ms in which the controller does the next step
    pub timeout_factor: u16,
    /// the controller's name
    pub name: &'a [u8],
}

impl<'a> ArRequest<'a> {
    /// `ARProperties` of a controller: active, and it writes the parameters itself.
    pub const PROPERTIES: u32 = 0x0000_0011;

    /// Reads a block's body.
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let kind = ArType::from_number(reader.u16()?);
        let (ar, session_key) = (Uuid(reader.array()?), reader.u16()?);
        let (controller, object) = (Address(reader.array()?), Uuid(reader.array()?));
        let (properties, timeout_factor) = (reader.u32()?, reader.u16()?);
        // UDP port of RT class UDP.
        reader.u16()?;
        let len = usize::from(reader.u16()?);
        let name = reader.take(len).map_err(|_| Error::Length)?;
        Ok(Self { kind, ar, session_key, controller, object, properties, timeout_factor, name })
    }

    /// Writes the block.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<()> {
        let len = u16::try_from(self.name.len()).map_err(|_| Error::Length)?;
        writer.block(BlockType::ArRequest, |writer| {
            writer.u16(self.kind.number())?;
            writer.put(&self.ar.0)?;
            writer.u16(self.session_key)?;
            writer.put(&self.controller.0)?;
            writer.put(&self.object.0)?;
            writer.u32(self.properties)?;
            writer.u16(self.timeout_factor)?;
            writer.u16(RT_UDP_PORT)?;
            writer.u16(len)?;
            writer.put(self.name)
        })
    }

    /// Writes the device's response.
    pub fn accept(&self, device: Address, writer: &mut Writer<'_>) -> Result<()> {
        writer.block(BlockType::ArResponse, |writer| {
            writer.u16(self.kind.number())?;
            writer.put(&self.ar.0)?;
            writer.u16(self.session_key)?;
            writer.put(&device.0)?;
            writer.u16(RT_UDP_PORT)
        })
    }
}

/// Port of RT class UDP, which no station of class 1 uses.
const RT_UDP_PORT: u16 = 0x8892;

/// An IO connection (IOCR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iocr {
    /// the direction
    pub kind: IocrType,
    /// the controller's number of it
    pub reference: u16,
    /// octets of the C_SDU
    pub data_len: u16,
    /// the input's FrameID; of an output 0xffff, since the device chooses it
    pub frame_id: FrameId,
    /// send clock in units of 31.25 µs
    pub send_clock: u16,
    /// send clocks between two frames
    pub reduction: u16,
    /// update times without data until the connection ends
    pub data_hold: u16,
}

impl Iocr {
    /// The update time in units of 31.25 µs.
    #[must_use]
    pub const fn update_units(&self) -> u32 {
        self.send_clock as u32 * self.reduction as u32
    }
}

/// An object of an IO connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoObject {
    /// the slot
    pub slot: u16,
    /// the subslot
    pub subslot: u16,
    /// the offset in the C_SDU
    pub offset: u16,
    /// a consumer status (IOCS); otherwise data and its provider status
    pub consumer: bool,
}

/// An IO connection with its objects in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IocrRequest<'a> {
    /// the fields before the objects
    pub iocr: Iocr,
    /// the objects, as on the wire
    apis: &'a [u8],
}

impl<'a> IocrRequest<'a> {
    /// Reads a block's body. All objects are inside it.
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let (kind, reference) = (IocrType::from_number(reader.u16()?), reader.u16()?);
        if reader.u16()? != EtherType::Profinet.number() {
            return Err(Error::Value);
        }
        // Properties: the RT class, which the FrameID shows too.
        reader.u32()?;
        let (data_len, frame_id) = (reader.u16()?, FrameId(reader.u16()?));
        let (send_clock, reduction) = (reader.u16()?, reader.u16()?);
        // Phase, sequence, frame send offset, watchdog factor: for the controller's own schedule.
        reader.take(2 + 2 + 4 + 2)?;
        let data_hold = reader.u16()?;
        // Tag header and group address.
        reader.take(2 + 6)?;
        let iocr = Iocr { kind, reference, data_len, frame_id, send_clock, reduction, data_hold };
        let request = Self { iocr, apis: reader.rest() };
        request.walk(|_| ())?;
        Ok(request)
    }

    /// Gives each object to `take`.
    pub fn objects(&self, take: impl FnMut(IoObject)) {
        // Was checked by `parse`.
        let _ = self.walk(take);
    }

    fn walk(&self, mut take: impl FnMut(IoObject)) -> Result<()> {
        let mut reader = Reader::new(self.apis);
        for _ in 0..reader.u16()? {
            // API, without meaning for the layout.
            reader.u32()?;
            for consumer in [false, true] {
                for _ in 0..reader.u16()? {
                    let (slot, subslot, offset) = (reader.u16()?, reader.u16()?, reader.u16()?);
                    take(IoObject { slot, subslot, offset, consumer });
                }
            }
        }
        Ok(())
    }
}

impl Iocr {
    /// Writes the request with these objects of API 0.
    pub fn emit(&self, objects: &[IoObject], writer: &mut Writer<'_>) -> Result<()> {
        writer.block(BlockType::IocrRequest, |writer| {
            writer.u16(self.kind.number())?;
            writer.u16(self.reference)?;
            writer.u16(EtherType::Profinet.number())?;
            writer.u32(RT_CLASS_1)?;
            writer.u16(self.data_len)?;
            writer.u16(self.frame_id.0)?;
            writer.u16(self.send_clock)?;
            writer.u16(self.reduction)?;
            // Phase 1, sequence 0, as early as possible.
            writer.u16(1)?;
            writer.u16(0)?;
            writer.u32(u32::MAX)?;
            writer.u16(self.data_hold)?;
            writer.u16(self.data_hold)?;
            writer.u16(PRIORITY_6)?;
            writer.put(&[0; 6])?;
            writer.u16(1)?;
            writer.u32(0)?;
            for consumer in [false, true] {
                let of_kind = || objects.iter().filter(|object| object.consumer == consumer);
                writer.u16(u16::try_from(of_kind().count()).map_err(|_| Error::Length)?)?;
                for object in of_kind() {
                    writer.u16(object.slot)?;
                    writer.u16(object.subslot)?;
                    writer.u16(object.offset)?;
                }
            }
            Ok(())
        })
    }

    /// Writes the device's response with the FrameID in force.
    pub fn accept(&self, frame_id: FrameId, writer: &mut Writer<'_>) -> Result<()> {
        writer.block(BlockType::IocrResponse, |writer| {
            writer.u16(self.kind.number())?;
            writer.u16(self.reference)?;
            writer.u16(frame_id.0)
        })
    }
}

/// `IOCRProperties`: RT class 1 by its old numbers of FrameIDs.
const RT_CLASS_1: u32 = 1;
/// Tag headers: priorities of cyclic data and alarms, VLAN 0.
const PRIORITY_6: u16 = 0xc000;
const PRIORITY_5: u16 = 0xa000;

/// The device's answer about one IO connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IocrResponse {
    /// the direction
    pub kind: IocrType,
    /// the FrameID in force
    pub frame_id: FrameId,
}

impl IocrResponse {
    /// Reads a block's body.
    pub fn parse(body: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let kind = IocrType::from_number(reader.u16()?);
        reader.u16()?;
        Ok(Self { kind, frame_id: FrameId(reader.u16()?) })
    }
}

/// The alarm connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlarmCr {
    /// units of 100 ms until an alarm is repeated
    pub timeout_factor: u16,
    /// repetitions
    pub retries: u16,
    /// the sender's endpoint
    pub reference: u16,
    /// the most octets of an alarm
    pub max_len: u16,
}

const ALARM_CR: u16 = 1;

impl AlarmCr {
    /// Reads a request's body.
    pub fn parse(body: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let (kind, ethertype) = (reader.u16()?, reader.u16()?);
        if kind != ALARM_CR || ethertype != EtherType::Profinet.number() {
            return Err(Error::Value);
        }
        reader.u32()?;
        let (timeout_factor, retries) = (reader.u16()?, reader.u16()?);
        let (reference, max_len) = (reader.u16()?, reader.u16()?);
        // Tag headers.
        reader.u32()?;
        Ok(Self { timeout_factor, retries, reference, max_len })
    }

    /// Writes the request.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<()> {
        writer.block(BlockType::AlarmCrRequest, |writer| {
            writer.u16(ALARM_CR)?;
            writer.u16(EtherType::Profinet.number())?;
            writer.u32(0)?;
            writer.u16(self.timeout_factor)?;
            writer.u16(self.retries)?;
            writer.u16(self.reference)?;
            writer.u16(self.max_len)?;
            writer.u16(PRIORITY_6)?;
            writer.u16(PRIORITY_5)
        })
    }

    /// Writes the device's response with its own endpoint.
    pub fn accept(&self, reference: u16, writer: &mut Writer<'_>) -> Result<()> {
        writer.block(BlockType::AlarmCrResponse, |writer| {
            writer.u16(ALARM_CR)?;
            writer.u16(reference)?;
            writer.u16(self.max_len)
        })
    }

    /// Reads a response's body. Returns the device's endpoint.
    pub fn accepted(body: &[u8]) -> Result<u16> {
        let mut reader = Reader::new(body);
        reader.u16()?;
        reader.u16()
    }
}

/// A submodule that the controller expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submodule {
    /// the application profile
    pub api: u32,
    /// the slot
    pub slot: u16,
    /// the module in it
    pub module: u32,
    /// the subslot
    pub subslot: u16,
    /// the submodule in it
    pub submodule: u32,
    /// octets of input data
    pub input: u16,
    /// octets of output data
    pub output: u16,
}

const INPUT: u16 = 1;
const OUTPUT: u16 = 2;

/// The submodules of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedSubmodules<'a>(&'a [u8]);

impl<'a> ExpectedSubmodules<'a> {
    /// Reads a block's body. All submodules are inside it.
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let expected = Self(body);
        expected.walk(|_| ())?;
        Ok(expected)
    }

    /// Gives each submodule to `take`.
    pub fn submodules(&self, take: impl FnMut(Submodule)) {
        // Was checked by `parse`.
        let _ = self.walk(take);
    }

    fn walk(&self, mut take: impl FnMut(Submodule)) -> Result<()> {
        let mut reader = Reader::new(self.0);
        for _ in 0..reader.u16()? {
            let (api, slot, module) = (reader.u32()?, reader.u16()?, reader.u32()?);
            // Properties.
            reader.u16()?;
            for _ in 0..reader.u16()? {
                let (subslot, submodule, kind) = (reader.u16()?, reader.u32()?, reader.u16()?);
                let mut found = Submodule { api, slot, module, subslot, submodule, input: 0, output: 0 };
                // Without IO there is one description, of no input octets.
                for _ in 0..if kind & 3 == 3 { 2 } else { 1 } {
                    let (direction, len) = (reader.u16()?, reader.u16()?);
                    // Octets of IOCS and IOPS.
                    if reader.array()? != [1, 1] {
                        return Err(Error::Value);
                    }
                    match direction {
                        INPUT => found.input = len,
                        OUTPUT => found.output = len,
                        _ => return Err(Error::Value),
                    }
                }
                take(found);
            }
        }
        Ok(())
    }

    /// Writes a block with one slot of API 0 and its submodules.
    pub fn emit(submodules: &[Submodule], writer: &mut Writer<'_>) -> Result<()> {
        let first = submodules.first().ok_or(Error::Value)?;
        writer.block(BlockType::ExpectedSubmodules, |writer| {
            writer.u16(1)?;
            writer.u32(first.api)?;
            writer.u16(first.slot)?;
            writer.u32(first.module)?;
            writer.u16(0)?;
            writer.u16(u16::try_from(submodules.len()).map_err(|_| Error::Length)?)?;
            for submodule in submodules {
                let kind = u16::from(submodule.input > 0) * INPUT + u16::from(submodule.output > 0) * OUTPUT;
                writer.u16(submodule.subslot)?;
                writer.u32(submodule.submodule)?;
                writer.u16(kind)?;
                if kind != OUTPUT {
                    description(INPUT, submodule.input, writer)?;
                }
                if kind & OUTPUT != 0 {
                    description(OUTPUT, submodule.output, writer)?;
                }
            }
            Ok(())
        })
    }
}

fn description(direction: u16, len: u16, writer: &mut Writer<'_>) -> Result<()> {
    writer.u16(direction)?;
    writer.u16(len)?;
    writer.put(&[1, 1])
}

#[cfg(test)]
mod tests;
