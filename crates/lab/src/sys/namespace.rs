//! Network namespaces, and a user namespace without root.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use super::check;

/// Moves the calling thread into the network namespace behind `file` (an open `/run/netns/NAME`).
pub fn enter(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call; setns touches the calling thread alone.
    check(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Puts `file` in the place of the file `there`, for the calling thread and those it starts alone.
///
/// # Errors
/// When the kernel refuses a mount namespace or the mount.
pub fn cover(there: &Path, file: &Path) -> io::Result<()> {
    let [there, file] = [there, file].map(|path| CString::new(path.as_os_str().as_bytes()));
    let (there, file) = (there?, file?);
    // SAFETY: takes flags only; the calling thread alone gets a copy of the mounts.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    for (from, to, flags) in
        [(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE), (file.as_c_str(), there.as_c_str(), libc::MS_BIND)]
    {
        // SAFETY: both strings are NUL-terminated and outlive the call; the type and data pointers
        // may be null for these flags.
        check(unsafe { libc::mount(from.as_ptr(), to.as_ptr(), ptr::null(), flags, ptr::null()) })?;
    }
    Ok(())
}

/// Whether the process is root in its user namespace.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: takes nothing.
    unsafe { libc::geteuid() == 0 }
}

/// Becomes root of a new user namespace with its own network and mount namespaces and an empty
/// `/run`.
///
/// The process must have one thread; otherwise the kernel answers `EINVAL`.
pub fn become_root_of_new_user_namespace() -> io::Result<()> {
    // SAFETY: take nothing.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: takes flags only.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::CLONE_NEWNS) })?;
    // An ordinary user may write gid_map only after giving up setgroups (user_namespaces(7)).
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    // SAFETY: both strings are NUL-terminated literals; the type and data pointers may be null for
    // these flags.
    check(unsafe {
        libc::mount(
            c"none".as_ptr(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        )
    })?;
    // `ip netns` keeps its names under /run, which an ordinary user cannot write to.
    // SAFETY: all strings are NUL-terminated literals; the data pointer may be null.
    check(unsafe {
        libc::mount(
            c"tmpfs".as_ptr(),
            c"/run".as_ptr(),
            c"tmpfs".as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV,
            std::ptr::null(),
        )
    })
    .map(drop)
}
