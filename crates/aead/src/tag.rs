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
        check(&self.0, &other.0).is_ok()
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

/// Compares in constant time, and as one number: a comparison by bytes takes as long as the rest of a short packet.
#[inline]
pub(crate) fn check(expected: &[u8; 16], received: &[u8; 16]) -> Result<(), Unauthentic> {
    let differs = u128::from_ne_bytes(*expected) ^ u128::from_ne_bytes(*received);
    if ((differs >> 64) as u64 | differs as u64).ct_eq(&0).into() { Ok(()) } else { Err(Unauthentic) }
}
