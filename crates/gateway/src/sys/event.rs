//! An event counter (`eventfd(2)`): another thread ends the forwarding thread's wait with it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::check;

/// Wakes whoever waits on it; a wake that nobody waits for is kept.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// A counter at zero.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; a successful call gives a descriptor that nobody else owns.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: `fd` was just opened and is owned here alone.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Ends the wait of the other thread, or its next one.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the buffer is eight bytes, as eventfd wants. A full counter (the only possible error) wakes as well.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Takes all wakes that have come.
    pub fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the buffer is eight bytes, as eventfd wants. EAGAIN means that there was none.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsRawFd for Event {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
