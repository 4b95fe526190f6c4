//! Cyclic frames over a link, one a millisecond, alone or beside bulk, and what became of each.

use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use super::stalls::Stalls;
use super::{BULK, COUNT, CYCLIC, ENDS, Link, STAMP, TIME, frame, lock, text};
use crate::emulator::direction::{Direction, Frame, Setting};
use crate::histogram::Times;
use crate::station::cyclic::OUTPUT_FRAME_ID;
use crate::sys::clock::{monotonic_ns, realtime_ns, sleep_until};
use crate::sys::packet::{Options, PacketSocket};
use crate::sys::sched;

/// From one cyclic frame to the next.
const CYCLE_NS: u64 = 1_000_000;
/// Cyclic frames in a row.
const BURST: u64 = 600;
/// Octets of a cyclic frame, and of one that MACsec protects with an explicit SCI.
const LEN: usize = 64;
const PROTECTED: usize = LEN + 32;
/// Octets of kernel buffer for what crosses the wire in a burst.
const BUFFER: usize = 128 << 20;

/// Frames that arrived: when they were sent and when they came, by the monotonic clock.
#[derive(Clone, Debug, Default)]
pub(in crate::experiment) struct Crossings(pub(in crate::experiment) Vec<(u64, u64)>);

impl Crossings {
    /// The times of all, without those during which the machine withheld a core, and how many these were.
    pub(in crate::experiment) fn without(&self, stalls: &Stalls) -> (Times, u64) {
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

    /// The times of all.
    pub(in crate::experiment) fn all(&self) -> Times {
        self.without(&Stalls::default()).0
    }
}

/// What crossed a wire of a known rate.
#[derive(Clone, Debug, Default)]
pub(in crate::experiment) struct OnWire {
    /// Cyclic frames, from the sender to the last bit on the wire.
    pub(in crate::experiment) cyclic: Crossings,
    /// Cyclic frames that found no room before the wire.
    pub(in crate::experiment) dropped: u64,
    /// Octets of all other frames that crossed it beside cyclic ones.
    pub(in crate::experiment) bulk_octets: u64,
}

/// A frame as the kernel saw it leave the gateway: nanoseconds since 1970, and octets.
type Seen = (u64, usize);

impl Link {
    /// Cyclic frames from one machine to the other.
    pub(in crate::experiment) fn cyclic(&self, count: u64) -> Result<Crossings, String> {
        lock(&self.far.crossings).clear();
        self.send_cyclic(count, false, || Ok(()))?;
        thread::sleep(Duration::from_millis(50));
        Ok(Crossings(lock(&self.far.crossings).clone()))
    }

    /// Cyclic frames, alone or beside all the bulk that a sender has, from the sender to the end of a wire of so many Mbit/s.
    ///
    /// No thread stands for the wire, which would need a core that is not there: the kernel's time stamp of each frame that
    /// the gateway hands over says when the wire has it to send, and its rate says when that is done.
    pub(in crate::experiment) fn cyclic_on_wire(
        &self,
        count: u64,
        bulk: bool,
        rate_mbit: u32,
    ) -> Result<OnWire, String> {
        let wire = self.chain.wire.as_ref().ok_or("there is no wire")?;
        let options =
            Options { promiscuous: true, metadata: true, receive_buffer: BUFFER, ..Options::default() };
        let tap = wire.run(|| PacketSocket::open("a", options)).and_then(|socket| socket).map_err(text)?;
        let mut seen = Vec::new();
        let sent = self.send_cyclic(count, bulk, || drain(&tap, &mut seen))?;
        drain(&tap, &mut seen)?;
        let protected = seen.iter().filter(|(_, len)| *len == PROTECTED).count();
        if protected != sent.len() {
            return Err(format!("of {} cyclic frames {protected} left the gateway", sent.len()));
        }
        Ok(cross(&sent, &seen, rate_mbit))
    }

