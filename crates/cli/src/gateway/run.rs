//! `antedate gateway run FILE`.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use antedate_gateway::config::{check, machine::ThisMachine};
use antedate_gateway::daemon;
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing_subscriber::EnvFilter;

use crate::failure::{Done, Failure};

#[derive(Args)]
pub(crate) struct Run {
    /// The configuration.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the keys of an overlay's sessions to FILE, for tshark: -o wg.keylog_file:FILE. Whoever reads it reads all traffic.
    #[arg(long, value_name = "FILE")]
    keylog: Option<PathBuf>,
    /// What to log to standard error: error, warn, info, debug, trace, or a filter such as antedate_gateway=debug.
    /// [default: RUST_LOG, else info]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
}

impl Run {
    pub(crate) fn run(self) -> Done {
        log(self.log)?;
        let stop = Arc::new(AtomicBool::new(false));
        watch_signals(Arc::clone(&stop))?;
        let checked = check(&self.file, &ThisMachine)?;
        daemon::run_logging_keys(&checked, self.keylog.as_deref(), &stop).map_err(|ended| match ended {
            daemon::Ended::NotStarted(fault) => fault.into(),
            other => Failure::Verdict(other.to_string()),
        })
    }
}

/// Sends what is logged to standard error.
pub(crate) fn log(filter: Option<String>) -> Done {
    let filter = filter.or_else(|| std::env::var("RUST_LOG").ok()).unwrap_or_else(|| "info".to_owned());
    let filter = EnvFilter::try_new(&filter).map_err(|error| {
        Failure::usage(
            format!("--log {filter}: {error}"),
            "give error, warn, info, debug, trace, or target=level",
        )
    })?;
    // no-color.org: set, and not empty.
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        // It would say so on standard error, and a line that cannot be written there is a panic.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal() && !plain);
    // The journal has the time already (systemd.exec(5)).
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        lines.without_time().init();
    } else {
        lines.init();
    }
    Ok(())
}

/// Sets `stop` on the first SIGTERM or SIGINT, ends the process on the second.
pub(crate) fn watch_signals(stop: Arc<AtomicBool>) -> Done {
    let unwatched = |error: std::io::Error| {
        Failure::usage(format!("cannot watch for signals: {error}"), "see ulimit -n and ulimit -u")
    };
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(unwatched)?;
    let watch = move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                tracing::warn!("SIGHUP changes nothing; restart to read the configuration again");
            } else if stop.swap(true, Ordering::AcqRel) {
                tracing::warn!("ending at once; reserved packet numbers are lost");
                std::process::exit(1);
            } else {
                tracing::info!("stopping");
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(watch).map(drop).map_err(unwatched)
}
