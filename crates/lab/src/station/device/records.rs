//! Records of the device: identification, plugged modules, and what a controller wrote.

use antedate_wire::profinet::cm::record::Record;
use antedate_wire::profinet::cm::{BlockType, Blocks, Status, Writer};

use super::calls::first;
use super::{ACCESS_POINT, Device, Event, PROCESS_DATA, VENDOR};

/// Indices of the application's own records.
const OWN: std::ops::RangeInclusive<u16> = 0x0001..=0x7fff;
/// Octets and number of written records.
const LONGEST: usize = 512;
const MOST: usize = 16;

impl Device {
    pub(super) fn write(&mut self, mut blocks: Blocks<'_>, writer: &mut Writer<'_>) -> Result<(), Status> {
        let refused = Status::WRITE_INVALID_INDEX;
        let head = first(&mut blocks, BlockType::WriteRequest, refused)?;
        let record = Record::parse(head).map_err(|_| refused)?;
        let owner = self.supervisor.iter().chain(&self.controller).any(|ar| ar.id == record.ar);
        let data = blocks.rest().get(..record.len as usize).ok_or(refused)?;
        let space = self.records.contains_key(&record.index) || self.records.len() < MOST;
        let place = (record.slot, record.subslot) == (1, 1) && OWN.contains(&record.index);
        if !owner || !place || !space || data.len() > LONGEST {
            return Err(refused);
        }
        self.records.insert(record.index, data.to_vec());
        self.events.push_back(Event::Written(record.index));
        record.emit(BlockType::WriteResponse, writer).map_err(|_| refused)
    }

    pub(super) fn read(
        &mut self,
        mut blocks: Blocks<'_>,
        connected: bool,
        writer: &mut Writer<'_>,
    ) -> Result<(), Status> {
        let refused = Status::READ_INVALID_INDEX;
        let head = first(&mut blocks, BlockType::ReadRequest, refused)?;
        let record = Record::parse(head).map_err(|_| refused)?;
        let known = self.supervisor.iter().chain(&self.controller).any(|ar| ar.id == record.ar);
        if connected && !known {
            return Err(refused);
        }
        let data = self.record(&record).ok_or(refused)?;
        if data.len() > record.len as usize {
            return Err(refused);
        }
        self.events.push_back(Event::Read(record.index));
        let answer = Record { len: data.len() as u32, ..record };
        answer.emit(BlockType::ReadResponse, writer).and_then(|()| writer.put(&data)).map_err(|_| refused)
    }

    fn record(&self, record: &Record) -> Option<Vec<u8>> {
        match record.index {
            Record::IM0 => built(identification),
            Record::REAL_IDENTIFICATION => built(plugged),
            index => self.records.get(&index).filter(|_| (record.slot, record.subslot) == (1, 1)).cloned(),
        }
    }
}

fn built(build: fn(&mut Writer<'_>) -> antedate_wire::Result<()>) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 128];
    let mut writer = Writer::new(&mut bytes);
    build(&mut writer).ok()?;
    let len = writer.len();
    bytes.truncate(len);
    Some(bytes)
}

/// Identification and maintenance 0.
fn identification(writer: &mut Writer<'_>) -> antedate_wire::Result<()> {
    writer.block(BlockType::IdentificationMaintenance0, |writer| {
        writer.u16(VENDOR)?;
        writer.put(b"ANTEDATE-LAB        ")?;
        writer.put(b"0000000000000001")?;
        // Hardware revision; software V1.0.0.
        writer.u16(1)?;
        writer.put(&[b'V', 1, 0, 0])?;
        // Revision counter, profile, type in the profile.
        writer.u16(0)?;
        writer.u16(0)?;
        writer.u16(0)?;
        // Version 1.1 of this record; no further ones.
        writer.put(&[1, 1])?;
        writer.u16(0)
    })
}

/// Slot, module, its one subslot and submodule, in API 0.
fn plugged(writer: &mut Writer<'_>) -> antedate_wire::Result<()> {
    writer.block(BlockType::RealIdentification, |writer| {
        writer.u16(2)?;
        for (slot, (module, submodule)) in [(0, ACCESS_POINT), (1, PROCESS_DATA)] {
            writer.u16(slot)?;
            writer.u32(module)?;
            writer.u16(1)?;
            writer.u16(1)?;
            writer.u32(submodule)?;
        }
        Ok(())
    })
}
