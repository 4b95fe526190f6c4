//! The expanded key of AES-GCM on x86-64, and the segments of a packet.

use super::{Holes, partial::FIRST};
use crate::backend::portable::ghash::{self, FOLD, Multiplier, Power};
use zeroize::Zeroize;

/// Blocks that one fold can cover.
pub(crate) const POWERS: usize = 112;

/// A key for AES with `R` rounds.
#[repr(C, align(64))]
pub struct Key<const R: usize> {
    pub(super) round_keys: [[u8; 16]; 15],
    pub(super) kind: Kind,
    pub(super) holes: Holes,
    /// Whether the CPU takes two cycles for a carry-less product of 512 bits.
    pub(super) three: bool,
    /// In the key, because another page costs a packet more than another line.
    pub(super) constants: Constants,
    /// H^POWERS to H^1, then zeros (see [`Power`]).
    pub(super) high: Powers,
    pub(super) low: Powers,
    /// The XOR of both halves of each of `high`, for [`gcm_beside`](super::gcm_beside).
    pub(super) halves: Halves,
}

/// Bytes from the start of a key that a packet with its tag behind it reads.
#[cfg(test)]
pub(crate) const NEEDED: usize = core::mem::offset_of!(Key<15>, low);

#[repr(C, align(64))]
pub(super) struct Powers(pub(super) [u128; POWERS + 4]);

/// Whole cache lines, so that no padding stays unwiped.
#[repr(C, align(64))]
pub(super) struct Halves(pub(super) [u64; POWERS + 8]);

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Ni,
    /// AES-NI with AVX.
    Avx,
    Vaes,
    Avx512,
}

/// Constants of the kernels, in one cache line of each key.
#[repr(C, align(64))]
pub(super) struct Constants {
    /// A shuffle that reverses the bytes of a block.
    pub(super) turn: [u8; 16],
    /// Read from byte `16 - n` on: a mask of the first `n` bytes, at most 16.
    pub(super) first: [u8; 32],
    /// Multiplier of the fold.
    pub(super) fold: u64,
}

impl Constants {
    pub(super) const NEW: Self =
        Self { turn: [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0], first: FIRST, fold: FOLD };
}

impl<const R: usize> Drop for Key<R> {
    fn drop(&mut self) {
        self.round_keys.zeroize();
        self.high.0.zeroize();
        self.low.0.zeroize();
        self.halves.0.zeroize();
    }
}

/// One segment of a packet. The pointers are good for `len` bytes; `src` and `dst` may be equal.
///
/// A vector load from two fresh word stores can't be forwarded and costs a dozen cycles. So hashes,
/// masks and tags are passed by reference, and no two adjacent words here are joined into a vector.
#[repr(C)]
pub(super) struct Segment<'a> {
    /// The hash so far.
    pub(super) hash: &'a Block,
    pub(super) aad: &'a [u8],
    pub(super) src: *const u8,
    /// Bytes of associated data in the whole packet.
    pub(super) total_aad: usize,
    pub(super) dst: *mut u8,
    pub(super) len: usize,
    /// E(J0) in the last segment of a packet, which ends with the length block.
    pub(super) mask: Option<&'a u128>,
    /// Bytes of payload in the whole packet.
    pub(super) total: usize,
}

/// The result of a segment: the packet's tag for the last one, else the hash so far.
#[derive(Clone, Copy, Default)]
#[repr(align(16))]
pub(super) struct Block(pub(super) [u8; 16]);

impl Segment<'_> {
    /// Number of hashed blocks, at most [`POWERS`].
    pub(super) fn blocks(&self) -> usize {
        self.aad.len().div_ceil(16) + self.len.div_ceil(16) + usize::from(self.mask.is_some())
    }
}

/// Source of a segment's key stream.
#[derive(Clone, Copy)]
pub(super) enum Stream<'a> {
    /// A preparation that is kept, padded to whole vectors.
    Kept(*const u8),
    /// A preparation that is wiped, padded to whole vectors.
    Wiped(*mut u8),
    /// The cipher itself, from this 64-byte unit on.
    Cipher(&'a [u8; 12], usize),
}

impl Stream<'_> {
    pub(super) fn skip(self, bytes: usize) -> Self {
        match self {
            Self::Kept(at) => Self::Kept(at.wrapping_add(bytes)),
            Self::Wiped(at) => Self::Wiped(at.wrapping_add(bytes)),
            Self::Cipher(nonce, unit) => Self::Cipher(nonce, unit + bytes / 64),
        }
    }
}

impl<const R: usize> Key<R> {
    /// H^k as a multiplier, for k of at least 1.
    pub(crate) fn power(&self, k: usize) -> Power {
        match POWERS.checked_sub(k) {
            Some(i) => Power { high: self.high.0[i], low: self.low.0[i] },
            None => ghash::power(Multiplier::Integers, &self.power(1), k),
        }
    }
}

impl Powers {
    pub(super) fn zero() -> Self {
        Self([0; POWERS + 4])
    }
}
