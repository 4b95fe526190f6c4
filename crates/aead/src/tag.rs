//! The authentication tag and the error of a failed check.

use crate::bytes::Bytes;
use core::fmt;

/// An authentication tag, compared in constant time.
///
/// `B` is an array of bytes of the suite's tag length.
#[derive(Clone, Copy)]
pub struct Tag<B = [u8; 16]>(pub(crate) B);

impl<B> Tag<B> {
    /// The bytes on the wire.
    pub const fn as_bytes(&self) -> &B {
        &self.0
    }
}

#[allow(private_bounds, reason = "only arrays of bytes implement it")]
impl<B: Bytes> PartialEq for Tag<B> {
    fn eq(&self, other: &Self) -> bool {
        self.0.same(&other.0)
    }
}

#[allow(private_bounds, reason = "only arrays of bytes implement it")]
impl<B: Bytes> Eq for Tag<B> {}

#[allow(private_bounds, reason = "only arrays of bytes implement it")]
impl<B: Bytes> fmt::Debug for Tag<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tag(")?;
        for byte in self.0.as_ref() {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

/// The packet is not authentic. The error gives no reason, so that it reveals nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthenticationError;

impl fmt::Display for AuthenticationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the packet is not authentic")
    }
}

impl core::error::Error for AuthenticationError {}

/// Compares in constant time.
#[inline]
pub(crate) fn check<B: Bytes>(expected: &B, received: &B) -> Result<(), AuthenticationError> {
    if expected.same(received) { Ok(()) } else { Err(AuthenticationError) }
}
