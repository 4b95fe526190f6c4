//! What the daemons of this program, and its verbs with keys, deny themselves.

use antedate_hardening::confine::{self, Needs};
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

/// Gives up the rights of this process that it does not need, before it has other threads. Returns
/// what the user must know.
#[must_use]
pub(crate) fn confine(needs: &Needs) -> Option<String> {
    match confine::process(needs) {
        Ok(true) => None,
        Ok(false) => {
            tracing::info!(
                "this kernel limits files only in part, or not at all: Landlock is complete from 6.12 on"
            );
            None
        }
        Err(error) => Some(format!("this process keeps rights that it does not need: {error}")),
    }
}

/// As [`confine()`], for a program with a log.
pub(crate) fn confine_daemon(needs: &Needs) {
    if let Some(warning) = confine(needs) {
        tracing::warn!("{warning}");
    }
}
