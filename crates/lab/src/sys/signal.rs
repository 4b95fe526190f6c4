//! SIGINT and SIGTERM as a flag.
//!
//! The handler only stores a bool. Sleeping calls return with `EINTR`, so loops read the flag soon.

use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Makes SIGINT and SIGTERM set the flag instead of ending the process.
pub fn install() {
    // SAFETY: an all-zero sigaction is valid: no flags (so sleeping calls are interrupted), an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: `action` is valid and its handler only stores an atomic, which is async-signal-safe.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}

/// Whether the process was asked to end.
#[must_use]
pub fn stopping() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Asks this process to end, like SIGTERM.
pub fn stop() {
    STOP.store(true, Ordering::Relaxed);
}
