//! AES (FIPS 197) on CPUs without instructions for it, by the byte shuffles of SSSE3 (see
//! [`tower`](super::tower)). No address and no branch depends on key or data.
//!
//! ShiftRows is not computed: after round `m` the state is one whose rows would have to be shifted
//! `m` times, and the places of MixColumns and the round keys fit that. Four shifts are none. Two
//! are left after the last round, the tenth or fourteenth. SubBytes' constant is in the round keys.
//!
//! Decryption is the equivalent inverse cipher (section 5.3.5), with the rows shifted the other
//! way.

use super::{
    Ssse3, from, into,
    tower::{A_OVER, INVERSE, Linear, OfInverse, Table, bytes, from_place, state, states},
};
use crate::backend::portable::{
    aes::{Aes as Sliced, RoundKeys},
    pieces,
};
use core::arch::x86_64::*;
use zeroize::Zeroize;

/// Blocks between which the instructions of one round alternate.
const FOUR: usize = 4;

/// Round keys of one direction, in order of use and in the form that their round needs.
type Schedule = [[u8; 16]; 15];

/// An expanded key for encryption and decryption. Exists only on a CPU with SSSE3.
#[repr(align(8))]
pub(crate) struct Aes {
    forth: Schedule,
    back: Schedule,
    /// Zeros up to the size of a sliced key, which may occupy the same memory: no byte of an
    /// expanded key keeps old contents.
    _rest: [Schedule; 2],
    rounds: usize,
}

const _: () = assert!(size_of::<Aes>() == size_of::<Sliced>());

impl Drop for Aes {
    fn drop(&mut self) {
        self.forth.zeroize();
        self.back.zeroize();
    }
}

impl Aes {
    pub(crate) fn new(_: Ssse3, key: &RoundKeys) -> Self {
        let none = [[0; 16]; 15];
        let mut aes = Self { forth: none, back: none, _rest: [none; 2], rounds: key.rounds };
        // SAFETY: the instructions are present.
        unsafe { aes.expand(key) };
        aes
    }

    #[target_feature(enable = "ssse3")]
    fn expand(&mut self, key: &RoundKeys) {
        let last = self.rounds;
        for round in 0..=last {
            let (mut forth, mut back) = (from(&key.blocks[round]), from(&key.blocks[last - round]));
            if round > 0 {
                forth = _mm_xor_si128(forth, constant());
            }
            if round < last {
                if round > 0 {
                    back = inverse_mix_columns(back);
                }
                back = linear(&BACK, _mm_xor_si128(back, constant()));
                back = shuffle(back, &SHIFTED[round % 4]);
                forth = linear(&FORTH, forth);
                forth = shuffle(forth, &SHIFTED[3 * round % 4]);
            }
            (self.forth[round], self.back[round]) = (into(forth), into(back));
        }
    }

    /// Encrypts blocks.
    pub(crate) fn encrypt(&self, blocks: &mut [[u8; 16]]) {
        // SAFETY: a key exists only with the instructions.
        unsafe { self.some::<false>(blocks) }
    }

    /// Encrypts two blocks.
    pub(crate) fn encrypt_two(&self, first: &mut [u8; 16], second: &mut [u8; 16]) {
        // SAFETY: a key exists only with the instructions.
        unsafe { self.two(first, second) }
    }

    /// Decrypts blocks.
    pub(crate) fn decrypt(&self, blocks: &mut [[u8; 16]]) {
        // SAFETY: a key exists only with the instructions.
        unsafe { self.some::<true>(blocks) }
    }

