//! The error of the parsers.

use core::fmt;

/// A malformed input, or a value that does not fit its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// the bytes end before the format's fixed part, or a buffer is too short for the output
    Truncated,
    /// a length field points past the end of the bytes, or contradicts the format
    Length,
    /// a field has a value outside the format
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
