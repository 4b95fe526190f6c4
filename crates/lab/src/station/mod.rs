//! A virtual Profinet controller and IO device: the two stations of hohmann2020, section IV-A.
//!
//! The controller finds the device by DCP, gives it an address, connects and ends the parameters.
//! When the device is ready, both send cyclic data; each is provider of its own and consumer of the
//! other's. Meanwhile the device sends alarms and the controller reads records.
//!
//! - [`controller`], [`device`]: the ends of a connection, without I/O; [`host`] and [`alarms`] are
//!   parts of both, `acyclic` is either,
//! - [`io_device`]: the device alone, for other controllers,
//! - [`process_data`]: content of one cycle,
//! - [`cyclic`]: its Profinet frame,
//! - `provider`: sends on an absolute time grid,
//! - `consumer`: receives on its own thread,
//! - [`watchdog`], [`sequence`], [`edges`]: bus errors; late, lost, duplicated, reordered frames;
//!   the toggling bit,
//! - `witness`: delays of the machine,
//! - [`meter`]: statistics of reception,
//! - [`discovery`]: DCP and LLDP.

mod acyclic;
pub mod alarms;
mod consumer;
pub mod controller;
pub mod cyclic;
pub mod device;
pub mod discovery;
pub mod edges;
pub mod host;
pub mod io_device;
pub mod meter;
pub mod process_data;
mod provider;
pub mod sequence;
pub mod shared;
pub mod watchdog;
mod witness;

use std::io::{self, BufRead};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use antedate_wire::ethernet::EtherType;
use antedate_wire::{EthernetAddress, EthernetRepr};
use serde::{Deserialize, Serialize};

use crate::output::Output;
use crate::realtime::{self, Realtime};
use crate::sys::clock::monotonic_ns;
use crate::sys::packet::{self, PacketSocket};
use crate::sys::signal;
use acyclic::Acyclic;
use consumer::{Consumer, Peer};
use controller::{Controller, Wanted};
use cyclic::{Expected, FrameWriter, INPUT_FRAME_ID, OUTPUT_FRAME_ID};
use device::Device;
use meter::{Live, Measured, Meter, Sample};
use provider::Pace;
use shared::{Samples, Shared};
use watchdog::{Event, Watchdog};

/// Controller or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The IO controller.
    Plc,
    /// The IO device.
    Device,
}

/// Options of a station.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Controller or device.
    pub role: Role,
    /// The interface.
    pub interface: String,
    /// The device's name of station: its own, or the one to search for.
    pub device_name: String,
    /// Update time (send clock times reduction ratio) in microseconds.
    pub cycle_us: u32,
    /// Octets of a cyclic frame without frame check sequence, [`cyclic::MIN_FRAME_LEN`] to
    /// [`cyclic::MAX_FRAME_LEN`].
    pub frame_bytes: usize,
    /// Update times without valid data until a bus error.
    pub watchdog_cycles: u32,
    /// Half period of the toggling bit in milliseconds.
    pub toggle_ms: u32,
    /// Seconds of cyclic operation; `None` runs until SIGTERM or until the peer stops.
    pub seconds: Option<f64>,
    /// Seconds to wait for the peer.
    pub patience_seconds: f64,
    /// Microseconds before each due time at which the provider wakes and spins.
    pub spin_us: u32,
    /// Real-time scheduling and locked memory.
    pub realtime: Realtime,
    /// Interval of live lines in milliseconds; 0 for none.
    pub live_ms: u32,
    /// Interval of the device's alarms and of the controller's reads in milliseconds; 0 for none.
    pub acyclic_ms: u32,
}

impl Default for Options {
    /// The values of hohmann2020: 1 ms send clock, reduction ratio 4, 64 octets, 3 update times,
    /// 125 ms.
    fn default() -> Self {
        Self {
            role: Role::Plc,
            interface: "eth0".into(),
            device_name: "io-device".into(),
            cycle_us: 4_000,
            frame_bytes: 64,
            watchdog_cycles: 3,
            toggle_ms: 125,
            seconds: None,
            patience_seconds: 10.0,
            spin_us: 20,
            realtime: Realtime::default(),
            live_ms: 0,
            acyclic_ms: 1_000,
        }
    }
}

/// The shortest update time.
pub const MIN_CYCLE_US: u32 = 250;

