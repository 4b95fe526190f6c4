//! SIGTERM, SIGINT and SIGQUIT stop a daemon cleanly. No other signal that a program can catch ends
//! it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPIPE, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};
use signal_hook::iterator::Signals;

use crate::hangup::Hangup;

/// Signals that would end a process by default (`signal(7)`) and mean nothing to a daemon. Signals
/// of faults, such as SIGSEGV and SIGABRT, are not among them.
const MEANINGLESS: [i32; 12] = [
    SIGHUP,
    SIGPIPE,
    SIGALRM,
    SIGUSR1,
    SIGUSR2,
    SIGVTALRM,
    SIGPROF,
    SIGIO,
    SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];
/// The real-time signals that the C library leaves to programs.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// Sets `stop` on the first SIGTERM, SIGINT or SIGQUIT, and exits on the second. SIGHUP
/// raises `hangup`. Other signals change nothing, and are logged.
///
/// # Errors
/// When the signals cannot be caught, or the thread cannot be started.
pub fn watch(stop: Arc<AtomicBool>, hangup: Arc<Hangup>) -> io::Result<()> {
    let ending = [SIGTERM, SIGINT, SIGQUIT];
    let mut signals = Signals::new(ending.into_iter().chain(MEANINGLESS).chain(REAL_TIME))?;
    let watch = move || {
        for signal in signals.forever() {
            if !ending.contains(&signal) {
                match signal {
                    // A peer or a reader of the log that is gone.
                    SIGPIPE => {}
                    SIGHUP if hangup.raise() => {}
                    SIGHUP => {
                        tracing::warn!("SIGHUP changes nothing; restart to read the configuration again");
                    }
                    _ => tracing::warn!(signal, "this signal changes nothing; SIGTERM stops"),
                }
            } else if stop.swap(true, Ordering::AcqRel) {
                tracing::warn!("ending at once; reserved packet numbers are lost");
                std::process::exit(1);
            } else {
                tracing::info!("stopping");
            }
        }
    };
    crate::helper::thread("signals").spawn(watch).map(drop)
}

/// The flag of this process that SIGTERM and SIGINT set.
///
/// # Errors
/// When the signals cannot be caught.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(stop) = STOP.get() {
        return Ok(Arc::clone(stop));
    }
    let stop = Arc::clone(STOP.get_or_init(Arc::default));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
