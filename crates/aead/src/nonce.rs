//! Nonces, which are moved and never copied, and their sequences.

use core::fmt;

/// An unused nonce. Whoever consumes it uses it up: a nonce can't be copied.
///
/// `B` is an array of bytes of the suite's nonce length.
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
    /// Asserts that these bytes are used with this key for the first and only time.
    pub const fn assume_unique(bytes: B) -> Self {
        Self(bytes)
    }

    /// The bytes, for formats that send the nonce.
    pub const fn as_bytes(&self) -> &B {
        &self.0
    }
}

impl<B> fmt::Debug for Nonce<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(..)")
    }
}

/// A sequence that gives each nonce once, with its packet number.
pub trait NonceSequence<B = [u8; 12]> {
    /// The reason why there is no next nonce.
    type Error;

    /// The next packet number and its nonce. A number is never given twice, even if the caller
    /// drops the nonce unused.
    fn next(&mut self) -> Result<(u64, Nonce<B>), Self::Error>;
}
