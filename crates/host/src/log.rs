//! Log lines on standard error.

use std::error::Error;
use std::fmt;
use std::io::IsTerminal;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

/// An invalid log filter.
#[derive(Debug)]
pub struct FilterError {
    filter: String,
    error: tracing_subscriber::filter::ParseError,
}

impl Error for FilterError {}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--log {}: {}", self.filter, self.error)
    }
}

impl FilterError {
    /// The remedy.
    pub const REMEDY: &str = "give error, warn, info, debug, trace, or target=level";
}

/// Writes log lines to standard error. Without a filter the level is that of `RUST_LOG`, or `info`.
///
/// # Errors
/// When the filter is invalid.
pub fn init(filter: Option<String>) -> Result<(), FilterError> {
    let filter = filter.or_else(|| std::env::var("RUST_LOG").ok()).unwrap_or_else(|| "info".to_owned());
    let filter: Targets = filter.parse().map_err(|error| FilterError { filter, error })?;
    // no-color.org: set and not empty.
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false)
        // The subscriber would print the error to standard error too, and a failed write there
        // panics.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal() && !plain);
    // The journal adds the time (systemd.exec(5)).
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let lines = if journal { lines.without_time().boxed() } else { lines.boxed() };
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    Ok(())
}
