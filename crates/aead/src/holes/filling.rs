//! What a suite needs to fill a template's packet, or to read one that came: everything is checked to fit before, so that nothing is at the
//! deadline.

#[cfg(target_pointer_width = "64")]
use super::head::Stage;
use super::{
    head::{Head, WeightedMac},
    values::Values,
};

/// Values for the holes of a packet, checked to fit: each piece has its bytes, and each of the payload its block.
pub struct Filling<'a, S: WeightedMac, V: Values, const N: usize> {
    head: &'a mut Head<S, N>,
    values: V,
    body: &'a mut [u8],
}

impl<'a, S: WeightedMac, V: Values, const N: usize> Filling<'a, S, V, N> {
    /// Returns `None` if a value is missing, too much, or of another length than its hole.
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

/// One value for a packet whose one hole is a whole block of the payload, which the body has.
#[cfg(target_pointer_width = "64")]
pub struct FillingOne<'a, S: WeightedMac, const N: usize> {
    head: &'a mut Head<S, N>,
    value: &'a [u8; 16],
    body: &'a mut [u8],
}

#[cfg(target_pointer_width = "64")]
impl<'a, S: WeightedMac, const N: usize> FillingOne<'a, S, N> {
    /// Returns `None` if the packet waits for something else. The body is that which its head was made ready for.
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

/// A packet that came and has the template's lengths.
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

    /// The head, the associated data, the ciphertext, the body, and where the plaintext goes.
    #[inline]
    #[allow(clippy::type_complexity)]
    pub(crate) fn parts(self) -> (&'a Head<S, N>, &'a [u8], &'a [u8], &'a [u8], &'a mut [u8]) {
        (self.head, self.aad, self.src, self.body, self.dst)
    }
}
