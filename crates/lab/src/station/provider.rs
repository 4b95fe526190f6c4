//! The provider: one frame every update time, on an absolute grid.

use std::sync::atomic::Ordering;

use super::cyclic::FrameWriter;
use super::edges::Toggler;
use super::meter::Sample;
use super::process_data::{Echo, ProcessData};
use super::shared::{Samples, Shared};
use crate::sys::clock::{monotonic_ns, pace_until};
use crate::sys::packet::PacketSocket;

/// Frames with the stop flag at the end; a single one could be lost.
const GOODBYES: u32 = 3;

/// Timing of frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The update time.
    pub(super) cycle_ns: u64,
    /// Time before each due time at which the thread wakes and spins.
    pub(super) spin_ns: u64,
    /// When the first frame is due.
    pub(super) first_ns: u64,
    /// Half the period of the toggling bit.
    pub(super) toggle_ns: u64,
}

/// Sends until told to stop, then announces the stop.
pub(super) fn provide(
    socket: &PacketSocket,
    mut frame: FrameWriter,
    run: u16,
    pace: Pace,
    shared: &Shared,
    samples: &Samples<'_>,
) {
    let mut toggler = Toggler::new(pace.toggle_ns);
    let mut data = ProcessData { run, ..ProcessData::default() };
    let mut due = pace.first_ns;
    let mut goodbyes = 0;
    while goodbyes < GOODBYES {
        if pace_until(due, pace.spin_ns) < due {
            continue;
        }
        data.stopping = shared.stop.load(Ordering::Relaxed);
        goodbyes += u32::from(data.stopping);
        data.sent_ns = monotonic_ns();
        (data.toggle, data.edges) = toggler.at(data.sent_ns);
        data.echo = shared.last_received().map(|(sent_ns, at_ns)| Echo {
            sent_ns,
            residence_ns: u32::try_from(data.sent_ns.saturating_sub(at_ns)).unwrap_or(u32::MAX),
        });
        data.consuming = shared.consuming.load(Ordering::Relaxed);
        match socket.send(frame.write(&data)) {
            Ok(()) => samples.push(Sample::Sent {
                at_ns: data.sent_ns,
                late_ns: data.sent_ns - due,
                took_ns: monotonic_ns().saturating_sub(data.sent_ns),
            }),
            Err(_) => samples.push(Sample::SendFailed),
        }
        shared.edges_made.store(data.edges, Ordering::Relaxed);
        data.sequence = data.sequence.wrapping_add(1);
        due += pace.cycle_ns;
        let now = monotonic_ns();
        if now >= due + pace.cycle_ns {
            // Past cycles are skipped: no burst.
            let skipped = (now - due) / pace.cycle_ns;
            due += skipped * pace.cycle_ns;
            samples.push(Sample::Skipped(skipped));
        }
    }
}
