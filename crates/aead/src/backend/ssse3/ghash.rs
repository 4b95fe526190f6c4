//! GHASH (NIST SP 800-38D section 6.4) by the byte shuffles of SSSE3, in constant time.
//!
//! A factor has a table for the lower and the upper half of a byte: for each of 16 values the
//! product with that half of a block's first byte. A table is stored by the product's bytes: a
//! shuffle gives byte `k` of the products of all of a block's bytes, which belong `k` bytes further
//! on than those in the block. The sum over `k` from the last on is shifted by one byte each time,
//! once for all of up to four blocks.

use super::{Ssse3, aes::halves, from, into};
use crate::backend::portable::ghash::{FOUR, Rows, Tables};
use core::arch::x86_64::*;
use zeroize::Zeroize;

impl Ssse3 {
    /// The tables of a key's H.
    pub(crate) fn tables(self, h: u128) -> Tables {
        let mut tables = Tables::default();
        let mut power = h;
        for at in (0..FOUR).rev() {
            tables.0[at] = rows(power);
            // The next power is a product with H, whose table is the first made.
            if at > 0 {
                // SAFETY: the instructions are present.
                power = unsafe { absorb(&tables, 0, &[power.to_be_bytes()]) };
            }
        }
        power.zeroize();
        tables
    }

    /// Continues a hash over these blocks.
    pub(crate) fn hash(self, tables: &Tables, sum: u128, blocks: &[[u8; 16]]) -> u128 {
        // SAFETY: the instructions are present.
        unsafe { absorb(tables, sum, blocks) }
    }
}

#[target_feature(enable = "ssse3")]
fn absorb(tables: &Tables, sum: u128, blocks: &[[u8; 16]]) -> u128 {
    let [_, three @ ..] = &tables.0;
    let [_, two @ ..] = three;
    let [_, one @ ..] = two;
    let mut sum = from(&sum.to_be_bytes());
    let plus = |sum, block| _mm_xor_si128(sum, from(block));
    let (fours, rest) = blocks.as_chunks::<FOUR>();
    for [a, b, c, d] in fours {
        sum = product(&tables.0, [plus(sum, a), from(b), from(c), from(d)]);
    }
    sum = match rest {
        [a, b, c] => product(three, [plus(sum, a), from(b), from(c)]),
        [a, b] => product(two, [plus(sum, a), from(b)]),
        [a] => product(one, [plus(sum, a)]),
        _ => sum,
    };
    u128::from_be_bytes(into(sum))
}

/// The table of a factor.
fn rows(factor: u128) -> Rows {
    // The factor times 1, x, .. x^7, the bits of a byte from the highest on.
    let mut multiples = [factor; 8];
    for bit in 1..8 {
        let last = multiples[bit - 1];
        multiples[bit] = (last >> 1) ^ ((last & 1) * (0xe1 << 120));
    }
    let mut rows = Rows::default();
    let (upper, lower) = multiples.split_at(4);
    for (half, of) in [lower, upper].into_iter().enumerate() {
        for n in 0..16 {
            let product = (0..4).fold(0, |sum, bit| sum ^ (of[bit] * (n >> (3 - bit) & 1)));
            for (row, byte) in rows.iter_mut().zip(product.to_be_bytes()) {
                row[half][n as usize] = byte;
            }
        }
    }
    multiples.zeroize();
    rows
}

/// The sum of the products of blocks and factors.
#[inline]
#[target_feature(enable = "ssse3")]
fn product<const N: usize>(factors: &[Rows; N], blocks: [__m128i; N]) -> __m128i {
    let blocks = blocks.map(|block| halves(block));
    // The coefficients up to x^127, and those from x^128 on.
    let (mut sum, mut beyond) = (_mm_setzero_si128(), _mm_setzero_si128());
    for k in (0..16).rev() {
        let mut row = _mm_setzero_si128();
        for (rows, (low, high)) in factors.iter().zip(blocks) {
            let [lower, upper] = &rows[k];
            let products =
                _mm_xor_si128(_mm_shuffle_epi8(from(lower), low), _mm_shuffle_epi8(from(upper), high));
            row = _mm_xor_si128(row, products);
        }
        beyond = _mm_alignr_epi8::<15>(beyond, sum);
        sum = _mm_xor_si128(_mm_slli_si128::<1>(sum), row);
    }
    _mm_xor_si128(sum, folded(beyond))
}

/// The product with x^128 = 1 + x + x^2 + x^7. The highest byte of coefficients is zero.
#[inline]
#[target_feature(enable = "ssse3")]
fn folded(beyond: __m128i) -> __m128i {
    // As a number, where x is a shift to the right.
    let b = reversed(beyond);
    let within =
        _mm_xor_si128(_mm_srli_epi64::<1>(b), _mm_xor_si128(_mm_srli_epi64::<2>(b), _mm_srli_epi64::<7>(b)));
    let across = _mm_xor_si128(
        _mm_slli_epi64::<63>(b),
        _mm_xor_si128(_mm_slli_epi64::<62>(b), _mm_slli_epi64::<57>(b)),
    );
    reversed(_mm_xor_si128(_mm_xor_si128(b, within), _mm_srli_si128::<8>(across)))
}

/// Reverses the bytes of a block.
#[inline]
#[target_feature(enable = "ssse3")]
fn reversed(x: __m128i) -> __m128i {
    _mm_shuffle_epi8(x, _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f))
}
