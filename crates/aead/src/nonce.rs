//! Nonces that are moved, never copied, and the sequences that give each of them once.

use core::fmt;

/// A nonce that has not been used yet. Whoever consumes it has used it; there is no second one of its kind.
///
/// `B` is an array of bytes, of the length that the suite says.
///
/// ```compile_fail
/// use antedate_aead::Nonce;
/// let nonce = Nonce::assume_unique([0; 12]);
/// let again = nonce.clone(); // a nonce can't be doubled
/// ```
///
/// ```compile_fail
/// use antedate_aead::{Aes128Gcm, Key, Nonce};
/// let key = Key::<Aes128Gcm>::new(&[0; 16]).unwrap();
/// let nonce = Nonce::assume_unique([0; 12]);
/// key.seal(nonce, b"", b"", &mut []);
/// key.seal(nonce, b"", b"", &mut []); // nor used twice
/// ```
pub struct Nonce<B = [u8; 12]>(pub(crate) B);

impl<B> Nonce<B> {
    /// Takes the caller's word that these bytes are used with this key for the first and only time.
    pub const fn assume_unique(bytes: B) -> Self {
        Self(bytes)
    }

    /// The bytes, as some formats send them along.
    pub const fn as_bytes(&self) -> &B {
        &self.0
    }
}

impl<B> fmt::Debug for Nonce<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(..)")
    }
}

/// A sequence of nonces that gives each one once, with the packet number it belongs to.
pub trait NonceSequence<B = [u8; 12]> {
    /// Why there is no next nonce.
    type Error;

    /// The next packet number and its nonce. A number that was given is never given again, even if the caller
    /// drops the nonce unused.
    fn next(&mut self) -> Result<(u64, Nonce<B>), Self::Error>;
}
