//! The frames of the controller's requests.

use antedate_wire::EthernetAddress;
use antedate_wire::dcerpc::{Header, Order, PacketType, Uuid};
use antedate_wire::dcp::{Block, Header as DcpHeader, ServiceId, ServiceType};
use antedate_wire::profinet::cm::connect::{
    AlarmCr, ArRequest, ArType, ExpectedSubmodules, IoObject, Iocr, IocrType, Submodule,
};
use antedate_wire::profinet::cm::control::{Command, Control};
use antedate_wire::profinet::cm::record::Record;
use antedate_wire::profinet::cm::{BlockType, Operation as Call, Writer};
use antedate_wire::profinet::{CYCLE_UNIT_NS, FrameId};

use super::super::cyclic::{self, INPUT_FRAME_ID};
use super::super::device::{ACCESS_POINT, DEVICE, PROCESS_DATA, VENDOR, call};
use super::super::discovery::dcp_frame;
use super::{CALLING_PORT, Controller};

/// The alarm connection: repetitions for 3 s, longer than a gateway's restart.
pub(super) const ALARMS: AlarmCr = AlarmCr { timeout_factor: 2, retries: 15, reference: 1, max_len: 200 };
/// Octets of blocks in a call.
const MOST_BLOCKS: usize = 1_300;
/// Units of 100 ms in which the controller does the next step.
const STEP_TIMEOUT: u16 = 100;
/// The record that is written.
const PARAMETER: (u16, [u8; 4]) = (1, [0, 0, 0, 1]);

impl Controller {
    pub(super) fn dcp_request(
        &self,
        frame_id: FrameId,
        to: EthernetAddress,
        block: &Block<'_>,
    ) -> Option<Vec<u8>> {
        let identify = frame_id == FrameId::DCP_IDENTIFY_REQUEST;
        let header = DcpHeader {
            frame_id,
            service: if identify { ServiceId::Identify } else { ServiceId::Set },
            service_type: ServiceType::Request,
            xid: self.start,
            response_delay: u16::from(identify),
        };
        dcp_frame(self.host.mac, to, &header, std::slice::from_ref(block))
    }

    pub(super) fn call(
        &mut self,
        operation: Call,
        build: impl FnOnce(&mut Writer<'_>) -> antedate_wire::Result<()>,
    ) -> Option<Vec<u8>> {
        let mut blocks = vec![0; MOST_BLOCKS];
        let mut writer = Writer::new(&mut blocks);
        build(&mut writer).ok()?;
        let len = writer.len();
        self.sequence += 1;
        let header = Header {
            order: Order::Little,
            packet_type: PacketType::Request,
            flags: Header::REQUEST_FLAGS,
            object: Uuid::object(1, DEVICE, VENDOR),
            interface: Uuid::IO_DEVICE,
            activity: self.ar,
            boot_time: 0,
            interface_version: 1,
            sequence: self.sequence,
            operation: operation.number(),
        };
        let content = call(&header, MOST_BLOCKS as u32, MOST_BLOCKS as u32, &blocks[..len]);
        Some(self.host.datagram(CALLING_PORT, &self.device, &content))
    }

    pub(super) fn control(&self, command: Command) -> Control {
        Control { ar: self.ar, session_key: self.session_key, command }
    }

    pub(super) fn connect(&mut self) -> Option<Vec<u8>> {
        // Unique for each connection of each start.
        self.session_key = self.counts.connections as u16 + 1;
        let [s0, s1, s2, s3] = self.start.to_be_bytes();
        let [k0, k1] = self.session_key.to_be_bytes();
        self.ar = Uuid([s0, s1, s2, s3, k0, k1, 0x40, 0, 0x80, 0, 2, 0, 0, 0, 0, 1]);
        let ar = ArRequest {
            kind: ArType::IoController,
            ar: self.ar,
            session_key: self.session_key,
            controller: self.host.mac,
            object: Uuid::object(1, DEVICE, VENDOR),
            properties: ArRequest::PROPERTIES,
            timeout_factor: STEP_TIMEOUT,
            name: b"plc",
        };
        let (send_clock, reduction) = clock(self.wanted.cycle_us);
        let layout = cyclic::layout(self.wanted.frame_bytes - cyclic::OVERHEAD);
        let iocr = |kind, frame_id| Iocr {
            kind,
            reference: if kind == IocrType::Input { 1 } else { 2 },
            data_len: layout.c_sdu_len() as u16,
            frame_id,
            send_clock,
            reduction,
            data_hold: self.wanted.data_hold,
        };
        let object =
            |slot, offset: usize, consumer| IoObject { slot, subslot: 1, offset: offset as u16, consumer };
        let data = object(1, 0, false);
        let acknowledged = object(1, layout.iocs_offset(0), true);
        let access_point = |consumer| object(0, layout.iocs_offset(1), consumer);
        let input = (iocr(IocrType::Input, INPUT_FRAME_ID), [data, acknowledged, access_point(false)]);
        let output = (iocr(IocrType::Output, FrameId(u16::MAX)), [data, acknowledged, access_point(true)]);
        let submodule = |slot, (module, submodule), len| Submodule {
            api: 0,
            slot,
            module,
            subslot: 1,
            submodule,
            input: len,
            output: len,
        };
        let process_data = submodule(1, PROCESS_DATA, layout.data as u16);
        self.call(Call::Connect, |writer| {
            ar.emit(writer)?;
            input.0.emit(&input.1, writer)?;
            output.0.emit(&output.1, writer)?;
            ALARMS.emit(writer)?;
            ExpectedSubmodules::emit(&[submodule(0, ACCESS_POINT, 0)], writer)?;
            ExpectedSubmodules::emit(&[process_data], writer)
        })
    }

    fn record(&self, (slot, subslot): (u16, u16), index: u16, len: u32) -> Record {
        Record { sequence: self.sequence as u16, ar: self.ar, api: 0, slot, subslot, index, len }
    }

    pub(super) fn write(&mut self) -> Option<Vec<u8>> {
        let (index, value) = PARAMETER;
        let record = self.record((1, 1), index, value.len() as u32);
        self.call(Call::Write, |writer| {
            record.emit(BlockType::WriteRequest, writer)?;
            writer.put(&value)
        })
    }

    pub(super) fn read(&mut self) -> Option<Vec<u8>> {
        let record = self.record((0, 1), Record::IM0, MOST_BLOCKS as u32 - 64);
        self.call(Call::Read, |writer| record.emit(BlockType::ReadRequest, writer))
    }
}

/// Send clock in units of 31.25 µs (at most 128, 4 ms) and reduction ratio of an update time.
fn clock(cycle_us: u32) -> (u16, u16) {
    let units = (u64::from(cycle_us) * 1_000 / CYCLE_UNIT_NS).clamp(1, 16_384) as u16;
    let send_clock = [32, 64, 16, 8].into_iter().find(|clock| units.is_multiple_of(*clock)).unwrap_or(1);
    (send_clock, units / send_clock)
}