    /// XORs the key stream of counter blocks (NIST SP 800-38D section 7.1): the nonce, then a
    /// 32-bit counter that starts at `counter`.
    pub(crate) fn xor_counters(&self, nonce: &[u8; 12], counter: u32, data: &mut [u8]) {
        // SAFETY: a key exists only with the instructions.
        unsafe { self.counters(nonce, counter, data) }
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    fn through<const BACK: bool, const N: usize>(&self, states: [__m128i; N]) -> [__m128i; N] {
        let keys = if BACK { &self.back } else { &self.forth };
        through::<BACK, N>(&keys[..=self.rounds], states)
    }

    #[target_feature(enable = "ssse3")]
    fn two(&self, first: &mut [u8; 16], second: &mut [u8; 16]) {
        [*first, *second] = self.through::<false, 2>([from(first), from(second)]).map(|x| into(x));
    }

    #[target_feature(enable = "ssse3")]
    fn some<const BACK: bool>(&self, blocks: &mut [[u8; 16]]) {
        let (fours, rest) = blocks.as_chunks_mut::<FOUR>();
        for [a, b, c, d] in fours {
            [*a, *b, *c, *d] =
                self.through::<BACK, FOUR>([from(a), from(b), from(c), from(d)]).map(|x| into(x));
        }
        for block in rest {
            let [x] = self.through::<BACK, 1>([from(block)]);
            *block = into(x);
        }
    }

    #[target_feature(enable = "ssse3")]
    fn counters(&self, nonce: &[u8; 12], mut counter: u32, data: &mut [u8]) {
        let mut first = [0; 16];
        first[..12].copy_from_slice(nonce);
        let first = from(&first);
        // Counter blocks are built in registers: a vector load over narrower stores would stall.
        let mut next = || {
            let block = _mm_or_si128(first, _mm_set_epi32(counter.swap_bytes() as i32, 0, 0, 0));
            counter = counter.wrapping_add(1);
            block
        };
        let (blocks, tail) = data.as_chunks_mut::<16>();
        let (fours, rest) = blocks.as_chunks_mut::<FOUR>();
        for four in fours {
            let pads = self.through::<false, FOUR>([next(), next(), next(), next()]);
            for (block, pad) in four.iter_mut().zip(pads) {
                *block = into(_mm_xor_si128(from(block), pad));
            }
        }
        for block in rest {
            let [pad] = self.through::<false, 1>([next()]);
            *block = into(_mm_xor_si128(from(block), pad));
        }
        if !tail.is_empty() {
            let [pad] = self.through::<false, 1>([next()]);
            let mut pad = into(pad);
            pieces::xor(tail, &pad);
            pad.zeroize();
        }
    }
}

/// SubWord (FIPS 197 section 5.2).
pub(crate) fn sub_word(_: Ssse3, word: [u8; 4]) -> [u8; 4] {
    // SAFETY: the instructions are present.
    unsafe { sub_columns(word) }
}

#[target_feature(enable = "ssse3")]
fn sub_columns(word: [u8; 4]) -> [u8; 4] {
    let x = linear(&FORTH, _mm_cvtsi32_si128(i32::from_le_bytes(word)));
    let bytes = of_inverse(&FORTH_LAST, inverse(x));
    _mm_cvtsi128_si32(_mm_xor_si128(bytes, constant())).to_le_bytes()
}

static FORTH: Linear = state(false);
static FORTH_ONCE: OfInverse = states(false, 1);
static FORTH_TWICE: OfInverse = states(false, 2);
static FORTH_LAST: OfInverse = bytes(false, 1);

static BACK: Linear = state(true);
/// The row of InvMixColumns from its end on (FIPS 197 section 5.3.3).
static BACK_ROW: [OfInverse; 4] =
    [states(true, 0x09), states(true, 0x0d), states(true, 0x0b), states(true, 0x0e)];
static BACK_LAST: OfInverse = bytes(true, 1);

/// Rows shifted so many times.
static SHIFTED: [Table; 4] =
    [from_place(0, 0, 0), from_place(0, 1, 0), from_place(0, 2, 0), from_place(0, 3, 0)];
/// The next row and the last, where rows were shifted so many times less.
static NEXT: [Table; 4] =
    [from_place(0, 0, 1), from_place(1, 0, 1), from_place(2, 0, 1), from_place(3, 0, 1)];
/// The row two further on.
static OPPOSITE: Table = from_place(0, 0, 2);
static LAST: [Table; 4] =
    [from_place(0, 0, 3), from_place(3, 0, 3), from_place(2, 0, 3), from_place(1, 0, 3)];

#[inline]
#[target_feature(enable = "ssse3")]
fn shuffle(x: __m128i, places: &Table) -> __m128i {
    _mm_shuffle_epi8(x, from(places))
}

/// A table's values.
#[inline]
#[target_feature(enable = "ssse3")]
fn at(table: &Table, x: __m128i) -> __m128i {
    _mm_shuffle_epi8(from(table), x)
}

/// Lower and upper halves of all bytes.
#[inline]
#[target_feature(enable = "ssse3")]
pub(super) fn halves(x: __m128i) -> (__m128i, __m128i) {
    let mask = _mm_set1_epi8(15);
    (_mm_and_si128(x, mask), _mm_and_si128(_mm_srli_epi32::<4>(x), mask))
}

#[inline]
#[target_feature(enable = "ssse3")]
fn linear(of: &Linear, x: __m128i) -> __m128i {
    let (low, high) = halves(x);
    _mm_xor_si128(at(&of.low, low), at(&of.high, high))
}

/// `p` and `q`.
#[inline]
#[target_feature(enable = "ssse3")]
fn inverse(x: __m128i) -> (__m128i, __m128i) {
    let (k, i) = halves(x);
    let j = _mm_xor_si128(i, k);
    let a_over_k = at(&A_OVER, k);
    let p = at(&INVERSE, _mm_xor_si128(at(&INVERSE, i), a_over_k));
    let q = at(&INVERSE, _mm_xor_si128(at(&INVERSE, j), a_over_k));
    (_mm_xor_si128(p, j), _mm_xor_si128(q, i))
}

#[inline]
#[target_feature(enable = "ssse3")]
fn of_inverse(of: &OfInverse, (p, q): (__m128i, __m128i)) -> __m128i {
    _mm_xor_si128(at(&of.p, p), at(&of.q, q))
}

/// SubBytes' constant.
#[inline]
#[target_feature(enable = "ssse3")]
fn constant() -> __m128i {
    _mm_set1_epi8(0x63)
}

/// `N` blocks, round by round.
#[inline]
#[target_feature(enable = "ssse3")]
fn through<const BACKWARDS: bool, const N: usize>(
    keys: &[[u8; 16]],
    mut states: [__m128i; N],
) -> [__m128i; N] {
    let [first, inner @ .., last] = keys else { return states };
    for x in &mut states {
        *x = _mm_xor_si128(linear(if BACKWARDS { &BACK } else { &FORTH }, *x), from(first));
    }
    for (round, key) in inner.iter().enumerate() {
        let shifts = if BACKWARDS { 3 - round % 4 } else { (round + 1) % 4 };
        let (key, next, last) = (from(key), &NEXT[shifts], &LAST[shifts]);
        for x in &mut states {
            let y = inverse(*x);
            *x = if BACKWARDS {
                let [row_3, rows @ ..] = &BACK_ROW;
                let mut sum = of_inverse(row_3, y);
                for row in rows {
                    sum = _mm_xor_si128(shuffle(sum, next), of_inverse(row, y));
                }
                _mm_xor_si128(sum, key)
            } else {
                // Twice the row and the next one; the same of the next row; the last row.
                let once = of_inverse(&FORTH_ONCE, y);
                let sum = _mm_xor_si128(shuffle(once, next), of_inverse(&FORTH_TWICE, y));
                let rest = _mm_xor_si128(shuffle(once, last), key);
                _mm_xor_si128(_mm_xor_si128(sum, rest), shuffle(sum, next))
            };
        }
    }
    let last = from(last);
    states.map(|x| {
        let bytes = of_inverse(if BACKWARDS { &BACK_LAST } else { &FORTH_LAST }, inverse(x));
        _mm_xor_si128(shuffle(bytes, &SHIFTED[2]), last)
    })
}

/// InvMixColumns, as MixColumns after {04} times the sum of each byte and that two rows on.
#[target_feature(enable = "ssse3")]
fn inverse_mix_columns(x: __m128i) -> __m128i {
    let twice = |x| {
        let carry = _mm_and_si128(_mm_cmpgt_epi8(_mm_setzero_si128(), x), _mm_set1_epi8(0x1b));
        _mm_xor_si128(_mm_add_epi8(x, x), carry)
    };
    let sum = |x, rows| _mm_xor_si128(x, shuffle(x, rows));
    let x = _mm_xor_si128(x, twice(twice(sum(x, &OPPOSITE))));
    let pairs = sum(x, &NEXT[0]);
    // 2 a0 + 3 a1 + a2 + a3: twice the first pair, the second row, and the pair after it.
    let second = shuffle(x, &NEXT[0]);
    _mm_xor_si128(_mm_xor_si128(twice(pairs), second), shuffle(pairs, &OPPOSITE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backend;

    #[test]
    fn substitution_matches_definition() {
        let Some(ssse3) = Ssse3::new(Backend::Ssse3) else { return };
        let twice = |byte: u8| (byte << 1) ^ ((byte >> 7) * 0x1b);
        // The powers of the generator 3 and of its inverse, {f6}: all bytes but zero.
        let (mut byte, mut inverse) = (1u8, 1u8);
        for _ in 0..255 {
            let expected = (0..5).fold(0x63, |sum, turn| sum ^ inverse.rotate_left(turn));
            assert_eq!(sub_word(ssse3, [byte, 0, byte, 1]), [expected, 0x63, expected, 0x7c], "{byte}");
            byte ^= twice(byte);
            // {f6} = 255 / 3: the sum of the products with {80}, {40}, {20}, {10}, {04} and {02}.
            let powers: [u8; 8] = core::array::from_fn(|n| (0..n).fold(inverse, |x, _| twice(x)));
            inverse = [1, 2, 4, 5, 6, 7].iter().fold(0, |sum, n| sum ^ powers[*n]);
        }
        assert_eq!((byte, inverse), (1, 1));
    }

    #[test]
    fn blocks_match_sliced_cipher_both_ways() {
        let Some(ssse3) = Ssse3::new(Backend::Ssse3) else { return };
        let bytes: [u8; 32] = core::array::from_fn(|i| (37 * i + 11) as u8);
        for length in [16, 32] {
            let round_keys = RoundKeys::expand(&bytes[..length]);
            let (aes, sliced) = (Aes::new(ssse3, &round_keys), Sliced::new(&round_keys));
            let plain: [[u8; 16]; 256] =
                core::array::from_fn(|b| core::array::from_fn(|i| (b + i * i * 3) as u8));
            for count in [1, 2, 3, 4, 5, 7, 256] {
                let mut blocks = plain;
                aes.encrypt(&mut blocks[..count]);
                for (some, plain) in blocks[..count].chunks(4).zip(plain.chunks(4)) {
                    let mut expected = [[0; 16]; 4];
                    expected.copy_from_slice(plain);
                    sliced.encrypt(&mut expected);
                    assert_eq!(some, &expected[..some.len()]);
                }
                aes.decrypt(&mut blocks[..count]);
                assert_eq!(blocks, plain);
            }
            let (mut first, mut second) = (plain[0], plain[9]);
            aes.encrypt_two(&mut first, &mut second);
            let mut expected = [plain[0], plain[9]];
            aes.encrypt(&mut expected);
            assert_eq!([first, second], expected);
        }
    }

    #[test]
    fn counter_wraps_within_its_word() {
        let Some(ssse3) = Ssse3::new(Backend::Ssse3) else { return };
        let aes = Aes::new(ssse3, &RoundKeys::expand(&[7; 16]));
        for len in 0..150 {
            let mut stream = [0; 150];
            aes.xor_counters(&[9; 12], u32::MAX - 1, &mut stream[..len]);
            for (i, block) in stream[..len].chunks(16).enumerate() {
                let counter = (u32::MAX - 1).wrapping_add(i as u32);
                let mut expected = [[9; 16]];
                expected[0][12..].copy_from_slice(&counter.to_be_bytes());
                aes.encrypt(&mut expected);
                assert_eq!(block, &expected[0][..block.len()]);
            }
        }
    }
}
