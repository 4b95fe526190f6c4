//! Tables for AES by byte shuffles, derived when the crate is compiled.
//!
//! Mike Hamburg ("Accelerating AES with Vector Permute Instructions", CHES 2009) writes an element
//! of GF(2^8) as `i z + k` with `i` and `k` of GF(2^4), so that a shuffle is a function of 16
//! inputs. Here `z^2 = a z + a`. The norm is `N = a i^2 + a i k + k^2`, and the inverse has the
//! coordinates `i / N` and `(k + a i) / N`. With `j = i + k`, two steps of inversions give
//!
//! ```text
//! p = 1 / (1/i + a/k) + j = N / (k + a i)
//! q = 1 / (1/j + a/k) + i = N / (k + a i + a k)
//! ```
//!
//! so the inverse is `1/p (1 + z (1/a + 1/a^2)) + 1/q z/a^2`: each linear function of it is the sum
//! of a table at `p` and one at `q`. The inverse of zero is infinite: an index with its highest bit
//! set, of which a shuffle makes zero.

/// A function of four bits, or the places of a shuffle.
pub(super) type Table = [u8; 16];

const INFINITE: u8 = 0x80;

/// The product in GF(2^4), modulo y^4 + y + 1.
const fn times4(a: u8, b: u8) -> u8 {
    let mut product = 0;
    let mut bit = 0;
    while bit < 4 {
        product ^= (a << bit) * (b >> bit & 1);
        bit += 1;
    }
    let mut top = 6;
    while top > 3 {
        product ^= (0b1_0011 << (top - 4)) * (product >> top & 1);
        top -= 1;
    }
    product
}

/// The inverse in GF(2^4), 0 of 0: the power of 14.
const fn inverse4(a: u8) -> u8 {
    let two = times4(a, a);
    let four = times4(two, two);
    times4(times4(two, four), times4(four, four))
}

/// `a`: the first number for which z^2 + a z + a has no root.
const A: u8 = {
    let (mut a, mut root) = (1, 0);
    while root < 16 {
        if times4(root, root) ^ times4(a, root) ^ a == 0 {
            (a, root) = (a + 1, 0);
        } else {
            root += 1;
        }
    }
    a
};

/// The product of `i z + k`, with `i` in the upper half of a byte.
const fn times8(x: u8, y: u8) -> u8 {
    let both = times4(A, times4(x >> 4, y >> 4));
    let i = both ^ times4(x >> 4, y & 15) ^ times4(x & 15, y >> 4);
    i << 4 | (both ^ times4(x & 15, y & 15))
}

/// The place of AES's `x`: a root of x^8 + x^4 + x^3 + x + 1.
const X: u8 = {
    let mut x = 2;
    loop {
        let x2 = times8(x, x);
        let x4 = times8(x2, x2);
        if times8(x4, x4) ^ x4 ^ times8(x2, x) ^ x ^ 1 == 0 {
            break x;
        }
        x += 1;
    }
};

/// AES's element as `i z + k`.
const fn into_tower(byte: u8) -> u8 {
    let (mut sum, mut power, mut bit) = (0, 1, 0);
    while bit < 8 {
        sum ^= power * (byte >> bit & 1);
        power = times8(power, X);
        bit += 1;
    }
    sum
}

/// The inverse of [`into_tower`].
const FROM_TOWER: [u8; 256] = {
    let mut from = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        from[into_tower(byte as u8) as usize] = byte as u8;
        byte += 1;
    }
    from
};

/// The matrix of SubBytes (FIPS 197 section 5.1.1), or its inverse: a sum of rotations.
const fn matrix(byte: u8, inverse: bool) -> u8 {
    let turns = if inverse { 0b0100_1010 } else { 0b0001_1111 };
    let (mut sum, mut turn) = (0, 0);
    while turn < 8 {
        sum ^= byte.rotate_left(turn) * (turns >> turn & 1);
        turn += 1;
    }
    sum
}

/// A linear function of a byte: the sum of what its lower and its upper half give.
pub(super) struct Linear {
    pub(super) low: Table,
    pub(super) high: Table,
}

