//! CPU, priority and clocks of a thread.

use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::time::Duration;

use super::check;

/// Pins the calling thread to one CPU.
///
/// # Errors
/// When there is no such CPU, or this process may not use it.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: cpu_set_t is a plain bit set, empty as all zeroes; `cpu` is below its size; pointer
    // and length describe `set`.
    let result = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, mem::size_of_val(&set), &set)
    };
    check(result).map(drop)
}

/// Gives the calling thread a fixed real-time priority (`SCHED_FIFO`, 1 to 99).
///
/// # Errors
/// Without `CAP_SYS_NICE`, and for a priority out of range.
pub fn real_time(priority: u8) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: priority.into() };
    // SAFETY: the pointer is to a live sched_param, which the kernel only reads.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) }).map(drop)
}

/// The kernel's limit on threads of fixed priority: microseconds of CPU time, and the period in
/// microseconds. `None` if the calling thread has no fixed priority, or there is no limit.
#[must_use]
pub fn real_time_bound() -> Option<(u64, u64)> {
    // SAFETY: no pointers; 0 is the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    if policy != libc::SCHED_FIFO && policy != libc::SCHED_RR {
        return None;
    }
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/sched_rt_{name}_us")).ok()?;
        text.trim().parse::<i64>().ok()
    };
    // A runtime of -1 means no limit.
    let (runtime, period) = (read("runtime")?, read("period")?);
    Some((u64::try_from(runtime).ok()?, u64::try_from(period).ok()?))
        .filter(|(runtime, period)| runtime < period)
}

/// Sleeps, regardless of frames.
pub fn pause(nanoseconds: u64) {
    std::thread::sleep(Duration::from_nanos(nanoseconds));
}

/// Lets the calling thread's timers fire on time, not up to 50 µs late.
pub fn precise_timers() {
    // SAFETY: no pointers. It cannot fail for the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

/// Yields the CPU to another ready thread.
pub fn yield_now() {
    // SAFETY: no arguments; on Linux it always succeeds.
    unsafe { libc::sched_yield() };
}

/// The time since the machine's start in nanoseconds, suspension included: the clock of keys, peers
/// and due frames.
#[must_use]
pub fn now() -> u64 {
    clock(libc::CLOCK_BOOTTIME)
}

/// The monotonic clock in nanoseconds, which stands still during suspension, as
/// [`coarse_now`].
#[must_use]
pub fn monotonic_now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// The monotonic clock in nanoseconds, as of the last tick: some milliseconds late, and cheaper.
#[inline]
#[must_use]
pub fn coarse_now() -> u64 {
    clock(libc::CLOCK_MONOTONIC_COARSE)
}

/// The real-time clock, which stamps frames, in nanoseconds.
#[must_use]
pub fn real_now() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

/// CPU time of the calling thread in nanoseconds.
#[must_use]
pub fn cpu_time() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[inline]
fn clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec that the kernel fills. These clocks exist on every
    // Linux.
    unsafe { libc::clock_gettime(id, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A descriptor after a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// Nothing.
    No,
    /// Readable.
    Readable,
    /// An error is pending. It ends each wait at once until it is taken.
    Error,
}

/// Waits until one of `fds` is readable or has an error, at most `timeout` (`None`: without limit).
/// A signal ends the wait with none.
pub fn wait<const N: usize>(fds: [RawFd; N], timeout: Option<Duration>) -> [Woken; N] {
    let mut polled = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let time = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs() as libc::time_t,
        tv_nsec: t.subsec_nanos() as libc::c_long,
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `polled` has N entries and outlives the call; `time` is null or points to a live
    // timespec; no signal mask.
    let count = unsafe { libc::ppoll(polled.as_mut_ptr(), N as libc::nfds_t, time, std::ptr::null()) };
    polled.map(|polled| match polled.revents {
        events if count <= 0 || events == 0 => Woken::No,
        libc::POLLIN => Woken::Readable,
        _ => Woken::Error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_wait_tells_datagrams_from_errors() {
        let [quiet, told, refused] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        told.send_to(b"datagram", told.local_addr().unwrap()).unwrap();
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        refused.connect(closed).unwrap();
        refused.send(b"to nobody").unwrap();
        let fds = [&quiet, &told, &refused].map(AsRawFd::as_raw_fd);
        assert_eq!(wait([fds[2]], Some(Duration::from_secs(5))), [Woken::Error]);
        assert_eq!(wait(fds, Some(Duration::ZERO)), [Woken::No, Woken::Readable, Woken::Error]);
        assert!(refused.take_error().unwrap().is_some());
        assert_eq!(wait(fds, Some(Duration::ZERO)), [Woken::No, Woken::Readable, Woken::No]);
    }
}
