//! The device's side: holds the identity, takes documents, applies them, and reports.
//!
//! - [`state`]: the agent's directory
//! - [`apply`]: from a document to files in force
//! - `run`: the connection, and what to do when (feature `nats`)
//! - `join`: the way to membership (feature `nats`)

pub mod apply;
#[cfg(feature = "nats")]
mod ask;
#[cfg(feature = "nats")]
pub mod join;
#[cfg(feature = "nats")]
pub mod run;
#[cfg(feature = "nats")]
mod stale;
pub mod state;

use std::path::Path;

use crate::report::Health;

/// Why a gateway does not take its files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotTaken(pub String);

/// The gateway beside an agent.
pub trait Gateway: Send {
    /// Has it read its files again. The answer is a sentence about the result. A gateway that does
    /// not run yet finds the files when it starts, which is no failure.
    ///
    /// # Errors
    /// When it refuses them, with the reason. It goes on as before then.
    fn reload(&mut self, directory: &Path) -> Result<String, NotTaken>;
    /// Its health.
    fn health(&mut self) -> Health;
}

/// A device without a gateway: its files are for other programs.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoGateway;

impl Gateway for NoGateway {
    fn reload(&mut self, _directory: &Path) -> Result<String, NotTaken> {
        Ok("files written".into())
    }

    fn health(&mut self) -> Health {
        Health::default()
    }
}
