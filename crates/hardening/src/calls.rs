//! System calls of a daemon (`seccomp(2)`).
//!
//! Each filter names what may be called; all else fails with `EPERM`, calls of later kernels
//! included, and the kernel logs it. An error, not a signal: an unforeseen call of a library costs
//! a function then, and not the plant's traffic. From 5.11 on the kernel keeps a table of the calls
//! without conditions, so that those of a frame cost no walk through the list.

use std::collections::BTreeMap;
use std::io;

use libc as c;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::sys::rights;

/// What frames need, and the heap: receive, send, wait, prepare, end.
const FRAMES: &[i64] = &[
    c::SYS_brk,
    c::SYS_clock_gettime,
    c::SYS_clock_nanosleep,
    c::SYS_close,
    c::SYS_exit,
    c::SYS_exit_group,
    c::SYS_futex,
    c::SYS_getpid,
    c::SYS_getrandom,
    c::SYS_getsockname,
    c::SYS_getsockopt,
    c::SYS_gettid,
    c::SYS_gettimeofday,
    c::SYS_madvise,
    c::SYS_membarrier,
    c::SYS_mlock,
    c::SYS_mlock2,
    c::SYS_mremap,
    c::SYS_munlock,
    c::SYS_munmap,
    c::SYS_nanosleep,
    c::SYS_ppoll,
    c::SYS_read,
    c::SYS_readv,
    c::SYS_recvfrom,
    c::SYS_recvmmsg,
    c::SYS_recvmsg,
    c::SYS_restart_syscall,
    c::SYS_rt_sigaction,
    c::SYS_rt_sigprocmask,
    c::SYS_rt_sigreturn,
    c::SYS_sched_yield,
    c::SYS_sendmmsg,
    c::SYS_sendmsg,
    c::SYS_sendto,
    c::SYS_setsockopt,
    c::SYS_sigaltstack,
    c::SYS_tgkill,
    c::SYS_write,
    c::SYS_writev,
];

/// What the rest of a daemon needs besides: sockets, threads, state files, and clocks.
const DAEMON: &[i64] = &[
    c::SYS_accept4,
    c::SYS_bind,
    c::SYS_capget,
    c::SYS_capset,
    c::SYS_chdir,
    c::SYS_clock_getres,
    c::SYS_clone3,
    c::SYS_connect,
    c::SYS_dup,
    c::SYS_dup3,
    c::SYS_epoll_create1,
    c::SYS_epoll_ctl,
    c::SYS_epoll_pwait,
    c::SYS_eventfd2,
    c::SYS_faccessat,
    c::SYS_faccessat2,
    c::SYS_fallocate,
    c::SYS_fchdir,
    c::SYS_fchmod,
    c::SYS_fchmodat,
    c::SYS_fchown,
    c::SYS_fcntl,
    c::SYS_fdatasync,
    c::SYS_flock,
    c::SYS_fstat,
    c::SYS_fstatfs,
    c::SYS_fsync,
    c::SYS_ftruncate,
    c::SYS_getcwd,
    c::SYS_getdents64,
    c::SYS_getegid,
    c::SYS_geteuid,
    c::SYS_getgid,
    c::SYS_getpeername,
    c::SYS_getppid,
    c::SYS_getpriority,
    c::SYS_getrlimit,
    c::SYS_getrusage,
    c::SYS_getuid,
    c::SYS_get_robust_list,
    c::SYS_ioctl,
    c::SYS_kill,
    c::SYS_landlock_add_rule,
    c::SYS_landlock_create_ruleset,
    c::SYS_landlock_restrict_self,
    c::SYS_listen,
    c::SYS_lseek,
    c::SYS_mincore,
    c::SYS_mkdirat,
    c::SYS_mlockall,
    c::SYS_munlockall,
    c::SYS_newfstatat,
    c::SYS_openat,
    c::SYS_openat2,
    c::SYS_pipe2,
    c::SYS_prctl,
    c::SYS_pread64,
    c::SYS_preadv,
    c::SYS_prlimit64,
    c::SYS_pselect6,
    c::SYS_pwrite64,
    c::SYS_readlinkat,
    c::SYS_renameat2,
    c::SYS_rseq,
    c::SYS_rt_sigpending,
    c::SYS_rt_sigsuspend,
    c::SYS_rt_sigtimedwait,
    c::SYS_sched_get_priority_max,
    c::SYS_sched_get_priority_min,
    c::SYS_sched_getaffinity,
    c::SYS_sched_getparam,
    c::SYS_sched_getscheduler,
    c::SYS_sched_setaffinity,
    c::SYS_sched_setparam,
    c::SYS_sched_setscheduler,
    c::SYS_seccomp,
    c::SYS_set_robust_list,
    c::SYS_set_tid_address,
    c::SYS_setpriority,
    c::SYS_setrlimit,
    c::SYS_shutdown,
    c::SYS_socketpair,
    c::SYS_statfs,
    c::SYS_statx,
    c::SYS_sysinfo,
    c::SYS_timerfd_create,
    c::SYS_timerfd_gettime,
    c::SYS_timerfd_settime,
    c::SYS_umask,
    c::SYS_uname,
    c::SYS_unlinkat,
    c::SYS_utimensat,
];

