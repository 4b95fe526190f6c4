//! Application relations of the device: the checks of a connect call, and the agreed layout of the
//! cyclic data.

use antedate_wire::EthernetAddress;
use antedate_wire::dcerpc::Uuid;
use antedate_wire::profinet::cm::connect::{
    AlarmCr, ArRequest, ArType, ExpectedSubmodules, IoObject, Iocr, IocrRequest, IocrType, Submodule,
};
use antedate_wire::profinet::cm::control::Control;
use antedate_wire::profinet::cm::{BlockType, Blocks, Status, Writer};
use antedate_wire::profinet::{MAX_C_SDU_LEN, MIN_C_SDU_LEN};

use super::super::alarms::Endpoint;
use super::super::cyclic::OUTPUT_FRAME_ID;
use super::super::host::Remote;
use super::{ACCESS_POINT, PROCESS_DATA};

/// The device's end of the alarm connection.
const ALARM_REFERENCE: u16 = 1;
/// Update times in units of 31.25 µs: 250 µs to 512 ms.
const UPDATE_UNITS: std::ops::RangeInclusive<u32> = 8..=16_384;
/// Submodules of a connection; a device has few.
const MOST_SUBMODULES: usize = 16;
const TIMEOUT_UNIT_NS: u64 = 100_000_000;

/// Progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The controller may write parameters.
    Parameters,
    /// The device is ready; the controller does not know it yet.
    Ready,
    /// Both know.
    Operating,
}

/// An application relation.
#[derive(Clone, Debug)]
pub struct Ar {
    pub(super) id: Uuid,
    pub(super) session_key: u16,
    /// The other end: its source of calls.
    pub(super) remote: Remote,
    /// Its object, for application ready.
    pub(super) object: Uuid,
    pub(super) step: Step,
    /// Until when the next step must come; [`Step::Operating`] has none.
    pub(super) deadline_ns: u64,
    pub(super) alarms: Option<Endpoint>,
    pub(super) io: Option<Io>,
}

/// The cyclic data of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Io {
    /// Device to controller.
    pub input: Iocr,
    /// Controller to device; its FrameID is the one in force.
    pub output: Iocr,
    /// Parts of the input's C_SDU.
    pub input_parts: Vec<Part>,
    /// Parts of the output's C_SDU.
    pub output_parts: Vec<Part>,
}

/// Part of a C_SDU: `len` octets of data, then a status; a consumer status has no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The object.
    pub object: IoObject,
    /// Octets of data.
    pub len: usize,
}

impl Part {
    /// The offset of the status.
    #[must_use]
    pub fn status_at(&self) -> usize {
        usize::from(self.object.offset) + self.len
    }
}

impl Ar {
    /// The other end's address.
    #[must_use]
    pub fn address(&self) -> EthernetAddress {
        self.remote.mac
    }

    /// Whether a call of these numbers is about this connection.
    pub(super) fn is(&self, control: &Control) -> bool {
        (self.id, self.session_key) == (control.ar, control.session_key)
    }

    /// The cyclic data, if the connection has any.
    #[must_use]
    pub fn io(&self) -> Option<&Io> {
        self.io.as_ref()
    }

    /// Its progress.
    #[must_use]
    pub fn step(&self) -> Step {
        self.step
    }
}

/// The blocks of a connect call.
#[derive(Default)]
struct Request<'a> {
    ar: Option<ArRequest<'a>>,
    iocrs: Vec<IocrRequest<'a>>,
    alarm: Option<AlarmCr>,
    submodules: Vec<Submodule>,
}

impl<'a> Request<'a> {
    fn parse(blocks: Blocks<'a>) -> Result<Self, Status> {
        let mut request = Self::default();
        for block in blocks {
            let block = block.map_err(|_| Status::FAULTY_AR)?;
            match block.kind {
                BlockType::ArRequest => {
                    request.ar = Some(ArRequest::parse(block.body).map_err(|_| Status::FAULTY_AR)?);
                }
                BlockType::IocrRequest => {
                    let iocr = IocrRequest::parse(block.body).map_err(|_| Status::FAULTY_IOCR)?;
                    request.iocrs.push(iocr);
                }
                BlockType::AlarmCrRequest => {
                    request.alarm = Some(AlarmCr::parse(block.body).map_err(|_| Status::FAULTY_ALARM_CR)?);
                }
                BlockType::ExpectedSubmodules => {
                    let expected =
                        ExpectedSubmodules::parse(block.body).map_err(|_| Status::FAULTY_SUBMODULES)?;
                    expected.submodules(|submodule| request.submodules.push(submodule));
                }
                // Options of newer versions.
                _ => {}
            }
        }
        let limit = request.submodules.len() <= MOST_SUBMODULES && request.iocrs.len() <= 2;
        if limit { Ok(request) } else { Err(Status::NO_AR_RESOURCES) }
    }

