//! The express channel: cyclic frames do not wait behind full ones.
//!
//! A frame of 1518 bytes takes 123 µs on Fast Ethernet, and a later one has to wait. So the uplink
//! has two secure channels. *Express* frames, selected by the configuration, are protected in one
//! of them and sent at once. All others are *bulk*: they are queued here, in order, and cut into
//! fragments of limited length in the other channel. The next fragment is sent when, by the rate,
//! the wire is idle. Driver and card then queue at most one fragment, which is the longest wait of
//! an express frame. There are two channels because fragments have adjacent packet numbers
//! ([`antedate_channel::fragment`]) and express frames pass between them.
//!
//! - [`Selector`]: selects express frames
//! - [`Pacer`]: the time when the wire is idle
//! - [`Express`]: the channel, and the queue of bulk

use std::collections::VecDeque;
use std::mem;

use antedate_channel::fragment::Marks;
use antedate_channel::macsec::{ProtectError, Transmit};
use antedate_wire::{EtherType, VlanTag, VlanTagStack};

use crate::config::Express as Settings;
use crate::config::policy::Policy;
use crate::frames::gate::{Gate, Way};
use crate::sys::age::Bounds;

/// Octets that the medium adds to a frame: preamble, frame check sequence and gap (IEEE 802.3).
const MEDIUM: usize = 8 + 4 + 12;
/// The next fragment is handed to the kernel this early, in nanoseconds, which is about the
/// kernel's own time.
const LEAD: u64 = 2_000;
/// Bulk continues this many nanoseconds after its last fragment even if express frames fill the
/// wire.
const LONGEST_WAIT: u64 = 2_000_000;
/// The longest accounted backlog of the wire in nanoseconds: frames beyond its rate for longer are
/// lost on the way.
const BACKLOG: u64 = 100_000_000;
/// Octets of the bulk queue: 20 ms of Fast Ethernet.
const QUEUE: usize = 256 * 1024;
/// Frames of the bulk queue.
const QUEUE_FRAMES: usize = 1024;
/// Selects express frames.
#[derive(Debug)]
pub struct Selector {
    /// Passes the named kinds of traffic.
    named: Gate,
    settings: Settings,
}

impl Selector {
    /// Selects the frames that these settings name.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let named =
            Gate::new(&Policy { allow: settings.traffic.clone(), rules: Vec::new(), ..Policy::default() });
        Self { named, settings }
    }

    /// Whether a frame is express.
    #[inline]
    #[must_use]
    pub fn picks(&self, frame: &[u8]) -> bool {
        self.named.decide(Way::Out, frame).passes || self.picks_by_header(frame)
    }

    fn picks_by_header(&self, frame: &[u8]) -> bool {
        let Settings { vlan_priority, ethertypes, frame_ids, .. } = &self.settings;
        if vlan_priority.is_none() && ethertypes.is_empty() && frame_ids.is_none() {
            return false;
        }
        let Ok(stack) = VlanTagStack::parse(frame) else { return false };
        let priority = stack.tags().first().map(|tag| tag.tci.priority());
        let frame_id = || {
            let id = frame.get(stack.payload..)?.first_chunk().copied().map(u16::from_be_bytes)?;
            Some(stack.ethertype == EtherType::Profinet && frame_ids.as_ref()?.contains(&id))
        };
        vlan_priority.zip(priority).is_some_and(|(least, has)| has >= least)
            || ethertypes.contains(&stack.ethertype)
            || frame_id() == Some(true)
    }
}

/// The time when a wire of a known rate is idle, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Pacer {
    mbit: u64,
    free_at: u64,
}

impl Pacer {
    /// A wire of this rate.
    #[must_use]
    pub fn new(mbit: u64) -> Self {
        Self { mbit: mbit.max(1), free_at: 0 }
    }

    /// Records that a frame of `len` octets was handed over.
    #[inline]
    pub fn sent(&mut self, now: u64, len: usize) {
        self.free_at = (self.free_at.max(now) + self.time(len)).min(now + BACKLOG);
    }

    /// The time of a frame on the wire.
    #[inline]
    fn time(&self, len: usize) -> u64 {
        (len + MEDIUM) as u64 * 8_000 / self.mbit
    }

    /// The time for handing over the next frame.
    #[inline]
    #[must_use]
    pub fn free_at(&self) -> u64 {
        self.free_at.saturating_sub(LEAD)
    }
}

