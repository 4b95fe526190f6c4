//! Scheduling: cores, class, resident memory.
//!
//! Any call may fail: without root the kernel refuses real-time classes and locked memory. The
//! caller reports the granted measures.

use std::io;

use super::check;

/// The cores this thread may run on, ascending.
#[must_use]
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: an all-zero cpu_set_t is a valid empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is valid for the size given; pid 0 means the calling thread.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if result != 0 {
        return vec![0];
    }
    // SAFETY: every index is below CPU_SETSIZE, the number of bits of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Confines the calling thread (and its later children) to `cpus`. An empty list changes nothing.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    // SAFETY: an all-zero cpu_set_t is a valid empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        // SAFETY: the index was just compared with the number of bits of the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: `set` is valid for the size given.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) }).map(drop)
}

/// Puts the calling thread into `SCHED_FIFO` at `priority` (1 to 99).
pub fn fifo(priority: i32) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameter` is valid; pid 0 means the calling thread. RESET_ON_FORK keeps children ordinary.
    check(unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameter)
    })
    .map(drop)
}

/// Lowers the calling thread's priority below all others (nice 19).
pub fn be_nice() {
    // SAFETY: takes plain integers. `who` 0 is the calling thread on Linux. A refusal changes
    // nothing that matters.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}

/// Locks all present and future pages of the process.
///
/// Unlocks again if the limit (RLIMIT_MEMLOCK) would make later allocations fail.
pub fn lock_memory() -> io::Result<()> {
    /// Later allocations of a station: thread stacks, buffers, queues.
    const HEADROOM: usize = 32 << 20;
    // SAFETY: takes flags only.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) })?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: asks for new memory at an address of the kernel's choice; nothing else is touched.
    let probe = unsafe { libc::mmap(std::ptr::null_mut(), HEADROOM, protection, flags, -1, 0) };
    if probe == libc::MAP_FAILED {
        let error = io::Error::last_os_error();
        // SAFETY: takes nothing.
        unsafe { libc::munlockall() };
        return Err(error);
    }
    // SAFETY: exactly the memory that mmap just gave, which nobody else knows.
    check(unsafe { libc::munmap(probe, HEADROOM) }).map(drop)
}

/// Removes the 50 µs of timer slack of ordinary threads.
pub fn tighten_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer (nanoseconds).
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

/// Yields the rest of the time slice to other threads of this core.
pub fn yield_now() {
    // SAFETY: takes nothing.
    unsafe { libc::sched_yield() };
}