    fn iocr(&self, kind: IocrType) -> Result<&IocrRequest<'a>, Status> {
        self.iocrs.iter().find(|iocr| iocr.iocr.kind == kind).ok_or(Status::FAULTY_IOCR)
    }
}

/// Makes a connection of a connect call from `remote`, and writes the response.
pub(super) fn accept(
    blocks: Blocks<'_>,
    remote: Remote,
    device: EthernetAddress,
    now_ns: u64,
    writer: &mut Writer<'_>,
) -> Result<Ar, Status> {
    let request = Request::parse(blocks)?;
    let wanted = request.ar.ok_or(Status::FAULTY_AR)?;
    let mut ar = Ar {
        id: wanted.ar,
        session_key: wanted.session_key,
        remote,
        object: wanted.object,
        step: Step::Parameters,
        deadline_ns: now_ns + u64::from(wanted.timeout_factor.max(1)) * TIMEOUT_UNIT_NS,
        alarms: None,
        io: None,
    };
    let short = |_| Status::NO_AR_RESOURCES;
    wanted.accept(device, writer).map_err(short)?;
    if wanted.kind == ArType::Supervisor {
        return Ok(ar);
    }
    if wanted.kind != ArType::IoController || wanted.controller != remote.mac {
        return Err(Status::FAULTY_AR);
    }
    let alarm = request.alarm.ok_or(Status::FAULTY_ALARM_CR)?;
    let (input, output) = (request.iocr(IocrType::Input)?, request.iocr(IocrType::Output)?);
    if !input.iocr.frame_id.is_rt_class_1() {
        return Err(Status::FAULTY_IOCR);
    }
    let io = Io {
        input: input.iocr,
        output: Iocr { frame_id: OUTPUT_FRAME_ID, ..output.iocr },
        input_parts: parts(input, &request.submodules)?,
        output_parts: parts(output, &request.submodules)?,
    };
    for iocr in [&io.input, &io.output] {
        iocr.accept(iocr.frame_id, writer).map_err(short)?;
    }
    alarm.accept(ALARM_REFERENCE, writer).map_err(short)?;
    differences(&request.submodules, writer).map_err(short)?;
    ar.alarms = Some(Endpoint::new(ALARM_REFERENCE, alarm.reference, &alarm));
    ar.io = Some(io);
    Ok(ar)
}

/// The parts of a C_SDU, all inside it.
fn parts(request: &IocrRequest<'_>, submodules: &[Submodule]) -> Result<Vec<Part>, Status> {
    let iocr = &request.iocr;
    let c_sdu_len = usize::from(iocr.data_len);
    let times = UPDATE_UNITS.contains(&iocr.update_units()) && iocr.data_hold > 0;
    if !times || !(MIN_C_SDU_LEN..=MAX_C_SDU_LEN).contains(&c_sdu_len) {
        return Err(Status::FAULTY_IOCR);
    }
    let mut objects = Vec::new();
    request.objects(|object| objects.push(object));
    let mut parts = Vec::new();
    for object in objects {
        let expected = submodules.iter().find(|s| (s.slot, s.subslot) == (object.slot, object.subslot));
        let expected = expected.ok_or(Status::FAULTY_IOCR)?;
        let len = match (object.consumer, iocr.kind) {
            (true, _) => 0,
            (false, IocrType::Input) => expected.input,
            (false, _) => expected.output,
        };
        let part = Part { object, len: usize::from(len) };
        if part.status_at() >= c_sdu_len {
            return Err(Status::FAULTY_IOCR);
        }
        parts.push(part);
    }
    Ok(parts)
}

/// Writes the differences between the expected and the plugged modules, if there are any.
fn differences(submodules: &[Submodule], writer: &mut Writer<'_>) -> antedate_wire::Result<()> {
    /// States: no module; a wrong one.
    const NONE: u16 = 0;
    const WRONG: u16 = 1;
    let plugged = |slot: u16| match slot {
        0 => Some(ACCESS_POINT),
        1 => Some(PROCESS_DATA),
        _ => None,
    };
    let differs = |s: &&Submodule| s.subslot != 1 || plugged(s.slot) != Some((s.module, s.submodule));
    let mut wrong: Vec<&Submodule> = submodules.iter().filter(differs).collect();
    wrong.dedup_by_key(|submodule| submodule.slot);
    if wrong.is_empty() {
        return Ok(());
    }
    writer.block(BlockType::ModuleDiff, |writer| {
        writer.u16(1)?;
        writer.u32(0)?;
        writer.u16(wrong.len() as u16)?;
        for submodule in wrong {
            let there = plugged(submodule.slot);
            writer.u16(submodule.slot)?;
            writer.u32(there.map_or(0, |(module, _)| module))?;
            writer.u16(if there.is_some() { WRONG } else { NONE })?;
            // Without submodules: the whole module differs.
            writer.u16(0)?;
        }
        Ok(())
    })
}
