//! Packets for all contenders, and the interface of a contender without preparations.

use crate::clock::held_mut;
use crate::meter::{Contender, TURN, Timer};
use std::{
    hint::black_box,
    ops::{Deref, DerefMut},
};

/// Associated data of every packet.
pub const AAD: [u8; 14] = *b"14 bytes ahead";

/// The key common to all contenders.
pub fn key<const K: usize>() -> [u8; K] {
    std::array::from_fn(|i| (7 * i + 1) as u8)
}

/// Bytes of a nonce.
pub trait NonceBytes {
    /// The nonce of packet `number`.
    fn of(number: u64) -> Self;
}

impl<const N: usize> NonceBytes for [u8; N] {
    fn of(number: u64) -> Self {
        nonce(number)
    }
}

/// The nonce of packet `number`.
pub fn nonce<const N: usize>(number: u64) -> [u8; N] {
    let mut nonce = [0; N];
    nonce[N - 8..].copy_from_slice(&number.to_be_bytes());
    nonce
}

/// The payload of every packet before it is sealed.
pub fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * i + 3 * i) as u8).collect()
}

/// A packet's memory, aligned to a cache line, so that the number of lines a vector touches does
/// not depend on the allocator.
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// A copy of a packet.
    pub fn of(packet: &[u8]) -> Self {
        let mut bytes = vec![0; packet.len() + 64];
        let start = bytes.as_ptr().align_offset(64);
        bytes.truncate(start + packet.len());
        bytes[start..].copy_from_slice(packet);
        Self { bytes, start }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

/// A cipher with its key that seals and opens whole packets in place.
pub trait Cipher<const N: usize, const T: usize> {
    /// Encrypts, and returns the tag.
    fn seal(&mut self, nonce: &[u8; N], buffer: &mut [u8]) -> [u8; T];
    /// Decrypts, and returns whether the packet is authentic.
    fn open(&mut self, nonce: &[u8; N], buffer: &mut [u8], tag: &[u8; T]) -> bool;
}

/// Seals packet by packet.
struct Sealing<C, const N: usize, const T: usize> {
    cipher: C,
    number: u64,
    buffer: Buffer,
}

impl<C: Cipher<N, T>, const N: usize, const T: usize> Contender for Sealing<C, N, T> {
    fn turn(&mut self, timer: &mut Timer) {
        for _ in 0..TURN {
            self.number += 1;
            let nonce = black_box(nonce::<N>(self.number));
            let buffer = held_mut(&mut self.buffer);
            timer.time(|| self.cipher.seal(&nonce, buffer));
        }
    }
}

/// A sealed packet: number, ciphertext, tag.
pub type Sealed<const T: usize> = (u64, Vec<u8>, [u8; T]);

/// Opens packet by packet.
struct Opening<C, const N: usize, const T: usize> {
    cipher: C,
    packets: Vec<Sealed<T>>,
    buffers: Vec<Buffer>,
}

impl<C: Cipher<N, T>, const N: usize, const T: usize> Contender for Opening<C, N, T> {
    fn turn(&mut self, timer: &mut Timer) {
        for ((_, ciphertext, _), buffer) in self.packets.iter().zip(&mut self.buffers) {
            buffer.copy_from_slice(ciphertext);
        }
        for ((number, _, tag), buffer) in self.packets.iter().zip(&mut self.buffers) {
            let nonce = black_box(nonce::<N>(*number));
            let buffer = held_mut(buffer);
            let authentic = timer.time(|| self.cipher.open(&nonce, buffer, tag));
            assert!(authentic, "a genuine packet was refused");
        }
    }
}

/// Packets sealed by a cipher, for opening.
pub fn sealed<const N: usize, const T: usize>(cipher: &mut impl Cipher<N, T>, len: usize) -> Vec<Sealed<T>> {
    let seal = |number| {
        let mut buffer = payload(len);
        let tag = cipher.seal(&nonce(number), &mut buffer);
        (number, buffer, tag)
    };
    (1..=TURN as u64).map(seal).collect()
}

/// The sealing and the opening contender of a cipher.
pub fn contenders<C, const N: usize, const T: usize>(
    make: impl Fn() -> C,
    len: usize,
) -> [Box<dyn Contender>; 2]
where
    C: Cipher<N, T> + 'static,
{
    let mut cipher = make();
    let packets = sealed(&mut cipher, len);
    let buffers = (0..TURN).map(|_| Buffer::of(&vec![0; len])).collect();
    [
        Box::new(Sealing { cipher: make(), number: 0, buffer: Buffer::of(&payload(len)) }),
        Box::new(Opening { cipher, packets, buffers }),
    ]
}

/// Whether a cipher gives the same packet as `expected`, opens it again, and refuses a changed one.
pub fn agrees<const N: usize, const T: usize>(
    cipher: &mut impl Cipher<N, T>,
    expected: &Sealed<T>,
    len: usize,
) -> bool {
    let (number, ciphertext, tag) = expected;
    let mut buffer = payload(len);
    let same = cipher.seal(&nonce(*number), &mut buffer) == *tag && buffer == *ciphertext;
    let opens = cipher.open(&nonce(*number), &mut buffer, tag) && buffer == payload(len);
    let mut wrong = *tag;
    wrong[0] ^= 1;
    buffer.copy_from_slice(ciphertext);
    same && opens && !cipher.open(&nonce(*number), &mut buffer, &wrong)
}