/// The express channel, and the queue of bulk.
#[derive(Debug)]
pub struct Express {
    /// The secure channel of express frames.
    pub transmit: Box<Transmit>,
    selector: Selector,
    pacer: Pacer,
    /// Whole frames with their arrival and the tag in front of their SecTAG, and their total octets.
    queue: VecDeque<(u64, Option<VlanTag>, Vec<u8>)>,
    octets: usize,
    /// Buffers for reuse.
    spare: Vec<Vec<u8>>,
    /// The protected fragments of the current frame, concatenated, and the lengths of the remaining
    /// ones.
    fragments: Vec<u8>,
    lengths: VecDeque<usize>,
    at: usize,
    /// The VLAN tag in front of their SecTAGs.
    tag: Option<VlanTag>,
    /// The time of the next fragment even if the wire is not idle.
    latest: u64,
    /// The arrival of the current frame.
    since: u64,
    max_age: Bounds,
    /// Frames dropped for their age since the last call of [`Self::take_stale`].
    stale: u64,
}

/// The other secure channel with its settings.
#[derive(Debug)]
pub struct Bulk<'a> {
    /// The channel.
    pub transmit: &'a mut Transmit,
    /// The marks of fragments, if its receivers reassemble them.
    pub fragments: Option<Marks>,
    /// Octets of the longest frame on the uplink.
    pub longest: usize,
    /// The output buffer of the cipher.
    pub scratch: &'a mut [u8],
}

impl Express {
    /// An empty queue before a wire of this rate.
    #[must_use]
    pub fn new(transmit: Box<Transmit>, settings: Settings, mbit: u64, max_age: Bounds) -> Self {
        Self {
            transmit,
            selector: Selector::new(settings),
            pacer: Pacer::new(mbit),
            queue: VecDeque::new(),
            octets: 0,
            spare: Vec::new(),
            fragments: Vec::new(),
            lengths: VecDeque::new(),
            at: 0,
            tag: None,
            latest: 0,
            since: 0,
            max_age,
            stale: 0,
        }
    }

    /// Changes the bounds of age and, if there is one, the selection with the rate of the wire. The
    /// selection is exchanged.
    pub fn change(&mut self, max_age: Bounds, selection: Option<&mut (Box<Selector>, u64)>) {
        self.max_age = max_age;
        if let Some((selector, mbit)) = selection {
            mem::swap(&mut self.selector, &mut **selector);
            self.set_rate(*mbit);
        }
    }

    /// Changes the rate of the wire.
    pub fn set_rate(&mut self, mbit: u64) {
        self.pacer.mbit = mbit.max(1);
    }

    /// Whether the frame is express and fits the uplink whole.
    #[inline]
    #[must_use]
    pub fn picks(&self, frame: &[u8], longest: usize) -> bool {
        self.selector.picks(frame) && self.transmit.protected_len(frame.len()) <= longest
    }

    /// Records that an express frame of `len` octets was handed to the kernel.
    #[inline]
    pub fn sent(&mut self, now: u64, len: usize) {
        self.pacer.sent(now, len);
    }

    /// Frames dropped for their age since the last call.
    pub const fn take_stale(&mut self) -> u64 {
        mem::replace(&mut self.stale, 0)
    }

    /// Queues a frame of bulk. False if the queue is full.
    pub fn enqueue(&mut self, now: u64, tag: Option<VlanTag>, frame: &[u8]) -> bool {
        if self.octets + frame.len() > QUEUE || self.queue.len() >= QUEUE_FRAMES {
            return false;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(frame);
        self.octets += copy.len();
        self.queue.push_back((now, tag, copy));
        true
    }

    /// The time of the next fragment of bulk, if any.
    #[inline]
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        let waiting = !self.lengths.is_empty() || !self.queue.is_empty();
        waiting.then(|| self.pacer.free_at().min(self.latest))
    }

    /// Passes the next fragment of bulk, and its outer VLAN tag, to `send` if the wire is idle.
    /// Returns whether it did.
    ///
    /// # Errors
    /// When the channel refused the frame, which is dropped.
    pub fn pump(
        &mut self,
        now: u64,
        bulk: Bulk<'_>,
        send: impl FnOnce(Option<VlanTag>, &[u8]),
    ) -> Result<bool, ProtectError> {
        if self.due().is_none_or(|due| due > now) {
            return Ok(false);
        }
        if self.max_age.is_stale(now.saturating_sub(self.since)) && !self.lengths.is_empty() {
            // Its receiver drops the rest.
            self.lengths.clear();
            self.stale += 1;
        }
        if self.lengths.is_empty() {
            self.cut(now, bulk)?;
        }
        let Some(len) = self.lengths.pop_front() else { return Ok(false) };
        if let Some(fragment) = self.fragments.get(self.at..self.at + len) {
            send(self.tag, fragment);
        }
        self.at += len;
        self.pacer.sent(now, len);
        self.latest = now + self.pacer.time(len) + LONGEST_WAIT;
        Ok(true)
    }

