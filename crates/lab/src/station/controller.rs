//! The IO controller's connection to a device, as a real controller makes it: find it by name, give
//! it its address, connect, write a parameter, end the parameters, wait until it is ready; then
//! read a record each second and acknowledge alarms. Without I/O: frames and the time go in, frames
//! come out. Each step is repeated until its answer comes.

mod requests;

use std::collections::VecDeque;

use antedate_wire::arp::{self, Operation};
use antedate_wire::dcerpc::{Header, PROFINET_PORT, PacketType, Uuid};
use antedate_wire::dcp::{Block, Option as Property, Pdu, ServiceId, ServiceType};
use antedate_wire::ethernet::{EtherType, Frame};
use antedate_wire::profinet::alarm::{Content, Pdu as AlarmPdu};
use antedate_wire::profinet::cm::connect::{AlarmCr, IocrResponse, IocrType};
use antedate_wire::profinet::cm::control::{Command, Control};
use antedate_wire::profinet::cm::{Args, BlockType, Operation as Call, Status, Writer};
use antedate_wire::profinet::{FrameId, frame_id};
use antedate_wire::{EthernetAddress, ipv4};

use super::alarms::{Due, Endpoint};
use super::cyclic::OUTPUT_FRAME_ID;
use super::device::call;
use super::discovery::IDENTIFY_GROUP;
use super::host::{Datagram, Host, IpSuite, Remote};
use requests::ALARMS;

/// Addresses of controller and device.
const OWN: ipv4::Address = ipv4::Address::new(10, 83, 0, 1);
const DEVICES: ipv4::Address = ipv4::Address::new(10, 83, 0, 2);
/// Port of the controller's calls.
const CALLING_PORT: u16 = 49_152;
/// Time until a step is repeated.
const REPEAT_NS: u64 = 100_000_000;
const ALARM_PRIORITY: u8 = 5;

/// Cyclic data that the controller wants.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Update time in microseconds.
    pub cycle_us: u32,
    /// Octets of a cyclic frame.
    pub frame_bytes: usize,
    /// Update times without data until the device ends the connection.
    pub data_hold: u16,
    /// Interval of reads; 0 for none.
    pub read_every_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Step {
    Find,
    Address,
    Resolve,
    Connect,
    Write,
    EndParameters,
    AwaitReady,
    Operating,
}

/// Counters of the connection. Field names are stable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Connections whose set-up was complete.
    pub connections: u64,
    /// Records read.
    pub records_read: u64,
    /// Alarms that the device sent (device), or that came (controller).
    pub alarms: u64,
    /// Alarms that the controller's application acknowledged (device), or sent back (controller).
    pub alarms_acknowledged: u64,
}

/// The controller's side.
#[derive(Debug)]
pub struct Controller {
    host: Host,
    /// Name of the device.
    name: String,
    wanted: Wanted,
    step: Step,
    device: Remote,
    /// Number of this start: transactions and connections of another start differ.
    start: u32,
    ar: Uuid,
    session_key: u16,
    sequence: u32,
    /// The frame of the present step or read.
    request: Option<Vec<u8>>,
    due_ns: u64,
    next_read_ns: u64,
    alarms: Option<Endpoint>,
    counts: Counts,
    out: VecDeque<Vec<u8>>,
}

impl Controller {
    /// A controller that looks for a device of this name.
    #[must_use]
    pub fn new(mac: EthernetAddress, name: String, start: u32, wanted: Wanted) -> Self {
        let mut controller = Self {
            host: Host { mac, ip: IpSuite::local(OWN) },
            name,
            wanted,
            step: Step::Find,
            device: Remote { mac, ip: DEVICES, port: PROFINET_PORT },
            start,
            ar: Uuid::default(),
            session_key: 0,
            sequence: 0,
            request: None,
            due_ns: 0,
            next_read_ns: 0,
            alarms: None,
            counts: Counts::default(),
            out: VecDeque::new(),
        };
        controller.begin(Step::Find);
        controller
    }

    /// The device, once data counts.
    #[must_use]
    pub fn device(&self) -> Option<EthernetAddress> {
        (self.step == Step::Operating).then_some(self.device.mac)
    }

