//! Operations on a lane of 128 bits, from the "Operation" sections of the Intel SDM, volume 2. The
//! wider forms of an instruction do the same in each lane.

use core::array::from_fn;

pub(crate) fn words64(x: u128) -> [u64; 2] {
    [x as u64, (x >> 64) as u64]
}

pub(crate) fn of64([low, high]: [u64; 2]) -> u128 {
    u128::from(low) | u128::from(high) << 64
}

pub(crate) fn words32(x: u128) -> [u32; 4] {
    from_fn(|i| (x >> (32 * i)) as u32)
}

pub(crate) fn of32(words: [u32; 4]) -> u128 {
    words.iter().rev().fold(0, |x, word| x << 32 | u128::from(*word))
}

/// PADDQ, and others that compute each word of 64 bits from two words.
pub(crate) fn each64(a: u128, b: u128, f: impl Fn(u64, u64) -> u64) -> u128 {
    let (a, b) = (words64(a), words64(b));
    of64(from_fn(|i| f(a[i], b[i])))
}

pub(crate) fn each32(a: u128, b: u128, f: impl Fn(u32, u32) -> u32) -> u128 {
    let (a, b) = (words32(a), words32(b));
    of32(from_fn(|i| f(a[i], b[i])))
}

/// Shifts by at least the word's size give zero.
pub(crate) fn shl64(x: u64, by: u32) -> u64 {
    x.checked_shl(by).unwrap_or(0)
}

pub(crate) fn shr64(x: u64, by: u32) -> u64 {
    x.checked_shr(by).unwrap_or(0)
}

pub(crate) fn shl32(x: u32, by: u32) -> u32 {
    x.checked_shl(by).unwrap_or(0)
}

pub(crate) fn shr32(x: u32, by: u32) -> u32 {
    x.checked_shr(by).unwrap_or(0)
}

/// PSHUFD.
pub(crate) fn shuffle32(x: u128, order: i32) -> u128 {
    let words = words32(x);
    of32(from_fn(|i| words[(order >> (2 * i) & 3) as usize]))
}

/// PSHUFB.
pub(crate) fn shuffle8(x: u128, order: u128) -> u128 {
    let (x, order) = (x.to_le_bytes(), order.to_le_bytes());
    u128::from_le_bytes(from_fn(|i| if order[i] & 0x80 != 0 { 0 } else { x[usize::from(order[i] & 15)] }))
}

/// PALIGNR: both as one number, `a` above `b`, shifted down by so many bytes.
pub(crate) fn align8(a: u128, b: u128, count: u8) -> u128 {
    let bits = 8 * u32::from(count);
    let up = a.checked_shl(128_u32.wrapping_sub(bits)).unwrap_or(0);
    let down = a.checked_shr(bits.wrapping_sub(128)).unwrap_or(0);
    b.checked_shr(bits).unwrap_or(0) | up | down
}

/// PUNPCKLQDQ.
pub(crate) fn unpack_low64(a: u128, b: u128) -> u128 {
    of64([words64(a)[0], words64(b)[0]])
}

/// PUNPCKHQDQ.
pub(crate) fn unpack_high64(a: u128, b: u128) -> u128 {
    of64([words64(a)[1], words64(b)[1]])
}

/// PUNPCKLDQ.
pub(crate) fn unpack_low32(a: u128, b: u128) -> u128 {
    let ([a0, a1, ..], [b0, b1, ..]) = (words32(a), words32(b));
    of32([a0, b0, a1, b1])
}

/// PUNPCKHDQ.
pub(crate) fn unpack_high32(a: u128, b: u128) -> u128 {
    let ([.., a2, a3], [.., b2, b3]) = (words32(a), words32(b));
    of32([a2, b2, a3, b3])
}

/// VPTERNLOGQ: bit `(a, b, c)` of the table, for each bit.
pub(crate) fn ternary(a: u128, b: u128, c: u128, table: i32) -> u128 {
    (0..8).filter(|row| table >> row & 1 == 1).fold(0, |x, row| {
        let is = |word: u128, bit: i32| if row >> bit & 1 == 1 { word } else { !word };
        x | is(a, 2) & is(b, 1) & is(c, 0)
    })
}

