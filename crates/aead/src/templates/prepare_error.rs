//! The error of a preparation.

use crate::TemplateError;
use core::fmt;

/// A packet can't be prepared for a template or a front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrepareError<E, T = TemplateError> {
    /// The sequence has no next nonce.
    Sequence(E),
    /// The template or the front does not fit the slot. No nonce was taken.
    Template(T),
}

impl<E: fmt::Display, T: fmt::Display> fmt::Display for PrepareError<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sequence(error) => error.fmt(f),
            Self::Template(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error, T: core::error::Error> core::error::Error for PrepareError<E, T> {}
