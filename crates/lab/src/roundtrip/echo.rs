//! The responder: returns every request at once.

use serde::{Deserialize, Serialize};

use super::Kind;
use crate::output::Output;
use crate::realtime::{Realtime, Thread};
use crate::station::StationError;
use crate::sys::packet::{self, PacketSocket};
use crate::sys::{sched, signal};

/// Options of the responder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The interface.
    pub interface: String,
    /// Form of requests.
    pub kind: Kind,
    /// Polls and yields the core instead of sleeping on the socket.
    pub poll: bool,
    /// Scheduling.
    pub realtime: Realtime,
}

/// Result of the responder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Requests answered.
    pub answered: u64,
    /// Granted real-time measures.
    pub in_force: String,
}

/// Answers until SIGTERM. Writes the line `{"ready":true}` when it listens.
pub fn run(options: Options, output: &mut Output) -> Result<Report, StationError> {
    let failed = |error| StationError::Socket { interface: options.interface.clone(), error };
    let protocol = options.kind.ethertype().number();
    let socket_options =
        packet::Options { protocol, receive_timeout_us: 100_000, ..packet::Options::default() };
    let socket = PacketSocket::open(&options.interface, socket_options).map_err(failed)?;
    let memory = options.realtime.lock_memory();
    let mut report =
        Report { answered: 0, in_force: format!("{}, {memory}", options.realtime.apply(Thread::Consumer)) };
    output.line(&serde_json::json!({ "ready": true }));
    let mut buffer = vec![0; 2048];
    while !signal::stopping() {
        match socket.receive(&mut buffer, !options.poll).map_err(failed)? {
            Some(len) => {
                let frame = &mut buffer[..len];
                // A refused frame is lost, and the meter counts it.
                if options.kind.answer(frame) && socket.send(frame).is_ok() {
                    report.answered += 1;
                }
            }
            None if options.poll => sched::yield_now(),
            None => {}
        }
    }
    Ok(report)
}
