//! One direction of the wire, without I/O: input is frames and the time, output is frames when they
//! are due.

use std::collections::{BTreeMap, VecDeque};

use antedate_wire::profinet::FrameId;

use super::fault::{self, Fault};
use super::schedule::Schedule;
use crate::sys::packet::VNET_HEADER_LEN;

/// Number of recorded frames for replays.
const RECORDING: usize = 1_024;
/// Octets of preamble, frame check sequence and gap, which occupy the wire (IEEE 802.3).
const MEDIUM: u64 = 8 + 4 + 12;
/// Frames queued before a wire with a rate. Further ones are dropped, as in a switch.
const BUFFER: usize = 512;
/// A held frame continues after this time without a successor: twice the longest update time of the
/// stations.
const LONGEST_HOLD_NS: u64 = 1_024_000_000;

/// A frame with the kernel's `virtio_net_hdr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Unfinished checksums and segmentation; all zero for a plain frame.
    pub offloads: [u8; VNET_HEADER_LEN],
    /// Octets from the destination address on.
    pub octets: Vec<u8>,
}

impl From<Vec<u8>> for Frame {
    fn from(octets: Vec<u8>) -> Self {
        Self { offloads: [0; VNET_HEADER_LEN], octets }
    }
}

/// Present setting of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The fault, if any.
    pub fault: Option<Fault>,
    /// The fault strikes one frame in this many.
    pub every: u32,
    /// Delay of [`Fault::Delay`].
    pub delay_ns: u64,
    /// The cable is cut: every frame is dropped.
    pub cut: bool,
    /// Rate in Mbit/s, at which frames pass one after the other; 0: no limit.
    pub rate_mbit: u32,
}

impl Default for Setting {
    fn default() -> Self {
        Self { fault: None, every: 50, delay_ns: 500_000, cut: false, rate_mbit: 0 }
    }
}

/// One direction.
#[derive(Debug)]
pub struct Direction {
    seed: u64,
    forged_id: FrameId,
    setting: Setting,
    schedule: Schedule,
    queue: VecDeque<(u64, Frame)>,
    held: Option<(u64, Frame)>,
    recording: VecDeque<Frame>,
    /// When all frames so far have passed.
    free_ns: u64,
    counts: Counts,
}

/// Counters of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Received frames.
    pub received: u64,
    /// Forwarded frames, those made by the wire included.
    pub forwarded: u64,
    /// Frames dropped by the cut cable.
    pub cut: u64,
    /// Frames dropped by a full queue.
    pub overflowed: u64,
    /// Strikes of each fault.
    pub faults: BTreeMap<Fault, u64>,
}

impl Direction {
    /// A direction whose forged frames have `forged_id`.
    #[must_use]
    pub fn new(seed: u64, forged_id: FrameId) -> Self {
        let setting = Setting::default();
        Self {
            seed,
            forged_id,
            setting,
            schedule: Schedule::new(seed, setting.every),
            queue: VecDeque::new(),
            held: None,
            recording: VecDeque::with_capacity(RECORDING),
            free_ns: 0,
            counts: Counts::default(),
        }
    }

    /// Changes the setting and begins a new schedule.
    pub fn set(&mut self, setting: Setting) {
        if setting != self.setting {
            self.seed = self.seed.wrapping_add(1);
            self.schedule = Schedule::new(self.seed, setting.every);
            self.setting = setting;
        }
    }

    /// The counters.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Takes a received frame.
    pub fn frame(&mut self, now_ns: u64, frame: Frame) {
        self.counts.received += 1;
        if self.setting.cut {
            self.counts.cut += 1;
            self.held = None;
            return;
        }
        // A super-frame stands for several frames; faults apply to frames of the wire.
        let plain = frame.offloads == [0; VNET_HEADER_LEN];
        let fault = self.setting.fault.filter(|_| plain && self.schedule.strikes());
        // A frame with a held one in front of it is not held, or both would leave in order.
        let fault = fault.filter(|&fault| fault != Fault::Reorder || self.held.is_none());
        let recorded = self.setting.fault == Some(Fault::Replay) && plain;
        let copy = recorded.then(|| frame.clone());
        // The held frame follows this one.
        let held = self.held.take();
        match fault {
            Some(fault) => self.strike(fault, now_ns, frame),
            None => self.send(now_ns, frame),
        }
        if let Some((_, held)) = held {
            self.send(now_ns, held);
        }
        if let Some(copy) = copy {
            if self.recording.len() == RECORDING {
                self.recording.pop_front();
            }
            self.recording.push_back(copy);
        }
    }

