//! What a report fails with.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Failure of a report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The data of a paper does not have its form.
    #[error("the numbers of {paper}: {why}")]
    Data {
        /// Short name of the paper.
        paper: String,
        /// The fault.
        why: String,
    },
    /// A folder or a file of the report cannot be used.
    #[error("{}: {source}", .path.display())]
    Folder {
        /// Its path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A signal ended the run.
    #[error("interrupted; results kept: {kept}; the same command goes on from there")]
    Interrupted {
        /// Number of results that were there or were made.
        kept: usize,
    },
    /// A row's verdict does not follow from its numbers.
    #[error("the row \"{row}\" contradicts itself: {why}")]
    Contradiction {
        /// Paper, item, case and metric.
        row: String,
        /// The contradiction.
        why: String,
    },
}
