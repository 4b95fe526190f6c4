//! Packets known except for their end.

use super::all_new::Nonces;
use super::{CAP, Counter, new_key, numbers};
use crate::clock::{held, held_mut};
use crate::meter::{Contender, TURN, Timer};
use crate::packet::{AAD, NonceBytes, Sealed, payload};
use antedate_aead::{Front, FrontPool, FrontSlot, Fronted, Opener, Sealer};
use std::hint::black_box;

type Slot<S> = FrontSlot<S, CAP, 1>;

/// A payload whose last bytes are new.
struct Shape {
    payload: Vec<u8>,
    known: usize,
    lengths: [usize; 1],
}

impl Shape {
    /// Makes the last `blocks` blocks new: full ones if the payload is a whole number of blocks.
    fn new(len: usize, blocks: usize) -> Self {
        let known = len.next_multiple_of(16).saturating_sub(16 * blocks);
        Self { payload: payload(len), known, lengths: [len] }
    }

    fn front(&self) -> Front<'_> {
        Front::new(&AAD, &self.payload[..self.known], &self.lengths).expect("something follows the front")
    }

    fn rest(&self) -> &[u8] {
        &self.payload[self.known..]
    }
}

/// Seals.
pub struct Ends<S: Fronted + Nonces> {
    shape: &'static Shape,
    pool: Box<FrontPool<'static, S, Counter, TURN, CAP, 1>>,
}

impl<S: Fronted + Nonces> Ends<S> {
    /// For payloads of this length whose last `blocks` blocks are new.
    pub fn new(len: usize, blocks: usize) -> Self {
        // Leaked, since the pool borrows it and a benchmark is short.
        let shape: &'static Shape = Box::leak(Box::new(Shape::new(len, blocks)));
        let pool = FrontPool::new(new_key(), Counter::default(), shape.front());
        Self { shape, pool: Box::new(pool.expect("the front fits")) }
    }
}

impl<S: Fronted + Nonces> Contender for Ends<S> {
    fn turn(&mut self, timer: &mut Timer) {
        // Finding the rest is not the cipher's work, as with values that fill holes.
        let rest = self.shape.rest();
        self.pool.idle(u32::MAX);
        for _ in 0..TURN {
            let Ok(packet) = self.pool.next();
            let rest = held(rest);
            let sealed = timer.time(|| packet.seal(rest));
            assert!(sealed.is_ok(), "the packet fits");
        }
    }
}

/// Opens.
pub struct EndsOpen<S: Fronted + Nonces, const T: usize> {
    shape: Shape,
    opener: Opener<S, fn(u64) -> S::Bytes>,
    slots: Vec<Box<Slot<S>>>,
    packets: Vec<Sealed<T>>,
    out: Vec<u8>,
}

impl<S: Fronted + Nonces<TagBytes = [u8; T]>, const T: usize> EndsOpen<S, T> {
    /// For these packets, whose last `blocks` blocks are new.
    pub fn new(packets: Vec<Sealed<T>>, blocks: usize) -> Self {
        let len = packets.first().map_or(0, |(_, ciphertext, _)| ciphertext.len());
        let nonce_of: fn(u64) -> S::Bytes = S::Bytes::of;
        let opener = Opener::new(new_key(), nonce_of);
        let slots = numbers().map(|_| Box::new(Slot::<S>::new())).collect();
        Self { shape: Shape::new(len, blocks), opener, slots, packets, out: vec![0; len] }
    }
}

impl<S: Fronted + Nonces<TagBytes = [u8; T]>, const T: usize> Contender for EndsOpen<S, T> {
    fn turn(&mut self, timer: &mut Timer) {
        let front = self.shape.front();
        let mut packets = Vec::with_capacity(TURN);
        for (slot, (number, ciphertext, tag)) in self.slots.iter_mut().zip(&self.packets) {
            let mut packet = self.opener.expect_front(*number, &front, slot).expect("the front fits");
            while packet.step(u32::MAX) > 0 {}
            packets.push((packet, ciphertext, tag));
        }
        for (packet, ciphertext, tag) in packets {
            let (ciphertext, out) = (held(ciphertext), held_mut(&mut self.out));
            let opened = timer.time(|| packet.open(&AAD, ciphertext, out, tag));
            assert!(opened.is_ok(), "a genuine packet was refused");
        }
    }
}

/// Prepares for one new block at the end, then discards.
pub struct PrepareFront<S: Fronted + Nonces> {
    shape: Shape,
    sealer: Sealer<S, Counter>,
    slot: Box<Slot<S>>,
}

impl<S: Fronted + Nonces> PrepareFront<S> {
    /// For payloads of this length.
    pub fn new(len: usize) -> Self {
        let sealer = Sealer::new(new_key(), Counter::default());
        Self { shape: Shape::new(len, 1), sealer, slot: Box::new(Slot::<S>::new()) }
    }
}

impl<S: Fronted + Nonces> Contender for PrepareFront<S> {
    fn turn(&mut self, timer: &mut Timer) {
        let front = self.shape.front();
        for _ in numbers() {
            let packet = timer.time(|| {
                let front = black_box(&front);
                let mut packet = self.sealer.prepare_front(front, &mut self.slot).expect("the front fits");
                while packet.step(u32::MAX) > 0 {}
                packet
            });
            drop(packet);
        }
    }
}
