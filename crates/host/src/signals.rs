//! SIGTERM and SIGINT stop a daemon cleanly.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Sets `stop` on the first SIGTERM or SIGINT, and exits on the second.
///
/// # Errors
/// When the signals cannot be caught, or the thread cannot be started.
pub fn watch(stop: Arc<AtomicBool>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
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
    thread::Builder::new().name("signals".into()).spawn(watch).map(drop)
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
