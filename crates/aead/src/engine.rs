//! What a suite provides to the types of this crate. Each suite implements [`Engine`] in a file of its own; all that
//! guards nonces, slots and templates is written once, above it.

use crate::{backend::Backend, buffers::Buffers};
use zeroize::Zeroize;

/// Bytes of cipherstream that one unit of preparation gives.
pub(crate) const UNIT: usize = 64;

pub trait Engine: Sized + 'static {
    /// The expanded key; wipes itself when dropped.
    type Key;
    /// What a nonce gives besides the cipherstream, such as the tag's mask.
    type OneTime: Default + Zeroize;
    /// The MAC so far.
    type Sum: Default + Zeroize;
    /// The multiplier that belongs to a block's place in the MAC.
    type Weight: Default + Copy + Zeroize;

    /// Expands a key whose length was checked.
    fn expand(key: &[u8], backend: Backend) -> Self::Key;

    /// The part of the preparation that every packet needs.
    fn prepare_once(key: &Self::Key, nonce: &[u8; 12], once: &mut Self::OneTime);

    /// Writes payload cipherstream from unit `first` on; `out` is a whole number of units.
    fn prepare_stream(key: &Self::Key, nonce: &[u8; 12], first: usize, out: &mut [u8]);

    /// Encrypts and returns the tag, without a preparation.
    fn seal(key: &Self::Key, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16];

    /// Decrypts and returns the tag that the packet should have, without a preparation.
    fn open(key: &Self::Key, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16];

    /// As `seal`, from a preparation. (The tag is written where it stays: each copy of fresh bytes costs two
    /// nanoseconds.) `stream` is at least as long as the payload; all of it is wiped.
    fn seal_prepared(
        key: &Self::Key,
        once: &Self::OneTime,
        stream: &mut [u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut [u8; 16],
    );

    /// As `open`, from a preparation, which stays as it is.
    fn open_prepared(
        key: &Self::Key,
        once: &Self::OneTime,
        stream: &[u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut [u8; 16],
    );

    /// The tag of a packet without payload, whose associated data comes in pieces.
    fn authenticate(key: &Self::Key, once: &Self::OneTime, aad: &[&[u8]]) -> [u8; 16];

    /// The block that ends the MAC.
    fn length_block(aad: usize, payload: usize) -> [u8; 16];

    /// Adds a block of a predicted packet to the MAC; a touched one is settled later.
    fn absorb(key: &Self::Key, once: &Self::OneTime, sum: &mut Self::Sum, block: &[u8; 16], touched: bool);

    /// The multiplier of the block at this distance from the end; the length block has distance 1.
    fn weigh(key: &Self::Key, once: &Self::OneTime, distance: usize) -> Self::Weight;

    /// Whether `settle` looks at `blocks`, or at `deltas` alone.
    const SETTLES_BLOCKS: bool;

    /// The tag of a packet whose touched blocks have become `blocks`, by adding `deltas` to the predicted ones. The
    /// three slices are of equal length.
    fn settle(
        key: &Self::Key,
        once: &Self::OneTime,
        sum: &Self::Sum,
        weights: &[Self::Weight],
        deltas: &[[u8; 16]],
        blocks: &[[u8; 16]],
    ) -> [u8; 16];

    /// Overwrites bytes with zeros, and not in a way that the compiler may leave out.
    fn wipe(key: &Self::Key, bytes: &mut [u8]) {
        let _ = key;
        wipe(bytes);
    }
}

/// Overwrites bytes with zeros in one pass.
pub(crate) fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    zeroize::optimization_barrier(bytes);
}
