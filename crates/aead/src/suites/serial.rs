//! The private interface of a suite with a serial MAC.
//!
//! Each block of such a MAC depends on the one before, so only a packet's beginning can be
//! prepared. [`Front`](crate::Front) uses this trait alone.

use crate::suites::engine::Engine;
use zeroize::Zeroize;

/// The longest portion of associated data in a step.
pub(crate) const PORTION: usize = 32;

/// A suite that processes a packet from front to end.
///
/// A chain is the state after the packet's beginning. It starts from key and nonce, takes the
/// associated data portion by portion, then the whole blocks of the payload's front, then the
/// front's tail. Then it is ready: the rest of the packet is sealed or opened from it, and the
/// chain stays unchanged.
pub trait Serial: Engine {
    /// The state after the packet's beginning.
    type Chain: Default + Clone + Zeroize;

    /// Bytes of payload in a block.
    const RATE: usize;

    /// Whether the payload's length comes first, so that a chain is for one length only. If not,
    /// `len` below is 0.
    const LENGTH_FIRST: bool;

    /// Begins the chain of a packet with these lengths of associated data and payload.
    fn begin(
        key: &Self::Key,
        nonce: &Self::NonceBytes,
        once: &Self::OneTime,
        aad_len: usize,
        len: usize,
        chain: &mut Self::Chain,
    );

    /// Length of the next portion of associated data, after `done` of `aad_len` bytes: 1 to
    /// [`PORTION`].
    fn portion(aad_len: usize, done: usize) -> usize;

    /// Takes the next portion of the associated data, after `done` of `aad_len` bytes.
    fn associate(key: &Self::Key, chain: &mut Self::Chain, aad_len: usize, done: usize, portion: &[u8]);

    /// Takes whole blocks of the front. A suite without a key stream writes the ciphertext to
    /// `out`, which is as long. With a key stream, the ciphertext is already made and `out` is
    /// empty.
    fn absorb(key: &Self::Key, chain: &mut Self::Chain, blocks: &[u8], out: &mut [u8]);

    /// Takes the front's tail, less than a block or nothing; then the chain is ready. A suite that
    /// can't take a part of a block does nothing here, and gets the tail again with the rest.
    fn settle_front(key: &Self::Key, chain: &mut Self::Chain, tail: &[u8]);

    /// Seals the end of a packet whose chain is ready: the front's `tail`, then `rest` of at least
    /// one byte. `out` covers both. With a key stream, `out` holds the tail's ciphertext and the
    /// key stream of the rest, and may be longer.
    #[allow(clippy::too_many_arguments, reason = "the parts of one packet")]
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

    /// Decrypts the end of a packet (tail and rest) from `src` into `dst`, and returns the expected
    /// tag. With a key stream, `stream` is as `out` above, and the tail of `src` is already
    /// compared with the front's. Without one, `stream` is empty, and the tag is that of the
    /// received tail.
    #[allow(clippy::too_many_arguments, reason = "the parts of one packet")]
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

/// Lengths of a whole packet; some suites authenticate them at the end.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Associated data.
    pub aad: usize,
    /// Payload: front and rest.
    pub payload: usize,
}
