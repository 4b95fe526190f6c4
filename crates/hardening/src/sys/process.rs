//! Dumps, debuggers and locked memory of this process.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::check;

/// Whether memory is locked as it comes.
static LOCKS_ALL: AtomicBool = AtomicBool::new(false);

/// Forbids core dumps, and others to attach or to read `/proc/PID/mem`, without `CAP_SYS_PTRACE`
/// (`PR_SET_DUMPABLE(2const)`).
pub(crate) fn forbid_dumps() -> io::Result<()> {
    // SAFETY: takes integers only.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0 as libc::c_ulong, 0, 0, 0) })?;
    set_limit(libc::RLIMIT_CORE, 0)
}

/// Locks all memory of the process, also what it gets later, once it is used. Returns false if the
/// limit on locked memory forbids that: with a limit, a later allocation would fail.
pub(crate) fn lock_all() -> bool {
    one_arena();
    // Root raises it, and any process up to its hard limit.
    let unlimited = set_limit(libc::RLIMIT_MEMLOCK, libc::RLIM_INFINITY).is_ok();
    let locks = unlimited && lock(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT).is_ok();
    LOCKS_ALL.store(locks, Ordering::Relaxed);
    locks
}

/// Has the C library's heap grow in one piece: with one for each thread, some hundred KiB of each
/// are locked. Rust's heap is another ([`heap`](super::heap)).
fn one_arena() {
    // SAFETY: takes integers only, before there are other threads.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Locks all present memory, and brings it in.
pub(crate) fn lock_present() -> io::Result<()> {
    lock(libc::MCL_CURRENT)?;
    // The call above ended the locking of later memory.
    if LOCKS_ALL.load(Ordering::Relaxed) { lock(libc::MCL_FUTURE | libc::MCL_ONFAULT) } else { Ok(()) }
}

fn lock(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::mlockall(flags) }).map(drop)
}

/// The type of a limit's name in the C library.
#[cfg(target_env = "musl")]
type Resource = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Resource = libc::__rlimit_resource_t;

/// Sets both parts of a limit.
fn set_limit(which: Resource, value: libc::rlim_t) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: the pointer is to a live rlimit, which the kernel only reads.
    check(unsafe { libc::setrlimit(which, &limit) }).map(drop)
}
