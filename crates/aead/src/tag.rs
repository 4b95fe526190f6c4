//! The authentication tag, and the one error that a cipher has.

use crate::bytes::Bytes;
use core::fmt;

/// An authentication tag. Comparison takes the same time whatever the bytes are.
///
/// `B` is an array of bytes, of the length that the suite says.
#[derive(Clone, Copy)]
pub struct Tag<B = [u8; 16]>(pub(crate) B);

impl<B> Tag<B> {
    /// The bytes, as they go on the wire.
    pub const fn as_bytes(&self) -> &B {
        &self.0
    }
}

#[allow(private_bounds)]
impl<B: Bytes> PartialEq for Tag<B> {
    fn eq(&self, other: &Self) -> bool {
        self.0.same(&other.0)
    }
}

#[allow(private_bounds)]
impl<B: Bytes> Eq for Tag<B> {}

#[allow(private_bounds)]
impl<B: Bytes> fmt::Debug for Tag<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tag(")?;
        for byte in self.0.as_ref() {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

/// The packet is not what the holder of the key sealed. It says no more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unauthentic;

impl fmt::Display for Unauthentic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the packet is not authentic")
    }
}

impl core::error::Error for Unauthentic {}

/// Compares in constant time.
#[inline]
pub(crate) fn check<B: Bytes>(expected: &B, received: &B) -> Result<(), Unauthentic> {
    if expected.same(received) { Ok(()) } else { Err(Unauthentic) }
}
