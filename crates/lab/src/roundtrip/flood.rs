//! A flood: equal frames at a fixed rate, several to a system call.

use antedate_wire::EthernetAddress;
use serde::{Deserialize, Serialize};

use super::{Kind, MIN_FRAME_LEN};
use crate::output::Output;
use crate::realtime::{Realtime, Thread};
use crate::station::StationError;
use crate::sys::clock::monotonic_ns;
use crate::sys::packet::{self, BURST, PacketSocket};
use crate::sys::{sched, signal};

/// Options of a flood.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The interface.
    pub interface: String,
    /// The receiver's address.
    pub destination: String,
    /// Form of the frames.
    pub kind: Kind,
    /// Octets of a frame without frame check sequence, [`MIN_FRAME_LEN`] to [`Kind::max_frame_len`].
    pub frame_bytes: usize,
    /// Frames a second; 0: as many as this thread can send.
    pub rate: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Scheduling.
    pub realtime: Realtime,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interface: "eth0".into(),
            destination: "02:00:5e:00:00:02".into(),
            kind: Kind::default(),
            frame_bytes: 64,
            rate: 0,
            seconds: 1.0,
            realtime: Realtime::default(),
        }
    }
}

/// Result of a flood. Field names are stable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Frames that the kernel took.
    pub sent: u64,
    /// Frames that it refused.
    pub refused: u64,
    /// Octets of a frame.
    pub frame_bytes: usize,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Floods for the given time, or until SIGTERM.
pub fn run(options: Options, _output: &mut Output) -> Result<Report, StationError> {
    let failed = |error| StationError::Socket { interface: options.interface.clone(), error };
    let longest = options.kind.max_frame_len();
    if !(MIN_FRAME_LEN..=longest).contains(&options.frame_bytes) {
        let text =
            format!("a frame of {} bytes: {MIN_FRAME_LEN} to {longest} are possible", options.frame_bytes);
        return Err(StationError::Option(text));
    }
    if !(options.seconds > 0.0 && options.seconds <= 3600.0) {
        return Err(StationError::Option(format!(
            "{} seconds: more than 0 to 3600 are possible",
            options.seconds
        )));
    }
    let to: EthernetAddress = options.destination.parse().map_err(|_| {
        StationError::Option(format!("`{}` is no MAC address (02:00:5e:00:00:02)", options.destination))
    })?;
    let socket = PacketSocket::open(&options.interface, packet::Options::default()).map_err(failed)?;
    socket.bypass_queue().map_err(failed)?;
    let frame = options
        .kind
        .request(EthernetAddress(socket.address()), to, options.frame_bytes)
        .ok_or_else(|| StationError::Option("the frame length is impossible".into()))?;
    options.realtime.apply(Thread::Consumer);

    let mut report = Report { frame_bytes: options.frame_bytes, ..Report::default() };
    let begin = monotonic_ns();
    let end = (options.seconds * 1e9) as u64;
    loop {
        let passed = monotonic_ns() - begin;
        report.seconds = passed as f64 / 1e9;
        if passed >= end || signal::stopping() {
            return Ok(report);
        }
        let tried = report.sent + report.refused;
        match due(options.rate, passed).saturating_sub(tried).min(BURST as u64) as usize {
            0 => sched::yield_now(),
            count => {
                // A frame that the kernel refuses is not tried again: the next ones are equal.
                let sent = socket.send_copies(&frame, count) as u64;
                report.sent += sent;
                report.refused += count as u64 - sent;
            }
        }
    }
}

/// Frames that are to be sent after so many nanoseconds.
fn due(rate: u64, passed_ns: u64) -> u64 {
    if rate == 0 { u64::MAX } else { (u128::from(rate) * u128::from(passed_ns) / 1_000_000_000) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_due_at_their_rate() {
        assert_eq!(due(1000, 0), 0);
        assert_eq!(due(1000, 1_000_000), 1);
        assert_eq!(due(1_000_000, 3_600_000_000_000), 3_600_000_000);
        assert_eq!(due(0, 0), u64::MAX);
    }
}