/// Older forms of the above, which newer CPUs do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    c::SYS_accept,
    c::SYS_access,
    c::SYS_arch_prctl,
    c::SYS_chmod,
    c::SYS_epoll_create,
    c::SYS_epoll_wait,
    c::SYS_getdents,
    c::SYS_lstat,
    c::SYS_mkdir,
    c::SYS_open,
    c::SYS_pipe,
    c::SYS_poll,
    c::SYS_readlink,
    c::SYS_rename,
    c::SYS_renameat,
    c::SYS_select,
    c::SYS_stat,
    c::SYS_time,
    c::SYS_unlink,
];
#[cfg(target_arch = "aarch64")]
const OLDER: &[i64] = &[c::SYS_accept, c::SYS_renameat];
#[cfg(target_arch = "riscv64")]
const OLDER: &[i64] = &[c::SYS_accept];

/// Families of sockets: control, names and frames.
const FAMILIES: [c::c_int; 6] = [c::AF_UNIX, c::AF_INET, c::AF_INET6, c::AF_NETLINK, c::AF_PACKET, c::AF_XDP];

/// Limits the calling thread, and those it starts, to a daemon's calls: sockets of the known
/// families, threads but no processes, no other program, and no memory that is both written and
/// executed.
pub(crate) fn daemon() -> io::Result<()> {
    let mut rules = free(FRAMES);
    rules.extend(free(DAEMON));
    rules.extend(free(OLDER));
    memory(&mut rules)?;
    let family = |family: &c::c_int| rule(&[(0, SeccompCmpOp::Eq, *family as u64)]);
    rules.insert(c::SYS_socket, FAMILIES.iter().map(family).collect::<io::Result<_>>()?);
    let thread = c::CLONE_THREAD as u64;
    rules.insert(c::SYS_clone, vec![rule(&[(0, SeccompCmpOp::MaskedEq(thread), thread)])?]);
    refuse_others(rules)?;
    // The flags of clone3 lie in memory, where a filter cannot look. With ENOSYS the C library
    // takes clone.
    let absent = SeccompAction::Errno(c::ENOSYS as u32);
    rights::install(&compiled(free(&[c::SYS_clone3]), SeccompAction::Allow, absent)?, false)
}

/// Limits the calling thread to frames.
pub(crate) fn frames() -> io::Result<()> {
    let mut rules = free(FRAMES);
    memory(&mut rules)?;
    // The standard library asks so before it closes, where assertions are on.
    rules.insert(c::SYS_fcntl, vec![rule(&[(1, SeccompCmpOp::Eq, c::F_GETFD as u64)])?]);
    refuse_others(rules)
}

fn free(calls: &[i64]) -> BTreeMap<i64, Vec<SeccompRule>> {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// Memory that is not written and executed at once, or executed later.
fn memory(rules: &mut BTreeMap<i64, Vec<SeccompRule>>) -> io::Result<()> {
    let without = |right: c::c_int| rule(&[(2, SeccompCmpOp::MaskedEq(right as u64), 0)]);
    rules.insert(c::SYS_mmap, vec![without(c::PROT_EXEC)?, without(c::PROT_WRITE)?]);
    rules.insert(c::SYS_mprotect, vec![without(c::PROT_EXEC)?]);
    Ok(())
}

fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> io::Result<SeccompRule> {
    let condition = |(argument, operator, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    };
    let conditions = conditions.iter().map(condition).collect::<Result<_, _>>().map_err(io::Error::other)?;
    SeccompRule::new(conditions).map_err(io::Error::other)
}

/// Allows these calls, and no others.
fn refuse_others(rules: BTreeMap<i64, Vec<SeccompRule>>) -> io::Result<()> {
    let refused = SeccompAction::Errno(c::EPERM as u32);
    rights::install(&compiled(rules, refused, SeccompAction::Allow)?, true)
}

fn compiled(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    named: SeccompAction,
) -> io::Result<BpfProgram> {
    let arch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, otherwise, named, arch).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}
