//! MORUS-1280-128 written from its specification (Wu and Huang, version 2, September 2016), as an
//! oracle: registers are numbers of 256 bits, and nothing is shared with the engine.

use std::{iter::repeat_n, vec::Vec};

/// A number of 256 bits; its bytes are in the order of a packet, the lowest first.
#[derive(Clone, Copy)]
struct Wide([u8; 32]);

impl Wide {
    fn zip(self, other: Self, f: impl Fn(u8, u8) -> u8) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }

    fn xor(self, other: Self) -> Self {
        self.zip(other, |a, b| a ^ b)
    }

    fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    /// `<<<`: the whole number rotated left by bits that make whole bytes.
    fn rotated(mut self, bits: usize) -> Self {
        self.0.rotate_right(bits / 8);
        self
    }

    /// `Rotl_256_64`: each of the four words of 64 bits rotated left.
    fn rotl_words(mut self, bits: u32) -> Self {
        for word in self.0.chunks_mut(8) {
            let rotated = u64::from_le_bytes(word.try_into().expect("eight bytes")).rotate_left(bits);
            word.copy_from_slice(&rotated.to_le_bytes());
        }
        self
    }

    /// Up to 32 bytes, followed by zeros.
    fn padded(bytes: &[u8]) -> Self {
        let padded: Vec<u8> = bytes.iter().copied().chain(repeat_n(0, 32 - bytes.len())).collect();
        Self(padded.try_into().expect("32 bytes"))
    }
}

/// Section 2.2, table 1: the rotations of words and of registers in the five rounds.
const WORDS: [u32; 5] = [13, 46, 38, 7, 4];
const REGISTERS: [usize; 5] = [64, 128, 192, 128, 64];

/// Section 2.3: round `i` changes register `i`, and rotates register `i + 3`.
fn state_update(s: &mut [Wide; 5], message: Wide) {
    for i in 0..5 {
        let [s1, s2, s3] = [1, 2, 3].map(|next| s[(i + next) % 5]);
        let mut sum = s[i].xor(s1.and(s2)).xor(s3);
        if i > 0 {
            sum = sum.xor(message);
        }
        s[i] = sum.rotl_words(WORDS[i]);
        s[(i + 3) % 5] = s3.rotated(REGISTERS[i]);
    }
}

fn key_stream(s: &[Wide; 5]) -> Wide {
    s[0].xor(s[1].rotated(192)).xor(s[2].and(s[3]))
}

/// Section 2.1: the Fibonacci numbers modulo 256.
fn constants() -> Wide {
    let (mut a, mut b) = (0u8, 1u8);
    Wide(std::array::from_fn(|_| {
        let now = a;
        (a, b) = (b, a.wrapping_add(b));
        now
    }))
}

/// The ciphertext and the tag.
pub(crate) fn seal(key: &[u8; 16], nonce: &[u8; 16], aad: &[u8], plain: &[u8]) -> (Vec<u8>, [u8; 16]) {
    // Section 2.4, initialization.
    let key = Wide::padded(&[&key[..], key].concat());
    let zero = Wide([0; 32]);
    let mut s = [Wide::padded(nonce), key, Wide([0xff; 32]), zero, constants()];
    for _ in 0..16 {
        state_update(&mut s, zero);
    }
    s[1] = s[1].xor(key);
    // Sections 2.5 and 2.6.
    for block in aad.chunks(32) {
        state_update(&mut s, Wide::padded(block));
    }
    let mut sealed = Vec::new();
    for block in plain.chunks(32) {
        let message = Wide::padded(block);
        sealed.extend(&message.xor(key_stream(&s)).0[..block.len()]);
        state_update(&mut s, message);
    }
    // Section 2.7, finalization: the lengths are in bits.
    let lengths = [8 * aad.len() as u64, 8 * plain.len() as u64].map(u64::to_le_bytes);
    s[4] = s[4].xor(s[0]);
    for _ in 0..10 {
        state_update(&mut s, Wide::padded(lengths.as_flattened()));
    }
    (sealed, key_stream(&s).0[..16].try_into().expect("16 bytes"))
}
