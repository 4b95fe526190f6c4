//! The untrusted wire as a program: forwards frames between two interfaces, with the faults of an
//! attacker or a bad cable.
//!
//! - [`schedule`]: the frames that a fault strikes,
//! - [`fault`]: its effect on a frame,
//! - [`direction`]: one direction, without I/O,
//! - this file: sockets, a thread per direction, commands.
//!
//! Each line of standard input is a [`Command`] in JSON. A line [`Line::State`] with all counters
//! answers it.

pub mod direction;
pub mod fault;
pub mod schedule;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use antedate_wire::profinet::FrameId;
use serde::{Deserialize, Serialize};

use crate::output::Output;
use crate::realtime::{Realtime, Thread};
use crate::station::StationError;
use crate::station::cyclic::{INPUT_FRAME_ID, OUTPUT_FRAME_ID};
use crate::sys::clock::monotonic_ns;
use crate::sys::packet::{self, PacketSocket, VNET_HEADER_LEN};
use crate::sys::{sched, signal};
use direction::{Direction, Frame, Setting};
use fault::Fault;

/// Options of the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Interface of gateway A, the controller's side.
    pub a: String,
    /// Interface of gateway B, the device's side.
    pub b: String,
    /// Initial rate in Mbit/s; 0: no limit.
    pub rate_mbit: u32,
    /// Seed of the faults' schedule.
    pub seed: u64,
    /// Scheduling of the thread from A to B.
    pub a_to_b: Realtime,
    /// Scheduling of the thread from B to A.
    pub b_to_a: Realtime,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            a: "a".into(),
            b: "b".into(),
            rate_mbit: 0,
            seed: 1,
            a_to_b: Realtime::default(),
            b_to_a: Realtime::default(),
        }
    }
}

/// A new setting of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Command {
    /// The fault, if any.
    pub fault: Option<Fault>,
    /// The fault strikes one frame in this many of each direction.
    pub every: u32,
    /// Delay of a delayed frame in microseconds.
    pub delay_us: u32,
    /// The cable is cut.
    pub cut: bool,
    /// Rate in Mbit/s; 10, 100 and 1000 are those of Ethernet; 0: no limit.
    pub rate_mbit: u32,
}

impl Default for Command {
    fn default() -> Self {
        Self { fault: None, every: 50, delay_us: 500, cut: false, rate_mbit: 0 }
    }
}

/// A line of the wire's output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line {
    /// Forwarding has started.
    Ready,
    /// The answer to a command.
    State(State),
    /// The end.
    Result(State),
}

/// Counters of both directions. Field names are stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// From gateway A to gateway B.
    pub a_to_b: Counts,
    /// From gateway B to gateway A.
    pub b_to_a: Counts,
}

/// Counters of one direction. Field names are stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Received frames.
    pub received: u64,
    /// Forwarded frames.
    pub forwarded: u64,
    /// Frames dropped by the cut cable.
    pub cut: u64,
    /// Frames dropped by a full queue.
    #[serde(default)]
    pub overflowed: u64,
    /// Frames that the kernel refused.
    pub send_errors: u64,
    /// Strikes by the fault's name.
    pub faults: BTreeMap<String, u64>,
}

/// Forwards until SIGTERM.
pub fn run(options: Options, output: &mut Output) -> Result<Line, StationError> {
    let open = |interface: &String| {
        let socket_options =
            packet::Options { promiscuous: true, metadata: true, vnet_header: true, ..Default::default() };
        PacketSocket::open(interface, socket_options)
            .map_err(|error| StationError::Socket { interface: interface.clone(), error })
    };
    let (a, b) = (open(&options.a)?, open(&options.b)?);
    let to_b = Lane::new(&a, &b, options.seed, OUTPUT_FRAME_ID);
    let to_a = Lane::new(&b, &a, options.seed ^ 0x5555, INPUT_FRAME_ID);
    for lane in [&to_b, &to_a] {
        lane.lock().direction.set(Setting { rate_mbit: options.rate_mbit, ..Setting::default() });
    }
    std::thread::scope(|scope| {
        let threads =
            [scope.spawn(|| to_b.forward(&options.a_to_b)), scope.spawn(|| to_a.forward(&options.b_to_a))];
        output.line(&Line::Ready);
        let commands = read_commands();
        while !signal::stopping() && !threads.iter().any(std::thread::ScopedJoinHandle::is_finished) {
            let Ok(command) = commands.recv_timeout(Duration::from_millis(20)) else { continue };
            let setting = Setting {
                fault: command.fault,
                every: command.every,
                delay_ns: u64::from(command.delay_us) * 1_000,
                cut: command.cut,
                rate_mbit: command.rate_mbit,
            };
            to_b.lock().direction.set(setting);
            to_a.lock().direction.set(setting);
            output.line(&Line::State(State { a_to_b: to_b.counts(), b_to_a: to_a.counts() }));
        }
        signal::stop();
        for thread in threads {
            match thread.join() {
                Ok(result) => {
                    result.map_err(|error| StationError::Socket { interface: options.a.clone(), error })?
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(Line::Result(State { a_to_b: to_b.counts(), b_to_a: to_a.counts() }))
    })
}

/// Reads commands on a thread that may block. Invalid lines are reported and skipped.
fn read_commands() -> Receiver<Command> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(command) if sender.send(command).is_ok() => {}
                Ok(_) => break,
                Err(error) => eprintln!("error: not a command: {error}"),
            }
        }
    });
    receiver
}

