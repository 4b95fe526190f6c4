//! Packets with a prepared nonce and only new bytes.

use super::{CAP, Counter, new_key};
use crate::clock::held_mut;
use crate::meter::{Contender, TURN, Timer};
use crate::packet::{AAD, Buffer, NonceBytes, Sealed, payload};
use antedate_aead::{OpenPool, SealPool, Sealer, Slot, Suite};
use std::hint::black_box;

type Sealing<S> = Box<SealPool<S, Counter, TURN, CAP>>;
type NonceOf<S> = fn(u64) -> <S as Nonces>::Bytes;
type Opening<S> = Box<OpenPool<S, NonceOf<S>, TURN, CAP>>;

/// A suite whose nonces are made from a number.
pub trait Nonces: Suite<NonceBytes = <Self as Nonces>::Bytes> {
    /// The bytes of a nonce.
    type Bytes: NonceBytes;
}

impl<S: Suite> Nonces for S
where
    S::NonceBytes: NonceBytes,
{
    type Bytes = S::NonceBytes;
}

fn sealing<S: Nonces>(len: usize) -> Sealing<S> {
    let mut pool = Box::new(SealPool::new(new_key(), Counter::default()));
    pool.set_reach(len);
    pool
}

/// Seals.
pub struct AllNew<S: Nonces> {
    pool: Sealing<S>,
    buffer: Buffer,
}

impl<S: Nonces> AllNew<S> {
    /// For payloads of this length.
    pub fn new(len: usize) -> Self {
        Self { pool: sealing(len), buffer: Buffer::of(&payload(len)) }
    }
}

impl<S: Nonces> Contender for AllNew<S> {
    fn turn(&mut self, timer: &mut Timer) {
        self.pool.idle(u32::MAX);
        for _ in 0..TURN {
            let buffer = held_mut(&mut self.buffer);
            timer.time(|| {
                let Ok(packet) = self.pool.next();
                packet.seal_in_place(&AAD, buffer)
            });
        }
    }
}

/// Opens.
pub struct AllNewOpen<S: Nonces, const T: usize> {
    pool: Opening<S>,
    packets: Vec<Sealed<T>>,
    buffers: Vec<Buffer>,
}

impl<S: Nonces<TagBytes = [u8; T]>, const T: usize> AllNewOpen<S, T> {
    /// For these packets.
    pub fn new(packets: Vec<Sealed<T>>) -> Self {
        let buffers: Vec<_> = packets.iter().map(|(_, ciphertext, _)| Buffer::of(ciphertext)).collect();
        let nonce_of: NonceOf<S> = S::Bytes::of;
        let mut pool = Box::new(OpenPool::new(new_key(), nonce_of));
        pool.set_reach(buffers.first().map_or(0, |buffer| buffer.len()));
        Self { pool, packets, buffers }
    }
}

impl<S: Nonces<TagBytes = [u8; T]>, const T: usize> Contender for AllNewOpen<S, T> {
    fn turn(&mut self, timer: &mut Timer) {
        for ((_, ciphertext, _), buffer) in self.packets.iter().zip(&mut self.buffers) {
            buffer.copy_from_slice(ciphertext);
        }
        // The same packets again: moves far ahead, then back.
        self.pool.expect_from(u64::MAX / 2);
        self.pool.expect_from(1);
        self.pool.idle(u32::MAX);
        for ((number, _, tag), buffer) in self.packets.iter().zip(&mut self.buffers) {
            let buffer = held_mut(buffer);
            let opened = timer.time(|| self.pool.open_in_place(*number, &AAD, buffer, tag));
            assert!(opened.is_ok(), "a genuine packet was refused");
        }
    }
}

/// Prepares, then discards.
pub struct Prepare<S: Nonces> {
    sealer: Sealer<S, Counter>,
    slot: Box<Slot<S, CAP>>,
    /// Exactly the steps that prepare a packet of this length.
    budget: u32,
}

impl<S: Nonces> Prepare<S> {
    /// For payloads of this length.
    pub fn new(len: usize) -> Self {
        let mut sealer = Sealer::new(new_key(), Counter::default());
        let mut slot = Box::new(Slot::new());
        let Ok(mut packet) = sealer.prepare(&mut slot);
        let mut budget = 0;
        while packet.ready() < len && packet.step(1) > 0 {
            budget += 1;
        }
        drop(packet);
        Self { sealer, slot, budget }
    }
}

impl<S: Nonces> Contender for Prepare<S> {
    fn turn(&mut self, timer: &mut Timer) {
        for _ in 0..TURN {
            let packet = timer.time(|| {
                let Ok(mut packet) = self.sealer.prepare(&mut self.slot);
                packet.step(black_box(self.budget));
                packet
            });
            drop(packet);
        }
    }
}