    /// Sends cyclic frames and gives when each was sent, by the monotonic clock and by that of the kernel's time stamps.
    fn send_cyclic(
        &self,
        count: u64,
        bulk: bool,
        mut pause: impl FnMut() -> Result<(), String>,
    ) -> Result<Vec<(u64, u64)>, String> {
        let _ = sched::fifo(ENDS);
        sched::tighten_timers();
        let (mut cyclic, full) = (frame(&CYCLIC, LEN, TIME), frame(&BULK, 1514, COUNT));
        let mut sent = Vec::with_capacity(count as usize);
        let mut due = monotonic_ns();
        for number in 0..count {
            if number % BURST == 0 {
                // The kernel stops threads of fixed priority that leave nothing to others.
                thread::sleep(Duration::from_millis(200));
                pause()?;
                due = monotonic_ns();
            }
            due += CYCLE_NS;
            while bulk && monotonic_ns() + 20_000 < due {
                // As many as a wire of twice the rate would take: more than it carries, and the rest is dropped.
                self.plc.send(&full).map_err(text)?;
                sleep_until(monotonic_ns() + 60_000);
            }
            // Spinning at this priority would keep the gateway from the core.
            sleep_until(due);
            let now = monotonic_ns();
            sent.push((now, realtime_ns()));
            cyclic[STAMP].copy_from_slice(&now.to_be_bytes());
            self.plc.send(&cyclic).map_err(text)?;
        }
        thread::sleep(Duration::from_millis(200));
        Ok(sent)
    }
}

fn drain(tap: &PacketSocket, seen: &mut Vec<Seen>) -> Result<(), String> {
    let mut buffer = vec![0; 16 * 1024];
    while let Some(received) = tap.receive_with_metadata(&mut buffer).map_err(text)? {
        seen.push((received.realtime_ns, received.len));
    }
    match tap.take_drops() {
        0 => Ok(()),
        drops => Err(format!("{drops} frames on the wire were not seen")),
    }
}

/// Has the frames cross a wire of a rate, one after the other, as the emulated one passes them.
fn cross(sent: &[(u64, u64)], seen: &[Seen], rate_mbit: u32) -> OnWire {
    let mut wire = Direction::new(1, OUTPUT_FRAME_ID);
    wire.set(Setting { rate_mbit, ..Setting::default() });
    let mut on_wire = OnWire::default();
    let mut cyclic = sent.iter();
    // Of each frame before the wire, in order: its octets, and when it was sent if it is cyclic.
    let mut waiting: VecDeque<(usize, Option<(u64, u64)>)> = VecDeque::new();
    // When the last cyclic frame came before the wire: what crosses it when the next one should have come long ago is beside none.
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
    fn a_cyclic_frame_waits_for_what_is_on_the_wire_before_it() {
        // A full frame at 1 µs takes 100 Mbit/s some 125 µs; the cyclic one comes 10 µs later and takes 9.6.
        let (full, own) = ((1546 + 24) * 80, (96 + 24) * 80);
        let seen = [(1_000, 1546), (11_000, PROTECTED), (1_000_000, PROTECTED)];
        let on_wire = cross(&[(70, 10_000), (900, 999_000)], &seen, 100);
        let times = [1_000 + full + own - 10_000, 1_000 + own];
        assert_eq!(on_wire.cyclic.0, [(70, 70 + times[0]), (900, 900 + times[1])]);
        assert_eq!((on_wire.dropped, on_wire.bulk_octets), (0, 1546));
    }

    #[test]
    fn bulk_counts_while_there_are_cyclic_frames_and_no_longer() {
        // 33 ms of full frames before the wire when the last cyclic one has come: two of them are beside it.
        let seen: Vec<_> = [(0, PROTECTED)].into_iter().chain((0..260).map(|_| (1_000, 1546))).collect();
        let on_wire = cross(&[(0, 0)], &seen, 100);
        assert_eq!(on_wire.bulk_octets, 15 * 1546);
    }

    #[test]
    fn what_finds_no_room_before_the_wire_is_told() {
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
