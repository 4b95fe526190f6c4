//! The checked inputs for filling a template's packet, and for reading a received one.

#[cfg(target_pointer_width = "64")]
use super::head::Stage;
use super::{
    head::{Head, WeightedMac},
    values::Values,
};

/// Values that fit the holes of a packet: each piece has its bytes, and each piece of the payload
/// has its whole block in the body.
pub struct Filling<'a, S: WeightedMac, V: Values, const N: usize> {
    head: &'a mut Head<S, N>,
    values: V,
    body: &'a mut [u8],
}

impl<'a, S: WeightedMac, V: Values, const N: usize> Filling<'a, S, V, N> {
    /// Returns `None` if a value is missing, surplus, or of another length than its hole.
    #[inline(always)]
    pub(crate) fn new(head: &'a mut Head<S, N>, values: V, body: &'a mut [u8]) -> Option<Self> {
        let fits = values.fit(head) && head.reach as usize <= body.len();
        fits.then_some(Self { head, values, body })
    }

    /// The packet's MAC.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn sum(&self) -> &S::Sum {
        &self.head.sum
    }

    /// The head, the values and the body.
    #[inline(always)]
    pub(crate) fn parts(self) -> (&'a mut Head<S, N>, V, &'a mut [u8]) {
        (self.head, self.values, self.body)
    }
}

/// A value for a packet with one hole, a whole block of the payload that the body has.
#[cfg(target_pointer_width = "64")]
pub struct FillingOne<'a, S: WeightedMac, const N: usize> {
    head: &'a mut Head<S, N>,
    value: &'a [u8; 16],
    body: &'a mut [u8],
}

#[cfg(target_pointer_width = "64")]
impl<'a, S: WeightedMac, const N: usize> FillingOne<'a, S, N> {
    /// Returns `None` if the packet is in another state. `body` is the one that the head was made
    /// ready for.
    #[inline(always)]
    pub(crate) fn new(head: &'a mut Head<S, N>, value: &'a [u8; 16], body: &'a mut [u8]) -> Option<Self> {
        (head.stage == Stage::ReadyForOne).then_some(Self { head, value, body })
    }

    /// The packet's MAC.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn sum(&self) -> &S::Sum {
        &self.head.sum
    }

    /// The head, the value and the body.
    #[inline(always)]
    pub(crate) fn parts(self) -> (&'a mut Head<S, N>, &'a [u8; 16], &'a mut [u8]) {
        (self.head, self.value, self.body)
    }
}

/// A received packet with the template's lengths.
pub struct Reading<'a, S: WeightedMac, const N: usize> {
    head: &'a Head<S, N>,
    aad: &'a [u8],
    src: &'a [u8],
    body: &'a [u8],
    dst: &'a mut [u8],
}

impl<'a, S: WeightedMac, const N: usize> Reading<'a, S, N> {
    /// Returns `None` if the parts are shorter than a piece needs.
    #[inline]
    pub(crate) fn new(
        head: &'a Head<S, N>,
        aad: &'a [u8],
        src: &'a [u8],
        body: &'a [u8],
        dst: &'a mut [u8],
    ) -> Option<Self> {
        let mut fits = src.len() == dst.len();
        for piece in head.pieces() {
            let part = if piece.in_payload() { src.len() } else { aad.len() };
            fits &= piece.at() + piece.start() + piece.len() <= part;
            fits &= piece.at() + 16 <= body.len() || !piece.in_payload();
        }
        fits.then_some(Self { head, aad, src, body, dst })
    }

    /// The packet's MAC.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn sum(&self) -> &S::Sum {
        &self.head.sum
    }

    /// The head, the associated data, the ciphertext, the body, and the destination of the
    /// plaintext.
    #[inline]
    #[allow(clippy::type_complexity, reason = "the parts of a received packet")]
    pub(crate) fn parts(self) -> (&'a Head<S, N>, &'a [u8], &'a [u8], &'a [u8], &'a mut [u8]) {
        (self.head, self.aad, self.src, self.body, self.dst)
    }
}
