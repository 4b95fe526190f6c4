//! The clock of every measurement: `CLOCK_MONOTONIC`.
//!
//! All network namespaces of a machine share it, so one station may subtract another's stamp.
//! Between two machines only round trips are valid, since they use one machine's stamps.

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970, for time stamps of a pcap file only.
#[must_use]
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Whether the kernel believes that its clock is synchronised: by NTP, or by PTP if its daemon says so.
#[must_use]
pub fn is_synchronized() -> bool {
    // SAFETY: an all-zero timex asks for the state and changes nothing.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is a valid timex to write to.
    let clock = unsafe { libc::adjtimex(&raw mut state) };
    clock >= 0 && clock != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to; both clocks exist on every Linux, so the call
    // cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps until `deadline_ns` of `CLOCK_MONOTONIC`. A signal ends the sleep early, so the caller
/// can read its stop flag.
pub fn sleep_until(deadline_ns: u64) {
    let at = timespec(deadline_ns);
    // SAFETY: `at` is a valid timespec; with TIMER_ABSTIME the remaining-time pointer may be null.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut())
    };
}

/// Sleeps until `spin_ns` before the deadline, then spins: a sleeping core takes tens of
/// microseconds to wake. Returns the last time read, at or after the deadline unless a signal
/// interrupted the sleep.
pub fn pace_until(deadline_ns: u64, spin_ns: u64) -> u64 {
    let wake = deadline_ns.saturating_sub(spin_ns);
    let mut now = monotonic_ns();
    if now < wake {
        sleep_until(wake);
        now = monotonic_ns();
        if now < wake {
            return now;
        }
    }
    while now < deadline_ns {
        // Lets another station's thread on the same core run.
        super::sched::yield_now();
        now = monotonic_ns();
    }
    now
}

pub(super) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}
