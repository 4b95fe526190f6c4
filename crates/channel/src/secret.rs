//! A secret in a box: a move copies the pointer, so the one copy is wiped when it is dropped.

use alloc::boxed::Box;
use core::fmt;
use core::ops::{Deref, DerefMut};

use zeroize::Zeroize;

/// Octets of a secret on the heap, wiped when dropped and never shown.
#[cfg_attr(test, derive(PartialEq))]
pub(crate) struct Boxed<const N: usize>(Box<[u8; N]>);

impl<const N: usize> Boxed<N> {
    /// A copy of octets that others hold, and wipe.
    pub(crate) fn copy(octets: &[u8; N]) -> Self {
        let mut secret = Self::default();
        secret.copy_from_slice(octets);
        secret
    }
}

impl<const N: usize> From<[u8; N]> for Boxed<N> {
    /// Takes the octets, and wipes those that were passed.
    fn from(mut octets: [u8; N]) -> Self {
        let secret = Self::copy(&octets);
        octets.zeroize();
        secret
    }
}

impl<const N: usize> Default for Boxed<N> {
    /// Zeros, to be filled in place.
    fn default() -> Self {
        Self(Box::new([0; N]))
    }
}

impl<const N: usize> Clone for Boxed<N> {
    fn clone(&self) -> Self {
        Self::copy(self)
    }
}

impl<const N: usize> Deref for Boxed<N> {
    type Target = [u8; N];

    fn deref(&self) -> &[u8; N] {
        &self.0
    }
}

impl<const N: usize> DerefMut for Boxed<N> {
    fn deref_mut(&mut self) -> &mut [u8; N] {
        &mut self.0
    }
}

impl<const N: usize> Drop for Boxed<N> {
    fn drop(&mut self) {
        self.0.as_mut_slice().zeroize();
    }
}

impl<const N: usize> fmt::Debug for Boxed<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Boxed(..)")
    }
}
