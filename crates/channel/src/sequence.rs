//! Errors of number sequences: packet numbers, counters and record numbers.

/// The reason for the lack of a next number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberError {
    /// all numbers of the key are used
    Exhausted,
    /// the next number is not reserved durably
    NotReserved,
}

impl core::fmt::Display for NumberError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NotReserved => "no number is reserved any more",
            Self::Exhausted => "the numbers of this key are spent",
        })
    }
}

impl core::error::Error for NumberError {}

/// All numbers of the key are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExhaustedError;
