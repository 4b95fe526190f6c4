//! A sender, a receiver and a wire with the faults of networks and attackers.
//!
//! A seed decides everything, so a failure repeats. The world checks the invariants of a channel: a
//! frame is delivered at most once and only if it was sent, each arriving frame is counted under
//! one reason, no nonce repeats, and every undamaged frame is delivered.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use crate::macsec::{Discard, ProtectError, Receive, Transmit};

/// Deterministic pseudorandom numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.number() % bound as u64) as usize }
    }

    /// Returns true with a probability of `per_mille` thousandths.
    pub fn happens(&mut self, per_mille: u32) -> bool {
        self.below(1000) < per_mille as usize
    }
}

/// Rates of the wire's faults, in frames per thousand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// a frame is lost
    pub lose: u32,
    /// a frame arrives twice
    pub duplicate: u32,
    /// a frame arrives after up to `displacement` later ones
    pub reorder: u32,
    /// the most places a reordered frame is displaced by
    pub displacement: usize,
    /// some bits of a frame are flipped
    pub corrupt: u32,
    /// a frame is truncated or lengthened
    pub truncate: u32,
    /// an earlier frame is sent again
    pub replay: u32,
    /// an extra frame is injected: noise, plaintext, or a genuine frame with another header
    pub inject: u32,
}

/// Counts of the wire's faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WireCounts {
    /// frames lost
    pub lost: u64,
    /// frames that arrived twice
    pub duplicated: u64,
    /// frames delayed
    pub reordered: u64,
    /// frames changed, cut or lengthened
    pub damaged: u64,
    /// frames replayed from the recording
    pub replayed: u64,
    /// frames injected
    pub injected: u64,
}

pub(crate) struct InFlight {
    pub(crate) bytes: Vec<u8>,
    /// The serial number of the frame inside, if the frame is undamaged.
    pub(crate) genuine: Option<u64>,
    /// Taken from the recording, so it may be late even if the original was lost.
    replayed: bool,
    /// The number of later frames that still overtake it.
    behind: usize,
}

/// The most frames that the wire keeps for replay.
const RECORDING: usize = 4096;

/// The wire, with a recording of the frames sent over it.
pub struct Wire {
    pub(crate) faults: Faults,
    rng: Rng,
    queue: VecDeque<InFlight>,
    recording: Vec<(Vec<u8>, u64)>,
    counts: WireCounts,
}

impl Wire {
    pub(crate) fn new(faults: Faults, rng: Rng) -> Self {
        Self { faults, rng, queue: VecDeque::new(), recording: Vec::new(), counts: WireCounts::default() }
    }

    pub(crate) fn put(&mut self, bytes: &[u8], serial: u64) {
        let faults = self.faults;
        if self.recording.len() < RECORDING {
            self.recording.push((bytes.to_vec(), serial));
        }
        if self.rng.happens(faults.inject) {
            let bytes = self.invent(bytes);
            self.counts.injected += 1;
            self.queue.push_back(InFlight { bytes, genuine: None, replayed: false, behind: 0 });
        }
        if self.rng.happens(faults.replay) {
            let at = self.rng.below(self.recording.len());
            if let Some((bytes, serial)) = self.recording.get(at).cloned() {
                self.counts.replayed += 1;
                self.queue.push_back(InFlight { bytes, genuine: Some(serial), replayed: true, behind: 0 });
            }
        }
        if self.rng.happens(faults.lose) {
            self.counts.lost += 1;
            return;
        }
        let copies = if self.rng.happens(faults.duplicate) { 2 } else { 1 };
        self.counts.duplicated += copies - 1;
        for _ in 0..copies {
            let mut flight =
                InFlight { bytes: bytes.to_vec(), genuine: Some(serial), replayed: false, behind: 0 };
            self.damage(&mut flight);
            if self.rng.happens(faults.reorder) {
                self.counts.reordered += 1;
                flight.behind = self.rng.below(faults.displacement + 1);
            }
            self.queue.push_back(flight);
        }
    }

    fn damage(&mut self, flight: &mut InFlight) {
        let before = flight.bytes.clone();
        if self.rng.happens(self.faults.corrupt) {
            for _ in 0..=self.rng.below(3) {
                let at = self.rng.below(flight.bytes.len());
                if let Some(octet) = flight.bytes.get_mut(at) {
                    *octet ^= 1 << self.rng.below(8);
                }
            }
        }
        if self.rng.happens(self.faults.truncate) {
            let len = self.rng.below(flight.bytes.len() + 8);
            flight.bytes.resize(len, 0);
        }
        if before != flight.bytes {
            flight.genuine = None;
            self.counts.damaged += 1;
        }
    }

    /// Invents a frame that was never sent.
    fn invent(&mut self, like: &[u8]) -> Vec<u8> {
        let mut bytes = like.to_vec();
        match self.rng.below(4) {
            // Noise with addresses and, half the time, the right EtherType.
            0 => {
                let keep = 12 + 2 * self.rng.below(2);
                for octet in bytes.iter_mut().skip(keep) {
                    *octet = self.rng.number() as u8;
                }
            }
            // Plaintext.
            1 => {
                if let Some(ethertype) = bytes.get_mut(12..14) {
                    ethertype.copy_from_slice(&[0x88, 0x92]);
                }
            }
            // The next packet number over an old frame.
            2 => {
                if let Some([.., low]) = bytes.get_mut(16..20) {
                    *low = low.wrapping_add(1);
                }
            }
            // Other flags, association number or short length.
            _ => {
                let at = 14 + self.rng.below(2);
                if let Some(octet) = bytes.get_mut(at) {
                    *octet ^= 1 + self.rng.below(255) as u8;
                }
            }
        }
        bytes
    }

