//! What must be found: a comparison that ends at the first difference, and a look-up at a secret
//! address, as AES with tables makes sixteen in each round.

use std::hint::black_box;

/// Compares byte by byte.
#[inline(never)]
pub(crate) fn compare(a: &[u8; 16], b: &[u8; 16]) -> bool {
    for (a, b) in a.iter().zip(b) {
        if black_box(a ^ b) != 0 {
            return false;
        }
    }
    true
}

/// A round of sixteen look-ups in a table of 1 KB.
#[inline(never)]
pub(crate) fn round(table: &[u32; 256], state: &[u8; 16]) -> u32 {
    state.iter().fold(0, |sum, byte| sum.rotate_left(8) ^ table[usize::from(*byte)])
}

/// A table.
pub(crate) fn table() -> [u32; 256] {
    std::array::from_fn(|at| (at as u32).wrapping_mul(0x9e37_79b9))
}
