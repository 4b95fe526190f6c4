//! What a suite provides to the types of this crate. Each suite implements [`Engine`] in a file of its own, and
//! [`SparseEngine`](super::sparse::SparseEngine) if it takes templates with holes anywhere; all that guards nonces, slots
//! and templates is written once, above them.

use crate::{
    backend::Backend,
    buffers::Buffers,
    bytes::{Bytes, wipe},
};
use zeroize::Zeroize;

/// Bytes of cipherstream that one unit of preparation gives, if the suite does not say otherwise.
pub(crate) const UNIT: usize = 64;

/// As many units as a budget allows, on CPUs with any words.
#[inline]
pub(crate) fn units(budget: u32) -> usize {
    usize::try_from(budget).unwrap_or(usize::MAX)
}

/// So many bytes, or all that there can be where addresses are shorter.
pub(crate) const fn at_most(bytes: u64) -> usize {
    if bytes > usize::MAX as u64 { usize::MAX } else { bytes as usize }
}

/// What every suite provides.
pub trait Engine: Sized + 'static {
    /// The expanded key; wipes itself when dropped.
    type Key;
    /// What a nonce gives besides the cipherstream, such as the tag's mask.
    type OneTime: Default + Zeroize;
    /// A nonce.
    type NonceBytes: Bytes;
    /// A tag.
    type TagBytes: Bytes;

    /// Whether there is a cipherstream to prepare. Without one a slot holds the `OneTime` alone, and the streams given
    /// to the methods below are empty.
    const STREAMS: bool;

    /// Bytes of cipherstream that one unit of preparation gives: one block for a cipher that does one at a time.
    const UNIT: usize = UNIT;

    /// The longest payload that the suite can seal: with more, a counter of blocks would begin again.
    const MAX_PAYLOAD: usize = usize::MAX;

    /// Expands a key whose length was checked.
    fn expand(key: &[u8], backend: Backend) -> Self::Key;

    /// The part of the preparation that every packet needs.
    fn prepare_once(key: &Self::Key, nonce: &Self::NonceBytes, once: &mut Self::OneTime);

    /// Writes payload cipherstream from unit `first` on; `out` is a whole number of units.
    fn prepare_stream(key: &Self::Key, nonce: &Self::NonceBytes, first: usize, out: &mut [u8]);

    /// Both at once, from the first unit on, where that is less work. A `template` of so many bytes of payload may need less than a
    /// packet that is yet to come.
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

    /// Encrypts and returns the tag, without a preparation.
    fn seal(key: &Self::Key, nonce: &Self::NonceBytes, aad: &[u8], buffers: Buffers<'_>) -> Self::TagBytes;

    /// Decrypts and returns the tag that the packet should have, without a preparation.
    fn open(key: &Self::Key, nonce: &Self::NonceBytes, aad: &[u8], buffers: Buffers<'_>) -> Self::TagBytes;

    /// As `seal`, from a preparation. (The tag is written where it stays: each copy of fresh bytes costs two
    /// nanoseconds.) `stream` is at least as long as the payload; all of it is wiped.
    fn seal_prepared(
        key: &Self::Key,
        nonce: &Self::NonceBytes,
        once: &Self::OneTime,
        stream: &mut [u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut Self::TagBytes,
    );

    /// As `open`, from a preparation, which stays as it is.
    fn open_prepared(
        key: &Self::Key,
        nonce: &Self::NonceBytes,
        once: &Self::OneTime,
        stream: &[u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut Self::TagBytes,
    );

    /// As `open_prepared`, where the stream may be wiped on the way. Gives whether all of it was: whoever finds that the packet is not
    /// authentic prepares it anew.
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

    /// As `seal_prepared` in place for a `packet` that ends with room for its tag, if there is a kernel for it. Otherwise nothing is done.
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

    /// As `open_and_wipe` in place for a `packet` that ends with its tag, if there is a kernel for it: whether it is authentic, and all of
    /// the stream is wiped. Otherwise nothing is done.
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

    /// Reads what the key has for a packet of so many bytes of payload, a byte of each cache line.
    #[inline]
    fn touch(key: &Self::Key, len: usize) {
        let _ = (key, len);
    }

    /// The tag of a packet without payload, whose associated data comes in pieces.
    fn authenticate(
        key: &Self::Key,
        nonce: &Self::NonceBytes,
        once: &Self::OneTime,
        aad: &[&[u8]],
    ) -> Self::TagBytes;

    /// Overwrites bytes with zeros, and not in a way that the compiler may leave out.
    fn wipe(key: &Self::Key, bytes: &mut [u8]) {
        let _ = key;
        wipe(bytes);
    }
}
