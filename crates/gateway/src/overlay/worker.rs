//! The forwarding thread of an overlay, and what the other threads ask of it.

use std::net::SocketAddrV4;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::Sender as Answer;

use antedate_channel::wireguard::Done;

use super::path::Path;
use super::report::Snapshot;
use super::uplink::{Inward, Port};
use crate::delivery::Delivery;
use crate::duty::{Duty, WAKE_UP, forward};
use crate::mailbox::Mailbox;
use crate::poll::{Governor, Mode};
use crate::sys::packet::Receiver;
use crate::sys::route::Hop;
use crate::sys::thread;

/// Steps of preparation between two looks at the ports: some 50 ns each, and a look at the socket takes longer.
const STEPS: u32 = 4;

/// Nanoseconds for which letters let frames go first.
const LETTERS_WAIT: u64 = 2_000_000;

/// Which uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// That of `[uplink]`.
    First,
    /// That of `[overlay.second_uplink]`.
    Second,
}

impl Which {
    /// The key with the address at which it listens.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::First => "overlay.listen",
            Self::Second => "overlay.second_uplink.listen",
        }
    }
}

/// What the other threads ask.
pub enum Letter {
    /// Tell the state of all there is.
    Snapshot(Answer<Snapshot>),
    /// Make new sessions with all peers now.
    Rekey,
    /// Use this field port from now on, for the interface was replaced or has another MTU.
    Field(Receiver, Delivery, usize),
    /// Use this uplink from now on, likewise.
    Uplink(Which, Port, usize),
    /// A part of a handshake is done.
    Handshake(Done),
    /// The next hop towards an address, or that the kernel knows none.
    Hop(Which, SocketAddrV4, Option<Hop>),
    /// Send no more and end.
    Stop,
}

/// The thread.
pub struct Worker {
    path: Path,
    mode: Mode,
    mailbox: Arc<Mailbox<Letter>>,
    /// When the mailbox is looked into whatever is due.
    letters_by: u64,
}

impl Worker {
    /// What it forwards, how it waits, and where the others' letters come.
    #[must_use]
    pub const fn new(path: Path, mode: Mode, mailbox: Arc<Mailbox<Letter>>) -> Self {
        Self { path, mode, mailbox, letters_by: 0 }
    }

    /// Forwards until it is told to stop.
    pub fn run(mut self) {
        let mode = self.mode;
        forward(&mut self, mode);
    }

    /// Whether letters wait for a frame that the release clock gives out next: telling the state takes as long as a frame
    /// may be off its beat.
    #[inline]
    fn letters_wait(&mut self) -> bool {
        let Some(due) = self.path.due() else { return false };
        let now = thread::now();
        let wait = due < now + WAKE_UP && now < self.letters_by;
        if !wait {
            self.letters_by = now + LETTERS_WAIT;
        }
        wait
    }
}

impl Duty for Worker {
    const PUNCTUAL: bool = true;

    #[inline]
    fn letter(&mut self, governor: &Governor) -> ControlFlow<(), bool> {
        if self.letters_wait() {
            return ControlFlow::Continue(false);
        }
        let Some(letter) = self.mailbox.take() else { return ControlFlow::Continue(false) };
        match letter {
            Letter::Snapshot(answer) => {
                self.path.census();
                // Who asked may have gone; nothing depends on it.
                let _ = answer.send(Snapshot::take(&self.path, governor));
            }
            Letter::Rekey => self.path.rekey(),
            Letter::Field(from, to, mtu) => self.path.replace_field(from, to, mtu),
            Letter::Uplink(which, port, mtu) => self.path.replace_uplink(which, port, mtu),
            Letter::Handshake(done) => self.path.handshake(done),
            Letter::Hop(which, to, hop) => self.path.learn_hop(which, to, hop),
            Letter::Stop => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(true)
    }

    #[inline]
    fn turn(&mut self, heard: impl FnMut(u32)) -> usize {
        self.path.turn(heard)
    }

    #[inline]
    fn due(&self) -> Option<u64> {
        self.path.due()
    }

    fn steps(&mut self) -> u32 {
        STEPS
    }

    #[inline]
    fn prepare(&mut self, steps: u32) -> u32 {
        self.path.idle(steps)
    }

    #[inline]
    fn rehearse(&mut self, looks: u32) {
        self.path.rehearse(looks);
    }

    fn sleep(&mut self, pause: std::time::Duration) {
        let (field, uplink, second) = self.path.ports();
        let [ring, socket] = uplink.descriptors();
        let [ring_2, socket_2] = second.map_or([-1; 2], Inward::descriptors);
        let fds = [field.as_raw_fd(), ring, socket, ring_2, socket_2, self.mailbox.as_raw_fd()];
        let [from_field, from_uplink, _, from_second, ..] = thread::wait(fds, Some(pause));
        // A link that went down leaves an error, which would end every wait at once until it is taken.
        if from_field && !field.ready() {
            field.take_error();
        }
        if from_uplink {
            uplink.take_error();
        }
        if let (true, Some(second)) = (from_second, second) {
            second.take_error();
        }
    }
}
