//! The private interface of a suite.
//!
//! Each suite implements [`Engine`], and [`SparseEngine`](super::sparse::SparseEngine) if it takes
//! templates with holes anywhere. Slots and templates use these traits alone.

use crate::{
    backend::Backend,
    buffers::Buffers,
    bytes::{Bytes, Tagged, wipe},
};
use zeroize::Zeroize;

/// Bytes of key stream in a unit of preparation, unless the suite has its own.
pub(crate) const UNIT: usize = 64;

/// The budget as a number of units, on CPUs of any word size.
#[inline]
pub(crate) fn units(budget: u32) -> usize {
    usize::try_from(budget).unwrap_or(usize::MAX)
}

/// `bytes`, or the largest `usize` on CPUs with shorter addresses.
pub(crate) const fn at_most(bytes: u64) -> usize {
    if bytes > usize::MAX as u64 { usize::MAX } else { bytes as usize }
}

/// The operations of a suite.
pub trait Engine: Tagged + Sized {
    /// The expanded key; wipes itself when dropped.
    type Key;
    /// The output of a nonce besides the key stream, such as the tag's mask.
    type OneTime: Default + Zeroize;
    /// A nonce.
    type NonceBytes: Bytes;

    /// Whether the suite has a key stream. Without one, a slot holds the `OneTime` alone, and the
    /// streams passed below are empty.
    const STREAMS: bool;

    /// Bytes of key stream in a unit of preparation: one block for a cipher that does one at a
    /// time.
    const UNIT: usize = UNIT;

    /// The longest payload: a longer one would repeat a block counter.
    const MAX_PAYLOAD: usize = usize::MAX;

    /// Expands a key; the caller has checked its length.
    fn expand(key: &[u8], backend: Backend) -> Self::Key;

    /// Prepares the part that every packet needs.
    fn prepare_once(key: &Self::Key, nonce: &Self::NonceBytes, once: &mut Self::OneTime);

    /// Writes the payload's key stream from unit `first` on; `out` is a whole number of units.
    fn prepare_stream(key: &Self::Key, nonce: &Self::NonceBytes, first: usize, out: &mut [u8]);

    /// Does both, from the first unit on, where a combined kernel is faster. `template` is the
    /// payload's length if the packet has a template, which may need less.
    fn prepare_with_stream(
        key: &Self::Key,
        nonce: &Self::NonceBytes,
        once: &mut Self::OneTime,
        out: &mut [u8],
        template: Option<usize>,
    ) {
        let _ = template;
        Self::prepare_once(key, nonce, once);
        Self::prepare_stream(key, nonce, 0, out);
    }

    /// Encrypts without a preparation, and returns the tag.
    fn seal(key: &Self::Key, nonce: &Self::NonceBytes, aad: &[u8], buffers: Buffers<'_>) -> Self::TagBytes;

    /// Decrypts without a preparation, and returns the expected tag.
    fn open(key: &Self::Key, nonce: &Self::NonceBytes, aad: &[u8], buffers: Buffers<'_>) -> Self::TagBytes;

    /// As `seal`, from a preparation. `stream` covers the payload, and all of it is wiped. The tag
    /// is written in place: a copy of fresh bytes costs two nanoseconds.
    fn seal_prepared(
        key: &Self::Key,
        nonce: &Self::NonceBytes,
        once: &Self::OneTime,
        stream: &mut [u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut Self::TagBytes,
    );

    /// As `open`, from a preparation, which stays unchanged.
    fn open_prepared(
        key: &Self::Key,
        nonce: &Self::NonceBytes,
        once: &Self::OneTime,
        stream: &[u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut Self::TagBytes,
    );

    /// As `open_prepared`, but may wipe the stream. Returns whether it wiped all of it; the caller
    /// prepares it again if the packet is not authentic.
    #[inline]
    fn open_and_wipe(
        key: &Self::Key,
        nonce: &Self::NonceBytes,
        once: &Self::OneTime,
        stream: &mut [u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut Self::TagBytes,
    ) -> bool {
        Self::open_prepared(key, nonce, once, stream, aad, buffers, tag);
        false
    }

    /// As `seal_prepared` in place, for a `packet` that ends with the place of its tag. Returns
    /// false, and does nothing, if there is no kernel for it.
    #[inline(always)]
    fn seal_in_one_piece(
        key: &Self::Key,
        once: &Self::OneTime,
        stream: &mut [u8],
        aad: &[u8],
        packet: &mut [u8],
    ) -> bool {
        let _ = (key, once, stream, aad, packet);
        false
    }

    /// As `open_and_wipe` in place, for a `packet` that ends with its tag. Returns whether it is
    /// authentic; all of the stream is wiped. Returns `None`, and does nothing, if there is no
    /// kernel for it.
    #[inline(always)]
    fn open_in_one_piece(
        key: &Self::Key,
        once: &Self::OneTime,
        stream: &mut [u8],
        aad: &[u8],
        packet: &mut [u8],
    ) -> Option<bool> {
        let _ = (key, once, stream, aad, packet);
        None
    }

    /// Reads a byte of each cache line of the key that a packet with `len` bytes of payload needs.
    #[inline]
    fn touch(key: &Self::Key, len: usize) {
        let _ = (key, len);
    }

    /// The tag of a packet without payload; its associated data comes in pieces.
    fn authenticate(
        key: &Self::Key,
        nonce: &Self::NonceBytes,
        once: &Self::OneTime,
        aad: &[&[u8]],
    ) -> Self::TagBytes;

    /// Overwrites bytes with zeros; the compiler can't remove it.
    fn wipe(key: &Self::Key, bytes: &mut [u8]) {
        let _ = key;
        wipe(bytes);
    }
}