/// Why a station could not run.
#[derive(Debug, thiserror::Error)]
pub enum StationError {
    /// An option is out of range.
    #[error("{0}")]
    Option(String),
    /// The socket failed.
    #[error("{interface}: {error}{}", if .error.raw_os_error() == Some(libc::EPERM) { "; a raw socket needs CAP_NET_RAW: run as root" } else { "" })]
    Socket {
        /// The interface.
        interface: String,
        /// The error.
        error: io::Error,
    },
    /// The peer was not found in time.
    #[error("{0}")]
    Alone(String),
}

/// The report of a station. Field names are stable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Controller or device.
    pub role: Role,
    /// The options in force.
    pub options: Options,
    /// Granted real-time measures.
    pub in_force: String,
    /// Seconds of cyclic operation.
    pub seconds: f64,
    /// The peer's address.
    pub peer: String,
    /// Received LLDP announcements.
    pub announcements: u64,
    /// Rising edges made by this station.
    pub edges_made: u16,
    /// The connection: set-up, records, alarms.
    #[serde(default)]
    pub connection: controller::Counts,
    /// All statistics.
    #[serde(flatten)]
    pub measured: Measured,
}

/// A request to a station, as a line of JSON on its standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Stops the histograms of intervals, round trips and one-way times; counters continue.
    FreezeHistograms,
    /// The peer's core, shared with its gateway, was withheld.
    PeerStalled {
        /// Begin in nanoseconds of CLOCK_MONOTONIC.
        from_ns: u64,
        /// End.
        to_ns: u64,
    },
}

/// A line of a station's output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line {
    /// The peer is known; cyclic operation begins.
    Started {
        /// The peer's address.
        peer: String,
        /// Nanoseconds of CLOCK_MONOTONIC.
        at_ns: u64,
    },
    /// The state so far.
    Live(Live),
    /// The watchdog expired.
    BusError {
        /// Time in nanoseconds of CLOCK_MONOTONIC.
        at_ns: u64,
    },
    /// Valid data returned.
    Recovered {
        /// Time in nanoseconds of CLOCK_MONOTONIC.
        at_ns: u64,
        /// Duration of the outage.
        outage_ns: u64,
    },
    /// This station's core was withheld.
    Stalled {
        /// Begin in nanoseconds of CLOCK_MONOTONIC.
        from_ns: u64,
        /// End.
        to_ns: u64,
    },
    /// The end.
    Result(Box<Report>),
}

impl Options {
    fn check(&self) -> Result<(), StationError> {
        let complain = |text: String| Err(StationError::Option(text));
        if !(MIN_CYCLE_US..=512_000).contains(&self.cycle_us) {
            return complain(format!(
                "an update time of {} µs: {MIN_CYCLE_US} to 512000 are possible",
                self.cycle_us
            ));
        }
        if !(cyclic::MIN_FRAME_LEN..=cyclic::MAX_FRAME_LEN).contains(&self.frame_bytes) {
            return complain(format!(
                "a cyclic frame of {} bytes: {} to {} are possible (Profinet allows 1440 bytes of IO data)",
                self.frame_bytes,
                cyclic::MIN_FRAME_LEN,
                cyclic::MAX_FRAME_LEN
            ));
        }
        if self.watchdog_cycles == 0 || self.toggle_ms == 0 {
            return complain("watchdog_cycles and toggle_ms must not be 0".into());
        }
        Ok(())
    }

    fn cycle_ns(&self) -> u64 {
        u64::from(self.cycle_us) * 1_000
    }
}