    /// The counters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The next frame to send.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    /// Does what is due.
    pub fn poll(&mut self, now_ns: u64) {
        let idle = self.step == Step::Operating && self.request.is_none() && self.wanted.read_every_ns > 0;
        if idle && self.next_read_ns <= now_ns {
            self.next_read_ns = now_ns + self.wanted.read_every_ns;
            self.request = self.read();
            self.due_ns = 0;
        }
        if self.due_ns <= now_ns {
            self.due_ns = now_ns + REPEAT_NS;
            self.out.extend(self.request.clone());
        }
        if let Some(Due::Repeat(pdu)) = self.alarms.as_mut().map(|endpoint| endpoint.poll(now_ns)) {
            self.send_alarm(&pdu);
        }
    }

    /// Ends the connection.
    pub fn release(&mut self) {
        if self.step >= Step::Write {
            let control = self.control(Command::Release);
            let frame = self.call(Call::Release, |writer| control.emit(BlockType::ReleaseRequest, writer));
            self.out.extend(frame);
        }
    }

    /// Takes a frame that is not cyclic. False if it is of a kind that concerns no station.
    pub fn hear(&mut self, now_ns: u64, frame: &[u8]) -> bool {
        let Ok(view) = Frame::new_checked(frame) else { return false };
        let payload = view.payload();
        match view.ethertype() {
            EtherType::Arp => {
                let Ok(packet) = arp::Repr::parse(payload) else { return false };
                self.out.extend(self.host.answer(&packet));
                let found = packet.operation == Operation::Reply && packet.source_protocol_addr == DEVICES;
                if found && self.step == Step::Resolve {
                    self.device.mac = packet.source_hardware_addr;
                    self.begin(Step::Connect);
                }
                true
            }
            EtherType::Ipv4 => match self.host.receive(frame) {
                Some(datagram) => {
                    self.datagram(now_ns, &datagram);
                    true
                }
                None => false,
            },
            EtherType::Profinet if frame_id(payload).is_ok_and(|id| id.is_dcp()) => {
                self.dcp(view.src_addr(), payload);
                true
            }
            EtherType::Profinet => {
                let Ok(pdu) = AlarmPdu::parse(payload) else { return false };
                if view.src_addr() == self.device.mac {
                    self.alarm(now_ns, &pdu);
                }
                true
            }
            _ => false,
        }
    }

    fn begin(&mut self, step: Step) {
        self.step = step;
        self.due_ns = 0;
        self.request = match step {
            Step::Find => self.dcp_request(
                FrameId::DCP_IDENTIFY_REQUEST,
                IDENTIFY_GROUP,
                &Block { option: Property::NameOfStation, info: 0, value: self.name.as_bytes() },
            ),
            Step::Address => self.dcp_request(
                FrameId::DCP_GET_SET,
                self.device.mac,
                &Block { option: Property::IpParameter, info: 0, value: &IpSuite::local(DEVICES).octets() },
            ),
            Step::Resolve => Some(self.host.ask(DEVICES)),
            Step::Connect => self.connect(),
            Step::Write => self.write(),
            Step::EndParameters => {
                let control = self.control(Command::ParameterEnd);
                self.call(Call::Control, |writer| control.emit(BlockType::ParameterEndRequest, writer))
            }
            Step::AwaitReady | Step::Operating => None,
        };
    }

