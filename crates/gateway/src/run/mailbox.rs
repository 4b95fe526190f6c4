//! How the other threads talk to a forwarding thread without ever making it wait.
//!
//! A letter is left in the box and a flag is raised; the forwarding thread looks at the flag between two frames and
//! empties the box when it is up. A thread that sleeps is woken by an event.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys::event::Event;

/// A box for letters to one thread.
#[derive(Debug)]
pub struct Mailbox<T> {
    full: AtomicBool,
    letters: Mutex<VecDeque<T>>,
    event: Event,
}

impl<T> Mailbox<T> {
    /// An empty box.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { full: AtomicBool::new(false), letters: Mutex::default(), event: Event::new()? })
    }

    /// Leaves a letter and wakes the thread.
    pub fn post(&self, letter: T) {
        let mut letters = self.letters.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        letters.push_back(letter);
        drop(letters);
        self.full.store(true, Ordering::Release);
        self.event.wake();
    }

    /// The next letter. Costs one read of memory when there is none.
    #[inline]
    pub fn take(&self) -> Option<T> {
        if !self.full.load(Ordering::Acquire) {
            return None;
        }
        self.empty_one()
    }

    #[cold]
    #[inline(never)]
    fn empty_one(&self) -> Option<T> {
        let mut letters = self.letters.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let letter = letters.pop_front();
        if letters.is_empty() {
            self.full.store(false, Ordering::Release);
            self.event.clear();
        }
        letter
    }
}

impl<T> AsRawFd for Mailbox<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::thread;
    use std::time::Duration;

    #[test]
    fn letters_come_in_order_and_end_a_wait() {
        let mailbox = Mailbox::new().unwrap();
        assert_eq!(mailbox.take(), None);
        mailbox.post(1);
        mailbox.post(2);
        assert_eq!(thread::wait([mailbox.as_raw_fd()], Some(Duration::from_secs(5))), [true]);
        assert_eq!([mailbox.take(), mailbox.take(), mailbox.take()], [Some(1), Some(2), None]);
        assert_eq!(thread::wait([mailbox.as_raw_fd()], Some(Duration::ZERO)), [false]);
    }
}
