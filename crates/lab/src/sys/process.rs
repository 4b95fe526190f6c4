//! Starting a child in its namespace, on its core, bound to its parent's life.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::check;

/// Arranges that the child enters `netns`, runs on `cpus`, leaves the terminal's process group (so
/// that Ctrl-C reaches the parent alone, which then ends its children in order) and is killed when
/// the calling thread ends.
///
/// `netns` must stay open until the child was started. The parent-death signal follows the calling
/// thread, so call and spawn from a thread that lives as long as the children, usually the main
/// thread.
pub fn arrange(command: &mut Command, netns: Option<&File>, cpus: &[usize]) {
    let netns = netns.map(AsRawFd::as_raw_fd);
    let cpus = cpus.to_vec();
    let parent = std::process::id();
    command.process_group(0);
    let prepare = move || {
        // SAFETY: PR_SET_PDEATHSIG takes one integer.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) })?;
        // SAFETY: takes nothing.
        if unsafe { libc::getppid() } as u32 != parent {
            // The parent died between fork and prctl, so no signal will come.
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        if let Some(fd) = netns {
            // SAFETY: the caller keeps the descriptor open across the spawn.
            check(unsafe { libc::setns(fd, libc::CLONE_NEWNET) })?;
        }
        super::sched::pin(&cpus)
    };
    // SAFETY: between fork and exec the closure makes system calls alone; it neither allocates nor
    // takes locks.
    unsafe { command.pre_exec(prepare) };
}

/// Sends `signal` to a child.
pub fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    let number = match signal {
        Signal::Terminate => libc::SIGTERM,
        Signal::Kill => libc::SIGKILL,
        Signal::Stop => libc::SIGSTOP,
        Signal::Continue => libc::SIGCONT,
    };
    // SAFETY: takes integers only. A pid of a child that was not waited for yet cannot name another
    // process.
    check(unsafe { libc::kill(pid as libc::pid_t, number) }).map(drop)
}

/// Signals to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Continue,
}
