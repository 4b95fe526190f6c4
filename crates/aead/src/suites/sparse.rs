//! What a suite provides for templates with holes anywhere.

#[cfg(target_pointer_width = "64")]
use crate::holes::FillingOne;
#[cfg(target_arch = "x86_64")]
use crate::holes::Template;
use crate::{
    holes::{Filling, Piece, Reading, Shape, Spot, Stretch, Values, WeightedMac},
    suites::engine::Engine,
};

/// A suite whose packets can be prepared for a template with holes anywhere.
pub trait SparseEngine: Engine + WeightedMac<Tag = <Self as Engine>::TagBytes> {
    /// Whether a hole changes the whole ciphertext block that it touches, and not its own bytes alone.
    const BY_BLOCK: bool;

    /// Prepares a whole packet of a template at once: what [`absorb`](Self::absorb), [`close`](Self::close) and
    /// [`weigh`](Self::weigh) do one after the other. False if the suite has no shorter way than that, and nothing was done.
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

    /// Encrypts a stretch of the template's packet, whatever is in its holes, and adds it to the MAC. Stretches come in
    /// the order of the packet.
    fn absorb(
        key: &Self::Key,
        once: &Self::OneTime,
        sum: &mut Self::Sum,
        spots: &[Spot<Self::Weight>],
        stretch: Stretch<'_>,
    );

    /// Ends the MAC, when all blocks are absorbed.
    fn close(key: &Self::Key, once: &Self::OneTime, sum: &mut Self::Sum, shape: &Shape);

    /// The piece's weight, after `close`. Takes out of the sum and the body what the template had in the piece, whose
    /// whole block is given (see [`Piece::around`]), so that the piece holds zeros from now on.
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

    /// As [`fill`](Self::fill), for one value that is a whole block, which is the usual packet: nothing is looked up before its
    /// multiplication begins. False if the suite has no shorter way, and nothing was done.
    #[inline(always)]
    #[cfg(target_pointer_width = "64")]
    fn fill_one<const N: usize>(_filling: FillingOne<'_, Self, N>) -> bool {
        false
    }

    /// Decrypts what lies in pieces (with [`BY_BLOCK`](Self::BY_BLOCK) all of their blocks) and returns the tag that
    /// the packet should have. All else was found to be as prepared.
    fn check<const N: usize>(key: &Self::Key, reading: Reading<'_, Self, N>) -> Self::TagBytes;
}
