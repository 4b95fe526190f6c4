//! Privileges and capabilities of threads (`capabilities(7)`), and filters of system calls.

use std::io;

use super::check;

/// A capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Files of other users.
    DacOverride = 1,
    /// Larger socket buffers, and settings of interfaces.
    NetAdmin = 12,
    /// Packet sockets.
    NetRaw = 13,
    /// Locked memory beyond the limit.
    IpcLock = 14,
    /// Ports below 1024.
    NetBindService = 10,
    /// Fixed priorities.
    SysNice = 23,
}

/// The third form of the capability calls: two words of 32 capabilities for each set.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    thread: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The user that this process acts as.
pub(crate) fn user() -> u32 {
    // SAFETY: takes nothing, and cannot fail.
    unsafe { libc::geteuid() }
}

/// Forbids new privileges by an executed program, for this thread and those it starts.
pub(crate) fn no_new_privileges() -> io::Result<()> {
    let (on, none) = (1 as libc::c_ulong, 0 as libc::c_ulong);
    // SAFETY: takes integers only.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, on, none, none, none) }).map(drop)
}

/// Gives up the calling thread's capabilities but these. Those that it has not stay away.
pub(crate) fn keep(capabilities: &[Capability]) -> io::Result<()> {
    let mut header = Header { version: VERSION, thread: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: pointers to a live header and to two live sets, as this version has.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
    check(got as libc::c_int)?;
    let kept = capabilities.iter().fold(0, |kept, capability| kept | 1 << *capability as u32);
    let [low, high] = sets;
    let permitted = low.permitted & kept;
    if (permitted, high.permitted) == (low.permitted, 0) {
        return Ok(());
    }
    // Ambient capabilities go with the inheritable ones.
    let sets = [Sets { effective: low.effective & kept, permitted, inheritable: 0 }, Sets::default()];
    // SAFETY: as above; the kernel only reads.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) };
    check(set as libc::c_int).map(drop)
}

/// Adds a filter of system calls to the calling thread and those it starts. With `tells` the kernel
/// logs what it refuses, as an audit message of type 1326.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
pub(crate) fn install(program: &[seccompiler::sock_filter], tells: bool) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
    // Without the flag, kernels before 5.16 slow down all code of a filtered thread against
    // speculative store bypass. This process runs no foreign code.
    let log = if tells { libc::SECCOMP_FILTER_FLAG_LOG } else { 0 };
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW | log;
    // SAFETY: a pointer to a live program of `len` instructions, which the kernel only reads.
    let set =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    check(set as libc::c_int).map(drop)
}
