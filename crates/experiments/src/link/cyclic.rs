//! Cyclic frames over a link, one per millisecond, alone or beside bulk.

use crate::{ExperimentError, failed};
use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use super::stalls::Stalls;
use super::{BULK, COUNT, CYCLIC, ENDS, Link, STAMP, TIME, frame, lock};
use antedate_lab::emulator::direction::{Direction, Frame, Setting};
use antedate_lab::histogram::Times;
use antedate_lab::station::cyclic::OUTPUT_FRAME_ID;
use antedate_lab::sys::clock::{monotonic_ns, realtime_ns, sleep_until};
use antedate_lab::sys::packet::{Options, PacketSocket};
use antedate_lab::sys::sched;

/// Interval of cyclic frames.
const CYCLE_NS: u64 = 1_000_000;
/// Number of cyclic frames in a burst.
const BURST: u64 = 600;
/// Octets of a cyclic frame, and of a protected one with an explicit SCI.
const LEN: usize = 64;
const PROTECTED: usize = LEN + 32;
/// Octets of kernel buffer for the frames of a burst.
const BUFFER: usize = 128 << 20;

/// Send and receive times of the frames that arrived, by the monotonic clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crossings(pub(crate) Vec<(u64, u64)>);

impl Crossings {
    /// Times of frames without a stall of the machine, and the number of the others.
    pub(crate) fn without(&self, stalls: &Stalls) -> (Times, u64) {
        let (mut times, mut struck) = (Times::default(), 0);
        for &(sent, came) in &self.0 {
            if stalls.struck(sent, came) {
                struck += 1;
            } else {
                times.record(came.saturating_sub(sent));
            }
        }
        (times, struck)
    }

    /// Times of all frames.
    pub(crate) fn all(&self) -> Times {
        self.without(&Stalls::default()).0
    }
}

/// Frames over a wire of a known rate.
#[derive(Clone, Debug, Default)]
pub(crate) struct OnWire {
    /// Cyclic frames, from the sender to the last bit on the wire.
    pub(crate) cyclic: Crossings,
    /// Cyclic frames that found the queue of the wire full.
    pub(crate) dropped: u64,
    /// Octets of all other frames that crossed during the cyclic ones.
    pub(crate) bulk_octets: u64,
}

/// A frame as the kernel saw it leave the gateway: nanoseconds since 1970, octets.
type Seen = (u64, usize);

impl Link {
    /// Sends cyclic frames from one machine to the other.
    pub(crate) fn cyclic(&self, count: u64) -> Result<Crossings, ExperimentError> {
        lock(&self.far.crossings).clear();
        self.send_cyclic(count, false, || Ok(()))?;
        thread::sleep(Duration::from_millis(50));
        Ok(Crossings(lock(&self.far.crossings).clone()))
    }

    /// Sends cyclic frames, alone or beside full bulk, and times them to the end of a wire of this
    /// rate.
    ///
    /// The wire is computed, since a thread for it would need another core: the kernel's time stamp
    /// of each frame that the gateway hands over is its arrival at the wire, and the rate gives its
    /// end.
    pub(crate) fn cyclic_on_wire(
        &self,
        count: u64,
        bulk: bool,
        rate_mbit: u32,
    ) -> Result<OnWire, ExperimentError> {
        let wire = self.chain.wire.as_ref().ok_or("there is no wire")?;
        let options =
            Options { promiscuous: true, metadata: true, receive_buffer: BUFFER, ..Options::default() };
        let tap = wire.run(|| PacketSocket::open("a", options)).and_then(|socket| socket).map_err(failed)?;
        let mut seen = Vec::new();
        let sent = self.send_cyclic(count, bulk, || drain(&tap, &mut seen))?;
        drain(&tap, &mut seen)?;
        let protected = seen.iter().filter(|(_, len)| *len == PROTECTED).count();
        if protected != sent.len() {
            return Err(format!("of {} cyclic frames {protected} left the gateway", sent.len()).into());
        }
        Ok(cross(&sent, &seen, rate_mbit))
    }

    /// Sends cyclic frames. Returns the send times by the monotonic clock and by the clock of the
    /// kernel's time stamps.
    fn send_cyclic(
        &self,
        count: u64,
        bulk: bool,
        mut pause: impl FnMut() -> Result<(), ExperimentError>,
    ) -> Result<Vec<(u64, u64)>, ExperimentError> {
        let _ = sched::fifo(ENDS);
        sched::tighten_timers();
        let (mut cyclic, full) = (frame(&CYCLIC, LEN, TIME), frame(&BULK, 1514, COUNT));
        let mut sent = Vec::with_capacity(count as usize);
        let mut due = monotonic_ns();
        for number in 0..count {
            if number % BURST == 0 {
                // The kernel throttles fixed-priority threads that never sleep.
                thread::sleep(Duration::from_millis(200));
                pause()?;
                due = monotonic_ns();
            }
            due += CYCLE_NS;
            while bulk && monotonic_ns() + 20_000 < due {
                // Twice the wire's rate; the excess is dropped.
                self.plc.send(&full).map_err(failed)?;
                sleep_until(monotonic_ns() + 60_000);
            }
            // Spinning at this priority would keep the gateway from the core.
            sleep_until(due);
            let now = monotonic_ns();
            sent.push((now, realtime_ns()));
            cyclic[STAMP].copy_from_slice(&now.to_be_bytes());
            self.plc.send(&cyclic).map_err(failed)?;
        }
        thread::sleep(Duration::from_millis(200));
        Ok(sent)
    }
}

