//! The express channel: cyclic frames do not wait behind full ones.
//!
//! A frame of 1518 bytes takes 123 µs on Fast Ethernet, and whatever comes meanwhile waits. So the uplink has two secure
//! channels. *Express* frames, which the configuration picks, are protected in one of them and sent at once. All others
//! are *bulk*: they wait here, in order, are cut into fragments of a bounded length in the other channel, and the next
//! fragment is sent only when the wire is idle again by its rate. What the driver and the card queue is then one fragment
//! at most, and that is what an express frame waits for. Two channels, for fragments have adjacent packet numbers
//! ([`antedate_channel::fragment`]), and express frames go between them.
//!
//! - [`Selector`]: which frames are express
//! - [`Pacer`]: when the wire is idle
//! - [`Express`]: the channel, and the bulk that waits

use std::collections::VecDeque;

use antedate_channel::fragment::Marks;
use antedate_channel::macsec::{ProtectError, Transmit};
use antedate_wire::{EtherType, VlanTagStack};

use crate::config::Express as Settings;
use crate::config::policy::Class;
use crate::config::policy::Traffic;

/// What the medium adds to a frame: preamble, frame check sequence and the gap between frames (IEEE 802.3).
const MEDIUM: usize = 8 + 4 + 12;
/// How early the next fragment may be handed to the kernel, which takes about so long to pass it on.
const LEAD: u64 = 2_000;
/// Bulk goes on so long after its last fragment has left even if express frames alone fill the wire.
const LONGEST_WAIT: u64 = 2_000_000;
/// The most that lies before the wire: what was sent beyond its rate for longer is lost on the way, and nobody waits for it.
const BACKLOG: u64 = 100_000_000;
/// Octets of bulk that may wait: 20 ms of Fast Ethernet.
const QUEUE: usize = 256 * 1024;
/// Frames of bulk that may wait.
const QUEUE_FRAMES: usize = 1024;
/// Which frames are express.
#[derive(Debug)]
pub struct Selector {
    classes: [bool; Class::COUNT],
    settings: Settings,
}

impl Selector {
    fn new(settings: Settings) -> Self {
        let mut classes = [false; Class::COUNT];
        for traffic in &settings.traffic {
            if let Some(class) = classes.get_mut(Class::Named(*traffic).index()) {
                *class = true;
            }
            if *traffic == Traffic::All {
                classes = [true; Class::COUNT];
            }
        }
        Self { classes, settings }
    }

    /// Is a frame of this kind express?
    #[inline]
    #[must_use]
    pub fn picks(&self, class: Class, frame: &[u8]) -> bool {
        self.classes.get(class.index()).copied().unwrap_or(false) || self.picks_by_header(frame)
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

/// When a wire of a known rate is idle. Times are nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Pacer {
    mbit: u64,
    free_at: u64,
}

impl Pacer {
    /// A wire of so many Mbit/s.
    #[must_use]
    pub fn new(mbit: u64) -> Self {
        Self { mbit: mbit.max(1), free_at: 0 }
    }

    /// A frame of `len` octets was handed over.
    #[inline]
    pub fn sent(&mut self, now: u64, len: usize) {
        self.free_at = (self.free_at.max(now) + self.time(len)).min(now + BACKLOG);
    }

    /// How long a frame is on the wire.
    #[inline]
    fn time(&self, len: usize) -> u64 {
        (len + MEDIUM) as u64 * 8_000 / self.mbit
    }

    /// When the next frame may be handed over.
    #[inline]
    #[must_use]
    pub fn free_at(&self) -> u64 {
        self.free_at.saturating_sub(LEAD)
    }
}

/// The express channel, and the bulk that waits.
#[derive(Debug)]
pub struct Express {
    /// The secure channel of express frames.
    pub transmit: Box<Transmit>,
    selector: Selector,
    pacer: Pacer,
    /// Whole frames, and their octets in all.
    queue: VecDeque<Vec<u8>>,
    octets: usize,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    /// The protected fragments of the frame whose turn it is, one behind the other, and the lengths of those left.
    fragments: Vec<u8>,
    lengths: VecDeque<usize>,
    at: usize,
    /// When the next fragment goes even if the wire is not idle.
    latest: u64,
}

/// The other secure channel, and what it needs to know.
#[derive(Debug)]
pub struct Bulk<'a> {
    /// The channel.
    pub transmit: &'a mut Transmit,
    /// Whether its receivers put fragments together.
    pub fragments: Option<Marks>,
    /// The longest frame that the uplink carries.
    pub longest: usize,
    /// Where the cipher writes.
    pub scratch: &'a mut [u8],
}

