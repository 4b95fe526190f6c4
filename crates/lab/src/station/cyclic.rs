//! The stations' cyclic frames: process data in a Profinet frame of RT class 1 in an Ethernet
//! frame.

use antedate_wire::ethernet::{self, EtherType, HEADER_LEN};
use antedate_wire::profinet::{self, CyclicFrame, CyclicRepr, DataStatus, FrameId, Ioxs, Layout};
use antedate_wire::{EthernetAddress, EthernetRepr};

use super::meter::Refusal;
use super::process_data::{self, ProcessData, Writer};

/// Shortest frame (without frame check sequence) with the process data.
pub const MIN_FRAME_LEN: usize = 64;
/// Longest cyclic frame of the standard: a C_SDU of 1440 octets.
pub const MAX_FRAME_LEN: usize = OVERHEAD + profinet::MAX_C_SDU_LEN;
/// Output data, controller to device.
pub const OUTPUT_FRAME_ID: FrameId = FrameId(0x8001);
/// Input data, device to controller.
pub const INPUT_FRAME_ID: FrameId = FrameId(0x8002);

/// Octets around the C_SDU.
pub(super) const OVERHEAD: usize = HEADER_LEN + profinet::OVERHEAD;

/// One IO data object that fills the C_SDU, its IOPS, one IOCS for the other direction's data, and
/// the status of the device itself (slot 0), which is always good.
pub(super) const fn layout(c_sdu_len: usize) -> Layout {
    Layout::new(c_sdu_len.saturating_sub(3), 2)
}

/// A cyclic frame under construction; static parts are written once.
#[derive(Debug)]
pub struct FrameWriter {
    buffer: Vec<u8>,
    repr: CyclicRepr,
    layout: Layout,
    writer: Writer,
    update_units: u16,
}

impl FrameWriter {
    /// A frame of `frame_bytes`, [`MIN_FRAME_LEN`] to [`MAX_FRAME_LEN`]; `None` outside this range.
    pub fn new(ethernet: EthernetRepr, frame_id: FrameId, frame_bytes: usize, cycle_us: u32) -> Option<Self> {
        if !(MIN_FRAME_LEN..=MAX_FRAME_LEN).contains(&frame_bytes) {
            return None;
        }
        let c_sdu_len = frame_bytes - OVERHEAD;
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
        Some(Self { buffer, repr, layout, writer, update_units: update_units(cycle_us) })
    }

    /// The frame of one cycle.
    pub fn write(&mut self, data: &ProcessData) -> &[u8] {
        self.repr.cycle_counter = profinet::cycle_counter(data.sent_ns, self.update_units);
        self.repr.data_status = DataStatus::OPERATIONAL.with_run(!data.stopping);
        if let Ok(mut frame) = self.repr.emit(&mut self.buffer[HEADER_LEN..]) {
            let c_sdu = frame.c_sdu_mut();
            if let Some(object) = self.layout.data_mut(c_sdu) {
                self.writer.write(object, data);
            }
            // The layout fits this C_SDU.
            let _ = self.layout.set_status(c_sdu, Ioxs::GOOD, Ioxs::GOOD);
            c_sdu[self.layout.iocs_offset(0)] = consumer_status(data).0;
        }
        &self.buffer
    }
}

/// The IOCS for `data`.
fn consumer_status(data: &ProcessData) -> Ioxs {
    if data.consuming { Ioxs::GOOD } else { Ioxs::BAD }
}

/// An update time in units of the cycle counter.
fn update_units(cycle_us: u32) -> u16 {
    (u64::from(cycle_us) * 1_000 / profinet::CYCLE_UNIT_NS).clamp(1, 0x8000) as u16
}

/// A consumer's expectation of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The sender; `None` accepts any.
    pub peer: Option<EthernetAddress>,
    /// FrameID of the connection.
    pub frame_id: FrameId,
    /// The update time in microseconds.
    pub cycle_us: u32,
}

/// Classification of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The peer's process data, verified.
    Data(ProcessData),
    /// Not cyclic: ARP, IPv4, DCP, alarms.
    Acyclic(EtherType),
    /// An expected frame without content for the consumer (LLDP).
    Announcement,
    /// A refused frame.
    Refused(Refusal),
}