fn drain(tap: &PacketSocket, seen: &mut Vec<Seen>) -> Result<(), ExperimentError> {
    let mut buffer = vec![0; 16 * 1024];
    while let Some(received) = tap.receive_with_metadata(&mut buffer).map_err(failed)? {
        seen.push((received.realtime_ns, received.len));
    }
    match tap.take_drops() {
        0 => Ok(()),
        drops => Err(format!("{drops} frames on the wire were not seen").into()),
    }
}

/// Models a wire of this rate with the queue of the emulated one.
fn cross(sent: &[(u64, u64)], seen: &[Seen], rate_mbit: u32) -> OnWire {
    let mut wire = Direction::new(1, OUTPUT_FRAME_ID);
    wire.set(Setting { rate_mbit, ..Setting::default() });
    let mut on_wire = OnWire::default();
    let mut cyclic = sent.iter();
    // Frames in front of the wire, in order: octets, and the send time of cyclic ones.
    let mut waiting: VecDeque<(usize, Option<(u64, u64)>)> = VecDeque::new();
    // Arrival of the last cyclic frame at the wire. Frames that cross after the next one was due
    // are not beside it.
    let mut latest = 0;
    let pass =
        |wire: &mut Direction, waiting: &mut VecDeque<_>, until: u64, latest: u64, on_wire: &mut OnWire| {
            while let Some(due) = wire.next_due_ns().filter(|due| *due <= until) {
                let _ = wire.due(due);
                match waiting.pop_front() {
                    Some((_, Some((monotonic, realtime)))) => {
                        on_wire.cyclic.0.push((monotonic, monotonic + due.saturating_sub(realtime)));
                    }
                    Some((len, None)) if due < latest + 2 * CYCLE_NS => on_wire.bulk_octets += len as u64,
                    _ => {}
                }
            }
        };
    for &(at, len) in seen {
        pass(&mut wire, &mut waiting, at, latest, &mut on_wire);
        let stamp = if len == PROTECTED { cyclic.next().copied() } else { None };
        latest = if stamp.is_some() { at } else { latest };
        let before = wire.counts().overflowed;
        wire.frame(at, Frame::from(vec![0; len]));
        if wire.counts().overflowed == before {
            waiting.push_back((len, stamp));
        } else {
            on_wire.dropped += u64::from(stamp.is_some());
        }
    }
    pass(&mut wire, &mut waiting, u64::MAX, latest, &mut on_wire);
    on_wire
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cyclic_frame_waits_for_the_wire() {
        // At 100 Mbit/s a full frame takes 125 µs from 1 µs on; the cyclic frame comes 10 µs later
        // and takes 9.6.
        let (full, own) = ((1546 + 24) * 80, (96 + 24) * 80);
        let seen = [(1_000, 1546), (11_000, PROTECTED), (1_000_000, PROTECTED)];
        let on_wire = cross(&[(70, 10_000), (900, 999_000)], &seen, 100);
        let times = [1_000 + full + own - 10_000, 1_000 + own];
        assert_eq!(on_wire.cyclic.0, [(70, 70 + times[0]), (900, 900 + times[1])]);
        assert_eq!((on_wire.dropped, on_wire.bulk_octets), (0, 1546));
    }

    #[test]
    fn bulk_counts_beside_cyclic_frames_only() {
        // 33 ms of full frames are in front of the wire when the last cyclic one comes; two of them
        // are beside it.
        let seen: Vec<_> = [(0, PROTECTED)].into_iter().chain((0..260).map(|_| (1_000, 1546))).collect();
        let on_wire = cross(&[(0, 0)], &seen, 100);
        assert_eq!(on_wire.bulk_octets, 15 * 1546);
    }

    #[test]
    fn queue_overflow_is_counted() {
        let seen: Vec<_> = (0..2_000).map(|_| (0, 1546)).chain([(1, PROTECTED)]).collect();
        assert_eq!(cross(&[(0, 0)], &seen, 100).dropped, 1);
    }

    #[test]
    fn times_during_a_stall_are_told_apart() {
        let crossings = Crossings(vec![(0, 10), (20, 30)]);
        assert_eq!(crossings.all().count(), 2);
        let (times, struck) = crossings.without(&Stalls::default());
        assert_eq!((times.count(), struck), (2, 0));
    }
}
