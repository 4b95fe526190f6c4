//! The authentication tag, and the one error that a cipher has.

use core::fmt;
use subtle::ConstantTimeEq;

/// An authentication tag. Comparison takes the same time whatever the bytes are.
#[derive(Clone, Copy)]
pub struct Tag(pub(crate) [u8; 16]);

impl Tag {
    /// The 16 bytes, as they go on the wire.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl PartialEq for Tag {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Tag {}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tag(")?;
        for byte in self.0 {
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
pub(crate) fn check(expected: &[u8; 16], received: &[u8; 16]) -> Result<(), Unauthentic> {
    if expected.ct_eq(received).into() { Ok(()) } else { Err(Unauthentic) }
}
