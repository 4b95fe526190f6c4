//! The stations' cyclic frames: process data inside a Profinet frame of RT class 1 inside an Ethernet frame.

use antedate_wire::ethernet::{self, EtherType, HEADER_LEN};
use antedate_wire::profinet::{self, CyclicFrame, CyclicRepr, DataStatus, FrameId, Ioxs, Layout};
use antedate_wire::{EthernetAddress, EthernetRepr};

use super::meter::Refusal;
use super::process_data::{self, ProcessData, Writer};

/// The least octets of a frame (without frame check sequence) that holds the process data.
pub const MIN_FRAME_LEN: usize = 64;
/// The longest cyclic frame that the standard allows: a C_SDU of 1440 octets.
pub const MAX_FRAME_LEN: usize = HEADER_LEN + profinet::OVERHEAD + profinet::MAX_C_SDU_LEN;
/// Output data, controller to device.
pub const OUTPUT_FRAME_ID: FrameId = FrameId(0x8001);
/// Input data, device to controller.
pub const INPUT_FRAME_ID: FrameId = FrameId(0x8002);

/// One IO data object that fills the C_SDU, its IOPS, one IOCS for the data of the other direction.
const fn layout(c_sdu_len: usize) -> Layout {
    Layout::new(c_sdu_len.saturating_sub(2), 1)
}

/// A cyclic frame under construction; what does not change is written once.
#[derive(Debug)]
pub struct FrameWriter {
    buffer: Vec<u8>,
    repr: CyclicRepr,
    layout: Layout,
    writer: Writer,
    update_units: u16,
}

impl FrameWriter {
    /// A frame of `frame_bytes`, [`MIN_FRAME_LEN`] to [`MAX_FRAME_LEN`]; `None` outside of that.
    pub fn new(ethernet: EthernetRepr, frame_id: FrameId, frame_bytes: usize, cycle_us: u32) -> Option<Self> {
        if !(MIN_FRAME_LEN..=MAX_FRAME_LEN).contains(&frame_bytes) {
            return None;
        }
        let c_sdu_len = frame_bytes - HEADER_LEN - profinet::OVERHEAD;
        let repr = CyclicRepr {
            frame_id,
            c_sdu_len,
            cycle_counter: 0,
            data_status: DataStatus::OPERATIONAL,
            transfer_status: 0,
        };
        let layout = layout(c_sdu_len);
        let mut buffer = vec![0; frame_bytes];
        ethernet.emit(&mut buffer).ok()?;
        let mut frame = repr.emit(&mut buffer[HEADER_LEN..]).ok()?;
        let writer = Writer::prepare(layout.data_mut(frame.c_sdu_mut())?)?;
        let update_units = (u64::from(cycle_us) * 1_000 / profinet::CYCLE_UNIT_NS).clamp(1, 0x8000) as u16;
        Some(Self { buffer, repr, layout, writer, update_units })
    }

    /// The frame of one cycle. `consuming` is the IOCS: whether this station receives valid data itself.
    pub fn write(&mut self, data: &ProcessData, consuming: bool) -> &[u8] {
        self.repr.cycle_counter = profinet::cycle_counter(data.sent_ns, self.update_units);
        self.repr.data_status = DataStatus::OPERATIONAL.with_run(!data.stopping);
        if let Ok(mut frame) = self.repr.emit(&mut self.buffer[HEADER_LEN..]) {
            let c_sdu = frame.c_sdu_mut();
            if let Some(object) = self.layout.data_mut(c_sdu) {
                self.writer.write(object, data);
            }
            let iocs = if consuming { Ioxs::GOOD } else { Ioxs::BAD };
            // The layout was made for this C_SDU.
            let _ = self.layout.set_status(c_sdu, Ioxs::GOOD, iocs);
        }
        &self.buffer
    }
}

/// What a received frame is to a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The peer's process data, verified.
    Data(ProcessData),
    /// Not for a consumer: Profinet, but not cyclic (DCP).
    Acyclic(FrameId),
    /// A frame that belongs here, of no interest now (LLDP).
    Announcement,
    /// None of this.
    Refused(Refusal),
}

