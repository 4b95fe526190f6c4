//! `lab-io-device`: the IO device as a program, for any Profinet controller. The device of the
//! demonstration, `lab-station`, measures the lab's own process data instead.

use antedate_wire::ethernet::{EtherType, Frame};
use antedate_wire::profinet::cm::Status;
use antedate_wire::profinet::frame_id;
use antedate_wire::{EthernetAddress, ipv4};
use serde::{Deserialize, Serialize};

use super::device::connection::Step;
use super::device::exchange::{Counts, Exchange};
use super::device::{Device, Event};
use super::host::IpSuite;
use super::{StationError, discovery};
use crate::output::Output;
use crate::sys::clock::monotonic_ns;
use crate::sys::packet::{self, PacketSocket};
use crate::sys::signal;

/// Priority of cyclic data (IEC 61158-6-10).
const CYCLIC_PRIORITY: u8 = 6;
/// Interval at which timers and the stop flag are read without traffic.
const LONGEST_WAIT_NS: u64 = 20_000_000;

/// Options of the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The interface.
    pub interface: String,
    /// Name of station; empty in a new device.
    pub name: String,
    /// IP address in a /24 network; none in a new device.
    pub address: Option<ipv4::Address>,
    /// Interval of process alarms in milliseconds; 0 for none.
    pub alarm_ms: u32,
    /// Seconds to run; `None` runs until SIGTERM.
    pub seconds: Option<f64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { interface: "eth0".into(), name: String::new(), address: None, alarm_ms: 500, seconds: None }
    }
}

/// A line of the device's output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The device listens.
    Ready {
        /// Its address.
        mac: String,
    },
    /// Something happened.
    Event {
        /// Time in nanoseconds of CLOCK_MONOTONIC.
        at_ns: u64,
        /// The event.
        event: Event,
        /// Counters so far.
        counts: Counts,
    },
    /// The end.
    Result(Box<Report>),
}

/// The result. Field names are stable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Cyclic data of all connections.
    #[serde(flatten)]
    pub counts: Counts,
    /// Connections of controllers.
    pub connected: u64,
    /// Of these, both ends were operating.
    pub operating: u64,
    /// Of these, released by the controller.
    pub released: u64,
    /// Of these, ended otherwise.
    pub aborted: u64,
    /// Records written and read.
    pub written: u64,
    /// Records read.
    pub read: u64,
    /// DCP Set of the name.
    pub named: u64,
    /// DCP Set of the IP address.
    pub addressed: u64,
    /// Alarms sent.
    pub alarms: u64,
    /// Alarms acknowledged by the controller's application.
    pub alarms_acknowledged: u64,
    /// Frames that the kernel refused.
    pub send_errors: u64,
}

/// Runs the device until its time is over.
pub fn run(options: Options, output: &mut Output) -> Result<Line, StationError> {
    let failed = |error| StationError::Socket { interface: options.interface.clone(), error };
    let socket = PacketSocket::open(&options.interface, packet::Options::default()).map_err(failed)?;
    for group in [discovery::IDENTIFY_GROUP, EthernetAddress::LLDP_NEAREST_BRIDGE] {
        socket.join(&options.interface, group.0).map_err(failed)?;
    }
    let mac = EthernetAddress(socket.address());
    let alarm_every_ns = u64::from(options.alarm_ms) * 1_000_000;
    let mut device = Device::new(mac, options.name.clone(), alarm_every_ns);
    if let Some(address) = options.address {
        device.set_address(IpSuite::local(address));
    }
    let mut program = Program { socket, device, exchange: None, report: Report::default() };
    output.line(&Line::Ready { mac: mac.to_string() });
    let end_ns = options.seconds.map(|seconds| monotonic_ns() + (seconds.max(0.0) * 1e9) as u64);
    let mut announce_ns = 0;
    let mut buffer = vec![0; 2048];
    while !signal::stopping() && end_ns.is_none_or(|end| monotonic_ns() < end) {
        program.step(&mut buffer, output).map_err(failed)?;
        let now = monotonic_ns();
        if announce_ns <= now {
            announce_ns = now + discovery::ANNOUNCE_SECONDS * 1_000_000_000;
            program.device.announce();
        }
    }
    (program.report.alarms, program.report.alarms_acknowledged) = {
        let (sent, acknowledged) = program.device.alarms();
        (sent.into(), acknowledged.into())
    };
    Ok(Line::Result(Box::new(program.report)))
}

struct Program {
    socket: PacketSocket,
    device: Device,
    exchange: Option<Exchange>,
    report: Report,
}

impl Program {
    /// Waits for a frame or the next deadline, and does what is due.
    fn step(&mut self, buffer: &mut [u8], output: &mut Output) -> std::io::Result<()> {
        let now = monotonic_ns();
        let due = self.exchange.as_ref().map_or(u64::MAX, Exchange::due_ns);
        let wait = due.saturating_sub(now).min(LONGEST_WAIT_NS);
        if self.socket.wait(wait)?
            && let Some(len) = self.socket.receive(buffer, false)?
        {
            self.frame(monotonic_ns(), &buffer[..len]);
        }
        let now = monotonic_ns();
        self.device.poll(now);
        self.cyclic(now);
        while let Some(event) = self.device.event() {
            self.count(now, &event);
            output.line(&Line::Event { at_ns: now, event, counts: self.report.counts });
        }
        while let Some(frame) = self.device.take() {
            self.send(&frame);
        }
        Ok(())
    }

    fn send(&mut self, frame: &[u8]) {
        self.report.send_errors += u64::from(self.socket.send(frame).is_err());
    }

    fn frame(&mut self, now: u64, frame: &[u8]) {
        let Ok(view) = Frame::new_checked(frame) else { return };
        let cyclic = view.ethertype() == EtherType::Profinet
            && frame_id(view.payload()).is_ok_and(|id| id.is_cyclic());
        if !cyclic {
            self.device.hear(now, frame);
            return;
        }
        let from_controller = self.device.connection().is_some_and(|ar| ar.address() == view.src_addr());
        if let (Some(exchange), true) = (&mut self.exchange, from_controller) {
            exchange.output(now, view.payload(), &mut self.report.counts);
        }
    }

    fn cyclic(&mut self, now: u64) {
        let Some(ar) = self.device.connection() else {
            self.exchange = None;
            return;
        };
        let (to, operating) = (ar.address(), ar.step() == Step::Operating);
        let Some(exchange) = &mut self.exchange else { return };
        if exchange.is_expired(now) {
            self.exchange = None;
            return self.device.abort(Status::CONSUMER_TIMED_OUT);
        }
        if let Some(payload) = exchange.input(now, operating, &mut self.report.counts) {
            let frame = self.device.host().tagged(to, CYCLIC_PRIORITY, EtherType::Profinet, &payload);
            self.send(&frame);
        }
    }

    fn count(&mut self, now: u64, event: &Event) {
        let report = &mut self.report;
        match event {
            Event::Connected => {
                report.connected += 1;
                let io = self.device.connection().and_then(|ar| ar.io());
                self.exchange = io.map(|io| Exchange::new(io, now));
            }
            Event::Operating => report.operating += 1,
            Event::Released => report.released += 1,
            Event::Aborted(_) => report.aborted += 1,
            Event::Written(_) => report.written += 1,
            Event::Read(_) => report.read += 1,
            Event::Named(_) => report.named += 1,
            Event::Addressed(_) => report.addressed += 1,
            Event::Blinked | Event::Reset | Event::ParametersEnded | Event::AlarmAcknowledged(_) => {}
        }
    }
}
