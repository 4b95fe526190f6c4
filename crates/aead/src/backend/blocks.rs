//! 16-byte blocks, XORed in a small CPU's word size.

/// A block aligned for word access on any CPU.
#[derive(Clone, Copy)]
#[repr(C, align(4))]
pub(crate) struct Block(pub(crate) [u8; 16]);

/// XORs one block into another.
#[inline]
pub(crate) fn xor_in(block: &mut [u8; 16], with: &[u8; 16]) {
    #[cfg(feature = "table-aes-2k")]
    crate::backend::table::narrow::xor_in(block, with);
    #[cfg(not(feature = "table-aes-2k"))]
    {
        *block = xor(block, with);
    }
}

/// The sum of two blocks.
#[inline]
#[cfg(feature = "table-aes-2k")]
pub(crate) fn sum(a: &[u8; 16], b: &[u8; 16]) -> Block {
    crate::backend::table::narrow::sum(a, b)
}

/// The sum of two blocks.
#[inline]
#[cfg(not(feature = "table-aes-2k"))]
pub(crate) fn sum(a: &[u8; 16], b: &[u8; 16]) -> Block {
    Block(xor(a, b))
}

/// Unrolled by hand: a compiler optimising for size would make a loop.
#[inline(always)]
#[cfg(not(feature = "table-aes-2k"))]
fn xor(a: &[u8; 16], b: &[u8; 16]) -> [u8; 16] {
    let at =
        |block: &[u8; 16], i: usize| u32::from_ne_bytes([block[i], block[i + 1], block[i + 2], block[i + 3]]);
    let mut out = [0; 16];
    out[..4].copy_from_slice(&(at(a, 0) ^ at(b, 0)).to_ne_bytes());
    out[4..8].copy_from_slice(&(at(a, 4) ^ at(b, 4)).to_ne_bytes());
    out[8..12].copy_from_slice(&(at(a, 8) ^ at(b, 8)).to_ne_bytes());
    out[12..].copy_from_slice(&(at(a, 12) ^ at(b, 12)).to_ne_bytes());
    out
}
