//! Values for the holes of a packet.

use super::{
    head::{Head, WeightedMac},
    piece::Piece,
};

/// Values for the holes.
pub trait Values: Copy {
    /// Whether each hole has a value of its length.
    fn fit<S: WeightedMac, const N: usize>(self, head: &Head<S, N>) -> bool;

    /// The piece's bytes.
    fn bytes(&self, piece: &Piece) -> &[u8];

    /// The value, if there is one and it is a whole block.
    #[cfg(target_pointer_width = "64")]
    fn one_block(&self) -> Option<&[u8; 16]>;

    /// The first byte of the first value.
    #[cfg(target_arch = "x86_64")]
    fn first(&self) -> *const u8;

    /// Pointer to the piece's bytes.
    ///
    /// # Safety
    /// The values fit the piece's head.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "reads without a bounds check, for values that were checked to fit")]
    unsafe fn at(&self, piece: &Piece) -> *const u8;
}

/// One value for each hole.
#[derive(Clone, Copy)]
pub(crate) struct Apart<'a>(pub(crate) &'a [&'a [u8]]);

impl Values for Apart<'_> {
    #[inline(always)]
    fn fit<S: WeightedMac, const N: usize>(self, head: &Head<S, N>) -> bool {
        let fits = |piece: &Piece| self.0.get(piece.hole()).is_some_and(|v| v.len() == piece.value_len());
        self.0.len() == head.holes as usize && head.pieces().all(fits)
    }

    #[inline]
    fn bytes(&self, piece: &Piece) -> &[u8] {
        &self.0[piece.hole()][piece.from()..][..piece.len()]
    }

    #[inline(always)]
    #[cfg(target_pointer_width = "64")]
    fn one_block(&self) -> Option<&[u8; 16]> {
        let [value] = self.0 else { return None };
        (*value).try_into().ok()
    }

    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    fn first(&self) -> *const u8 {
        self.0.first().map_or(core::ptr::null(), |value| value.as_ptr())
    }

    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "reads without a bounds check, for values that were checked to fit")]
    unsafe fn at(&self, piece: &Piece) -> *const u8 {
        // SAFETY: the values fit (caller), so the piece's hole has one.
        unsafe { self.0.get_unchecked(piece.hole()) }.as_ptr().wrapping_add(piece.from())
    }
}

/// The values of all holes, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Joined<'a>(pub(crate) &'a [u8]);

impl Values for Joined<'_> {
    #[inline(always)]
    fn fit<S: WeightedMac, const N: usize>(self, head: &Head<S, N>) -> bool {
        self.0.len() == head.joined as usize
    }

    #[inline]
    fn bytes(&self, piece: &Piece) -> &[u8] {
        &self.0[piece.joined as usize..][..piece.len()]
    }

    #[inline(always)]
    #[cfg(target_pointer_width = "64")]
    fn one_block(&self) -> Option<&[u8; 16]> {
        self.0.try_into().ok()
    }

    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    fn first(&self) -> *const u8 {
        self.0.as_ptr()
    }

    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "reads without a bounds check, for values that were checked to fit")]
    unsafe fn at(&self, piece: &Piece) -> *const u8 {
        self.0.as_ptr().wrapping_add(piece.joined as usize)
    }
}
