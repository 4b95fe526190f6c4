//! The parts of a running gateway that do not depend on its protection.
//!
//! - `duty`, [`governor`], `rhythm`: the loop of a forwarding thread, and when it polls or sleeps
//! - `warm`: preparation while no frame is ready, and what keeps the caches warm
//! - [`mailbox`], [`counters`]: messages to a forwarding thread, and its counters
//! - [`tally`]: the counters of several threads
//! - [`flows`]: cyclic flows, watched
//! - [`control`], [`status`], [`report`]: the control socket and its answers
//! - [`http`]: endpoints for what is shown
//! - [`metrics`], [`page`]: the metrics, and the page to look at
//! - [`reload`]: the request to read the configuration again
//! - [`trouble`], [`watch`]: conditions that the log warns of, each with its remedy
//! - [`loss`]: link loss forwarding; `runs`: threads beside the forwarding ones
//! - [`surroundings`]: watches the host around a running gateway
//! - [`setup`]: CPUs, priorities, and other parts of a start

use std::sync::{Mutex, MutexGuard, PoisonError};

use antedate_host::fault::Fault;

pub mod control;
pub mod counters;
pub(crate) mod duty;
pub mod flows;
pub mod governor;
pub mod http;
pub mod loss;
pub mod mailbox;
pub mod metrics;
pub mod page;
pub mod reload;
pub mod report;
pub(crate) mod rhythm;
pub(crate) mod runs;
pub mod setup;
pub mod status;
pub mod surroundings;
pub mod tally;
pub mod trouble;
pub(crate) mod warm;
pub mod watch;

/// Why a gateway did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not start. A retry without a change fails again.
    #[error("{0}")]
    NotStarted(Fault),
    /// A thread ended by itself, which is a bug of this program.
    #[error("a thread ended by itself; start the gateway again, and report what was logged before")]
    Forwarding,
    /// It stopped, but the last packet numbers could not be written. Packet numbers are lost, none
    /// is used twice.
    #[error("{0}")]
    NotRecorded(Fault),
}

/// Locks a mutex whose data is consistent even after a panic of its holder.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
