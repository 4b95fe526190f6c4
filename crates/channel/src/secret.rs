//! A secret in a box: a move copies the pointer, so the one copy is wiped when it is dropped. And the
//! stack below a library's key expansion, which is wiped at once.

use alloc::boxed::Box;
use core::fmt;
use core::ops::{Deref, DerefMut};

use zeroize::Zeroize;

/// Octets of stack that expanding an AES key and a use of it take at most.
#[cfg(feature = "mka")]
const EXPANDED: usize = 8 << 10;

/// Runs a computation with an expanded key, and overwrites the stack that it used, and the vector
/// registers. What is built on that stack next may have gaps between its fields, and would carry old
/// octets to the heap in them; registers are saved on the stack when a function is bound late.
#[cfg(feature = "mka")]
pub(crate) fn leaving_nothing<T>(compute: impl FnOnce() -> T) -> T {
    // A frame of its own, which has ended when the stack is overwritten.
    #[inline(never)]
    fn call<T>(compute: impl FnOnce() -> T) -> T {
        compute()
    }
    #[inline(never)]
    fn overwrite() {
        core::hint::black_box(&mut [0_u8; EXPANDED]);
    }
    let done = call(compute);
    overwrite();
    antedate_aead::wipe_registers();
    done
}

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