    /// Protects the next frame of bulk: all its fragments with adjacent packet numbers, whatever is
    /// sent between them.
    fn cut(&mut self, now: u64, bulk: Bulk<'_>) -> Result<(), ProtectError> {
        let frame = loop {
            let Some((since, tag, frame)) = self.queue.pop_front() else { return Ok(()) };
            self.octets -= frame.len();
            if !self.max_age.is_stale(now.saturating_sub(since)) {
                (self.since, self.tag) = (since, tag);
                break frame;
            }
            self.stale += 1;
            self.spare.push(frame);
        };
        let Self { fragments, lengths, .. } = self;
        fragments.clear();
        self.at = 0;
        let Bulk { transmit, fragments: marks, longest, scratch } = bulk;
        let mut each = |fragment: &[u8]| {
            fragments.extend_from_slice(fragment);
            lengths.push_back(fragment.len());
        };
        let result = match marks {
            Some(marks) => {
                let longest = longest.min(self.selector.settings.fragment);
                transmit.protect_split(&frame, longest, marks, scratch, &mut each).map(drop)
            }
            None if transmit.protected_len(frame.len()) > longest => {
                transmit.count_too_long();
                Err(ProtectError::Unsplittable)
            }
            None => transmit.protect(&frame, scratch).map(|len| each(scratch.get(..len).unwrap_or_default())),
        };
        if self.spare.len() < QUEUE_FRAMES {
            self.spare.push(frame);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::express::{express_sci, express_ssci};
    use crate::config::policy::Traffic;
    use antedate_channel::macsec::{An, CipherSuite, Sak, TransmitConfig};
    use antedate_wire::Sci;

    const SCI: Sci = Sci([2, 0, 0, 0, 0, 1, 0, 1]);

    fn channel(sci: Sci) -> Box<Transmit> {
        let suite = CipherSuite::GcmAes128;
        let mut transmit = Transmit::new(TransmitConfig::new(suite, sci)).unwrap();
        transmit.install(An::ALL[0], &Sak::new(suite, &[1; 16], None).unwrap(), 1, u64::MAX).unwrap();
        Box::new(transmit)
    }

    fn settings() -> Settings {
        Settings {
            traffic: vec![Traffic::ProfinetRt],
            vlan_priority: Some(6),
            ethertypes: vec![EtherType::EtherCat],
            frame_ids: None,
            fragment: 256,
            rate: crate::config::Rate::Mbit(100),
        }
    }

    fn frame(number: u8, len: usize) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
        frame.resize(len, number);
        frame
    }

    #[test]
    fn express_channel_has_its_own_nonces() {
        assert_eq!(express_sci(SCI), Sci([2, 0, 0, 0, 0, 1, 0x80, 1]));
        assert_eq!(express_sci(express_sci(SCI)), SCI);
        assert_ne!(express_ssci(1), 1);
    }

    #[test]
    fn frames_are_picked_by_each_criterion() {
        let selector = Selector::new(settings());
        let mut cyclic = frame(0, 64);
        cyclic[12..15].copy_from_slice(&[0x88, 0x92, 0x80]);
        assert!(selector.picks(&cyclic) && !selector.picks(&frame(0, 64)));
        let mut ethercat = frame(0, 64);
        ethercat[12..14].copy_from_slice(&[0x88, 0xa4]);
        assert!(selector.picks(&ethercat));
        for (priority, picked) in [(5u8, false), (6, true), (7, true)] {
            let mut tagged = frame(0, 12);
            tagged.extend([0x81, 0x00, priority << 5, 1, 0x08, 0x00]);
            tagged.resize(64, 0);
            assert_eq!(selector.picks(&tagged), picked, "{priority}");
        }
        let all = Selector::new(Settings { traffic: vec![Traffic::All], vlan_priority: None, ..settings() });
        assert!(all.picks(&cyclic) && all.picks(&frame(0, 64)));
        let traffic = Vec::new();
        let by_id = Settings { traffic, frame_ids: Some(0x8000..=0x80ff), vlan_priority: None, ..settings() };
        let ids = Selector::new(by_id);
        for (id, picked) in [(0x7f, false), (0x80, true), (0x81, false)] {
            let mut rt = frame(0, 64);
            rt[12..15].copy_from_slice(&[0x88, 0x92, id]);
            assert_eq!(ids.picks(&rt), picked);
        }
    }

    /// Simulates a wire of 100 Mbit/s for `end` nanoseconds with frames from `offer`. Returns the
    /// sent frames with their times.
    fn run(end: u64, offer: impl FnMut(u64, &mut Express, &mut Vec<(u64, Vec<u8>)>)) -> Vec<(u64, Vec<u8>)> {
        run_at(100, end, offer)
    }

    /// As [`run`], at another rate.
    fn run_at(
        mbit: u64,
        end: u64,
        mut offer: impl FnMut(u64, &mut Express, &mut Vec<(u64, Vec<u8>)>),
    ) -> Vec<(u64, Vec<u8>)> {
        let (mut bulk, mut express) =
            (channel(SCI), Express::new(channel(express_sci(SCI)), settings(), mbit, Bounds::NONE));
        let (mut sent, mut scratch) = (Vec::new(), vec![0; 4096]);
        for now in (0..end).step_by(1_000) {
            offer(now, &mut express, &mut sent);
            let bulk = Bulk {
                transmit: &mut bulk,
                fragments: Some(Marks::More),
                longest: 1514,
                scratch: &mut scratch,
            };
            express.pump(now, bulk, |_, fragment| sent.push((now, fragment.to_vec()))).unwrap();
        }
        sent
    }

    #[test]
    fn express_frame_waits_for_one_fragment() {
        let mut number = 0;
        let sent = run(20_000_000, |now, express, sent| {
            while express.enqueue(0, None, &frame(number, 1514)) {
                number = number.wrapping_add(1);
            }
            if now % 1_000_000 == 500_000 {
                sent.push((now, vec![0; 64]));
                express.sent(now, 64);
            }
        });
        let wire = |len: usize| (len + MEDIUM) as u64 * 80;
        assert!(sent.iter().all(|(_, frame)| frame.len() <= 256));
        let mut free_at = 0;
        for (at, frame) in &sent {
            let waits = free_at.max(*at) - at;
            assert!(waits <= wire(256) + LEAD + 1_000, "{waits} ns behind bulk");
            free_at = free_at.max(*at) + wire(frame.len());
        }
        let used: u64 = sent.iter().map(|(_, frame)| wire(frame.len())).sum();
        assert!(used > 19_000_000, "the wire is idle for {} ns of 20 ms", 20_000_000 - used);
        // In order: the packet numbers of the bulk rise by one.
        let numbers = sent.iter().filter(|(_, frame)| frame.len() > 64);
        let numbers = numbers.map(|(_, frame)| u32::from_be_bytes(*frame[16..].first_chunk().unwrap()));
        assert!(numbers.eq(1..=sent.iter().filter(|(_, frame)| frame.len() > 64).count() as u32));
    }

    #[test]
    fn bulk_follows_the_link_rate() {
        let mut slow = 0;
        let sent = run(20_000_000, |now, express, sent| {
            if now == 0 {
                express.set_rate(10);
            } else if now == 10_000_000 {
                express.set_rate(100);
                slow = sent.len();
            }
            while express.enqueue(0, None, &frame(1, 1514)) {}
        });
        let fast = sent.len() - slow;
        assert!(slow > 40 && (slow * 8..slow * 11).contains(&fast), "{slow} and {fast} fragments in 10 ms");
    }

    #[test]
    fn express_frames_do_not_starve_bulk() {
        let sent = run(20_000_000, |now, express, sent| {
            let _ = express.enqueue(0, None, &frame(1, 1514));
            sent.push((now, vec![0; 64]));
            express.sent(now, 64);
        });
        let bulk = sent.iter().filter(|(_, frame)| frame.len() > 64).count();
        assert!(bulk >= 8, "{bulk} fragments in 20 ms");
    }

    #[test]
    fn bulk_does_not_exceed_the_wire_rate() {
        for mbit in [1, 2] {
            let sent =
                run_at(mbit, 500_000_000, |_, express, _| while express.enqueue(0, None, &frame(1, 1514)) {});
            let used: u64 = sent.iter().map(|(_, frame)| (frame.len() + MEDIUM) as u64 * 8_000 / mbit).sum();
            assert!((480_000_000..503_000_000).contains(&used), "{used} ns of 500 ms at {mbit} Mbit/s");
        }
    }

    #[test]
    fn bulk_resumes_after_express_overload() {
        let mut before = 0;
        let sent = run(1_400_000_000, |now, express, sent| {
            let _ = express.enqueue(0, None, &frame(1, 1514));
            if now < 1_200_000_000 {
                // Ten times the rate, which a wire without a link accepts too.
                express.sent(now, 101);
            } else if now == 1_300_000_000 {
                before = sent.len();
            }
        });
        let used: u64 = sent[before..].iter().map(|(_, frame)| (frame.len() + MEDIUM) as u64 * 80).sum();
        assert!(used > 95_000_000, "{used} ns of 100 ms");
    }

    #[test]
    fn bulk_queue_is_bounded() {
        let mut express = Express::new(channel(express_sci(SCI)), settings(), 100, Bounds::NONE);
        let queued = (0..10_000).filter(|_| express.enqueue(0, None, &frame(1, 1514))).count();
        assert_eq!(queued, QUEUE / 1514);
        let mut express = Express::new(channel(express_sci(SCI)), settings(), 100, Bounds::NONE);
        assert_eq!((0..10_000).filter(|_| express.enqueue(0, None, &frame(1, 60))).count(), QUEUE_FRAMES);
    }
}