/// PCLMULQDQ.
pub(crate) fn carry_less_product(a: u128, b: u128, halves: i32) -> u128 {
    let a = words64(a)[(halves & 1) as usize];
    let b = words64(b)[(halves >> 4 & 1) as usize];
    (0..64).filter(|bit| a >> bit & 1 == 1).fold(0, |x, bit| x ^ u128::from(b) << bit)
}

/// PMULUDQ.
pub(crate) fn product32(a: u64, b: u64) -> u64 {
    u64::from(a as u32) * u64::from(b as u32)
}

/// GF2P8AFFINEQB: each byte of `x` times the matrix in the word of `matrix`, plus `plus`.
pub(crate) fn affine(x: u128, matrix: u128, plus: i32) -> u128 {
    let (x, matrices) = (x.to_le_bytes(), words64(matrix));
    u128::from_le_bytes(from_fn(|i| {
        let rows = matrices[i / 8].to_le_bytes();
        (0..8).fold(0, |byte, bit| {
            let parity = (rows[7 - bit] & x[i]).count_ones() as u8 & 1;
            byte | (parity ^ (plus >> bit) as u8 & 1) << bit
        })
    }))
}

/// The product in the field of AES (FIPS 197 section 4.2).
const fn times(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = a << 1 ^ if a & 0x80 != 0 { 0x1b } else { 0 };
        b >>= 1;
    }
    product
}

/// FIPS 197 section 5.1.1: the inverse, then an affine map. The inverse is the power of 254.
const fn substitute(byte: u8) -> u8 {
    let (mut inverse, mut i) = (1, 0);
    while i < 254 {
        inverse = times(inverse, byte);
        i += 1;
    }
    inverse
        ^ inverse.rotate_left(1)
        ^ inverse.rotate_left(2)
        ^ inverse.rotate_left(3)
        ^ inverse.rotate_left(4)
        ^ 0x63
}

/// The S-box and its inverse.
static BOXES: ([u8; 256], [u8; 256]) = {
    let (mut forward, mut back, mut i) = ([0; 256], [0; 256], 0);
    while i < 256 {
        forward[i] = substitute(i as u8);
        back[forward[i] as usize] = i as u8;
        i += 1;
    }
    (forward, back)
};

/// ShiftRows and SubBytes; byte `4 c + r` is row `r` of column `c`.
fn shifted_and_substituted(x: u128) -> [u8; 16] {
    let x = x.to_le_bytes();
    from_fn(|i| BOXES.0[usize::from(x[(i + 4 * (i % 4)) % 16])])
}

fn back_shifted_and_substituted(x: u128) -> [u8; 16] {
    let x = x.to_le_bytes();
    from_fn(|i| BOXES.1[usize::from(x[(i + 16 - 4 * (i % 4)) % 16])])
}

/// MixColumns or its inverse: the first row of the circulant matrix.
fn mixed(x: [u8; 16], row: [u8; 4]) -> u128 {
    u128::from_le_bytes(from_fn(|i| {
        (0..4).fold(0, |sum, j| sum ^ times(x[i / 4 * 4 + j], row[(j + 4 - i % 4) % 4]))
    }))
}

const MIX: [u8; 4] = [2, 3, 1, 1];
const UNMIX: [u8; 4] = [14, 11, 13, 9];

/// AESENC.
pub(crate) fn aesenc(x: u128, key: u128) -> u128 {
    mixed(shifted_and_substituted(x), MIX) ^ key
}

/// AESENCLAST.
pub(crate) fn aesenclast(x: u128, key: u128) -> u128 {
    u128::from_le_bytes(shifted_and_substituted(x)) ^ key
}

/// AESDEC.
pub(crate) fn aesdec(x: u128, key: u128) -> u128 {
    mixed(back_shifted_and_substituted(x), UNMIX) ^ key
}

/// AESDECLAST.
pub(crate) fn aesdeclast(x: u128, key: u128) -> u128 {
    u128::from_le_bytes(back_shifted_and_substituted(x)) ^ key
}

/// AESIMC.
pub(crate) fn aesimc(x: u128) -> u128 {
    mixed(x.to_le_bytes(), UNMIX)
}
