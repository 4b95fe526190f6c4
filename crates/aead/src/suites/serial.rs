//! What a suite with a serial MAC provides: each block of the packet depends on the one before, so what is known
//! beforehand must stand in front. A [`Front`](crate::Front) is written once, above this trait.

use crate::suites::engine::Engine;
use zeroize::Zeroize;

/// The longest portion of associated data that a step takes.
pub(crate) const PORTION: usize = 32;

/// A suite that goes over a packet from front to end.
///
/// A chain is what the packet's beginning has made of key and nonce. It is begun, takes the associated data portion by
/// portion, then the whole blocks of the payload's static front, then what is left of the front, and is ready. The
/// rest of the packet is sealed or opened from it, and it stays as it is.
pub trait Serial: Engine {
    /// The state after the packet's beginning.
    type Chain: Default + Clone + Zeroize;

    /// Bytes of payload that a block has.
    const RATE: usize;

    /// Whether the payload's length goes in first, so that a chain is for packets of one length only. If not, the
    /// `len` given below is 0.
    const LENGTH_FIRST: bool;

    /// Begins the chain of a packet with so many bytes of associated data and payload.
    fn begin(
        key: &Self::Key,
        nonce: &Self::NonceBytes,
        once: &Self::OneTime,
        aad_len: usize,
        len: usize,
        chain: &mut Self::Chain,
    );

    /// How many of the `aad_len` bytes of associated data go in next, after `done` of them: 1 to [`PORTION`].
    fn portion(aad_len: usize, done: usize) -> usize;

    /// Takes the next portion of the associated data, after `done` of `aad_len` bytes.
    fn associate(key: &Self::Key, chain: &mut Self::Chain, aad_len: usize, done: usize, portion: &[u8]);

    /// Takes whole blocks of the front. A suite without cipherstream writes the ciphertext to `out`, which is as long;
    /// one with it is given an empty `out`, since the ciphertext is there already.
    fn absorb(key: &Self::Key, chain: &mut Self::Chain, blocks: &[u8], out: &mut [u8]);

    /// Takes what is left of the front, less than a block and perhaps nothing; the chain is ready then. A suite that
    /// can't take a part of a block does nothing here, and is given the tail again with the rest.
    fn settle_front(key: &Self::Key, chain: &mut Self::Chain, tail: &[u8]);

    /// Seals the end of a packet whose chain is ready: `tail` is what is left of the front, `rest` follows it and is at
    /// least one byte. `out` has a place for both; with a cipherstream, it holds the tail's ciphertext and the
    /// cipherstream of the rest, and may go on behind it.
    #[allow(clippy::too_many_arguments)]
    fn seal_rest(
        key: &Self::Key,
        once: &Self::OneTime,
        chain: &Self::Chain,
        sizes: Sizes,
        tail: &[u8],
        rest: &[u8],
        out: &mut [u8],
        tag: &mut Self::TagBytes,
    );

    /// Decrypts the end of a packet from `src` into `dst`, both for tail and rest, and gives the tag it should have.
    /// With a cipherstream, `stream` is as `out` is above, and the tail of `src` was found to be that of the front;
    /// without one, `stream` is empty, and the tag is that of the tail that was received.
    #[allow(clippy::too_many_arguments)]
    fn open_rest(
        key: &Self::Key,
        once: &Self::OneTime,
        chain: &Self::Chain,
        sizes: Sizes,
        tail: &[u8],
        stream: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &mut Self::TagBytes,
    );
}

/// Bytes of a whole packet, as some suites authenticate them at the end.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Associated data.
    pub aad: usize,
    /// Payload: front and rest.
    pub payload: usize,
}
