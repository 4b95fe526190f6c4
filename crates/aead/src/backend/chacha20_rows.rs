//! ChaCha20 (RFC 8439 section 2.3) with vectors of four words, each a row of a block's state. For
//! vector units in the base architecture.

use super::portable::chacha20::CONSTANTS;
use core::array;

/// One row of a block's state.
pub(crate) trait Row: Copy {
    /// Loads a row from its words.
    fn of(words: [u32; 4]) -> Self;
    /// Adds word by word.
    fn plus(self, other: Self) -> Self;
    /// XOR.
    fn xor(self, other: Self) -> Self;
    /// Rotates each word left by 16 bits.
    fn by_16(self) -> Self;
    /// Rotates each word left by 12 bits.
    fn by_12(self) -> Self;
    /// Rotates each word left by 8 bits.
    fn by_8(self) -> Self;
    /// Rotates each word left by 7 bits.
    fn by_7(self) -> Self;
    /// Moves each word down one place, the second to the first.
    fn turned_1(self) -> Self;
    /// Moves each word down two places.
    fn turned_2(self) -> Self;
    /// Moves each word down three places.
    fn turned_3(self) -> Self;
    /// Stores the words in little-endian order.
    fn store(self, out: &mut [u8; 16]);
}

/// Blocks per batch: enough to hide the latency of a round.
const BATCH: usize = 4;

/// Key stream from block `counter`; `out` is a whole number of blocks.
#[inline(always)]
pub(crate) fn stream<R: Row>(key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [u8]) {
    let mut counter = counter;
    for part in out.as_chunks_mut::<64>().0.chunks_mut(BATCH) {
        match part.len() {
            1 => blocks::<R, 1>(key, counter, nonce, part),
            2 => blocks::<R, 2>(key, counter, nonce, part),
            3 => blocks::<R, 3>(key, counter, nonce, part),
            _ => blocks::<R, BATCH>(key, counter, nonce, part),
        }
        counter = counter.wrapping_add(BATCH as u32);
    }
}

#[inline(always)]
fn quarter_rounds<R: Row, const W: usize>(sets: &mut [[R; 4]; W]) {
    for [a, b, c, d] in sets.iter_mut() {
        *a = a.plus(*b);
        *d = d.xor(*a).by_16();
        *c = c.plus(*d);
        *b = b.xor(*c).by_12();
        *a = a.plus(*b);
        *d = d.xor(*a).by_8();
        *c = c.plus(*d);
        *b = b.xor(*c).by_7();
    }
}

/// `W` blocks from `counter`.
#[inline]
fn blocks<R: Row, const W: usize>(key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [[u8; 64]]) {
    let [k0, k1, k2, k3, k4, k5, k6, k7] = *key;
    let n = |i: usize| u32::from_le_bytes([nonce[i], nonce[i + 1], nonce[i + 2], nonce[i + 3]]);
    let (constants, upper, lower) = (R::of(CONSTANTS), R::of([k0, k1, k2, k3]), R::of([k4, k5, k6, k7]));
    let last: [R; W] = array::from_fn(|i| R::of([counter.wrapping_add(i as u32), n(0), n(4), n(8)]));
    let mut sets: [[R; 4]; W] = last.map(|last| [constants, upper, lower, last]);
    for _ in 0..10 {
        quarter_rounds(&mut sets);
        for [_, b, c, d] in &mut sets {
            *b = b.turned_1();
            *c = c.turned_2();
            *d = d.turned_3();
        }
        quarter_rounds(&mut sets);
        for [_, b, c, d] in &mut sets {
            *b = b.turned_3();
            *c = c.turned_2();
            *d = d.turned_1();
        }
    }
    for ((set, last), block) in sets.into_iter().zip(last).zip(out) {
        let start = [constants, upper, lower, last];
        for ((row, first), out) in set.into_iter().zip(start).zip(block.as_chunks_mut().0) {
            row.plus(first).store(out);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::backend::portable::chacha20;

    /// Compares a stream with the scalar code, for any length and across a counter wrap.
    pub(crate) fn is_that_of_the_scalar_code(stream: impl Fn(&[u32; 8], u32, &[u8; 12], &mut [u8])) {
        let key = core::array::from_fn(|i| 0x1234_5678u32.wrapping_mul(i as u32 + 1));
        for blocks in 0..14 {
            for counter in [0, 1, u32::MAX - 2] {
                let (mut ours, mut scalar) = ([0; 64 * 14], [0; 64 * 14]);
                stream(&key, counter, b"twelve bytes", &mut ours[..64 * blocks]);
                chacha20::stream(&key, counter, b"twelve bytes", &mut scalar[..64 * blocks]);
                assert_eq!(ours, scalar, "{blocks} blocks from {counter}");
            }
        }
    }
}
