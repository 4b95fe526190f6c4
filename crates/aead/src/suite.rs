//! The cipher suites as types.

use crate::engine::Engine;

/// An AEAD cipher suite. The trait is sealed: the suites of this crate are all there are.
///
/// A suite is a type without a value; it names the cipher of a [`Key`](crate::Key) and of all that is made from it.
#[allow(private_bounds)]
pub trait Suite: Engine {
    /// The name of the suite in configurations and reports, as in `aes-128-gcm`.
    const NAME: &'static str;
    /// Bytes of a key.
    const KEY_LEN: usize;
    /// Bytes of a nonce.
    const NONCE_LEN: usize = 12;
    /// Bytes of a tag.
    const TAG_LEN: usize = 16;
}
