//! Packets one after the other: unmodified, prepared, sealed.

use std::convert::Infallible;
use std::hint::black_box;

use antedate_aead::unauthenticated::{CounterBlock, CtrStream};
use antedate_aead::{
    Aes128, Front, FrontSlot, Fronted, Hole, Key, Nonce, NonceSequence, Sealer, Slot, Sparse, Suite,
    Template, TemplateSlot,
};

use antedate_lab::sys::ticks::ticks;

/// Capacity of a slot in bytes.
const CAP: usize = 1536;
/// Blocks that a template defers.
const BLOCKS: usize = 4;
/// Associated data of each packet, as long as the header that DTLS 1.2 authenticates.
const AAD: [u8; 13] = *b"13 bytes head";

/// Medians of a packet in ticks: unmodified, preparation, online.
pub(super) type Costs = [f64; 3];

/// Counts up.
#[derive(Default)]
pub(super) struct Counter(u64);

impl<const N: usize> NonceSequence<[u8; N]> for Counter {
    type Error = Infallible;

    #[inline]
    fn next(&mut self) -> Result<(u64, Nonce<[u8; N]>), Infallible> {
        self.0 += 1;
        let mut nonce = [0; N];
        for (to, from) in nonce.iter_mut().rev().zip(self.0.to_le_bytes()) {
            *to = from;
        }
        Ok((self.0, Nonce::assume_unique(nonce)))
    }
}

/// Readings of a series: unmodified, preparation, online, empty call.
#[derive(Default)]
struct Readings([Vec<u64>; 4]);

impl Readings {
    #[inline(always)]
    fn time<R>(&mut self, part: usize, call: impl FnOnce() -> R) -> R {
        let start = ticks();
        let result = call();
        // By reference: a copy of a prepared packet is some hundred bytes.
        black_box(&result);
        let end = ticks();
        self.0[part].push(end - start);
        result
    }

    fn medians(mut self) -> Costs {
        self.0.iter_mut().for_each(|readings| readings.sort_unstable());
        let step = resolution(&self.0);
        let [unmodified, prepare, online, empty] = self.0.map(|readings| median(&readings, step));
        [unmodified, prepare, online].map(|readings| (readings - empty).max(0.0))
    }
}

/// Resolution of the clock: the smallest difference between readings. Each series is sorted.
fn resolution(series: &[Vec<u64>]) -> u64 {
    let neighbours = series.iter().flat_map(|readings| readings.windows(2));
    let gaps = neighbours.map(|pair| pair[1] - pair[0]);
    gaps.filter(|&gap| gap > 0).min().unwrap_or(0)
}

/// Median of sorted readings, interpolated within the clock's step among equal readings.
fn median(readings: &[u64], step: u64) -> f64 {
    let Some(&value) = readings.get(readings.len() / 2) else { return 0.0 };
    let below = readings.partition_point(|&other| other < value) as f64;
    let same = readings.partition_point(|&other| other <= value) as f64 - below;
    let half = readings.len() as f64 / 2.0;
    value as f64 + step as f64 * ((half - below) / same - 0.5)
}

fn key<S: Suite>() -> Box<Key<S>> {
    Box::new(Key::new(&[0x42; 64][..S::KEY_LEN]).expect("the key has the suite's length"))
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| i as u8).collect()
}

/// The next nonce of the unmodified cipher, which has its own key.
fn next<S: Suite>(counter: &mut Counter) -> Nonce<S::NonceBytes>
where
    Counter: NonceSequence<S::NonceBytes, Error = Infallible>,
{
    let Ok((_, nonce)) = counter.next();
    nonce
}

/// The unmodified packet and the empty call around each prepared packet of a series.
struct Series<S: Suite> {
    readings: Readings,
    key: Box<Key<S>>,
    counter: Counter,
    plain: Vec<u8>,
    out: Vec<u8>,
}

impl<S: Suite> Series<S>
where
    Counter: NonceSequence<S::NonceBytes, Error = Infallible>,
{
    fn new(plain: Vec<u8>) -> Self {
        let out = vec![0; plain.len()];
        Self { readings: Readings::default(), key: key(), counter: Counter::default(), plain, out }
    }

    fn unmodified(&mut self) {
        self.readings.time(3, || ());
        let nonce = next::<S>(&mut self.counter);
        self.readings.time(0, || self.key.seal(nonce, &AAD, black_box(&self.plain), &mut self.out));
    }
}

/// Measures a prepared nonce with all bytes new.
pub(super) fn all_new<S: Suite>(len: usize, packets: usize) -> Costs
where
    Counter: NonceSequence<S::NonceBytes, Error = Infallible>,
{
    let mut series = Series::<S>::new(payload(len));
    let mut sealer = Sealer::new(*key::<S>(), Counter::default());
    let mut slot = Box::new(Slot::<S, CAP>::new());
    for _ in 0..packets {
        series.unmodified();
        let mut packet = series.readings.time(1, || {
            let Ok(mut packet) = sealer.prepare(&mut slot);
            // Only as far as the packet's length.
            while packet.ready() < len && packet.step(1) > 0 {}
            packet
        });
        packet.step(0);
        let (plain, out) = (&series.plain, &mut series.out);
        series.readings.time(2, || packet.seal(&AAD, black_box(plain), out));
    }
    series.readings.medians()
}

