//! The device's RPC: the calls of controllers and supervisors, and its own call, application ready.

use std::collections::VecDeque;

use antedate_wire::dcerpc::{HEADER_LEN, Header, Order, PROFINET_PORT, PacketType, Uuid};
use antedate_wire::profinet::cm::control::{Command, Control};
use antedate_wire::profinet::cm::{ARGS_LEN, Args, Block, BlockType, Blocks, Operation, Status, Writer};

use super::super::host::{Datagram, Remote};
use super::connection::{self, Step};
use super::{Device, Event, SECOND_NS};

/// Port from which the device calls the controller.
const CALLING_PORT: u16 = 49_153;
/// Octets of blocks in an answer.
const MOST_BLOCKS: usize = 1_300;
/// Remembered answers: a controller repeats a call whose answer was lost.
const REMEMBERED: usize = 4;
/// Repetitions of application ready.
const READY_EVERY_NS: u64 = SECOND_NS / 4;
/// Reject: unknown interface (C706, nca_s_unk_if).
const UNKNOWN_INTERFACE: u32 = 0x1c01_0003;
const BOOT_TIME: u32 = 1;

/// State of the server and the client.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Answers by activity and sequence.
    answered: VecDeque<(Uuid, u32, Vec<u8>)>,
    ready: Option<Ready>,
    /// Number of the own calls.
    called: u32,
}

/// Application ready on its way.
#[derive(Debug)]
struct Ready {
    activity: Uuid,
    to: Remote,
    content: Vec<u8>,
    due_ns: u64,
}

/// The content of a datagram.
pub(in crate::station) fn call(header: &Header, first: u32, maximum: u32, blocks: &[u8]) -> Vec<u8> {
    let mut content = vec![0; HEADER_LEN + ARGS_LEN];
    // The buffer has the length of both, and the blocks are few.
    let _ = header.emit(ARGS_LEN + blocks.len(), &mut content);
    let _ = Args::emit(header.order, first, maximum, blocks.len(), &mut content[HEADER_LEN..]);
    content.extend_from_slice(blocks);
    content
}

impl Device {
    pub(super) fn datagram(&mut self, now_ns: u64, datagram: &Datagram) {
        let Ok((header, body)) = Header::parse(&datagram.content) else { return };
        match (datagram.port, header.packet_type) {
            (PROFINET_PORT, PacketType::Request) => self.request(now_ns, datagram.from, &header, body),
            (CALLING_PORT, PacketType::Response) => self.response(&header, body),
            _ => {}
        }
    }

    fn request(&mut self, now_ns: u64, from: Remote, header: &Header, body: &[u8]) {
        let known = |(activity, sequence, _): &&(Uuid, u32, Vec<u8>)| {
            (*activity, *sequence) == (header.activity, header.sequence)
        };
        if let Some((_, _, answer)) = self.calls.answered.iter().find(known) {
            let frame = self.host.datagram(PROFINET_PORT, &from, answer);
            return self.out.push_back(frame);
        }
        let answer = if header.interface == Uuid::IO_DEVICE {
            let Ok(args) = Args::parse(header.order, body) else { return };
            let mut blocks = vec![0; MOST_BLOCKS];
            let mut writer = Writer::new(&mut blocks);
            let status = self.serve(now_ns, from, header, &args, &mut writer);
            let len = writer.len();
            let response = Header { boot_time: BOOT_TIME, ..header.response() };
            call(&response, status.0, args.first, &blocks[..len])
        } else {
            let reject = Header { packet_type: PacketType::Reject, ..header.response() };
            let mut content = vec![0; HEADER_LEN];
            // The buffer has the header's length.
            let _ = reject.emit(4, &mut content);
            content.extend_from_slice(&header.order.u32(UNKNOWN_INTERFACE));
            content
        };
        self.out.push_back(self.host.datagram(PROFINET_PORT, &from, &answer));
        if self.calls.answered.len() == REMEMBERED {
            self.calls.answered.pop_front();
        }
        self.calls.answered.push_back((header.activity, header.sequence, answer));
    }

    fn serve(
        &mut self,
        now_ns: u64,
        from: Remote,
        header: &Header,
        args: &Args<'_>,
        writer: &mut Writer<'_>,
    ) -> Status {
        let done = match Operation::from_number(header.operation) {
            Operation::Connect => self.connect(now_ns, from, args.blocks(), writer),
            Operation::Release => self.release(args.blocks(), writer),
            Operation::Control => self.control(now_ns, header.order, args.blocks(), writer),
            Operation::Write => self.write(args.blocks(), writer),
            Operation::Read => self.read(args.blocks(), true, writer),
            Operation::ReadImplicit => self.read(args.blocks(), false, writer),
            Operation::Unknown(_) => Err(Status::UNKNOWN_AR),
        };
        done.err().unwrap_or(Status::OK)
    }

