//! The rounds of [`super::Aes`] for CPUs without assembly.

use crate::backend::portable::aes::sub_bytes;
use core::ops::{BitAnd, BitXor, Not};
use zeroize::Zeroize;

/// A plane for the circuit without its constant: the round keys have it, and MixColumns keeps it.
#[derive(Clone, Copy)]
struct Bare(u32);

impl BitXor for Bare {
    type Output = Self;

    #[inline(always)]
    fn bitxor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

impl BitAnd for Bare {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Bare {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        self
    }
}

/// SubBytes without its constant. Out of line: key expansion and encryption share it.
#[inline(never)]
pub(super) fn substitute(x: &mut [u32; 8]) {
    let mut planes = x.map(Bare);
    sub_bytes(&mut planes);
    *x = planes.map(|plane| plane.0);
}

/// Transposes four 8x8 bit matrices, each made of the same byte of the eight words. Self-inverse.
#[inline(never)]
pub(super) fn transpose(x: &mut [u32; 8]) {
    let [a, b, c, d, e, f, g, h] = x;
    for (low, high) in [(&mut *a, &mut *b), (&mut *c, &mut *d), (&mut *e, &mut *f), (&mut *g, &mut *h)] {
        exchange::<1>(low, high, 0x5555_5555);
    }
    for (low, high) in [(&mut *a, &mut *c), (&mut *b, &mut *d), (&mut *e, &mut *g), (&mut *f, &mut *h)] {
        exchange::<2>(low, high, 0x3333_3333);
    }
    for (low, high) in [(a, e), (b, f), (c, g), (d, h)] {
        exchange::<4>(low, high, 0x0f0f_0f0f);
    }
}

/// Exchanges bits of two words: those of `low` above `STEP` with those of `high` in the mask.
#[inline(always)]
fn exchange<const STEP: u32>(low: &mut u32, high: &mut u32, mask: u32) {
    let swap = ((*low >> STEP) ^ *high) & mask;
    *high ^= swap;
    *low ^= swap << STEP;
}

/// The words of a block: its columns, with row 0 in the lowest byte.
fn columns(block: &[u8; 16]) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

fn put(block: &mut [u8; 16], words: [u32; 4]) {
    for (bytes, word) in block.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
}

/// The next row in the same column. Without ShiftRows (`ODD`) it lies a column further: a row is a
/// byte of four columns, and what leaves the byte comes in at its other end.
#[inline(always)]
fn next<const ODD: bool>(x: u32) -> u32 {
    match ODD {
        false => x.rotate_right(8),
        true => (x ^ ((x ^ x.rotate_right(8)) & 0xfcfc_fcfc)).rotate_right(2),
    }
}

/// The row after the next one.
#[inline(always)]
fn opposite<const ODD: bool>(x: u32) -> u32 {
    match ODD {
        false => x.rotate_right(16),
        true => (x ^ ((x ^ x.rotate_right(8)) & 0xf0f0_f0f0)).rotate_right(12),
    }
}

/// Rows 1 and 3 by two columns, which is ShiftRows twice.
#[inline(always)]
fn turn(plane: u32) -> u32 {
    let swap = ((plane >> 4) ^ plane) & 0x0f00_0f00;
    plane ^ swap ^ (swap << 4)
}

/// What is left of ShiftRows, then MixColumns and AddRoundKey.
#[inline(never)]
fn mix<const ODD: bool>(x: &mut [u32; 8], key: &[u32; 8]) {
    // From the last plane on, so that few values are alive: doubling moves plane 7 to plane 0.
    let last = if ODD { x[7] } else { turn(x[7]) };
    let n = next::<ODD>(last);
    let high = last ^ n;
    let (n, t) = plane::<ODD, 7>(x, key, 0, (n, high));
    let (n, t) = plane::<ODD, 6>(x, key, 0, (n, t));
    let (n, t) = plane::<ODD, 5>(x, key, 0, (n, t));
    let (n, t) = plane::<ODD, 4>(x, key, high, (n, t));
    let (n, t) = plane::<ODD, 3>(x, key, high, (n, t));
    let (n, t) = plane::<ODD, 2>(x, key, 0, (n, t));
    let (n, t) = plane::<ODD, 1>(x, key, high, (n, t));
    x[0] = high ^ n ^ opposite::<ODD>(t) ^ key[0];
}

/// Plane `K` of the mixed columns. Takes the next row's plane and its sum with this row's, and
/// returns those of the plane below, which is doubled.
#[inline(always)]
fn plane<const ODD: bool, const K: usize>(
    x: &mut [u32; 8],
    key: &[u32; 8],
    reduction: u32,
    (n, t): (u32, u32),
) -> (u32, u32) {
    let this = if ODD { x[K - 1] } else { turn(x[K - 1]) };
    let below = next::<ODD>(this);
    let doubled = this ^ below;
    x[K] = doubled ^ reduction ^ n ^ opposite::<ODD>(t) ^ key[K];
    (below, doubled)
}

/// Encrypts two blocks with an expanded key.
pub(super) fn encrypt(planes: &[[u32; 8]], first: &mut [u8; 16], second: &mut [u8; 16]) {
    let Some((initial, rest)) = planes.split_first() else { return };
    let (a, b) = (columns(first), columns(second));
    let mut x = [a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]];
    transpose(&mut x);
    for (plane, key) in x.iter_mut().zip(initial) {
        *plane ^= key;
    }
    // Two rounds, the last of which has no MixColumns.
    let (rounds, _) = rest.as_chunks::<2>();
    for (i, [odd, even]) in rounds.iter().enumerate() {
        substitute(&mut x);
        mix::<true>(&mut x, odd);
        substitute(&mut x);
        if i + 1 < rounds.len() {
            mix::<false>(&mut x, even);
        } else {
            for (plane, key) in x.iter_mut().zip(even) {
                *plane = turn(*plane) ^ key;
            }
        }
    }
    transpose(&mut x);
    let [a, b, c, d, e, f, g, h] = x;
    put(first, [a, c, e, g]);
    put(second, [b, d, f, h]);
    x.zeroize();
}