/// Runs a station to its end. Writes lines to `output` as they arise, the report last.
pub fn run(options: Options, output: &mut Output) -> Result<Report, StationError> {
    options.check()?;
    let failed = |error| StationError::Socket { interface: options.interface.clone(), error };
    let socket = PacketSocket::open(&options.interface, packet::Options::default()).map_err(failed)?;
    for group in [discovery::IDENTIFY_GROUP, EthernetAddress::LLDP_NEAREST_BRIDGE] {
        socket.join(&options.interface, group.0).map_err(failed)?;
    }
    let own = EthernetAddress(socket.address());
    let now = monotonic_ns();
    // Number of this start of the controller; never 0xffff, which forgeries use.
    let run = (now ^ (now >> 16) ^ u64::from(std::process::id())) as u16 & 0x7fff;
    let acyclic_ns = u64::from(options.acyclic_ms) * 1_000_000;
    let (acyclic, frame_id, expected_run) = match options.role {
        Role::Plc => {
            let wanted = Wanted {
                cycle_us: options.cycle_us,
                frame_bytes: options.frame_bytes,
                data_hold: u16::try_from(options.watchdog_cycles).unwrap_or(u16::MAX),
                read_every_ns: acyclic_ns,
            };
            let controller = Controller::new(own, options.device_name.clone(), now as u32, wanted);
            (Acyclic::Controller(Box::new(controller)), INPUT_FRAME_ID, Some(run))
        }
        Role::Device => {
            let device = Device::new(own, options.device_name.clone(), acyclic_ns);
            (Acyclic::Device(Box::new(device), controller::Counts::default()), OUTPUT_FRAME_ID, None)
        }
    };
    let in_force = options.realtime.lock_memory();
    let shared = Shared::default();
    let (samples, queue) = Samples::channel(&shared);
    let (found, peer) = channel();
    let consumed = AtomicBool::new(false);
    let consumer = Consumer {
        socket: &socket,
        expected: Expected { peer: None, frame_id, cycle_us: options.cycle_us },
        run: expected_run,
        acyclic,
        watchdog: Watchdog::new(options.cycle_ns() * u64::from(options.watchdog_cycles)),
        shared: &shared,
        samples: samples.clone(),
        found,
    };
    std::thread::scope(|scope| {
        let (started, scheduling) = channel();
        let realtime = options.realtime.clone();
        let consuming = scope.spawn({
            let consumed = &consumed;
            move || {
                // The receiver is gone if the station failed.
                let _ = started.send(realtime.apply(realtime::Thread::Consumer));
                consumer.consume(|| consumed.load(Ordering::Relaxed))
            }
        });
        let station = Station { options: &options, socket: &socket, own, shared: &shared, queue, samples };
        let result = station.operate(run, &peer, output).map(|mut report| {
            let scheduling: Vec<String> = scheduling.try_iter().chain([in_force.clone()]).collect();
            report.in_force = scheduling.join(", ");
            report
        });
        consumed.store(true, Ordering::Relaxed);
        match consuming.join() {
            Ok(Ok(())) => result,
            Ok(Err(error)) => result.and(Err(failed(error))),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The ordinary thread of a station: discovery, statistics, end.
struct Station<'a> {
    options: &'a Options,
    socket: &'a PacketSocket,
    own: EthernetAddress,
    shared: &'a Shared,
    queue: Receiver<Sample>,
    samples: Samples<'a>,
}

impl Station<'_> {
    fn operate(&self, run: u16, peer: &Receiver<Peer>, output: &mut Output) -> Result<Report, StationError> {
        self.announce();
        let Peer { address, run: peer_run } = self.find(peer)?;
        let (to_id, run) = match self.options.role {
            Role::Plc => (OUTPUT_FRAME_ID, run),
            Role::Device => (INPUT_FRAME_ID, peer_run),
        };
        let began = monotonic_ns();
        output.line(&Line::Started { peer: address.to_string(), at_ns: began });
        let ethernet = EthernetRepr { dst_addr: address, src_addr: self.own, ethertype: EtherType::Profinet };
        let frame = FrameWriter::new(ethernet, to_id, self.options.frame_bytes, self.options.cycle_us)
            .ok_or_else(|| StationError::Option("the frame length is impossible".into()))?;
        let cycle_ns = self.options.cycle_ns();
        let pace = Pace {
            cycle_ns,
            spin_ns: u64::from(self.options.spin_us) * 1_000,
            // The device sends half a cycle after the controller, so frames do not collide.
            first_ns: match self.options.role {
                Role::Plc => began + cycle_ns,
                Role::Device => self.shared.last_received().map_or(began, |(_, at)| at) + cycle_ns / 2,
            },
            toggle_ns: u64::from(self.options.toggle_ms) * 1_000_000,
        };
        let provided = AtomicBool::new(false);
        let measured = std::thread::scope(|scope| {
            let (options, socket, shared) = (self.options, self.socket, self.shared);
            let (samples, provided) = (self.samples.clone(), &provided);
            let provider = scope.spawn(move || {
                options.realtime.apply(realtime::Thread::Provider);
                provider::provide(socket, frame, run, pace, shared, &samples);
                provided.store(true, Ordering::Relaxed);
            });
            let samples = self.samples.clone();
            scope.spawn(move || {
                options.realtime.apply(realtime::Thread::Provider);
                witness::watch(options.cycle_ns(), shared, &samples);
            });
            let measured = self.measure(began, provided, output);
            if let Err(panic) = provider.join() {
                std::panic::resume_unwind(panic);
            }
            measured
        });
        Ok(Report {
            role: self.options.role,
            options: self.options.clone(),
            in_force: String::new(),
            seconds: (monotonic_ns() - began) as f64 / 1e9,
            peer: address.to_string(),
            announcements: self.shared.announcements.load(Ordering::Relaxed),
            edges_made: self.shared.edges_made.load(Ordering::Relaxed),
            connection: self.shared.connection(),
            measured,
        })
    }

    /// Waits for the peer: the controller until its connection is set up, the device until the
    /// controller's first frame.
    fn find(&self, peer: &Receiver<Peer>) -> Result<Peer, StationError> {
        let patience = Duration::from_secs_f64(self.options.patience_seconds.max(0.0));
        let deadline = monotonic_ns() + patience.as_nanos() as u64;
        while monotonic_ns() < deadline && !signal::stopping() {
            if let Ok(peer) = peer.recv_timeout(Duration::from_millis(20)) {
                return Ok(peer);
            }
        }
        Err(StationError::Alone(match self.options.role {
            Role::Plc => format!(
                "no connection to the station `{}` on {} in {:.1} s",
                self.options.device_name, self.options.interface, self.options.patience_seconds
            ),
            Role::Device => format!(
                "no controller sent cyclic data on {} in {:.1} s",
                self.options.interface, self.options.patience_seconds
            ),
        }))
    }

    fn announce(&self) {
        if let Some(frame) = discovery::announcement(self.own, self.name()) {
            let _ = self.socket.send(&frame);
        }
    }

    fn name(&self) -> &str {
        match self.options.role {
            Role::Plc => "plc",
            Role::Device => &self.options.device_name,
        }
    }

    /// Feeds the meter until the provider has ended.
    fn measure(&self, began: u64, provided: &AtomicBool, output: &mut Output) -> Measured {
        let mut meter = Meter::new(self.options.cycle_ns());
        let end = self.options.seconds.map(|seconds| began + (seconds * 1e9) as u64);
        let live_ns = u64::from(self.options.live_ms) * 1_000_000;
        let mut next_live = began + live_ns;
        let mut next_announcement = began + discovery::ANNOUNCE_SECONDS * 1_000_000_000;
        let mut stopped_at = None;
        let requests = read_requests();
        loop {
            let finished = provided.load(Ordering::Relaxed);
            for sample in self.queue.try_iter() {
                tell(&sample, output);
                // Samples after the stop are ignored.
                if stopped_at.is_none_or(|at| arrived_before(&sample, at)) {
                    meter.apply(sample);
                }
            }
            for request in requests.try_iter() {
                match request {
                    Request::FreezeHistograms => meter.freeze(),
                    Request::PeerStalled { from_ns, to_ns } => meter.note_stall(from_ns, to_ns),
                }
            }
            if finished {
                break;
            }
            let now = monotonic_ns();
            if stopped_at.is_none() {
                let over = end.is_some_and(|end| now >= end) || signal::stopping();
                if over || self.shared.peer_stopped.load(Ordering::Relaxed) {
                    self.shared.stop.store(true, Ordering::Relaxed);
                    stopped_at = Some(now);
                    meter.end(now);
                }
            }
            if live_ns > 0 && now >= next_live {
                next_live += live_ns;
                output.line(&Line::Live(meter.live()));
            }
            if now >= next_announcement {
                next_announcement += discovery::ANNOUNCE_SECONDS * 1_000_000_000;
                self.announce();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        meter.set_dropped(self.shared.dropped());
        meter.measured()
    }
}

/// Reads requests on a thread that may block.
fn read_requests() -> Receiver<Request> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(request) if sender.send(request).is_ok() => {}
                Ok(_) => break,
                Err(error) => eprintln!("error: not a request: {error}"),
            }
        }
    });
    receiver
}

fn arrived_before(sample: &Sample, at: u64) -> bool {
    match sample {
        Sample::Frame { at_ns, .. } | Sample::Watchdog { at_ns, .. } => *at_ns < at,
        _ => true,
    }
}

fn tell(sample: &Sample, output: &mut Output) {
    match *sample {
        Sample::Watchdog { at_ns, event: Event::BusError { .. } } => output.line(&Line::BusError { at_ns }),
        Sample::Watchdog { at_ns, event: Event::Recovered { outage_ns } } => {
            output.line(&Line::Recovered { at_ns, outage_ns });
        }
        Sample::Stalled { from_ns, to_ns } => output.line(&Line::Stalled { from_ns, to_ns }),
        _ => {}
    }
}
