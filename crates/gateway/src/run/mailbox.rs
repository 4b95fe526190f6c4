//! Messages of other threads to a forwarding thread, which never waits for them.
//!
//! A sender queues a message and sets a flag. The forwarding thread checks the flag between two
//! frames. An event wakes it if it sleeps.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys::event::Event;

/// A queue of messages to one thread.
#[derive(Debug)]
pub struct Mailbox<T> {
    full: AtomicBool,
    messages: Mutex<VecDeque<T>>,
    event: Event,
}

impl<T> Mailbox<T> {
    /// An empty mailbox.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { full: AtomicBool::new(false), messages: Mutex::default(), event: Event::new()? })
    }

    /// Queues a message and wakes the thread.
    pub fn post(&self, message: T) {
        let mut messages = self.messages.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        messages.push_back(message);
        drop(messages);
        self.full.store(true, Ordering::Release);
        self.event.wake();
    }

    /// Whether no message waits. Costs one memory read.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.full.load(Ordering::Acquire)
    }

    /// The next message. Costs one memory read when there is none.
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
        let mut messages = self.messages.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let message = messages.pop_front();
        if messages.is_empty() {
            self.full.store(false, Ordering::Release);
            self.event.clear();
        }
        message
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
    use crate::sys::thread::{self, Woken};
    use std::time::Duration;

    #[test]
    fn messages_keep_order_and_end_a_wait() {
        let mailbox = Mailbox::new().unwrap();
        assert_eq!(mailbox.take(), None);
        mailbox.post(1);
        mailbox.post(2);
        assert_eq!(thread::wait([mailbox.as_raw_fd()], Some(Duration::from_secs(5))), [Woken::Readable]);
        assert_eq!([mailbox.take(), mailbox.take(), mailbox.take()], [Some(1), Some(2), None]);
        assert_eq!(thread::wait([mailbox.as_raw_fd()], Some(Duration::ZERO)), [Woken::No]);
    }
}