    /// Removes the next frame to arrive.
    pub(crate) fn take(&mut self) -> Option<InFlight> {
        let at = self.queue.iter().position(|flight| flight.behind == 0).unwrap_or(0);
        for overtaken in self.queue.iter_mut().take(at) {
            overtaken.behind = overtaken.behind.saturating_sub(1);
        }
        self.queue.remove(at)
    }
}

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// a delivered frame was never sent
    Forged(Vec<u8>),
    /// a frame was delivered twice
    Twice(u64),
    /// an arriving frame was not counted exactly once
    Miscounted,
    /// an undamaged frame arrived first and in time, and was not delivered
    Disturbed(u64, Discard),
    /// an association number and packet number were used twice under one key
    NonceReused(u64),
    /// plaintext was on the wire, or in the output after a discard
    Leaked(u64),
}

/// Two parties and the wire.
pub struct World {
    /// the sender
    pub transmit: Transmit,
    /// the receiver
    pub receive: Receive,
    wire: Wire,
    rng: Rng,
    sent: BTreeMap<u64, Vec<u8>>,
    delivered: BTreeSet<u64>,
    /// The key that encodes, as told by the caller.
    key: u64,
    used: BTreeSet<(u64, u64)>,
    /// Frames delivered, in order.
    pub order: Vec<u64>,
    /// Frames discarded, by counter.
    pub discards: BTreeMap<&'static str, u64>,
}

/// Marks a frame's user data. The serial number follows.
const MARK: &[u8; 8] = b"antedate";

impl World {
    /// A world whose events `seed` decides.
    pub fn new(transmit: Transmit, receive: Receive, faults: Faults, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let wire = Wire::new(faults, Rng::new(rng.number()));
        Self {
            transmit,
            receive,
            wire,
            rng,
            sent: BTreeMap::new(),
            delivered: BTreeSet::new(),
            key: 0,
            used: BTreeSet::new(),
            order: Vec::new(),
            discards: BTreeMap::new(),
        }
    }

    /// Tells the world that another key, named by `key`, encodes from now on.
    pub fn key_is(&mut self, key: u64) {
        self.key = key;
    }

    /// Counts of the wire's faults.
    pub const fn wire(&self) -> &WireCounts {
        &self.wire.counts
    }

    /// The number of frames sent.
    pub fn sent(&self) -> u64 {
        self.sent.len() as u64
    }

    /// Protects a new frame with `len` octets after its EtherType and puts it on the wire.
    pub fn send(&mut self, len: usize) -> Result<Result<u64, ProtectError>, Violation> {
        let serial = self.sent.len() as u64;
        let mut frame = vec![0x02; 12];
        frame.extend([0x88, 0x92]);
        let mut body: Vec<u8> = MARK.iter().copied().chain(serial.to_be_bytes()).collect();
        while body.len() < len {
            body.push(self.rng.number() as u8);
        }
        frame.extend(&body);
        let mut out = vec![0; frame.len() + 64];
        let next = self.transmit.encoding();
        let written = match self.transmit.protect(&frame, &mut out) {
            Ok(written) => written,
            Err(error) => return Ok(Err(error)),
        };
        let packet_number = next.map_or(0, |(_, number)| number);
        if !self.used.insert((self.key, packet_number)) {
            return Err(Violation::NonceReused(packet_number));
        }
        out.truncate(written);
        let encrypted = out.get(14).is_some_and(|tci| tci & 0x08 != 0);
        if encrypted && find(&out, MARK) {
            return Err(Violation::Leaked(serial));
        }
        self.sent.insert(serial, frame);
        self.wire.put(&out, serial);
        Ok(Ok(serial))
    }

    /// Delivers frames until `left` remain on the wire. With `in_time`, every undamaged frame is
    /// within the window when it first arrives, so it must be delivered.
    pub fn arrive(&mut self, left: usize, in_time: bool) -> Result<(), Violation> {
        while self.wire.queue.len() > left {
            let Some(flight) = self.wire.take() else { break };
            self.receive_one(&flight, in_time)?;
        }
        Ok(())
    }

    fn receive_one(&mut self, flight: &InFlight, in_time: bool) -> Result<(), Violation> {
        let counted = |receive: &Receive| {
            let counters = receive.counters();
            (counters.delivered(), counters.discarded())
        };
        let (delivered, discarded) = counted(&self.receive);
        let mut out = vec![0; flight.bytes.len() + 16];
        let result = self.receive.validate(&flight.bytes, &mut out);
        let expected = (delivered + u64::from(result.is_ok()), discarded + u64::from(result.is_err()));
        if counted(&self.receive) != expected {
            return Err(Violation::Miscounted);
        }
        match result {
            Ok(len) => {
                out.truncate(len);
                let serial =
                    out.get(22..30).and_then(<[u8]>::first_chunk).map(|octets| u64::from_be_bytes(*octets));
                match serial.and_then(|serial| self.sent.get(&serial).map(|frame| (serial, frame))) {
                    Some((serial, frame)) if *frame == out => {
                        if !self.delivered.insert(serial) {
                            return Err(Violation::Twice(serial));
                        }
                        self.order.push(serial);
                        Ok(())
                    }
                    _ => Err(Violation::Forged(out)),
                }
            }
            Err(discard) => {
                *self.discards.entry(discard.counter()).or_default() += 1;
                let serial = flight.genuine;
                if find(&out, MARK) {
                    return Err(Violation::Leaked(serial.unwrap_or_default()));
                }
                match serial {
                    Some(serial) if in_time && !flight.replayed && !self.delivered.contains(&serial) => {
                        Err(Violation::Disturbed(serial, discard))
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}