    fn dcp(&mut self, from: EthernetAddress, payload: &[u8]) {
        let Ok(pdu) = Pdu::parse(payload) else { return };
        if pdu.header.xid != self.start || pdu.header.service_type != ServiceType::ResponseSuccess {
            return;
        }
        match (self.step, pdu.header.service) {
            (Step::Find, ServiceId::Identify) => {
                self.device.mac = from;
                let has = |block: &Block<'_>| {
                    block.option == Property::IpParameter
                        && IpSuite::read(block.value) == Some(IpSuite::local(DEVICES))
                };
                let addressed = pdu.blocks().flatten().any(|block| has(&block));
                self.begin(if addressed { Step::Resolve } else { Step::Address });
            }
            (Step::Address, ServiceId::Set) if from == self.device.mac => {
                let done = |block: &Block<'_>| block.value.get(2) == Some(&0);
                if pdu.blocks().flatten().any(|block| done(&block)) {
                    self.begin(Step::Resolve);
                }
            }
            _ => {}
        }
    }

    fn datagram(&mut self, now_ns: u64, datagram: &Datagram) {
        let Ok((header, body)) = Header::parse(&datagram.content) else { return };
        let Ok(args) = Args::parse(header.order, body) else { return };
        match (datagram.port, header.packet_type) {
            (CALLING_PORT, PacketType::Response)
                if (header.activity, header.sequence) == (self.ar, self.sequence) =>
            {
                self.answered(now_ns, &args);
            }
            (PROFINET_PORT, PacketType::Request) => self.ready(now_ns, datagram.from, &header, &args),
            _ => {}
        }
    }

    fn answered(&mut self, now_ns: u64, args: &Args<'_>) {
        if !Status(args.first).is_ok() {
            // The device has the old connection still, or does not know this one.
            return self.retry(now_ns);
        }
        match self.step {
            Step::Connect => self.connected(args),
            Step::Write => self.begin(Step::EndParameters),
            Step::EndParameters => self.begin(Step::AwaitReady),
            Step::Operating if self.request.take().is_some() => self.counts.records_read += 1,
            _ => {}
        }
    }

    /// Connects anew after a while.
    fn retry(&mut self, now_ns: u64) {
        self.alarms = None;
        self.begin(Step::Connect);
        self.due_ns = now_ns + REPEAT_NS;
    }

    fn connected(&mut self, args: &Args<'_>) {
        let mut reference = None;
        let mut outputs = None;
        for block in args.blocks().flatten() {
            match block.kind {
                BlockType::AlarmCrResponse => reference = AlarmCr::accepted(block.body).ok(),
                BlockType::IocrResponse => {
                    let iocr = IocrResponse::parse(block.body).ok();
                    outputs = iocr.filter(|iocr| iocr.kind == IocrType::Output).or(outputs);
                }
                _ => {}
            }
        }
        // The lab's stations know their FrameIDs; another device is not theirs.
        if outputs.is_some_and(|iocr| iocr.frame_id == OUTPUT_FRAME_ID) {
            self.alarms = reference.map(|device| Endpoint::new(ALARMS.reference, device, &ALARMS));
            self.begin(Step::Write);
        }
    }

    /// The device's call application ready. It is answered each time, since an answer may be lost.
    fn ready(&mut self, now_ns: u64, from: Remote, header: &Header, args: &Args<'_>) {
        let control = args.blocks().flatten().next().and_then(|block| {
            let wanted = block.kind == BlockType::ApplicationReadyRequest;
            wanted.then(|| Control::parse(block.body).ok()).flatten()
        });
        let Some(control) = control.filter(|control| control.ar == self.ar) else { return };
        if self.step < Step::EndParameters {
            return;
        }
        let mut blocks = [0; 64];
        let mut writer = Writer::new(&mut blocks);
        let done = Control { command: Command::Done, ..control };
        let len = done.emit(BlockType::ApplicationReadyResponse, &mut writer).map_or(0, |()| writer.len());
        let content = call(&header.response(), Status::OK.0, args.first, &blocks[..len]);
        self.out.push_back(self.host.datagram(PROFINET_PORT, &from, &content));
        if self.step < Step::Operating {
            self.begin(Step::Operating);
            self.counts.connections += 1;
            self.next_read_ns = now_ns;
        }
    }

    fn alarm(&mut self, now_ns: u64, pdu: &AlarmPdu<'_>) {
        let Some(endpoint) = &mut self.alarms else { return };
        let heard = endpoint.hear(pdu);
        let notification = heard.content.as_deref().map(Content::parse);
        let acknowledgement = match notification {
            Some(Ok(Content::Notification { alarm, .. })) => {
                self.counts.alarms += 1;
                endpoint.send(now_ns, &Content::Acknowledgement { alarm, status: Status::OK })
            }
            _ => None,
        };
        self.counts.alarms_acknowledged += u64::from(acknowledgement.is_some());
        for pdu in heard.reply.into_iter().chain(acknowledgement) {
            self.send_alarm(&pdu);
        }
        if heard.ended.is_some() {
            self.retry(now_ns);
        }
    }

    fn send_alarm(&mut self, pdu: &[u8]) {
        let frame = self.host.tagged(self.device.mac, ALARM_PRIORITY, EtherType::Profinet, pdu);
        self.out.push_back(frame);
    }
}
