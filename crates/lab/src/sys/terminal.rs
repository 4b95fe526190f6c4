//! The terminal: its size, and single keys.

use std::io::{self, IsTerminal};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The rows of the terminal at standard output, if it is one.
#[must_use]
pub fn rows() -> Option<usize> {
    let mut size = MaybeUninit::<libc::winsize>::zeroed();
    // SAFETY: the pointer is to a winsize, which the kernel fills in if it returns 0.
    let done = unsafe { libc::ioctl(io::stdout().as_raw_fd(), libc::TIOCGWINSZ, size.as_mut_ptr()) };
    // SAFETY: all zeroes are a valid winsize too.
    let size = unsafe { size.assume_init() };
    (done == 0 && size.ws_row > 0).then_some(usize::from(size.ws_row))
}

/// Single keys of the terminal at standard input, without an echo. Dropped, the terminal is as it
/// was.
#[derive(Debug)]
pub struct Keys {
    /// The settings before. `None`: standard input is no terminal, and there are no keys.
    before: Option<libc::termios>,
}

impl Keys {
    /// Begins to read single keys.
    #[must_use]
    pub fn open() -> Self {
        let before = io::stdin().is_terminal().then(settings).flatten();
        if let Some(before) = &before {
            let mut keys = *before;
            keys.c_lflag &= !(libc::ICANON | libc::ECHO);
            (keys.c_cc[libc::VMIN], keys.c_cc[libc::VTIME]) = (0, 0);
            set(&keys);
        }
        Self { before }
    }

    /// The next key, if one is pressed within this time. A signal ends the wait.
    pub fn next(&mut self, patience: Duration) -> Option<u8> {
        let input = io::stdin().as_raw_fd();
        let mut polled = libc::pollfd { fd: input, events: libc::POLLIN, revents: 0 };
        let count = libc::nfds_t::from(self.before.is_some());
        let milliseconds = libc::c_int::try_from(patience.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: `polled` is one live pollfd, of which the kernel looks at `count`, 0 or 1.
        let ready = unsafe { libc::poll(&raw mut polled, count, milliseconds) };
        if ready != 1 {
            return None;
        }
        let mut key = 0u8;
        // SAFETY: the pointer is to one live octet.
        let read = unsafe { libc::read(input, (&raw mut key).cast(), 1) };
        if read != 1 {
            // The terminal is gone.
            self.before = None;
            return None;
        }
        Some(key)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            set(before);
        }
    }
}

fn settings() -> Option<libc::termios> {
    let mut settings = MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: the pointer is to a termios, which is filled in if the call returns 0.
    let done = unsafe { libc::tcgetattr(io::stdin().as_raw_fd(), settings.as_mut_ptr()) };
    // SAFETY: it was filled in.
    (done == 0).then(|| unsafe { settings.assume_init() })
}

fn set(settings: &libc::termios) {
    // SAFETY: the pointer is to a live termios.
    unsafe { libc::tcsetattr(io::stdin().as_raw_fd(), libc::TCSANOW, settings) };
}
