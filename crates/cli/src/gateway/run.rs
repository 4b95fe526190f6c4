//! `antedate gateway run FILE`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use antedate_gateway::config::{Checked, Keyed, check, machine::ThisMachine};
use antedate_gateway::daemon;
use antedate_hardening::confine::{self, Capability, Needs};
use antedate_hardening::stack;
use antedate_host::fault::Fault;
use antedate_host::generation;
use antedate_host::hangup::Hangup;
use antedate_host::log::{self as host_log, FilterError};
use antedate_host::numbers::KeyLock;
use antedate_host::{agent, signals};
use clap::Args;

use crate::failure::{Done, Failure};
use crate::hardened;

#[derive(Args)]
pub(crate) struct Run {
    /// The configuration.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// FILE is written by the agent of a fleet, as another user of this group: take its files with
    /// mode 0640, and let it use the control socket.
    #[arg(long)]
    agent: bool,
    /// Write the keys of an overlay's sessions to FILE, for tshark: -o wg.keylog_file:FILE. Its
    /// readers can decrypt all traffic.
    #[arg(long, value_name = "FILE")]
    keylog: Option<PathBuf>,
    /// What to log to standard error: error, warn, info, debug, trace, or a filter such as
    /// antedate_gateway=debug. [default: RUST_LOG, else info]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
}

/// Trusts the files of the user who owns this one: the agent of a fleet.
pub(crate) fn trust_agent(file: &Path) -> Done {
    let remedy = "let the agent apply its first settings";
    let about =
        fs::metadata(file).map_err(|error| Fault::of_io(file, "find the agent's file", &error, remedy))?;
    agent::trust(about.uid());
    Ok(())
}

impl Run {
    pub(crate) fn run(self) -> Done {
        log(self.log.clone())?;
        hardened::close_memory_of_daemon();
        if self.agent {
            trust_agent(&self.file)?;
        }
        let mut checked = stack::wiped(|| check(&self.file, &ThisMachine))?;
        hardened::confine_daemon(&self.needs(&checked));
        // A thread, which inherits the limits.
        let stop = Arc::new(AtomicBool::new(false));
        let hangup = Arc::new(Hangup::default());
        watch_signals(Arc::clone(&stop), Arc::clone(&hangup))?;
        let cloned = watch_generation(Arc::clone(&stop));
        let ended = daemon::run_logging_keys(&mut checked, self.keylog.as_deref(), &stop, &hangup);
        ended.map_err(|ended| match ended {
            daemon::RunError::NotStarted(fault) => Failure::from(fault),
            other => Failure::Verdict(other.to_string()),
        })?;
        went_on(&cloned)
    }

    /// What a gateway does after its start: it records packet numbers, makes its control socket and
    /// the locks of keys, reads its configuration and keys again, opens sockets for replaced
    /// interfaces, and looks up the peers of an overlay.
    fn needs(&self, checked: &Checked) -> Needs {
        let config = &checked.config;
        let socket = config.control.socket.parent().map(Path::to_owned);
        let writes = [config.state.directory.clone()].into_iter().chain(socket).chain(self.keylog.clone());
        Needs {
            capabilities: vec![
                Capability::NetAdmin,
                Capability::NetRaw,
                Capability::SysNice,
                Capability::IpcLock,
            ],
            writes: writes.chain(KeyLock::directories()).collect(),
            reads: config.files().into_iter().map(Path::to_owned).collect(),
            names: matches!(checked.protection, Keyed::Overlay { .. }),
        }
    }
}

/// Sends log lines to standard error.
pub(crate) fn log(filter: Option<String>) -> Done {
    host_log::init(filter).map_err(|error| Failure::usage(error.to_string(), FilterError::REMEDY))
}

/// Sets `stop` and the returned flag when this virtual machine goes on from a snapshot: the keys in
/// use were used after it.
pub(crate) fn watch_generation(stop: Arc<AtomicBool>) -> Arc<AtomicBool> {
    let watch = confine::without_capabilities(|| generation::stop_at_change(stop));
    watch.unwrap_or_else(|error| {
        tracing::warn!(%error, "snapshots of this virtual machine are not noticed");
        Arc::default()
    })
}

/// The end of a daemon, which fails if this virtual machine went on from a snapshot.
pub(crate) fn went_on(cloned: &AtomicBool) -> Done {
    if cloned.load(Ordering::Acquire) {
        let what = "this virtual machine went on from a snapshot: the keys in use may have been used after it; the next start \
                    agrees on new ones, and refuses static ones";
        return Err(Failure::Verdict(what.to_owned()));
    }
    Ok(())
}

/// Sets `stop` on the first SIGTERM or SIGINT, ends the process on the second. SIGHUP raises
/// `hangup`.
pub(crate) fn watch_signals(stop: Arc<AtomicBool>, hangup: Arc<Hangup>) -> Done {
    confine::without_capabilities(|| signals::watch(stop, hangup)).map_err(|error| {
        Failure::usage(format!("cannot watch for signals: {error}"), "see ulimit -n and ulimit -u")
    })
}