/// A linear function of an inverse: the sum of a table at `p` and one at `q`.
pub(super) struct OfInverse {
    pub(super) p: Table,
    pub(super) q: Table,
}

/// The inverses.
pub(super) const INVERSE: Table = over(1);
/// `a/k`.
pub(super) const A_OVER: Table = over(A);

const fn over(a: u8) -> Table {
    let mut table = [INFINITE; 16];
    let mut k = 1;
    while k < 16 {
        table[k] = times4(a, inverse4(k as u8));
        k += 1;
    }
    table
}

/// A byte as a state of encryption, or of decryption, where the inverse of SubBytes begins with the
/// inverse matrix.
pub(super) const fn state(back: bool) -> Linear {
    const fn one(byte: u8, back: bool) -> u8 {
        into_tower(if back { matrix(byte, true) } else { byte })
    }
    let mut linear = Linear { low: [0; 16], high: [0; 16] };
    let mut n = 0;
    while n < 16 {
        linear.low[n] = one(n as u8, back);
        linear.high[n] = one((n as u8) << 4, back);
        n += 1;
    }
    linear
}

/// SubBytes without its constant, or its inverse after the matrix, times a coefficient: the bytes
/// of the last round.
pub(super) const fn bytes(back: bool, coefficient: u8) -> OfInverse {
    let a1 = inverse4(A);
    let a2 = times4(a1, a1);
    let mut of = OfInverse { p: [0; 16], q: [0; 16] };
    let mut n = 0;
    while n < 16 {
        let inverse = inverse4(n as u8);
        let parts = [times8(inverse, (a1 ^ a2) << 4 | 1), times8(inverse, a2 << 4)];
        let mut bytes = [0; 2];
        let mut i = 0;
        while i < 2 {
            let byte = FROM_TOWER[parts[i] as usize];
            let byte = if back { byte } else { matrix(byte, false) };
            bytes[i] = FROM_TOWER[times8(into_tower(byte), into_tower(coefficient)) as usize];
            i += 1;
        }
        [of.p[n], of.q[n]] = bytes;
        n += 1;
    }
    of
}

/// As [`bytes`], as states of the next round.
pub(super) const fn states(back: bool, coefficient: u8) -> OfInverse {
    let Linear { low, high } = state(back);
    let mut of = bytes(back, coefficient);
    let mut n = 0;
    while n < 16 {
        let [p, q] = [of.p[n] as usize, of.q[n] as usize];
        of.p[n] = low[p & 15] ^ high[p >> 4];
        of.q[n] = low[q & 15] ^ high[q >> 4];
        n += 1;
    }
    of
}

/// The byte of row `r` and column `c`, number `4 c + r`, from column `c + column + slope r` and row
/// `r + row`.
pub(super) const fn from_place(column: usize, slope: usize, row: usize) -> Table {
    let mut places = [0; 16];
    let mut n = 0;
    while n < 16 {
        let (c, r) = (n / 4, n % 4);
        places[n] = (4 * ((c + column + slope * r) % 4) + (r + row) % 4) as u8;
        n += 1;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tower_multiplies_as_aes_does() {
        let aes = |mut a: u8, mut b: u8| {
            let mut product = 0;
            while b != 0 {
                product ^= a * (b & 1);
                a = (a << 1) ^ ((a >> 7) * 0x1b);
                b >>= 1;
            }
            product
        };
        for a in 0..=255u8 {
            assert_eq!(FROM_TOWER[usize::from(into_tower(a))], a);
            assert_eq!(matrix(matrix(a, false), true), a);
            for b in 0..=255u8 {
                assert_eq!(times8(into_tower(a), into_tower(b)), into_tower(aes(a, b)), "{a} {b}");
            }
        }
    }

    #[test]
    fn tables_of_rotated_columns_are_places() {
        let shift_rows = [0, 5, 10, 15, 4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11];
        assert_eq!(from_place(0, 1, 0), shift_rows);
        assert_eq!(from_place(0, 0, 1)[..8], [1, 2, 3, 0, 5, 6, 7, 4]);
    }
}
