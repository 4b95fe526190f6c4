//! The frame of a running gateway, whatever protects its frames.
//!
//! - [`duty`], [`governor`], `rhythm`: the loop of a forwarding thread, and when it polls or sleeps
//! - `warm`: preparing and keeping warm while no frame stands ready
//! - [`mailbox`], [`counters`]: how other threads reach and see a forwarding thread
//! - [`control`], [`status`], [`report`]: the control socket and its answers
//! - [`setup`]: CPUs, priorities, and other parts of a start

use std::sync::{Mutex, MutexGuard, PoisonError};

use antedate_host::fault::Fault;

pub mod control;
pub mod counters;
pub(crate) mod duty;
pub mod governor;
pub mod mailbox;
pub mod report;
pub(crate) mod rhythm;
pub mod setup;
pub mod status;
pub(crate) mod warm;

/// Why a gateway does not run any more, or never did.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// It could not start: trying again without a change gives the same.
    #[error("{0}")]
    NotStarted(Fault),
    /// A forwarding thread ended by itself, which is a mistake of this program.
    #[error("a thread ended by itself; start the gateway again, and report what was logged before")]
    Forwarding,
    /// It stopped, but how far it came could not be written. Packet numbers are lost then, none is used twice.
    #[error("{0}")]
    NotRecorded(Fault),
}

/// A lock whose holder cannot leave it half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