/// Reads a frame. `peer` is the expected sender (none yet: any), `frame_id` the expected connection.
#[must_use]
pub fn read(frame: &[u8], peer: Option<EthernetAddress>, frame_id: FrameId) -> Incoming {
    let Ok(view) = ethernet::Frame::new_checked(frame) else { return Incoming::Refused(Refusal::Damaged) };
    match view.ethertype() {
        EtherType::Profinet => {}
        EtherType::Lldp => return Incoming::Announcement,
        other => return Incoming::Refused(Refusal::Unexpected(other.number())),
    }
    match profinet::frame_id(view.payload()) {
        Ok(id) if id.is_dcp() => return Incoming::Acyclic(id),
        Ok(id) if id == frame_id => {}
        Ok(_) => return Incoming::Refused(Refusal::Foreign),
        Err(_) => return Incoming::Refused(Refusal::Damaged),
    }
    if peer.is_some_and(|peer| peer != view.src_addr()) {
        return Incoming::Refused(Refusal::Foreign);
    }
    let Ok(cyclic) = CyclicFrame::new_checked(view.payload()) else {
        return Incoming::Refused(Refusal::Damaged);
    };
    let c_sdu = cyclic.c_sdu();
    let layout = layout(c_sdu.len());
    let good = layout.iops(c_sdu).is_some_and(Ioxs::is_good) && cyclic.data_status().is_valid();
    match layout.data(c_sdu).map(ProcessData::read) {
        Some(Ok(data)) if good && cyclic.transfer_status() == 0 => Incoming::Data(data),
        _ => Incoming::Refused(Refusal::Damaged),
    }
}

/// The least octets of an IO data object fit into the shortest frame.
const _: () = assert!(
    layout(MIN_FRAME_LEN - HEADER_LEN - profinet::OVERHEAD).data >= process_data::MIN_LEN,
    "MIN_FRAME_LEN is too small"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn ethernet() -> EthernetRepr {
        EthernetRepr {
            dst_addr: EthernetAddress([2, 0, 0, 0, 0, 2]),
            src_addr: EthernetAddress([2, 0, 0, 0, 0, 1]),
            ethertype: EtherType::Profinet,
        }
    }

    #[test]
    fn a_cyclic_frame_reads_back_at_every_length() {
        let data = ProcessData { sequence: 3, sent_ns: 5_000_000, ..ProcessData::default() };
        for len in [MIN_FRAME_LEN, 65, 500, MAX_FRAME_LEN] {
            let mut writer = FrameWriter::new(ethernet(), OUTPUT_FRAME_ID, len, 1_000).unwrap();
            let frame = writer.write(&data, true).to_vec();
            assert_eq!(frame.len(), len);
            assert_eq!(read(&frame, Some(ethernet().src_addr), OUTPUT_FRAME_ID), Incoming::Data(data));
        }
        assert!(FrameWriter::new(ethernet(), OUTPUT_FRAME_ID, MIN_FRAME_LEN - 1, 1_000).is_none());
        assert!(FrameWriter::new(ethernet(), OUTPUT_FRAME_ID, MAX_FRAME_LEN + 1, 1_000).is_none());
    }

    #[test]
    fn what_another_station_or_connection_sent_is_foreign() {
        let mut writer = FrameWriter::new(ethernet(), OUTPUT_FRAME_ID, 64, 1_000).unwrap();
        let frame = writer.write(&ProcessData::default(), true).to_vec();
        let foreign = Incoming::Refused(Refusal::Foreign);
        assert_eq!(read(&frame, Some(EthernetAddress([9; 6])), OUTPUT_FRAME_ID), foreign);
        assert_eq!(read(&frame, None, INPUT_FRAME_ID), foreign);
        assert_eq!(read(&frame[..40], None, OUTPUT_FRAME_ID), Incoming::Refused(Refusal::Damaged));
        assert_eq!(read(&frame[..5], None, OUTPUT_FRAME_ID), Incoming::Refused(Refusal::Damaged));
    }

    #[test]
    fn no_flipped_payload_bit_passes_as_data() {
        let mut writer = FrameWriter::new(ethernet(), OUTPUT_FRAME_ID, 64, 1_000).unwrap();
        let mut frame = writer.write(&ProcessData::default(), true).to_vec();
        let object = HEADER_LEN + 2..frame.len() - 6;
        for bit in object.start * 8..object.end * 8 {
            frame[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(read(&frame, None, OUTPUT_FRAME_ID), Incoming::Refused(_)), "bit {bit}");
            frame[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