impl Express {
    /// An empty queue before a wire of so many Mbit/s.
    #[must_use]
    pub fn new(transmit: Box<Transmit>, settings: Settings, mbit: u64) -> Self {
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
            latest: 0,
        }
    }

    /// The wire has so many Mbit/s from now on.
    pub fn set_rate(&mut self, mbit: u64) {
        self.pacer.mbit = mbit.max(1);
    }

    /// Is the frame express, and does the uplink carry it whole?
    #[inline]
    #[must_use]
    pub fn picks(&self, class: Class, frame: &[u8], longest: usize) -> bool {
        self.selector.picks(class, frame) && self.transmit.protected_len(frame.len()) <= longest
    }

    /// An express frame of `len` octets was handed to the kernel.
    #[inline]
    pub fn sent(&mut self, now: u64, len: usize) {
        self.pacer.sent(now, len);
    }

    /// Queues a frame of bulk. False if there is no room.
    pub fn enqueue(&mut self, frame: &[u8]) -> bool {
        if self.octets + frame.len() > QUEUE || self.queue.len() >= QUEUE_FRAMES {
            return false;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(frame);
        self.octets += copy.len();
        self.queue.push_back(copy);
        true
    }

    /// When the next fragment of bulk may be sent, if there is one.
    #[inline]
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        let waiting = !self.lengths.is_empty() || !self.queue.is_empty();
        waiting.then(|| self.pacer.free_at().min(self.latest))
    }

    /// Hands the next fragment of bulk to `send` if the wire is idle. Gives whether it did, or why a frame was dropped.
    ///
    /// # Errors
    /// What the channel says of the frame whose turn it was.
    pub fn pump(&mut self, now: u64, bulk: Bulk<'_>, send: impl FnOnce(&[u8])) -> Result<bool, ProtectError> {
        if self.due().is_none_or(|due| due > now) {
            return Ok(false);
        }
        if self.lengths.is_empty() {
            self.cut(bulk)?;
        }
        let Some(len) = self.lengths.pop_front() else { return Ok(false) };
        if let Some(fragment) = self.fragments.get(self.at..self.at + len) {
            send(fragment);
        }
        self.at += len;
        self.pacer.sent(now, len);
        self.latest = now + self.pacer.time(len) + LONGEST_WAIT;
        Ok(true)
    }

    /// Protects the next frame of bulk, all of its fragments under adjacent numbers, whatever is sent between them.
    fn cut(&mut self, bulk: Bulk<'_>) -> Result<(), ProtectError> {
        let Some(frame) = self.queue.pop_front() else { return Ok(()) };
        self.octets -= frame.len();
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
    fn the_express_channel_is_another_one_with_its_own_nonces() {
        assert_eq!(express_sci(SCI), Sci([2, 0, 0, 0, 0, 1, 0x80, 1]));
        assert_eq!(express_sci(express_sci(SCI)), SCI);
        assert_ne!(express_ssci(1), 1);
    }

    #[test]
    fn frames_are_picked_by_kind_ethertype_and_priority() {
        let selector = Selector::new(settings());
        assert!(selector.picks(Class::Named(Traffic::ProfinetRt), &frame(0, 64)));
        assert!(!selector.picks(Class::Named(Traffic::Ipv4), &frame(0, 64)));
        let mut ethercat = frame(0, 64);
        ethercat[12..14].copy_from_slice(&[0x88, 0xa4]);
        assert!(selector.picks(Class::Other, &ethercat));
        for (priority, picked) in [(5u8, false), (6, true), (7, true)] {
            let mut tagged = frame(0, 12);
            tagged.extend([0x81, 0x00, priority << 5, 1, 0x08, 0x00]);
            tagged.resize(64, 0);
            assert_eq!(selector.picks(Class::Other, &tagged), picked, "{priority}");
        }
        let all = Selector::new(Settings { traffic: vec![Traffic::All], vlan_priority: None, ..settings() });
        for class in [Class::Other, Class::Named(Traffic::ProfinetRt), Class::Named(Traffic::Ipv4)] {
            assert!(all.picks(class, &frame(0, 64)), "{class:?}");
        }
        let ids =
            Selector::new(Settings { frame_ids: Some(0x8000..=0x80ff), vlan_priority: None, ..settings() });
        for (id, picked) in [(0x7f, false), (0x80, true), (0x81, false)] {
            let mut rt = frame(0, 64);
            rt[12..15].copy_from_slice(&[0x88, 0x92, id]);
            assert_eq!(ids.picks(Class::Other, &rt), picked);
        }
    }

    /// Runs a wire of 100 Mbit/s for `end` nanoseconds, offering what `offer` gives, and tells what was sent when.
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
            (channel(SCI), Express::new(channel(express_sci(SCI)), settings(), mbit));
        let (mut sent, mut scratch) = (Vec::new(), vec![0; 4096]);
        for now in (0..end).step_by(1_000) {
            offer(now, &mut express, &mut sent);
            let bulk = Bulk {
                transmit: &mut bulk,
                fragments: Some(Marks::More),
                longest: 1514,
                scratch: &mut scratch,
            };
            express.pump(now, bulk, |fragment| sent.push((now, fragment.to_vec()))).unwrap();
        }
        sent
    }

    #[test]
    fn an_express_frame_waits_for_one_fragment_at_most_and_bulk_fills_the_rest() {
        let mut number = 0;
        let sent = run(20_000_000, |now, express, sent| {
            while express.enqueue(&frame(number, 1514)) {
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
    fn bulk_leaves_at_the_rate_that_the_link_has_now() {
        let mut slow = 0;
        let sent = run(20_000_000, |now, express, sent| {
            if now == 0 {
                express.set_rate(10);
            } else if now == 10_000_000 {
                express.set_rate(100);
                slow = sent.len();
            }
            while express.enqueue(&frame(1, 1514)) {}
        });
        let fast = sent.len() - slow;
        assert!(slow > 40 && (slow * 8..slow * 11).contains(&fast), "{slow} and {fast} fragments in 10 ms");
    }

    #[test]
    fn bulk_is_not_starved_by_express_frames_that_fill_the_wire() {
        let sent = run(20_000_000, |now, express, sent| {
            let _ = express.enqueue(&frame(1, 1514));
            sent.push((now, vec![0; 64]));
            express.sent(now, 64);
        });
        let bulk = sent.iter().filter(|(_, frame)| frame.len() > 64).count();
        assert!(bulk >= 8, "{bulk} fragments in 20 ms");
    }

    #[test]
    fn bulk_alone_does_not_leave_faster_than_a_slow_wire_carries() {
        for mbit in [1, 2] {
            let sent = run_at(mbit, 500_000_000, |_, express, _| while express.enqueue(&frame(1, 1514)) {});
            let used: u64 = sent.iter().map(|(_, frame)| (frame.len() + MEDIUM) as u64 * 8_000 / mbit).sum();
            assert!((480_000_000..503_000_000).contains(&used), "{used} ns of 500 ms at {mbit} Mbit/s");
        }
    }

    #[test]
    fn bulk_goes_on_soon_after_more_express_frames_than_the_wire_carries() {
        let mut before = 0;
        let sent = run(1_400_000_000, |now, express, sent| {
            let _ = express.enqueue(&frame(1, 1514));
            if now < 1_200_000_000 {
                // Ten times the rate, as a wire without a link takes it too.
                express.sent(now, 101);
            } else if now == 1_300_000_000 {
                before = sent.len();
            }
        });
        let used: u64 = sent[before..].iter().map(|(_, frame)| (frame.len() + MEDIUM) as u64 * 80).sum();
        assert!(used > 95_000_000, "{used} ns of 100 ms");
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut express = Express::new(channel(express_sci(SCI)), settings(), 100);
        let queued = (0..10_000).filter(|_| express.enqueue(&frame(1, 1514))).count();
        assert_eq!(queued, QUEUE / 1514);
        let mut express = Express::new(channel(express_sci(SCI)), settings(), 100);
        assert_eq!((0..10_000).filter(|_| express.enqueue(&frame(1, 60))).count(), QUEUE_FRAMES);
    }
}
