//! Read and write calls: one header block, then the octets of the record.

use super::{BlockType, Reader, Writer};
use crate::Result;
use crate::dcerpc::Uuid;

/// Octets behind the length: target AR and padding of a request, results of a response.
const TAIL_LEN: usize = 24;

/// The header of a record, in request and response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// number of the request in its connection
    pub sequence: u16,
    /// the connection; zero without one
    pub ar: Uuid,
    /// the application profile
    pub api: u32,
    /// the slot
    pub slot: u16,
    /// the subslot
    pub subslot: u16,
    /// the record
    pub index: u16,
    /// read request: the most octets; otherwise octets of the record
    pub len: u32,
}

impl Record {
    /// Identification and maintenance 0.
    pub const IM0: u16 = 0xaff0;
    /// Plugged modules and submodules.
    pub const REAL_IDENTIFICATION: u16 = 0xf000;

    /// Reads a block's body.
    pub fn parse(body: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let (sequence, ar, api) = (reader.u16()?, Uuid(reader.array()?), reader.u32()?);
        let (slot, subslot) = (reader.u16()?, reader.u16()?);
        reader.u16()?;
        let (index, len) = (reader.u16()?, reader.u32()?);
        reader.take(TAIL_LEN)?;
        Ok(Self { sequence, ar, api, slot, subslot, index, len })
    }

    /// Writes the block. The octets of the record follow it.
    pub fn emit(&self, kind: BlockType, writer: &mut Writer<'_>) -> Result<()> {
        writer.block(kind, |writer| {
            writer.u16(self.sequence)?;
            writer.put(&self.ar.0)?;
            writer.u32(self.api)?;
            writer.u16(self.slot)?;
            writer.u16(self.subslot)?;
            writer.u16(0)?;
            writer.u16(self.index)?;
            writer.u32(self.len)?;
            writer.put(&[0; TAIL_LEN])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Block, Blocks};
    use super::*;

    #[test]
    fn record_header_is_64_octets() {
        let record =
            Record { sequence: 1, ar: Uuid([3; 16]), api: 0, slot: 1, subslot: 2, index: 0xaff0, len: 4 };
        let mut bytes = [0xee; 68];
        let mut writer = Writer::new(&mut bytes);
        record.emit(BlockType::WriteRequest, &mut writer).unwrap();
        assert_eq!(writer.len(), 64);
        let mut blocks = Blocks::new(&bytes);
        let Block { kind, body } = blocks.next().unwrap().unwrap();
        assert_eq!((kind, Record::parse(body)), (BlockType::WriteRequest, Ok(record)));
        assert_eq!(blocks.rest(), [0xee; 4]);
    }
}