/// Payload and holes of a template.
pub(super) struct Shape {
    payload: Vec<u8>,
    holes: Vec<Hole>,
}

impl Shape {
    /// A number of whole blocks as holes, spread over the payload.
    pub(super) fn scattered(len: usize, blocks: usize) -> Self {
        let place = |i: usize| 16 * ((2 * i + 1) * (len / 16) / (2 * blocks));
        let holes = (0..blocks).map(|i| Hole::Payload(place(i)..place(i) + 16)).collect();
        Self { payload: payload(len), holes }
    }
}

/// Measures a template.
pub(super) fn template<S: Sparse>(shape: &Shape, packets: usize) -> Costs
where
    Counter: NonceSequence<S::NonceBytes, Error = Infallible>,
{
    let template = Template::new(&AAD, &shape.payload, &shape.holes).expect("the holes are apart");
    let value: &[u8] = &[0x17; 16];
    let values = vec![value; shape.holes.len()];
    let mut series = Series::<S>::new(shape.payload.clone());
    let mut sealer = Sealer::new(*key::<S>(), Counter::default());
    let mut slot = Box::new(TemplateSlot::<S, CAP, BLOCKS>::new());
    for _ in 0..packets {
        series.unmodified();
        let packet = series.readings.time(1, || {
            let mut packet = sealer.prepare_template(&template, &mut slot).expect("the template fits");
            while packet.step(u32::MAX) > 0 {}
            packet
        });
        let sealed = series.readings.time(2, || packet.seal(black_box(&values)));
        assert!(sealed.is_ok(), "the values fit their holes");
    }
    series.readings.medians()
}

/// Measures a static front of this length with new bytes behind it.
pub(super) fn front<S: Fronted>(len: usize, front: usize, packets: usize) -> Costs
where
    Counter: NonceSequence<S::NonceBytes, Error = Infallible>,
{
    let payload = payload(len);
    let lengths = [len];
    let (known, rest) = payload.split_at(front);
    let shape = Front::new(&AAD, known, &lengths).expect("something follows the front");
    let mut series = Series::<S>::new(payload.clone());
    let mut sealer = Sealer::new(*key::<S>(), Counter::default());
    let mut slot = Box::new(FrontSlot::<S, CAP, 1>::new());
    for _ in 0..packets {
        series.unmodified();
        let packet = series.readings.time(1, || {
            let mut packet = sealer.prepare_front(&shape, &mut slot).expect("the front fits");
            while packet.step(u32::MAX) > 0 {}
            packet
        });
        let sealed = series.readings.time(2, || packet.seal(black_box(rest)));
        assert!(sealed.is_ok(), "the packet fits its slot");
    }
    series.readings.medians()
}

/// Measures AES-CTR: a cipherstream computed at the deadline, and a prepared one.
pub(super) fn counter_mode(len: usize, packets: usize) -> Costs {
    /// Blocks of 16 bytes that a stream prepares.
    const BLOCKS: usize = 64;
    let stream = || {
        let first = CounterBlock([0; 16]);
        let stream = CtrStream::<Aes128, BLOCKS>::new(&[0x42; 16], first, 1 << 40);
        Box::new(stream.expect("the key has the length of AES-128"))
    };
    let (mut unprepared, mut prepared) = (stream(), stream());
    let mut readings = Readings::default();
    let mut data = payload(len);
    prepared.idle(u32::MAX);
    for _ in 0..packets {
        readings.time(3, || ());
        let unmodified = readings.time(0, || unprepared.encrypt(black_box(&mut data)));
        let online = readings.time(2, || prepared.encrypt(black_box(&mut data)));
        assert!(unmodified.is_ok() && online.is_ok(), "the stream is long enough");
        // As many blocks as were used.
        readings.time(1, || prepared.idle(u32::MAX));
    }
    readings.medians()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_inside_its_clock_step() {
        assert_eq!(median(&[], 1), 0.0);
        assert_eq!(median(&[1, 2, 3], 1), 2.0);
        assert_eq!(median(&[5; 9], 20), 5.0);
        // A quarter of the step up: three of the four equal readings are below the middle.
        assert_eq!(median(&[20, 40, 40, 40, 40, 60, 60, 60], 20), 45.0);
    }

    #[test]
    fn outlier_does_not_widen_clock_step() {
        let mut readings = Readings([vec![40; 99], vec![60; 99], vec![40; 99], vec![20; 99]]);
        readings.0.iter_mut().for_each(|series| series.extend([100_000, 100_020]));
        assert_eq!(readings.medians().map(|ticks| ticks.round()), [20.0, 40.0, 20.0]);
    }

    #[test]
    fn holes_are_separate_whole_blocks() {
        for (len, blocks) in [(16, 1), (64, 4), (112, 4), (1500, 4)] {
            let shape = Shape::scattered(len, blocks);
            assert!(Template::new(&AAD, &shape.payload, &shape.holes).is_ok(), "{len} {blocks}");
        }
    }
}
