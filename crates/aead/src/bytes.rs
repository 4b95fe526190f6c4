//! The bytes of nonces and tags, small conversions, and wiping.

use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// The bytes of a nonce or a tag.
pub trait Bytes: Copy + Zeroize + AsRef<[u8]> + AsMut<[u8]> + 'static {
    const LEN: usize;
    const ZERO: Self;

    /// Compares in constant time.
    fn same(&self, other: &Self) -> bool;

    /// Splits off the last bytes; `None` if there are too few.
    fn split_last(bytes: &mut [u8]) -> (&mut [u8], Option<&mut Self>);
}

impl<const N: usize> Bytes for [u8; N] {
    const LEN: usize = N;
    const ZERO: Self = [0; N];

    #[inline]
    fn split_last(bytes: &mut [u8]) -> (&mut [u8], Option<&mut Self>) {
        // Checked first: after `last_chunk_mut` the borrow would last too long.
        if bytes.len() < N {
            return (bytes, None);
        }
        let (before, last) = bytes.split_at_mut(bytes.len() - N);
        (before, last.first_chunk_mut())
    }

    // Compared as numbers: a comparison by bytes takes as long as the rest of a short packet.
    #[inline]
    fn same(&self, other: &Self) -> bool {
        let (a, a_rest) = self.as_chunks::<16>();
        let (b, b_rest) = other.as_chunks::<16>();
        let mut differs = number(a_rest) ^ number(b_rest);
        for (a, b) in a.iter().zip(b) {
            differs |= u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b);
        }
        ((differs >> 64) as u64 | differs as u64).ct_eq(&0).into()
    }
}

/// Fewer than 16 bytes as a number.
#[inline]
fn number(bytes: &[u8]) -> u128 {
    let mut padded = [0; 16];
    padded[..bytes.len()].copy_from_slice(bytes);
    u128::from_ne_bytes(padded)
}

/// Up to 16 bytes as a little-endian number. The branches depend on the length alone.
#[inline]
pub(crate) fn gather(bytes: &[u8]) -> u128 {
    let len = bytes.len();
    if let Some(all) = bytes.first_chunk::<16>() {
        u128::from_le_bytes(*all)
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        u128::from(u64::from_le_bytes(*first)) | u128::from(u64::from_le_bytes(*last)) << (8 * (len - 8))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        u128::from(
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (8 * (len - 4)),
        )
    } else {
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte))
    }
}

/// Overwrites bytes with zeros in one pass.
pub(crate) fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    zeroize::optimization_barrier(bytes);
}

/// A cipher with tags: the base of suites and of their MACs.
pub trait Tagged: 'static {
    /// A tag.
    type TagBytes: Bytes;
}
