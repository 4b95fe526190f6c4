//! The one error of the parsers.

use core::fmt;

/// Why bytes are not of the format asked for, or why a value does not fit its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// the bytes end before the fixed part of the format does, or a buffer is too short for what it should hold
    Truncated,
    /// a length field points past the end of the bytes, or contradicts the format
    Length,
    /// a field has a value that the format does not allow
    Value,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the bytes end too early",
            Self::Length => "a length field contradicts the bytes",
            Self::Value => "a field has a value that the format does not allow",
        })
    }
}

impl core::error::Error for Error {}

/// A result of this crate.
pub type Result<T> = core::result::Result<T, Error>;