    fn connect(
        &mut self,
        now_ns: u64,
        from: Remote,
        blocks: Blocks<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<(), Status> {
        let ar = connection::accept(blocks, from, self.host.mac, now_ns, writer)?;
        let place = if ar.io.is_some() { &mut self.controller } else { &mut self.supervisor };
        if ar.io.is_some() && place.is_some() {
            return Err(Status::NO_AR_RESOURCES);
        }
        // A supervisor that comes back replaces its own connection.
        if ar.io.is_some() {
            self.calls.ready = None;
            self.events.push_back(Event::Connected);
        }
        *place = Some(ar);
        Ok(())
    }

    fn release(&mut self, mut blocks: Blocks<'_>, writer: &mut Writer<'_>) -> Result<(), Status> {
        let control = first(&mut blocks, BlockType::ReleaseRequest, Status::RELEASE_UNKNOWN_AR)?;
        let control = Control::parse(control).map_err(|_| Status::RELEASE_UNKNOWN_AR)?;
        if self.supervisor.take_if(|ar| ar.is(&control)).is_none() {
            self.controller.take_if(|ar| ar.is(&control)).ok_or(Status::RELEASE_UNKNOWN_AR)?;
            self.calls.ready = None;
            self.events.push_back(Event::Released);
        }
        let done = Control { command: Command::Done, ..control };
        done.emit(BlockType::ReleaseResponse, writer).map_err(|_| Status::RELEASE_UNKNOWN_AR)
    }

    fn control(
        &mut self,
        now_ns: u64,
        order: Order,
        mut blocks: Blocks<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<(), Status> {
        let control = first(&mut blocks, BlockType::ParameterEndRequest, Status::UNKNOWN_AR)?;
        let control = Control::parse(control).map_err(|_| Status::UNKNOWN_AR)?;
        let ar = self.controller.as_mut().filter(|ar| ar.is(&control)).ok_or(Status::UNKNOWN_AR)?;
        if control.command != Command::ParameterEnd || ar.step != Step::Parameters {
            return Err(Status::OUT_OF_SEQUENCE);
        }
        let done = Control { command: Command::Done, ..control };
        done.emit(BlockType::ParameterEndResponse, writer).map_err(|_| Status::UNKNOWN_AR)?;
        ar.step = Step::Ready;
        self.events.push_back(Event::ParametersEnded);
        let ready = Control { command: Command::ApplicationReady, ..control };
        let mut bytes = [0; 64];
        let mut writer = Writer::new(&mut bytes);
        ready.emit(BlockType::ApplicationReadyRequest, &mut writer).map_err(|_| Status::UNKNOWN_AR)?;
        let len = writer.len();
        self.calls.called += 1;
        // Unique among the device's calls.
        let mut activity = ar.id;
        activity.0[15] ^= self.calls.called as u8 | 0x80;
        let header = Header {
            order,
            packet_type: PacketType::Request,
            flags: Header::REQUEST_FLAGS,
            object: ar.object,
            interface: Uuid::IO_CONTROLLER,
            activity,
            boot_time: BOOT_TIME,
            interface_version: 1,
            sequence: self.calls.called,
            operation: Operation::Control.number(),
        };
        let content = call(&header, MOST_BLOCKS as u32, MOST_BLOCKS as u32, &bytes[..len]);
        let to = Remote { port: PROFINET_PORT, ..ar.remote };
        self.calls.ready = Some(Ready { activity, to, content, due_ns: now_ns });
        Ok(())
    }

    /// The controller's answer to application ready.
    fn response(&mut self, header: &Header, body: &[u8]) {
        let known = self.calls.ready.as_ref().is_some_and(|ready| ready.activity == header.activity);
        let accepted = Args::parse(header.order, body).is_ok_and(|args| Status(args.first).is_ok());
        if !known || !accepted {
            return;
        }
        self.calls.ready = None;
        if let Some(ar) = self.controller.as_mut().filter(|ar| ar.step == Step::Ready) {
            ar.step = Step::Operating;
            self.events.push_back(Event::Operating);
        }
    }

    /// Repeats application ready, and ends connections whose next step does not come.
    pub(super) fn poll_calls(&mut self, now_ns: u64) {
        if let Some(ready) = self.calls.ready.as_mut().filter(|ready| ready.due_ns <= now_ns) {
            ready.due_ns = now_ns + READY_EVERY_NS;
            let frame = self.host.datagram(CALLING_PORT, &ready.to, &ready.content);
            self.out.push_back(frame);
        }
        let late = |ar: &connection::Ar| ar.step != Step::Operating && ar.deadline_ns <= now_ns;
        if self.controller.as_ref().is_some_and(late) {
            self.calls.ready = None;
            self.abort(Status::SET_UP_TIMED_OUT);
        }
    }
}

/// The first block's body, which must be of this kind.
pub(super) fn first<'a>(
    blocks: &mut Blocks<'a>,
    wanted: BlockType,
    otherwise: Status,
) -> Result<&'a [u8], Status> {
    match blocks.next() {
        Some(Ok(Block { kind, body })) if kind == wanted => Ok(body),
        _ => Err(otherwise),
    }
}
