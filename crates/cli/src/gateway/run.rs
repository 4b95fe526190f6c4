//! `antedate gateway run FILE`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use antedate_gateway::config::{check, machine::ThisMachine};
use antedate_gateway::daemon;
use antedate_hardening::stack;
use antedate_host::log::{self as host_log, FilterError};
use antedate_host::signals;
use clap::Args;

use crate::failure::{Done, Failure};
use crate::hardened;

#[derive(Args)]
pub(crate) struct Run {
    /// The configuration.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the keys of an overlay's sessions to FILE, for tshark: -o wg.keylog_file:FILE. Its
    /// readers can decrypt all traffic.
    #[arg(long, value_name = "FILE")]
    keylog: Option<PathBuf>,
    /// What to log to standard error: error, warn, info, debug, trace, or a filter such as
    /// antedate_gateway=debug. [default: RUST_LOG, else info]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
}

impl Run {
    pub(crate) fn run(self) -> Done {
        log(self.log)?;
        hardened::close_memory_of_daemon();
        let stop = Arc::new(AtomicBool::new(false));
        watch_signals(Arc::clone(&stop))?;
        let checked = stack::wiped(|| check(&self.file, &ThisMachine))?;
        daemon::run_logging_keys(&checked, self.keylog.as_deref(), &stop).map_err(|ended| match ended {
            daemon::RunError::NotStarted(fault) => fault.into(),
            other => Failure::Verdict(other.to_string()),
        })
    }
}

/// Sends log lines to standard error.
pub(crate) fn log(filter: Option<String>) -> Done {
    host_log::init(filter).map_err(|error| Failure::usage(error.to_string(), FilterError::REMEDY))
}

/// Sets `stop` on the first SIGTERM or SIGINT, ends the process on the second.
pub(crate) fn watch_signals(stop: Arc<AtomicBool>) -> Done {
    signals::watch(stop).map_err(|error| {
        Failure::usage(format!("cannot watch for signals: {error}"), "see ulimit -n and ulimit -u")
    })
}