/// Parses a frame and verifies every bit that a station can know.
#[must_use]
pub fn read(frame: &[u8], expected: &Expected) -> Incoming {
    let Ok(view) = ethernet::Frame::new_checked(frame) else { return Incoming::Refused(Refusal::Damaged) };
    match view.ethertype() {
        EtherType::Profinet => {}
        EtherType::Lldp => return Incoming::Announcement,
        kind @ (EtherType::Arp | EtherType::Ipv4) => return Incoming::Acyclic(kind),
        other => return Incoming::Refused(Refusal::Unexpected(other.number())),
    }
    match profinet::frame_id(view.payload()) {
        Ok(id) if id.is_dcp() || id.is_alarm() => return Incoming::Acyclic(EtherType::Profinet),
        Ok(id) if id == expected.frame_id => {}
        Ok(_) => return Incoming::Refused(Refusal::Foreign),
        Err(_) => return Incoming::Refused(Refusal::Damaged),
    }
    if expected.peer.is_some_and(|peer| peer != view.src_addr()) {
        return Incoming::Refused(Refusal::Foreign);
    }
    match process_data(view.payload(), expected.cycle_us) {
        Some(data) => Incoming::Data(data),
        None => Incoming::Refused(Refusal::Damaged),
    }
}

/// Process data of a cyclic frame whose statuses and cycle counter match it; the checksum does not
/// cover those.
fn process_data(payload: &[u8], cycle_us: u32) -> Option<ProcessData> {
    let cyclic = CyclicFrame::new_checked(payload).ok()?;
    let c_sdu = cyclic.c_sdu();
    let layout = layout(c_sdu.len());
    let data = ProcessData::read(layout.data(c_sdu)?).ok()?;
    let status = DataStatus::OPERATIONAL.with_run(!data.stopping);
    let good = cyclic.data_status() == status
        && cyclic.transfer_status() == 0
        && cyclic.cycle_counter() == profinet::cycle_counter(data.sent_ns, update_units(cycle_us))
        && layout.iops(c_sdu)? == Ioxs::GOOD
        && layout.iocs(c_sdu, 0)? == consumer_status(&data)
        && layout.iocs(c_sdu, 1)? == Ioxs::GOOD;
    good.then_some(data)
}

/// The shortest IO data object fits into the shortest frame.
const _: () =
    assert!(layout(MIN_FRAME_LEN - OVERHEAD).data >= process_data::MIN_LEN, "MIN_FRAME_LEN is too small");

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);
    const OUTPUT: Expected = Expected { peer: Some(SENDER), frame_id: OUTPUT_FRAME_ID, cycle_us: 1_000 };

    fn ethernet() -> EthernetRepr {
        EthernetRepr {
            dst_addr: EthernetAddress([2, 0, 0, 0, 0, 2]),
            src_addr: SENDER,
            ethertype: EtherType::Profinet,
        }
    }

    fn frame(data: &ProcessData, len: usize) -> Vec<u8> {
        FrameWriter::new(ethernet(), OUTPUT_FRAME_ID, len, 1_000).unwrap().write(data).to_vec()
    }

    #[test]
    fn cyclic_frame_round_trips_all_lengths() {
        for stopping in [false, true] {
            let data = ProcessData { sequence: 3, sent_ns: 5_000_000, stopping, ..ProcessData::default() };
            for len in [MIN_FRAME_LEN, 65, 500, MAX_FRAME_LEN] {
                let frame = frame(&data, len);
                assert_eq!(frame.len(), len);
                assert_eq!(read(&frame, &OUTPUT), Incoming::Data(data));
            }
        }
        assert!(FrameWriter::new(ethernet(), OUTPUT_FRAME_ID, MIN_FRAME_LEN - 1, 1_000).is_none());
        assert!(FrameWriter::new(ethernet(), OUTPUT_FRAME_ID, MAX_FRAME_LEN + 1, 1_000).is_none());
    }

    #[test]
    fn other_connections_are_foreign() {
        let frame = frame(&ProcessData::default(), 64);
        let foreign = Incoming::Refused(Refusal::Foreign);
        assert_eq!(read(&frame, &Expected { peer: Some(EthernetAddress([9; 6])), ..OUTPUT }), foreign);
        assert_eq!(read(&frame, &Expected { frame_id: INPUT_FRAME_ID, ..OUTPUT }), foreign);
        for len in [5, 15, 40] {
            assert_eq!(read(&frame[..len], &OUTPUT), Incoming::Refused(Refusal::Damaged), "{len}");
        }
    }

    #[test]
    fn flipped_bits_are_never_data() {
        let mut frame = frame(&ProcessData { sent_ns: 77_000_000, ..ProcessData::default() }, 64);
        for bit in HEADER_LEN * 8..frame.len() * 8 {
            frame[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(read(&frame, &OUTPUT), Incoming::Refused(_)), "bit {bit}");
            frame[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
