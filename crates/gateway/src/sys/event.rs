//! An event counter (`eventfd(2)`), with which another thread ends the forwarding thread's wait.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::check;

/// Wakes the waiting thread. A wake without a waiting thread is kept.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// A counter at zero.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; a successful call returns a descriptor without another owner.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: `fd` was just opened and has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Ends the current or the next wait of the other thread.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the buffer has the eight bytes of an eventfd write. A full counter, the only
        // possible error, wakes as well.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Clears all wakes.
    pub fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the buffer has the eight bytes of an eventfd read. EAGAIN means that there was
        // none.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsRawFd for Event {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
