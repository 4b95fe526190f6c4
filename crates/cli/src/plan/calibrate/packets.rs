//! Packets of a calibration, sealed in batches: in one go, and from preparations.

use std::hint::black_box;
use std::time::Instant;

use antedate_aead::{
    Aes128Ccm8, Front, FrontSlot, Hole, Key, Nonce, NonceSequence, Sealer, Sparse, Suite, Template,
    TemplateSlot,
};

/// Octets of the longest packet.
const CAP: usize = 1536;
/// Batches; the median counts.
pub(super) const ROUNDS: usize = 51;
/// Packets per batch. Each prepared one has its own slot and key.
const BATCH: usize = 32;
const SLOTS: usize = 16;
const AAD: [u8; 13] = [0; 13];

/// Numbers for measurements only.
struct Numbers(u64);

impl NonceSequence for Numbers {
    type Error = core::convert::Infallible;

    fn next(&mut self) -> Result<(u64, Nonce), Self::Error> {
        self.0 += 1;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.0.to_be_bytes());
        Ok((self.0, Nonce::assume_unique(nonce)))
    }
}

/// A measured cipher. Times are in nanoseconds.
pub(super) trait Bench {
    /// Seals a payload in one go.
    fn seal(&mut self, size: usize) -> f64;
    /// Prepares a payload whose last octets are new, then seals it.
    fn prepared(&mut self, size: usize, new: usize) -> Option<[f64; 2]>;
}

fn key<S: Suite>(number: usize) -> Option<Key<S>> {
    Key::new([7 + number as u8; 32].get(..S::KEY_LEN)?).ok()
}

fn nanoseconds(since: Instant, packets: usize) -> f64 {
    since.elapsed().as_nanos() as f64 / packets as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn one_shot<S: Suite<NonceBytes = [u8; 12]>>(key: &Key<S>, numbers: &mut Numbers, size: usize) -> f64 {
    let mut data = [0x5a; CAP];
    let mut batch = || {
        let begun = Instant::now();
        for _ in 0..BATCH {
            let Ok((_, nonce)) = numbers.next();
            black_box(key.seal_in_place(nonce, &AAD, black_box(&mut data[..size])));
        }
        nanoseconds(begun, BATCH)
    };
    // The first ones warm up tables and vector units.
    (0..ROUNDS / 10).for_each(|_| _ = batch());
    median((0..ROUNDS).map(|_| batch()).collect())
}

/// Medians of both halves.
fn halves(mut batch: impl FnMut() -> Option<[f64; 2]>) -> Option<[f64; 2]> {
    for _ in 0..ROUNDS / 10 {
        batch()?;
    }
    let times: Option<Vec<[f64; 2]>> = (0..ROUNDS).map(|_| batch()).collect();
    let times = times?;
    Some([0, 1].map(|half| median(times.iter().map(|both| both[half]).collect())))
}

/// A suite with holes anywhere.
pub(super) struct Holes<S: Sparse<NonceBytes = [u8; 12]>> {
    key: Key<S>,
    numbers: Numbers,
    senders: Vec<(Sealer<S, Numbers>, TemplateSlot<S, CAP, 17>)>,
}

impl<S: Sparse<NonceBytes = [u8; 12]>> Holes<S> {
    pub(super) fn new() -> Option<Self> {
        let sender = |number| Some((Sealer::new(key(number)?, Numbers(0)), TemplateSlot::new()));
        let senders: Option<Vec<_>> = (0..SLOTS).map(sender).collect();
        Some(Self { key: key(99)?, numbers: Numbers(0), senders: senders? })
    }
}

impl<S: Sparse<NonceBytes = [u8; 12]>> Bench for Holes<S> {
    fn seal(&mut self, size: usize) -> f64 {
        one_shot(&self.key, &mut self.numbers, size)
    }

    fn prepared(&mut self, size: usize, new: usize) -> Option<[f64; 2]> {
        let data = [0x5a; CAP];
        let holes = [Hole::Payload(size.checked_sub(new)?..size)];
        let template = Template::new(&AAD, data.get(..size)?, &holes).ok()?;
        let value = data.get(..new)?;
        halves(|| {
            let begun = Instant::now();
            let mut prepared = Vec::with_capacity(SLOTS);
            for (sealer, slot) in &mut self.senders {
                let mut packet = sealer.prepare_template(&template, slot).ok()?;
                while packet.step(u32::MAX) > 0 {}
                prepared.push(packet);
            }
            let before = nanoseconds(begun, SLOTS);
            let mut sealed = Vec::with_capacity(SLOTS);
            let begun = Instant::now();
            for packet in prepared {
                sealed.push(packet.seal(&[black_box(value)]).ok()?);
            }
            let online = nanoseconds(begun, SLOTS);
            black_box(&sealed);
            Some([before, online])
        })
    }
}

/// A suite with a serial MAC.
pub(super) struct Fronts {
    key: Key<Aes128Ccm8>,
    numbers: Numbers,
    senders: Vec<(Sealer<Aes128Ccm8, Numbers>, FrontSlot<Aes128Ccm8, CAP, 1>)>,
}

impl Fronts {
    pub(super) fn new() -> Option<Self> {
        let sender = |number| Some((Sealer::new(key(number)?, Numbers(0)), FrontSlot::new()));
        let senders: Option<Vec<_>> = (0..SLOTS).map(sender).collect();
        Some(Self { key: key(99)?, numbers: Numbers(0), senders: senders? })
    }
}

impl Bench for Fronts {
    fn seal(&mut self, size: usize) -> f64 {
        one_shot(&self.key, &mut self.numbers, size)
    }

    fn prepared(&mut self, size: usize, new: usize) -> Option<[f64; 2]> {
        let data = [0x5a; CAP];
        let lengths = [size];
        let front = Front::new(&AAD, data.get(..size.checked_sub(new)?)?, &lengths).ok()?;
        let rest = data.get(..new)?;
        halves(|| {
            let begun = Instant::now();
            let mut prepared = Vec::with_capacity(SLOTS);
            for (sealer, slot) in &mut self.senders {
                let mut packet = sealer.prepare_front(&front, slot).ok()?;
                while packet.step(u32::MAX) > 0 {}
                prepared.push(packet);
            }
            let before = nanoseconds(begun, SLOTS);
            let mut sealed = Vec::with_capacity(SLOTS);
            let begun = Instant::now();
            for packet in prepared {
                sealed.push(packet.seal(black_box(rest)).ok()?);
            }
            let online = nanoseconds(begun, SLOTS);
            black_box(&sealed);
            Some([before, online])
        })
    }
}