    fn strike(&mut self, fault: Fault, now_ns: u64, mut frame: Frame) {
        let random = self.schedule.random();
        let mut struck = true;
        match fault {
            Fault::Lose => {}
            Fault::Duplicate => {
                self.send(now_ns, frame.clone());
                self.send(now_ns, frame);
            }
            Fault::Reorder => self.held = Some((now_ns + LONGEST_HOLD_NS, frame)),
            Fault::Corrupt => {
                fault::corrupt(&mut frame.octets, random);
                self.send(now_ns, frame);
            }
            Fault::CorruptHeader => {
                fault::corrupt_header(&mut frame.octets, random);
                self.send(now_ns, frame);
            }
            Fault::Truncate => {
                fault::truncate(&mut frame.octets, random);
                self.send(now_ns, frame);
            }
            Fault::Delay => self.send(now_ns + self.setting.delay_ns, frame),
            Fault::Replay => {
                let old = random.below(self.recording.len());
                let old = self.recording.get(old).cloned();
                struck = self.send_both(now_ns, frame, old);
            }
            Fault::Inject => {
                let forged = fault::inject(&frame.octets, self.forged_id);
                struck = self.send_both(now_ns, frame, forged.map(Frame::from));
            }
            Fault::ForeignKey | Fault::ForeignChannel => {
                let forged = fault::forge(&frame.octets, self.forged_id, fault == Fault::ForeignChannel);
                struck = self.send_both(now_ns, frame, forged.map(Frame::from));
            }
        }
        *self.counts.faults.entry(fault).or_default() += u64::from(struck);
    }

    fn send_both(&mut self, now_ns: u64, frame: Frame, more: Option<Frame>) -> bool {
        self.send(now_ns, frame);
        let more = more.map(|more| self.send(now_ns, more));
        more.is_some()
    }

    /// Queues a frame behind all others.
    fn send(&mut self, due_ns: u64, frame: Frame) {
        let mut due_ns = self.queue.back().map_or(due_ns, |(last, _)| due_ns.max(*last));
        if self.setting.rate_mbit > 0 {
            if self.queue.len() >= BUFFER {
                self.counts.overflowed += 1;
                return;
            }
            // It arrives with its last bit.
            let bits = (frame.octets.len() as u64 + MEDIUM) * 8;
            due_ns = self.free_ns.max(due_ns) + bits * 1_000 / u64::from(self.setting.rate_mbit);
            self.free_ns = due_ns;
        }
        self.queue.push_back((due_ns, frame));
    }

    /// Takes the next due frame.
    pub fn due(&mut self, now_ns: u64) -> Option<Frame> {
        if let Some((_, frame)) = self.held.take_if(|(until, _)| *until <= now_ns) {
            self.send(now_ns, frame);
        }
        let (_, frame) = self.queue.pop_front_if(|(due, _)| *due <= now_ns)?;
        self.counts.forwarded += 1;
        Some(frame)
    }

    /// Next time at which [`Direction::due`] has a frame, without further input.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<u64> {
        let queued = self.queue.front().map(|(due, _)| *due);
        let held = self.held.as_ref().map(|(until, _)| *until);
        queued.into_iter().chain(held).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::station::cyclic::OUTPUT_FRAME_ID;

    fn frame(n: u8) -> Frame {
        Frame::from([vec![2; 6], vec![4; 6], vec![0x88, 0xb5], vec![n; 50]].concat())
    }

    /// Sends frames numbered from 0, 1 ms apart. Returns the output by number (the octet behind the
    /// header).
    fn run(fault: Option<Fault>, every: u32, frames: u8) -> (Vec<Frame>, Counts) {
        let mut direction = Direction::new(9, OUTPUT_FRAME_ID);
        direction.set(Setting { fault, every, ..Setting::default() });
        let mut out = Vec::new();
        for n in 0..frames {
            let now = u64::from(n) * 1_000_000;
            direction.frame(now, frame(n));
            out.extend(std::iter::from_fn(|| direction.due(now)));
        }
        out.extend(std::iter::from_fn(|| direction.due(u64::MAX)));
        (out, direction.counts().clone())
    }

    fn numbers(frames: &[Frame]) -> Vec<u8> {
        frames.iter().map(|frame| frame.octets[20]).collect()
    }

    #[test]
    fn without_fault_all_frames_pass_in_order() {
        let (out, counts) = run(None, 10, 100);
        assert_eq!(numbers(&out), (0..100).collect::<Vec<_>>());
        assert!(counts.faults.is_empty());
    }

    #[test]
    fn every_fault_is_counted_once_a_block() {
        for fault in Fault::ALL {
            let (_, counts) = run(Some(fault), 10, 100);
            let struck = counts.faults[&fault];
            let least = if matches!(fault, Fault::Replay | Fault::Reorder) { 9 } else { 10 };
            assert!((least..=10).contains(&struck), "{fault:?}: {struck}");
        }
    }

