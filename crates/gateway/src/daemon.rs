//! Runs a gateway with the protection of its configuration.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use antedate_host::fault::Fault;
use antedate_host::hangup::Hangup;

use crate::config::{Checked, Keyed};
use crate::{link, overlay};

pub use crate::run::RunError;

/// Runs the gateway until `stop` is set, with the keys of `checked`, which has those of an overlay
/// no longer. At the end prepared material is wiped, and unused packet
/// numbers are given back.
///
/// # Errors
/// When it cannot start, ends by itself, or cannot write its state at the end.
pub fn run(checked: &mut Checked, stop: &AtomicBool) -> Result<(), RunError> {
    run_logging_keys(checked, None, stop, &Hangup::default())
}

/// As [`run`], and writes the session keys of an overlay to a file. A reader of the file can
/// decrypt all traffic. `hangup` has the configuration read again.
///
/// # Errors
/// As [`run`], and for a gateway without session keys.
pub fn run_logging_keys(
    checked: &mut Checked,
    key_log: Option<&Path>,
    stop: &AtomicBool,
    hangup: &Hangup,
) -> Result<(), RunError> {
    for warning in &checked.warnings {
        tracing::warn!("{warning:#}");
    }
    if let Keyed::Overlay { .. } = &checked.protection {
        return overlay::daemon::run(checked, key_log, stop, hangup);
    }
    if let Some(file) = key_log {
        let fault =
            Fault::of_file(file, "only the sessions of an [overlay] have such keys", "leave --keylog out");
        return Err(RunError::NotStarted(fault));
    }
    link::daemon::run(checked, stop, hangup)
}