/// A thread spins this long before a frame is due, since a core takes as long to wake.
const SPIN_NS: u64 = 60_000;

/// A direction with its sockets.
struct Lane<'a> {
    from: &'a PacketSocket,
    to: &'a PacketSocket,
    state: Mutex<LaneState>,
}

struct LaneState {
    direction: Direction,
    send_errors: u64,
}

impl<'a> Lane<'a> {
    fn new(from: &'a PacketSocket, to: &'a PacketSocket, seed: u64, forged_id: FrameId) -> Self {
        let state = LaneState { direction: Direction::new(seed, forged_id), send_errors: 0 };
        Self { from, to, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, LaneState> {
        // A panic of the other thread ends the process.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> Counts {
        let state = self.lock();
        let counts = state.direction.counts();
        Counts {
            received: counts.received,
            forwarded: counts.forwarded,
            cut: counts.cut,
            overflowed: counts.overflowed,
            send_errors: state.send_errors,
            faults: counts.faults.iter().map(|(fault, n)| (fault.name().to_owned(), *n)).collect(),
        }
    }

    fn forward(&self, realtime: &Realtime) -> std::io::Result<()> {
        realtime.apply(Thread::Consumer);
        let mut buffer = vec![0; VNET_HEADER_LEN + (1 << 17)];
        let mut out = Vec::with_capacity(2_048);
        while !signal::stopping() {
            let wait = self.lock().direction.next_due_ns();
            let wait = wait.map_or(20_000_000, |due| due.saturating_sub(monotonic_ns()).min(20_000_000));
            if wait > SPIN_NS {
                self.from.wait(wait - SPIN_NS)?;
            } else {
                sched::yield_now();
            }
            let received = self.from.receive_with_metadata(&mut buffer)?;
            let now = monotonic_ns();
            let mut state = self.lock();
            if let Some(received) = received
                && let Some(frame) = whole_frame(&buffer[..received.len], received.vlan)
            {
                state.direction.frame(now, frame);
            }
            while let Some(frame) = state.direction.due(now) {
                out.clear();
                out.extend_from_slice(&frame.offloads);
                out.extend_from_slice(&frame.octets);
                if self.to.send(&out).is_err() {
                    state.send_errors += 1;
                }
            }
        }
        Ok(())
    }
}

/// Reinserts the VLAN tag that the kernel removed, and moves the checksum's offset.
fn whole_frame(octets: &[u8], vlan: Option<(u16, u16)>) -> Option<Frame> {
    let (header, frame) = octets.split_first_chunk::<VNET_HEADER_LEN>()?;
    let mut offloads = *header;
    let Some((tpid, tci)) = vlan else {
        return Some(Frame { offloads: plain_if_finished(offloads), octets: frame.to_vec() });
    };
    let (addresses, rest) = frame.split_at_checked(12)?;
    let tag = [tpid.to_be_bytes(), tci.to_be_bytes()].concat();
    // struct virtio_net_hdr in native order: flags, gso_type, hdr_len, gso_size, csum_start,
    // csum_offset.
    for at in [2, 6] {
        let value = u16::from_ne_bytes([offloads[at], offloads[at + 1]]);
        if value != 0 {
            offloads[at..at + 2].copy_from_slice(&(value + 4).to_ne_bytes());
        }
    }
    Some(Frame { offloads: plain_if_finished(offloads), octets: [addresses, &tag, rest].concat() })
}

/// Clears a header without an unfinished checksum or segmentation (it may report a checked
/// checksum).
fn plain_if_finished(offloads: [u8; VNET_HEADER_LEN]) -> [u8; VNET_HEADER_LEN] {
    const NEEDS_CHECKSUM: u8 = 1;
    if offloads[0] & NEEDS_CHECKSUM == 0 && offloads[1] == 0 { [0; VNET_HEADER_LEN] } else { offloads }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlan_tag_reinsertion_moves_checksum() {
        let mut octets = vec![0; VNET_HEADER_LEN];
        octets[0] = 1;
        octets[6..8].copy_from_slice(&34_u16.to_ne_bytes());
        octets.extend([[1; 6], [2; 6]].concat());
        octets.extend([0x08, 0x00, 0x45]);
        let frame = whole_frame(&octets, Some((0x8100, 0xc000))).unwrap();
        assert_eq!(frame.octets[12..], [0x81, 0x00, 0xc0, 0x00, 0x08, 0x00, 0x45]);
        assert_eq!(frame.offloads[6..8], 38_u16.to_ne_bytes());
        assert_eq!(frame.offloads[2..4], [0, 0]);
    }

    #[test]
    fn a_frame_without_offloads_is_plain() {
        let mut octets = vec![0; VNET_HEADER_LEN + 20];
        octets[0] = 2;
        assert_eq!(whole_frame(&octets, None).unwrap().offloads, [0; VNET_HEADER_LEN]);
        assert!(whole_frame(&octets[..5], None).is_none());
    }

    #[test]
    fn a_command_may_name_only_what_changes() {
        let command: Command = serde_json::from_str(r#"{"fault":"foreign-key","every":20}"#).unwrap();
        assert_eq!((command.fault, command.every, command.cut), (Some(Fault::ForeignKey), 20, false));
        assert!(serde_json::from_str::<Command>(r#"{"fualt":"lose"}"#).is_err());
    }
}
