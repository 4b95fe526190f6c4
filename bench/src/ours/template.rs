//! Packets known except for their holes.

use super::all_new::Nonces;
use super::{CAP, Counter, new_key, numbers};
use crate::clock::{held, held_mut};
use crate::meter::{Contender, TURN, Timer};
use crate::packet::{AAD, NonceBytes, Sealed, payload};
use antedate_aead::{Hole, Opener, Sealer, Sparse, Template, TemplatePool, TemplateSlot};
use std::hint::black_box;

/// Blocks that a slot can defer.
const BLOCKS: usize = 4;

type Slot<S> = TemplateSlot<S, CAP, BLOCKS>;

/// Payload and holes: `touched` whole blocks, spread over the payload.
struct Shape {
    payload: Vec<u8>,
    holes: Vec<Hole>,
    value: [u8; 16],
}

impl Shape {
    fn new(len: usize, touched: usize) -> Self {
        let place = |i: usize| 16 * ((2 * i + 1) * (len / 16) / (2 * touched));
        let hole = |i| Hole::Payload(place(i)..len.min(place(i) + 16));
        let payload = payload(len);
        Self { value: [0x5a; 16], holes: (0..touched).map(hole).collect(), payload }
    }

    fn template(&self) -> Template<'_> {
        Template::new(&AAD, &self.payload, &self.holes).expect("the holes are apart")
    }

    fn values(&self) -> Vec<&[u8]> {
        let length = |hole: &Hole| match hole {
            Hole::Aad(range) | Hole::Payload(range) => range.len(),
        };
        self.holes.iter().map(|hole| &self.value[..length(hole)]).collect()
    }
}

/// Seals.
pub struct Holes<S: Sparse + Nonces> {
    shape: &'static Shape,
    pool: Box<TemplatePool<'static, S, Counter, TURN, CAP, BLOCKS>>,
}

impl<S: Sparse + Nonces> Holes<S> {
    /// For payloads of this length with `touched` blocks touched.
    pub fn new(len: usize, touched: usize) -> Self {
        // Leaked, since the pool borrows it and a benchmark is short.
        let shape: &'static Shape = Box::leak(Box::new(Shape::new(len, touched)));
        let pool = TemplatePool::new(new_key(), Counter::default(), shape.template());
        Self { shape, pool: Box::new(pool.expect("the template fits")) }
    }
}

impl<S: Sparse + Nonces> Contender for Holes<S> {
    fn turn(&mut self, timer: &mut Timer) {
        let values = self.shape.values().concat();
        self.pool.idle(u32::MAX);
        for _ in 0..TURN {
            let Ok(packet) = self.pool.next();
            let values = held(&values);
            let sealed = timer.time(|| packet.seal_joined(values));
            assert!(sealed.is_ok(), "the values fit");
        }
    }
}

/// Opens.
pub struct HolesOpen<S: Sparse + Nonces> {
    shape: Shape,
    opener: Opener<S, fn(u64) -> S::Bytes>,
    slots: Vec<Box<Slot<S>>>,
    packets: Vec<Sealed<16>>,
    out: Vec<u8>,
}

impl<S: Sparse + Nonces<TagBytes = [u8; 16]>> HolesOpen<S> {
    /// For these packets, with `touched` blocks touched.
    pub fn new(packets: Vec<Sealed<16>>, touched: usize) -> Self {
        let len = packets.first().map_or(0, |(_, ciphertext, _)| ciphertext.len());
        let nonce_of: fn(u64) -> S::Bytes = S::Bytes::of;
        let opener = Opener::new(new_key(), nonce_of);
        let slots = numbers().map(|_| Box::new(Slot::<S>::new())).collect();
        Self { shape: Shape::new(len, touched), opener, slots, packets, out: vec![0; len] }
    }
}

impl<S: Sparse + Nonces<TagBytes = [u8; 16]>> Contender for HolesOpen<S> {
    fn turn(&mut self, timer: &mut Timer) {
        let template = self.shape.template();
        let mut packets = Vec::with_capacity(TURN);
        for (slot, (number, ciphertext, tag)) in self.slots.iter_mut().zip(&self.packets) {
            let mut packet =
                self.opener.expect_template(*number, &template, slot).expect("the template fits");
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

/// Prepares for one touched block, then discards.
pub struct PrepareTemplate<S: Sparse + Nonces> {
    shape: Shape,
    sealer: Sealer<S, Counter>,
    slot: Box<Slot<S>>,
}

impl<S: Sparse + Nonces> PrepareTemplate<S> {
    /// For payloads of this length.
    pub fn new(len: usize) -> Self {
        let sealer = Sealer::new(new_key(), Counter::default());
        Self { shape: Shape::new(len, 1), sealer, slot: Box::new(Slot::<S>::new()) }
    }
}

impl<S: Sparse + Nonces> Contender for PrepareTemplate<S> {
    fn turn(&mut self, timer: &mut Timer) {
        let template = self.shape.template();
        for _ in numbers() {
            let packet = timer.time(|| {
                let mut packet = self
                    .sealer
                    .prepare_template(black_box(&template), &mut self.slot)
                    .expect("the template fits");
                while packet.step(u32::MAX) > 0 {}
                packet
            });
            drop(packet);
        }
    }
}
