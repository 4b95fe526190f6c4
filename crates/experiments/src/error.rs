//! Failures of an experiment.

use std::fmt::Display;
use std::io;

use antedate_lab::ns::NamespaceError;

/// Why an experiment has no result. The message tells the missing requirement and its remedy.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The topology could not be built.
    #[error(transparent)]
    Namespaces(#[from] NamespaceError),
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A requirement is missing, or a part of the measurement failed.
    #[error("{0}")]
    Failed(String),
}

impl From<String> for ExperimentError {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl From<&str> for ExperimentError {
    fn from(message: &str) -> Self {
        Self::Failed(message.to_owned())
    }
}

/// Wraps an error of another crate.
pub(crate) fn failed(error: impl Display) -> ExperimentError {
    ExperimentError::Failed(error.to_string())
}