    #[test]
    fn losses_and_duplicates_are_exact() {
        assert_eq!(run(Some(Fault::Lose), 10, 100).0.len(), 90);
        let (out, _) = run(Some(Fault::Duplicate), 10, 100);
        assert_eq!(out.len(), 110);
        assert!(numbers(&out).is_sorted());
    }

    #[test]
    fn reordered_frame_follows_successor() {
        let (out, counts) = run(Some(Fault::Reorder), 2, 200);
        let out = numbers(&out);
        assert_eq!(out.len(), 200);
        let swapped = out.windows(2).filter(|pair| pair[0] > pair[1]).count() as u64;
        // The last frame has no successor.
        assert!(counts.faults[&Fault::Reorder] - swapped <= 1, "{swapped} of {counts:?}");
    }

    #[test]
    fn reordered_frame_waits_longest_cycle() {
        let mut direction = Direction::new(9, OUTPUT_FRAME_ID);
        direction.set(Setting { fault: Some(Fault::Reorder), every: 1, ..Setting::default() });
        let cycle = 512_000_000;
        direction.frame(0, frame(0));
        assert_eq!(direction.due(cycle - 1), None);
        direction.frame(cycle, frame(1));
        let out: Vec<_> = std::iter::from_fn(|| direction.due(cycle)).collect();
        assert_eq!(numbers(&out), [1, 0]);
    }

    #[test]
    fn a_delayed_frame_keeps_the_order() {
        let mut direction = Direction::new(9, OUTPUT_FRAME_ID);
        direction.set(Setting {
            fault: Some(Fault::Delay),
            every: 1,
            delay_ns: 300,
            cut: false,
            rate_mbit: 0,
        });
        direction.frame(1_000, frame(0));
        assert_eq!(direction.due(1_299), None);
        assert_eq!(direction.next_due_ns(), Some(1_300));
        direction.set(Setting::default());
        direction.frame(1_100, frame(1));
        assert_eq!(direction.due(1_200), None, "nobody overtakes");
        let out: Vec<_> = std::iter::from_fn(|| direction.due(1_300)).collect();
        assert_eq!(numbers(&out), [0, 1]);
    }

    #[test]
    fn replays_are_frames_that_passed_before() {
        let (out, counts) = run(Some(Fault::Replay), 10, 200);
        let out = numbers(&out);
        assert_eq!(out.len() as u64, 200 + counts.faults[&Fault::Replay]);
        let mut highest = 0;
        let repeated = out.iter().filter(|&&n| {
            let old = n < highest;
            highest = highest.max(n);
            old
        });
        assert_eq!(repeated.count() as u64, counts.faults[&Fault::Replay]);
    }

    #[test]
    fn cut_cable_drops_all_and_heals() {
        let mut direction = Direction::new(9, OUTPUT_FRAME_ID);
        direction.set(Setting { cut: true, ..Setting::default() });
        direction.frame(0, frame(0));
        assert_eq!(direction.due(u64::MAX), None);
        direction.set(Setting::default());
        direction.frame(0, frame(1));
        assert!(direction.due(0).is_some());
        assert_eq!((direction.counts().cut, direction.counts().forwarded), (1, 1));
    }

    #[test]
    fn rated_wire_serialises_frames() {
        let mut direction = Direction::new(9, OUTPUT_FRAME_ID);
        direction.set(Setting { rate_mbit: 100, ..Setting::default() });
        let full = Frame::from([vec![2; 12], vec![0x88, 0xb5], vec![0; 1500]].concat());
        let time = (1514 + 24) * 80;
        assert_eq!(time, 123_040, "a full frame on Fast Ethernet");
        direction.frame(0, full.clone());
        direction.frame(10, full.clone());
        assert_eq!((direction.due(time - 1), direction.next_due_ns()), (None, Some(time)));
        assert_eq!(direction.due(time), Some(full.clone()));
        assert_eq!(direction.due(2 * time - 1), None);
        assert_eq!(direction.due(2 * time), Some(full.clone()));
        direction.frame(3 * time, full.clone());
        assert_eq!(direction.next_due_ns(), Some(4 * time), "an idle wire begins at once");
        for _ in 0..2 * BUFFER {
            direction.frame(3 * time, full.clone());
        }
        assert_eq!(direction.counts().overflowed as usize, BUFFER + 1);
    }

    #[test]
    fn super_frames_pass_untouched() {
        let mut direction = Direction::new(9, OUTPUT_FRAME_ID);
        direction.set(Setting { fault: Some(Fault::Lose), every: 1, ..Setting::default() });
        let super_frame = Frame { offloads: [1; VNET_HEADER_LEN], ..frame(0) };
        direction.frame(0, super_frame.clone());
        assert_eq!(direction.due(0), Some(super_frame));
    }
}
