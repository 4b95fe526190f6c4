//! The private interface of a suite that takes templates with holes anywhere.

#[cfg(target_pointer_width = "64")]
use crate::holes::FillingOne;
#[cfg(target_arch = "x86_64")]
use crate::holes::Template;
use crate::{
    holes::{Filling, Piece, Reading, Shape, Spot, Stretch, Values, WeightedMac},
    suites::engine::Engine,
};

/// A suite whose packets can be prepared for a template with holes anywhere.
pub trait SparseEngine: Engine + WeightedMac {
    /// Whether a hole changes all of each ciphertext block that it touches, and not its own bytes
    /// alone.
    const BY_BLOCK: bool;

    /// Prepares a template's whole packet in one call: [`absorb`](Self::absorb),
    /// [`close`](Self::close) and [`weigh`](Self::weigh). Returns false, and does nothing, if the
    /// suite has no faster way.
    #[cfg(target_arch = "x86_64")]
    fn prepare_whole(
        _key: &Self::Key,
        _nonce: &Self::NonceBytes,
        _sum: &mut Self::Sum,
        _spots: &mut [Spot<Self::Weight>],
        _template: &Template<'_>,
        _body: &mut [u8],
    ) -> bool {
        false
    }

    /// Encrypts a stretch of the template's packet, with any bytes in its holes, and adds it to the
    /// MAC. Stretches come in the packet's order.
    fn absorb(
        key: &Self::Key,
        once: &Self::OneTime,
        sum: &mut Self::Sum,
        spots: &[Spot<Self::Weight>],
        stretch: Stretch<'_>,
    );

    /// Ends the MAC, after all blocks are absorbed.
    fn close(key: &Self::Key, once: &Self::OneTime, sum: &mut Self::Sum, shape: &Shape);

    /// Computes a piece's weight, after `close`. Removes the template's bytes in the piece from the
    /// sum and the body, so that the piece holds zeros. `block` is the whole block (see
    /// [`Piece::around`]).
    fn weigh(
        key: &Self::Key,
        once: &Self::OneTime,
        sum: &mut Self::Sum,
        shape: &Shape,
        piece: &Piece,
        block: u128,
        body: &mut [u8],
    ) -> Self::Weight;

    /// Puts values into the packet and writes its tag; wipes the sum and the weights.
    fn fill<V: Values, const N: usize>(key: &Self::Key, filling: Filling<'_, Self, V, N>);

    /// As [`fill`](Self::fill), for one value that is a whole block, the usual packet. Nothing is
    /// looked up before its multiplication begins. Returns false, and does nothing, if the suite
    /// has no faster way.
    #[inline(always)]
    #[cfg(target_pointer_width = "64")]
    fn fill_one<const N: usize>(_filling: FillingOne<'_, Self, N>) -> bool {
        false
    }

    /// Decrypts the pieces (with [`BY_BLOCK`](Self::BY_BLOCK) their whole blocks), and returns the
    /// expected tag. The caller has compared all other bytes with the prepared ones.
    fn check<const N: usize>(key: &Self::Key, reading: Reading<'_, Self, N>) -> Self::TagBytes;
}
