//! What the daemons of this program, and its verbs with keys, deny themselves.

use antedate_hardening::memory::{self, Locked};

/// Closes the memory of this process to dumps, debuggers and the swap, before keys are read.
/// Returns what the user must know.
#[must_use]
pub(crate) fn close_memory() -> Option<String> {
    match memory::close() {
        Ok(Locked::All | Locked::Heap) => None,
        Ok(Locked::Lacking(octets)) => Some(format!(
            "the limit on locked memory is too low for {octets} octets, and keys may reach the swap; \
             give LimitMEMLOCK=infinity (ulimit -l unlimited), or use no swap"
        )),
        Err(error) => Some(format!(
            "dumps and debuggers may read the keys in this process's memory: {error}; \
             allow prctl(PR_SET_DUMPABLE) and setrlimit(RLIMIT_CORE)"
        )),
    }
}

/// As [`close_memory`], for a program with a log.
pub(crate) fn close_memory_of_daemon() {
    if let Some(warning) = close_memory() {
        tracing::warn!("{warning}");
    }
}
